/* SPDX-License-Identifier: Apache-2.0 */
/* train_cuda.h - operations of training on arrays of a CUDA device.
 *
 * The kernels are in a module, cuda*.cu, which links cuBLAS and is loaded when a net is trained on
 * a device; no CUDA type is visible here.
 *
 * Arrays are device memory, row after row. Those of `type` are float or bf16, as the net computes;
 * weights, gradients and the residual stream are float. Everything is enqueued on one stream, or on
 * a second one in parallel, and only `wait` and `get` wait for it; errors are kept until then. No
 * order of a sum depends on anything but shapes. */
#ifndef TS_TRAIN_CUDA_H
#define TS_TRAIN_CUDA_H

#include <stdbool.h>

#include "touchstone/touchstone.h"

/* Widths, of heads and feed-forward too, are multiples of this, so that rows can be read 16 bytes
 * at a time. */
enum { TS_CUDA_EACH = 8 };

/* c = scale a b, or c += that, as ts_product has it; a, b of `in`, c of `out`. Elements from a row
 * of c to the next: n_c; of a (turned or not) and of b: n_a, n_b. */
typedef struct ts_cuda_product {
    ts_dtype     in, out;
    const void  *a, *b;
    void        *c;
    int64_t      m, n, k, n_a, n_b, n_c;
    bool         turn_a, turn_b, add;
    const float *scale; /* [1]; NULL: 1 */
    bool         aside; /* on the second stream, after `fork` */
} ts_cuda_product;

/* Effective weights, stored in addition to the weights: none, a copy in bf16, or the ternary
 * projection, with a scale per group or per two groups. */
typedef enum ts_cuda_serving {
    TS_SERVE_SAME,
    TS_SERVE_COPY,
    TS_SERVE_TERNARY,
    TS_SERVE_PAIRED
} ts_cuda_serving;

typedef struct ts_cuda_project {
    ts_dtype        type;
    ts_cuda_serving how;
    const float    *w;
    void           *y;
    int64_t         rows, cols;
    int64_t        *n_bad; /* += groups that cannot be projected */
} ts_cuda_project;

enum { TS_CUDA_NORMS = 4096 };

typedef enum ts_cuda_part {
    TS_PART_PRODUCT,
    TS_PART_HEAD, /* products with the vocabulary */
    TS_PART_ATTENTION,
    TS_PART_NORM,
    TS_PART_HEADS,
    TS_PART_SWIGLU,
    TS_PART_ENTROPY,
    TS_PART_EMBED,
    TS_PART_PROJECT,
    TS_PART_ADAMW,
    TS_PARTS
} ts_cuda_part;

/* What the module exports as `ts_train_cuda`. */
typedef struct ts_train_module {
    int abi; /* TS_TRAIN_CUDA_ABI */
    bool (*open)(void **self, char *why, size_t n_why);
    void (*close)(void *self);
    void *(*stream)(void *self);
    ts_status (*wait)(void *self);

    void (*put)(void *self, void *to, const void *host, size_t n_bytes);
    ts_status (*get)(void *self, void *host, const void *from, size_t n_bytes); /* waits */
    void (*clear)(void *self, void *p, size_t n_bytes);

    /* What is enqueued between these two is recorded, not run; `end` gives what `play` enqueues.
     * NULL: it could not be. */
    void (*record)(void *self);
    void *(*recorded)(void *self);
    void (*play)(void *self, void *recording);
    void (*forget)(void *self, void *recording);

    /* A second stream, for work that nothing waits for at once: it continues from where the first
     * stream is at `fork`; `meet` makes the first one wait for where the other was at the same
     * slot's `leave`. */
    void (*fork)(void *self);
    void (*leave)(void *self, int slot);
    void (*meet)(void *self, int slot);

    /* From `watch` on, `part` names the part of a step that the following work belongs to;
     * TS_PARTS: none. `times` waits, adds up milliseconds [TS_PARTS], and ends the measurement. */
    void (*watch)(void *self);
    void (*part)(void *self, ts_cuda_part p);
    ts_status (*times)(void *self, double *ms);

    void (*product)(void *self, const ts_cuda_product *p);
    void (*project)(void *self, const ts_cuda_project *p);
    /* norm[0] = that of the gradient, norm[1] = what clips it to `most`, NaN where it is not
     * finite; [2 + TS_CUDA_NORMS], for parts of the sum. */
    void (*clip)(void *self, const float *gradient, int64_t n, double most, double *norm);
} ts_train_module;

enum { TS_TRAIN_CUDA_ABI = 3, TS_CUDA_BESIDES = 2 };

#endif

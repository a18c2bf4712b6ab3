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

/* Blocks that sum the gradients of gains, each into its own row. */
enum { TS_CUDA_SUMS = 264 };

/* What a net may have: a row is held in registers. Widths, of heads and feed-forward too, are
 * multiples of TS_CUDA_EACH, so that rows can be read 16 bytes at a time. */
enum { TS_CUDA_WIDTH = 4096, TS_CUDA_HEAD_DIM = 256, TS_CUDA_EACH = 8 };

/* c = a b, or c += that, as ts_product has it; a, b of `in`, c of `out`. Elements from a row of c
 * to the next: n_c; of a (turned or not) and of b: n_a, n_b. */
typedef struct ts_cuda_product {
    ts_dtype    in, out;
    const void *a, *b;
    void       *c;
    int64_t     m, n, k, n_a, n_b, n_c;
    bool        turn_a, turn_b, add;
    bool        aside; /* on the second stream, after `fork` */
} ts_cuda_product;

/* sum = x + t, and h = its norm times gain. t NULL: nothing is added, and sum not written. */
typedef struct ts_cuda_norm {
    ts_dtype     type;
    const float *x;
    const void  *t;
    float       *sum;
    void        *h;
    const float *gain;
    int64_t      n, width;
    double       eps;
} ts_cuda_norm;

/* dx = the gradient of x, or dx += that, from dh; `narrow` gets it in the net's type, where it is
 * not NULL. Block b adds up the gain's gradient in sums[b][0 .. width), a row being n_sums long. */
typedef struct ts_cuda_norm_back {
    ts_dtype     type;
    const float *x, *gain;
    const void  *dh;
    float       *dx;
    void        *narrow;
    float       *sums;
    int64_t      n, width, n_sums;
    double       eps;
    bool         add;
} ts_cuda_norm_back;

/* Between the product's rows, [n][(n_head + 2 n_kv_head) head_dim], and q, k, v for attention:
 * norms of q and k, and the rotation. turn is [n_token][head_dim / 2][2]. */
typedef struct ts_cuda_heads {
    ts_dtype     type;
    void        *rows, *q, *k, *v;
    const float *q_gain, *k_gain, *turn;
    int64_t      n, n_token, n_head, n_kv_head, head_dim;
    double       eps;
    void        *d_rows; /* backward: from q, k and v, which are gradients then; sums as above */
    float       *q_sums, *k_sums;
    int64_t      n_sums;
} ts_cuda_heads;

/* Where a batch's numbers are, and how they are summed. */
typedef struct ts_cuda_score {
    double  nll;
    int64_t n_count, n_right;
    int64_t n_bad; /* groups of latents that cannot be projected, since they last were */
} ts_cuda_score;

/* Rows of logits, n_row elements apart, become the gradient of *weight * nll. */
typedef struct ts_cuda_entropy {
    ts_dtype       type;
    void          *logits;
    const int32_t *target; /* [n] */
    int64_t        n, n_vocab, n_row;
    const float   *weight; /* NULL: loss alone, and logits stay */
    double        *nll;    /* [n] */
    int32_t       *right;  /* [n] */
} ts_cuda_entropy;

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
    int64_t        *n_bad;
} ts_cuda_project;

/* AdamW as in adamw.h, in float, for a ternary net whose groups are those of one long row: w is
 * then also written to y, projected, for the first n_matrix weights. */
typedef struct ts_cuda_adamw {
    ts_dtype      type;
    float        *w, *m, *v;
    const float  *gradient;
    void         *y;
    int64_t       n, n_matrix;
    double        lr, beta1, beta2, eps, decay, bias1, bias2;
    const double *scale; /* of the gradient; NaN: nothing changes */
    int64_t      *n_bad;
} ts_cuda_adamw;

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
    void (*norm)(void *self, const ts_cuda_norm *r);
    void (*norm_back)(void *self, const ts_cuda_norm_back *r);
    void (*heads)(void *self, const ts_cuda_heads *h);
    void (*heads_back)(void *self, const ts_cuda_heads *h);
    void (*entropy)(void *self, const ts_cuda_entropy *e);
    /* nll, right and targets of n rows, added to *s. */
    void (*score)(void *self, const double *nll, const int32_t *right, const int32_t *target,
                  int64_t n, ts_cuda_score *s);
    /* y = the sum of TS_CUDA_SUMS rows of n, or y += that. */
    void (*sum)(void *self, float *y, const float *sums, int64_t n, bool add);
    void (*project)(void *self, const ts_cuda_project *p);
    /* norm[0] = that of the gradient, norm[1] = what clips it to `most`, NaN where it is not
     * finite; [2 + TS_CUDA_NORMS], for parts of the sum. */
    void (*clip)(void *self, const float *gradient, int64_t n, double most, double *norm);
    void (*adamw)(void *self, const ts_cuda_adamw *a);
} ts_train_module;

enum { TS_TRAIN_CUDA_ABI = 2, TS_CUDA_BESIDES = 2 };

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h - what forward does to arrays, in one precision and on one device.
 *
 * The CPU's are in ops_tmpl.h; those of a CUDA device in a module, ops_cuda.cu, which links cuBLAS
 * and is loaded when a model is to run there. No CUDA type is seen here. */
#ifndef TS_MODEL_OPS_H
#define TS_MODEL_OPS_H

#include <stdbool.h>

#include "touchstone/touchstone.h"

/* y[i] = x w[i]^T, or y[i] += that, of up to three matrices [n_out[i]][n_in] in TS_BF16 or TS_F16;
 * x and y are float. 8 divides n_in. */
enum { TS_HALF_MATRICES = 3 };
typedef struct ts_half_product {
    ts_dtype    dtype;
    int         n_matrix;
    const void *w[TS_HALF_MATRICES];
    void       *y[TS_HALF_MATRICES];
    int64_t     n_out[TS_HALF_MATRICES];
    const void *x;
    int64_t     n, n_in;
    bool        add;
} ts_half_product;

/* Arrays are memory of the device, row after row. `self` is what `open` made; NULL on the CPU. */
typedef struct ts_ops {
    /* Called around a pass; NULL on the CPU. The work between them is enqueued on `stream`; `end`
     * waits for it, and returns whether it failed. */
    void (*begin)(void *self, void *stream);
    ts_status (*end)(void *self);
    /* From memory of the host, which may change as soon as this is back. */
    void (*put)(void *self, void *to, const void *host, size_t n_bytes); /* a multiple of 4 */
    /* y[i] = table[row[i]] of a table of ternary codes and scales, as ternary.h packs them. */
    void (*gather_packed)(void *self, void *y, const uint8_t *code, const uint16_t *scale,
                          const int32_t *row, int64_t n, int64_t width);
    /* y = x + bias, or y += that; x or bias may be NULL, for 0. y may be x. */
    void (*sum)(void *self, void *y, const void *x, const void *bias, int64_t n, int64_t width,
                bool add);
    /* y = x w^T + bias, or y += that. w [n_out][n_in]; bias may be NULL. */
    void (*linear)(void *self, void *y, const void *x, const void *w, const void *bias, int64_t n,
                   int64_t n_out, int64_t n_in, bool add);
    void (*gelu)(void *self, void *up, int64_t n); /* by tanh */
    /* Of matrices in 16 bits; NULL on the CPU, where encoded.c multiplies. */
    void (*linear_half)(void *self, const ts_half_product *p);
} ts_ops;

extern const ts_ops ts_ops_f32, ts_ops_f64;

void ts_blas_threads(int64_t n_products); /* for a product of that many multiplications */
void ts_blas_limit(int n_threads);        /* the most from now on; 0: as before */

/* What the module exports as `ts_model_cuda`. */
typedef struct ts_model_module {
    int           abi; /* TS_MODEL_CUDA_ABI */
    const ts_ops *f32;
    /* A handle of cuBLAS and its workspace. False: `why` has a line. */
    bool (*open)(void **self, char *why, size_t n_why);
    void (*close)(void *self);
} ts_model_module;

enum { TS_MODEL_CUDA_ABI = 5 };

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu.h - the gated activation of feed-forward layers, forward and backward.
 *
 * Element by element, with s = 1 / (1 + exp(-gate)) and silu(gate) = gate s:
 *     y = silu(gate) up,
 *     dgate = dy up s (1 + gate (1 - s)),   dup = dy silu(gate).
 *
 * All tensors have `dtype`: TS_F32, TS_BF16, TS_F16, or TS_F64 (reference only). Row r begins at
 * element r * x_stride of gate, up, dgate and dup, and at element r * y_stride of y and dy. So gate
 * and up may be the two halves of one matrix with rows of 2 n_cols elements.
 *
 * Results are correct wherever they are representable, even if exp(gate), s or a product of two of
 * the factors is not; only the results are rounded to dtype. silu(-infinity) is 0 and its slope 0;
 * silu(infinity) is infinity and its slope 1. Otherwise infinities and NaN follow the products of
 * these factors, where an infinity times an s below the smallest normal may be NaN. A NaN affects
 * only its own element. Subnormal results may be flushed to zero. */
#ifndef TOUCHSTONE_SWIGLU_H
#define TOUCHSTONE_SWIGLU_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments of ts_swiglu_forward. */
typedef struct ts_swiglu_forward_args {
    ts_dtype    dtype;     /* of all tensors */
    int64_t     n_rows;    /* >= 0 */
    int64_t     n_cols;    /* >= 1 */
    int64_t     x_stride;  /* elements from row to row of gate and up, >= n_cols */
    int64_t     y_stride;  /* elements from row to row of y, >= n_cols; x_stride if y is an input */
    const void *gate, *up; /* [n_rows][n_cols], inputs */
    void       *y;         /* [n_rows][n_cols], output; may be gate or up */
} ts_swiglu_forward_args;

/* Arguments of ts_swiglu_backward. */
typedef struct ts_swiglu_backward_args {
    ts_dtype dtype;    /* of all tensors */
    int64_t  n_rows;   /* >= 0 */
    int64_t  n_cols;   /* >= 1 */
    int64_t  x_stride; /* elements from row to row of gate, up, dgate, dup; >= n_cols */
    int64_t  y_stride; /* elements from row to row of dy, >= n_cols; x_stride if an output is dy */
    const void *gate, *up;   /* [n_rows][n_cols], forward's inputs */
    const void *dy;          /* [n_rows][n_cols], gradient of y */
    void       *dgate, *dup; /* [n_rows][n_cols], gradients of gate and up: two different buffers,
                                each of which may be gate, up or dy */
} ts_swiglu_backward_args;

/* Computes y. */
TS_API ts_status ts_swiglu_forward(const ts_swiglu_forward_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_swiglu_forward needs for these arguments. */
TS_API ts_status ts_swiglu_forward_workspace(const ts_swiglu_forward_args *a, const ts_exec *x,
                                             size_t *n_bytes);

/* Computes dgate and dup. */
TS_API ts_status ts_swiglu_backward(const ts_swiglu_backward_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_swiglu_backward needs for these arguments. */
TS_API ts_status ts_swiglu_backward_workspace(const ts_swiglu_backward_args *a, const ts_exec *x,
                                              size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu.h - the gated activation of feed-forward layers, forward and backward.
 *
 * Element by element, with s = 1 / (1 + exp(-gate)) and silu(gate) = gate s:
 *     y = silu(gate) up,
 *     dgate = dy up s (1 + gate (1 - s)),   dup = dy silu(gate).
 *
 * All tensors have `dtype`: TS_F32, TS_BF16, TS_F16, or TS_F64 (reference only). Row r begins
 * r * x_stride elements into gate, up, dgate and dup, and r * y_stride into y and dy. So gate and
 * up may be the halves of one product's rows.
 *
 * Results are correct wherever they are representable, even if exp(gate), s or a product of two of
 * the factors is not; nothing is rounded to dtype but the results. silu(-infinity) is 0 and its
 * slope 0; silu(infinity) is infinity and its slope 1. Otherwise infinities and NaN do as in
 * products of these factors, where an infinity times an s below the smallest normal may be NaN. A
 * NaN stays in its place. Subnormal results may be flushed to zero. */
#ifndef TOUCHSTONE_SWIGLU_H
#define TOUCHSTONE_SWIGLU_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_swiglu_forward_args {
    ts_dtype    dtype;
    int64_t     n_rows;    /* >= 0 */
    int64_t     n_cols;    /* >= 1 */
    int64_t     x_stride;  /* >= n_cols */
    int64_t     y_stride;  /* >= n_cols; x_stride where y is gate or up */
    const void *gate, *up; /* [n_rows][n_cols] */
    void       *y;         /* [n_rows][n_cols]; may be gate or up */
} ts_swiglu_forward_args;

typedef struct ts_swiglu_backward_args {
    ts_dtype    dtype;
    int64_t     n_rows;      /* >= 0 */
    int64_t     n_cols;      /* >= 1 */
    int64_t     x_stride;    /* >= n_cols */
    int64_t     y_stride;    /* >= n_cols; x_stride where an output is dy */
    const void *gate, *up;   /* [n_rows][n_cols] */
    const void *dy;          /* [n_rows][n_cols] */
    void       *dgate, *dup; /* [n_rows][n_cols]; each may be gate, up or dy, but not both one */
} ts_swiglu_backward_args;

TS_API ts_status ts_swiglu_forward(const ts_swiglu_forward_args *a, const ts_exec *x);
TS_API ts_status ts_swiglu_forward_workspace(const ts_swiglu_forward_args *a, const ts_exec *x,
                                             size_t *n_bytes);

TS_API ts_status ts_swiglu_backward(const ts_swiglu_backward_args *a, const ts_exec *x);
TS_API ts_status ts_swiglu_backward_workspace(const ts_swiglu_backward_args *a, const ts_exec *x,
                                              size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif

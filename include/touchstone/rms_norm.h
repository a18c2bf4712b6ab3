/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm.h - root-mean-square normalisation over the last axis with the residual addition fused,
 * forward and backward.
 *
 * For each row, with gain = w + w_offset:
 *     r = x + residual, rounded to dtype,  rstd = 1 / sqrt(avg(r^2) + eps),  y = r * rstd * gain.
 * Without a residual r is x. Backward, with g = dy * gain:
 *     dx = rstd * (g - r * rstd^2 * avg(g * r)) + dr,   dw = sum over rows of dy * r * rstd.
 * dr is the gradient that reaches r on another path; dx is the gradient of x and of the residual.
 * Forward keeps rstd for backward, one number per row, and r, which the next layer needs too.
 *
 * x, residual, r, y, w, dy, dr and dx have `dtype`: TS_F32, TS_BF16, TS_F16, or TS_F64 (reference
 * only). rstd and dw are float, or double when dtype is TS_F64. w + w_offset is not rounded to
 * dtype. Row i of every matrix begins at element i * row_stride.
 *
 * Results are correct wherever they are representable, even if r^2 overflows or vanishes. A row
 * whose r has a NaN or an infinity has NaN in its y; its rstd is unspecified. Backward, a row whose
 * rstd is NaN has NaN in its dx and makes all of dw NaN. A NaN in dy makes its row of dx and its
 * column of dw NaN; a NaN in dr makes its own element of dx NaN. Other rows and columns are not
 * affected. r is the correctly rounded sum; other subnormal results may be flushed to zero. */
#ifndef TOUCHSTONE_RMS_NORM_H
#define TOUCHSTONE_RMS_NORM_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments of ts_rms_norm_forward. */
typedef struct ts_rms_norm_forward_args {
    ts_dtype    dtype;      /* of x, residual, w, r and y */
    int         w_offset;   /* added to w: 0 or 1 */
    int64_t     n_rows;     /* >= 0 */
    int64_t     n_cols;     /* >= 1 */
    int64_t     row_stride; /* elements from row to row of every matrix, >= n_cols */
    double      eps;        /* added to the mean square; > 0, finite */
    const void *x;          /* [n_rows][n_cols], input */
    const void *residual;   /* [n_rows][n_cols], added to x; or NULL */
    const void *w;          /* [n_cols], gain */
    void       *r;          /* [n_rows][n_cols], output; may be x; not used without a residual */
    void       *y;          /* [n_rows][n_cols], output */
    void       *rstd;       /* [n_rows], output that backward reads */
} ts_rms_norm_forward_args;

/* Arguments of ts_rms_norm_backward. */
typedef struct ts_rms_norm_backward_args {
    ts_dtype    dtype;      /* of r, dy, dr, w and dx */
    int         w_offset;   /* as in forward */
    int         accumulate; /* 1: add to dw instead of overwriting it */
    int64_t     n_rows;     /* >= 0; with 0, dw is 0, or kept if accumulate */
    int64_t     n_cols;     /* >= 1 */
    int64_t     row_stride; /* elements from row to row of every matrix, >= n_cols */
    const void *r, *dy;     /* [n_rows][n_cols], forward's sum and the gradient of y */
    const void *dr;         /* [n_rows][n_cols], gradient of r on another path; NULL: 0 */
    const void *w;          /* [n_cols], gain */
    const void *rstd;       /* [n_rows], as forward wrote it */
    void       *dx;         /* [n_rows][n_cols], gradient of x and of the residual */
    void       *dw;         /* [n_cols], gradient of w */
} ts_rms_norm_backward_args;

/* Computes y, rstd and, with a residual, r. */
TS_API ts_status ts_rms_norm_forward(const ts_rms_norm_forward_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_rms_norm_forward needs for these arguments. */
TS_API ts_status ts_rms_norm_forward_workspace(const ts_rms_norm_forward_args *a, const ts_exec *x,
                                               size_t *n_bytes);

/* Computes dx and dw. */
TS_API ts_status ts_rms_norm_backward(const ts_rms_norm_backward_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_rms_norm_backward needs for these arguments. */
TS_API ts_status ts_rms_norm_backward_workspace(const ts_rms_norm_backward_args *a,
                                                const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif

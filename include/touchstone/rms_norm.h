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
 * whose r has a NaN or an infinity has NaN in its y; its rstd may be anything. Backward, a row
 * whose rstd is NaN has NaN in its dx and makes all of dw NaN; a NaN in dy makes the row's dx and
 * its own column of dw NaN, and one in dr its own element of dx. Other rows and columns are as if
 * it were not there. r is the correctly rounded sum; other subnormal results may be flushed to
 * zero. */
#ifndef TOUCHSTONE_RMS_NORM_H
#define TOUCHSTONE_RMS_NORM_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_rms_norm_forward_args {
    ts_dtype    dtype;
    int         w_offset;   /* 0 or 1 */
    int64_t     n_rows;     /* >= 0 */
    int64_t     n_cols;     /* >= 1 */
    int64_t     row_stride; /* >= n_cols */
    double      eps;        /* > 0, finite */
    const void *x;          /* [n_rows][n_cols] */
    const void *residual;   /* [n_rows][n_cols], or NULL */
    const void *w;          /* [n_cols] */
    void       *r;          /* [n_rows][n_cols]; may be x; not used without a residual */
    void       *y;          /* [n_rows][n_cols] */
    void       *rstd;       /* [n_rows] */
} ts_rms_norm_forward_args;

typedef struct ts_rms_norm_backward_args {
    ts_dtype    dtype;
    int         w_offset;   /* 0 or 1 */
    int         accumulate; /* 1: add to dw instead of overwriting it */
    int64_t     n_rows;     /* >= 0; with 0 rows dw is 0, or untouched */
    int64_t     n_cols;     /* >= 1 */
    int64_t     row_stride; /* >= n_cols */
    const void *r, *dy;     /* [n_rows][n_cols] */
    const void *dr;         /* [n_rows][n_cols], or NULL: 0 */
    const void *w;          /* [n_cols] */
    const void *rstd;       /* [n_rows], as forward wrote it */
    void       *dx;         /* [n_rows][n_cols] */
    void       *dw;         /* [n_cols] */
} ts_rms_norm_backward_args;

TS_API ts_status ts_rms_norm_forward(const ts_rms_norm_forward_args *a, const ts_exec *x);
TS_API ts_status ts_rms_norm_forward_workspace(const ts_rms_norm_forward_args *a, const ts_exec *x,
                                               size_t *n_bytes);

TS_API ts_status ts_rms_norm_backward(const ts_rms_norm_backward_args *a, const ts_exec *x);
TS_API ts_status ts_rms_norm_backward_workspace(const ts_rms_norm_backward_args *a,
                                                const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif

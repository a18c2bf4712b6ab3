/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm.h - layer normalisation over the last axis, forward and backward.
 *
 * For each row, with D = n_cols and v the population variance:
 *     mean = avg(x),  v = avg((x - mean)^2),  rstd = 1 / sqrt(v + eps),
 *     xhat = (x - mean) * rstd,  y = gamma * xhat + beta.
 * Backward, with g = gamma * dy:
 *     dx     = rstd * (g - avg(g) - xhat * avg(g * xhat)),
 *     dgamma = sum over rows of dy * xhat,   dbeta = sum over rows of dy.
 * Forward keeps mean and rstd for backward, two numbers per row; xhat is recomputed from x.
 *
 * x, y, dy, dx, gamma and beta have `dtype`: TS_F32, TS_BF16, TS_F16, or TS_F64 (reference only).
 * mean, rstd, dgamma and dbeta are float, or double when dtype is TS_F64. Row r of x, y, dy and dx
 * begins at element r * row_stride.
 *
 * Results are correct wherever they are representable, even if v or the sum of x overflows. A row
 * with a NaN or an infinity has NaN in its y and dx and makes all of dgamma NaN; other rows and
 * dbeta are not affected. Subnormal results may be flushed to zero. */
#ifndef TOUCHSTONE_LAYERNORM_H
#define TOUCHSTONE_LAYERNORM_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_layernorm_forward_args {
    ts_dtype    dtype;
    int64_t     n_rows;      /* >= 0 */
    int64_t     n_cols;      /* >= 1 */
    int64_t     row_stride;  /* >= n_cols */
    double      eps;         /* > 0, finite */
    const void *x;           /* [n_rows][n_cols] */
    const void *gamma;       /* [n_cols] */
    const void *beta;        /* [n_cols] */
    void       *y;           /* [n_rows][n_cols] */
    void       *mean, *rstd; /* [n_rows] */
} ts_layernorm_forward_args;

typedef struct ts_layernorm_backward_args {
    ts_dtype    dtype;
    int         accumulate;     /* 1: add to dgamma and dbeta instead of overwriting them */
    int64_t     n_rows;         /* >= 0; with 0 rows dgamma and dbeta are 0, or untouched */
    int64_t     n_cols;         /* >= 1 */
    int64_t     row_stride;     /* >= n_cols */
    const void *x, *dy;         /* [n_rows][n_cols] */
    const void *gamma;          /* [n_cols] */
    const void *mean, *rstd;    /* [n_rows], as forward wrote them */
    void       *dx;             /* [n_rows][n_cols] */
    void       *dgamma, *dbeta; /* [n_cols] */
} ts_layernorm_backward_args;

TS_API ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x);
TS_API ts_status ts_layernorm_forward_workspace(const ts_layernorm_forward_args *a,
                                                const ts_exec *x, size_t *n_bytes);

TS_API ts_status ts_layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x);
TS_API ts_status ts_layernorm_backward_workspace(const ts_layernorm_backward_args *a,
                                                 const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif

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

/* Arguments of ts_layernorm_forward. */
typedef struct ts_layernorm_forward_args {
    ts_dtype    dtype;       /* of x, y, gamma and beta */
    int64_t     n_rows;      /* >= 0 */
    int64_t     n_cols;      /* >= 1 */
    int64_t     row_stride;  /* elements from row to row of x and y, >= n_cols */
    double      eps;         /* added to the variance; > 0, finite */
    const void *x;           /* [n_rows][n_cols], input */
    const void *gamma;       /* [n_cols], gain */
    const void *beta;        /* [n_cols], bias */
    void       *y;           /* [n_rows][n_cols], output */
    void       *mean, *rstd; /* [n_rows], outputs that backward reads */
} ts_layernorm_forward_args;

/* Arguments of ts_layernorm_backward. */
typedef struct ts_layernorm_backward_args {
    ts_dtype    dtype;          /* of x, dy, gamma and dx */
    int         accumulate;     /* 1: add to dgamma and dbeta instead of overwriting them */
    int64_t     n_rows;         /* >= 0; with 0, dgamma and dbeta are 0, or kept if accumulate */
    int64_t     n_cols;         /* >= 1 */
    int64_t     row_stride;     /* elements from row to row of x, dy and dx, >= n_cols */
    const void *x, *dy;         /* [n_rows][n_cols], forward's input and the gradient of y */
    const void *gamma;          /* [n_cols], gain */
    const void *mean, *rstd;    /* [n_rows], as forward wrote them */
    void       *dx;             /* [n_rows][n_cols], gradient of x */
    void       *dgamma, *dbeta; /* [n_cols], gradients of gamma and beta */
} ts_layernorm_backward_args;

/* Computes y, mean and rstd. */
TS_API ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_layernorm_forward needs for these arguments. */
TS_API ts_status ts_layernorm_forward_workspace(const ts_layernorm_forward_args *a,
                                                const ts_exec *x, size_t *n_bytes);

/* Computes dx, dgamma and dbeta. */
TS_API ts_status ts_layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_layernorm_backward needs for these arguments. */
TS_API ts_status ts_layernorm_backward_workspace(const ts_layernorm_backward_args *a,
                                                 const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif

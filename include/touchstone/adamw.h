/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.h - one step of AdamW over n parameters.
 *
 * With g = scale * grad and t = step, which counts from 1:
 *     m = beta1 m + (1 - beta1) g
 *     v = beta2 v + (1 - beta2) g^2
 *     w -= lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w)
 * The decay is decoupled: it is no part of g, so neither the scale nor the moments see it. Only the
 * first n_decay parameters decay. Moments begin as 0.
 *
 * w has `dtype`: TS_F32, TS_BF16, TS_F16, or TS_F64 (reference only). m and v are float, or double
 * when dtype is TS_F64. A 16-bit w may have a float master copy: the step is then taken from the
 * master, and w is what it rounds to.
 *
 * w is correct wherever g and w are representable, even if g^2 or v overflows or vanishes: it does
 * not depend on how m and v are rounded. A v that overflows is stored as infinity, with which w
 * only decays from then on. NaN and infinities stay in their parameter. Where *scale is NaN nothing
 * is written: a caller who finds that gradients are not finite skips the step so, without waiting
 * for a device. Subnormal results may be flushed to zero. */
#ifndef TOUCHSTONE_ADAMW_H
#define TOUCHSTONE_ADAMW_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_adamw_step_args {
    ts_dtype      dtype;
    ts_dtype      grad_dtype;   /* `dtype`, or that of m and v */
    int64_t       n;            /* >= 0 */
    int64_t       n_decay;      /* 0 .. n */
    int64_t       step;         /* >= 1 */
    double        lr;           /* >= 0, finite */
    double        beta1, beta2; /* >= 0, < 1 */
    double        eps;          /* > 0, finite */
    double        weight_decay; /* >= 0, finite */
    const double *scale;        /* [1], or NULL: 1 */
    const void   *grad;         /* [n] */
    void         *w;            /* [n] */
    void         *master;       /* [n] float, where dtype has 16 bits; or NULL */
    void         *m, *v;        /* [n] */
} ts_adamw_step_args;

TS_API ts_status ts_adamw_step(const ts_adamw_step_args *a, const ts_exec *x);
TS_API ts_status ts_adamw_step_workspace(const ts_adamw_step_args *a, const ts_exec *x,
                                         size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif

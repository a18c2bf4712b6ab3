/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.h - one step of AdamW over n parameters.
 *
 * With w the parameters, g = scale * grad and t = step, which counts from 1:
 *     m = beta1 m + (1 - beta1) g
 *     v = beta2 v + (1 - beta2) g^2
 *     w -= lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w)
 * The decay is decoupled: it is not part of g, so it affects neither the scale nor the moments m
 * and v. Only the first n_decay parameters decay. Before the first step the caller sets m and v to
 * 0.
 *
 * w has `dtype`: TS_F32, TS_BF16, TS_F16, or TS_F64 (reference only). m and v are float, or double
 * when dtype is TS_F64. A 16-bit w may have a float master copy: the step then updates the master,
 * and w is the master rounded to dtype.
 *
 * w is correct wherever g and w are representable, even if g^2 or v overflows or underflows: w does
 * not depend on how m and v are rounded. A v that overflows is stored as infinity; from then on its
 * w only decays. NaN and infinities affect only their own parameter. If *scale is NaN, nothing is
 * written: a caller can thus skip a step whose gradients are not finite without waiting for the
 * device. Subnormal results may be flushed to zero. */
#ifndef TOUCHSTONE_ADAMW_H
#define TOUCHSTONE_ADAMW_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments of ts_adamw_step. */
typedef struct ts_adamw_step_args {
    ts_dtype      dtype;        /* of w */
    ts_dtype      grad_dtype;   /* of grad: `dtype`, or that of m and v */
    int64_t       n;            /* parameters, >= 0 */
    int64_t       n_decay;      /* parameters that decay, the first ones; 0 .. n */
    int64_t       step;         /* >= 1 */
    double        lr;           /* learning rate; >= 0, finite */
    double        beta1, beta2; /* >= 0, < 1 */
    double        eps;          /* > 0, finite */
    double        weight_decay; /* >= 0, finite */
    const double *scale;        /* [1], factor of the gradients, on the device; NULL: 1 */
    const void   *grad;         /* [n], gradients */
    void         *w;            /* [n], parameters, updated; with a master only written */
    void         *master;       /* [n] float, updated, if dtype has 16 bits; or NULL */
    void         *m, *v;        /* [n], first and second moments, updated */
} ts_adamw_step_args;

/* Updates w, m, v and, unless NULL, master. */
TS_API ts_status ts_adamw_step(const ts_adamw_step_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_adamw_step needs for these arguments. */
TS_API ts_status ts_adamw_step_workspace(const ts_adamw_step_args *a, const ts_exec *x,
                                         size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif

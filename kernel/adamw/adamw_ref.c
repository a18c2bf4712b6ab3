/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_ref.c - the definition of a step, for every dtype and magnitude. Arithmetic is double
 * throughout; one thread; no workspace. */
#include "adamw_impl.h"
#include "dtype.h"

/* sqrt(beta2 v + (1 - beta2) g^2). Both are divided by powers of two first, so that nothing
 * overflows; what vanishes then is too small to matter. */
static double root_of(double v, double g, double beta2)
{
    const double most = fmax(fabs(g), sqrt(v));
    int          exponent = 0;
    if (isfinite(most)) frexp(most, &exponent);
    const double small = ldexp(g, -exponent);
    const double sum = beta2 * ldexp(ldexp(v, -exponent), -exponent) + (1 - beta2) * small * small;
    return ldexp(sqrt(sum), exponent);
}

ts_status ts_adamw_step_ref(const void *args, const ts_exec *x)
{
    const ts_adamw_step_args *a = args;
    const ts_dtype            t = a->dtype, wide = ts_wide(t);
    const double              scale = a->scale ? *a->scale : 1;
    const double              bias1 = ts_adamw_bias(a->beta1, a->step);
    const double              root_bias2 = sqrt(ts_adamw_bias(a->beta2, a->step));
    (void)x;
    if (isnan(scale)) return TS_OK;
    for (int64_t i = 0; i < a->n; i++) {
        const double g = scale * ts_load(a->grad, a->grad_dtype, i), v = ts_load(a->v, wide, i);
        const double w = a->master ? ts_load(a->master, wide, i) : ts_load(a->w, t, i);
        const double m = a->beta1 * ts_load(a->m, wide, i) + (1 - a->beta1) * g;
        const double root = root_of(v, g, a->beta2) / root_bias2;
        const double decay = i < a->n_decay ? a->weight_decay * w : 0;
        const double moved = w - a->lr * (m / bias1 / (root + a->eps) + decay);
        ts_store(a->m, wide, i, m);
        ts_store(a->v, wide, i, a->beta2 * v + (1 - a->beta2) * g * g);
        if (a->master) ts_store(a->master, wide, i, moved);
        ts_store(a->w, t, i, a->master ? ts_load(a->master, wide, i) : moved);
    }
    return TS_OK;
}

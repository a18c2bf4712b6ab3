/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.c - API entry point: validate the arguments, select an implementation, call it. */
#include <math.h>
#include <stdbool.h>

#include "adamw_impl.h"
#include "overlap.h"

/* clang-format off */
const ts_impl ts_adamw_step_impls[] = {
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_adamw_step_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_adamw_step, NULL)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_adamw_step_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

static bool is_rate(double v)
{
    return v >= 0 && isfinite(v);
}

static ts_status check(const ts_adamw_step_args *a, const ts_exec *x)
{
    if (!a || !x || !is_rate(a->lr) || !is_rate(a->weight_decay)) return TS_E_ARG;
    if (!(a->beta1 >= 0 && a->beta1 < 1) || !(a->beta2 >= 0 && a->beta2 < 1)) return TS_E_ARG;
    if (!(a->eps > 0) || !isfinite(a->eps) || a->step < 1) return TS_E_ARG;
    if (a->n != 0 && (!a->grad || !a->w || !a->m || !a->v)) return TS_E_ARG;
    if (a->n < 0 || a->n > INT64_MAX / 8 || a->n_decay < 0 || a->n_decay > a->n) return TS_E_SHAPE;
    if ((unsigned)a->dtype > TS_BF16) return TS_E_DTYPE;
    const ts_dtype wide = a->dtype == TS_F64 ? TS_F64 : TS_F32;
    if (a->grad_dtype != a->dtype && a->grad_dtype != wide) return TS_E_DTYPE;
    return a->master && a->dtype == wide ? TS_E_ARG : TS_OK;
}

static bool apart(const void *args, const ts_exec *x)
{
    const ts_adamw_step_args *a = args;
    const ts_dtype            wide = ts_wide(a->dtype);
    return TS_APART(x, 4, ts_vector(a->w, a->n, a->dtype), ts_vector(a->master, a->n, wide),
                    ts_vector(a->m, a->n, wide), ts_vector(a->v, a->n, wide),
                    ts_vector(a->grad, a->n, a->grad_dtype), ts_vector(a->scale, 1, TS_F64));
}

TS_API_ENTRY(ts_adamw_step, check, apart, a->dtype)

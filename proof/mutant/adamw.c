/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.c - mutants of adamw: one correct step with one injected bug at a time. adamw_list.h lists
 * them.
 *
 * Correct arithmetic is long double, in which the square of any double is representable. */
#include "touchstone/adamw.h"
#include "adamw_list.h"
#include "mutant.h"
#include "values.h"

typedef ts_adamw_step_args step_args;

typedef enum trap { HONEST, STEP(TRAP) N_TRAPS } trap;

/* 1 - beta^step */
static real bias_of(double beta, int64_t step, trap t)
{
    const int64_t n = t == A_STEP_FROM_0                ? step - 1
                      : t == A_STEP_LATER               ? step + 1
                      : t == A_STEP_MOST && step > 1000 ? 1000
                                                        : step;
    return -expm1l((real)n * logl((real)beta));
}

static real grad_at(const step_args *a, int64_t i, trap t)
{
    real g = ts_load(a->grad, a->grad_dtype, i);
    if (t == A_NAN_0 && isnan(g)) return 0;
    if (t == A_NAN_LEAKS && i > 0 && isnan(ts_load(a->grad, a->grad_dtype, i - 1))) return NAN;
    if (t == A_CLAMPED) g = fminl(fmaxl(g, -1e10L), 1e10L);
    return t == A_GRAD_16 ? rounded(TS_BF16, g) : g;
}

typedef struct moments {
    real m, v;
} moments;

static moments moments_of(const step_args *a, int64_t i, real g, real scale, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const real     m = ts_load(a->m, wide, i), v = ts_load(a->v, wide, i);
    const bool     swapped = t == A_BETAS_SWAPPED;
    const real     beta1 = swapped ? a->beta2 : a->beta1, beta2 = swapped ? a->beta1 : a->beta2;
    real           square = g * g, rest2 = 1 - beta2;
    moments        to = { beta1 * m + (1 - beta1) * g, 0 };
    if (t == A_NO_MOMENTUM) to.m = g;
    if (t == A_REST_1) to.m = beta1 * m + g;
    if (t == A_SQUARE_OF_M) square = to.m * to.m;
    if (t == A_BELIEF) square = (g - to.m) * (g - to.m);
    if (t == A_SCALE_ONCE && scale != 0) square /= scale;
    if (t == A_OVERFLOW || t == A_UNDERFLOW) square = rounded(wide, square);
    if (t == A_REST_FLOAT) rest2 = 1.0f - (float)a->beta2;
    to.v = beta2 * v + rest2 * square;
    if (t == A_AMSGRAD && v > to.v) to.v = v;
    if (t == A_MOMENTS_16) to.m = rounded(TS_BF16, to.m), to.v = rounded(TS_BF16, to.v);
    if (t == A_ROOT_ROUNDED) to.v = rounded(wide, to.v);
    return to;
}

/* m / bias1 / (sqrt(v / bias2) + eps) */
static real step_of(const step_args *a, moments by, real g, trap t)
{
    const real bias1 = t == A_NO_BIAS_1 ? 1 : bias_of(a->beta1, a->step, t);
    const real bias2 = t == A_NO_BIAS_2 ? 1 : bias_of(a->beta2, a->step, t);
    real       eps = t == A_NO_EPS ? 0 : t == A_EPS_FIXED ? 1e-8L : a->eps, m = by.m;
    if (t == A_EPS_FLOAT) eps = (float)a->eps;
    if (t == A_ZERO_V && by.v * a->beta2 == (1 - a->beta2) * g * g * a->beta2) return 0;
    if (t == A_QUIET && g == 0) return 0;
    if (t == A_NESTEROV) m = a->beta1 * m + (1 - a->beta1) * g;
    if (t == A_EPS_INSIDE) return m / bias1 / sqrtl(by.v / bias2 + eps);
    if (t == A_EPS_EARLY) return m / bias1 / ((sqrtl(by.v) + eps) / sqrtl(bias2));
    if (t == A_BIAS_UNROOTED) return m / bias1 / (sqrtl(by.v) / bias2 + eps);
    return m / bias1 / (sqrtl(by.v / bias2) + eps);
}

static bool decays(const step_args *a, int64_t i, trap t)
{
    if (t == A_NO_DECAY || t == A_COUPLED) return false;
    if (t == A_ALL_DECAY) return true;
    return (i < a->n_decay) != (t == A_OTHERS_DECAY);
}

static real moved(const step_args *a, int64_t i, real w, real step, trap t)
{
    const real decay = decays(a, i, t) ? a->weight_decay : 0;
    if (t == A_DECAY_NO_LR) return w - a->lr * step - 0.001L * decay * w;
    if (t == A_DECAY_AFTER) return (w - a->lr * step) * (1 - a->lr * decay);
    return w - a->lr * (step + decay * w);
}

static void keep_moments(const step_args *a, int64_t i, moments to, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    if (t == A_BIAS_KEPT) {
        to.m /= bias_of(a->beta1, a->step, t);
        to.v /= bias_of(a->beta2, a->step, t);
    }
    if (t != A_M_UNWRITTEN) put(a->m, wide, i, to.m);
    if (t != A_V_UNWRITTEN) put(a->v, wide, i, to.v);
}

static void step_one(const step_args *a, int64_t i, real scale, trap t)
{
    const ts_dtype d = a->dtype, wide = ts_wide(d);
    const bool     master = a->master && t != A_NO_MASTER;
    const real     w = master ? ts_load(a->master, wide, i) : ts_load(a->w, d, i);
    real           g = grad_at(a, i, t) * (t == A_NO_SCALE || t == A_SCALE_LATE ? 1 : scale);
    if (t == A_COUPLED && i < a->n_decay) g += (real)a->weight_decay * w;
    const moments old = { ts_load(a->m, wide, i), ts_load(a->v, wide, i) };
    const moments to = moments_of(a, i, g, scale, t);
    real          step = step_of(a, t == A_OLD_MOMENTS ? old : to, g, t);
    if (t == A_SCALE_LATE) step *= scale;
    keep_moments(a, i, to, t);
    real v = moved(a, i, w, step, t);
    if (a->master && t != A_MASTER_KEPT)
        put(a->master, wide, i, t == A_MASTER_16 ? rounded(d, v) : v);
    if (a->master) v = rounded(wide, v);
    if (t != A_W_KEPT) put(a->w, d, i, t == A_CUT ? cut(d, v) : v);
}

/* What a step with a scale that is NaN does: nothing. */
static void skip(const step_args *a, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    for (int64_t i = 0; i < a->n && t == A_NOT_SKIPPED; i++) step_one(a, i, NAN, t);
    for (int64_t i = 0; i < a->n && t == A_SKIPS_SOME; i++)
        put(a->m, wide, i, (real)a->beta1 * (real)ts_load(a->m, wide, i));
}

static bool is_rate(double v)
{
    return v >= 0 && isfinite(v);
}

static bool is_beta(double v, trap t)
{
    return v >= 0 && (v < 1 || (v == 1 && t == A_TAKES_BETA));
}

static ts_status check(const step_args *a, const ts_exec *x, trap t)
{
    if (!a || !x || !is_rate(a->lr) || !is_rate(a->weight_decay)) return TS_E_ARG;
    if (!is_beta(a->beta1, t) || !is_beta(a->beta2, t)) return TS_E_ARG;
    if (!is_rate(a->eps) || (a->eps == 0 && t != A_TAKES_EPS)) return TS_E_ARG;
    if (a->step < 1 && !(a->step == 0 && t == A_TAKES_STEP)) return TS_E_ARG;
    if (a->n != 0 && (!a->grad || !a->w || !a->m || !a->v)) return TS_E_ARG;
    if (a->n < 0 || a->n > INT64_MAX / 8 || a->n_decay < 0) return TS_E_SHAPE;
    if (a->n_decay > a->n && t != A_TAKES_DECAY) return TS_E_SHAPE;
    if ((unsigned)a->dtype > TS_BF16) return TS_E_DTYPE;
    const ts_dtype wide = ts_wide(a->dtype);
    if (a->grad_dtype != a->dtype && a->grad_dtype != wide) return TS_E_DTYPE;
    return a->master && a->dtype == wide && t != A_TAKES_MASTER ? TS_E_ARG : TS_OK;
}

/* Such as only a mutant takes. */
static bool is_invalid(const step_args *a)
{
    return a->beta1 == 1 || a->beta2 == 1 || a->eps == 0 || a->step == 0 || a->n_decay > a->n ||
           (a->master && a->dtype == ts_wide(a->dtype));
}

static ts_status run(const void *args, const ts_exec *x, trap t)
{
    const step_args *a = args;
    const ts_status  s = check(a, x, t);
    if (s && t == A_WRITES_FIRST && a && a->w && a->n > 0) *(char *)a->w ^= 1;
    if (s || is_invalid(a)) return s;
    real          scale = a->scale ? *a->scale : 1;
    const int64_t n = t == A_NO_TAIL                       ? a->n / 4 * 4
                      : t == A_FIRST_65536 && a->n > 65536 ? 65536
                                                           : a->n;
    if (t == A_SCALE_MOST && isinf(scale)) scale = copysignl(1e30L, scale);
    const bool skipped = isnan(scale) || (t == A_SKIPS_INF && isinf(scale));
    if (isnan(scale)) skip(a, t);
    for (int64_t i = 0; i < n && !skipped; i++) step_one(a, i, scale, t);
    if (t == A_WRITE_PAST) put(a->w, a->dtype, a->n, 0);
    for (int64_t i = 0; i < n && t == A_WRITE_GRAD && a->scale; i++)
        put((void *)(uintptr_t)a->grad, a->grad_dtype, i, scale * grad_at(a, i, t));
    return TS_OK;
}

#define TASK    adamw_step
#define MUTANTS STEP
#define CALL    run
#include "called.h"

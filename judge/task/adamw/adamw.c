/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.c - task: one step of AdamW. Inputs, oracle with bounds, least cost, invalid calls. The
 * cases are in adamw_cases.c.
 *
 * The oracle works in pairs of doubles from the rounded inputs; g and v are divided by a power of
 * two before they are squared and added, so that no square leaves the range of double. Bounds are
 * those of arithmetic in the dtype of the moments: the two terms of m may cancel, those of v
 * cannot. */
#include "touchstone/adamw.h"

#include <math.h>
#include <stdlib.h>

#include "adamw_cases.h"
#include "bound.h"
#include "dtype.h"
#include "real.h"
#include "rng.h"
#include "spoil.h"

typedef ts_adamw_step_args step_args;

/* ---- inputs ---- */

static double rounded(ts_dtype t, double v)
{
    double room;
    ts_store(&room, t, 0, v);
    return ts_load(&room, t, 0);
}

/* w is there before the step even where there is a master, which it then rounds. */
static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    step_args          *a = args;
    const ts_dtype      t = c->dtype, wide = ts_wide(t), gt = c->dim[TS_ADAM_WIDE] ? wide : t;
    const int64_t       n = c->dim[TS_ADAM_N];
    const ts_adam_rates r = ts_adam_rates_of(c);
    *a = (step_args) { .dtype = t, .grad_dtype = gt, .n = n };
    a->n_decay = n * c->dim[TS_ADAM_DECAY] / 16;
    a->step = c->dim[TS_ADAM_STEP];
    a->lr = r.lr, a->beta1 = r.beta1, a->beta2 = r.beta2, a->eps = r.eps;
    a->weight_decay = r.weight_decay;
    ts_scalar(m, "lr", a->lr);
    ts_scalar(m, "beta1", a->beta1);
    ts_scalar(m, "beta2", a->beta2);
    ts_scalar(m, "eps", a->eps);
    ts_scalar(m, "weight_decay", a->weight_decay);
    ts_scalar(m, "step", (double)a->step);
    ts_scalar(m, "n_decay", (double)a->n_decay);
    void   *grad = ts_take(m, &a->grad, (ts_buf) { "grad", TS_IN, gt, 1, n, n });
    double *scale = NULL;
    void   *master = NULL;
    if (c->dim[TS_ADAM_CLIP] || !isfinite(r.scale))
        scale = ts_take(m, &a->scale, (ts_buf) { "scale", TS_IN, TS_F64, 1, 1, 1 });
    void *w = ts_take(m, &a->w, (ts_buf) { "w", TS_INOUT, t, 1, n, n });
    void *first = ts_take(m, &a->m, (ts_buf) { "m", TS_INOUT, wide, 1, n, n });
    void *second = ts_take(m, &a->v, (ts_buf) { "v", TS_INOUT, wide, 1, n, n });
    if (c->dim[TS_ADAM_MASTER])
        master = ts_take(m, &a->master, (ts_buf) { "master", TS_INOUT, wide, 1, n, n });
    if (scale) *scale = r.scale;
    for (int64_t i = 0; i < n; i++) {
        const ts_adam_drawn d = ts_adam_draw(c, ts_mix(seed), i);
        ts_store(grad, gt, i, d.grad);
        ts_store(w, t, i, master ? rounded(wide, d.w) : d.w);
        ts_store(first, wide, i, d.m);
        ts_store(second, wide, i, d.v);
        if (master) ts_store(master, wide, i, d.w);
    }
}

/* ---- oracle ---- */

typedef struct step_rates {
    ts_real rest1, rest2, bias1, root_bias2;
} step_rates;

static step_rates rates_of(const step_args *a)
{
    const ts_real one = ts_real_of(1);
    const double  t = (double)a->step;
    return (step_rates) {
        ts_real_sub(one, ts_real_of(a->beta1)),
        ts_real_sub(one, ts_real_of(a->beta2)),
        ts_real_sub(one, a->beta1 > 0 ? ts_real_pow(a->beta1, t) : ts_real_of(0)),
        ts_real_sqrt(ts_real_sub(one, a->beta2 > 0 ? ts_real_pow(a->beta2, t) : ts_real_of(0))),
    };
}

/* beta2 v + (1 - beta2) g^2, divided by 4^exponent. */
static ts_real second_moment(const step_args *a, const step_rates *r, double v, ts_real g,
                             int *exponent)
{
    *exponent = 0;
    if (isfinite(v) && isfinite(g.hi)) frexp(fmax(fabs(g.hi), sqrt(v)), exponent);
    const ts_real small = ts_real_scale(g, -*exponent);
    const double  old = ldexp(ldexp(v, -*exponent), -*exponent);
    return ts_real_add(ts_real_product(a->beta2, old),
                       ts_real_mul(r->rest2, ts_real_mul(small, small)));
}

/* Past the largest number it is infinite; so near to it that a bound reaches over, it may be. */
static ts_want want_of(double v, double error, ts_dtype t)
{
    const double  most = ts_format_of(t)->max;
    const ts_want want = ts_stored(v, error, t);
    if (isinf(v) || fabs(v) - want.bound > most) return (ts_want) { copysign(INFINITY, v), 0 };
    return fabs(v) + want.bound > most ? (ts_want) { v, INFINITY } : want;
}

typedef struct outputs {
    ts_want *w, *m, *v, *master; /* master NULL: there is none */
} outputs;

static void oracle_one(const step_args *a, const step_rates *r, double scale, int64_t i,
                       const outputs *to)
{
    const ts_dtype t = a->dtype, wide = ts_wide(t);
    const double   u = ts_format_of(wide)->u, k = ts_kappa(2) * u;
    const double   w = a->master ? ts_load(a->master, wide, i) : ts_load(a->w, t, i);
    const double   m = ts_load(a->m, wide, i), v = ts_load(a->v, wide, i);
    const ts_real  g = ts_real_product(ts_load(a->grad, a->grad_dtype, i), scale);
    int            exponent;
    const ts_real  first = ts_real_add(ts_real_product(a->beta1, m), ts_real_mul(r->rest1, g));
    const ts_real  second = second_moment(a, r, v, g, &exponent);
    const ts_real  root = ts_real_scale(ts_real_sqrt(second), exponent);
    const ts_real  below = ts_real_add(ts_real_div(root, r->root_bias2), ts_real_of(a->eps));
    const ts_real  step = ts_real_div(ts_real_div(first, r->bias1), below);
    const double   decay = i < a->n_decay ? a->weight_decay : 0;
    const ts_real  all = ts_real_add(step, ts_real_product(decay, w));
    const double   moved = ts_real_sub(ts_real_of(w), ts_real_mul(ts_real_of(a->lr), all)).hi;
    const double   terms = fabs(a->beta1 * m) + fabs(r->rest1.hi * g.hi);
    const double   size = terms / r->bias1.hi / below.hi; /* of the step, were nothing cancelled */
    const double   error = a->lr * (2 * k * size + k * fabs(decay * w)) + k * fabs(w);
    const double   new_v = ldexp(ldexp(second.hi, exponent), exponent);
    to->m[i] = want_of(first.hi, k * terms, wide);
    to->v[i] = want_of(new_v, k * new_v, wide);
    to->w[i] = want_of(moved, error + (a->master ? u * fabs(moved) : 0), t);
    if (to->master) to->master[i] = want_of(moved, error, wide);
}

static void oracle_none(const step_args *a, int64_t i, const outputs *to)
{
    const ts_dtype wide = ts_wide(a->dtype);
    to->w[i] = (ts_want) { ts_load(a->w, a->dtype, i), 0 };
    to->m[i] = (ts_want) { ts_load(a->m, wide, i), 0 };
    to->v[i] = (ts_want) { ts_load(a->v, wide, i), 0 };
    if (to->master) to->master[i] = (ts_want) { ts_load(a->master, wide, i), 0 };
}

static size_t n_want(const ts_case *c)
{
    return (size_t)(c->dim[TS_ADAM_N] * (c->dim[TS_ADAM_MASTER] ? 4 : 3));
}

/* want: w, m, v, master */
static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const step_args *a = args;
    const int64_t    n = a->n;
    const outputs    to = { want, want + n, want + 2 * n, a->master ? want + 3 * n : NULL };
    const step_rates r = rates_of(a);
    const double     scale = a->scale ? *a->scale : 1;
    (void)c;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(scale)) oracle_none(a, i, &to);
        else oracle_one(a, &r, scale, i, &to);
    }
}

/* ---- check, cost ---- */

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const step_args *a = args;
    const int64_t    n = a->n;
    const ts_dtype   wide = ts_wide(a->dtype);
    (void)c;
    return ts_check_buf((ts_buf) { "w", TS_OUT, a->dtype, 1, n, n }, a->w, want, f, e) &&
           ts_check_buf((ts_buf) { "m", TS_OUT, wide, 1, n, n }, a->m, want + n, f, e) &&
           ts_check_buf((ts_buf) { "v", TS_OUT, wide, 1, n, n }, a->v, want + 2 * n, f, e) &&
           (!a->master || ts_check_buf((ts_buf) { "master", TS_OUT, wide, 1, n, n }, a->master,
                                       want + 3 * n, f, e));
}

/* Everything is read once and, but for the gradient, written once; a w with a master is not read.
 */
static ts_cost cost(const ts_case *c)
{
    const double n = (double)c->dim[TS_ADAM_N], b = (double)ts_format_of(c->dtype)->n_bytes;
    const double wide = (double)ts_format_of(ts_wide(c->dtype))->n_bytes;
    const double grad = c->dim[TS_ADAM_WIDE] ? wide : b;
    const double w = c->dim[TS_ADAM_MASTER] ? b + 2 * wide : 2 * b;
    return (ts_cost) { .bytes = n * (grad + 4 * wide + w), .flops = 15 * n };
}

/* ---- invalid calls ---- */

#define AT(member)     offsetof(step_args, member)
#define BAD(must, ...) TS_BAD(step_args, TS_E_##must, __VA_ARGS__)

static const float  any[1];
static const ts_bad bad[] = {
    BAD(ARG, lr, NAN, INFINITY, -1),
    BAD(ARG, weight_decay, NAN, INFINITY, -1),
    BAD(ARG, eps, NAN, INFINITY, -1, 0),
    BAD(ARG, beta1, NAN, INFINITY, -1, 1),
    BAD(ARG, beta2, NAN, INFINITY, -1, 1),
    BAD(ARG, step, 0, -1, INT64_MIN),
    TS_BAD_LIKE(step_args, TS_E_SHAPE, n_decay, n, 1),
    BAD(DTYPE, dtype, TS_U8, TS_I32, 99),
    BAD(DTYPE, grad_dtype, TS_F64, TS_BF16, 99),
    TS_BAD_TO(step_args, TS_E_ARG, master, any), /* of floats there is none */
    { 0 },
};

static const ts_invalid invalid = {
    .pointer = { AT(grad) + 1, AT(w) + 1, AT(m) + 1, AT(v) + 1 },
    .extent = { { AT(n), 0, 0, 0, false, false }, { AT(n_decay), 0, 0, 0, false, false } },
    .n_extent = 2,
    .product = { { { 1 } } },
    .bad = bad,
};

const ts_task ts_task_adamw_step = {
    .name = "adamw_step",
    .dim_name = { "n", "decay", "step", "master", "wide", "clip" },
    .more_name = { "beta", "eps" },
    .kind = TS_PLAIN,
    .no_challenge = true,
    .devices = TS_ON_CPU | TS_ON_CUDA,
    .buffer = { { "grad", TS_IN, 1, false },
                { "scale", TS_IN, 1, false },
                { "w", TS_INOUT, 1, false },
                { "m", TS_INOUT, 1, false },
                { "v", TS_INOUT, 1, false },
                { "master", TS_INOUT, 1, false } },
    .number = { { "lr", false },
                { "beta1", false },
                { "beta2", false },
                { "eps", false },
                { "weight_decay", false },
                { "step", true },
                { "n_decay", true } },
    .args_bytes = sizeof(step_args),
    .cases = ts_adamw_step_cases,
    .cover = &ts_adamw_step_cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .invalid = &invalid,
};

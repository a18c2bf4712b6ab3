/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_logits.c - task: cross-entropy from logits, the gradient apart or in their place.
 * The oracle of a row is in cross_entropy_inside.c; a logit that is given has no error. */
#include "touchstone/cross_entropy.h"

#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "cross_entropy_inside.h"
#include "dtype.h"
#include "rng.h"
#include "spoil.h"

enum { APART = 1, IN_PLACE = 2 };

/* ---- inputs ---- */

static double nonfinite_of(double z, int64_t i, bool chosen)
{
    return chosen && i % 3 ? (const double[]) { 0, NAN, INFINITY }[i % 3] : z;
}

static double logit_at(const ts_case *c, const ts_xe_rule *r, uint64_t seed, int64_t i, int64_t v,
                       int32_t target)
{
    const char   *f = c->family;
    const int64_t V = r->n_vocab;
    const double  z = 3 * ts_normal(seed, i * V + v), at = (double)v / (double)V;
    const bool    chosen = v == (int64_t)(ts_bits(seed + 8, i) % (uint64_t)V);
    if (!strcmp(f, "normal")) return z;
    if (!strcmp(f, "steep")) return 17 * z;
    if (!strcmp(f, "huge")) return 1e3 * z;
    if (!strcmp(f, "offset")) return z + (i % 2 ? -300 : 300);
    if (!strcmp(f, "rising")) return z + 120 * at;
    if (!strcmp(f, "falling")) return z + 120 - 120 * at;
    if (!strcmp(f, "tail")) return 0.1 * z + (v == ts_xe_tail_word(c) ? ts_xe_tail(c) : 0);
    if (!strcmp(f, "back")) return v + 7 >= V ? z + 30 : z;
    if (!strcmp(f, "flat")) return 1e-3 * z;
    if (!strcmp(f, "zeros")) return 0;
    if (!strcmp(f, "ties")) return (double)(ts_bits(seed, i * V + v) % 3) - 1;
    if (!strcmp(f, "sure")) return v == target ? 30 : z;
    if (!strncmp(f, "masked", 6) || !strcmp(f, "capped")) return ts_xe_is_masked(v) ? -INFINITY : z;
    if (!strcmp(f, "nonfinite") && target != r->ignored) return nonfinite_of(z, i, chosen);
    if (!strcmp(f, "ignored_nonfinite") && target == r->ignored)
        return nonfinite_of(z, i % 2 + 1, chosen);
    return z;
}

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    ts_cross_entropy_logits_args *a = args;
    const ts_xe_rule              r = ts_xe_rule_of(c, c->dim[XL_MEAN], c->dim[XL_SKIP], seed);
    const ts_dtype                t = c->dtype, wide = ts_wide(t);
    const int64_t R = r.n_rows, V = r.n_vocab, S = V + c->dim[XL_PAD], grad = c->dim[XL_GRAD];
    *a =
        (ts_cross_entropy_logits_args) { .dtype = t, .mean = r.mean, .in_place = grad == IN_PLACE };
    a->ignore_index = r.ignored;
    a->n_rows = R, a->n_vocab = V, a->row_stride = S;
    a->scale = r.scale, a->smoothing = r.smoothing, a->z_loss = r.z_loss, a->softcap = r.softcap;
    ts_xe_scalars(m, &r);
    const ts_buf logits = { "logits", a->in_place ? TS_INOUT : TS_IN, t, R, V, S };
    void        *x = ts_take(m, &a->logits, logits);
    int32_t     *target = ts_take(m, &a->target, (ts_buf) { "target", TS_IN, TS_I32, 1, R, R });
    ts_take(m, &a->loss, (ts_buf) { "loss", TS_OUT, wide, 1, R, R });
    ts_take(m, &a->lse, (ts_buf) { "lse", TS_OUT, wide, 1, R, R });
    ts_take(m, &a->total, (ts_buf) { "total", TS_OUT, wide, 1, 1, 1 });
    if (grad == APART) ts_take(m, &a->dlogits, (ts_buf) { "dlogits", TS_OUT, t, R, V, S });
    ts_xe_targets(c, &r, c->dim[XL_SKIP], ts_mix(seed + 3), target);
    for (int64_t i = 0; i < R; i++)
        for (int64_t v = 0; v < V; v++)
            ts_store(x, t, i * S + v, logit_at(c, &r, ts_mix(seed), i, v, target[i]));
}

/* ---- oracle ---- */

/* Of one contract. */
static size_t n_wants(const ts_case *c)
{
    return (size_t)(2 * c->dim[0] + 1 + (c->dim[XL_GRAD] ? c->dim[0] * c->dim[1] : 0));
}

/* Logits that the call overwrites are not there to compute wider bounds from: those come second. */
static size_t n_want(const ts_case *c)
{
    return n_wants(c) * (c->dim[XL_GRAD] == IN_PLACE ? 2 : 1);
}

/* want: loss, lse, total, then the gradient if requested */
static void oracle_by(const ts_case *c, const void *args, ts_want *want, bool any)
{
    const ts_cross_entropy_logits_args *a = args;
    const int64_t                       R = a->n_rows, V = a->n_vocab;
    const ts_dtype                      t = a->dtype, wide = ts_wide(t);
    ts_xe_rule                          r = ts_xe_rule_of(c, c->dim[XL_MEAN], c->dim[XL_SKIP], 0);
    r.scale = a->scale, r.any = any;
    r.g = ts_xe_share(&r, ts_xe_counted(&r, a->target));
    ts_xe_value *x = calloc((size_t)V, sizeof *x), *loss = calloc((size_t)R + 1, sizeof *loss);
    ts_want     *lse = want + R, *dx = lse + R + 1;
    const bool   gradient = c->dim[XL_GRAD] != 0;
    if (!x || !loss) abort();
    for (int64_t i = 0; i < R; i++) {
        const bool  counted = a->target[i] != a->ignore_index;
        ts_xe_value l = { { 0, 0 }, 0 };
        for (int64_t v = 0; v < V && counted; v++)
            x[v] = (ts_xe_value) { ts_real_of(ts_load(a->logits, t, i * a->row_stride + v)), 0 };
        if (counted) ts_xe_row(&r, x, a->target[i], gradient, &loss[i], &l);
        want[i] = ts_xe_stored(loss[i].v.hi, loss[i].error, wide);
        lse[i] = ts_xe_stored(l.v.hi, l.error, wide);
        for (int64_t v = 0; v < V && gradient; v++)
            *dx++ = counted ? ts_xe_stored(x[v].v.hi, x[v].error, t) : (ts_want) { 0, 0 };
    }
    want[2 * R] = ts_xe_total(&r, loss, a->target);
    free(x);
    free(loss);
}

static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    oracle_by(c, args, want, false);
    if (c->dim[XL_GRAD] == IN_PLACE) oracle_by(c, args, want + n_wants(c), true);
}

static void oracle_any(const ts_case *c, const void *args, ts_want *want)
{
    oracle_by(c, args, want, true);
}

/* ---- check, cost ---- */

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const ts_cross_entropy_logits_args *a = args;
    const int64_t                       R = a->n_rows, V = a->n_vocab;
    const ts_dtype                      wide = ts_wide(a->dtype);
    const void *const                   got = a->in_place ? a->logits : a->dlogits;
    const ts_buf dx = { a->in_place ? "logits" : "dlogits", TS_OUT, a->dtype, R, V, a->row_stride };
    (void)c;
    return ts_xe_check_loss(wide, R, a->loss, a->lse, a->total, want, f, e) &&
           (!got || ts_check_buf(dx, got, want + 2 * R + 1, f, e));
}

static const char *common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    if (c->dim[XL_GRAD] == IN_PLACE)
        return check(c, args, want + n_wants(c), f, e) ? TS_SUMS_RULE : NULL;
    return ts_common_by(oracle_any, check, want, n_want(c), TS_SUMS_RULE, c, args, f, e);
}

/* Of one contract. As in cross_entropy.c. */
static void excuse_of(const ts_case *c, const ts_cross_entropy_logits_args *a, ts_want *want)
{
    const int64_t     R = a->n_rows, V = a->n_vocab;
    ts_xe_rule        r = ts_xe_rule_of(c, c->dim[XL_MEAN], c->dim[XL_SKIP], 0);
    const char *const got = a->in_place ? a->logits : a->dlogits;
    const size_t      each = ts_format_of(a->dtype)->n_bytes;
    ts_want          *dx = want + 2 * R + 1;
    ts_xe_excuse_loss(c, &r, a->target, a->loss, a->lse, a->total, want);
    if (got) ts_excuse_nan(dx, R * V);
    for (int64_t i = 0; i < R && got; i++)
        if (ts_xe_may_be_nan(c, &r, a->target[i]))
            ts_excuse_nonfinite((ts_buf) { "dlogits", TS_OUT, a->dtype, 1, V, V },
                                got + (size_t)(i * a->row_stride) * each, dx + i * V);
}

static void excuse(const ts_case *c, const void *args, ts_want *want)
{
    excuse_of(c, args, want);
    if (c->dim[XL_GRAD] == IN_PLACE) excuse_of(c, args, want + n_wants(c));
}

static ts_cost cost(const ts_case *c)
{
    const double R = (double)c->dim[0], V = (double)c->dim[1];
    const double b = (double)ts_format_of(c->dtype)->n_bytes, grad = c->dim[XL_GRAD] ? 1 : 0;
    return (ts_cost) { .bytes = b * (1 + grad) * R * V + 12 * R,
                       .flops = (3 + 4 * grad) * R * V,
                       .exps = R * V,
                       .reads_only = !c->dim[XL_GRAD] };
}

/* ---- invalid calls ---- */

#define AT(member)     offsetof(ts_cross_entropy_logits_args, member)
#define BAD(must, ...) TS_BAD(ts_cross_entropy_logits_args, TS_E_##must, __VA_ARGS__)

static const ts_bad bad[] = {
    TS_XE_BAD_NUMBERS(ts_cross_entropy_logits_args),
    BAD(ARG, in_place, 2),
    BAD(ARG, in_place, 1), /* and there is a dlogits */
    TS_BAD_LIKE(ts_cross_entropy_logits_args, TS_E_SHAPE, row_stride, n_vocab, -1),
    BAD(DTYPE, dtype, TS_U8, TS_I32, 99),
    TS_XE_BAD_TARGETS(ts_cross_entropy_logits_args),
    TS_BAD(ts_cross_entropy_logits_args, TS_ALSO, dlogits, 0),
    { 0 },
};

/* n_rows, n_vocab, row_stride */
static const ts_invalid invalid = {
    .pointer = { AT(logits) + 1, AT(target) + 1, AT(loss) + 1, AT(lse) + 1, AT(total) + 1 },
    .extent = { { AT(n_rows), 0, 0, 0, true, false },
                { AT(n_vocab), 1, 0, AT(row_stride), false, false },
                { AT(row_stride), 1, 0, 0, false, true } },
    .n_extent = 3,
    .product = { { { 1, 2 } }, { { 1, 3 } } },
    .bad = bad,
};

const ts_task ts_task_cross_entropy_logits = {
    .name = "cross_entropy_logits",
    .dim_name = { "rows", "vocab", "pad", "grad", "mean", "skip" },
    .dim_says = { "n_rows", "n_vocab", "row_stride - n_vocab",
                  "gradient: 0 none, 1 in dlogits, 2 in place", "mean", TS_XE_SKIP_SAYS },
    .more_name = { "smooth", "z", "cap" },
    .more_says = { "100 smoothing", "10000 z_loss", "softcap" },
    TS_XE_TASK,
    .buffer = { { "logits", TS_IN, 2, false },
                { "target", TS_IN, 1, true },
                { "loss", TS_OUT, 1, false },
                { "lse", TS_OUT, 1, false },
                { "total", TS_OUT, 1, false },
                { "dlogits", TS_OUT, 2, false } },
    .number = { { "scale", false },
                { "smoothing", false },
                { "z_loss", false },
                { "softcap", false },
                { "mean", true },
                { "ignore_index", true } },
    .args_bytes = sizeof(ts_cross_entropy_logits_args),
    .cases = ts_cross_entropy_logits_cases,
    .cover = &ts_cross_entropy_logits_cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .invalid = &invalid,
    .excuse = excuse,
    .common = common,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - task: attention forward. The cases are in attention_cases.c, their inputs in
 * attention_draw.c.
 *
 * The oracle works each row out from the definition, over all keys at once, from the rounded
 * inputs, with twice the digits of what is judged. With u the unit roundoff of accumulation, w of
 * storage and kappa(n) = 8 + 2 sqrt(n), a score may err by D_j = kappa(head_dim) u |scale| sum_d
 * |q_d k_jd| + u |s_j - m|, the weight p_j by that part of itself and, through the sum of weights,
 * by their mean; so o errs by sum p_j D_j (|v_j| + |o|) + kappa(n) u A with A = sum p_j |v_j|.
 * Weights may be rounded to storage before they meet v: 2 w A. */
#include <stdlib.h>
#include <string.h>

#include "attention_inside.h"
#include "rng.h"

typedef ts_flash_attention_args fwd_args;

static const char SEES_NONE[] = "a query that sees no key has o = 0 and lse = -inf";

/* ---- inputs ---- */

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    fwd_args                        *a = args;
    const ts_attention_dims          d = ts_attention_dims_of(c);
    const ts_attention_family *const f = ts_attention_family_of(c);
    const int64_t                    D = d.head_dim, Q = d.n_batch * d.n_q_head * d.n_q;
    const int64_t                    K = d.n_batch * d.n_kv_head * d.n_k;
    *a = (fwd_args) { .d = d };
    ts_attention_scalars(m, &d);
    void *q = ts_take(m, &a->q, (ts_buf) { "q", TS_IN, d.dtype, Q, D, D });
    void *k = ts_take(m, &a->k, (ts_buf) { "k", TS_IN, d.dtype, K, D, D });
    void *v = ts_take(m, &a->v, (ts_buf) { "v", TS_IN, d.dtype, K, D, D });
    ts_take(m, &a->o, (ts_buf) { "o", TS_OUT, d.dtype, Q, D, D });
    if (!(c->dim[7] % 10 & TS_FORM_NO_LSE))
        ts_take(m, &a->lse, (ts_buf) { "lse", TS_OUT, ts_wide(d.dtype), 1, Q, Q });
    ts_attention_take_lengths(c, ts_mix(seed + 4), m, &a->kv_len);
    ts_attention_fill(c, &d, a->kv_len, ts_mix(seed), q, d.n_q_head, d.n_q, f->q);
    ts_attention_fill(c, &d, a->kv_len, ts_mix(seed + 1), k, d.n_kv_head, d.n_k, f->k);
    ts_attention_fill(c, &d, a->kv_len, ts_mix(seed + 2), v, d.n_kv_head, d.n_k, f->v);
}

/* ---- oracle ---- */

/* s and its magnitudes, scaled; returns the largest score: NaN if one is NaN or +inf. */
static ts_real scores(const ts_attention_dims *d, ts_span keys, const double *q, const double *k,
                      ts_attention_scored *y)
{
    const int64_t D = d->head_dim;
    ts_real       max = ts_real_of(-INFINITY);
    for (int64_t j = keys.begin; j < keys.end; j++) {
        const ts_real s =
            ts_real_mul(ts_attention_dot(d->dtype, q, k + j * D, D), ts_real_of(d->scale));
        double sizes = 0;
        for (int64_t e = 0; e < D; e++) sizes += fabs(q[e] * k[j * D + e]);
        if (isnan(s.hi) || s.hi == INFINITY) return ts_real_of(NAN);
        if (ts_real_less(max, s)) max = s;
        y[j] = (ts_attention_scored) { s, { 0, 0 }, sizes * fabs(d->scale) };
    }
    return max;
}

void ts_attention_forward_row(const ts_attention_dims *d, ts_span keys, const double *q,
                              const double *k, const double *v, ts_attention_scored *y,
                              ts_attention_answer *a)
{
    const ts_dtype t = d->dtype;
    const int64_t  D = d->head_dim, n = keys.end - keys.begin;
    const double   u = ts_attention_u(t), w = ts_attention_w(t);
    const ts_real  max = scores(d, keys, q, k, y);
    double         mean_error = 0;
    ts_real        sum = { 0, 0 };
    for (int64_t e = 0; e < D; e++) {
        a->value[e] = ts_real_of(isnan(max.hi) ? NAN : 0);
        a->error[e] = a->size[e] = 0;
    }
    a->lse = max;
    a->lse_error = 0;
    if (!isfinite(max.hi)) return;
    for (int64_t j = keys.begin; j < keys.end; j++)
        sum = ts_real_add(sum, y[j].p = ts_attention_exp(t, ts_real_sub(y[j].s, max)));
    for (int64_t j = keys.begin; j < keys.end; j++) {
        if (y[j].s.hi == -INFINITY) continue;
        const ts_real p = ts_real_div(y[j].p, sum);
        const double  part =
            ts_attention_kappa(D) * u * y[j].size + u * fabs(ts_real_sub(y[j].s, max).hi);
        const double lost = ts_attention_lost(y[j].p.hi, t) / sum.hi;
        mean_error += p.hi * part + lost;
        ts_attention_gather(t, a->value, p, v + j * D, D);
        for (int64_t e = 0; e < D; e++) {
            const double size = fabs(v[j * D + e]);
            a->size[e] += p.hi * size;
            a->error[e] += (p.hi * part + lost) * size;
        }
    }
    for (int64_t e = 0; e < D; e++) {
        a->value[e] = ts_real_gathered(a->value[e]);
        a->error[e] +=
            mean_error * fabs(a->value[e].hi) + (ts_attention_kappa(n) * u + 2 * w) * a->size[e];
    }
    a->lse = ts_real_add(max, ts_real_log(sum));
    a->lse_error = mean_error + u * (16 + ts_attention_kappa(n) + 2 * fabs(max.hi));
}

/* want: the numbers of the rows that are computed, their o, their lse; exp_error: by how much more
 * of itself an exponential may err */
static void solve(const fwd_args *a, double exp_error, ts_want *want)
{
    const ts_attention_dims *d = &a->d;
    const ts_dtype           t = d->dtype;
    const int64_t D = d->head_dim, n = ts_attention_picked_q(d), share = d->n_q_head / d->n_kv_head;
    double       *q = ts_attention_wide(d, a->q, t, d->n_q_head, d->n_q, D);
    double       *k = ts_attention_wide(d, a->k, t, d->n_kv_head, d->n_k, D);
    double       *v = ts_attention_wide(d, a->v, t, d->n_kv_head, d->n_k, D);
    ts_attention_scored *scratch = malloc((size_t)(d->n_k + 1) * sizeof *scratch);
    ts_want             *o = want + n, *lse = o + n * D;
    if (!scratch) abort();
    for (int64_t r = 0; r < n; r++) {
        const int64_t       row = (int64_t)want[r].value, i = row % d->n_q, bh = row / d->n_q;
        const int64_t       b = bh / d->n_q_head, first = bh / share * d->n_k * D;
        const ts_span       keys = ts_attention_keys(d, a->kv_len, b, i);
        ts_attention_answer x;
        ts_attention_forward_row(d, keys, q + row * D, k + first, v + first, scratch, &x);
        for (int64_t e = 0; e < D; e++)
            o[r * D + e] = ts_attention_stored(
                x.value[e].hi, x.error[e] + exp_error * (x.size[e] + fabs(x.value[e].hi)), t);
        lse[r] = ts_attention_stored(x.lse.hi, x.lse_error + exp_error, ts_wide(t));
        if (isnan(x.lse.hi)) lse[r].bound = INFINITY; /* unspecified for an invalid row */
    }
    free(q);
    free(k);
    free(v);
    free(scratch);
}

static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const fwd_args *a = args;
    (void)c;
    ts_attention_pick(ts_attention_rows_q(&a->d), ts_attention_picked_q(&a->d), want);
    solve(a, 0, want);
}

/* ---- check, cost, invalid calls ---- */

static bool check_rows(const fwd_args *a, bool all, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    return ts_attention_forward_check(&a->d, a->kv_len, a->o, a->lse, all, want, f, e);
}

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    (void)c;
    return check_rows(args, true, want, f, e);
}

static bool check_common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                         ts_errors *e)
{
    (void)c;
    return check_rows(args, false, want, f, e);
}

/* The usual contract says nothing of a query that sees no key. */
static void excuse_none(const ts_case *c, const void *args, ts_want *want)
{
    const fwd_args *a = args;
    const int64_t   D = a->d.head_dim, n = ts_attention_picked_q(&a->d);
    (void)c;
    ts_attention_excuse_none(&a->d, a->kv_len, want, n, D, want + n);
    ts_attention_excuse_none(&a->d, a->kv_len, want, n, 1, want + n + n * D);
}

static void oracle_any(const ts_case *c, const void *args, ts_want *want)
{
    solve(args, ts_attention_fast_exp(c->dtype), want);
    excuse_none(c, args, want);
}

static const char *common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    const size_t      n = ts_attention_forward_n_want(c);
    const ts_errors   was = *e;
    ts_flaw           first = *f;
    const char *const none =
        ts_common_by(excuse_none, check_common, want, n, SEES_NONE, c, args, &first, e);
    if (none) return none;
    *e = was;
    return ts_common_by(oracle_any, check_common, want, n, TS_ATTENTION_EXACT, c, args, f, e);
}

/* What is NaN by the canon may be anything. Scores of -inf, or that leave the range of float, may
 * make their row NaN; if it has no other scores, anything. */
static void excuse(const ts_case *c, const void *args, ts_want *want)
{
    const fwd_args          *a = args;
    const ts_attention_dims *d = &a->d;
    const int64_t D = d->head_dim, n = ts_attention_picked_q(d), share = d->n_q_head / d->n_kv_head;
    double       *q = ts_attention_wide(d, a->q, d->dtype, d->n_q_head, d->n_q, D);
    double       *k = ts_attention_wide(d, a->k, d->dtype, d->n_kv_head, d->n_k, D);
    const ts_buf  of_o = { "o", TS_OUT, d->dtype, n, D, D };
    const ts_buf  of_lse = { "lse", TS_OUT, ts_wide(d->dtype), n, 1, 1 };
    const ts_attention_rows o = { of_o, a->o, d->n_q_head, d->n_q, NULL, 0, NULL };
    const ts_attention_rows lse = { of_lse, a->lse, d->n_q_head, d->n_q, NULL, 0, NULL };
    ts_attention_dims       heads_first = *d;
    (void)c;
    heads_first.layout = TS_BHND;
    ts_excuse_nan(want + n, n * D);
    for (int64_t r = 0; r < n; r++) {
        const int64_t row = (int64_t)want[r].value, bh = row / d->n_q;
        const ts_span keys = ts_attention_keys(d, a->kv_len, bh / d->n_q_head, row % d->n_q);
        const int64_t beyond =
            ts_attention_beyond(d, keys, q + row * D, k + bh / share * d->n_k * D);
        ts_want *const of_row = want + n + r * D, *const of_sum = want + n + n * D + r;
        if (!beyond) continue;
        if (beyond == keys.end - keys.begin) ts_excuse(of_row, D), ts_excuse(of_sum, 1);
        ts_attention_excuse_row(d, &o, row, of_row);
        if (a->lse) ts_attention_excuse_row(&heads_first, &lse, row, of_sum);
    }
    free(q);
    free(k);
}

static ts_cost cost(const ts_case *c)
{
    const double b = (double)ts_format_of(c->dtype)->n_bytes;
    return ts_attention_forward_cost(c, 2 * b, 2 * b);
}

static_assert(offsetof(fwd_args, d) == 0, "the dims come first");
static const ts_bad bad[] = { TS_ATTENTION_BAD(fwd_args, q), { 0 } };

static const ts_invalid invalid = {
    .pointer = { TS_POINTER(fwd_args, q), TS_POINTER(fwd_args, k), TS_POINTER(fwd_args, v),
                 TS_POINTER(fwd_args, o) },
    TS_ATTENTION_EXTENTS,
    .bad = bad,
};

const ts_task ts_task_flash_attention = {
    .name = "flash_attention",
    TS_ATTENTION_CHALLENGE,
    .buffer = { { "q", TS_IN, 4, false },
                { "k", TS_IN, 4, false },
                { "v", TS_IN, 4, false },
                { "o", TS_OUT, 4, false },
                { "lse", TS_OUT, 3, false },
                { "kv_len", TS_IN, 1, true } },
    .args_bytes = sizeof(fwd_args),
    .cases = ts_flash_attention_cases,
    .cover = &ts_flash_attention_cover,
    .setup = setup,
    .n_want = ts_attention_forward_n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .invalid = &invalid,
    .canon = { { "nonfinite", "a NaN or infinity in a query makes its own row NaN and no other",
                 true },
               { "nonfinite_key", "a score of NaN or +inf makes its row NaN, one of -inf weighs 0",
                 true },
               { "nonfinite_value", "a NaN among values reaches all queries that see it", true },
               { "masked",
                 "keys whose score is -inf have weight 0, even if they come first or are all keys",
                 false },
               { "deep", "scores below the range of float have weight 0", false },
               { "empty", SEES_NONE, false } },
    .excuse = excuse,
    .common = common,
};

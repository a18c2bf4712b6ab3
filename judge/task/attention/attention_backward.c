/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward.c - task: attention backward.
 *
 * The oracle takes o and lse as they are given: forward's in wider arithmetic, rounded. Rows of dq,
 * and of dk and dv, are computed one by one, from the pairs that they sum.
 *
 * Of a pair, with u, w and kappa as in attention.c: P = exp(s - lse) may err by
 *     D = kappa(head_dim) u |scale| sum|q k| + u |s - lse| + u |lse| + 16 u
 * of itself; the last but one is for kernels that recompute lse. dP errs by kappa(head_dim) u
 * sum|dout v|, delta by w sum|dout o| + kappa(head_dim) u sum|dout o|: a kernel
 * that computes it from P dP does not depend on how o was rounded. P and dS may be rounded to
 * storage before they meet another factor: 2 w of the magnitudes that cancel in them. */
#include <stdlib.h>

#include "attention_inside.h"
#include "rng.h"

typedef ts_flash_attention_backward_args bwd_args;

static const char SEES_NONE[] = "a query that sees no key has dq = 0 and adds nothing to dk and dv";

/* Inputs as doubles, heads before rows. */
typedef struct wide {
    double *q, *k, *v, *o, *dout, *lse;
} wide;

static void widen(const bwd_args *a, wide *w)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim;
    ts_attention_dims        heads_first = *d;
    heads_first.layout = TS_BHND;
    w->q = ts_attention_wide(d, a->q, d->dtype, d->n_q_head, d->n_q, D);
    w->k = ts_attention_wide(d, a->k, d->dtype, d->n_kv_head, d->n_k, D);
    w->v = ts_attention_wide(d, a->v, d->dtype, d->n_kv_head, d->n_k, D);
    w->o = ts_attention_wide(d, a->o, d->dtype, d->n_q_head, d->n_q, D);
    w->dout = ts_attention_wide(d, a->dout, d->dtype, d->n_q_head, d->n_q, D);
    w->lse = ts_attention_wide(&heads_first, a->lse, ts_wide(d->dtype), d->n_q_head, d->n_q, 1);
}

static void drop(wide *w)
{
    free(w->q);
    free(w->k);
    free(w->v);
    free(w->o);
    free(w->dout);
    free(w->lse);
}

/* ---- inputs ---- */

/* What forward wrote, into w->o and w->lse: by the oracle of forward where double is judged. */
static void forward(const bwd_args *a, const wide *w)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim, share = d->n_q_head / d->n_kv_head;
    if (d->dtype != TS_F64) {
        ts_attention_forward_all(d, a->kv_len, w->q, w->k, w->v, w->o, w->lse);
        return;
    }
    ts_attention_scored *scratch = malloc((size_t)(d->n_k + 1) * sizeof *scratch);
    if (!scratch) abort();
    for (int64_t r = 0; r < d->n_batch * d->n_q_head * d->n_q; r++) {
        const int64_t       bh = r / d->n_q, first = bh / share * d->n_k * D;
        const ts_span       keys = ts_attention_keys(d, a->kv_len, bh / d->n_q_head, r % d->n_q);
        ts_attention_answer x;
        ts_attention_forward_row(d, keys, w->q + r * D, w->k + first, w->v + first, scratch, &x);
        for (int64_t e = 0; e < D; e++) w->o[r * D + e] = x.value[e].hi;
        w->lse[r] = x.lse.hi;
    }
    free(scratch);
}

static void write_forward(const bwd_args *a, void *o, void *lse)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim;
    const double            *from;
    wide                     w;
    widen(a, &w);
    forward(a, &w);
    from = w.o;
    for (int64_t b = 0; b < d->n_batch; b++)
        for (int64_t h = 0; h < d->n_q_head; h++)
            for (int64_t i = 0; i < d->n_q; i++) {
                const int64_t row = ts_attention_row(d, d->n_q_head, d->n_q, b, h, i);
                for (int64_t e = 0; e < D; e++) ts_store(o, d->dtype, row * D + e, *from++);
            }
    for (int64_t r = 0; r < d->n_batch * d->n_q_head * d->n_q; r++)
        ts_store(lse, ts_wide(d->dtype), r, w.lse[r]);
    drop(&w);
}

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    bwd_args                        *a = args;
    const ts_attention_dims          d = ts_attention_dims_of(c);
    const ts_attention_family *const f = ts_attention_family_of(c);
    const ts_dtype                   t = d.dtype;
    const int64_t                    D = d.head_dim, Q = d.n_batch * d.n_q_head * d.n_q;
    const int64_t                    K = d.n_batch * d.n_kv_head * d.n_k;
    *a = (bwd_args) { .d = d };
    ts_attention_scalars(m, &d);
    void *q = ts_take(m, &a->q, (ts_buf) { "q", TS_IN, t, Q, D, D });
    void *k = ts_take(m, &a->k, (ts_buf) { "k", TS_IN, t, K, D, D });
    void *v = ts_take(m, &a->v, (ts_buf) { "v", TS_IN, t, K, D, D });
    void *o = ts_take(m, &a->o, (ts_buf) { "o", TS_IN, t, Q, D, D });
    void *dout = ts_take(m, &a->dout, (ts_buf) { "dout", TS_IN, t, Q, D, D });
    void *lse = ts_take(m, &a->lse, (ts_buf) { "lse", TS_IN, ts_wide(t), 1, Q, Q });
    ts_take(m, &a->dq, (ts_buf) { "dq", TS_OUT, t, Q, D, D });
    ts_take(m, &a->dk, (ts_buf) { "dk", TS_OUT, t, K, D, D });
    ts_take(m, &a->dv, (ts_buf) { "dv", TS_OUT, t, K, D, D });
    ts_attention_take_lengths(c, ts_mix(seed + 4), m, &a->kv_len);
    ts_attention_fill(c, &d, a->kv_len, ts_mix(seed), q, d.n_q_head, d.n_q, f->q);
    ts_attention_fill(c, &d, a->kv_len, ts_mix(seed + 1), k, d.n_kv_head, d.n_k, f->k);
    ts_attention_fill(c, &d, a->kv_len, ts_mix(seed + 2), v, d.n_kv_head, d.n_k, f->v);
    ts_attention_fill(c, &d, a->kv_len, ts_mix(seed + 3), dout, d.n_q_head, d.n_q, f->dout);
    write_forward(a, o, lse);
}

/* ---- oracle ---- */

/* Of a query row: delta, the magnitudes that cancel in it, and how far it may be off. */
typedef struct row_sums {
    ts_real delta;
    double  size, error;
} row_sums;

/* Of a query and a key that it sees. */
typedef struct pair {
    ts_real p, ds;             /* ds without the scale */
    double  p_error, ds_error; /* of products with them, but for the sum's own rounding */
    double  ds_size;           /* the magnitudes that cancel in ds */
} pair;

static row_sums sums_of(const ts_attention_dims *d, const double *dout, const double *o)
{
    const double u = ts_attention_u(d->dtype), w = ts_attention_w(d->dtype);
    row_sums     r = { ts_attention_dot(d->dtype, dout, o, d->head_dim), 0, 0 };
    for (int64_t e = 0; e < d->head_dim; e++) r.size += fabs(dout[e] * o[e]);
    r.error = (w + ts_attention_kappa(d->head_dim) * u) * r.size;
    return r;
}

static pair pair_of(const ts_attention_dims *d, const row_sums *r, const double *q, const double *k,
                    const double *v, const double *dout, double lse)
{
    const int64_t D = d->head_dim;
    const double  u = ts_attention_u(d->dtype), w = ts_attention_w(d->dtype);
    const double  ku = ts_attention_kappa(D) * u;
    const ts_real s = ts_real_mul(ts_attention_dot(d->dtype, q, k, D), ts_real_of(d->scale));
    const ts_real dp = ts_attention_dot(d->dtype, dout, v, D), x = ts_real_sub(s, ts_real_of(lse));
    const ts_real p = ts_attention_exp(d->dtype, x);
    double        s_size = 0, dp_size = 0;
    for (int64_t e = 0; e < D; e++) {
        s_size += fabs(q[e] * k[e]);
        dp_size += fabs(dout[e] * v[e]);
    }
    const double part =
        ku * s_size * fabs(d->scale) + u * fabs(x.hi) + u * fabs(lse) + 16 * u + 2 * w;
    const double size = fabs(dp.hi) + fabs(r->delta.hi);
    const double p_error = p.hi * part + ts_attention_lost(p.hi, d->dtype);
    return (pair) { .p = p,
                    .ds = ts_real_mul(p, ts_real_sub(dp, r->delta)),
                    .p_error = p_error,
                    .ds_error = size * p_error + ts_attention_lost(1, d->dtype) +
                                p.hi * (ku * dp_size + r->error),
                    .ds_size = p.hi * size };
}

/* A sum of products of pairs with rows, element by element. */
typedef struct sum {
    ts_real value[256];
    double  error[256], terms[256];
} sum;

static void add(sum *s, const ts_attention_dims *d, ts_real factor, double error, double size,
                const double *x)
{
    ts_attention_gather(d->dtype, s->value, factor, x, d->head_dim);
    for (int64_t e = 0; e < d->head_dim; e++) {
        s->error[e] += error * fabs(x[e]);
        s->terms[e] += size * fabs(x[e]);
    }
}

static void give(const sum *s, const ts_attention_dims *d, double scale, int64_t n, ts_want *want)
{
    const double ku = ts_attention_kappa(n) * ts_attention_u(d->dtype), size = fabs(scale);
    for (int64_t e = 0; e < d->head_dim; e++) {
        const ts_real value = ts_real_mul(ts_real_gathered(s->value[e]), ts_real_of(scale));
        want[e] = ts_attention_stored(value.hi, size * (s->error[e] + ku * s->terms[e]), d->dtype);
    }
}

/* r: the row's number in the order batch, head, row */
static void dq_row(const bwd_args *a, const wide *w, int64_t r, ts_want *dq)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim, bh = r / d->n_q;
    const int64_t            first = bh / (d->n_q_head / d->n_kv_head) * d->n_k;
    const ts_span            keys = ts_attention_keys(d, a->kv_len, bh / d->n_q_head, r % d->n_q);
    const row_sums           sums = sums_of(d, w->dout + r * D, w->o + r * D);
    sum                      s = { { { 0, 0 } }, { 0 }, { 0 } };
    for (int64_t j = first + keys.begin; j < first + keys.end; j++) {
        const pair x =
            pair_of(d, &sums, w->q + r * D, w->k + j * D, w->v + j * D, w->dout + r * D, w->lse[r]);
        add(&s, d, x.ds, x.ds_error, x.ds_size, w->k + j * D);
    }
    give(&s, d, d->scale, d->n_k, dq);
}

static void dk_row(const bwd_args *a, const wide *w, const row_sums *sums, int64_t r, ts_want *dk,
                   ts_want *dv)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim, share = d->n_q_head / d->n_kv_head, kv = r / d->n_k;
    const ts_span see = ts_attention_queries(d, a->kv_len, kv / d->n_kv_head, r % d->n_k);
    sum           to_k = { { { 0, 0 } }, { 0 }, { 0 } }, to_v = to_k;
    for (int64_t h = kv * share; h < (kv + 1) * share; h++)
        for (int64_t i = h * d->n_q + see.begin; i < h * d->n_q + see.end; i++) {
            const pair x = pair_of(d, &sums[i], w->q + i * D, w->k + r * D, w->v + r * D,
                                   w->dout + i * D, w->lse[i]);
            add(&to_k, d, x.ds, x.ds_error, x.ds_size, w->q + i * D);
            add(&to_v, d, x.p, x.p_error, x.p.hi, w->dout + i * D);
        }
    give(&to_k, d, d->scale, share * d->n_q, dk);
    give(&to_v, d, 1, share * d->n_q, dv);
}

static int64_t rows_k(const ts_attention_dims *d)
{
    return d->n_batch * d->n_kv_head * d->n_k;
}

static int64_t picked_k(const ts_attention_dims *d)
{
    const int64_t n = d->n_q_head / d->n_kv_head * d->n_q;
    return ts_attention_n_picked(rows_k(d), (double)n * (double)d->head_dim);
}

static size_t n_want(const ts_case *c)
{
    const ts_attention_dims d = ts_attention_dims_of(c);
    return (size_t)(ts_attention_picked_q(&d) * (d.head_dim + 1) +
                    picked_k(&d) * (2 * d.head_dim + 1));
}

/* want: rows of q that are computed, their dq; rows of k, their dk, their dv */
static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const bwd_args          *a = args;
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim, nq = ts_attention_picked_q(d), nk = picked_k(d);
    ts_want                 *dq = want + nq, *key = dq + nq * D, *dk = key + nk, *dv = dk + nk * D;
    row_sums                *sums = malloc((size_t)(ts_attention_rows_q(d) + 1) * sizeof *sums);
    wide                     w;
    (void)c;
    if (!sums) abort();
    widen(a, &w);
    ts_attention_pick(ts_attention_rows_q(d), nq, want);
    ts_attention_pick(rows_k(d), nk, key);
    for (int64_t r = 0; r < ts_attention_rows_q(d); r++)
        sums[r] = sums_of(d, w.dout + r * D, w.o + r * D);
    for (int64_t i = 0; i < nq; i++) dq_row(a, &w, (int64_t)want[i].value, dq + i * D);
    for (int64_t i = 0; i < nk; i++)
        dk_row(a, &w, sums, (int64_t)key[i].value, dk + i * D, dv + i * D);
    drop(&w);
    free(sums);
}

/* ---- check, cost, invalid calls ---- */

static bool check_rows(const bwd_args *a, bool all, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim, nq = ts_attention_picked_q(d), nk = picked_k(d);
    const ts_want           *key = want + nq + nq * D;
    const ts_buf             dq = { "dq", TS_OUT, d->dtype, ts_attention_rows_q(d), D, D };
    const ts_buf             dk = { "dk", TS_OUT, d->dtype, rows_k(d), D, D };
    const ts_buf             dv = { "dv", TS_OUT, d->dtype, rows_k(d), D, D };
    ts_attention_rows        tq = { dq, a->dq, d->n_q_head, d->n_q, ts_attention_keys, 0, NULL };
    ts_attention_rows tk = { dk, a->dk, d->n_kv_head, d->n_k, ts_attention_queries, 0, NULL };
    ts_attention_rows tv = { dv, a->dv, d->n_kv_head, d->n_k, ts_attention_queries, 0, NULL };
    if (!all) tq.skip = ts_attention_sees_none, tk.skip = tv.skip = ts_attention_beside_none;
    return ts_attention_check(d, a->kv_len, &tq, want, nq, want + nq, f, e) &&
           ts_attention_check(d, a->kv_len, &tk, key, nk, key + nk, f, e) &&
           ts_attention_check(d, a->kv_len, &tv, key, nk, key + nk + nk * D, f, e);
}

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    (void)c;
    return check_rows(args, true, want, f, e);
}

static const char *common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    ts_flaw real;
    (void)c;
    if (check_rows(args, false, want, &real, e)) return SEES_NONE;
    *f = real;
    return NULL;
}

static ts_cost cost(const ts_case *c)
{
    const ts_attention_dims d = ts_attention_dims_of(c);
    const double            b = (double)ts_format_of(d.dtype)->n_bytes, D = (double)d.head_dim;
    return (ts_cost) { .bytes = 4 * b * D * (double)(ts_attention_rows_q(&d) + rows_k(&d)) +
                                4 * (double)ts_attention_rows_q(&d),
                       .flops = 10 * D * ts_attention_pairs(&d) };
}

static_assert(offsetof(bwd_args, d) == 0, "the dims come first");
static const ts_bad bad[] = { TS_ATTENTION_BAD(bwd_args, q), { 0 } };

static const ts_invalid invalid = {
    .pointer = { TS_POINTER(bwd_args, q), TS_POINTER(bwd_args, k), TS_POINTER(bwd_args, v),
                 TS_POINTER(bwd_args, o), TS_POINTER(bwd_args, dout), TS_POINTER(bwd_args, lse),
                 TS_POINTER(bwd_args, dq), TS_POINTER(bwd_args, dk), TS_POINTER(bwd_args, dv) },
    TS_ATTENTION_EXTENTS,
    .bad = bad,
};

const ts_task ts_task_flash_attention_backward = {
    .name = "flash_attention_backward",
    TS_ATTENTION_CHALLENGE,
    .buffer = { { "q", TS_IN, 4, false },
                { "k", TS_IN, 4, false },
                { "v", TS_IN, 4, false },
                { "o", TS_IN, 4, false },
                { "dout", TS_IN, 4, false },
                { "lse", TS_IN, 3, false },
                { "dq", TS_OUT, 4, false },
                { "dk", TS_OUT, 4, false },
                { "dv", TS_OUT, 4, false },
                { "kv_len", TS_IN, 1, true } },
    .args_bytes = sizeof(bwd_args),
    .cases = ts_flash_attention_backward_cases,
    .cover = &ts_flash_attention_backward_cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .invalid = &invalid,
    .canon = { { "empty", SEES_NONE, false } },
    .common = common,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward.c - task: attention backward.
 *
 * The oracle takes o and lse as they are given: forward's in wider arithmetic, rounded. Rows of dq,
 * and of dk and dv, are computed one by one, from the pairs that they sum.
 *
 * Of a pair, with u, w and kappa as in attention.c, P = exp(s - lse) may err by
 *     D = A + E + u |lse| + 16 u + 2 w,   A = kappa(head_dim) u |scale| sum|q k| + u |s - lse|
 * of itself. E = sum P A + kappa(n) u, over the n keys of the row, and u |lse| are for kernels that
 * do not take lse as given but normalise by a sum of their own; 2 w is for P, or dP, rounded to
 * storage. dP errs by B = kappa(head_dim) u sum|dout v|.
 *
 * delta is the row's dout . o, or its sum of P dP; the oracle has the former. The one errs by
 * kappa(head_dim) u sum|dout o|, the other by sum P (B + D |dP|) + kappa(n) u sum P |dP|; the more
 * of both counts, and w sum|dout o|, since o is rounded. dS = P (dP - delta) errs by D of the
 * magnitudes that cancel in it, and by P times what dP and delta err. */
#include <stdlib.h>
#include <string.h>

#include "attention_inside.h"
#include "rng.h"

typedef ts_flash_attention_backward_args bwd_args;

static const char SEES_NONE[] = "a query that sees no key has dq = 0 and adds nothing to dk and dv";

/* Inputs as doubles, heads before rows. */
typedef struct wide {
    double *q, *k, *v, *o, *dout, *lse;
    double  exp_error; /* by how much of itself an exponential may err */
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

/* In float: a row whose scores are all below its range has o = 0. */
static void forward_float(const bwd_args *a, const wide *w)
{
    const int64_t D = a->d.head_dim, n = a->d.n_batch * a->d.n_q_head * a->d.n_q;
    ts_attention_forward_all(&a->d, a->kv_len, w->q, w->k, w->v, w->o, w->lse);
    for (int64_t r = 0; r < n; r++)
        for (int64_t e = 0; e < D && w->lse[r] < -(double)FLT_MAX; e++) w->o[r * D + e] = 0;
}

/* What forward wrote, into w->o and w->lse: by the oracle of forward where double is judged. */
static void forward(const bwd_args *a, const wide *w)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim, share = d->n_q_head / d->n_kv_head;
    if (d->dtype != TS_F64) {
        forward_float(a, w);
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

/* Of a query row: delta and how far it may be off, and E of the comment above. */
typedef struct row_sums {
    ts_real delta;
    double  error, norm, exp_error;
} row_sums;

/* Of a query and a key that it sees. */
typedef struct pair {
    ts_real p, ds;             /* ds without the scale */
    double  p_error, ds_error; /* of products with them, but for the sum's own rounding */
    double  ds_size;           /* the magnitudes that cancel in ds */
} pair;

/* What query row r meets, r counted in the order batch, head, row. */
typedef struct row_inputs {
    const double *q, *dout, *o, *k, *v; /* k and v of the first key that it sees */
    double        lse, exp_error;
    int64_t       n; /* keys to which it contributes: those that it sees, or none */
} row_inputs;

static row_inputs inputs_of(const bwd_args *a, const wide *w, int64_t r)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim, bh = r / d->n_q;
    const ts_span            s = ts_attention_keys(d, a->kv_len, bh / d->n_q_head, r % d->n_q);
    const int64_t            first = bh / (d->n_q_head / d->n_kv_head) * d->n_k + s.begin;
    return (row_inputs) {
        w->q + r * D,     w->dout + r * D,
        w->o + r * D,     w->k + first * D,
        w->v + first * D, w->lse[r],
        w->exp_error,     w->lse[r] != -INFINITY && s.end > s.begin ? s.end - s.begin : 0
    };
}

/* A dot product in double, and the magnitudes that cancel in it. */
static double dot_of(const double *x, const double *y, int64_t n, double *size)
{
    double sum = 0;
    *size = 0;
    for (int64_t e = 0; e < n; e++) {
        sum += x[e] * y[e];
        *size += fabs(x[e] * y[e]);
    }
    return sum;
}

/* A, of a pair whose score is s. */
static double part_of(const ts_attention_dims *d, double s, double s_size, double lse)
{
    const double u = ts_attention_u(d->dtype);
    return ts_attention_kappa(d->head_dim) * u * s_size * fabs(d->scale) + u * fabs(s - lse);
}

/* How far the row's sum of P dP may be off; and E. */
static double error_by_rows(const ts_attention_dims *d, const row_inputs *x, double *norm)
{
    const int64_t D = d->head_dim;
    const double  u = ts_attention_u(d->dtype), w = ts_attention_w(d->dtype);
    const double  ku = ts_attention_kappa(D) * u, nu = ts_attention_kappa(x->n) * u;
    const double  flat = u * fabs(x->lse) + x->exp_error + 2 * w + nu; /* alike for all keys */
    double        s_size, dp_size, error = 0, terms = 0, mean = 0;
    for (int64_t j = 0; j < x->n; j++) {
        const double s = dot_of(x->q, x->k + j * D, D, &s_size) * d->scale;
        const double dp = fabs(dot_of(x->dout, x->v + j * D, D, &dp_size));
        const double p = ts_exp64(s - x->lse), part = p > 0 ? part_of(d, s, s_size, x->lse) : 0;
        mean += p * part;
        terms += p * dp;
        error += p * (ku * dp_size + (part + flat) * dp) + ts_attention_lost(p, d->dtype) * dp;
    }
    *norm = mean + nu;
    return error + *norm * terms;
}

static row_sums sums_of(const ts_attention_dims *d, const row_inputs *x, double by_rows,
                        double norm)
{
    const double u = ts_attention_u(d->dtype), w = ts_attention_w(d->dtype);
    double       size;
    dot_of(x->dout, x->o, d->head_dim, &size);
    return (row_sums) { ts_attention_dot(d->dtype, x->dout, x->o, d->head_dim),
                        w * size + fmax(ts_attention_kappa(d->head_dim) * u * size, by_rows), norm,
                        x->exp_error };
}

static double length(const double *x, int64_t n)
{
    double size;
    return sqrt(dot_of(x, x, n, &size));
}

/* Of all rows. Where only the picked ones are affordable, the others have the largest errors among
 * those, in proportion to their dout: timed inputs are alike in all rows. */
static void sum_all(const bwd_args *a, const wide *w, const ts_want *picked, int64_t n_picked,
                    row_sums *sums)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            n = ts_attention_rows_q(d);
    double                   share = 0, most = 0, norm;
    for (int64_t i = 0; n_picked < n && i < n_picked; i++) {
        const row_inputs x = inputs_of(a, w, (int64_t)picked[i].value);
        const double     by_rows = error_by_rows(d, &x, &norm), size = length(x.dout, d->head_dim);
        if (size > 0) share = fmax(share, by_rows / size);
        most = fmax(most, norm);
    }
    for (int64_t r = 0; r < n; r++) {
        const row_inputs x = inputs_of(a, w, r);
        double           by_rows = share * length(x.dout, d->head_dim);
        norm = most;
        if (n_picked == n) by_rows = error_by_rows(d, &x, &norm);
        sums[r] = sums_of(d, &x, by_rows, norm);
    }
}

static pair pair_of(const ts_attention_dims *d, const row_sums *r, const double *q, const double *k,
                    const double *v, const double *dout, double lse)
{
    const int64_t D = d->head_dim;
    const double  u = ts_attention_u(d->dtype), w = ts_attention_w(d->dtype);
    const ts_real s = ts_real_mul(ts_attention_dot(d->dtype, q, k, D), ts_real_of(d->scale));
    const ts_real dp = ts_attention_dot(d->dtype, dout, v, D), x = ts_real_sub(s, ts_real_of(lse));
    const ts_real p = ts_attention_exp(d->dtype, x);
    double        s_size, dp_size;
    dot_of(q, k, D, &s_size);
    dot_of(dout, v, D, &dp_size);
    const double part =
        part_of(d, s.hi, s_size, lse) + r->norm + u * fabs(lse) + r->exp_error + 2 * w;
    const double size = fabs(dp.hi) + fabs(r->delta.hi);
    const double p_error = p.hi * part + ts_attention_lost(p.hi, d->dtype);
    return (pair) { .p = p,
                    .ds = ts_real_mul(p, ts_real_sub(dp, r->delta)),
                    .p_error = p_error,
                    .ds_error = size * p_error + ts_attention_lost(1, d->dtype) +
                                p.hi * (ts_attention_kappa(D) * u * dp_size + r->error),
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
    /* Each product may underflow, before it is scaled or after. */
    const double step = ts_attention_step(ts_wide(d->dtype)),
                 lost = (double)n * fmax(1, size) * step;
    for (int64_t e = 0; e < d->head_dim; e++) {
        const ts_real value = ts_real_mul(ts_real_gathered(s->value[e]), ts_real_of(scale));
        want[e] =
            ts_attention_stored(value.hi, size * (s->error[e] + ku * s->terms[e]) + lost, d->dtype);
    }
}

static void dq_row(const bwd_args *a, const wide *w, const row_sums *sums, int64_t r, ts_want *dq)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim;
    const row_inputs         of = inputs_of(a, w, r);
    sum                      s = { { { 0, 0 } }, { 0 }, { 0 } };
    for (int64_t j = 0; j < of.n; j++) {
        const pair x = pair_of(d, &sums[r], of.q, of.k + j * D, of.v + j * D, of.dout, of.lse);
        add(&s, d, x.ds, x.ds_error, x.ds_size, of.k + j * D);
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
            if (w->lse[i] == -INFINITY) continue;
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

/* want: rows of q that are computed, their dq; rows of k, their dk, their dv; exp_error: by how
 * much of itself an exponential may err */
static void solve(const bwd_args *a, double exp_error, ts_want *want)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim, nq = ts_attention_picked_q(d), nk = picked_k(d);
    ts_want                 *dq = want + nq, *key = dq + nq * D, *dk = key + nk, *dv = dk + nk * D;
    row_sums                *sums = malloc((size_t)(ts_attention_rows_q(d) + 1) * sizeof *sums);
    wide                     w;
    if (!sums) abort();
    widen(a, &w);
    w.exp_error = exp_error;
    sum_all(a, &w, want, nq, sums);
    for (int64_t i = 0; i < nq; i++) dq_row(a, &w, sums, (int64_t)want[i].value, dq + i * D);
    for (int64_t i = 0; i < nk; i++)
        dk_row(a, &w, sums, (int64_t)key[i].value, dk + i * D, dv + i * D);
    drop(&w);
    free(sums);
}

static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const bwd_args          *a = args;
    const ts_attention_dims *d = &a->d;
    const int64_t            nq = ts_attention_picked_q(d);
    (void)c;
    ts_attention_pick(ts_attention_rows_q(d), nq, want);
    ts_attention_pick(rows_k(d), picked_k(d), want + nq + nq * d->head_dim);
    solve(a, 16 * ts_attention_u(d->dtype), want);
}

/* ---- check, cost, invalid calls ---- */

static ts_attention_rows rows_of(const bwd_args *a, const char *name, const void *p)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim;
    const bool               q = p == a->dq;
    const ts_buf b = { name, TS_OUT, d->dtype, q ? ts_attention_rows_q(d) : rows_k(d), D, D };
    return (ts_attention_rows) { b,
                                 p,
                                 q ? d->n_q_head : d->n_kv_head,
                                 q ? d->n_q : d->n_k,
                                 q ? ts_attention_keys : ts_attention_queries,
                                 0,
                                 NULL };
}

static bool check_rows(const bwd_args *a, bool all, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim, nq = ts_attention_picked_q(d), nk = picked_k(d);
    const ts_want           *key = want + nq + nq * D;
    ts_attention_rows        tq = rows_of(a, "dq", a->dq), tk = rows_of(a, "dk", a->dk);
    ts_attention_rows        tv = rows_of(a, "dv", a->dv);
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

static bool check_common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                         ts_errors *e)
{
    (void)c;
    return check_rows(args, false, want, f, e);
}

/* What a query that sees no key may add to dk and dv of its head where weights of at most 1 are
 * taken for those that there are none of: dout of each element, and |scale| q times twice the
 * largest dP. */
static void widen_key(const bwd_args *a, const wide *w, int64_t r, ts_want *dk, ts_want *dv)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim, share = d->n_q_head / d->n_kv_head, kv = r / d->n_k;
    for (int64_t h = kv * share; h < (kv + 1) * share; h++)
        for (int64_t i = 0; i < d->n_q; i++) {
            const double *q = w->q + (h * d->n_q + i) * D, *dout = w->dout + (h * d->n_q + i) * D;
            double        most = 0, size;
            if (!ts_attention_sees_none(d, a->kv_len, kv / d->n_kv_head, i)) continue;
            for (int64_t j = kv * d->n_k; j < (kv + 1) * d->n_k; j++) {
                dot_of(dout, w->v + j * D, D, &size);
                if (isfinite(size)) most = fmax(most, size);
            }
            for (int64_t e = 0; e < D; e++) {
                dv[e].bound += fabs(dout[e]);
                dk[e].bound += 2 * fabs(d->scale) * most * fabs(q[e]);
            }
        }
}

/* The usual contract says nothing of a query that sees no key: it may be NaN, and so may all keys
 * of its batch. */
static void excuse_none(const ts_case *c, const void *args, ts_want *want)
{
    const bwd_args          *a = args;
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim, nq = ts_attention_picked_q(d), nk = picked_k(d);
    ts_want                 *key = want + nq + nq * D, *dk = key + nk, *dv = dk + nk * D;
    const ts_attention_rows  tk = rows_of(a, "dk", a->dk), tv = rows_of(a, "dv", a->dv);
    wide                     w;
    (void)c;
    ts_attention_excuse_none(d, a->kv_len, want, nq, D, want + nq);
    widen(a, &w);
    for (int64_t i = 0; i < nk; i++) {
        const int64_t r = (int64_t)key[i].value;
        if (!ts_attention_beside_none(d, a->kv_len, r / d->n_k / d->n_kv_head, 0)) continue;
        widen_key(a, &w, r, dk + i * D, dv + i * D);
        ts_attention_excuse_row(d, &tk, r, dk + i * D);
        ts_attention_excuse_row(d, &tv, r, dv + i * D);
    }
    drop(&w);
}

static void oracle_any(const ts_case *c, const void *args, ts_want *want)
{
    const double few = 16 * ts_attention_u(c->dtype);
    solve(args, fmax(few, ts_attention_fast_exp(c->dtype)), want);
    excuse_none(c, args, want);
}

static const char *common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    const size_t      n = n_want(c);
    const ts_errors   was = *e;
    ts_flaw           first = *f;
    const char *const none =
        ts_common_by(excuse_none, check_common, want, n, SEES_NONE, c, args, &first, e);
    if (none) return none;
    *e = was;
    return ts_common_by(oracle_any, check_common, want, n, TS_ATTENTION_EXACT, c, args, f, e);
}

/* Scores that leave the range of float may make NaN of their query, and of all keys that it sees.
 */
static void excuse(const ts_case *c, const void *args, ts_want *want)
{
    const bwd_args          *a = args;
    const ts_attention_dims *d = &a->d;
    const int64_t            D = d->head_dim, nq = ts_attention_picked_q(d), nk = picked_k(d);
    ts_want                 *key = want + nq + nq * D, *dk = key + nk, *dv = dk + nk * D;
    const ts_attention_rows  tq = rows_of(a, "dq", a->dq), tk = rows_of(a, "dk", a->dk);
    const ts_attention_rows  tv = rows_of(a, "dv", a->dv);
    bool *const              reached = calloc((size_t)rows_k(d) + 1, sizeof *reached);
    wide                     w;
    (void)c;
    if (!reached) abort();
    widen(a, &w);
    for (int64_t i = 0; i < nq; i++) {
        const int64_t r = (int64_t)want[i].value, bh = r / d->n_q;
        const int64_t first = bh / (d->n_q_head / d->n_kv_head) * d->n_k;
        const ts_span s = ts_attention_keys(d, a->kv_len, bh / d->n_q_head, r % d->n_q);
        if (!ts_attention_beyond(d, s, w.q + r * D, w.k + first * D)) continue;
        ts_attention_excuse_row(d, &tq, r, want + nq + i * D);
        for (int64_t j = s.begin; j < s.end; j++) reached[first + j] = true;
    }
    for (int64_t i = 0; i < nk; i++) {
        const int64_t r = (int64_t)key[i].value;
        if (!reached[r]) continue;
        ts_attention_excuse_row(d, &tk, r, dk + i * D);
        ts_attention_excuse_row(d, &tv, r, dv + i * D);
    }
    free(reached);
    drop(&w);
}

static ts_cost cost(const ts_case *c)
{
    const ts_attention_dims d = ts_attention_dims_of(c);
    const double            b = (double)ts_format_of(d.dtype)->n_bytes, D = (double)d.head_dim;
    return (ts_cost) { .bytes = 4 * b * D * (double)(ts_attention_rows_q(&d) + rows_k(&d)) +
                                4 * (double)ts_attention_rows_q(&d),
                       .flops = 10 * D * ts_attention_pairs(&d),
                       .exps = ts_attention_pairs(&d) };
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
    .canon = { { "empty", SEES_NONE, false },
               { "deep", "scores below the range of float have weight 0", false },
               { "sunk", "a query with lse = -inf has dq = 0 and adds nothing to dk and dv",
                 false } },
    .excuse = excuse,
    .common = common,
};

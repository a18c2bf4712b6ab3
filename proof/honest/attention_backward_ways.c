/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_ways.c - flash_attention_backward by the formulas in use, each in the
 * arithmetic that the contract asks for at least: float, or double where elements are double.
 *
 * Ways: output rows again again_output powers_of_2 early narrow_p narrow_rows compensated wide
 *
 * output: delta = dout . o. rows: delta = sum of P dP. again: rows, and P is normalised by a sum of
 * its own instead of lse. again_output: the same with delta by output. powers_of_2: rows, with
 * log2(e) folded into q and lse. early: rows, and dS is scaled, not its sums. narrow_p: output, and
 * P and dS are rounded to the dtype. narrow_rows: rows of P and dP that are rounded. compensated:
 * rows, with sums by Kahan. wide: rows, all in double. */
#include "touchstone/attention.h"

#define ts_flash_attention_backward plain_backward
#define pair                        plain_pair
#define add                         plain_add
#include "flash_attention_backward.c"
#undef add
#undef pair
#undef ts_flash_attention_backward
#include "touchstone/sealed.h"

enum {
    output,
    rows,
    again,
    again_output,
    powers_of_2,
    early,
    narrow_p,
    narrow_rows,
    compensated,
    wide
};
static const int way = WAY;

static const double LOG2_E = 1.4426950408889634074;

/* Of a query: what scores are reduced by, the sum of what is left, delta. */
typedef struct stats {
    double less, l, delta;
} stats;

typedef struct job {
    const bwd_args *a;
    stats          *of; /* [row] */
} job;

/* Rounds a double to the dtype of arithmetic: for + - * / that is the operation in float. */
static double in(const ts_attention_dims *d, double v)
{
    return way == wide || d->dtype == TS_F64 ? v : (double)(float)v;
}

/* What the dtype cannot hold stays wide: by the contract dP is no number of f16. */
static double rounded(const ts_attention_dims *d, double v)
{
    const double narrow_v = d->dtype == TS_F32 || d->dtype == TS_F64 ? v : narrow(v, d->dtype);
    return isfinite(narrow_v) ? narrow_v : v;
}

/* A sum, and what its last addition lost. */
typedef struct sum {
    double v, lost;
} sum;

static void add(const ts_attention_dims *d, sum *s, double v)
{
    if (way != compensated) {
        s->v = in(d, s->v + v);
        return;
    }
    const double y = in(d, v - s->lost), t = in(d, s->v + y), lost = in(d, in(d, t - s->v) - y);
    s->v = t;
    s->lost = isfinite(lost) ? lost : 0;
}

/* x . y, with x times `by` */
static double product(const ts_attention_dims *d, const void *x, int64_t i, double by,
                      const void *y, int64_t j)
{
    sum s = { 0, 0 };
    for (int64_t e = 0; e < d->head_dim; e++)
        add(d, &s, in(d, in(d, load(x, d->dtype, i + e) * by) * load(y, d->dtype, j + e)));
    return s.v;
}

/* The score, of which a power is the weight. */
static double score(const bwd_args *a, int64_t q, int64_t k)
{
    const ts_attention_dims *d = &a->d;
    if (way == powers_of_2) return product(d, a->q, q, in(d, d->scale * LOG2_E), a->k, k);
    return in(d, product(d, a->q, q, 1, a->k, k) * in(d, d->scale));
}

static double weight(const bwd_args *a, const stats *t, int64_t q, int64_t k)
{
    const ts_attention_dims *d = &a->d;
    const double             x = in(d, score(a, q, k) - t->less);
    const double             p = in(d, in(d, way == powers_of_2 ? exp2(x) : exp(x)) / t->l);
    return way == narrow_rows ? rounded(d, p) : p;
}

static double dp_of(const bwd_args *a, int64_t q, int64_t k)
{
    const double dp = product(&a->d, a->dout, q, 1, a->v, k);
    return way == narrow_rows ? rounded(&a->d, dp) : dp;
}

static int64_t key_at(const ts_attention_dims *d, int64_t r, int64_t j)
{
    const int64_t h = r / d->n_q % d->n_q_head;
    return at(d, d->n_kv_head, d->n_k, r / d->n_q / d->n_q_head, h / (d->n_q_head / d->n_kv_head),
              j);
}

static int64_t query_at(const ts_attention_dims *d, int64_t r)
{
    return at(d, d->n_q_head, d->n_q, r / d->n_q / d->n_q_head, r / d->n_q % d->n_q_head,
              r % d->n_q);
}

/* A query with lse = -inf has no weights, also if it sees keys. */
static int meets(const bwd_args *a, int64_t r, int64_t j)
{
    if (load(a->lse, a->d.dtype == TS_F64 ? TS_F64 : TS_F32, r) == -INFINITY) return 0;
    return sees(a, r / a->d.n_q / a->d.n_q_head, r % a->d.n_q, j);
}

static void sum_row(int64_t r, void *ctx)
{
    const job               *w = ctx;
    const bwd_args          *a = w->a;
    const ts_attention_dims *d = &a->d;
    const int64_t            q = query_at(d, r);
    const int                anew = way == again || way == again_output;
    stats                   *t = &w->of[r];
    sum                      l = { 0, 0 }, delta = { 0, 0 };
    t->less = load(a->lse, d->dtype == TS_F64 ? TS_F64 : TS_F32, r);
    if (way == powers_of_2) t->less = in(d, t->less * in(d, LOG2_E));
    if (anew) t->less = -INFINITY;
    t->l = 1;
    for (int64_t j = 0; anew && j < d->n_k; j++)
        if (meets(a, r, j)) t->less = fmax(t->less, score(a, q, key_at(d, r, j)));
    for (int64_t j = 0; anew && j < d->n_k; j++)
        if (meets(a, r, j)) add(d, &l, weight(a, t, q, key_at(d, r, j)));
    if (anew) t->l = l.v;
    if (way == output || way == again_output || way == narrow_p)
        delta.v = product(d, a->dout, q, 1, a->o, q);
    else
        for (int64_t j = 0; j < d->n_k; j++) {
            const int64_t k = key_at(d, r, j);
            if (meets(a, r, j)) add(d, &delta, in(d, weight(a, t, q, k) * dp_of(a, q, k)));
        }
    t->delta = delta.v;
}

/* P and dS of a pair, as they meet other factors. */
static double pair(const job *w, int64_t r, int64_t k, double *ds)
{
    const bwd_args          *a = w->a;
    const ts_attention_dims *d = &a->d;
    const int64_t            q = query_at(d, r);
    const double             p = weight(a, &w->of[r], q, k);
    *ds = in(d, p * in(d, dp_of(a, q, k) - w->of[r].delta));
    if (way == early) *ds = in(d, *ds * in(d, d->scale));
    if (way == narrow_p) *ds = rounded(d, *ds);
    return way == narrow_p ? rounded(d, p) : p;
}

static void gather(const ts_attention_dims *d, sum *s, double w, const void *x, int64_t i)
{
    for (int64_t e = 0; e < d->head_dim; e++) add(d, &s[e], in(d, w * load(x, d->dtype, i + e)));
}

static void write(const ts_attention_dims *d, void *to, int64_t i, const sum *s, double by)
{
    for (int64_t e = 0; e < d->head_dim; e++) store(to, d->dtype, i + e, in(d, s[e].v * by));
}

static void dq_row(int64_t r, void *ctx)
{
    const job               *w = ctx;
    const ts_attention_dims *d = &w->a->d;
    sum                      dq[256] = { { 0, 0 } };
    double                   ds;
    for (int64_t j = 0; j < d->n_k; j++) {
        if (!meets(w->a, r, j)) continue;
        pair(w, r, key_at(d, r, j), &ds);
        gather(d, dq, ds, w->a->k, key_at(d, r, j));
    }
    write(d, w->a->dq, query_at(d, r), dq, way == early ? 1 : in(d, d->scale));
}

static void dk_row(int64_t r, void *ctx)
{
    const job               *w = ctx;
    const bwd_args          *a = w->a;
    const ts_attention_dims *d = &a->d;
    const int64_t            share = d->n_q_head / d->n_kv_head, g = r / d->n_k, j = r % d->n_k;
    const int64_t            k = at(d, d->n_kv_head, d->n_k, g / d->n_kv_head, g % d->n_kv_head, j);
    sum                      dk[256] = { { 0, 0 } }, dv[256] = { { 0, 0 } };
    double                   ds;
    for (int64_t i = g * share * d->n_q; i < (g + 1) * share * d->n_q; i++) {
        if (!meets(a, i, j)) continue;
        const double p = pair(w, i, k, &ds);
        gather(d, dk, ds, a->q, query_at(d, i));
        gather(d, dv, p, a->dout, query_at(d, i));
    }
    write(d, a->dk, k, dk, way == early ? 1 : in(d, d->scale));
    write(d, a->dv, k, dv, 1);
}

ts_status ts_flash_attention_backward_workspace(const bwd_args *a, const ts_exec *x,
                                                size_t *n_bytes)
{
    const ts_status s = refuse(a, x);
    if (!s) *n_bytes = (size_t)(a->d.n_batch * a->d.n_q_head * a->d.n_q) * sizeof(stats) + ALIGN;
    return s;
}

ts_status ts_flash_attention_backward(const bwd_args *a, const ts_exec *x)
{
    ts_status s = refuse(a, x);
    for (int64_t b = 0; !s && a->kv_len && b < a->d.n_batch; b++)
        if (a->kv_len[b] < 0 || a->kv_len[b] > a->d.n_k) s = TS_E_ARG;
    if (s) return s;
    const int64_t n = a->d.n_batch * a->d.n_q_head * a->d.n_q;
    if (!x->workspace || x->workspace_bytes < (size_t)n * sizeof(stats) + ALIGN)
        return TS_E_WORKSPACE;
    job w = { a, aligned(x->workspace) };
    j_parallel_for(n, sum_row, &w);
    j_parallel_for(n, dq_row, &w);
    j_parallel_for(a->d.n_batch * a->d.n_kv_head * a->d.n_k, dk_row, &w);
    return TS_OK;
}

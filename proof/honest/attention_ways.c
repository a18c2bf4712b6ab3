/* SPDX-License-Identifier: Apache-2.0 */
/* attention_ways.c - flash_attention by the formulas in use, each in the arithmetic that the
 * contract asks for at least: float, or double where elements are double.
 *
 * Ways: two_pass normalised online split scaled_q powers_of_2 compensated narrow_p wide
 * Common ways: fast_exp
 *
 * two_pass: the largest score, then sums. normalised: weights are divided by their sum before they
 * meet v. online: a running maximum, key by key. split: four parts of the keys, merged. scaled_q:
 * the scale is folded into q. powers_of_2: log2(e) is, too. compensated: sums by
 * Kahan. narrow_p: weights are rounded to the dtype. wide: all in double. fast_exp: two_pass
 * with exponentials in float that are off by up to 20 units in the last place. */
#include "touchstone/attention.h"

#define ts_flash_attention plain_attention
#include "flash_attention.c"
#undef ts_flash_attention
#include "touchstone/sealed.h"

typedef ts_flash_attention_args fwd_args;

enum {
    two_pass,
    normalised,
    online,
    split,
    scaled_q,
    powers_of_2,
    compensated,
    narrow_p,
    wide,
    fast_exp
};
static const int way = WAY;

static const double LOG2_E = 1.4426950408889634074;

/* Rounds a double to the dtype of arithmetic: for + - * / that is the operation in float. */
static double in(const ts_attention_dims *d, double v)
{
    return way == wide || d->dtype == TS_F64 ? v : (double)(float)v;
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

/* Part of the keys: the largest score, the sum of weights, the sums of weighted values. */
typedef struct part {
    double max;
    sum    l, o[256];
} part;

static double power(const ts_attention_dims *d, double x)
{
    if (way == fast_exp && d->dtype != TS_F64 && x != 0)
        return in(d, exp(x) * (1 + 40 * 0x1p-24 * sin(1e4 * x)));
    return in(d, way == powers_of_2 ? exp2(x) : exp(x));
}

static double score_of(const fwd_args *a, const double *q, int64_t k)
{
    const ts_attention_dims *d = &a->d;
    sum                      s = { 0, 0 };
    for (int64_t e = 0; e < d->head_dim; e++) add(d, &s, in(d, q[e] * load(a->k, d->dtype, k + e)));
    return way == scaled_q || way == powers_of_2 ? s.v : in(d, s.v * in(d, d->scale));
}

/* NaN if any is, or if one is +inf; -inf if all are. */
static double larger(double max, double s)
{
    return isnan(max) || s <= max ? max : s == INFINITY ? NAN : s;
}

static void weigh(const fwd_args *a, part *p, double s, double by, int64_t k)
{
    const ts_attention_dims *d = &a->d;
    double                   w = s == -INFINITY ? 0 : in(d, power(d, in(d, s - p->max)) / by);
    if (way != normalised) add(d, &p->l, w);
    if (way == narrow_p && d->dtype != TS_F32 && d->dtype != TS_F64) w = narrow(w, d->dtype);
    for (int64_t e = 0; e < d->head_dim; e++)
        add(d, &p->o[e], in(d, w * load(a->v, d->dtype, k + e)));
}

static void rescale(const ts_attention_dims *d, part *p, double max)
{
    const double by = max == p->max || p->max == -INFINITY ? 1 : power(d, in(d, p->max - max));
    p->max = max;
    p->l.v = in(d, p->l.v * by);
    for (int64_t e = 0; e < d->head_dim; e++) p->o[e].v = in(d, p->o[e].v * by);
}

/* Where the rows of a query and its keys begin. */
typedef struct place_of {
    int64_t b, i, q, k, step; /* step: from key to key */
} place_of;

static void attend(const fwd_args *a, const place_of *at, const double *q, int64_t begin,
                   int64_t end, part *p)
{
    const ts_attention_dims *d = &a->d;
    p->max = -INFINITY;
    for (int64_t j = begin; way != online && way != split && j < end; j++)
        if (sees(a, at->b, at->i, j)) p->max = larger(p->max, score_of(a, q, at->k + j * at->step));
    for (int64_t j = begin; way == normalised && j < end; j++) {
        const double s =
            sees(a, at->b, at->i, j) ? score_of(a, q, at->k + j * at->step) : -INFINITY;
        if (s != -INFINITY) add(d, &p->l, power(d, in(d, s - p->max)));
    }
    for (int64_t j = begin; j < end; j++) {
        const int64_t k = at->k + j * at->step;
        if (!sees(a, at->b, at->i, j)) continue;
        const double s = score_of(a, q, k);
        if (way == online || way == split) rescale(d, p, larger(p->max, s));
        weigh(a, p, s, way == normalised ? p->l.v : 1, k);
    }
}

/* q joins p. */
static void join(const ts_attention_dims *d, part *p, part *q)
{
    const double max = larger(p->max, q->max);
    if (q->max == -INFINITY) return;
    rescale(d, p, max);
    rescale(d, q, max);
    add(d, &p->l, q->l.v);
    for (int64_t e = 0; e < d->head_dim; e++) add(d, &p->o[e], q->o[e].v);
}

static void attend_row(int64_t r, void *ctx)
{
    const fwd_args          *a = ctx;
    const ts_attention_dims *d = &a->d;
    const int64_t  i = r % d->n_q, h = r / d->n_q % d->n_q_head, b = r / d->n_q / d->n_q_head;
    const int64_t  g = h / (d->n_q_head / d->n_kv_head);
    const int64_t  first = at(d, d->n_kv_head, d->n_k, b, g, 0);
    const place_of where = { b, i, at(d, d->n_q_head, d->n_q, b, h, i), first,
                             at(d, d->n_kv_head, d->n_k, b, g, 1) - first };
    const int64_t  n_parts = way == split ? 4 : 1;
    const double   by = way == scaled_q      ? in(d, d->scale)
                        : way == powers_of_2 ? in(d, d->scale * LOG2_E)
                                             : 1;
    double         q[256];
    part           all = { -INFINITY, { 0, 0 }, { { 0, 0 } } };
    for (int64_t e = 0; e < d->head_dim; e++) q[e] = in(d, load(a->q, d->dtype, where.q + e) * by);
    for (int64_t n = 0; n < n_parts; n++) {
        part one = { -INFINITY, { 0, 0 }, { { 0, 0 } } };
        attend(a, &where, q, n * d->n_k / n_parts, (n + 1) * d->n_k / n_parts, &one);
        if (n_parts == 1) all = one;
        else join(d, &all, &one);
    }
    const int none = all.max == -INFINITY;
    for (int64_t e = 0; e < d->head_dim; e++)
        store(a->o, d->dtype, where.q + e,
              none                ? 0
              : way == normalised ? all.o[e].v
                                  : all.o[e].v / all.l.v);
    const double lse = way == powers_of_2 ? in(d, all.max + in(d, log(all.l.v) * LOG2_E)) / LOG2_E
                                          : all.max + in(d, log(all.l.v));
    if (a->lse) store(a->lse, d->dtype == TS_F64 ? TS_F64 : TS_F32, r, none ? -INFINITY : lse);
}

ts_status ts_flash_attention(const fwd_args *a, const ts_exec *x)
{
    ts_status s = refuse(a, x);
    for (int64_t b = 0; !s && a->kv_len && b < a->d.n_batch; b++)
        if (a->kv_len[b] < 0 || a->kv_len[b] > a->d.n_k) s = TS_E_ARG;
    if (!s) j_parallel_for(a->d.n_batch * a->d.n_q_head * a->d.n_q, attend_row, (void *)a);
    return s;
}

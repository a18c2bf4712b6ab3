/* SPDX-License-Identifier: Apache-2.0 */
/* attention_ref.c - the reference implementation: the definition in its own order, for every dtype
 * and shape.
 *
 * Arithmetic is double throughout; one thread; no workspace. A score is computed again wherever it
 * is needed, so memory does not grow with the length. */
#include <math.h>

#include "attention_impl.h"
#include "dtype.h"

typedef struct row {
    double at[TS_ATTENTION_WIDEST];
} row;

/* Sums that keep what each addition rounds away and give it back to the next. Over thousands of
 * like terms the roundings would otherwise add up instead of cancelling. */
typedef struct total {
    double sum, lost;
} total;

static void add(total *t, double term)
{
    const double x = term - t->lost, next = t->sum + x;
    t->lost = next - next == 0 ? (next - t->sum) - x : 0; /* past infinity nothing is lost */
    t->sum = next;
}

static row load(const ts_attention_dims *d, const void *p, int64_t at)
{
    row r;
    for (int64_t c = 0; c < d->head_dim; c++) r.at[c] = ts_load(p, d->dtype, at + c);
    return r;
}

static double dot(const ts_attention_dims *d, const row *x, const row *y)
{
    double sum = 0;
    for (int64_t c = 0; c < d->head_dim; c++) sum += x->at[c] * y->at[c];
    return sum;
}

static void add_row(const ts_attention_dims *d, total *sums, double weight, const row *r)
{
    for (int64_t c = 0; c < d->head_dim; c++) add(&sums[c], weight * r->at[c]);
}

static int64_t kv_head(const ts_attention_dims *d, int64_t head)
{
    return head / (d->n_q_head / d->n_kv_head);
}

static int64_t q_at(const ts_attention_dims *d, int64_t b, int64_t h, int64_t i)
{
    return ts_attention_row(d, d->n_q_head, d->n_q, b, h, i);
}

static int64_t k_at(const ts_attention_dims *d, int64_t b, int64_t h, int64_t j)
{
    return ts_attention_row(d, d->n_kv_head, d->n_k, b, h, j);
}

/* ---- forward ---- */

static void attend(const ts_flash_attention_args *a, int64_t b, int64_t h, int64_t i)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            len = ts_attention_keys(d, a->kv_len, b), g = kv_head(d, h);
    const int64_t            first = ts_attention_first(d, i), end = ts_attention_end(d, len, i);
    const row                q = load(d, a->q, q_at(d, b, h, i));
    total                    weight = { 0, 0 }, o[TS_ATTENTION_WIDEST] = { { 0, 0 } };
    double                   max = -INFINITY;
    for (int64_t j = first; j < end; j++) {
        const row    k = load(d, a->k, k_at(d, b, g, j));
        const double s = d->scale * dot(d, &q, &k);
        if (s > max) max = s;
    }
    for (int64_t j = first; j < end; j++) {
        const row    k = load(d, a->k, k_at(d, b, g, j)), v = load(d, a->v, k_at(d, b, g, j));
        const double s = d->scale * dot(d, &q, &k);
        const double p = s == -INFINITY ? 0 : exp(s - max); /* NaN, where max is -inf or s +inf */
        add(&weight, p);
        add_row(d, o, p, &v);
    }
    for (int64_t c = 0; c < d->head_dim; c++)
        ts_store(a->o, d->dtype, q_at(d, b, h, i) + c, weight.sum == 0 ? 0 : o[c].sum / weight.sum);
    if (a->lse)
        ts_store(a->lse, ts_wide(d->dtype), (b * d->n_q_head + h) * d->n_q + i,
                 weight.sum == 0 ? -INFINITY : max + log(weight.sum));
}

ts_status ts_flash_attention_ref(const void *args, const ts_exec *x)
{
    const ts_flash_attention_args *a = args;
    (void)x;
    for (int64_t b = 0; b < a->d.n_batch; b++)
        for (int64_t h = 0; h < a->d.n_q_head; h++)
            for (int64_t i = 0; i < a->d.n_q; i++) attend(a, b, h, i);
    return TS_OK;
}

/* ---- backward: for each query its dq, then for each key its dk and dv ---- */

typedef struct query {
    row    q, dout;
    double lse, delta;
} query;

/* False for a query that saw nothing, and so contributes nothing. */
static int load_query(const ts_flash_attention_backward_args *a, int64_t b, int64_t h, int64_t i,
                      query *y)
{
    const ts_attention_dims *d = &a->d;
    y->lse = ts_load(a->lse, ts_wide(d->dtype), (b * d->n_q_head + h) * d->n_q + i);
    if (y->lse == -INFINITY) return 0;
    const row o = load(d, a->o, q_at(d, b, h, i));
    y->q = load(d, a->q, q_at(d, b, h, i));
    y->dout = load(d, a->dout, q_at(d, b, h, i));
    y->delta = dot(d, &y->dout, &o);
    return 1;
}

/* P and dS of one pair. A score of -inf has no weight, and nothing to learn. */
static int weigh(const ts_attention_dims *d, const query *y, const row *k, const row *v, double *p,
                 double *ds)
{
    const double s = d->scale * dot(d, &y->q, k);
    if (s == -INFINITY) return 0;
    *p = exp(s - y->lse);
    *ds = *p * (dot(d, &y->dout, v) - y->delta);
    return 1;
}

static void store(const ts_attention_dims *d, void *out, int64_t at, double scale,
                  const total *sums)
{
    for (int64_t c = 0; c < d->head_dim; c++) ts_store(out, d->dtype, at + c, scale * sums[c].sum);
}

static void give_dq(const ts_flash_attention_backward_args *a, int64_t b, int64_t h, int64_t i)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            len = ts_attention_keys(d, a->kv_len, b), g = kv_head(d, h);
    const int64_t            end = ts_attention_end(d, len, i);
    total                    dq[TS_ATTENTION_WIDEST] = { { 0, 0 } };
    query                    y;
    double                   p, ds;
    const int                seen = load_query(a, b, h, i, &y);
    for (int64_t j = ts_attention_first(d, i); seen && j < end; j++) {
        const row k = load(d, a->k, k_at(d, b, g, j)), v = load(d, a->v, k_at(d, b, g, j));
        if (weigh(d, &y, &k, &v, &p, &ds)) add_row(d, dq, ds, &k);
    }
    store(d, a->dq, q_at(d, b, h, i), d->scale, dq);
}

static void give_dk_dv(const ts_flash_attention_backward_args *a, int64_t b, int64_t g, int64_t j)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            len = ts_attention_keys(d, a->kv_len, b);
    const int64_t            group = d->n_q_head / d->n_kv_head;
    const row k = load(d, a->k, k_at(d, b, g, j)), v = load(d, a->v, k_at(d, b, g, j));
    total     dk[TS_ATTENTION_WIDEST] = { { 0, 0 } };
    total     dv[TS_ATTENTION_WIDEST] = { { 0, 0 } };
    query     y;
    double    p, ds;
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        for (int64_t i = 0; i < d->n_q; i++) {
            if (j < ts_attention_first(d, i) || j >= ts_attention_end(d, len, i)) continue;
            if (!load_query(a, b, h, i, &y) || !weigh(d, &y, &k, &v, &p, &ds)) continue;
            add_row(d, dk, ds, &y.q);
            add_row(d, dv, p, &y.dout);
        }
    store(d, a->dk, k_at(d, b, g, j), d->scale, dk);
    store(d, a->dv, k_at(d, b, g, j), 1, dv);
}

ts_status ts_flash_attention_backward_ref(const void *args, const ts_exec *x)
{
    const ts_flash_attention_backward_args *a = args;
    (void)x;
    for (int64_t b = 0; b < a->d.n_batch; b++) {
        for (int64_t h = 0; h < a->d.n_q_head; h++)
            for (int64_t i = 0; i < a->d.n_q; i++) give_dq(a, b, h, i);
        for (int64_t g = 0; g < a->d.n_kv_head; g++)
            for (int64_t j = 0; j < a->d.n_k; j++) give_dk_dv(a, b, g, j);
    }
    return TS_OK;
}

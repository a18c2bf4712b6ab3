/* SPDX-License-Identifier: Apache-2.0 */
/* flash_attention_backward.c - the obvious solution: for each row of dq, and for each of dk and dv,
 * a sum over its pairs. */
#include "touchstone/attention.h"

#include "number.h"

typedef ts_flash_attention_backward_args bwd_args;

static ts_status refuse(const bwd_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    const ts_attention_dims *d = &a->d;
    if (!isfinite(d->scale) || (d->causal != 0 && d->causal != 1)) return TS_E_ARG;
    if ((d->layout != TS_BHND && d->layout != TS_BNHD) || (d->window > 0 && !d->causal))
        return TS_E_ARG;
    if (d->n_batch < 0 || d->n_q < 0 || d->n_k < 0 || d->window < 0 || d->tile_q < 0 ||
        d->tile_k < 0)
        return TS_E_SHAPE;
    if (d->n_q_head < 1 || d->n_kv_head < 1 || d->n_q_head % d->n_kv_head) return TS_E_SHAPE;
    if (d->head_dim < 1 || d->head_dim > 256) return TS_E_SHAPE;
    const int64_t most = INT64_MAX / 8 / d->head_dim / d->n_q_head, B = d->n_batch ? d->n_batch : 1;
    if (d->n_q > most / B || d->n_k > most / B) return TS_E_SHAPE;
    if (d->n_batch && d->n_q && (!a->q || !a->o || !a->dout || !a->lse || !a->dq)) return TS_E_ARG;
    if (d->n_batch && d->n_k && (!a->k || !a->v || !a->dk || !a->dv)) return TS_E_ARG;
    for (int64_t b = 0; a->kv_len && b < d->n_batch; b++)
        if (a->kv_len[b] < 0 || a->kv_len[b] > d->n_k) return TS_E_ARG;
    return (unsigned)d->dtype <= TS_BF16 ? TS_OK : TS_E_DTYPE;
}

static int64_t at(const ts_attention_dims *d, int64_t heads, int64_t n, int64_t b, int64_t h,
                  int64_t i)
{
    return (d->layout == TS_BHND ? (b * heads + h) * n + i : (b * n + i) * heads + h) * d->head_dim;
}

static int sees(const bwd_args *a, int64_t b, int64_t i, int64_t j)
{
    const int64_t last = i + a->d.n_k - a->d.n_q;
    if (a->kv_len && j >= a->kv_len[b]) return 0;
    return !a->d.causal || (j <= last && (!a->d.window || last - j < a->d.window));
}

static double dot(const ts_attention_dims *d, const void *x, int64_t i, const void *y, int64_t j)
{
    double sum = 0;
    for (int64_t e = 0; e < d->head_dim; e++)
        sum += load(x, d->dtype, i + e) * load(y, d->dtype, j + e);
    return sum;
}

/* P, and dS, of a query and a key that it sees. */
static double pair(const bwd_args *a, int64_t row, int64_t q, int64_t k, double *ds)
{
    const ts_attention_dims *d = &a->d;
    const double             lse = load(a->lse, d->dtype == TS_F64 ? TS_F64 : TS_F32, row);
    const double s = d->scale * dot(d, a->q, q, a->k, k), p = lse == -INFINITY ? 0 : exp(s - lse);
    *ds = p * (dot(d, a->dout, q, a->v, k) - dot(d, a->dout, q, a->o, q));
    return p;
}

static void add(const ts_attention_dims *d, double *sum, double w, const void *x, int64_t i)
{
    for (int64_t e = 0; e < d->head_dim; e++) sum[e] += w * load(x, d->dtype, i + e);
}

static void put(const ts_attention_dims *d, void *to, int64_t i, double w, const double *sum)
{
    for (int64_t e = 0; e < d->head_dim; e++) store(to, d->dtype, i + e, w * sum[e]);
}

static void query(const bwd_args *a, int64_t b, int64_t h, int64_t i)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            q = at(d, d->n_q_head, d->n_q, b, h, i);
    double                   ds, dq[256] = { 0 };
    for (int64_t j = 0; j < d->n_k; j++) {
        const int64_t k = at(d, d->n_kv_head, d->n_k, b, h / (d->n_q_head / d->n_kv_head), j);
        if (!sees(a, b, i, j)) continue;
        pair(a, (b * d->n_q_head + h) * d->n_q + i, q, k, &ds);
        add(d, dq, ds, a->k, k);
    }
    put(d, a->dq, q, d->scale, dq);
}

static void key(const bwd_args *a, int64_t b, int64_t g, int64_t j)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            share = d->n_q_head / d->n_kv_head;
    const int64_t            k = at(d, d->n_kv_head, d->n_k, b, g, j);
    double                   ds, dk[256] = { 0 }, dv[256] = { 0 };
    for (int64_t h = g * share; h < (g + 1) * share; h++)
        for (int64_t i = 0; i < d->n_q; i++) {
            const int64_t q = at(d, d->n_q_head, d->n_q, b, h, i);
            if (!sees(a, b, i, j)) continue;
            const double p = pair(a, (b * d->n_q_head + h) * d->n_q + i, q, k, &ds);
            add(d, dk, ds, a->q, q);
            add(d, dv, p, a->dout, q);
        }
    put(d, a->dk, k, d->scale, dk);
    put(d, a->dv, k, 1, dv);
}

ts_status ts_flash_attention_backward(const bwd_args *a, const ts_exec *x)
{
    const ts_status s = refuse(a, x);
    for (int64_t b = 0; !s && b < a->d.n_batch; b++) {
        for (int64_t h = 0; h < a->d.n_q_head; h++)
            for (int64_t i = 0; i < a->d.n_q; i++) query(a, b, h, i);
        for (int64_t g = 0; g < a->d.n_kv_head; g++)
            for (int64_t j = 0; j < a->d.n_k; j++) key(a, b, g, j);
    }
    return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* flash_attention.c - the obvious solution: for each query the largest score, then the sum and the
 * weighted values. */
#include "touchstone/attention.h"

#include "number.h"

static ts_status refuse(const ts_flash_attention_args *a, const ts_exec *x)
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
    if (d->n_batch && d->n_q && (!a->q || !a->o)) return TS_E_ARG;
    if (d->n_batch && d->n_k && (!a->k || !a->v)) return TS_E_ARG;
    for (int64_t b = 0; a->kv_len && b < d->n_batch; b++)
        if (a->kv_len[b] < 0 || a->kv_len[b] > d->n_k) return TS_E_ARG;
    return (unsigned)d->dtype <= TS_BF16 ? TS_OK : TS_E_DTYPE;
}

static int64_t at(const ts_attention_dims *d, int64_t heads, int64_t n, int64_t b, int64_t h,
                  int64_t i)
{
    return (d->layout == TS_BHND ? (b * heads + h) * n + i : (b * n + i) * heads + h) * d->head_dim;
}

static int sees(const ts_flash_attention_args *a, int64_t b, int64_t i, int64_t j)
{
    const int64_t last = i + a->d.n_k - a->d.n_q;
    if (a->kv_len && j >= a->kv_len[b]) return 0;
    return !a->d.causal || (j <= last && (!a->d.window || last - j < a->d.window));
}

static double score(const ts_flash_attention_args *a, int64_t q, int64_t k)
{
    double sum = 0;
    for (int64_t e = 0; e < a->d.head_dim; e++)
        sum += load(a->q, a->d.dtype, q + e) * load(a->k, a->d.dtype, k + e);
    return sum * a->d.scale;
}

static void row(const ts_flash_attention_args *a, int64_t b, int64_t h, int64_t i)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            g = h / (d->n_q_head / d->n_kv_head);
    const int64_t            q = at(d, d->n_q_head, d->n_q, b, h, i);
    double                   max = -INFINITY, sum = 0, o[256] = { 0 };
    for (int64_t j = 0; j < d->n_k; j++)
        if (sees(a, b, i, j)) max = fmax(max, score(a, q, at(d, d->n_kv_head, d->n_k, b, g, j)));
    for (int64_t j = 0; j < d->n_k; j++) {
        if (!sees(a, b, i, j)) continue;
        const int64_t k = at(d, d->n_kv_head, d->n_k, b, g, j);
        const double  s = score(a, q, k), p = s == -INFINITY ? 0 : exp(s - max);
        sum += p;
        for (int64_t e = 0; e < d->head_dim; e++) o[e] += p * load(a->v, d->dtype, k + e);
    }
    for (int64_t e = 0; e < d->head_dim; e++)
        store(a->o, d->dtype, q + e, sum == 0 ? 0 : o[e] / sum);
    if (a->lse)
        store(a->lse, d->dtype == TS_F64 ? TS_F64 : TS_F32, (b * d->n_q_head + h) * d->n_q + i,
              sum == 0 ? -INFINITY : max + log(sum));
}

ts_status ts_flash_attention(const ts_flash_attention_args *a, const ts_exec *x)
{
    const ts_status s = refuse(a, x);
    for (int64_t b = 0; !s && b < a->d.n_batch; b++)
        for (int64_t h = 0; h < a->d.n_q_head; h++)
            for (int64_t i = 0; i < a->d.n_q; i++) row(a, b, h, i);
    return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* plain_attention.c - attention as in most first answers: as many queries as keys, a KV head for
 * each head, no window, no lengths, no lse, the softmax of a whole row at a time.
 *
 * touchstone-offers: q == k && q_heads == kv_heads && window + layout == 0 && kv_len + lse == 0
 */
#include <math.h>

#include "touchstone/attention.h"

enum { MOST = 4096 };

static double load(const void *p, ts_dtype t, int64_t i)
{
    return t == TS_F32 ? ((const float *)p)[i] : ((const double *)p)[i];
}

static void one_row(const ts_flash_attention_args *a, int64_t head, int64_t i)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            n = d->causal ? i + 1 : d->n_k, D = d->head_dim, first = head * d->n_k;
    static double            p[MOST];
    double                   max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) {
        double s = 0;
        for (int64_t c = 0; c < D; c++)
            s += load(a->q, d->dtype, (first + i) * D + c) *
                 load(a->k, d->dtype, (first + j) * D + c);
        p[j] = s * d->scale;
        if (p[j] > max) max = p[j];
    }
    for (int64_t j = 0; j < n; j++) sum += p[j] = exp(p[j] - max);
    for (int64_t c = 0; c < D; c++) {
        double o = 0;
        for (int64_t j = 0; j < n; j++) o += p[j] / sum * load(a->v, d->dtype, (first + j) * D + c);
        if (d->dtype == TS_F32) ((float *)a->o)[(first + i) * D + c] = (float)o;
        else ((double *)a->o)[(first + i) * D + c] = o;
    }
}

ts_status ts_flash_attention_workspace(const ts_flash_attention_args *a, const ts_exec *x,
                                       size_t *n_bytes)
{
    (void)a, (void)x;
    *n_bytes = 0;
    return TS_OK;
}

ts_status ts_flash_attention(const ts_flash_attention_args *a, const ts_exec *x)
{
    const ts_attention_dims *d = &a->d;
    (void)x;
    if (d->dtype != TS_F32 && d->dtype != TS_F64) return TS_E_DTYPE;
    if (d->n_q != d->n_k || d->n_q_head != d->n_kv_head || d->window || d->layout || a->kv_len ||
        a->lse || d->n_k > MOST)
        return TS_E_UNSUPPORTED;
    for (int64_t head = 0; head < d->n_batch * d->n_q_head; head++)
        for (int64_t i = 0; i < d->n_q; i++) one_row(a, head, i);
    return TS_OK;
}

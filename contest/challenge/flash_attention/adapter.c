/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how to enter a kernel with other names and another argument order. Unused
 * until entry.json names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines the challenge's function. Say that theirs.c has
 *
 *     void attend(float *out, const float *q, const float *k, const float *v, int heads, int n,
 *                 int head_dim, int causal, float scale);
 *
 * with float tensors [heads][n][head_dim], no lse, and as many heads of keys as of queries. */
#if 0
#include "touchstone/attention.h"

void attend(float *out, const float *q, const float *k, const float *v, int heads, int n,
            int head_dim, int causal, float scale);

ts_status ts_flash_attention(const ts_flash_attention_args *a, const ts_exec *x)
{
    const ts_attention_dims *d = &a->d;
    (void)x;
    /* Unsupported calls are reported; "offers" in entry.json leaves their cases out. */
    if (d->dtype != TS_F32 || d->layout != TS_BHND || d->n_q != d->n_k || d->window || a->kv_len)
        return TS_E_UNSUPPORTED;
    if (d->n_q_head != d->n_kv_head) return TS_E_UNSUPPORTED;
    if (a->lse) return TS_E_UNSUPPORTED;
    attend(a->o, a->q, a->k, a->v, (int)(d->n_batch * d->n_q_head), (int)d->n_q, (int)d->head_dim,
           d->causal, (float)d->scale);
    return TS_OK;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how to enter a kernel with other names and another argument order. Unused
 * until entry.json names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines the challenge's function. Say that theirs.c has
 *
 *     void attend_grad(float *dq, float *dk, float *dv, const float *q, const float *k,
 *                      const float *v, const float *o, const float *dout, const float *lse,
 *                      int heads, int n, int head_dim, int causal, float scale);
 *
 * with float tensors [heads][n][head_dim] and as many heads of keys as of queries. */
#if 0
#include "touchstone/attention.h"

void attend_grad(float *dq, float *dk, float *dv, const float *q, const float *k, const float *v,
                 const float *o, const float *dout, const float *lse, int heads, int n, int head_dim,
                 int causal, float scale);

ts_status ts_flash_attention_backward(const ts_flash_attention_backward_args *a, const ts_exec *x)
{
    const ts_attention_dims *d = &a->d;
    (void)x;
    /* Unsupported calls are reported; "offers" in entry.json leaves their cases out. */
    if (d->dtype != TS_F32 || d->layout != TS_BHND || d->n_q != d->n_k || d->window || a->kv_len)
        return TS_E_UNSUPPORTED;
    if (d->n_q_head != d->n_kv_head) return TS_E_UNSUPPORTED;
    attend_grad(a->dq, a->dk, a->dv, a->q, a->k, a->v, a->o, a->dout, a->lse,
                (int)(d->n_batch * d->n_q_head), (int)d->n_q, (int)d->head_dim, d->causal,
                (float)d->scale);
    return TS_OK;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how to enter a kernel with other names and another argument order. Unused
 * until entry.json names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines the challenge's function. Say that theirs.c has
 *
 *     void topk(float *prob, int *index, const float *x, int rows, int vocab);
 *
 * with the number of winners as the macro TOP_K. Then this file includes it once for each k that it
 * serves; a source that another one includes is not compiled by itself. */
#if 0
#include "touchstone/softmax_topk.h"

#define TOP_K 10
#define topk  topk_10
#include "theirs.c"
#undef TOP_K
#undef topk
#define TOP_K 50
#define topk  topk_50
#include "theirs.c"

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    (void)x;
    /* Unsupported calls are reported; "offers" in entry.json leaves their cases out. */
    if (a->dtype != TS_F32 || a->row_stride != a->n_vocab || a->inv_temperature != 1 || a->lse)
        return TS_E_UNSUPPORTED;
    if (a->k != 10 && a->k != 50) return TS_E_UNSUPPORTED;
    (a->k == 10 ? topk_10 : topk_50)(a->prob, a->index, a->logits, (int)a->n_rows, (int)a->n_vocab);
    return TS_OK;
}
#endif

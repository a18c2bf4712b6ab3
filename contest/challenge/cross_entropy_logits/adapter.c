/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how to enter a kernel with other names and another argument order. Unused
 * until entry.json names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines the challenge's function. Say that theirs.c has
 *
 *     float nll_in_place(float *logits, float *loss, float *lse, const int *labels, int n, int v);
 *
 * which leaves the gradient of the mean in logits, ignores -100, and has no options. */
#if 0
#include "touchstone/cross_entropy.h"

float nll_in_place(float *logits, float *loss, float *lse, const int *labels, int n, int v);

ts_status ts_cross_entropy_logits(const ts_cross_entropy_logits_args *a, const ts_exec *x)
{
    (void)x;
    /* Unsupported calls are reported; "offers" in entry.json leaves their cases out. */
    if (a->dtype != TS_F32 || !a->mean || !a->in_place) return TS_E_UNSUPPORTED;
    if (a->row_stride != a->n_vocab || a->ignore_index != -100) return TS_E_UNSUPPORTED;
    if (a->scale != 1 || a->smoothing > 0 || a->z_loss > 0 || a->softcap > 0)
        return TS_E_UNSUPPORTED;
    *(float *)a->total = nll_in_place(a->logits, a->loss, a->lse, a->target, (int)a->n_rows,
                                      (int)a->n_vocab);
    return TS_OK;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how to enter a kernel with other names and another argument order. Unused
 * until entry.json names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines the challenge's function. Say that theirs.c has
 *
 *     float linear_nll(float *loss, float *lse, float *dx, float *dweight, const float *x,
 *                      const float *weight, const int *labels, int n, int d, int v);
 *
 * which returns the mean, ignores -100, and has no options. */
#if 0
#include "touchstone/cross_entropy.h"

float linear_nll(float *loss, float *lse, float *dx, float *dweight, const float *x,
                 const float *weight, const int *labels, int n, int d, int v);

ts_status ts_cross_entropy(const ts_cross_entropy_args *a, const ts_exec *x)
{
    (void)x;
    /* Unsupported calls are reported; "offers" in entry.json leaves their cases out. */
    if (a->dtype != TS_F32 || !a->mean || a->accumulate || a->bias) return TS_E_UNSUPPORTED;
    if (a->h_stride != a->n_hidden || a->w_stride != a->n_hidden) return TS_E_UNSUPPORTED;
    if (a->scale != 1 || a->smoothing > 0 || a->z_loss > 0 || a->softcap > 0)
        return TS_E_UNSUPPORTED;
    if (a->ignore_index != -100 || !a->dh || !a->dw) return TS_E_UNSUPPORTED;
    *(float *)a->total = linear_nll(a->loss, a->lse, a->dh, a->dw, a->h, a->w, a->target,
                                    (int)a->n_rows, (int)a->n_hidden, (int)a->n_vocab);
    return TS_OK;
}
#endif

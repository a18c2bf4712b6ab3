/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how to enter a kernel with other names and another argument order. Unused
 * until entry.json names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines the challenge's function. Say that theirs.c has
 *
 *     void layer_norm_grad(float *din, float *dw, float *db, const float *dout, const float *in,
 *                          const float *w, const float *mean, const float *rstd, int n, int d);
 *
 * which always adds to dw and db. */
#if 0
#include <string.h>

#include "touchstone/layernorm.h"

void layer_norm_grad(float *din, float *dw, float *db, const float *dout, const float *in,
                     const float *w, const float *mean, const float *rstd, int n, int d);

ts_status ts_layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x)
{
    (void)x;
    /* Unsupported calls are reported; "offers" in entry.json leaves their cases out. */
    if (a->dtype != TS_F32 || a->row_stride != a->n_cols) return TS_E_UNSUPPORTED;
    if (!a->accumulate) {
        memset(a->dgamma, 0, (size_t)a->n_cols * sizeof(float));
        memset(a->dbeta, 0, (size_t)a->n_cols * sizeof(float));
    }
    layer_norm_grad(a->dx, a->dgamma, a->dbeta, a->dy, a->x, a->gamma, a->mean, a->rstd,
                    (int)a->n_rows, (int)a->n_cols);
    return TS_OK;
}
#endif

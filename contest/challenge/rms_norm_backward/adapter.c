/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how to enter a kernel with other names and another argument order. Unused
 * until entry.json names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines the challenge's function. Say that theirs.c has
 *
 *     void rms_norm_grad(float *din, float *dw, const float *dout, const float *in, const float *w,
 *                        const float *rstd, int n, int d);
 *
 * which always adds to dw, and knows neither dr nor w_offset. */
#if 0
#include <string.h>

#include "touchstone/rms_norm.h"

void rms_norm_grad(float *din, float *dw, const float *dout, const float *in, const float *w,
                   const float *rstd, int n, int d);

ts_status ts_rms_norm_backward(const ts_rms_norm_backward_args *a, const ts_exec *x)
{
    (void)x;
    /* Unsupported calls are reported; "offers" in entry.json leaves their cases out. */
    if (a->dtype != TS_F32 || a->row_stride != a->n_cols || a->w_offset) return TS_E_UNSUPPORTED;
    if (!a->accumulate) memset(a->dw, 0, (size_t)a->n_cols * sizeof(float));
    rms_norm_grad(a->dx, a->dw, a->dy, a->r, a->w, a->rstd, (int)a->n_rows, (int)a->n_cols);
    for (int64_t i = 0; a->dr && i < a->n_rows * a->n_cols; i++)
        ((float *)a->dx)[i] += ((const float *)a->dr)[i];
    return TS_OK;
}
#endif

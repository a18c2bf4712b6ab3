/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how to enter a kernel with other names and another argument order. Unused
 * until entry.json names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines the challenge's function. Say that theirs.c has
 *
 *     void add_rms_norm(float *y, float *sum, float *rstd, const float *x, const float *add,
 *                       const float *w, float eps, int n, int d);
 *
 * which knows no w_offset. */
#if 0
#include "touchstone/rms_norm.h"

void add_rms_norm(float *y, float *sum, float *rstd, const float *x, const float *add,
                  const float *w, float eps, int n, int d);

ts_status ts_rms_norm_forward(const ts_rms_norm_forward_args *a, const ts_exec *x)
{
    (void)x;
    /* Unsupported calls are reported; "offers" in entry.json leaves their cases out. */
    if (a->dtype != TS_F32 || a->row_stride != a->n_cols || !a->residual || a->w_offset)
        return TS_E_UNSUPPORTED;
    add_rms_norm(a->y, a->r, a->rstd, a->x, a->residual, a->w, (float)a->eps, (int)a->n_rows,
                 (int)a->n_cols);
    return TS_OK;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how to enter a kernel with other names and another argument order. Unused
 * until entry.json names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines the challenge's function. Say that theirs.c has
 *
 *     void layer_norm(float *out, float *mean, float *rstd, float *in, float *w, float *b, int n,
 * int d);
 *
 * and adds an eps of its own, 1e-5. */
#if 0
#include "touchstone/layernorm.h"

void layer_norm(float *out, float *mean, float *rstd, float *in, float *w, float *b, int n, int d);

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    (void)x;
    /* Unsupported calls are reported; "offers" in entry.json leaves their cases out. */
    if (a->dtype != TS_F32 || a->row_stride != a->n_cols || a->eps != 1e-5)
        return TS_E_UNSUPPORTED;
    layer_norm(a->y, a->mean, a->rstd, (float *)a->x, (float *)a->gamma, (float *)a->beta,
               (int)a->n_rows, (int)a->n_cols);
    return TS_OK;
}
#endif

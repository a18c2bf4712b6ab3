/* SPDX-License-Identifier: Apache-2.0 */
/* backward_workspace.c - layernorm_backward in one pass over the rows; the column sums are in the
 * workspace. */
#include "honest.h"

ts_status ts_layernorm_backward_workspace(const ts_layernorm_backward_args *a, const ts_exec *x,
                                          size_t *n_bytes)
{
    const ts_status s = refuse_backward(a, x);
    if (!s) *n_bytes = (size_t)a->n_cols * 2 * sizeof(double) + 8; /* it may come unaligned */
    return s;
}

ts_status ts_layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_backward(a, x);
    if (s) return s;
    if (!x->workspace || x->workspace_bytes < (size_t)a->n_cols * 16 + 8) return TS_E_WORKSPACE;
    double *dgamma = (double *)(((uintptr_t)x->workspace + 7) / 8 * 8), *dbeta = dgamma + a->n_cols;
    for (int64_t c = 0; c < a->n_cols; c++) dgamma[c] = dbeta[c] = 0;
    for (int64_t r = a->n_rows; r-- > 0;) {
        double g = 0, gx = 0;
        for (int64_t c = 0; c < a->n_cols; c++) {
            const double dy = dy_at(a, r, c), xhat = xhat_at(a, r, c);
            dgamma[c] += dy * xhat;
            dbeta[c] += dy;
            g += g_at(a, r, c);
            gx += g_at(a, r, c) * xhat;
        }
        write_dx(a, r, g / (double)a->n_cols, gx / (double)a->n_cols);
    }
    for (int64_t c = 0; c < a->n_cols; c++) write_sums(a, c, dgamma[c], dbeta[c]);
    return TS_OK;
}

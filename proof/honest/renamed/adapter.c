/* SPDX-License-Identifier: Apache-2.0 */
/* adapter.c - maps softmax_topk to the function of theirs.c, which takes one row of floats with at
 * least one finite, and m <= n. */
#include "honest.h"

double likeliest(int m, float *p, int *who, int n, const float *score, double beta);

ts_status ts_softmax_topk_workspace(const ts_softmax_topk_args *a, const ts_exec *x,
                                    size_t *n_bytes)
{
    const ts_status s = refuse_topk(a, x);
    if (!s) *n_bytes = (size_t)a->n_vocab * sizeof(float) + 4;
    return s;
}

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    const ts_status s = refuse_topk(a, x);
    if (s) return s;
    if (!x->workspace || x->workspace_bytes < (size_t)a->n_vocab * sizeof(float) + 4)
        return TS_E_WORKSPACE;
    float *const row = (float *)(((uintptr_t)x->workspace + 3) / 4 * 4);
    const int    n = (int)a->n_vocab, m = a->k < n ? (int)a->k : n;
    for (int64_t r = 0; r < a->n_rows; r++) {
        int finite = 0, nonfinite = 0;
        for (int i = 0; i < n; i++) {
            row[i] = logit(a, r, i);
            nonfinite |= isnan(row[i]) || row[i] == INFINITY;
            finite |= isfinite(row[i]) != 0;
        }
        int32_t *const index = a->index + r * a->k;
        float *const   prob = a->prob + r * a->k;
        float          lse = nonfinite ? NAN : -INFINITY;
        for (int64_t j = 0; j < a->k; j++) {
            index[j] = j < m && !nonfinite ? (int32_t)j : -1;
            prob[j] = nonfinite ? NAN : 0;
        }
        if (finite && !nonfinite)
            lse = (float)likeliest(m, prob, index, n, row, a->inv_temperature);
        if (a->lse) a->lse[r] = lse;
    }
    return TS_OK;
}

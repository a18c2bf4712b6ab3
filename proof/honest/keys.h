/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h - the frame of entrants that order the whole row in a workspace.
 *
 * KEYS lists with a rank for each logit, and `static void arrange(uint64_t *key, int64_t n, int64_t
 * k)`, after which the k largest come first, in order. */
#include "honest.h"

static void arrange(uint64_t *key, int64_t n, int64_t k);
#ifndef SUM
#define SUM sum_row
#endif

ts_status ts_softmax_topk_workspace(const ts_softmax_topk_args *a, const ts_exec *x,
                                    size_t *n_bytes)
{
    const ts_status s = refuse_topk(a, x);
    if (!s) *n_bytes = (size_t)a->n_vocab * 8 * KEYS + 8; /* it may come unaligned */
    return s;
}

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    const ts_status s = refuse_topk(a, x);
    if (s) return s;
    if (!x->workspace || x->workspace_bytes < (size_t)a->n_vocab * 8 * KEYS + 8)
        return TS_E_WORKSPACE;
    uint64_t     *key = (uint64_t *)(((uintptr_t)x->workspace + 7) / 8 * 8);
    const int64_t k = a->k < a->n_vocab ? a->k : a->n_vocab;
    for (int64_t r = 0; r < a->n_rows; r++) {
        const row_sum sum = SUM(a, r);
        for (int64_t i = 0; i < a->n_vocab; i++) key[i] = rank_of(logit(a, r, i), i);
        if (k && !sum.nonfinite) arrange(key, a->n_vocab, k);
        for (int64_t j = 0; j < k; j++) a->index[r * a->k + j] = index_of(key[j]);
        write_topk(a, r, sum, a->index + r * a->k);
    }
    return TS_OK;
}

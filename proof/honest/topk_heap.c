/* SPDX-License-Identifier: Apache-2.0 */
/* topk_heap.c - softmax_topk with a heap of indices in the output itself, the worst on top; rows on
 * the judge's threads. */
#include "honest.h"
#include "touchstone/sealed.h"

static uint64_t rank(const topk *a, int64_t r, int32_t i)
{
    return rank_of(logit(a, r, i), i);
}

static void sift(const topk *a, int64_t r, int32_t *h, int64_t n, int64_t at)
{
    const int32_t top = h[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && rank(a, r, h[child + 1]) < rank(a, r, h[child])) child++;
        if (rank(a, r, h[child]) >= rank(a, r, top)) break;
        h[at] = h[child];
    }
    h[at] = top;
}

static void row(int64_t r, void *ctx)
{
    const topk   *a = ctx;
    const row_sum s = sum_row(a, r);
    const int64_t n = s.nonfinite ? 0 : a->k < a->n_vocab ? a->k : a->n_vocab;
    int32_t      *h = a->index + r * a->k;
    for (int64_t i = 0; i < n; i++) h[i] = (int32_t)i;
    for (int64_t i = n / 2; i-- > 0;) sift(a, r, h, n, i);
    for (int64_t i = n; n && i < a->n_vocab; i++)
        if (rank(a, r, (int32_t)i) > rank(a, r, h[0])) {
            h[0] = (int32_t)i;
            sift(a, r, h, n, 0);
        }
    for (int64_t m = n - 1; m > 0; m--) {
        const int32_t worst = h[0];
        h[0] = h[m];
        h[m] = worst;
        sift(a, r, h, m, 0);
    }
    write_topk(a, r, s, h);
}

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    const ts_status s = refuse_topk(a, x);
    if (!s) j_parallel_for(a->n_rows, row, (void *)a);
    return s;
}

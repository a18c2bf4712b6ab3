/* SPDX-License-Identifier: Apache-2.0 */
/* topk_online.c - softmax_topk in one pass: a sum that is rescaled at each new maximum, and a list
 * sorted by insertion. */
#include "honest.h"
#include "touchstone/sealed.h"

static void row(int64_t r, void *ctx)
{
    const topk *a = ctx;
    int32_t    *index = a->index + r * a->k;
    row_sum     s = { -INFINITY, 0, 0 };
    int64_t     n = 0;
    for (int64_t i = 0; i < a->n_vocab; i++) {
        const double v = logit(a, r, i);
        if (isnan(v) || v == INFINITY) {
            s.nonfinite = 1;
            break;
        }
        if (v > s.max) {
            s.sum = s.sum * exp((s.max - v) * a->inv_temperature) + 1;
            s.max = v;
        } else if (v > -INFINITY) s.sum += exp((v - s.max) * a->inv_temperature);
        int64_t j = n < a->k ? n++ : a->k;
        for (; j > 0 && v > logit(a, r, index[j - 1]); j--)
            if (j < a->k) index[j] = index[j - 1];
        if (j < a->k) index[j] = (int32_t)i;
    }
    write_topk(a, r, s, index);
}

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    const ts_status s = refuse_topk(a, x);
    if (!s) j_parallel_for(a->n_rows, row, (void *)a);
    return s;
}

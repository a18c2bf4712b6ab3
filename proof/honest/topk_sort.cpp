/* SPDX-License-Identifier: Apache-2.0 */
/* topk_sort.cpp - softmax_topk by std::stable_sort of the whole row: equal elements stay in the
 * order of their indices. */
#include <algorithm>
#include <vector>

#include "honest.h"

extern "C" ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    const ts_status status = refuse_topk(a, x);
    for (int64_t r = 0; !status && r < a->n_rows; r++) {
        std::vector<int32_t> order(a->n_vocab);
        const row_sum        s = sum_row(a, r);
        for (int64_t i = 0; i < a->n_vocab; i++) order[i] = (int32_t)i;
        if (!s.nonfinite)
            std::stable_sort(order.begin(), order.end(),
                             [&](int32_t i, int32_t j) { return logit(a, r, i) > logit(a, r, j); });
        write_topk(a, r, s, order.data());
    }
    return status;
}

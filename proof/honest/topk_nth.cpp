/* SPDX-License-Identifier: Apache-2.0 */
/* topk_nth.cpp - softmax_topk by std::nth_element, then std::sort of the k largest; the sum over
 * sorted terms, smallest first. */
#include <algorithm>
#include <functional>
#include <vector>

#include "honest.h"

extern "C" ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    const ts_status status = refuse_topk(a, x);
    for (int64_t r = 0; !status && r < a->n_rows; r++) {
        std::vector<uint64_t> key;
        std::vector<double>   term;
        std::vector<int32_t>  chosen;
        row_sum               s = sum_row(a, r);
        for (int64_t i = 0; i < a->n_vocab && !s.nonfinite; i++) {
            key.push_back(rank_of(logit(a, r, i), i));
            if (s.max > -INFINITY)
                term.push_back(std::exp((logit(a, r, i) - s.max) * a->inv_temperature));
        }
        std::sort(term.begin(), term.end());
        s.sum = 0;
        for (double t : term) s.sum += t;
        const auto middle = key.begin() + std::min<int64_t>(a->k, (int64_t)key.size());
        if (middle != key.end())
            std::nth_element(key.begin(), middle, key.end(), std::greater<uint64_t>());
        std::sort(key.begin(), middle, std::greater<uint64_t>());
        for (auto i = key.begin(); i != middle; ++i) chosen.push_back(index_of(*i));
        write_topk(a, r, s, chosen.data());
    }
    return status;
}

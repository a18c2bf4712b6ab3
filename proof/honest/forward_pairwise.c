/* SPDX-License-Identifier: Apache-2.0 */
/* forward_pairwise.c - layernorm_forward with pairwise sums by recursion. */
#include "honest.h"

static double pairs(const forward *a, int64_t r, int64_t from, int64_t to, double mean, int square)
{
    if (to - from == 1) {
        const double d = x_at(a, r, from) - mean;
        return square ? d * d : d;
    }
    const int64_t half = from + (to - from) / 2;
    return pairs(a, r, from, half, mean, square) + pairs(a, r, half, to, mean, square);
}

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_forward(a, x);
    for (int64_t r = 0; !s && r < a->n_rows; r++) {
        const double mean = pairs(a, r, 0, a->n_cols, 0, 0) / (double)a->n_cols;
        write_row(a, r, mean, pairs(a, r, 0, a->n_cols, mean, 1) / (double)a->n_cols);
    }
    return s;
}

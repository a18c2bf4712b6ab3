/* SPDX-License-Identifier: Apache-2.0 */
/* forward_two_pass.c - layernorm_forward in two passes in double, from the last element to the
 * first. */
#include "honest.h"

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_forward(a, x);
    for (int64_t r = 0; !s && r < a->n_rows; r++) {
        double sum = 0, squares = 0;
        for (int64_t c = a->n_cols; c-- > 0;) sum += x_at(a, r, c);
        const double mean = sum / (double)a->n_cols;
        for (int64_t c = a->n_cols; c-- > 0;)
            squares += (x_at(a, r, c) - mean) * (x_at(a, r, c) - mean);
        write_row(a, r, mean, squares / (double)a->n_cols);
    }
    return s;
}

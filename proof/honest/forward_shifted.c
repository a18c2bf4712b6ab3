/* SPDX-License-Identifier: Apache-2.0 */
/* forward_shifted.c - layernorm_forward in one pass over differences from the row's first element,
 * with fused multiply-adds. */
#include "honest.h"

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_forward(a, x);
    for (int64_t r = 0; !s && r < a->n_rows; r++) {
        const double first = x_at(a, r, 0), n = (double)a->n_cols;
        double       sum = 0, squares = 0;
        for (int64_t c = 1; c < a->n_cols; c++) {
            const double d = x_at(a, r, c) - first;
            sum += d;
            squares = fma(d, d, squares);
        }
        const double v = squares / n - sum / n * (sum / n);
        write_row(a, r, first + sum / n, v < 0 ? 0 : v);
    }
    return s;
}

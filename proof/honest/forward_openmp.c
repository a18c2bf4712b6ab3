/* SPDX-License-Identifier: Apache-2.0 */
/* forward_openmp.c - layernorm_forward with OpenMP over rows; the mean of a row is corrected by its
 * rounding error. */
#include "honest.h"

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_forward(a, x);
    if (s) return s;
#pragma omp parallel for schedule(dynamic, 4) num_threads(x->n_threads > 0 ? x->n_threads : 1)
    for (int64_t r = 0; r < a->n_rows; r++) {
        double sum = 0, rest = 0, squares = 0, n = (double)a->n_cols;
        for (int64_t c = 0; c < a->n_cols; c++) sum += x_at(a, r, c);
        for (int64_t c = 0; c < a->n_cols; c++) {
            const double d = x_at(a, r, c) - sum / n;
            rest += d;
            squares += d * d;
        }
        write_row(a, r, sum / n + rest / n, squares / n);
    }
    return TS_OK;
}

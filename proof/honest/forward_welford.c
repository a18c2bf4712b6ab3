/* SPDX-License-Identifier: Apache-2.0 */
/* forward_welford.c - layernorm_forward by Welford's one-pass algorithm, rows on the judge's
 * threads. */
#include "honest.h"
#include "touchstone/sealed.h"

static void row(int64_t r, void *ctx)
{
    const forward *a = ctx;
    double         mean = 0, squares = 0;
    for (int64_t c = 0; c < a->n_cols; c++) {
        const double v = x_at(a, r, c), d = v - mean;
        mean += d / (double)(c + 1);
        squares += d * (v - mean);
    }
    write_row(a, r, mean, squares / (double)a->n_cols);
}

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_forward(a, x);
    if (!s) j_parallel_for(a->n_rows, row, (void *)a);
    return s;
}

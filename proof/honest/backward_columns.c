/* SPDX-License-Identifier: Apache-2.0 */
/* backward_columns.c - layernorm_backward with dx by rows, then the sums by columns, both on the
 * judge's threads. */
#include "honest.h"
#include "touchstone/sealed.h"

static void row(int64_t r, void *ctx)
{
    dx_row(ctx, r);
}

static void column(int64_t c, void *ctx)
{
    const backward *a = ctx;
    double          dgamma = 0, dbeta = 0;
    for (int64_t r = 0; r < a->n_rows; r++) {
        dgamma += dy_at(a, r, c) * xhat_at(a, r, c);
        dbeta += dy_at(a, r, c);
    }
    write_sums(a, c, dgamma, dbeta);
}

ts_status ts_layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_backward(a, x);
    if (s) return s;
    j_parallel_for(a->n_rows, row, (void *)a);
    j_parallel_for(a->n_cols, column, (void *)a);
    return TS_OK;
}

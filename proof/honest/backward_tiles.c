/* SPDX-License-Identifier: Apache-2.0 */
/* backward_tiles.c - layernorm_backward in tiles of 32 columns on the judge's threads, with fused
 * multiply-adds. */
#include "honest.h"
#include "touchstone/sealed.h"

enum { TILE = 32 };

static void tile(int64_t i, void *ctx)
{
    const backward *a = ctx;
    const int64_t   begin = i * TILE, n = a->n_cols - begin < TILE ? a->n_cols - begin : TILE;
    double          dgamma[TILE] = { 0 }, dbeta[TILE] = { 0 };
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int64_t c = 0; c < n; c++) {
            dgamma[c] = fma(dy_at(a, r, begin + c), xhat_at(a, r, begin + c), dgamma[c]);
            dbeta[c] += dy_at(a, r, begin + c);
        }
    for (int64_t c = 0; c < n; c++) write_sums(a, begin + c, dgamma[c], dbeta[c]);
}

ts_status ts_layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_backward(a, x);
    if (s) return s;
    j_parallel_for((a->n_cols + TILE - 1) / TILE, tile, (void *)a);
    for (int64_t r = 0; r < a->n_rows; r++) dx_row(a, r);
    return TS_OK;
}

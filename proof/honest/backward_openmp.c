/* SPDX-License-Identifier: Apache-2.0 */
/* backward_openmp.c - layernorm_backward with OpenMP: blocks of 16 rows give partial sums on the
 * heap, which are added in their order. */
#include <stdlib.h>

#include "honest.h"

enum { BLOCK = 16 };

ts_status ts_layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_backward(a, x);
    if (s) return s;
    const int64_t n_blocks = (a->n_rows + BLOCK - 1) / BLOCK, D = a->n_cols;
    double       *part = calloc((size_t)(n_blocks * 2 * D) + 1, sizeof *part);
    if (!part) return TS_E_CAPACITY;
#pragma omp parallel for num_threads(x->n_threads > 0 ? x->n_threads : 1)
    for (int64_t b = 0; b < n_blocks; b++) {
        double *dgamma = part + b * 2 * D, *dbeta = dgamma + D;
        for (int64_t r = b * BLOCK; r < a->n_rows && r < (b + 1) * BLOCK; r++) {
            dx_row(a, r);
            for (int64_t c = 0; c < D; c++) {
                dgamma[c] += dy_at(a, r, c) * xhat_at(a, r, c);
                dbeta[c] += dy_at(a, r, c);
            }
        }
    }
    for (int64_t c = 0; c < D; c++) {
        double dgamma = 0, dbeta = 0;
        for (int64_t b = 0; b < n_blocks; b++) {
            dgamma += part[b * 2 * D + c];
            dbeta += part[b * 2 * D + D + c];
        }
        write_sums(a, c, dgamma, dbeta);
    }
    free(part);
    return TS_OK;
}

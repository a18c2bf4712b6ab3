/* SPDX-License-Identifier: Apache-2.0 */
/* topk_openmp.c - softmax_topk with OpenMP over rows, each with the C library's qsort. */
#include <stdlib.h>

#include "honest.h"

static int larger_first(const void *p, const void *q)
{
    const uint64_t a = *(const uint64_t *)p, b = *(const uint64_t *)q;
    return (a < b) - (a > b);
}

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    const ts_status status = refuse_topk(a, x);
    int             failed = 0;
    if (status) return status;
#pragma omp        parallel for num_threads(x->n_threads > 0 ? x->n_threads : 1)
    for (int64_t r = 0; r < a->n_rows; r++) {
               const row_sum s = sum_row(a, r);
               uint64_t     *key = malloc(8 * (size_t)a->n_vocab + 8);
               if (!key) {
#pragma omp atomic write
            failed = 1;
            continue;
        }
        for (int64_t i = 0; i < a->n_vocab; i++) key[i] = rank_of(logit(a, r, i), i);
        qsort(key, (size_t)a->n_vocab, sizeof *key, larger_first);
        for (int64_t j = 0; j < a->k && j < a->n_vocab; j++)
            a->index[r * a->k + j] = index_of(key[j]);
        write_topk(a, r, s, a->index + r * a->k);
        free(key);
    }
    return failed ? TS_E_CAPACITY : TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* rope_threads.c - rows over threads. No row knows of another. */
#include <omp.h>

#include "rope_impl.h"
#include "row_chunks.h"

ts_status ts_rope_threads(const ts_rope_args *a, const ts_exec *x, ts_rope_rows rows)
{
    const int64_t step = ts_chunk_rows(a->n_rows), n_chunks = ts_chunk_count(a->n_rows);
    const int     most = x->n_threads > 0 ? x->n_threads : omp_get_max_threads();
    const int     n_threads = ts_chunk_threads(a->n_rows, a->n_heads * a->head_dim, most);
#pragma omp parallel for num_threads(n_threads) schedule(dynamic)
    for (int64_t c = 0; c < n_chunks; c++) rows(a, c * step, ts_lesser((c + 1) * step, a->n_rows));
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* threads.h - the number of threads that a call may use, and chunks of rows over them. */
#ifndef TS_BASE_THREADS_H
#define TS_BASE_THREADS_H

#include <omp.h>

#include "fork.h"
#include "row_chunks.h"

static inline int ts_threads(const ts_exec *x)
{
    ts_fork_prepare();
    return x->n_threads > 0 ? x->n_threads : omp_get_max_threads();
}

/* Calls `rows` for all chunks, each with its rows from begin to end, in any order. */
static inline ts_status ts_chunk_run(const void *args, int64_t n_rows, int64_t n_cols,
                                     const ts_exec *x,
                                     void (*rows)(const void *args, int64_t begin, int64_t end))
{
    const int64_t step = ts_chunk_rows(n_rows), n_chunks = ts_chunk_count(n_rows);
    const int     n_threads = ts_chunk_threads(n_rows, n_cols, ts_threads(x));
#pragma omp parallel for num_threads(n_threads) schedule(dynamic)
    for (int64_t c = 0; c < n_chunks; c++) rows(args, c * step, ts_lesser((c + 1) * step, n_rows));
    return TS_OK;
}

#endif

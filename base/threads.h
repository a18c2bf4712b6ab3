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

/* Evaluates `call` for every i below n, in any order if n_threads is more than 1; in it `thread` is
 * below n_threads. One thread needs no parallel region, which takes longer than a short row. */
#define TS_EACH(n_threads, how, i, n, call)                                                        \
    do {                                                                                           \
        if ((n_threads) <= 1) {                                                                    \
            TS_EACH_OF(i, n, 0, call)                                                              \
        } else {                                                                                   \
            TS_PRAGMA(omp parallel for num_threads(n_threads) schedule(how))                       \
            TS_EACH_OF(i, n, omp_get_thread_num(), call)                                           \
        }                                                                                          \
    } while (0)
#define TS_EACH_OF(i, n, number, call)                                                             \
    for (int64_t i = 0; i < (n); i++) {                                                            \
        const int thread = number;                                                                 \
        (void)thread;                                                                              \
        call;                                                                                      \
    }
#define TS_PRAGMA(words) _Pragma(#words)

/* Calls `rows` for all chunks, each with its rows from begin to end, in any order. */
static inline ts_status ts_chunk_run(const void *args, int64_t n_rows, int64_t n_cols,
                                     const ts_exec *x,
                                     void (*rows)(const void *args, int64_t begin, int64_t end))
{
    const int64_t step = ts_chunk_rows(n_rows), n_chunks = ts_chunk_count(n_rows);
    const int     n_threads = ts_chunk_threads(n_rows, n_cols, ts_threads(x));
    TS_EACH(n_threads, dynamic, c, n_chunks,
            rows(args, c * step, ts_lesser((c + 1) * step, n_rows)));
    return TS_OK;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* norm_threads.h - rows of layer norm and of RMS norm over threads, and the sum of the chunks'
 * dgamma and dbeta.
 *
 * Rows are cut into the chunks of row_chunks.h whatever the number of threads, so that the order in
 * which dgamma and dbeta are summed, and with it every bit of the result, never depends on it. */
#ifndef TS_BASE_NORM_THREADS_H
#define TS_BASE_NORM_THREADS_H

#include <string.h>

#include "threads.h"

/* Rows from begin to end of a call, which also adds their share to sum[0][n_cols], dgamma, and to
 * sum[1], dbeta, where there is one. Forward passes are cut by ts_chunk_run. */
typedef void (*ts_norm_backward_rows)(const void *args, int64_t begin, int64_t end,
                                      float *const sum[2]);

/* out: dgamma and dbeta, or dgamma alone. */
static inline ts_status ts_norm_backward_threads(const void *args, int64_t n_rows, int64_t n_cols,
                                                 int accumulate, void *const out[2],
                                                 const ts_exec *x, ts_norm_backward_rows rows)
{
    const int64_t step = ts_chunk_rows(n_rows), n_chunks = ts_chunk_count(n_rows);
    const int64_t width = ts_chunk_width(n_cols), n_blocks = width / TS_CHUNK_COLUMNS;
    const int64_t n_sums = out[1] ? 2 : 1, apart = n_sums * width;
    const int     n_threads = ts_chunk_threads(n_rows, n_cols, ts_threads(x));
    float *const  partials = n_chunks ? (float *)ts_scratch(x) : NULL;
#pragma omp parallel num_threads(n_threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t c = 0; c < n_chunks; c++) {
            float *const partial = partials + c * apart;
            float *const sum[2] = { partial, partial + width };
            memset(partial, 0, (size_t)apart * sizeof *partial);
            rows(args, c * step, ts_lesser((c + 1) * step, n_rows), sum);
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n_sums * n_blocks; i++) {
            const int64_t begin = i % n_blocks * TS_CHUNK_COLUMNS;
            const float  *first = n_chunks ? partials + i * TS_CHUNK_COLUMNS : NULL;
            if (begin < n_cols)
                ts_chunk_sum(first, n_chunks, apart, accumulate,
                             ts_lesser(TS_CHUNK_COLUMNS, n_cols - begin),
                             (float *)out[i / n_blocks] + begin);
        }
    }
    return TS_OK;
}

#endif

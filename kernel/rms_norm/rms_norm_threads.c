/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_threads.c - rows over threads, and the sum of the chunks' dw. */
#include <omp.h>
#include <string.h>

#include "rms_norm_impl.h"
#include "row_chunks.h"

static int count_threads(const ts_exec *x, int64_t n_rows, int64_t n_cols)
{
    return ts_chunk_threads(n_rows, n_cols,
                            x->n_threads > 0 ? x->n_threads : omp_get_max_threads());
}

ts_status ts_rms_norm_forward_threads(const ts_rms_norm_forward_args *a, const ts_exec *x,
                                      ts_rms_norm_forward_rows rows)
{
    const int64_t step = ts_chunk_rows(a->n_rows), n_chunks = ts_chunk_count(a->n_rows);
    const int     n_threads = count_threads(x, a->n_rows, a->n_cols);
#pragma omp parallel for num_threads(n_threads) schedule(dynamic)
    for (int64_t c = 0; c < n_chunks; c++) rows(a, c * step, ts_lesser((c + 1) * step, a->n_rows));
    return TS_OK;
}

ts_status ts_rms_norm_backward_threads_workspace(const void *args, const ts_exec *x,
                                                 size_t *n_bytes)
{
    const ts_rms_norm_backward_args *a = args;
    (void)x;
    *n_bytes = ts_chunk_bytes(a->n_rows, a->n_cols, 1);
    return TS_OK;
}

ts_status ts_rms_norm_backward_threads(const ts_rms_norm_backward_args *a, const ts_exec *x,
                                       ts_rms_norm_backward_rows rows)
{
    const int64_t step = ts_chunk_rows(a->n_rows), n_chunks = ts_chunk_count(a->n_rows);
    const int64_t width = ts_chunk_width(a->n_cols);
    const int     n_threads = count_threads(x, a->n_rows, a->n_cols);
    float *const  partials = n_chunks ? (float *)ts_scratch(x) : NULL;
#pragma omp parallel num_threads(n_threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t c = 0; c < n_chunks; c++) {
            float *const partial = partials + c * width;
            memset(partial, 0, (size_t)width * sizeof *partial);
            rows(a, c * step, ts_lesser((c + 1) * step, a->n_rows), partial);
        }
#pragma omp for schedule(static)
        for (int64_t begin = 0; begin < a->n_cols; begin += TS_CHUNK_COLUMNS)
            ts_chunk_sum(n_chunks ? partials + begin : NULL, n_chunks, width, a->accumulate,
                         ts_lesser(TS_CHUNK_COLUMNS, a->n_cols - begin), (float *)a->dw + begin);
    }
    return TS_OK;
}

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

typedef struct ts_norm_chunks {
    const void           *args;
    ts_norm_backward_rows rows;
    int64_t               n_rows, n_cols, n, step, width, apart; /* apart: floats per chunk */
    int                   accumulate;
    float                *partials;
} ts_norm_chunks;

static inline void ts_norm_chunk(const ts_norm_chunks *k, int64_t c)
{
    float *const partial = k->partials + c * k->apart;
    float *const sum[2] = { partial, partial + k->width };
    memset(partial, 0, (size_t)k->apart * sizeof *partial);
    k->rows(k->args, c * k->step, ts_lesser((c + 1) * k->step, k->n_rows), sum);
}

static inline void ts_norm_sum(const ts_norm_chunks *k, int64_t i, void *const out[2])
{
    const int64_t n_blocks = k->width / TS_CHUNK_COLUMNS, begin = i % n_blocks * TS_CHUNK_COLUMNS;
    const float  *first = k->n ? k->partials + i * TS_CHUNK_COLUMNS : NULL;
    if (begin < k->n_cols)
        ts_chunk_sum(first, k->n, k->apart, k->accumulate,
                     ts_lesser(TS_CHUNK_COLUMNS, k->n_cols - begin),
                     (float *)out[i / n_blocks] + begin);
}

/* out: dgamma and dbeta, or dgamma alone. */
static inline ts_status ts_norm_backward_threads(const void *args, int64_t n_rows, int64_t n_cols,
                                                 int accumulate, void *const out[2],
                                                 const ts_exec *x, ts_norm_backward_rows rows)
{
    const int64_t  width = ts_chunk_width(n_cols), n_sums = out[1] ? 2 : 1;
    const int      n_threads = ts_chunk_threads(n_rows, n_cols, ts_threads(x));
    ts_norm_chunks k = { .args = args,
                         .rows = rows,
                         .n_rows = n_rows,
                         .n_cols = n_cols,
                         .n = ts_chunk_count(n_rows),
                         .step = ts_chunk_rows(n_rows),
                         .width = width,
                         .apart = n_sums * width,
                         .accumulate = accumulate };
    if (k.n) k.partials = (float *)ts_scratch(x);
    TS_EACH(n_threads, dynamic, c, k.n, ts_norm_chunk(&k, c));
    TS_EACH(n_threads, static, i, k.apart / TS_CHUNK_COLUMNS, ts_norm_sum(&k, i, out));
    return TS_OK;
}

#endif

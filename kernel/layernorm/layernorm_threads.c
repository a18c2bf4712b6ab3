/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_threads.c - rows over threads, and the sum of the chunks' dgamma and dbeta. */
#include <omp.h>
#include <string.h>

#include "layernorm_impl.h"

enum {
    CHUNKS = 64,     /* what a large call is cut into: enough to keep many threads level */
    MIN_ROWS = 8,    /* below this a chunk's partial sums cost as much as its rows */
    MAX_ROWS = 1024, /* above this the float partial sums would lose digits */
    COLUMNS = 64,    /* summed at a time; a partial is padded to an odd multiple of it, so that */
                     /* the same columns of two partials are in different sets of a cache */
    LINE = 64,
    SMALL = 1 << 14, /* elements: fewer are done before a second thread wakes up */
};

/* Both depend on n_rows alone: see layernorm_impl.h. */
static int64_t rows_per_chunk(int64_t n_rows)
{
    const int64_t rows = n_rows / CHUNKS + (n_rows % CHUNKS != 0);
    if (rows < MIN_ROWS) return MIN_ROWS;
    return rows > MAX_ROWS ? MAX_ROWS : (rows + 3) / 4 * 4; /* whole groups of rows */
}

static int64_t count_chunks(int64_t n_rows)
{
    const int64_t rows = rows_per_chunk(n_rows);
    return n_rows / rows + (n_rows % rows != 0);
}

static int64_t padded(int64_t n_cols)
{
    return ((n_cols + COLUMNS - 1) / COLUMNS | 1) * COLUMNS;
}

static int count_threads(const ts_exec *x, int64_t n_rows, int64_t n_cols)
{
    const int64_t n_chunks = count_chunks(n_rows);
    const int     n = x->n_threads > 0 ? x->n_threads : omp_get_max_threads();
    if (n_chunks <= 1 || n_cols < SMALL / n_rows) return 1;
    return n < n_chunks ? n : (int)n_chunks;
}

ts_status ts_layernorm_forward_threads(const ts_layernorm_forward_args *a, const ts_exec *x,
                                       ts_layernorm_forward_rows rows)
{
    const int64_t step = rows_per_chunk(a->n_rows), n_chunks = count_chunks(a->n_rows);
    const int     n_threads = count_threads(x, a->n_rows, a->n_cols);
#pragma omp parallel for num_threads(n_threads) schedule(dynamic)
    for (int64_t c = 0; c < n_chunks; c++) rows(a, c * step, ts_lesser((c + 1) * step, a->n_rows));
    return TS_OK;
}

ts_status ts_layernorm_backward_threads_workspace(const void *args, const ts_exec *x,
                                                  size_t *n_bytes)
{
    const ts_layernorm_backward_args *a = args;
    const size_t                      n_chunks = (size_t)count_chunks(a->n_rows);
    (void)x;
    *n_bytes = 0;
    if (n_chunks) *n_bytes = n_chunks * 2 * (size_t)padded(a->n_cols) * sizeof(float) + LINE;
    return TS_OK;
}

/* out[0..n) = the sum of n_chunks partials, `stride` floats apart, in their order. The inner loop
 * has a fixed length, which the padding allows, so that it is always vector code. */
static void sum_columns(const float *partial, int64_t n_chunks, int64_t stride, int accumulate,
                        int64_t n, float *out)
{
    double sum[COLUMNS] = { 0 };
    for (int64_t i = 0; accumulate && i < n; i++) sum[i] = out[i];
    for (int64_t c = 0; c < n_chunks; c++)
        for (int i = 0; i < COLUMNS; i++) sum[i] += (double)partial[c * stride + i];
    for (int64_t i = 0; i < n; i++) out[i] = (float)sum[i];
}

ts_status ts_layernorm_backward_threads(const ts_layernorm_backward_args *a, const ts_exec *x,
                                        ts_layernorm_backward_rows rows)
{
    const int64_t   step = rows_per_chunk(a->n_rows), n_chunks = count_chunks(a->n_rows);
    const int64_t   width = padded(a->n_cols), n_blocks = width / COLUMNS;
    const int       n_threads = count_threads(x, a->n_rows, a->n_cols);
    const uintptr_t past = n_chunks ? (uintptr_t)x->workspace % LINE : 0;
    float *const    partials = n_chunks ? (float *)((char *)x->workspace + (LINE - past)) : NULL;
#pragma omp parallel num_threads(n_threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t c = 0; c < n_chunks; c++) {
            float *const partial = partials + c * 2 * width;
            memset(partial, 0, 2 * (size_t)width * sizeof *partial);
            rows(a, c * step, ts_lesser((c + 1) * step, a->n_rows), partial, partial + width);
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < 2 * n_blocks; i++) {
            const int64_t begin = i % n_blocks * COLUMNS;
            float *const  out = (float *)(i < n_blocks ? a->dgamma : a->dbeta) + begin;
            const float  *first = n_chunks ? partials + i * COLUMNS : NULL;
            sum_columns(first, n_chunks, 2 * width, a->accumulate,
                        ts_lesser(COLUMNS, a->n_cols - begin), out);
        }
    }
    return TS_OK;
}

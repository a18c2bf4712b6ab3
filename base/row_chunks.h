/* SPDX-License-Identifier: Apache-2.0 */
/* row_chunks.h - splits rows among threads, and sums over rows.
 *
 * The chunks do not depend on the number of threads, and each has its own partial column sums, so
 * the order of summation, and every bit of the result, is independent of that number. */
#ifndef TS_BASE_ROW_CHUNKS_H
#define TS_BASE_ROW_CHUNKS_H

#include "scratch.h"
#include "whole.h"

enum {
    TS_CHUNKS = 64,           /* chunks of a large call: enough to balance many threads */
    TS_CHUNK_MIN_ROWS = 8,    /* below this a chunk's partial sums cost as much as its rows */
    TS_CHUNK_MAX_ROWS = 1024, /* above this the float partial sums would lose digits */
    TS_CHUNK_COLUMNS = 64, /* summed at a time; a partial is padded to an odd multiple of it, so */
                           /* that the same columns of two partials are in different cache sets */
    TS_CHUNK_SMALL = 1 << 14, /* elements: fewer take less time than waking a second thread */
};

/* Both depend on n_rows only. */
static inline int64_t ts_chunk_rows(int64_t n_rows)
{
    const int64_t rows = ts_ceil_div(n_rows, TS_CHUNKS);
    if (rows < TS_CHUNK_MIN_ROWS) return TS_CHUNK_MIN_ROWS;
    return rows > TS_CHUNK_MAX_ROWS ? TS_CHUNK_MAX_ROWS : (rows + 3) / 4 * 4; /* whole groups */
}

static inline int64_t ts_chunk_count(int64_t n_rows)
{
    return ts_ceil_div(n_rows, ts_chunk_rows(n_rows));
}

/* The number of threads to use, at most the number of chunks. */
static inline int ts_chunk_threads(int64_t n_rows, int64_t n_cols, int n_threads)
{
    const int64_t n_chunks = ts_chunk_count(n_rows);
    if (n_chunks <= 1 || n_cols < TS_CHUNK_SMALL / n_rows) return 1;
    return n_threads < n_chunks ? n_threads : (int)n_chunks;
}

/* Floats of a partial sum of n_cols columns. */
static inline int64_t ts_chunk_width(int64_t n_cols)
{
    return (ts_ceil_div(n_cols, TS_CHUNK_COLUMNS) | 1) * TS_CHUNK_COLUMNS;
}

/* Bytes of all partials, n_sums per chunk, in a workspace; 0 without rows. */
static inline size_t ts_chunk_bytes(int64_t n_rows, int64_t n_cols, int n_sums)
{
    const size_t n_chunks = (size_t)ts_chunk_count(n_rows), width = (size_t)ts_chunk_width(n_cols);
    return n_chunks ? n_chunks * (size_t)n_sums * width * sizeof(float) + TS_LINE : 0;
}

/* out[0..n) = the sum of n_chunks partials, `stride` floats apart, in their order. The inner loop
 * has a fixed length, which the padding allows, so that it always vectorises. */
static inline void ts_chunk_sum(const float *partial, int64_t n_chunks, int64_t stride,
                                int accumulate, int64_t n, float *out)
{
    double sum[TS_CHUNK_COLUMNS] = { 0 };
    for (int64_t i = 0; accumulate && i < n; i++) sum[i] = out[i];
    for (int64_t c = 0; c < n_chunks; c++)
        for (int i = 0; i < TS_CHUNK_COLUMNS; i++) sum[i] += (double)partial[c * stride + i];
    for (int64_t i = 0; i < n; i++) out[i] = (float)sum[i];
}

#endif

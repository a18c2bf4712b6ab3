/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_simd.h - rows of embedding, written once for any width of vector. Private to the files
 * that include it, each behind its vectors: see row_simd.h.
 *
 * A row of y is a copy, or a product in float. A row of dtable is a sum in double, which the sum of
 * any floats fits, so that only its last step rounds. */
#ifndef TS_EMBEDDING_SIMD_H
#define TS_EMBEDDING_SIMD_H

#include <string.h>

#include "row_simd.h"

#include "row_convert.h"

enum { SLICE = 128 }; /* columns that are summed at a time */

INLINE void scale_row(char *to, const char *from, ts_dtype t, int64_t n, float by)
{
    const vec scale = splat(by);
    int64_t   i = 0;
    for (; i + UNIT <= n; i += UNIT) store(to, t, i, UNIT, mul(load(from, t, i, UNIT), scale));
    if (i < n) store(to, t, i, (int)(n - i), mul(load(from, t, i, (int)(n - i)), scale));
}

INLINE void copy_rows(const ts_embedding_forward_args *a, int64_t begin, int64_t end, ts_dtype t)
{
    const float   by = (float)a->scale;
    const int64_t n = a->n_cols, y_size = size_of(a->y_dtype);
    for (int64_t i = begin; i < end; i++) {
        const char *from = (const char *)a->table + a->token[i] * a->table_stride * size_of(t);
        char       *y = (char *)a->y + i * a->y_stride * y_size;
        const int   wider = a->y_dtype != t;
        if (wider) widen_row((float *)y, from, t, n);
        if (wider && a->scale != 1) scale_row(y, y, TS_F32, n, by);
        if (!wider && a->scale != 1) scale_row(y, from, t, n, by);
        if (!wider && a->scale == 1) memcpy(y, from, (size_t)(n * y_size));
    }
}

INLINE void sum_slice(const ts_embedding_backward_args *a, const int64_t *row, int64_t n_rows,
                      int64_t at, int64_t from, int64_t n, ts_dtype t)
{
    double       sum[SLICE] = { 0 };
    float        widened[SLICE];
    float *const to = (float *)a->dtable + at;
    for (int64_t k = 0; k < n_rows; k++) {
        const char  *dy = (const char *)a->dy + (row[k] * a->dy_stride + from) * size_of(t);
        const float *x = t == TS_F32 ? (const float *)dy : widened;
        if (t != TS_F32) widen_row(widened, dy, t, n);
        for (int64_t i = 0; i < n; i++) sum[i] += (double)x[i];
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)((a->accumulate ? (double)to[i] : 0) + a->scale * sum[i]);
}

INLINE void sum_columns(const ts_embedding_backward_args *a, int64_t token, const int64_t *row,
                        int64_t n_rows, int64_t from, int64_t n_cols, ts_dtype t)
{
    int64_t i = 0;
    if (!n_rows) {
        memset((float *)a->dtable + token * a->table_stride + from, 0, (size_t)n_cols * 4);
        return;
    }
    for (; i + SLICE <= n_cols; i += SLICE) /* a length that is known makes vector code */
        sum_slice(a, row, n_rows, token * a->table_stride + from + i, from + i, SLICE, t);
    if (i < n_cols)
        sum_slice(a, row, n_rows, token * a->table_stride + from + i, from + i, n_cols - i, t);
}

/* ---- by dtype ---- */

static void copy_any(const ts_embedding_forward_args *a, int64_t begin, int64_t end)
{
    if (a->dtype == TS_BF16) copy_rows(a, begin, end, TS_BF16);
    else if (a->dtype == TS_F16) copy_rows(a, begin, end, TS_F16);
    else copy_rows(a, begin, end, TS_F32);
}

static void sum_any(const ts_embedding_backward_args *a, int64_t token, const int64_t *row,
                    int64_t n, int64_t from, int64_t n_cols)
{
    if (a->dtype == TS_BF16) sum_columns(a, token, row, n, from, n_cols, TS_BF16);
    else if (a->dtype == TS_F16) sum_columns(a, token, row, n, from, n_cols, TS_F16);
    else sum_columns(a, token, row, n, from, n_cols, TS_F32);
}

ts_status SIMD(ts_embedding_forward)(const void *args, const ts_exec *x)
{
    return ts_embedding_forward_threads(args, x, copy_any);
}

ts_status SIMD(ts_embedding_backward)(const void *args, const ts_exec *x)
{
    return ts_embedding_backward_threads(args, x, sum_any);
}

#endif

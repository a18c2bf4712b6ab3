/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.h - whether a call's outputs share memory with its other buffers. */
#ifndef TS_BASE_OVERLAP_H
#define TS_BASE_OVERLAP_H

#include <stdbool.h>

#include "dtype.h"

/* A buffer: n rows of `width` bytes, `stride` bytes from one to the next. */
typedef struct ts_span {
    const void *at; /* NULL: there is none */
    int64_t     n, width, stride;
} ts_span;

/* Bytes of an element; 0 if there is no such dtype, which another check reports. */
static inline int64_t ts_size(ts_dtype t)
{
    static const int8_t size[] = { [TS_F32] = 4, [TS_F64] = 8, [TS_F16] = 2, [TS_BF16] = 2,
                                   [TS_U8] = 1,  [TS_I32] = 4, [TS_E4M3] = 1 };
    return (unsigned)t < sizeof size ? size[t] : 0;
}

/* n elements of `each` bytes. */
static inline ts_span ts_flat(const void *at, int64_t n, int64_t each)
{
    const int64_t width = n * each;
    return (ts_span) { at, 1, width, width };
}

/* n rows of n_cols elements of dtype t; the stride is in elements, too. Dense rows are one. */
static inline ts_span ts_rows(const void *at, int64_t n, int64_t n_cols, int64_t stride, ts_dtype t)
{
    const int64_t each = ts_size(t);
    if (stride == n_cols) return ts_flat(at, n * n_cols, each);
    return (ts_span) { at, n, n_cols * each, stride * each };
}

/* n elements of dtype t. */
static inline ts_span ts_vector(const void *at, int64_t n, ts_dtype t)
{
    return ts_flat(at, n, ts_size(t));
}

/* False if one of the first n_out spans, or the workspace of x, shares a byte with another span.
 * Rows of one matrix may lie between those of another one. With two different strides this cannot
 * be seen from the first addresses alone: then the answer is true. x NULL: without workspace. */
bool ts_apart(const ts_span *s, int n_out, int n, const ts_exec *x);

#define TS_APART(x, n_out, ...)                                                                    \
    ts_apart((const ts_span[]) { __VA_ARGS__ }, n_out,                                             \
             (int)(sizeof((const ts_span[]) { __VA_ARGS__ }) / sizeof(ts_span)), x)

#endif

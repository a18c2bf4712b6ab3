/* SPDX-License-Identifier: Apache-2.0 */
/* row_simd.h - memory of kernels that work on rows, for any width of vector. It is included behind
 * row_neon.h, row_avx2.h or row_avx512.h, each of which has, for its own instruction set:
 *
 *     UNIT           elements in a vec
 *     vec, reg       UNIT floats in some registers; one such register, or two
 *     load, store    elements i..i+n of a row; lanes past n are loaded as 0
 *     stream         a store past the caches, of UNIT elements from a boundary of their size
 *     end_streams    after the last of them, before others may read
 *     keep           the first n elements, and 0 in the other lanes
 *     as_stored      elements as load would give them back after store
 *     splat, add, mul, madd (a * b + c), nmadd (c - a * b), total
 *     fold, fold_madd   acc + v and acc + a * b, all of a vec into one reg
 *     columns_begin, columns_end   what is added to between the two is added to p[0..n)
 *     wide           two sums in double: of x - pivot, and of its square
 *     wide_sum       ... over n elements of a row more; wide_add: ... made in floats already
 *
 * A vec of bf16 may hold the even elements in one register and the odd ones in the other, which
 * makes conversion a shift or a mask. That is why lanes and memory order are kept apart above.
 *
 * t and, outside the ends of a row, n are constants once all this is inlined. */
#ifndef TS_BASE_ROW_SIMD_H
#define TS_BASE_ROW_SIMD_H

#include "whole.h"

enum {
    STREAM = 8 << 20, /* bytes of output beyond which stores go past the caches */
    LINE = 64,
};

INLINE int64_t size_of(ts_dtype t)
{
    return t == TS_F32 ? 4 : 2;
}

/* Only whole lines are streamed, and all rows must have them in the same columns. */
INLINE int streams(int64_t n_rows, int64_t n_cols, int64_t pitch, ts_dtype t)
{
    return pitch % LINE == 0 && n_cols * size_of(t) > STREAM / n_rows;
}

/* Elements of the output rows before their first whole line. */
INLINE int64_t head_of(const void *out, ts_dtype t, int64_t n, int streaming)
{
    return streaming ? ts_lesser(n, (int64_t)(-(uintptr_t)out % LINE) / size_of(t)) : 0;
}

INLINE void put(char *row, ts_dtype t, int64_t i, int n, vec v, int streaming)
{
    if (streaming && n == UNIT) stream(row, t, i, v);
    else store(row, t, i, n, v);
}

#endif

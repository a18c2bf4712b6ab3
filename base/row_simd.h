/* SPDX-License-Identifier: Apache-2.0 */
/* row_simd.h - memory access of kernels that work on rows, for any vector width. Include it after
 * row_neon.h, row_avx2.h or row_avx512.h, which define for their instruction set:
 *
 *     UNIT           elements in a vec
 *     vec, reg       UNIT floats in several registers; one such register, or two
 *     load, store    elements i..i+n of a row; lanes past n are loaded as 0
 *     stream         a streaming store of UNIT elements, aligned to their size
 *     end_streams    fence after the last streaming store
 *     keep           the first n elements, and 0 in the other lanes
 *     as_stored      elements as load would return them after store
 *     splat, add, mul, madd (a * b + c), nmadd (c - a * b), total
 *     fold, fold_madd   acc + v and acc + a * b: reduces a vec into one reg
 *     columns_begin, columns_end   sums between the two are added to p[0..n)
 *     wide           two sums in double: of x - pivot, and of its square
 *     wide_sum       adds n more elements of a row to them; wide_add: adds float sums
 *
 * A vec of bf16 may have the even elements in one register and the odd ones in the other, which
 * makes conversion a shift or a mask. So lane order and memory order may differ.
 *
 * After inlining, t and (except at the ends of a row) n are constants. */
#ifndef TS_BASE_ROW_SIMD_H
#define TS_BASE_ROW_SIMD_H

#include "whole.h"

enum {
    STREAM = 8 << 20, /* bytes of output above which stores bypass the caches */
    LINE = 64,
};

INLINE int64_t size_of(ts_dtype t)
{
    return t == TS_F32 ? 4 : 2;
}

/* Only whole lines are streamed, and they must begin in the same columns of all rows. */
INLINE int streams(int64_t n_rows, int64_t n_cols, int64_t pitch, ts_dtype t)
{
    return pitch % LINE == 0 && n_cols * size_of(t) > STREAM / n_rows;
}

/* Number of elements of the output rows before their first whole line. */
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

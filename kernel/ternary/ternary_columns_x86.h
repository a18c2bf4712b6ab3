/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_columns_x86.h - words of as many outputs as a vec has lanes, side by side. Include after
 * a vec_*.h and, for the width,
 *
 *     some_rows     16 bytes of rows 0, 4, ... of those from p on, side by side */
#ifndef TS_TERNARY_COLUMNS_X86_H
#define TS_TERNARY_COLUMNS_X86_H

/* 16 bytes of each of LANES rows: word j of every row in out[j]. */
INLINE void columns(const uint8_t *p, int64_t stride, ints out[4])
{
    const ints a = some_rows(p, stride), b = some_rows(p + stride, stride);
    const ints c = some_rows(p + 2 * stride, stride), d = some_rows(p + 3 * stride, stride);
    const ints ab = MM(unpacklo_epi32)(a, b), cd = MM(unpacklo_epi32)(c, d);
    const ints ef = MM(unpackhi_epi32)(a, b), gh = MM(unpackhi_epi32)(c, d);
    out[0] = MM(unpacklo_epi64)(ab, cd), out[1] = MM(unpackhi_epi64)(ab, cd);
    out[2] = MM(unpacklo_epi64)(ef, gh), out[3] = MM(unpackhi_epi64)(ef, gh);
}

/* Where n bytes of each of `many` outputs, `stride` apart, lie: in place or, where there are only
 * n_out of those, in a copy, whose rows are `width` bytes, with the last output again and again. */
INLINE const uint8_t *rows_of(const uint8_t *p, int64_t n_out, int64_t *stride, int many, int n,
                              int width, uint8_t *copy)
{
    if (n_out >= many && n == width) return p;
    for (int64_t i = 0; i < many; i++)
        memcpy(copy + i * width, p + min_of(i, n_out - 1) * *stride, (size_t)n);
    *stride = width;
    return copy;
}

#endif

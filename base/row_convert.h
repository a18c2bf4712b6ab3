/* SPDX-License-Identifier: Apache-2.0 */
/* row_convert.h - elements of 16 bits to floats and back, in the order of memory, which vectors of
 * bf16 do not keep. It is included behind row_simd.h, and t is a constant once it is inlined. */
#ifndef TS_BASE_ROW_CONVERT_H
#define TS_BASE_ROW_CONVERT_H

#include <string.h>

INLINE void widen_row(float *to, const void *from, ts_dtype t, int64_t n)
{
    int64_t i = 0;
    if (t == TS_BF16)
        for (; i < n; i++) {
            const uint32_t bits = (uint32_t)((const uint16_t *)from)[i] << 16;
            memcpy(to + i, &bits, sizeof bits);
        }
    for (; i + UNIT <= n; i += UNIT) store(to, TS_F32, i, UNIT, load(from, t, i, UNIT));
    if (i < n) store(to, TS_F32, i, (int)(n - i), load(from, t, i, (int)(n - i)));
}

/* To nearest, ties to even. The low half of every NaN must be 0. */
INLINE void narrow_row(void *to, const float *from, ts_dtype t, int64_t n)
{
    int64_t i = 0;
    if (t == TS_BF16)
        for (; i < n; i++) {
            uint32_t bits;
            memcpy(&bits, from + i, sizeof bits);
            ((uint16_t *)to)[i] = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
        }
    for (; i + UNIT <= n; i += UNIT) store(to, t, i, UNIT, load(from, TS_F32, i, UNIT));
    if (i < n) store(to, t, i, (int)(n - i), load(from, TS_F32, i, (int)(n - i)));
}

#endif

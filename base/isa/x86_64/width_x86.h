/* SPDX-License-Identifier: Apache-2.0 */
/* width_x86.h - conversions that are the same for both widths. Included by width_avx2.h and
 * width_avx512.h, which define MM. */
#ifndef TS_BASE_WIDTH_X86_H
#define TS_BASE_WIDTH_X86_H

#include <stdint.h>

/* Rounds to nearest, ties to even; the result is in the high half. A carry out of the low half
 * cannot change a NaN whose low half is 0, and kernels over row_*.h ensure that it is. */
INLINE ints round_bf16(reg v)
{
    const ints bits = as_ints(v);
    const ints odd = both_ints(MM(srli_epi32)(bits, 16), MM(set1_epi32)(1));
    return MM(add_epi32)(MM(add_epi32)(bits, MM(set1_epi32)(0x7fff)), odd);
}

/* 2^n from a float whose lowest bits are n + 127. */
INLINE reg exponent(reg v)
{
    return as_floats(MM(slli_epi32)(as_ints(v), 23));
}

INLINE uint16_t half_of(float f)
{
    return _cvtss_sh(f, 0);
}

INLINE float from_half(uint16_t half)
{
    return _cvtsh_ss(half);
}

#endif

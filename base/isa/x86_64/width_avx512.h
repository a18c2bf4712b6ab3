/* SPDX-License-Identifier: Apache-2.0 */
/* width_avx512.h - registers of 512 bits: MM, the prefix of their intrinsics, their types, and what
 * does not follow from the prefix. width_x86.h adds what does. */
#ifndef TS_BASE_WIDTH_AVX512_H
#define TS_BASE_WIDTH_AVX512_H

#include <immintrin.h>

#include "unroll.h"

#define MM(name)   _mm512_##name
#define SIMD(name) name##_avx512

enum { LANES = 16 };

typedef __m512  reg;
typedef __m512i ints;
typedef __m512d dreg;
typedef __m256i half_ints; /* half a register */

INLINE reg as_floats(ints v)
{
    return _mm512_castsi512_ps(v);
}

INLINE ints as_ints(reg v)
{
    return _mm512_castps_si512(v);
}

INLINE ints both_ints(ints x, ints y)
{
    return _mm512_and_si512(x, y);
}

INLINE half_ints get_half(const void *p)
{
    return _mm256_loadu_si256(p);
}

INLINE void put_half(void *p, half_ints v)
{
    _mm256_storeu_si256(p, v);
}

INLINE half_ints low_ints(ints v)
{
    return _mm512_castsi512_si256(v);
}

INLINE half_ints high_ints(ints v)
{
    return _mm512_extracti64x4_epi64(v, 1);
}

INLINE dreg low_doubles(reg v)
{
    return _mm512_cvtps_pd(_mm512_castps512_ps256(v));
}

INLINE dreg high_doubles(reg v)
{
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
}

INLINE double sum_doubles(dreg v)
{
    return _mm512_reduce_add_pd(v);
}

#include "width_x86.h"

#endif

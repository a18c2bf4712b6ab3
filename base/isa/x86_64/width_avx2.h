/* SPDX-License-Identifier: Apache-2.0 */
/* width_avx2.h - registers of 256 bits: MM, the prefix of their intrinsics, their types, and what
 * does not follow from the prefix. width_x86.h adds what does. */
#ifndef TS_BASE_WIDTH_AVX2_H
#define TS_BASE_WIDTH_AVX2_H

#include <immintrin.h>

#include "unroll.h"

#define MM(name)   _mm256_##name
#define SIMD(name) name##_avx2

enum { LANES = 8 };

typedef __m256  reg;
typedef __m256i ints;
typedef __m256d dreg;
typedef __m128i half_ints; /* half a register */

INLINE reg as_floats(ints v)
{
    return _mm256_castsi256_ps(v);
}

INLINE ints as_ints(reg v)
{
    return _mm256_castps_si256(v);
}

INLINE ints both_ints(ints x, ints y)
{
    return _mm256_and_si256(x, y);
}

INLINE half_ints get_half(const void *p)
{
    return _mm_loadu_si128(p);
}

INLINE void put_half(void *p, half_ints v)
{
    _mm_storeu_si128(p, v);
}

INLINE half_ints low_ints(ints v)
{
    return _mm256_castsi256_si128(v);
}

INLINE half_ints high_ints(ints v)
{
    return _mm256_extracti128_si256(v, 1);
}

INLINE dreg low_doubles(reg v)
{
    return _mm256_cvtps_pd(_mm256_castps256_ps128(v));
}

INLINE dreg high_doubles(reg v)
{
    return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}

INLINE double sum_doubles(dreg v)
{
    const __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}

#include "width_x86.h"

#endif

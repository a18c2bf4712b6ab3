/* SPDX-License-Identifier: Apache-2.0 */
/* attention_avx2.c - the vectors of attention_simd.h, 8 floats each. */
#include "attention_impl.h"
#include "vec_avx2.h"

enum { ROWS = 6, VECS = 2, WIDE = 2 }; /* sums fill 12 of 16 registers */

static const float least = -200, big = 0x1.8p23f;

INLINE vec within(vec v, vec i, vec begin, vec end)
{
    const vec from = _mm256_cmp_ps(i, begin, _CMP_GE_OQ), to = _mm256_cmp_ps(i, end, _CMP_LT_OQ);
    return _mm256_blendv_ps(splat(-__builtin_inff()), v, _mm256_and_ps(from, to));
}

/* 2^n is made of its exponent, which for subnormal powers is that of 0. */
INLINE vec times_power(vec v, vec n, vec t)
{
    (void)t;
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    const __m256i power = _mm256_slli_epi32(_mm256_max_epi32(biased, _mm256_setzero_si256()), 23);
    return mul(v, _mm256_castsi256_ps(power));
}

#include "attention_simd.h"

#include "attention_backward_simd.h"

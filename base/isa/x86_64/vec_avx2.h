/* SPDX-License-Identifier: Apache-2.0 */
/* vec_avx2.h - 8 floats at a time, with names that all widths share: code is written once and
 * included after one of these headers.
 *
 * madd is a * b + c, nmadd c - a * b; larger returns its second operand if either is a NaN; below
 * is v, but 0 where x < y; widen and narrow convert elements in memory to floats and back. SIMD
 * appends this width's suffix to a name. */
#ifndef TS_BASE_VEC_H
#define TS_BASE_VEC_H

#include "width_avx2.h"

/* Rounds to nearest, ties to even; a NaN stays a NaN. */
INLINE half_ints to_bf16(reg v)
{
    const reg  nan = as_floats(_mm256_set1_epi32(0x7fc00000));
    const reg  is_nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    const reg  all = _mm256_blendv_ps(as_floats(round_bf16(v)), nan, is_nan);
    const ints high = _mm256_srli_epi32(as_ints(all), 16);
    return _mm_packus_epi32(low_ints(high), high_ints(high));
}

#include "vec_x86.h"

INLINE float total(vec v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

INLINE vec below(vec v, vec x, vec y)
{
    return _mm256_andnot_ps(_mm256_cmp_ps(x, y, _CMP_LT_OQ), v);
}

INLINE vec finite_of(vec v)
{
    return _mm256_and_ps(_mm256_cmp_ps(sub(v, v), _mm256_setzero_ps(), _CMP_EQ_OQ), v);
}

INLINE dvec dget_floats(const float *p)
{
    return _mm256_cvtps_pd(_mm_loadu_ps(p));
}

/* v, but 0 where x < y. */
INLINE dvec dbelow(dvec v, dvec x, dvec y)
{
    return _mm256_andnot_pd(_mm256_cmp_pd(x, y, _CMP_LT_OQ), v);
}

/* p[i], i being the lowest bits of v; n, a power of 2, is how many there are. */
INLINE dvec dlookup(const double *p, int n, dvec v)
{
    const ints i = _mm256_and_si256(_mm256_castpd_si256(v), _mm256_set1_epi64x(n - 1));
    return _mm256_i64gather_pd(p, i, 8);
}

/* The integer that v is, and the one that w is, shifted. */
INLINE dvec dadd_bits(dvec v, dvec w, int shift)
{
    const ints up = _mm256_slli_epi64(_mm256_castpd_si256(w), shift);
    return _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(v), up));
}

#endif

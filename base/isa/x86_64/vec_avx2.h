/* SPDX-License-Identifier: Apache-2.0 */
/* vec_avx2.h - 8 floats at a time, with names that all widths share: code is written once and
 * included after one of these headers.
 *
 * madd is a * b + c, nmadd c - a * b; larger returns its second operand if either is a NaN; widen
 * and narrow convert elements in memory to floats and back. */
#ifndef TS_BASE_VEC_H
#define TS_BASE_VEC_H

#include <immintrin.h>

#include "touchstone/touchstone.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8 };

typedef __m256 vec;

INLINE vec get(const float *p)
{
    return _mm256_loadu_ps(p);
}

INLINE void put(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}

INLINE vec splat(float f)
{
    return _mm256_set1_ps(f);
}

INLINE vec add(vec x, vec y)
{
    return _mm256_add_ps(x, y);
}

INLINE vec sub(vec x, vec y)
{
    return _mm256_sub_ps(x, y);
}

INLINE vec mul(vec x, vec y)
{
    return _mm256_mul_ps(x, y);
}

INLINE vec divide(vec x, vec y)
{
    return _mm256_div_ps(x, y);
}

INLINE vec madd(vec x, vec y, vec z)
{
    return _mm256_fmadd_ps(x, y, z);
}

INLINE vec nmadd(vec x, vec y, vec z)
{
    return _mm256_fnmadd_ps(x, y, z);
}

/* PICKS single elements in a vec, and madd of one of them. */
enum { PICKS = 1 };

INLINE vec get_picks(const float *p)
{
    return splat(*p);
}

INLINE vec madd_pick(vec x, int pick, vec y, vec z)
{
    (void)pick;
    return madd(x, y, z);
}

INLINE vec larger(vec x, vec y)
{
    return _mm256_max_ps(x, y);
}

INLINE float total(vec v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* TS_F32, TS_F16 or TS_BF16. */
INLINE vec widen(const void *p, ts_dtype t)
{
    if (t == TS_F32) return _mm256_loadu_ps(p);
    if (t == TS_F16) return _mm256_cvtph_ps(_mm_loadu_si128(p));
    const __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
}

/* Rounds to nearest, ties to even; a NaN stays a NaN. */
INLINE __m128i to_bf16(vec v)
{
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const vec     nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    const vec     all =
        _mm256_blendv_ps(_mm256_castsi256_ps(sum), nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(all), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}

INLINE void narrow(void *p, ts_dtype t, vec v)
{
    if (t == TS_F32) _mm256_storeu_ps(p, v);
    else if (t == TS_F16) _mm_storeu_si128(p, _mm256_cvtps_ph(v, 0));
    else _mm_storeu_si128(p, to_bf16(v));
}

/* ---- doubles, half as many ---- */

typedef __m256d dvec;

enum { DLANES = 4 };

INLINE dvec dget_floats(const float *p)
{
    return _mm256_cvtps_pd(_mm_loadu_ps(p));
}

INLINE void dput(double *p, dvec v)
{
    _mm256_storeu_pd(p, v);
}

INLINE dvec dsplat(double f)
{
    return _mm256_set1_pd(f);
}

INLINE dvec dadd(dvec x, dvec y)
{
    return _mm256_add_pd(x, y);
}

INLINE dvec dsub(dvec x, dvec y)
{
    return _mm256_sub_pd(x, y);
}

INLINE dvec dmul(dvec x, dvec y)
{
    return _mm256_mul_pd(x, y);
}

INLINE dvec dmadd(dvec x, dvec y, dvec z)
{
    return _mm256_fmadd_pd(x, y, z);
}

INLINE dvec dlarger(dvec x, dvec y)
{
    return _mm256_max_pd(x, y);
}

/* v where x > y, else 0. */
INLINE dvec dwhere_above(dvec x, dvec y, dvec v)
{
    return _mm256_and_pd(_mm256_cmp_pd(x, y, _CMP_GT_OQ), v);
}

/* v times 2^k, where k is in the low bits of `shifted` = 0x1.8p52 + k. */
INLINE dvec dscale(dvec v, dvec shifted)
{
    const __m256i k = _mm256_slli_epi64(_mm256_castpd_si256(shifted), 52);
    return _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(v), k));
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* vec_avx512.h - 16 floats at a time, with names that all widths share: code is written once and
 * included after one of these headers. */
#ifndef TS_BASE_VEC_H
#define TS_BASE_VEC_H

#include <immintrin.h>

#include "touchstone/touchstone.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

typedef __m512 vec;

INLINE vec get(const float *p)
{
    return _mm512_loadu_ps(p);
}

INLINE void put(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

INLINE vec splat(float f)
{
    return _mm512_set1_ps(f);
}

INLINE vec add(vec x, vec y)
{
    return _mm512_add_ps(x, y);
}

INLINE vec sub(vec x, vec y)
{
    return _mm512_sub_ps(x, y);
}

INLINE vec mul(vec x, vec y)
{
    return _mm512_mul_ps(x, y);
}

INLINE vec divide(vec x, vec y)
{
    return _mm512_div_ps(x, y);
}

INLINE vec madd(vec x, vec y, vec z)
{
    return _mm512_fmadd_ps(x, y, z);
}

INLINE vec nmadd(vec x, vec y, vec z)
{
    return _mm512_fnmadd_ps(x, y, z);
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
    return _mm512_max_ps(x, y);
}

INLINE float total(vec v)
{
    return _mm512_reduce_add_ps(v);
}

/* TS_F32, TS_F16 or TS_BF16. */
INLINE vec widen(const void *p, ts_dtype t)
{
    if (t == TS_F32) return _mm512_loadu_ps(p);
    if (t == TS_F16) return _mm512_cvtph_ps(_mm256_loadu_si256(p));
    const __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
}

/* Rounds to nearest, ties to even; a NaN stays a NaN. */
INLINE __m256i to_bf16(vec v)
{
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i nan = _mm512_set1_epi32(0x7fc00000);
    const __m512i all = _mm512_mask_mov_epi32(sum, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(all, 16));
}

INLINE void narrow(void *p, ts_dtype t, vec v)
{
    if (t == TS_F32) _mm512_storeu_ps(p, v);
    else if (t == TS_F16) _mm256_storeu_si256(p, _mm512_cvtps_ph(v, 0));
    else _mm256_storeu_si256(p, to_bf16(v));
}

/* ---- doubles, half as many ---- */

typedef __m512d dvec;

enum { DLANES = 8 };

INLINE dvec dget_floats(const float *p)
{
    return _mm512_cvtps_pd(_mm256_loadu_ps(p));
}

INLINE void dput(double *p, dvec v)
{
    _mm512_storeu_pd(p, v);
}

INLINE dvec dsplat(double f)
{
    return _mm512_set1_pd(f);
}

INLINE dvec dadd(dvec x, dvec y)
{
    return _mm512_add_pd(x, y);
}

INLINE dvec dsub(dvec x, dvec y)
{
    return _mm512_sub_pd(x, y);
}

INLINE dvec dmul(dvec x, dvec y)
{
    return _mm512_mul_pd(x, y);
}

INLINE dvec dmadd(dvec x, dvec y, dvec z)
{
    return _mm512_fmadd_pd(x, y, z);
}

INLINE dvec dlarger(dvec x, dvec y)
{
    return _mm512_max_pd(x, y);
}

/* v where x > y, else 0. */
INLINE dvec dwhere_above(dvec x, dvec y, dvec v)
{
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(x, y, _CMP_GT_OQ), v);
}

/* v times 2^k, where k is in the low bits of `shifted` = 0x1.8p52 + k. */
INLINE dvec dscale(dvec v, dvec shifted)
{
    const __m512i k = _mm512_slli_epi64(_mm512_castpd_si512(shifted), 52);
    return _mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(v), k));
}

#endif

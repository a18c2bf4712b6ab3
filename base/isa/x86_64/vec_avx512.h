/* SPDX-License-Identifier: Apache-2.0 */
/* vec_avx512.h - 16 floats at a time, with names that all widths share: code is written once and
 * included after one of these headers. */
#ifndef TS_BASE_VEC_H
#define TS_BASE_VEC_H

#include "width_avx512.h"

/* Rounds to nearest, ties to even; a NaN stays a NaN. */
INLINE half_ints to_bf16(reg v)
{
    const ints sum = round_bf16(v), nan = _mm512_set1_epi32(0x7fc00000);
    const ints all = _mm512_mask_mov_epi32(sum, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(all, 16));
}

#include "vec_x86.h"

INLINE float total(vec v)
{
    return _mm512_reduce_add_ps(v);
}

INLINE vec below(vec v, vec x, vec y)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, y, _CMP_NLT_UQ), v);
}

INLINE vec finite_of(vec v)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(sub(v, v), _mm512_setzero_ps(), _CMP_EQ_OQ), v);
}

INLINE dvec dget_floats(const float *p)
{
    return _mm512_cvtps_pd(_mm256_loadu_ps(p));
}

/* v, but 0 where x < y. */
INLINE dvec dbelow(dvec v, dvec x, dvec y)
{
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(x, y, _CMP_NLT_UQ), v);
}

/* p[i], i being the lowest bits of v; n, a power of 2, is how many there are. */
INLINE dvec dlookup(const double *p, int n, dvec v)
{
    const ints i = _mm512_and_si512(_mm512_castpd_si512(v), _mm512_set1_epi64(n - 1));
    return _mm512_i64gather_pd(i, p, 8);
}

/* The integer that v is, and the one that w is, shifted. */
INLINE dvec dadd_bits(dvec v, dvec w, int shift)
{
    const ints up = _mm512_slli_epi64(_mm512_castpd_si512(w), (unsigned)shift);
    return _mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(v), up));
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* row_avx512.h - vectors of 32 elements of a row, with the operations that row_simd.h lists. The
 * ends of rows are masked: a masked load or store touches no byte outside its mask. */
#ifndef TS_BASE_ROW_AVX512_H
#define TS_BASE_ROW_AVX512_H

#include "width_avx512.h"

#include "row_x86.h"

INLINE __mmask32 first(int n)
{
    return n == UNIT ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1;
}

/* The lanes of a and of b that contain the first n elements. */
INLINE __mmask16 lanes_a(ts_dtype t, int n)
{
    return (__mmask16)first(t == TS_BF16 ? (n + 1) / 2 : n);
}

INLINE __mmask16 lanes_b(ts_dtype t, int n)
{
    return (__mmask16)(t == TS_BF16 ? first(n / 2) : first(n) >> HALF);
}

INLINE vec load(const void *row, ts_dtype t, int64_t i, int n)
{
    if (t == TS_F32) {
        const float *p = (const float *)row + i;
        if (n == UNIT) return (vec) { _mm512_loadu_ps(p), _mm512_loadu_ps(p + HALF) };
        return (vec) { _mm512_maskz_loadu_ps(lanes_a(t, n), p),
                       _mm512_maskz_loadu_ps(lanes_b(t, n), p + HALF) };
    }
    const __m512i w = _mm512_maskz_loadu_epi16(first(n), (const uint16_t *)row + i);
    return split(w, t);
}

INLINE __m512i pack(ts_dtype t, vec v)
{
    if (t == TS_BF16)
        return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(round_bf16(v.a), 16),
                                       round_bf16(v.b));
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtps_ph(v.a, 0)),
                              _mm512_cvtps_ph(v.b, 0), 1);
}

INLINE void store(void *row, ts_dtype t, int64_t i, int n, vec v)
{
    if (t != TS_F32) {
        _mm512_mask_storeu_epi16((uint16_t *)row + i, first(n), pack(t, v));
        return;
    }
    _mm512_mask_storeu_ps((float *)row + i, lanes_a(t, n), v.a);
    _mm512_mask_storeu_ps((float *)row + i + HALF, lanes_b(t, n), v.b);
}

INLINE void stream(void *row, ts_dtype t, int64_t i, vec v)
{
    if (t != TS_F32) {
        _mm512_stream_si512((void *)((uint16_t *)row + i), pack(t, v));
        return;
    }
    _mm512_stream_ps((float *)row + i, v.a);
    _mm512_stream_ps((float *)row + i + HALF, v.b);
}

INLINE vec keep(vec v, ts_dtype t, int n)
{
    if (n == UNIT) return v;
    return (vec) { _mm512_maskz_mov_ps(lanes_a(t, n), v.a),
                   _mm512_maskz_mov_ps(lanes_b(t, n), v.b) };
}

INLINE double total(reg v)
{
    return (double)_mm512_reduce_add_ps(v);
}

INLINE void columns_end(float *p, ts_dtype t, int n, vec v)
{
    if (t == TS_BF16) {
        const __m512i low =
            _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
        v = (vec) { _mm512_permutex2var_ps(v.a, low, v.b), _mm512_permutex2var_ps(v.a, high, v.b) };
    }
    store(p, TS_F32, 0, n, add(load(p, TS_F32, 0, n), v));
}

INLINE wide wide_sum(wide s, const void *row, ts_dtype t, int64_t i, int n, double pivot)
{
    const vec       v = load(row, t, i, n);
    const __m512d   x[4] = { low_doubles(v.a), high_doubles(v.a), low_doubles(v.b),
                             high_doubles(v.b) };
    const __mmask32 lanes = lanes_a(t, n) | (__mmask32)lanes_b(t, n) << HALF;
    for (int k = 0; k < 4; k++) {
        const __mmask8 m = n == UNIT ? 0xff : (__mmask8)(lanes >> 8 * k);
        const __m512d  d = _mm512_maskz_sub_pd(m, x[k], _mm512_set1_pd(pivot));
        s.d = _mm512_add_pd(s.d, d);
        s.dd = _mm512_fmadd_pd(d, d, s.dd);
    }
    return s;
}

#endif

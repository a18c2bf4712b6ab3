/* SPDX-License-Identifier: Apache-2.0 */
/* row_avx512.h - vectors of 32 elements of a row, with the operations that row_simd.h lists. The
 * ends of rows are masked: a masked load or store touches no byte outside its mask. */
#ifndef TS_BASE_ROW_AVX512_H
#define TS_BASE_ROW_AVX512_H

#include <immintrin.h>

#include "touchstone/touchstone.h"

#define INLINE static inline __attribute__((always_inline))

enum { UNIT = 32, HALF = 16 };

typedef __m512 reg;
typedef struct vec {
    reg a, b;
} vec;
typedef struct wide {
    __m512d d, dd;
} wide;

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
    if (t == TS_BF16)
        return (vec) { _mm512_castsi512_ps(_mm512_slli_epi32(w, 16)),
                       _mm512_castsi512_ps(_mm512_and_si512(w, _mm512_set1_epi32(-0x10000))) };
    return (vec) { _mm512_cvtph_ps(_mm512_castsi512_si256(w)),
                   _mm512_cvtph_ps(_mm512_extracti64x4_epi64(w, 1)) };
}

/* Rounds to nearest, ties to even; the result is in the high half. A carry out of the low half
 * cannot change a NaN, because kernels ensure that the low half of every NaN is 0. */
INLINE __m512i round_bf16(reg v)
{
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
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

INLINE void end_streams(void)
{
    _mm_sfence();
}

INLINE reg reg_zero(void)
{
    return _mm512_setzero_ps();
}

INLINE vec splat(float f)
{
    return (vec) { _mm512_set1_ps(f), _mm512_set1_ps(f) };
}

INLINE reg reg_as_stored(reg v, ts_dtype t)
{
    if (t == TS_F16) return _mm512_cvtph_ps(_mm512_cvtps_ph(v, 0));
    return _mm512_castsi512_ps(_mm512_and_si512(round_bf16(v), _mm512_set1_epi32(-0x10000)));
}

INLINE vec as_stored(vec v, ts_dtype t)
{
    if (t == TS_F32) return v;
    return (vec) { reg_as_stored(v.a, t), reg_as_stored(v.b, t) };
}

INLINE vec keep(vec v, ts_dtype t, int n)
{
    if (n == UNIT) return v;
    return (vec) { _mm512_maskz_mov_ps(lanes_a(t, n), v.a),
                   _mm512_maskz_mov_ps(lanes_b(t, n), v.b) };
}

INLINE vec add(vec x, vec y)
{
    return (vec) { _mm512_add_ps(x.a, y.a), _mm512_add_ps(x.b, y.b) };
}

INLINE vec mul(vec x, vec y)
{
    return (vec) { _mm512_mul_ps(x.a, y.a), _mm512_mul_ps(x.b, y.b) };
}

INLINE vec madd(vec x, vec y, vec z)
{
    return (vec) { _mm512_fmadd_ps(x.a, y.a, z.a), _mm512_fmadd_ps(x.b, y.b, z.b) };
}

INLINE vec nmadd(vec x, vec y, vec z)
{
    return (vec) { _mm512_fnmadd_ps(x.a, y.a, z.a), _mm512_fnmadd_ps(x.b, y.b, z.b) };
}

INLINE reg fold(reg acc, vec v)
{
    return _mm512_add_ps(_mm512_add_ps(acc, v.a), v.b);
}

INLINE reg fold_madd(reg acc, vec x, vec y)
{
    return _mm512_fmadd_ps(x.b, y.b, _mm512_fmadd_ps(x.a, y.a, acc));
}

INLINE double total(reg v)
{
    return (double)_mm512_reduce_add_ps(v);
}

INLINE vec columns_begin(const float *p, ts_dtype t, int n)
{
    (void)p, (void)t, (void)n;
    return splat(0);
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

INLINE wide wide_zero(void)
{
    return (wide) { _mm512_setzero_pd(), _mm512_setzero_pd() };
}

INLINE __m512d low_half(reg v)
{
    return _mm512_cvtps_pd(_mm512_castps512_ps256(v));
}

INLINE __m512d high_half(reg v)
{
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
}

INLINE wide wide_sum(wide s, const void *row, ts_dtype t, int64_t i, int n, double pivot)
{
    const vec       v = load(row, t, i, n);
    const __m512d   x[4] = { low_half(v.a), high_half(v.a), low_half(v.b), high_half(v.b) };
    const __mmask32 lanes = lanes_a(t, n) | (__mmask32)lanes_b(t, n) << HALF;
    for (int k = 0; k < 4; k++) {
        const __mmask8 m = n == UNIT ? 0xff : (__mmask8)(lanes >> 8 * k);
        const __m512d  d = _mm512_maskz_sub_pd(m, x[k], _mm512_set1_pd(pivot));
        s.d = _mm512_add_pd(s.d, d);
        s.dd = _mm512_fmadd_pd(d, d, s.dd);
    }
    return s;
}

INLINE wide wide_add(wide s, reg d, reg dd)
{
    return (wide) { _mm512_add_pd(s.d, _mm512_add_pd(low_half(d), high_half(d))),
                    _mm512_add_pd(s.dd, _mm512_add_pd(low_half(dd), high_half(dd))) };
}

INLINE double wide_total(__m512d v)
{
    return _mm512_reduce_add_pd(v);
}

#endif

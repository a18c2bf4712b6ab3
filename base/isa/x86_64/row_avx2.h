/* SPDX-License-Identifier: Apache-2.0 */
/* row_avx2.h - vectors of 16 elements of a row, with the operations that row_simd.h lists. Ends of
 * rows use masked loads and stores for float elements, and the stack for others. */
#ifndef TS_BASE_ROW_AVX2_H
#define TS_BASE_ROW_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "touchstone/touchstone.h"

#define INLINE static inline __attribute__((always_inline))

enum { UNIT = 16, HALF = 8 };

typedef __m256 reg;
typedef struct vec {
    reg a, b;
} vec;
typedef struct wide {
    __m256d d, dd;
} wide;

/* All ones in the lanes below n. */
INLINE __m256i first(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The lanes of a and of b that contain the first n elements. */
INLINE __m256i lanes_a(ts_dtype t, int n)
{
    return first(t == TS_BF16 ? (n + 1) / 2 : n);
}

INLINE __m256i lanes_b(ts_dtype t, int n)
{
    return first(t == TS_BF16 ? n / 2 : n - HALF);
}

INLINE vec load(const void *row, ts_dtype t, int64_t i, int n)
{
    if (t == TS_F32) {
        const float *p = (const float *)row + i;
        if (n == UNIT) return (vec) { _mm256_loadu_ps(p), _mm256_loadu_ps(p + HALF) };
        return (vec) { _mm256_maskload_ps(p, lanes_a(t, n)),
                       _mm256_maskload_ps(p + HALF, lanes_b(t, n)) };
    }
    const uint16_t *p = (const uint16_t *)row + i;
    uint16_t        copy[UNIT] = { 0 };
    if (n != UNIT) p = memcpy(copy, p, (size_t)n * sizeof *p);
    const __m256i w = _mm256_loadu_si256((const __m256i *)p);
    if (t == TS_BF16)
        return (vec) { _mm256_castsi256_ps(_mm256_slli_epi32(w, 16)),
                       _mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32(-0x10000))) };
    return (vec) { _mm256_cvtph_ps(_mm256_castsi256_si128(w)),
                   _mm256_cvtph_ps(_mm256_extracti128_si256(w, 1)) };
}

/* Rounds to nearest, ties to even; the result is in the high half. A carry out of the low half
 * cannot change a NaN, because kernels ensure that the low half of every NaN is 0. */
INLINE __m256i round_bf16(reg v)
{
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
}

INLINE __m256i pack(ts_dtype t, vec v)
{
    if (t == TS_BF16)
        return _mm256_blend_epi16(_mm256_srli_epi32(round_bf16(v.a), 16), round_bf16(v.b), 0xaa);
    return _mm256_set_m128i(_mm256_cvtps_ph(v.b, 0), _mm256_cvtps_ph(v.a, 0));
}

INLINE void store(void *row, ts_dtype t, int64_t i, int n, vec v)
{
    if (t == TS_F32) {
        float *p = (float *)row + i;
        if (n == UNIT) {
            _mm256_storeu_ps(p, v.a);
            _mm256_storeu_ps(p + HALF, v.b);
        } else {
            _mm256_maskstore_ps(p, lanes_a(t, n), v.a);
            _mm256_maskstore_ps(p + HALF, lanes_b(t, n), v.b);
        }
    } else if (n == UNIT) {
        _mm256_storeu_si256((__m256i *)((uint16_t *)row + i), pack(t, v));
    } else {
        const __m256i w = pack(t, v);
        memcpy((uint16_t *)row + i, &w, (size_t)n * sizeof(uint16_t));
    }
}

INLINE void stream(void *row, ts_dtype t, int64_t i, vec v)
{
    if (t != TS_F32) {
        _mm256_stream_si256((__m256i *)((uint16_t *)row + i), pack(t, v));
        return;
    }
    _mm256_stream_ps((float *)row + i, v.a);
    _mm256_stream_ps((float *)row + i + HALF, v.b);
}

INLINE void end_streams(void)
{
    _mm_sfence();
}

INLINE reg reg_zero(void)
{
    return _mm256_setzero_ps();
}

INLINE vec splat(float f)
{
    return (vec) { _mm256_set1_ps(f), _mm256_set1_ps(f) };
}

INLINE reg reg_as_stored(reg v, ts_dtype t)
{
    if (t == TS_F16) return _mm256_cvtph_ps(_mm256_cvtps_ph(v, 0));
    return _mm256_castsi256_ps(_mm256_and_si256(round_bf16(v), _mm256_set1_epi32(-0x10000)));
}

INLINE vec as_stored(vec v, ts_dtype t)
{
    if (t == TS_F32) return v;
    return (vec) { reg_as_stored(v.a, t), reg_as_stored(v.b, t) };
}

INLINE vec keep(vec v, ts_dtype t, int n)
{
    if (n == UNIT) return v;
    return (vec) { _mm256_and_ps(v.a, _mm256_castsi256_ps(lanes_a(t, n))),
                   _mm256_and_ps(v.b, _mm256_castsi256_ps(lanes_b(t, n))) };
}

INLINE vec add(vec x, vec y)
{
    return (vec) { _mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b) };
}

INLINE vec mul(vec x, vec y)
{
    return (vec) { _mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b) };
}

INLINE vec madd(vec x, vec y, vec z)
{
    return (vec) { _mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b) };
}

INLINE vec nmadd(vec x, vec y, vec z)
{
    return (vec) { _mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b) };
}

INLINE reg fold(reg acc, vec v)
{
    return _mm256_add_ps(_mm256_add_ps(acc, v.a), v.b);
}

INLINE reg fold_madd(reg acc, vec x, vec y)
{
    return _mm256_fmadd_ps(x.b, y.b, _mm256_fmadd_ps(x.a, y.a, acc));
}

INLINE double wide_total(__m256d v)
{
    const __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}

INLINE __m256d low_half(reg v)
{
    return _mm256_cvtps_pd(_mm256_castps256_ps128(v));
}

INLINE __m256d high_half(reg v)
{
    return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}

INLINE double total(reg v)
{
    return wide_total(_mm256_add_pd(low_half(v), high_half(v)));
}

INLINE vec columns_begin(const float *p, ts_dtype t, int n)
{
    (void)p, (void)t, (void)n;
    return splat(0);
}

INLINE void columns_end(float *p, ts_dtype t, int n, vec v)
{
    if (t == TS_BF16) {
        const reg low = _mm256_unpacklo_ps(v.a, v.b), high = _mm256_unpackhi_ps(v.a, v.b);
        v = (vec) { _mm256_permute2f128_ps(low, high, 0x20),
                    _mm256_permute2f128_ps(low, high, 0x31) };
    }
    store(p, TS_F32, 0, n, add(load(p, TS_F32, 0, n), v));
}

INLINE wide wide_zero(void)
{
    return (wide) { _mm256_setzero_pd(), _mm256_setzero_pd() };
}

INLINE __m256d lanes_pd(__m128i lanes)
{
    return _mm256_castsi256_pd(_mm256_cvtepi32_epi64(lanes));
}

INLINE wide wide_sum(wide s, const void *row, ts_dtype t, int64_t i, int n, double pivot)
{
    const vec v = load(row, t, i, n);
    __m256d   d[4] = { low_half(v.a), high_half(v.a), low_half(v.b), high_half(v.b) };
    for (int k = 0; k < 4; k++) d[k] = _mm256_sub_pd(d[k], _mm256_set1_pd(pivot));
    if (n != UNIT) {
        const __m256i a = lanes_a(t, n), b = lanes_b(t, n);
        d[0] = _mm256_and_pd(d[0], lanes_pd(_mm256_castsi256_si128(a)));
        d[1] = _mm256_and_pd(d[1], lanes_pd(_mm256_extracti128_si256(a, 1)));
        d[2] = _mm256_and_pd(d[2], lanes_pd(_mm256_castsi256_si128(b)));
        d[3] = _mm256_and_pd(d[3], lanes_pd(_mm256_extracti128_si256(b, 1)));
    }
    for (int k = 0; k < 4; k++) {
        s.d = _mm256_add_pd(s.d, d[k]);
        s.dd = _mm256_fmadd_pd(d[k], d[k], s.dd);
    }
    return s;
}

INLINE wide wide_add(wide s, reg d, reg dd)
{
    return (wide) { _mm256_add_pd(s.d, _mm256_add_pd(low_half(d), high_half(d))),
                    _mm256_add_pd(s.dd, _mm256_add_pd(low_half(dd), high_half(dd))) };
}

#endif

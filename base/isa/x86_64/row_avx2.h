/* SPDX-License-Identifier: Apache-2.0 */
/* row_avx2.h - vectors of 16 elements of a row, with the operations that row_simd.h lists. Ends of
 * rows use masked loads and stores for float elements, and the stack for others. */
#ifndef TS_BASE_ROW_AVX2_H
#define TS_BASE_ROW_AVX2_H

#include <string.h>

#include "width_avx2.h"

#include "row_x86.h"

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
    const ints w = _mm256_loadu_si256((const __m256i *)p);
    return split(w, t);
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
        const ints w = pack(t, v);
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

INLINE vec keep(vec v, ts_dtype t, int n)
{
    if (n == UNIT) return v;
    return (vec) { _mm256_and_ps(v.a, _mm256_castsi256_ps(lanes_a(t, n))),
                   _mm256_and_ps(v.b, _mm256_castsi256_ps(lanes_b(t, n))) };
}

INLINE double total(reg v)
{
    return sum_doubles(_mm256_add_pd(low_doubles(v), high_doubles(v)));
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

INLINE __m256d lanes_pd(__m128i lanes)
{
    return _mm256_castsi256_pd(_mm256_cvtepi32_epi64(lanes));
}

INLINE wide wide_sum(wide s, const void *row, ts_dtype t, int64_t i, int n, double pivot)
{
    const vec v = load(row, t, i, n);
    __m256d   d[4] = { low_doubles(v.a), high_doubles(v.a), low_doubles(v.b), high_doubles(v.b) };
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

#endif

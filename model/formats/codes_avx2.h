/* SPDX-License-Identifier: Apache-2.0 */
/* codes_avx2.h - 32 bytes as one vector, with the operations that codes_simd.h lists. */
#ifndef TS_MODEL_CODES_VECTORS_H
#define TS_MODEL_CODES_VECTORS_H

#include <immintrin.h>
#include <string.h>

#include "codes.h"

#define INLINE static inline __attribute__((always_inline))

typedef __m256i bytes;
typedef __m256  vec; /* two floats of each of four groups, in its halves */

INLINE float half_at(const unsigned char *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return _cvtsh_ss(h);
}

INLINE bytes bytes_at(const void *p)
{
    return _mm256_loadu_si256(p);
}

/* Bytes are shifted as words: the mask must have no bit that came from a neighbour. */
INLINE bytes pick(bytes x, int down, int mask)
{
    if (down > 0) x = _mm256_srli_epi16(x, down);
    if (down < 0) x = _mm256_slli_epi16(x, -down);
    return _mm256_and_si256(x, _mm256_set1_epi8((char)mask));
}

INLINE bytes halves_at(const unsigned char *p)
{
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(v, 4), v), _mm256_set1_epi8(15));
}

INLINE bytes with(bytes x, bytes more)
{
    return _mm256_or_si256(x, more);
}

INLINE bytes bits_at(const unsigned char *p, int on)
{
    int word;
    memcpy(&word, p, sizeof word);
    const __m256i from =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    const __m256i each = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), from), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(each, bit), _mm256_set1_epi8((char)on));
}

INLINE bytes minus(bytes x, int n)
{
    return _mm256_sub_epi8(x, _mm256_set1_epi8((char)n));
}

INLINE vec zero(void)
{
    return _mm256_setzero_ps();
}

INLINE vec splat(float x)
{
    return _mm256_set1_ps(x);
}

INLINE vec madd(vec x, vec y, vec z)
{
    return _mm256_fmadd_ps(x, y, z);
}

INLINE vec plus(vec x, vec y)
{
    return _mm256_add_ps(x, y);
}

INLINE float total(vec x)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

INLINE vec twice(__m128 v)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(v), v, 1);
}

INLINE vec once(__m128 v)
{
    return _mm256_insertf128_ps(_mm256_setzero_ps(), v, 0);
}

INLINE vec scales_at(const float *p)
{
    return twice(_mm_loadu_ps(p));
}

INLINE vec sums_at(const float *p)
{
    return once(_mm_loadu_ps(p));
}

/* Of four blocks: what their first halves are, and their second. */
INLINE void four_halves(const unsigned char *p, int n_bytes, vec *d, vec *m)
{
    int w[4];
    for (int i = 0; i < 4; i++) memcpy(w + i, p + i * n_bytes, sizeof *w);
    const __m128i sort = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    const __m128i v = _mm_shuffle_epi8(_mm_setr_epi32(w[0], w[1], w[2], w[3]), sort);
    *d = twice(_mm_cvtph_ps(v));
    *m = once(_mm_cvtph_ps(_mm_srli_si128(v, 8)));
}

/* Six bits of each of 16: eight scales times d, eight least values times m. */
INLINE void put_factors(const uint8_t c[16], float d, float m, float to_d[8], float to_m[8])
{
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)c);
    const __m256i s = _mm256_cvtepu8_epi32(v), l = _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8));
    _mm256_storeu_ps(to_d, _mm256_mul_ps(_mm256_cvtepi32_ps(s), splat(d)));
    _mm256_storeu_ps(to_m, _mm256_mul_ps(_mm256_cvtepi32_ps(l), splat(m)));
}

/* The totals of four, of their halves each: sums of neighbours are within halves. */
INLINE vec fold(const __m256i y[4])
{
    return _mm256_cvtepi32_ps(
        _mm256_hadd_epi32(_mm256_hadd_epi32(y[0], y[1]), _mm256_hadd_epi32(y[2], y[3])));
}

/* The sum of 32 signed bytes. */
INLINE float sum_of(bytes x)
{
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), x);
    return total(_mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
}

/* 32 floats to high and low bytes; gives the scale, and their sum times that. NaN or an infinity
 * makes both NaN or infinite. */
INLINE float round_group(const float *x, int8_t out[2 * TS_CODE_GROUP], float *sum)
{
    const __m256  sign = _mm256_set1_ps(-0.0f);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256        v[4], top = zero(), odd = zero();
    __m256i       c[2], h[2];
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
        top = _mm256_max_ps(top, _mm256_andnot_ps(sign, v[i]));
        odd = plus(odd, _mm256_sub_ps(v[i], v[i])); /* 0, or NaN */
    }
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(top), _mm256_extractf128_ps(top, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    const float most = _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
    const float inverse = most > 0 ? TS_CODE_MOST / most : 0;
    const float scale = most / TS_CODE_MOST + total(odd);
    for (int i = 0; i < 2; i++) {
        c[i] = _mm256_packs_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(v[2 * i], splat(inverse))),
                                  _mm256_cvtps_epi32(_mm256_mul_ps(v[2 * i + 1], splat(inverse))));
        h[i] = _mm256_srai_epi16(_mm256_add_epi16(c[i], _mm256_set1_epi16(64)), 7);
        c[i] = _mm256_sub_epi16(c[i], _mm256_slli_epi16(h[i], 7));
    }
    const bytes high = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(h[0], h[1]), order);
    const bytes low = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(c[0], c[1]), order);
    _mm256_storeu_si256((__m256i *)(void *)out, high);
    _mm256_storeu_si256((__m256i *)(void *)(out + TS_CODE_GROUP), low);
    *sum = scale * (128 * sum_of(high) + sum_of(low));
    return scale;
}

static void round_rows(const float *x, const ts_rounded *to, int64_t first, int64_t n)
{
    const int64_t n_group = to->cols / TS_CODE_GROUP;
    for (int64_t i = first * n_group; i < (first + n) * n_group; i++)
        to->scale[i] =
            round_group(x + i * TS_CODE_GROUP, to->code + i * 2 * TS_CODE_GROUP, &to->sum[i]);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_avx2.c - the vectors of softmax_topk_simd.h, 8 floats each. */
#include <immintrin.h>
#include <string.h>

#include "softmax_topk_impl.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8, GROUP = 4 * LANES, BATCH = 2 };

typedef __m256  vec;
typedef __m256i ivec;

INLINE vec from_bf16(__m256i high_halves)
{
    return _mm256_castsi256_ps(high_halves);
}

INLINE void load(vec x[4], const void *p, ts_dtype t)
{
    if (t == TS_F32) {
        for (int j = 0; j < 4; j++) x[j] = _mm256_loadu_ps((const float *)p + j * LANES);
        return;
    }
    for (int j = 0; j < 2; j++) {
        const __m256i w = _mm256_loadu_si256((const void *)((const uint16_t *)p + j * 2 * LANES));
        if (t == TS_BF16) {
            x[2 * j] = from_bf16(_mm256_slli_epi32(w, 16));
            x[2 * j + 1] = from_bf16(_mm256_and_si256(w, _mm256_set1_epi32(-0x10000)));
        } else {
            x[2 * j] = _mm256_cvtph_ps(_mm256_castsi256_si128(w));
            x[2 * j + 1] = _mm256_cvtph_ps(_mm256_extracti128_si256(w, 1));
        }
    }
}

INLINE void load_in_order(vec x[4], const void *p, ts_dtype t)
{
    if (t != TS_BF16) {
        load(x, p, t);
        return;
    }
    for (int j = 0; j < 4; j++) {
        const __m128i w = _mm_loadu_si128((const void *)((const uint16_t *)p + j * LANES));
        x[j] = from_bf16(_mm256_slli_epi32(_mm256_cvtepu16_epi32(w), 16));
    }
}

INLINE vec get(const float *p)
{
    return _mm256_loadu_ps(p);
}

INLINE void put(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}

INLINE ivec get_ints(const int32_t *p)
{
    return _mm256_loadu_si256((const void *)p);
}

INLINE ivec count_from(int32_t i)
{
    return _mm256_add_epi32(_mm256_set1_epi32(i), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE vec splat(float f)
{
    return _mm256_set1_ps(f);
}

INLINE vec fresh(const float *copy, float f)
{
    (void)copy;
    return splat(f);
}

INLINE vec sub(vec x, vec y)
{
    return _mm256_sub_ps(x, y);
}

INLINE vec madd(vec x, vec y, vec z)
{
    return _mm256_fmadd_ps(x, y, z);
}

INLINE vec larger(vec x, vec y)
{
    return _mm256_max_ps(x, y);
}

INLINE vec low_bits_to_exponent(vec v)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(v), 23));
}

INLINE unsigned which_ge(vec x, vec y)
{
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_GE_OQ));
}

INLINE unsigned which_gt(vec x, vec y)
{
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_GT_OQ));
}

#include "softmax_topk_x86.h"

INLINE double total(vec v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return (double)_mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

/* Compression by halves: which lanes go to the front of a half. */
INLINE void pack(float *val, int32_t *idx, unsigned which, vec v, ivec i)
{
    static const uint8_t front[16][4] = {
        { 0 }, { 0 },    { 1 },    { 0, 1 },    { 2 },    { 0, 2 },    { 1, 2 },    { 0, 1, 2 },
        { 3 }, { 0, 3 }, { 1, 3 }, { 0, 1, 3 }, { 2, 3 }, { 0, 2, 3 }, { 1, 2, 3 }, { 0, 1, 2, 3 },
    };
    const int n_low = __builtin_popcount(which & 15);
    int32_t   low, high;
    memcpy(&low, front[which & 15], sizeof low);
    memcpy(&high, front[which >> 4], sizeof high);
    const __m256i to = _mm256_cvtepu8_epi32(_mm_set_epi32(0, 0, high, low));
    const __m256  x = _mm256_permutevar_ps(v, to);
    const __m256  at = _mm256_permutevar_ps(_mm256_castsi256_ps(i), to);
    _mm_storeu_ps(val, _mm256_castps256_ps128(x));
    _mm_storeu_ps(val + n_low, _mm256_extractf128_ps(x, 1));
    _mm_storeu_si128((void *)idx, _mm_castps_si128(_mm256_castps256_ps128(at)));
    _mm_storeu_si128((void *)(idx + n_low), _mm_castps_si128(_mm256_extractf128_ps(at, 1)));
}

#include "softmax_topk_simd.h"

ts_status ts_softmax_topk_avx2(const void *args, const ts_exec *x)
{
    return ts_softmax_topk_threads(args, x, &steps);
}

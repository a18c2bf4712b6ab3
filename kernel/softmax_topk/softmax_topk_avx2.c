/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_avx2.c - the vectors of softmax_topk_simd.h, 8 floats each. */
#include <string.h>

#include "softmax_topk_impl.h"
#include "vec_avx2.h"

typedef ints ivec;

INLINE ivec get_ints(const int32_t *p)
{
    return _mm256_loadu_si256((const void *)p);
}

INLINE ivec count_from(int32_t i)
{
    return _mm256_add_epi32(_mm256_set1_epi32(i), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE unsigned which_ge(vec x, vec y)
{
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_GE_OQ));
}

INLINE unsigned which_gt(vec x, vec y)
{
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_GT_OQ));
}

INLINE vec keep_nan(vec nan, const vec x[4])
{
    const vec low = _mm256_cmp_ps(x[0], x[1], _CMP_UNORD_Q);
    const vec high = _mm256_cmp_ps(x[2], x[3], _CMP_UNORD_Q);
    return _mm256_or_ps(nan, _mm256_or_ps(low, high));
}

INLINE int any_nan(vec v)
{
    return _mm256_movemask_ps(v) != 0;
}

#include "softmax_topk_x86.h"

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

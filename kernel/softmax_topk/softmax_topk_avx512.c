/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_avx512.c - the vectors of softmax_topk_simd.h, 16 floats each. */
#include <immintrin.h>

#include "softmax_topk_impl.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, GROUP = 4 * LANES, BATCH = 2 };

typedef __m512  vec;
typedef __m512i ivec;

INLINE vec from_bf16(__m512i high_halves)
{
    return _mm512_castsi512_ps(high_halves);
}

INLINE void load(vec x[4], const void *p, ts_dtype t)
{
    if (t == TS_F32) {
        for (int j = 0; j < 4; j++) x[j] = _mm512_loadu_ps((const float *)p + j * LANES);
        return;
    }
    for (int j = 0; j < 2; j++) {
        const __m512i w = _mm512_loadu_si512((const uint16_t *)p + j * 2 * LANES);
        if (t == TS_BF16) {
            x[2 * j] = from_bf16(_mm512_slli_epi32(w, 16));
            x[2 * j + 1] = from_bf16(_mm512_and_si512(w, _mm512_set1_epi32(-0x10000)));
        } else {
            x[2 * j] = _mm512_cvtph_ps(_mm512_castsi512_si256(w));
            x[2 * j + 1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(w, 1));
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
        const __m256i w = _mm256_loadu_si256((const void *)((const uint16_t *)p + j * LANES));
        x[j] = from_bf16(_mm512_slli_epi32(_mm512_cvtepu16_epi32(w), 16));
    }
}

INLINE vec get(const float *p)
{
    return _mm512_loadu_ps(p);
}

INLINE void put(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

INLINE ivec get_ints(const int32_t *p)
{
    return _mm512_loadu_si512(p);
}

INLINE ivec count_from(int32_t i)
{
    const ivec iota = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(_mm512_set1_epi32(i), iota);
}

INLINE vec splat(float f)
{
    return _mm512_set1_ps(f);
}

INLINE vec fresh(const float *copy, float f)
{
    (void)copy;
    return splat(f);
}

INLINE vec sub(vec x, vec y)
{
    return _mm512_sub_ps(x, y);
}

INLINE vec madd(vec x, vec y, vec z)
{
    return _mm512_fmadd_ps(x, y, z);
}

INLINE vec larger(vec x, vec y)
{
    return _mm512_max_ps(x, y);
}

INLINE vec low_bits_to_exponent(vec v)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(v), 23));
}

INLINE unsigned which_ge(vec x, vec y)
{
    return _mm512_cmp_ps_mask(x, y, _CMP_GE_OQ);
}

INLINE unsigned which_gt(vec x, vec y)
{
    return _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ);
}

#include "softmax_topk_x86.h"

INLINE double total(vec v)
{
    return (double)_mm512_reduce_add_ps(v);
}

/* Compressed in registers: a compressing store to memory is many times slower. */
INLINE void pack(float *val, int32_t *idx, unsigned which, vec v, ivec i)
{
    _mm512_storeu_ps(val, _mm512_maskz_compress_ps((__mmask16)which, v));
    _mm512_storeu_si512(idx, _mm512_maskz_compress_epi32((__mmask16)which, i));
}

#include "softmax_topk_simd.h"

ts_status ts_softmax_topk_avx512(const void *args, const ts_exec *x)
{
    return ts_softmax_topk_threads(args, x, &steps);
}

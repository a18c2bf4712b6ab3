/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_avx512.c - the vectors of softmax_topk_simd.h, 16 floats each. */
#include "softmax_topk_impl.h"
#include "vec_avx512.h"

typedef ints ivec;

INLINE ivec get_ints(const int32_t *p)
{
    return _mm512_loadu_si512(p);
}

INLINE ivec count_from(int32_t i)
{
    const ivec iota = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(_mm512_set1_epi32(i), iota);
}

INLINE unsigned which_ge(vec x, vec y)
{
    return _mm512_cmp_ps_mask(x, y, _CMP_GE_OQ);
}

INLINE unsigned which_gt(vec x, vec y)
{
    return _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ);
}

INLINE vec keep_nan(vec nan, const vec x[4])
{
    const __mmask16 low = _mm512_cmp_ps_mask(x[0], x[1], _CMP_UNORD_Q);
    const __mmask16 high = _mm512_cmp_ps_mask(x[2], x[3], _CMP_UNORD_Q);
    return _mm512_mask_mov_ps(nan, (__mmask16)(low | high), splat(1));
}

INLINE int any_nan(vec v)
{
    return which_gt(v, splat(0)) != 0;
}

#include "softmax_topk_x86.h"

/* Compressed in registers: a compressing store to memory is many times slower. */
INLINE void pack(float *val, int32_t *idx, unsigned which, vec v, ivec i)
{
    _mm512_storeu_ps(val, _mm512_maskz_compress_ps((__mmask16)which, v));
    _mm512_storeu_si512(idx, _mm512_maskz_compress_epi32((__mmask16)which, i));
}

#include "softmax_topk_simd.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_avx512.c - the vectors of cross_entropy_simd.h, 16 floats each. */
#include "cross_entropy_impl.h"
#include "vec_avx512.h"

enum { ROWS = 12, VECS = 2 }; /* sums fill 24 of 32 registers */

INLINE vec exponent(vec t)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23));
}

INLINE vec below(vec v, vec x, vec y)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, y, _CMP_NLT_UQ), v);
}

INLINE vec finite_of(vec v)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(sub(v, v), _mm512_setzero_ps(), _CMP_EQ_OQ), v);
}

#include "cross_entropy_simd.h"

ts_status ts_cross_entropy_avx512(const void *args, const ts_exec *x)
{
    return ts_cross_entropy_threads(args, x, &steps);
}

ts_status ts_cross_entropy_logits_avx512(const void *args, const ts_exec *x)
{
    return ts_cross_entropy_logits_threads(args, x, &steps);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_avx2.c - the vectors of cross_entropy_simd.h, 8 floats each. */
#include "cross_entropy_impl.h"
#include "vec_avx2.h"

enum { ROWS = 6, VECS = 2 }; /* sums fill 12 of 16 registers */

INLINE vec exponent(vec t)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23));
}

INLINE vec below(vec v, vec x, vec y)
{
    return _mm256_andnot_ps(_mm256_cmp_ps(x, y, _CMP_LT_OQ), v);
}

INLINE vec finite_of(vec v)
{
    return _mm256_and_ps(_mm256_cmp_ps(sub(v, v), _mm256_setzero_ps(), _CMP_EQ_OQ), v);
}

#include "cross_entropy_simd.h"

ts_status ts_cross_entropy_avx2(const void *args, const ts_exec *x)
{
    return ts_cross_entropy_threads(args, x, &steps);
}

ts_status ts_cross_entropy_logits_avx2(const void *args, const ts_exec *x)
{
    return ts_cross_entropy_logits_threads(args, x, &steps);
}

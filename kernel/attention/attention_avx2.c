/* SPDX-License-Identifier: Apache-2.0 */
/* attention_avx2.c - the vectors of attention_simd.h, 8 floats each. */
#include "attention_impl.h"
#include "vec_avx2.h"

enum { ROWS = 6, VECS = 2, WIDE = 2 }; /* sums fill 12 of 16 registers */

INLINE vec within(vec v, vec i, vec begin, vec end)
{
    const vec from = _mm256_cmp_ps(i, begin, _CMP_GE_OQ), to = _mm256_cmp_ps(i, end, _CMP_LT_OQ);
    return _mm256_blendv_ps(splat(-__builtin_inff()), v, _mm256_and_ps(from, to));
}

#include "attention_simd.h"

#include "attention_backward_simd.h"

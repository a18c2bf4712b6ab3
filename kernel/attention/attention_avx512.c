/* SPDX-License-Identifier: Apache-2.0 */
/* attention_avx512.c - the vectors of attention_simd.h, 16 floats each. */
#include "attention_impl.h"
#include "vec_avx512.h"

enum { ROWS = 6, VECS = 4, WIDE = 4 }; /* sums fill 24 of 32 registers */

INLINE vec within(vec v, vec i, vec begin, vec end)
{
    const __mmask16 from = _mm512_cmp_ps_mask(i, begin, _CMP_GE_OQ);
    return _mm512_mask_mov_ps(splat(-__builtin_inff()),
                              _mm512_mask_cmp_ps_mask(from, i, end, _CMP_LT_OQ), v);
}

#include "attention_simd.h"

#include "attention_backward_simd.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu_avx512.c - swiglu_simd.h over the vectors of vec_avx512.h, 16 floats each. */
#include "swiglu_impl.h"
#include "vec_avx512.h"

INLINE vec where_above(vec x, vec y, vec v, vec w)
{
    return _mm512_mask_mov_ps(w, _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ), v);
}

INLINE int all_below(vec v, float most)
{
    return _mm512_cmp_ps_mask(v, splat(most), _CMP_LT_OQ) == 0xffff;
}

#include "swiglu_simd.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu_avx2.c - swiglu_simd.h over the vectors of vec_avx2.h, 8 floats each. */
#include "swiglu_impl.h"
#include "vec_avx2.h"

INLINE vec where_above(vec x, vec y, vec v, vec w)
{
    return _mm256_blendv_ps(w, v, _mm256_cmp_ps(x, y, _CMP_GT_OQ));
}

INLINE int all_below(vec v, float most)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(v, splat(most), _CMP_LT_OQ)) == 0xff;
}

#include "swiglu_simd.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu_avx2.c - swiglu_simd.h over the vectors of vec_avx2.h, 8 floats each. */
#include "swiglu_impl.h"
#include "vec_avx2.h"

INLINE vec exponent(vec t)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(t), 23));
}

INLINE vec where_above(vec x, vec y, vec v, vec w)
{
    return _mm256_blendv_ps(w, v, _mm256_cmp_ps(x, y, _CMP_GT_OQ));
}

INLINE int all_below(vec v, float most)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(v, splat(most), _CMP_LT_OQ)) == 0xff;
}

#include "swiglu_simd.h"

ts_status ts_swiglu_forward_avx2(const void *args, const ts_exec *x)
{
    return ts_swiglu_forward_threads(args, x, forward_any);
}

ts_status ts_swiglu_backward_avx2(const void *args, const ts_exec *x)
{
    return ts_swiglu_backward_threads(args, x, backward_any);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu_neon.c - swiglu_simd.h over the vectors of vec_neon.h, 4 floats each. */
#include "swiglu_impl.h"
#include "vec_neon.h"

INLINE vec where_above(vec x, vec y, vec v, vec w)
{
    return vbslq_f32(vcgtq_f32(x, y), v, w);
}

INLINE int all_below(vec v, float most)
{
    return vmaxvq_f32(v) < most;
}

#include "swiglu_simd.h"

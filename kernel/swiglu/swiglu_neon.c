/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu_neon.c - swiglu_simd.h over the vectors of vec_neon.h, 4 floats each. */
#include "swiglu_impl.h"
#include "vec_neon.h"

INLINE vec exponent(vec t)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(t), 23));
}

INLINE vec where_above(vec x, vec y, vec v, vec w)
{
    return vbslq_f32(vcgtq_f32(x, y), v, w);
}

INLINE int all_below(vec v, float most)
{
    return vmaxvq_f32(v) < most;
}

#include "swiglu_simd.h"

ts_status ts_swiglu_forward_neon(const void *args, const ts_exec *x)
{
    return ts_swiglu_forward_threads(args, x, forward_any);
}

ts_status ts_swiglu_backward_neon(const void *args, const ts_exec *x)
{
    return ts_swiglu_backward_threads(args, x, backward_any);
}

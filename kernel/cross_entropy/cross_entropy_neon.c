/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_neon.c - the vectors of cross_entropy_simd.h, 4 floats each. */
#include "cross_entropy_impl.h"
#include "vec_neon.h"

enum { ROWS = 8, VECS = 2 }; /* sums fill 16 of 32 registers */

INLINE vec exponent(vec t)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(t), 23));
}

INLINE vec below(vec v, vec x, vec y)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), vcltq_f32(x, y)));
}

INLINE vec finite_of(vec v)
{
    const uint32x4_t in = vceqq_f32(vsubq_f32(v, v), vdupq_n_f32(0));
    return vreinterpretq_f32_u32(vandq_u32(in, vreinterpretq_u32_f32(v)));
}

#include "cross_entropy_simd.h"

ts_status ts_cross_entropy_neon(const void *args, const ts_exec *x)
{
    return ts_cross_entropy_threads(args, x, &steps);
}

ts_status ts_cross_entropy_logits_neon(const void *args, const ts_exec *x)
{
    return ts_cross_entropy_logits_threads(args, x, &steps);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* attention_neon.c - the vectors of attention_simd.h, 4 floats each. */
#include "attention_impl.h"
#include "vec_neon.h"

enum { ROWS = 8, VECS = 2, WIDE = 4 }; /* sums fill 16 of 32 registers, factors 10 */

INLINE vec within(vec v, vec i, vec begin, vec end)
{
    const uint32x4_t seen = vandq_u32(vcgeq_f32(i, begin), vcltq_f32(i, end));
    return vbslq_f32(seen, v, splat(-__builtin_inff()));
}

#include "attention_simd.h"

#include "attention_backward_simd.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* rope_neon.c - rope_simd.h over the vectors of vec_neon.h, 4 floats each. */
#include "rope_impl.h"
#include "vec_neon.h"

INLINE vec swapped(vec v)
{
    return vrev64q_f32(v);
}

#include "rope_simd.h"

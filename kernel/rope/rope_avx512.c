/* SPDX-License-Identifier: Apache-2.0 */
/* rope_avx512.c - rope_simd.h over the vectors of vec_avx512.h, 16 floats each. */
#include "rope_impl.h"
#include "vec_avx512.h"

INLINE vec swapped(vec v)
{
    return _mm512_permute_ps(v, 0xb1);
}

#include "rope_simd.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* rope_avx2.c - rope_simd.h over the vectors of vec_avx2.h, 8 floats each. */
#include "rope_impl.h"
#include "vec_avx2.h"

INLINE vec swapped(vec v)
{
    return _mm256_permute_ps(v, 0xb1);
}

#include "rope_simd.h"

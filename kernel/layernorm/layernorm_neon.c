/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_neon.c - layernorm_simd.h over the vectors of row_neon.h.
 *
 * Memory feeds a core faster than it does five operations on each vector, so that what counts is
 * their number: rows near zero take the shorter way (NEAR), and a conversion to double, which costs
 * as much as four additions, is made once for many elements. */
#include "layernorm_impl.h"
#include "row_neon.h"

enum { GROUP = 1, SHORT = 16 * UNIT, NEAR = 1 };
enum { FAR = 4096, BACK = 256, LAG = SHORT };

INLINE int group_of(ts_dtype t)
{
    (void)t; /* rows a multiple of 16 KiB apart crowd the same sets of the first-level cache */
    return GROUP;
}

#include "layernorm_simd.h"

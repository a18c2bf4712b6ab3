/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_avx2.c - layernorm_simd.h over the vectors of row_avx2.h. */
#include "layernorm_impl.h"
#include "row_avx2.h"

enum { GROUP = 2, SHORT = 8 * UNIT, NEAR = 0 };
enum { FAR = 0, BACK = 0, LAG = 0 };

INLINE int group_of(ts_dtype t)
{
    (void)t; /* sixteen registers are few for more */
    return GROUP;
}

#include "layernorm_simd.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_avx512.c - layernorm_simd.h over the vectors of row_avx512.h. */
#include "layernorm_impl.h"
#include "row_avx512.h"

enum { GROUP = 4, SHORT = 8 * UNIT, NEAR = 0 };
enum { FAR = 0, BACK = 0, LAG = 0 };

/* Floats wait for memory, and more rows share each visit to gamma, beta, dgamma and dbeta. 16-bit
 * elements wait for arithmetic, and what two rows need fits in registers. */
INLINE int group_of(ts_dtype t)
{
    return t == TS_F32 ? GROUP : 2;
}

#include "layernorm_simd.h"

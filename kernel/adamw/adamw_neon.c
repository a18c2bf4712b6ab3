/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_neon.c - adamw_simd.h over the vectors of row_neon.h. */
#include "adamw_impl.h"
#include "row_neon.h"

/* The compiler leaves sqrt() a call, for errno. */
INLINE void take_roots(double *p, int n)
{
    int i = 0;
    for (; i + 2 <= n; i += 2) vst1q_f64(p + i, vsqrtq_f64(vld1q_f64(p + i)));
    if (i < n) p[i] = sqrt(p[i]);
}

#include "adamw_simd.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_avx512.c - adamw_simd.h over the vectors of row_avx512.h. */
#include "adamw_impl.h"
#include "row_avx512.h"

/* The compiler leaves sqrt() a call, for errno. */
INLINE void take_roots(double *p, int n)
{
    int i = 0;
    for (; i + 8 <= n; i += 8) _mm512_storeu_pd(p + i, _mm512_sqrt_pd(_mm512_loadu_pd(p + i)));
    for (; i < n; i++) p[i] = sqrt(p[i]);
}

#include "adamw_simd.h"

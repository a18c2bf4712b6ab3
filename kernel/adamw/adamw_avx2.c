/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_avx2.c - adamw_simd.h over the vectors of row_avx2.h. */
#include "adamw_impl.h"
#include "row_avx2.h"

/* The compiler leaves sqrt() a call, for errno. */
INLINE void take_roots(double *p, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) _mm256_storeu_pd(p + i, _mm256_sqrt_pd(_mm256_loadu_pd(p + i)));
    for (; i < n; i++) p[i] = sqrt(p[i]);
}

#include "adamw_simd.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* vec_simd.h - elements for any width of vector. Include it after one of the
 * vec_*.h. After inlining, t is a constant, and so is n but for the last elements of a row. */
#ifndef TS_BASE_VEC_SIMD_H
#define TS_BASE_VEC_SIMD_H

#include <string.h>

INLINE int64_t size_of(ts_dtype t)
{
    return t == TS_F32 ? 4 : 2;
}

/* n elements, 0 in the other lanes. */
INLINE vec fetch(const char *p, ts_dtype t, int n)
{
    char copy[4 * LANES] = { 0 };
    return n == LANES ? widen(p, t) : widen(memcpy(copy, p, (size_t)(n * size_of(t))), t);
}

INLINE void leave(char *p, ts_dtype t, int n, vec v)
{
    char copy[4 * LANES];
    narrow(n == LANES ? p : copy, t, v);
    if (n != LANES) memcpy(p, copy, (size_t)(n * size_of(t)));
}

#endif

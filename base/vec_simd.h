/* SPDX-License-Identifier: Apache-2.0 */
/* vec_simd.h - elements and exponentials for any width of vector. Include it after one of the
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

/* exp(x) for x < 88, to 2e-7 of itself; 0 below `least`, which is no less than -87.336: exp of that
 * is the smallest normal float. Adding `big` rounds to an integer whose lowest bits are a float's
 * exponent. */
INLINE vec exp_from(float least, vec x)
{
    const vec big = splat(0x1.8p23f + 127), low = splat(least);
    const vec y = larger(low, x), t = madd(y, splat(0x1.715476p0f), big), n = sub(t, big);
    const vec r = nmadd(n, splat(-0x1.05c610p-29f), nmadd(n, splat(0x1.62e430p-1f), y));
    vec       e = splat(0x1.6c16c2p-10f); /* 1/720, and so on */
    e = madd(e, r, splat(0x1.111112p-7f));
    e = madd(e, r, splat(0x1.555556p-5f));
    e = madd(e, r, splat(0x1.555556p-3f));
    e = madd(e, r, splat(0.5f));
    e = madd(e, r, splat(1));
    e = madd(e, r, splat(1));
    return below(mul(e, exponent(t)), x, low);
}

#endif

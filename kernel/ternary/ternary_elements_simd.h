/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_elements_simd.h - elements of any dtype as floats. Include after a vec_*.h. */
#ifndef TS_TERNARY_ELEMENTS_SIMD_H
#define TS_TERNARY_ELEMENTS_SIMD_H

INLINE int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

INLINE int64_t bytes_of(ts_dtype t, int64_t n)
{
    return t == TS_F32 ? 4 * n : 2 * n;
}

/* n elements from `at` on, times `scale`, as floats, and zeros up to a multiple of LANES. */
INLINE void floats_of(const void *from, ts_dtype t, int64_t at, int64_t n, float scale, float *out)
{
    const char *p = (const char *)from + bytes_of(t, at);
    int64_t     c = 0;
    for (; c + LANES <= n; c += LANES)
        put(out + c, mul(widen(p + bytes_of(t, c), t), splat(scale)));
    if (c < n) {
        char last[LANES * sizeof(float)] = { 0 };
        memcpy(last, p + bytes_of(t, c), (size_t)bytes_of(t, n - c));
        put(out + c, mul(widen(last, t), splat(scale)));
    }
}

#endif

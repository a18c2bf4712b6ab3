/* SPDX-License-Identifier: Apache-2.0 */
/* row_x86.h - operations on vectors of a row that are the same for both widths: two registers each.
 * Included by row_avx2.h and row_avx512.h, after their width_*.h. */
#ifndef TS_BASE_ROW_X86_H
#define TS_BASE_ROW_X86_H

#include "touchstone/touchstone.h"

enum { UNIT = 2 * LANES, HALF = LANES };

typedef struct vec {
    reg a, b;
} vec;
typedef struct wide {
    dreg d, dd;
} wide;

/* UNIT elements of 16 bits as floats: bf16 with the even ones in a. */
INLINE vec split(ints w, ts_dtype t)
{
    if (t == TS_BF16)
        return (vec) { as_floats(MM(slli_epi32)(w, 16)),
                       as_floats(both_ints(w, MM(set1_epi32)(-0x10000))) };
    return (vec) { MM(cvtph_ps)(low_ints(w)), MM(cvtph_ps)(high_ints(w)) };
}

INLINE void end_streams(void)
{
    _mm_sfence();
}

INLINE reg reg_zero(void)
{
    return MM(setzero_ps)();
}

INLINE vec splat(float f)
{
    return (vec) { MM(set1_ps)(f), MM(set1_ps)(f) };
}

INLINE reg reg_as_stored(reg v, ts_dtype t)
{
    if (t == TS_F16) return MM(cvtph_ps)(MM(cvtps_ph)(v, 0));
    return as_floats(both_ints(round_bf16(v), MM(set1_epi32)(-0x10000)));
}

INLINE vec as_stored(vec v, ts_dtype t)
{
    if (t == TS_F32) return v;
    return (vec) { reg_as_stored(v.a, t), reg_as_stored(v.b, t) };
}

INLINE vec add(vec x, vec y)
{
    return (vec) { MM(add_ps)(x.a, y.a), MM(add_ps)(x.b, y.b) };
}

INLINE vec mul(vec x, vec y)
{
    return (vec) { MM(mul_ps)(x.a, y.a), MM(mul_ps)(x.b, y.b) };
}

INLINE vec madd(vec x, vec y, vec z)
{
    return (vec) { MM(fmadd_ps)(x.a, y.a, z.a), MM(fmadd_ps)(x.b, y.b, z.b) };
}

INLINE vec nmadd(vec x, vec y, vec z)
{
    return (vec) { MM(fnmadd_ps)(x.a, y.a, z.a), MM(fnmadd_ps)(x.b, y.b, z.b) };
}

INLINE reg fold(reg acc, vec v)
{
    return MM(add_ps)(MM(add_ps)(acc, v.a), v.b);
}

INLINE reg fold_madd(reg acc, vec x, vec y)
{
    return MM(fmadd_ps)(x.b, y.b, MM(fmadd_ps)(x.a, y.a, acc));
}

INLINE vec columns_begin(const float *p, ts_dtype t, int n)
{
    (void)p, (void)t, (void)n;
    return splat(0);
}

INLINE wide wide_zero(void)
{
    return (wide) { MM(setzero_pd)(), MM(setzero_pd)() };
}

INLINE wide wide_add(wide s, reg d, reg dd)
{
    return (wide) { MM(add_pd)(s.d, MM(add_pd)(low_doubles(d), high_doubles(d))),
                    MM(add_pd)(s.dd, MM(add_pd)(low_doubles(dd), high_doubles(dd))) };
}

INLINE double wide_total(dreg v)
{
    return sum_doubles(v);
}

#endif

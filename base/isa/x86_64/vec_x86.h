/* SPDX-License-Identifier: Apache-2.0 */
/* vec_x86.h - operations on vectors that are the same for both widths. Included by vec_avx2.h and
 * vec_avx512.h, after their width_*.h and to_bf16. */
#ifndef TS_BASE_VEC_X86_H
#define TS_BASE_VEC_X86_H

#include "touchstone/touchstone.h"

typedef reg vec;

INLINE vec get(const float *p)
{
    return MM(loadu_ps)(p);
}

INLINE void put(float *p, vec v)
{
    MM(storeu_ps)(p, v);
}

INLINE vec splat(float f)
{
    return MM(set1_ps)(f);
}

/* A constant that madd is to overwrite. */
INLINE vec fresh(const float f[4])
{
    return splat(*f);
}

INLINE vec add(vec x, vec y)
{
    return MM(add_ps)(x, y);
}

INLINE vec sub(vec x, vec y)
{
    return MM(sub_ps)(x, y);
}

INLINE vec mul(vec x, vec y)
{
    return MM(mul_ps)(x, y);
}

INLINE vec divide(vec x, vec y)
{
    return MM(div_ps)(x, y);
}

INLINE vec madd(vec x, vec y, vec z)
{
    return MM(fmadd_ps)(x, y, z);
}

INLINE vec nmadd(vec x, vec y, vec z)
{
    return MM(fnmadd_ps)(x, y, z);
}

/* PICKS single elements in a vec, and madd of one of them. */
enum { PICKS = 1 };

INLINE vec get_picks(const float *p)
{
    return splat(*p);
}

INLINE vec madd_pick(vec x, int pick, vec y, vec z)
{
    (void)pick;
    return madd(x, y, z);
}

INLINE vec larger(vec x, vec y)
{
    return MM(max_ps)(x, y);
}

/* TS_F32, TS_F16 or TS_BF16. */
INLINE vec widen(const void *p, ts_dtype t)
{
    if (t == TS_F32) return MM(loadu_ps)(p);
    if (t == TS_F16) return MM(cvtph_ps)(get_half(p));
    return as_floats(MM(slli_epi32)(MM(cvtepu16_epi32)(get_half(p)), 16));
}

INLINE void narrow(void *p, ts_dtype t, vec v)
{
    if (t == TS_F32) MM(storeu_ps)(p, v);
    else if (t == TS_F16) put_half(p, MM(cvtps_ph)(v, 0));
    else put_half(p, to_bf16(v));
}

/* ---- doubles, half as many ---- */

typedef dreg dvec;

enum { DLANES = LANES / 2 };

INLINE void dput(double *p, dvec v)
{
    MM(storeu_pd)(p, v);
}

INLINE dvec dsplat(double f)
{
    return MM(set1_pd)(f);
}

INLINE dvec dadd(dvec x, dvec y)
{
    return MM(add_pd)(x, y);
}

INLINE dvec dsub(dvec x, dvec y)
{
    return MM(sub_pd)(x, y);
}

INLINE dvec dmadd(dvec x, dvec y, dvec z)
{
    return MM(fmadd_pd)(x, y, z);
}

INLINE dvec dlarger(dvec x, dvec y)
{
    return MM(max_pd)(x, y);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* exp_simd.h - exponentials in float and in double, written once for any width of vector. Include
 * it after one of the vec_*.h.
 *
 * Both split an argument into n, a multiple of ln 2 or of ln 2 / 2048, and a rest: adding `big`
 * rounds to an integer, which is then in the lowest bits. A NaN stays one. */
#ifndef TS_BASE_EXP_SIMD_H
#define TS_BASE_EXP_SIMD_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "exp_table.h"
#include "unroll.h"

/* ---- float ---- */

/* A constant for fresh. */
#define COPIES(f) f, f, f, f

enum { EXP2_DEGREE = 5 };

/* 2^r for |r| <= 1/2, of n vectors step by step: within 1.9 * 2^-24, and exact at 0. */
INLINE void exp2_of(vec *p, const vec *r, int n)
{
    static const float c[][4] = {
        { COPIES(1) },
        { COPIES(0x1.62e42ap-1f) },
        { COPIES(0x1.ebf9bcp-3f) },
        { COPIES(0x1.c6b754p-5f) },
        { COPIES(0x1.3cea8p-7f) },
        { COPIES(0x1.5bb986p-10f) },
    };
    UNROLL
    for (int j = 0; j < n; j++) p[j] = fresh(c[EXP2_DEGREE]);
    UNROLL
    for (int i = EXP2_DEGREE; i-- > 0;) {
        UNROLL
        for (int j = 0; j < n; j++) p[j] = madd(p[j], r[j], fresh(c[i]));
    }
}

/* x y + big: rounded, with an exponent in the lowest bits; and big - t, exactly. */
INLINE vec add_big(vec x, vec y)
{
    static const float big[] = { COPIES(0x1.8p23f + 127) };
    return madd(x, y, fresh(big));
}

INLINE vec less_big(vec t)
{
    return sub(splat(0x1.8p23f + 127), t);
}

/* exp(x) for -87.336 <= x < 88, to 2e-7 of itself. exp(-87.336) is the smallest normal float. */
INLINE vec exp_near(vec x)
{
    const vec log2_e = splat(0x1.715476p0f), t = add_big(x, log2_e);
    const vec r = madd(x, splat(0x1.4ae0c0p-26f), madd(x, log2_e, less_big(t)));
    vec       p;
    exp2_of(&p, &r, 1);
    return mul(p, exponent(t));
}

/* The same for x < 88, and 0 below. */
INLINE vec exp_of(vec x)
{
    const vec low = splat(-87.336f);
    return below(exp_near(larger(low, x)), x, low);
}

/* ---- double ----
 *
 * For sums over many steps, and for sampling: they need more digits than a float sum has. All
 * widths give the same bits. A term has a relative error of 4e-16 + 3e-16 |t d| if exp is above
 * 1e-304; below that it is approximate, and 0 only if exp is 0 in double too. */

typedef struct dexp_scale {
    double c;         /* exp(t d) = 2^(c d / 2048) */
    double low, none; /* d from which on results are approximate, and 0 */
} dexp_scale;

/* t > 0. Neither 0 nor -inf must become NaN when multiplied. */
INLINE dexp_scale dexp_scale_of(double t)
{
    const double c = t * (2048 * 0x1.71547652b82fep0), low = -708 / t,
                 none = -745.13321910194111 / t;
    return (dexp_scale) { c < DBL_MAX ? c : DBL_MAX, low > -DBL_MAX ? low : -DBL_MAX,
                          none > -DBL_MAX ? none : -DBL_MAX };
}

/* sum + exp(t d), d <= 0. The product c d is never rounded. */
INLINE dvec dadd_exp(dvec sum, dvec d, const dexp_scale *s)
{
    const double ln = 0x1.62e42fefa39efp-1 / 2048;
    const dvec   big = dsplat(0x1.8p52), near = dlarger(dsplat(s->low), d);
    const dvec   n = dmadd(near, dsplat(s->c), big), r = dmadd(near, dsplat(s->c), dsub(big, n));
    dvec         p = dmadd(dsplat(ln * ln * ln / 6), r, dsplat(ln * ln / 2));
    p = dmadd(p, r, dsplat(ln));
    p = dmadd(p, r, dsplat(1));
    const dvec power = dadd_bits(dlookup(ts_exp_table, TS_EXP_TABLE, n), n, 41);
    return dmadd(p, dbelow(power, d, dsplat(s->none)), sum);
}

/* x = share exp(t (x - m)) of n floats. */
INLINE void put_exps(float *x, int64_t n, double m, double t, double share)
{
    const dexp_scale s = dexp_scale_of(t);
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t some = n - i < LANES ? n - i : LANES;
        float         f[LANES] = { 0 };
        double        e[LANES];
        memcpy(f, x + i, (size_t)some * sizeof *f);
        for (int j = 0; j < LANES; j += DLANES)
            dput(e + j, dadd_exp(dsplat(0), dsub(dget_floats(f + j), dsplat(m)), &s));
        for (int64_t j = 0; j < some; j++) x[i + j] = (float)(e[j] * share);
    }
}

/* The sum of exp(t (x - m)) over n floats x <= m. The order of additions depends on n only. */
INLINE double exp_sum(const float *x, int64_t n, double m, double t)
{
    enum { WIDE = 32, SUMS = WIDE / DLANES };
    const dexp_scale s = dexp_scale_of(t);
    dvec             sum[SUMS];
    double           each[WIDE];
    float            rest[WIDE];
    for (int j = 0; j < SUMS; j++) sum[j] = dsplat(0);
    for (int64_t i = 0; i < n; i += WIDE) {
        const float *from = x + i;
        if (n - i < WIDE) { /* the remaining elements, padded with terms of weight 0 */
            for (int j = 0; j < WIDE; j++) rest[j] = j < n - i ? from[j] : (float)-INFINITY;
            from = rest;
        }
        for (int j = 0; j < SUMS; j++)
            sum[j] = dadd_exp(sum[j], dsub(dget_floats(from + j * DLANES), dsplat(m)), &s);
    }
    for (int j = 0; j < SUMS; j++) dput(each + j * DLANES, sum[j]);
    for (int half = WIDE / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++) each[j] += each[j + half];
    return each[0];
}

#endif

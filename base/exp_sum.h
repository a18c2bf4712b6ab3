/* SPDX-License-Identifier: Apache-2.0 */
/* exp_sum.h - sums of exp(t (x - m)) in double, for floats x <= m and t > 0.
 *
 * Sums over many steps, and sampling, need more digits than a float sum has. Include after one of
 * the vec_*.h; all give the same bits.
 *
 * A term has a relative error of 1e-14 if exp is above 1e-304; below that it is approximate, and 0
 * only if exp is 0 in double too. */
#ifndef TS_BASE_EXP_SUM_H
#define TS_BASE_EXP_SUM_H

#include <math.h>
#include <string.h>

INLINE dvec exp_terms(dvec d)
{
    static const double c[] = {
        1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
        1.0 / 120,      1.0 / 24,      1.0 / 6,      0.5,         1,          1
    };
    const dvec shift = dsplat(0x1.8p52); /* adding rounds to an integer */
    const dvec near = dlarger(d, dsplat(-700));
    const dvec shifted = dmadd(near, dsplat(0x1.71547652b82fep0), shift);
    const dvec k = dsub(shifted, shift);
    dvec       r = dmadd(k, dsplat(-0x1.62e42fefa39efp-1), near); /* ln 2, in two parts */
    r = dmadd(k, dsplat(-0x1.abc9e3b39803fp-56), r);
    dvec p = dsplat(c[0]);
    for (int i = 1; i < 12; i++) p = dmadd(p, r, dsplat(c[i]));
    return dwhere_above(d, dsplat(-745.13321910194111), dscale(p, shifted));
}

/* The order of additions depends on n only. */
INLINE double exp_sum(const float *x, int64_t n, double m, double t)
{
    enum { WIDE = 32, SUMS = WIDE / DLANES };
    dvec   sum[SUMS];
    double each[WIDE];
    float  rest[WIDE];
    for (int j = 0; j < SUMS; j++) sum[j] = dsplat(0);
    for (int64_t i = 0; i < n; i += WIDE) {
        const float *from = x + i;
        if (n - i < WIDE) { /* the remaining elements, padded with terms of weight 0 */
            for (int j = 0; j < WIDE; j++) rest[j] = j < n - i ? from[j] : (float)-INFINITY;
            from = rest;
        }
        for (int j = 0; j < SUMS; j++) {
            const dvec d = dsub(dget_floats(from + j * DLANES), dsplat(m));
            sum[j] = dadd(sum[j], exp_terms(dmul(d, dsplat(t))));
        }
    }
    for (int j = 0; j < SUMS; j++) dput(each + j * DLANES, sum[j]);
    for (int half = WIDE / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++) each[j] += each[j + half];
    return each[0];
}

#endif

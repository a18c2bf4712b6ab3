/* SPDX-License-Identifier: Apache-2.0 */
/* norm_simd.h - units of columns of layer norm (CENTRED) and of RMS norm, for any width of vector.
 *
 * Private to layernorm_simd.h and rms_norm_simd.h, which define CENTRED and GROUP, the rows that
 * are processed at once, before they include it behind their vectors: see row_simd.h. RMS norm is
 * the norm without mean and beta, whose w has an offset and whose dx has a dr. */
#ifndef TS_BASE_NORM_SIMD_H
#define TS_BASE_NORM_SIMD_H

#include <float.h>
#include <math.h>

#include "row_simd.h"

/* xhat = (x * h + minus_mean) * r + shift. h is a power of two: 1 for ordinary rows, and for far
 * rows one that keeps x - mean from overflowing and rstd from losing digits among the subnormals.
 * shift brings in what the rounding of mean to float left out. */
typedef struct scale {
    float h, minus_mean, r, shift;
} scale;

INLINE vec xhat_of(vec x, scale s, int plain)
{
    if (!CENTRED) return mul(plain ? x : mul(x, splat(s.h)), splat(s.r));
    if (plain) return mul(add(x, splat(s.minus_mean)), splat(s.r));
    return madd(madd(x, splat(s.h), splat(s.minus_mean)), splat(s.r), splat(s.shift));
}

/* gamma, or w + w_offset */
INLINE vec gain_of(const char *gamma, ts_dtype t, int64_t i, int n, float offset)
{
    const vec gain = load(gamma, t, i, n);
    return CENTRED ? gain : add(gain, splat(offset));
}

/* Two sums over some elements of a row: forward's of x - pivot and its square, backward's of g and
 * g * xhat. */
typedef struct part {
    reg a, b;
} part;

INLINE part part_zero(void)
{
    return (part) { reg_zero(), reg_zero() };
}

/* ---- forward ---- */

/* Rows begin at r * pitch bytes. */
typedef struct forward_call {
    const char *x, *gamma, *beta;
    char       *y;
    float      *mean, *rstd;
    double      eps;
    float       offset;
    int64_t     n, pitch, head;
    int         streaming;
} forward_call;

/* n columns of y, `group` rows from r on. */
INLINE void y_unit(const forward_call *c, int64_t r, int group, const scale *s, int plain,
                   ts_dtype t, int64_t i, int n, int streaming)
{
    const vec   gain = gain_of(c->gamma, t, i, n, c->offset);
    const vec   beta = CENTRED ? load(c->beta, t, i, n) : splat(0);
    const char *x = c->x + r * c->pitch;
    char       *y = c->y + r * c->pitch;
    vec         out[GROUP];
#pragma GCC unroll 4
    for (int k = 0; k < group; k++) {
        const vec xhat = xhat_of(load(x + k * c->pitch, t, i, n), s[k], plain);
        out[k] = CENTRED ? madd(gain, xhat, beta) : mul(xhat, gain);
    }
    /* All loads come before all stores: rows are often a multiple of 4096 bytes apart, and then
     * the CPU delays a load that might overlap a store to the row before. */
#pragma GCC unroll 4
    for (int k = 0; k < group; k++) put(y + k * c->pitch, t, i, n, out[k], streaming);
}

/* The columns before the first whole line, and those from i on. */
INLINE void y_ends(const forward_call *c, int64_t r, int group, const scale *s, int plain,
                   ts_dtype t, int64_t i)
{
    for (int64_t j = 0; j < c->head; j += UNIT)
        y_unit(c, r, group, s, 0, t, j, (int)ts_lesser(UNIT, c->head - j), 0);
    for (; i + UNIT <= c->n; i += UNIT) y_unit(c, r, group, s, plain, t, i, UNIT, c->streaming);
    if (i < c->n) y_unit(c, r, group, s, 0, t, i, (int)(c->n - i), 0);
}

/* ---- backward ---- */

typedef struct backward_call {
    const char  *x, *dy, *dr, *gamma;
    char        *dx;
    const float *mean, *rstd;
    float       *dgamma, *dbeta, offset;
    int64_t      n, pitch, head;
    int          streaming;
} backward_call;

/* Near zero (NEAR), dx = (gamma * dy + (x * p + q)) * rstd. */
typedef struct backward_row {
    scale s;
    float rstd, avg_g, avg_gx, p, q;
    int   near;
} backward_row;

INLINE vec given_xhat(vec x, scale s, int plain)
{
    if (plain || !CENTRED) return xhat_of(x, s, plain);
    return mul(madd(x, splat(s.h), splat(s.minus_mean)), splat(s.r));
}

/* n columns of `group` rows: their sums, and what they add to dgamma and dbeta, which are loaded
 * and stored once for all of the rows. */
INLINE void sum_unit(const backward_call *c, int64_t r, int group, const backward_row *w, int plain,
                     ts_dtype t, int64_t i, int n, part *sums)
{
    const vec   gain = gain_of(c->gamma, t, i, n, c->offset);
    const char *x = c->x + r * c->pitch, *dy = c->dy + r * c->pitch;
    vec         dg = columns_begin(c->dgamma + i, t, n);
    vec         db = CENTRED ? columns_begin(c->dbeta + i, t, n) : splat(0);
#pragma GCC unroll 4
    for (int k = 0; k < group; k++) {
        const vec d = load(dy + k * c->pitch, t, i, n), g = mul(gain, d);
        /* 0 in the lanes past n: there xhat may be infinite, and times 0 it must not be NaN. */
        const vec xhat = keep(given_xhat(load(x + k * c->pitch, t, i, n), w[k].s, plain), t, n);
        sums[k] =
            (part) { CENTRED ? fold(sums[k].a, g) : sums[k].a, fold_madd(sums[k].b, g, xhat) };
        dg = madd(d, xhat, dg);
        if (CENTRED) db = add(db, d);
    }
    columns_end(c->dgamma + i, t, n, dg);
    if (CENTRED) columns_end(c->dbeta + i, t, n, db);
}

INLINE void dx_unit(const backward_call *c, int64_t r, int group, const backward_row *w, int near,
                    ts_dtype t, int64_t i, int n, int streaming)
{
    const vec gain = gain_of(c->gamma, t, i, n, c->offset);
    vec       out[GROUP];
#pragma GCC unroll 4
    for (int k = 0; k < group; k++) {
        const int64_t row = (r + k) * c->pitch;
        const vec     x = load(c->x + row, t, i, n), dy = load(c->dy + row, t, i, n);
        const vec     rstd = splat(w[k].rstd);
        if (CENTRED && near) {
            const vec rest = madd(x, splat(w[k].p), splat(w[k].q));
            out[k] = mul(madd(gain, dy, rest), rstd);
            continue;
        }
        const vec xhat = given_xhat(x, w[k].s, CENTRED ? 0 : near);
        const vec g = CENTRED ? madd(gain, dy, splat(-w[k].avg_g)) : mul(gain, dy);
        const vec rest = nmadd(xhat, splat(w[k].avg_gx), g);
        out[k] = !CENTRED && c->dr ? madd(rest, rstd, load(c->dr + row, t, i, n)) : mul(rest, rstd);
    }
#pragma GCC unroll 4
    for (int k = 0; k < group; k++) /* apart from the loads, as in y_unit */
        put(c->dx + (r + k) * c->pitch, t, i, n, out[k], streaming);
}

INLINE void dx_ends(const backward_call *c, int64_t r, int group, const backward_row *w, int near,
                    ts_dtype t, int64_t i)
{
    for (int64_t j = 0; j < c->head; j += UNIT)
        dx_unit(c, r, group, w, near, t, j, (int)ts_lesser(UNIT, c->head - j), 0);
    for (; i + UNIT <= c->n; i += UNIT) dx_unit(c, r, group, w, near, t, i, UNIT, c->streaming);
    if (i < c->n) dx_unit(c, r, group, w, near, t, i, (int)(c->n - i), 0);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_simd.h - rows of rms_norm, written once for any width of vector. Private to the files
 * that include it, each behind its vectors: see row_simd.h.
 *
 * A row is visited twice, the second time from a cache. Forward: r and the sum of its squares, then
 * y. Backward: the sum of g * rhat and the row's share of dw, then dx. */
#ifndef TS_RMS_NORM_SIMD_H
#define TS_RMS_NORM_SIMD_H

#include <float.h>
#include <math.h>

#include "row_simd.h"

/* Elements summed in float before they go on to a double. */
enum { SHORT = 256 };

/* rhat = (r * h) * scaled. h is a power of two: 1 for ordinary rows, and for rows of extreme
 * magnitude one that keeps rstd from losing digits among the subnormals, or from overflowing. */
typedef struct scale {
    float h, scaled;
} scale;

INLINE scale scale_of(double rstd)
{
    const double h = rstd < 0x1p-60 ? 0x1p-64 : rstd > 0x1p60 ? 0x1p64 : 1;
    /* Of a row of zeros it may be more than a float, and is times 0. A NaN is replaced by the plain
     * one: row_simd.h's rounding to bf16 relies on the low half of a NaN being 0. */
    if (isnan(rstd)) return (scale) { 1, NAN };
    return (scale) { (float)h, (float)fmin(rstd / h, FLT_MAX) };
}

INLINE vec rhat_of(vec r, scale s, int plain)
{
    return mul(plain ? r : mul(r, splat(s.h)), splat(s.scaled));
}

/* w + w_offset */
INLINE vec gain_of(const char *w, ts_dtype t, int64_t i, int n, float offset)
{
    return add(load(w, t, i, n), splat(offset));
}

/* ---- forward ---- */

/* Rows begin at r * pitch bytes. Without a residual, r is x. */
typedef struct forward_call {
    const char *x, *residual, *w;
    char       *r, *y;
    float      *rstd;
    double      eps;
    float       offset;
    int64_t     n, pitch, head;
    int         streaming;
} forward_call;

/* n elements of r, which are written if there is a residual. */
INLINE vec take_r(const forward_call *c, int64_t row, ts_dtype t, int64_t i, int n, int fused)
{
    const vec x = load(c->x + row, t, i, n);
    if (!fused) return x;
    /* Both round the sum, which the compiler does once. */
    const vec sum = add(x, load(c->residual + row, t, i, n));
    store(c->r + row, t, i, n, sum);
    return as_stored(sum, t);
}

/* The sum of squares, which is infinite or next to nothing where float cannot hold them. */
INLINE double sum_squares(const forward_call *c, int64_t row, ts_dtype t, int fused)
{
    wide    all = wide_zero();
    int64_t i = 0;
    while (i < c->n) {
        const int64_t stop = ts_lesser(i + SHORT, c->n);
        reg           some = reg_zero();
        for (; i + UNIT <= stop; i += UNIT) {
            const vec r = take_r(c, row, t, i, UNIT, fused);
            some = fold_madd(some, r, r);
        }
        if (i < stop) { /* the lanes past the end are 0 */
            const vec r = take_r(c, row, t, i, (int)(stop - i), fused);
            some = fold_madd(some, r, r);
            i = stop;
        }
        all = wide_add(all, reg_zero(), some);
    }
    return wide_total(all.dd);
}

/* The same for the rounded r, in double, in which the squares of all floats are representable. */
INLINE double sum_squares_wide(const forward_call *c, int64_t row, ts_dtype t)
{
    wide all = wide_zero();
    for (int64_t i = 0; i < c->n; i += UNIT)
        all = wide_sum(all, c->r + row, t, i, (int)ts_lesser(UNIT, c->n - i), 0);
    return wide_total(all.dd);
}

INLINE void y_unit(const forward_call *c, int64_t row, ts_dtype t, int64_t i, int n, scale s,
                   int plain, int streaming)
{
    const vec rhat = rhat_of(load(c->r + row, t, i, n), s, plain);
    put(c->y + row, t, i, n, mul(rhat, gain_of(c->w, t, i, n, c->offset)), streaming);
}

INLINE void y_row(const forward_call *c, int64_t row, ts_dtype t, scale s, int plain)
{
    int64_t i = 0;
    for (; i < c->head; i += UNIT)
        y_unit(c, row, t, i, (int)ts_lesser(UNIT, c->head - i), s, plain, 0);
    for (i = c->head; i + UNIT <= c->n; i += UNIT)
        y_unit(c, row, t, i, UNIT, s, plain, c->streaming);
    if (i < c->n) y_unit(c, row, t, i, (int)(c->n - i), s, plain, 0);
}

INLINE void forward_rows(const ts_rms_norm_forward_args *a, int64_t begin, int64_t end, ts_dtype t)
{
    forward_call c = {
        a->x,   a->residual,        a->w,      a->residual ? a->r : (char *)a->x, a->y, a->rstd,
        a->eps, (float)a->w_offset, a->n_cols, a->row_stride * size_of(t),        0,    0
    };
    c.streaming = streams(a->n_rows, c.n, c.pitch, t);
    c.head = head_of(a->y, t, c.n, c.streaming);
    for (int64_t r = begin; r < end; r++) {
        const int64_t row = r * c.pitch;
        double        sum = a->residual ? sum_squares(&c, row, t, 1) : sum_squares(&c, row, t, 0);
        if (!(sum > 0x1p-110 * (double)c.n && sum < INFINITY)) sum = sum_squares_wide(&c, row, t);
        const double rstd = isfinite(sum) ? 1 / sqrt(sum / (double)c.n + c.eps) : (double)NAN;
        const scale  s = scale_of(rstd);
        c.rstd[r] = (float)rstd;
        if (s.h == 1) y_row(&c, row, t, s, 1);
        else y_row(&c, row, t, s, 0);
    }
    if (c.streaming) end_streams();
}

/* ---- backward ---- */

typedef struct backward_call {
    const char  *r, *dy, *dr, *w;
    const float *rstd;
    char        *dx;
    float       *dw, offset;
    int64_t      n, pitch, head;
    int          streaming;
} backward_call;

INLINE reg sum_unit(const backward_call *c, int64_t row, ts_dtype t, int64_t i, int n, scale s,
                    int plain, reg sum)
{
    const vec dy = load(c->dy + row, t, i, n), g = mul(gain_of(c->w, t, i, n, c->offset), dy);
    /* 0 in the lanes past n: there 0 times a NaN must not be one. */
    const vec rhat = keep(rhat_of(load(c->r + row, t, i, n), s, plain), t, n);
    vec       dw = columns_begin(c->dw + i, t, n);
    dw = madd(dy, rhat, dw);
    columns_end(c->dw + i, t, n, dw);
    return fold_madd(sum, g, rhat);
}

/* The sum of g * rhat; adds the row's dy * rhat to dw. */
INLINE double sum_row(const backward_call *c, int64_t row, ts_dtype t, scale s, int plain)
{
    double  all = 0;
    int64_t i = 0;
    while (i < c->n) {
        const int64_t stop = ts_lesser(i + SHORT, c->n);
        reg           some = reg_zero();
        for (; i + UNIT <= stop; i += UNIT) some = sum_unit(c, row, t, i, UNIT, s, plain, some);
        if (i < stop) some = sum_unit(c, row, t, i, (int)(stop - i), s, plain, some), i = stop;
        all += total(some);
    }
    return all;
}

typedef struct dx_row {
    scale s;
    float rstd, avg;
} dx_row;

INLINE void dx_unit(const backward_call *c, int64_t row, ts_dtype t, int64_t i, int n, dx_row d,
                    int plain, int streaming)
{
    const vec g = mul(gain_of(c->w, t, i, n, c->offset), load(c->dy + row, t, i, n));
    const vec rhat = rhat_of(load(c->r + row, t, i, n), d.s, plain);
    const vec rest = nmadd(rhat, splat(d.avg), g), rstd = splat(d.rstd);
    const vec dx = c->dr ? madd(rest, rstd, load(c->dr + row, t, i, n)) : mul(rest, rstd);
    put(c->dx + row, t, i, n, dx, streaming);
}

INLINE void write_dx(const backward_call *c, int64_t row, ts_dtype t, dx_row d, int plain)
{
    int64_t i = 0;
    for (; i < c->head; i += UNIT)
        dx_unit(c, row, t, i, (int)ts_lesser(UNIT, c->head - i), d, plain, 0);
    for (i = c->head; i + UNIT <= c->n; i += UNIT)
        dx_unit(c, row, t, i, UNIT, d, plain, c->streaming);
    if (i < c->n) dx_unit(c, row, t, i, (int)(c->n - i), d, plain, 0);
}

INLINE void backward_row(const backward_call *c, int64_t r, ts_dtype t, scale s, int plain)
{
    const float  rstd = isnan(c->rstd[r]) ? NAN : c->rstd[r];
    const double avg = sum_row(c, r * c->pitch, t, s, plain) / (double)c->n;
    write_dx(c, r * c->pitch, t, (dx_row) { s, rstd, (float)avg }, plain);
}

INLINE void backward_rows(const ts_rms_norm_backward_args *a, int64_t begin, int64_t end,
                          ts_dtype t, float *dw)
{
    backward_call c = { a->r,      a->dy,
                        a->dr,     a->w,
                        a->rstd,   a->dx,
                        dw,        (float)a->w_offset,
                        a->n_cols, a->row_stride * size_of(t),
                        0,         0 };
    c.streaming = streams(a->n_rows, c.n, c.pitch, t);
    c.head = head_of(a->dx, t, c.n, c.streaming);
    for (int64_t r = begin; r < end; r++) {
        const scale s = scale_of((double)c.rstd[r]);
        if (s.h == 1) backward_row(&c, r, t, s, 1);
        else backward_row(&c, r, t, s, 0);
    }
    if (c.streaming) end_streams();
}

/* ---- by dtype ---- */

static void forward_any(const ts_rms_norm_forward_args *a, int64_t begin, int64_t end)
{
    if (a->dtype == TS_BF16) forward_rows(a, begin, end, TS_BF16);
    else if (a->dtype == TS_F16) forward_rows(a, begin, end, TS_F16);
    else forward_rows(a, begin, end, TS_F32);
}

static void backward_any(const ts_rms_norm_backward_args *a, int64_t begin, int64_t end, float *dw)
{
    if (a->dtype == TS_BF16) backward_rows(a, begin, end, TS_BF16, dw);
    else if (a->dtype == TS_F16) backward_rows(a, begin, end, TS_F16, dw);
    else backward_rows(a, begin, end, TS_F32, dw);
}

#endif

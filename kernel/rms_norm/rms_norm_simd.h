/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_simd.h - rows of rms_norm, written once for any width of vector. Private to the files
 * that include it, each behind its vectors: see row_simd.h.
 *
 * A row is visited twice, the second time from a cache. Forward: r and the sum of its squares, then
 * y. Backward: the sum of g * rhat and the row's share of dw, then dx. */
#ifndef TS_RMS_NORM_SIMD_H
#define TS_RMS_NORM_SIMD_H

/* SHORT: elements summed in float before they go on to a double. */
enum { CENTRED = 0, GROUP = 1, SHORT = 256 };

#include "norm_simd.h"
#include "norm_threads.h"

/* h keeps rstd from losing digits among the subnormals, or from overflowing. */
INLINE scale scale_of(double rstd)
{
    const double h = rstd < 0x1p-60 ? 0x1p-64 : rstd > 0x1p60 ? 0x1p64 : 1;
    /* Of a row of zeros it may be more than a float, and is times 0. A NaN is replaced by the plain
     * one: row_simd.h's rounding to bf16 relies on the low half of a NaN being 0. */
    if (isnan(rstd)) return (scale) { 1, 0, NAN, 0 };
    return (scale) { (float)h, 0, (float)fmin(rstd / h, FLT_MAX), 0 };
}

/* ---- forward ---- */

/* What is normalised, to.x, is r. Without a residual, that is x. */
typedef struct rms_call {
    const char  *x, *residual;
    char        *r;
    forward_call to;
} rms_call;

/* n elements of r, which are written if there is a residual. */
INLINE vec take_r(const rms_call *c, int64_t row, ts_dtype t, int64_t i, int n, int fused)
{
    const vec x = load(c->x + row, t, i, n);
    if (!fused) return x;
    /* Both round the sum, which the compiler does once. */
    const vec sum = add(x, load(c->residual + row, t, i, n));
    store(c->r + row, t, i, n, sum);
    return as_stored(sum, t);
}

/* The sum of squares, which is infinite or next to nothing where float cannot hold them. */
INLINE double sum_squares(const rms_call *c, int64_t row, ts_dtype t, int fused)
{
    wide    all = wide_zero();
    int64_t i = 0;
    while (i < c->to.n) {
        const int64_t stop = ts_lesser(i + SHORT, c->to.n);
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
INLINE double sum_squares_wide(const rms_call *c, int64_t row, ts_dtype t)
{
    wide all = wide_zero();
    for (int64_t i = 0; i < c->to.n; i += UNIT)
        all = wide_sum(all, c->to.x + row, t, i, (int)ts_lesser(UNIT, c->to.n - i), 0);
    return wide_total(all.dd);
}

INLINE void forward_rows(const ts_rms_norm_forward_args *a, int64_t begin, int64_t end, ts_dtype t)
{
    rms_call      call = { a->x,
                           a->residual,
                           a->r,
                           { .gamma = a->w,
                             .y = a->y,
                             .rstd = a->rstd,
                             .eps = a->eps,
                             .offset = (float)a->w_offset,
                             .n = a->n_cols,
                             .pitch = a->row_stride * size_of(t) } };
    forward_call *c = &call.to;
    c->x = a->residual ? a->r : a->x;
    c->streaming = streams(a->n_rows, c->n, c->pitch, t);
    c->head = head_of(a->y, t, c->n, c->streaming);
    for (int64_t r = begin; r < end; r++) {
        const int64_t row = r * c->pitch;
        double sum = a->residual ? sum_squares(&call, row, t, 1) : sum_squares(&call, row, t, 0);
        if (!(sum > 0x1p-110 * (double)c->n && sum < INFINITY))
            sum = sum_squares_wide(&call, row, t);
        const double rstd = isfinite(sum) ? 1 / sqrt(sum / (double)c->n + c->eps) : (double)NAN;
        const scale  s = scale_of(rstd);
        c->rstd[r] = (float)rstd;
        if (s.h == 1) y_ends(c, r, 1, &s, 1, t, c->head);
        else y_ends(c, r, 1, &s, 0, t, c->head);
    }
    if (c->streaming) end_streams();
}

/* ---- backward ---- */

/* The sum of g * rhat; adds the row's dy * rhat to dw. */
INLINE double sum_row(const backward_call *c, int64_t r, ts_dtype t, const backward_row *w,
                      int plain)
{
    double  all = 0;
    int64_t i = 0;
    while (i < c->n) {
        const int64_t stop = ts_lesser(i + SHORT, c->n);
        part          some = part_zero();
        for (; i + UNIT <= stop; i += UNIT) sum_unit(c, r, 1, w, plain, t, i, UNIT, &some);
        if (i < stop) sum_unit(c, r, 1, w, plain, t, i, (int)(stop - i), &some), i = stop;
        all += total(some.b);
    }
    return all;
}

INLINE void backward_row_of(const backward_call *c, int64_t r, ts_dtype t, scale s, int plain)
{
    backward_row w = { .s = s, .rstd = isnan(c->rstd[r]) ? NAN : c->rstd[r] };
    w.avg_gx = (float)(sum_row(c, r, t, &w, plain) / (double)c->n);
    dx_ends(c, r, 1, &w, plain, t, c->head);
}

INLINE void backward_rows(const ts_rms_norm_backward_args *a, int64_t begin, int64_t end,
                          ts_dtype t, float *dw)
{
    backward_call c = { .x = a->r,
                        .dy = a->dy,
                        .dr = a->dr,
                        .gamma = a->w,
                        .dx = a->dx,
                        .rstd = a->rstd,
                        .dgamma = dw,
                        .offset = (float)a->w_offset,
                        .n = a->n_cols,
                        .pitch = a->row_stride * size_of(t) };
    c.streaming = streams(a->n_rows, c.n, c.pitch, t);
    c.head = head_of(a->dx, t, c.n, c.streaming);
    for (int64_t r = begin; r < end; r++) {
        const scale s = scale_of((double)c.rstd[r]);
        if (s.h == 1) backward_row_of(&c, r, t, s, 1);
        else backward_row_of(&c, r, t, s, 0);
    }
    if (c.streaming) end_streams();
}

/* ---- by dtype ---- */

static void forward_any(const void *args, int64_t begin, int64_t end)
{
    const ts_rms_norm_forward_args *a = args;
    if (a->dtype == TS_BF16) forward_rows(a, begin, end, TS_BF16);
    else if (a->dtype == TS_F16) forward_rows(a, begin, end, TS_F16);
    else forward_rows(a, begin, end, TS_F32);
}

static void backward_any(const void *args, int64_t begin, int64_t end, float *const sum[2])
{
    const ts_rms_norm_backward_args *a = args;
    if (a->dtype == TS_BF16) backward_rows(a, begin, end, TS_BF16, sum[0]);
    else if (a->dtype == TS_F16) backward_rows(a, begin, end, TS_F16, sum[0]);
    else backward_rows(a, begin, end, TS_F32, sum[0]);
}

ts_status SIMD(ts_rms_norm_forward)(const void *args, const ts_exec *x)
{
    const ts_rms_norm_forward_args *a = args;
    return ts_chunk_run(a, a->n_rows, a->n_cols, x, forward_any);
}

ts_status SIMD(ts_rms_norm_backward)(const void *args, const ts_exec *x)
{
    const ts_rms_norm_backward_args *a = args;
    return ts_norm_backward_threads(a, a->n_rows, a->n_cols, a->accumulate,
                                    (void *const[]) { a->dw, NULL }, x, backward_any);
}

#endif

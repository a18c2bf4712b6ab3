/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm.c - task: layer norm forward and backward. Inputs, the oracle with its bounds, the
 * least cost. The cases are in layernorm_cases.c.
 *
 * The oracle works in pairs of doubles from the rounded inputs, each row divided by a power of two
 * near its largest number, so that no square leaves the range of double. With u the unit roundoff
 * of accumulation, w of storage and kappa(n) = 8 + 2 sqrt(n), a sum of n terms may err by kappa(n)
 * u sum|terms|, and an output by w of itself once it is stored.
 *
 * The common contract (`any`) also has plain sums: kappa(n) + n along a row, and over rows what
 * bound.h has of a span. Their mean may be off by u sum|x|, which for rows far from 0 is more than
 * their deviation. To widen y and rstd by that would accept any number, so they are compared with
 * what follows from the mean that was returned: a variance in a second pass has the square of what
 * that is off, and so has one that is updated as numbers come (Welford), as its last means are. One
 * from means that are off by e is off by e more of itself. Or it is the mean square of distances
 * from the first number less the square of their mean. Backward, where mean and rstd are given, may
 * be dx = rstd g + b x + c, with b from sum g x - mean sum g, as in PyTorch: both sums err by their
 * own partial sums, not by those of g xhat. An x below the smallest normal of accumulation may be
 * taken for 0. Of rows whose squares leave the range of accumulation, or that contain a NaN or an
 * infinity, the common contract says nothing but that they are written: of y and rstd, of dx, and
 * of dgamma if x - mean is no number. */
#include "touchstone/layernorm.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "dtype.h"
#include "layernorm_cases.h"
#include "norm_cases.h"
#include "norm_stats.h"
#include "rng.h"
#include "spoil.h"

static const char NONFINITE_ZERO[] = "a row with a NaN or infinity is NaN even where dy is 0";

static const double USUAL_EPS = 1e-5;

typedef ts_layernorm_forward_args  forward_args;
typedef ts_layernorm_backward_args backward_args;

/* ---- inputs ---- */

static void draw_vector(ts_dtype t, void *p, int64_t n, uint64_t seed, double centre, double size)
{
    for (int64_t i = 0; i < n; i++) ts_store(p, t, i, size * (centre + 1.5 * ts_uniform(seed, i)));
}

/* In the same families every third gain is 0, as in nets that were pruned or have just begun. */
static void draw_gains(const ts_case *c, void *gamma, uint64_t seed)
{
    const double size = ts_is(c, "overflow") ? 2e4 : ts_norm_size(c, 40, 1);
    draw_vector(c->dtype, gamma, c->dim[1], seed, 0.25, size);
    if (ts_norm_size(c, 0, 0) == 0)
        for (int64_t i = 1; i < c->dim[1]; i += 3) ts_store(gamma, c->dtype, i, 0);
}

static void draw_x(const ts_case *c, void *x, uint64_t seed)
{
    const int64_t n_cols = c->dim[1], stride = ts_norm_stride(c);
    if (ts_is(c, "normal")) { /* the large cases are: no names in their loop */
        ts_norm_draw_rows(c, x, seed, 1);
        return;
    }
    for (int64_t r = 0; r < c->dim[0]; r++)
        for (int64_t i = 0; i < n_cols; i++)
            ts_store(x, c->dtype, r * stride + i,
                     ts_layernorm_draw(c->family, c->dtype, seed, r, i, n_cols));
}

/* A row of x, as doubles. */
static void load_row(const void *x, ts_dtype t, int64_t begin, int64_t n, double *row)
{
    for (int64_t i = 0; i < n; i++) row[i] = ts_load(x, t, begin + i);
}

static void setup_forward(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    forward_args  *a = args;
    const ts_dtype t = c->dtype;
    const int64_t  R = c->dim[0], D = c->dim[1], S = ts_norm_stride(c);
    *a = (forward_args) { .dtype = t, .n_rows = R, .n_cols = D, .row_stride = S };
    a->eps = ts_norm_eps(c, USUAL_EPS);
    ts_scalar(m, "eps", a->eps);
    void *x = ts_take(m, &a->x, (ts_buf) { "x", TS_IN, t, R, D, S });
    void *gamma = ts_take(m, &a->gamma, (ts_buf) { "gamma", TS_IN, t, 1, D, D });
    void *beta = ts_take(m, &a->beta, (ts_buf) { "beta", TS_IN, t, 1, D, D });
    ts_take(m, &a->y, (ts_buf) { "y", TS_OUT, t, R, D, S });
    ts_take(m, &a->mean, (ts_buf) { "mean", TS_OUT, ts_wide(t), 1, R, R });
    ts_take(m, &a->rstd, (ts_buf) { "rstd", TS_OUT, ts_wide(t), 1, R, R });
    draw_x(c, x, ts_mix(seed));
    draw_gains(c, gamma, ts_mix(seed + 1));
    draw_vector(t, beta, D, ts_mix(seed + 2), 0, ts_norm_size(c, 100, 1));
}

static void setup_backward(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    backward_args *a = args;
    const ts_dtype t = c->dtype, wide = ts_wide(t);
    const int64_t  R = c->dim[0], D = c->dim[1], S = ts_norm_stride(c);
    const ts_role  sums = c->dim[3] ? TS_INOUT : TS_OUT;
    *a = (backward_args) { .dtype = t, .n_rows = R, .n_cols = D, .row_stride = S };
    a->accumulate = (int)c->dim[3];
    void *x = ts_take(m, &a->x, (ts_buf) { "x", TS_IN, t, R, D, S });
    void *dy = ts_take(m, &a->dy, (ts_buf) { "dy", TS_IN, t, R, D, S });
    void *gamma = ts_take(m, &a->gamma, (ts_buf) { "gamma", TS_IN, t, 1, D, D });
    void *mean = ts_take(m, &a->mean, (ts_buf) { "mean", TS_IN, wide, 1, R, R });
    void *rstd = ts_take(m, &a->rstd, (ts_buf) { "rstd", TS_IN, wide, 1, R, R });
    ts_take(m, &a->dx, (ts_buf) { "dx", TS_OUT, t, R, D, S });
    void *dgamma = ts_take(m, &a->dgamma, (ts_buf) { "dgamma", sums, wide, 1, D, D });
    void *dbeta = ts_take(m, &a->dbeta, (ts_buf) { "dbeta", sums, wide, 1, D, D });
    draw_x(c, x, ts_mix(seed));
    /* never all ones: dx would vanish */
    ts_norm_draw_gradient(c, dy, ts_mix(seed + 3));
    draw_gains(c, gamma, ts_mix(seed + 1));
    if (a->accumulate) {
        draw_vector(wide, dgamma, D, ts_mix(seed + 4), 0, ts_norm_size(c, 1000, 1e-9));
        draw_vector(wide, dbeta, D, ts_mix(seed + 5), 0, ts_norm_size(c, 1000, 1e-9));
    }
    double *row = ts_norm_new_row(D);
    for (int64_t r = 0; r < R; r++) {
        load_row(x, t, r * S, D, row);
        const ts_norm_stats s = ts_norm_stats_of(row, D, ts_norm_eps(c, USUAL_EPS), true);
        ts_store(mean, wide, r, ts_norm_mean(&s));
        ts_store(rstd, wide, r, ts_norm_rstd(&s));
    }
    free(row);
}

/* ---- oracle ---- */

static double kappa(int64_t n, bool any)
{
    return any ? ts_kappa_any(n) : ts_kappa(n);
}

/* However large an error is, the element must be written. */
static ts_want stored(double v, double error, ts_dtype t)
{
    return ts_stored(v, error > DBL_MAX / 2 ? DBL_MAX / 2 : error, t);
}

/* Of all numbers; ts_norm_stats has 0 where sums are exact, of which y = x a + b knows nothing. */
static double largest_of(const double *x, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(x[i]));
    return largest;
}

/* The error of a mean: 8 u of the largest |x|, which may also be flushed. */
static double mean_error(double largest, const ts_format *f, bool any)
{
    return 8 * f->u * largest + (any ? f->min_normal : 0);
}

/* What more it may be off by plain sums: u of all |x|. No product leaves the range of double. */
static double plain_error(const double *x, int64_t n, double u)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += u * fabs(x[i]);
    return sum;
}

/* By how much the mean that was returned is off, if a plain sum may be; else 0. */
static double mean_off(const forward_args *a, int64_t r, const ts_want *mean)
{
    const double off = ts_load(a->mean, ts_wide(a->dtype), r) - mean->value;
    return fabs(off) <= mean->bound ? off : 0;
}

/* If the mean that was returned is off by less than this of a deviation, y may also follow from a
 * better one, as of a kernel that computes it anew. */
static const double NEAR = 0.125;

/* The same row about a mean that is off. */
static void move_mean(ts_norm_stats *s, double off)
{
    const double by = ldexp(off, -s->far), e = off * ts_norm_rstd(s);
    if (!isfinite(e) || off == 0) return;
    s->mean = ts_real_add(s->mean, ts_real_of(by));
    s->rstd = ts_real_div(s->rstd, ts_real_sqrt(ts_real_of(1 + e * e)));
}

/* Of rstd, relative, if e is that of the mean times rstd. The square of e enters through the
 * variance, and matters only for extreme offsets. */
static double rstd_error(double e, int64_t n, double u, bool any)
{
    return kappa(n, any) * u + e * e / 2 + (any ? e : 0);
}

/* The error that a careful xhat may have: that of the mean, of rounding, and of rstd; of an xhat of
 * 0 nothing, even if e^2 overflows. */
static double xhat_error(double xhat, double e, int64_t n, double u, bool any)
{
    return e + kappa(n, any) * u * (1 + fabs(xhat)) + fabs(xhat) * e * e / 2 +
           (any ? fabs(xhat) * e : 0);
}

/* Of backward, where mean and rstd are given: rstd has no error of its own. */
static double xhat_given(double xhat, double e, int64_t n, double u, bool any)
{
    return xhat_error(xhat, e, n, u, any) - (any ? fabs(xhat) * e : 0);
}

/* A variance in one pass over distances from the first number errs by kappa(n) u of their squares:
 * by so much of rstd. */
static double shift_error(const double *x, int64_t n, double rstd, double u, bool any)
{
    double squares = 0;
    for (int64_t i = 0; i < n && any; i++) squares += (x[i] - x[0]) * rstd * ((x[i] - x[0]) * rstd);
    return any ? fmin(ts_kappa(n) * u * squares / (double)n / 2, 1) : 0;
}

static size_t n_want_forward(const ts_case *c)
{
    return (size_t)(c->dim[0] * (c->dim[1] + 2));
}

/* want: y row by row, then mean, then rstd */
static void oracle_forward_by(const void *args, ts_want *y, bool any)
{
    const forward_args *a = args;
    const ts_dtype      t = a->dtype;
    const int64_t       R = a->n_rows, D = a->n_cols;
    const double        u = ts_format_of(ts_wide(t))->u;
    ts_want            *mean = y + R * D, *rstd = mean + R;
    double             *row = ts_norm_new_row(D);
    for (int64_t r = 0; r < R; r++) {
        load_row(a->x, t, r * a->row_stride, D, row);
        ts_norm_stats s = ts_norm_stats_of(row, D, a->eps, true);
        const double  largest = any ? largest_of(row, D) : s.largest;
        const double  off = mean_error(largest, ts_format_of(ts_wide(t)), any);
        mean[r] = stored(ts_norm_mean(&s), off + (any ? plain_error(row, D, u) : 0), ts_wide(t));
        const double moved = any ? mean_off(a, r, &mean[r]) : 0;
        move_mean(&s, moved);
        const double rs = ts_norm_rstd(&s), e = rs * off + fmin(rs * fabs(moved), NEAR);
        const double exact = s.largest == 0 && largest > 0 ? 0 : e; /* no sum is off */
        const double shift = shift_error(row, D, rs, u, any);
        for (int64_t i = 0; i < D; i++) {
            const double  gamma = ts_load(a->gamma, t, i), beta = ts_load(a->beta, t, i);
            const ts_real xh = ts_norm_xhat(&s, row[i]);
            const ts_real v = ts_real_add(ts_real_mul(ts_real_of(gamma), xh), ts_real_of(beta));
            const double  error =
                ts_kappa(2) * u * (fabs(gamma * xh.hi) + fabs(beta)) +
                fabs(gamma) * (xhat_error(xh.hi, e, D, u, any) + shift * fabs(xh.hi));
            *y++ = stored(v.hi, error, t);
        }
        rstd[r] = stored(rs, rs * (rstd_error(exact, D, u, any) + shift), ts_wide(t));
        if (isnan(rs))
            mean[r].bound = rstd[r].bound = INFINITY; /* unspecified for an invalid row */
    }
    free(row);
}

static void oracle_forward(const ts_case *c, const void *args, ts_want *want)
{
    (void)c;
    oracle_forward_by(args, want, false);
}

static void oracle_forward_any(const ts_case *c, const void *args, ts_want *want)
{
    (void)c;
    oracle_forward_by(args, want, true);
}

static size_t n_want_backward(const ts_case *c)
{
    return (size_t)((c->dim[0] + 2) * c->dim[1]);
}

typedef struct column_sums {
    ts_real dgamma, dbeta;
    double  dgamma_terms, dbeta_terms,
        dgamma_xhat; /* sums of |terms|, and of |dy| * error of xhat */
    ts_span dgamma_span, dbeta_span;
} column_sums;

/* One row: its dx, and its share of the columns' sums. x: room for the row. */
static void oracle_backward_row(const backward_args *a, int64_t r, double *x, ts_want *dx,
                                column_sums *sums, bool any)
{
    const ts_dtype t = a->dtype, wide = ts_wide(t);
    const int64_t  D = a->n_cols, row = r * a->row_stride;
    const double   u = ts_format_of(wide)->u, n = (double)D;
    const double   mean = ts_load(a->mean, wide, r), rstd = ts_load(a->rstd, wide, r);
    ts_real        g_sum = { 0, 0 }, gx_sum = { 0, 0 };
    ts_span        of_gx = { 0 }, of_g = { 0 }; /* of g x rstd, and g mean rstd */
    double         g_abs = 0, gx_abs = 0, gx_error = 0;
    load_row(a->x, t, row, D, x);
    double       largest = largest_of(x, D);
    const double scale = largest > 0x1p1000 ? 0x1p-64 : 1; /* or a distance would be infinite */
    const ts_norm_stats s = { .scale = scale,
                              .stretch = 1,
                              .mean = ts_real_of(mean * scale),
                              .rstd = ts_real_of(rstd / scale) };
    if (!any && ts_norm_sums_exactly(x, D)) largest = 0;
    const double e = rstd * mean_error(largest, ts_format_of(wide), any);
    for (int64_t i = 0; i < D; i++) {
        const double  dy = ts_load(a->dy, t, row + i);
        const ts_real xh = ts_norm_xhat(&s, x[i]);
        const ts_real g = ts_real_product(ts_load(a->gamma, t, i), dy), gx = ts_real_mul(g, xh);
        const double  xe = xhat_given(xh.hi, e, D, u, any);
        if (any) {
            ts_span_add(&of_gx, g.hi * (rstd * x[i])), ts_span_add(&of_g, g.hi * (rstd * mean));
            ts_span_add(&sums[i].dgamma_span, dy * xh.hi), ts_span_add(&sums[i].dbeta_span, dy);
        }
        ts_real_gather(&g_sum, g), g_abs += fabs(g.hi);
        ts_real_gather(&gx_sum, gx), gx_abs += fabs(gx.hi), gx_error += fabs(g.hi) * xe;
        ts_real_gather_product(&sums[i].dgamma, xh, dy);
        ts_real_gather(&sums[i].dbeta, ts_real_of(dy));
        sums[i].dgamma_terms += fabs(dy * xh.hi), sums[i].dbeta_terms += fabs(dy);
        sums[i].dgamma_xhat += fabs(dy) * xe;
    }
    const double  raw = ts_kappa(D) * u * (ts_span_of(&of_gx) + ts_span_of(&of_g)) / n;
    const ts_real g_mean = ts_real_div(ts_real_gathered(g_sum), ts_real_of(n));
    const ts_real gx_mean = ts_real_div(ts_real_gathered(gx_sum), ts_real_of(n));
    for (int64_t i = 0; i < D; i++) {
        const ts_real xh = ts_norm_xhat(&s, x[i]);
        const ts_real g = ts_real_product(ts_load(a->gamma, t, i), ts_load(a->dy, t, row + i));
        const ts_real means = ts_real_add(g_mean, ts_real_mul(xh, gx_mean));
        const double  axh = fabs(xh.hi), xe = xhat_given(axh, e, D, u, any);
        /* b x and c are rounded each, with all that b is off. */
        const double slip = any ? 4 * u * rstd * (fabs(x[i]) + fabs(mean)) : 0;
        const double terms = fabs(g.hi) + g_abs / n + axh * gx_abs / n;
        const double error = kappa(D, any) * u * terms + fabs(gx_mean.hi) * xe +
                             axh * gx_error / n + (axh + slip) * raw;
        const ts_real v = ts_real_mul(ts_real_of(rstd), ts_real_sub(g, means));
        dx[i] = stored(v.hi, rstd * error, t);
    }
}

/* What a sum is added to; after the call, what the result has more than the sum. */
static double had(const backward_args *a, const void *sum, int64_t i, const ts_want *result,
                  ts_real more, bool any)
{
    if (!a->accumulate) return 0;
    return any ? result->value - more.hi : ts_load(sum, ts_wide(a->dtype), i);
}

/* want: dx row by row, then dgamma, then dbeta */
static void oracle_backward_by(const void *args, ts_want *want, bool any)
{
    const backward_args *a = args;
    const ts_dtype       wide = ts_wide(a->dtype);
    const int64_t        R = a->n_rows, D = a->n_cols;
    const double         u = ts_format_of(wide)->u;
    column_sums         *sums = calloc((size_t)D, sizeof *sums);
    ts_want             *dgamma = want + R * D, *dbeta = dgamma + D;
    double              *row = ts_norm_new_row(D);
    if (!sums) abort();
    for (int64_t r = 0; r < R; r++) oracle_backward_row(a, r, row, want + r * D, sums, any);
    for (int64_t i = 0; i < D; i++) {
        const column_sums *s = &sums[i];
        const ts_real      dg = ts_real_gathered(s->dgamma), db = ts_real_gathered(s->dbeta);
        const double       g0 = had(a, a->dgamma, i, &dgamma[i], dg, any);
        const double       b0 = had(a, a->dbeta, i, &dbeta[i], db, any);
        const double       g = any ? dgamma[i].value : ts_real_add(dg, ts_real_of(g0)).hi;
        const double       b = any ? dbeta[i].value : ts_real_add(db, ts_real_of(b0)).hi;
        const double       g_plain = any ? ts_plain_error(&s->dgamma_span, R, g0, u) : 0;
        const double       b_plain = any ? ts_plain_error(&s->dbeta_span, R, b0, u) : 0;
        const double       ku = ts_kappa(R) * u;
        dgamma[i] = stored(g, ku * (fabs(g0) + s->dgamma_terms) + g_plain + s->dgamma_xhat, wide);
        dbeta[i] = stored(b, ku * (fabs(b0) + s->dbeta_terms) + b_plain, wide);
    }
    free(sums);
    free(row);
}

static void oracle_backward(const ts_case *c, const void *args, ts_want *want)
{
    (void)c;
    oracle_backward_by(args, want, false);
}

static void oracle_backward_any(const ts_case *c, const void *args, ts_want *want)
{
    (void)c;
    oracle_backward_by(args, want, true);
}

/* ---- check, cost ---- */

static bool check_forward(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    const forward_args *a = args;
    const int64_t       R = a->n_rows, D = a->n_cols;
    const ts_dtype      wide = ts_wide(a->dtype);
    const ts_buf        y = { "y", TS_OUT, a->dtype, R, D, a->row_stride };
    (void)c;
    return ts_check_buf(y, a->y, want, f, e) &&
           ts_check_buf((ts_buf) { "mean", TS_OUT, wide, 1, R, R }, a->mean, want + R * D, f, e) &&
           ts_check_buf((ts_buf) { "rstd", TS_OUT, wide, 1, R, R }, a->rstd, want + R * D + R, f,
                        e);
}

static bool check_backward(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                           ts_errors *e)
{
    const backward_args *a = args;
    const int64_t        R = a->n_rows, D = a->n_cols;
    const ts_buf         dx = { "dx", TS_OUT, a->dtype, R, D, a->row_stride };
    const ts_buf         dgamma = { "dgamma", TS_OUT, ts_wide(a->dtype), 1, D, D };
    const ts_buf         dbeta = { "dbeta", TS_OUT, ts_wide(a->dtype), 1, D, D };
    (void)c;
    return ts_check_buf(dx, a->dx, want, f, e) &&
           ts_check_buf(dgamma, a->dgamma, want + R * D, f, e) &&
           ts_check_buf(dbeta, a->dbeta, want + R * D + D, f, e);
}

static const char *common_forward(const ts_case *c, const void *args, const ts_want *want,
                                  ts_flaw *f, ts_errors *e)
{
    return ts_common_by(oracle_forward_any, check_forward, want, n_want_forward(c), TS_SUMS_RULE, c,
                        args, f, e);
}

static const char *common_backward(const ts_case *c, const void *args, const ts_want *want,
                                   ts_flaw *f, ts_errors *e)
{
    return ts_common_by(oracle_backward_any, check_backward, want, n_want_backward(c), TS_SUMS_RULE,
                        c, args, f, e);
}

static void excuse_forward(const ts_case *c, const void *args, ts_want *want)
{
    const forward_args *a = args;
    const ts_dtype      t = a->dtype;
    const int64_t       R = a->n_rows, D = a->n_cols;
    ts_want            *mean = want + R * D, *rstd = mean + R;
    double             *row = ts_norm_new_row(D);
    (void)c;
    ts_excuse_nan(want, R * (D + 2));
    for (int64_t r = 0; r < R; r++) {
        load_row(a->x, t, r * a->row_stride, D, row);
        const double largest = largest_of(row, D);
        if (ts_norm_leaves_range(t, D, largest, rstd[r].value) ||
            ts_norm_sum_leaves_range(t, 1, a->eps))
            ts_excuse(want + r * D, D), ts_excuse(&rstd[r], 1);
        if (ts_norm_sum_leaves_range(t, D, largest)) ts_excuse(&mean[r], 1);
    }
    free(row);
}

static void excuse_backward(const ts_case *c, const void *args, ts_want *want)
{
    const backward_args *a = args;
    const ts_dtype       t = a->dtype, wide = ts_wide(t);
    const int64_t        R = a->n_rows, D = a->n_cols;
    double              *row = ts_norm_new_row(D);
    (void)c;
    ts_excuse_nan(want, (R + 2) * D);
    for (int64_t r = 0; r < R; r++) {
        load_row(a->x, t, r * a->row_stride, D, row);
        const double largest = largest_of(row, D);
        if (ts_norm_gradient_leaves_range(t, D, largest, ts_load(a->rstd, wide, r)))
            ts_excuse(want + r * D, D);
        if (ts_norm_sum_leaves_range(t, 1, largest)) ts_excuse(want + R * D, D);
    }
    free(row);
}

static ts_cost cost_forward(const ts_case *c)
{
    const double R = (double)c->dim[0], D = (double)c->dim[1];
    const double b = (double)ts_format_of(c->dtype)->n_bytes;
    return (ts_cost) { .bytes = b * (2 * R * D + 2 * D) + 8 * R, .flops = 7 * R * D };
}

static ts_cost cost_backward(const ts_case *c)
{
    const double R = (double)c->dim[0], D = (double)c->dim[1];
    const double b = (double)ts_format_of(c->dtype)->n_bytes;
    return (ts_cost) { .bytes = b * (3 * R * D + D) + 8 * R + 8 * D, .flops = 13 * R * D };
}

/* ---- invalid calls ---- */

#define BAD(type, must, ...) TS_BAD(type##_args, TS_E_##must, __VA_ARGS__)

static const ts_bad bad_forward[] = {
    BAD(forward, ARG, eps, 0, -1, NAN, INFINITY),
    TS_NORM_BAD(forward_args),
    { 0 },
};

static const ts_bad bad_backward[] = {
    BAD(backward, ARG, accumulate, 2),
    TS_NORM_BAD(backward_args),
    { 0 },
};

#define P(type, member) TS_POINTER(type##_args, member)

static const ts_invalid invalid_forward = {
    .pointer = { P(forward, x), P(forward, gamma), P(forward, beta), P(forward, y),
                 P(forward, mean), P(forward, rstd) },
    TS_NORM_EXTENTS(forward_args),
    .bad = bad_forward,
};

static const ts_invalid invalid_backward = {
    .pointer = { P(backward, x), P(backward, dy), P(backward, gamma), P(backward, mean),
                 P(backward, rstd), P(backward, dx), P(backward, dgamma), P(backward, dbeta) },
    TS_NORM_EXTENTS(backward_args),
    .bad = bad_backward,
};

const ts_task ts_task_layernorm_forward = {
    .name = "layernorm_forward",
    .dim_name = { "rows", "cols", "pad" },
    .dim_says = { "n_rows", "n_cols", "row_stride - n_cols" },
    TS_NORM_TASK,
    .buffer = { { "x", TS_IN, 2, false },
                { "gamma", TS_IN, 1, false },
                { "beta", TS_IN, 1, false },
                { "y", TS_OUT, 2, false },
                { "mean", TS_OUT, 1, false },
                { "rstd", TS_OUT, 1, false } },
    .number = { { "eps", false } },
    .args_bytes = sizeof(forward_args),
    .cases = ts_layernorm_forward_cases,
    .cover = &ts_layernorm_forward_cover,
    .setup = setup_forward,
    .n_want = n_want_forward,
    .oracle = oracle_forward,
    .check = check_forward,
    .cost = cost_forward,
    .invalid = &invalid_forward,
    .canon = { TS_NORM_NONFINITE },
    .excuse = excuse_forward,
    .common = common_forward,
};

const ts_task ts_task_layernorm_backward = {
    .name = "layernorm_backward",
    .dim_name = { "rows", "cols", "pad", "acc" },
    .dim_says = { "n_rows", "n_cols", "row_stride - n_cols", "accumulate" },
    TS_NORM_TASK,
    .buffer = { { "x", TS_IN, 2, false },
                { "dy", TS_IN, 2, false },
                { "gamma", TS_IN, 1, false },
                { "mean", TS_IN, 1, false },
                { "rstd", TS_IN, 1, false },
                { "dx", TS_OUT, 2, false },
                { "dgamma", TS_OUT, 1, false },
                { "dbeta", TS_OUT, 1, false } },
    .args_bytes = sizeof(backward_args),
    .cases = ts_layernorm_backward_cases,
    .cover = &ts_layernorm_backward_cover,
    .setup = setup_backward,
    .n_want = n_want_backward,
    .oracle = oracle_backward,
    .check = check_backward,
    .cost = cost_backward,
    .invalid = &invalid_backward,
    .canon = { TS_NORM_NONFINITE, { "nonfinite_zero", NONFINITE_ZERO, true } },
    .excuse = excuse_backward,
    .common = common_backward,
};

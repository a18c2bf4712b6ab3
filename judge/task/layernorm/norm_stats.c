/* SPDX-License-Identifier: Apache-2.0 */
/* norm_stats.c - mean and rstd of a row as the oracles of layer norm and of RMS norm have them. */
#include "norm_stats.h"

#include <math.h>
#include <stdlib.h>

#include "dtype.h"

double *ts_norm_new_row(int64_t n)
{
    double *row = calloc((size_t)n, sizeof *row);
    if (!row) abort();
    return row;
}

bool ts_norm_sums_exactly(const double *x, int64_t n)
{
    int e;
    for (int64_t i = 0; i < n; i++)
        if (x[i] != x[0]) return false;
    return n <= 4096 && (n & (n - 1)) == 0 && fabs(frexp(x[0], &e)) == 0.5;
}

static ts_real distance(const ts_norm_stats *s, double x)
{
    const ts_real d = ts_real_sub(ts_real_of(x * s->scale), s->mean);
    return (ts_real) { d.hi * s->stretch, d.lo * s->stretch };
}

ts_real ts_norm_xhat(const ts_norm_stats *s, double x)
{
    return ts_real_mul(distance(s, x), s->rstd);
}

/* Of the larger of x 2^n and y. */
static int exponent(double x, int n, double y)
{
    int of_x = 0, of_y = 0;
    frexp(y, &of_y);
    if (!isfinite(x) || x == 0) return of_y;
    frexp(x, &of_x);
    return of_x + n > of_y ? of_x + n : of_y;
}

/* Sets the mean, and the scale of distances from it. A distance that is not 0 is not so small that
 * its stretch would pass 2^1023. */
static void centre(ts_norm_stats *s, const double *x, int64_t n, double eps)
{
    double apart = 0;
    for (int64_t i = 0; i < n; i++) ts_real_gather(&s->mean, ts_real_of(x[i] * s->scale));
    s->mean = ts_real_div(ts_real_gathered(s->mean), ts_real_of((double)n));
    for (int64_t i = 0; i < n; i++) apart = fmax(apart, fabs(distance(s, x[i]).hi));
    s->near = exponent(apart, s->far, sqrt(eps));
    s->stretch = ldexp(1, s->far - s->near < 1023 ? s->far - s->near : 1023);
}

ts_norm_stats ts_norm_stats_of(const double *x, int64_t n, double eps, bool centred)
{
    ts_norm_stats s = { 0, 0, 1, 1, { 0, 0 }, { 0, 0 }, 0 };
    ts_real       v = { 0, 0 };
    for (int64_t i = 0; i < n; i++) s.largest = fmax(s.largest, fabs(x[i]));
    s.far = s.near = exponent(s.largest, 0, sqrt(eps));
    s.scale = ldexp(1, -s.far);
    if (centred) centre(&s, x, n, eps);
    for (int64_t i = 0; i < n; i++) {
        const ts_real d = distance(&s, x[i]);
        ts_real_gather(&v, ts_real_mul(d, d));
    }
    v = ts_real_gathered(v);
    s.rstd =
        ts_real_add(ts_real_div(v, ts_real_of((double)n)), ts_real_of(ldexp(eps, -2 * s.near)));
    s.rstd = ts_real_div(ts_real_of(1), ts_real_sqrt(s.rstd));
    if (!isfinite(v.hi)) s.mean = s.rstd = ts_real_of(NAN);
    if (v.hi == 0 && ts_norm_sums_exactly(x, n)) s.largest = 0;
    return s;
}

double ts_norm_mean(const ts_norm_stats *s)
{
    return ldexp(s->mean.hi, s->far);
}

double ts_norm_rstd(const ts_norm_stats *s)
{
    return ldexp(s->rstd.hi, -s->near);
}

bool ts_norm_leaves_range(ts_dtype t, int64_t n, double largest, double rstd)
{
    const ts_format *f = ts_format_of(ts_wide(t));
    const double     least = f->min_normal / f->u;
    if (largest > sqrt(f->max / (8 * (double)n)) || rstd > 1 / sqrt(least)) return true;
    return rstd < cbrt(least) && largest * rstd > 0x1p-20;
}

bool ts_norm_sum_leaves_range(ts_dtype t, int64_t n, double largest)
{
    return largest > ts_format_of(ts_wide(t))->max / (256 * (double)n);
}

bool ts_norm_gradient_leaves_range(ts_dtype t, int64_t n, double largest, double rstd)
{
    const double b = largest * rstd * rstd * rstd, u = ts_format_of(ts_wide(t))->u;
    return ts_norm_leaves_range(t, n, largest, rstd) || ts_norm_sum_leaves_range(t, n, b) ||
           ts_norm_sum_leaves_range(t, n, 8 * u * b * largest);
}

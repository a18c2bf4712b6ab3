/* SPDX-License-Identifier: Apache-2.0 */
/* quantile.c - quantiles of noisy times, with confidence intervals. */
#include <math.h>
#include <stdlib.h>

#include "quantile.h"

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double sorted_quantile(const double *x, size_t n, double q)
{
    if (!n) return (double)NAN;
    const double at = q * (double)(n - 1);
    const size_t i = (size_t)at, j = i + 1 < n ? i + 1 : i;
    return x[i] + (at - (double)i) * (x[j] - x[i]);
}

double ts_quantile(double *x, size_t n, double q)
{
    qsort(x, n, sizeof *x, ascending);
    return sorted_quantile(x, n, q);
}

double ts_median(double *x, size_t n)
{
    return ts_quantile(x, n, 0.5);
}

/* Probability that k of n values are below the quantile q: each is with probability q. */
static double chance_of(size_t n, double q, size_t k)
{
    return exp(lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1) +
               (double)k * log(q) + (double)(n - k) * log1p(-q));
}

/* The narrowest pair of order statistics, counted from 1, that encloses the quantile with
 * probability 95 %. */
ts_interval ts_quantile_interval(double *x, size_t n, double q)
{
    const double mid = ts_quantile(x, n, q);
    double       below = 0, above = 0;
    size_t       lo = 0, hi = n + 1;
    if (!n) return (ts_interval) { mid, mid, mid };
    while (lo < n && (below += chance_of(n, q, lo)) <= 0.025) lo++;
    while (hi > 1 && (above += chance_of(n, q, hi - 1)) <= 0.025) hi--;
    return (ts_interval) { mid, x[lo ? lo - 1 : 0], x[hi <= n ? hi - 1 : n - 1] };
}

ts_interval ts_median_interval(double *x, size_t n)
{
    return ts_quantile_interval(x, n, 0.5);
}

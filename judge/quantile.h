/* SPDX-License-Identifier: Apache-2.0 */
/* quantile.h - quantiles of noisy times, and how sure they are. */
#ifndef TS_QUANTILE_H
#define TS_QUANTILE_H

#include <stddef.h>

/* Sorts x. The quantile q in [0, 1] is interpolated; NaN of nothing. */
double ts_quantile(double *x, size_t n, double q);
double ts_median(double *x, size_t n);

typedef struct ts_interval {
    double mid, lo, hi;
} ts_interval;

/* A quantile with its 95 % interval from the order statistics: no distribution is assumed. Of the
 * median, below six values nothing narrower than the extremes can be said. Sorts x. */
ts_interval ts_quantile_interval(double *x, size_t n, double q);
ts_interval ts_median_interval(double *x, size_t n);

/* Of several calls, the time that counts: what disturbs a call only ever adds to it, and on a
 * machine that others use it disturbs more than half of them for seconds. */
#define TS_TIME_QUANTILE 0.25

#endif

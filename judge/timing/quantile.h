/* SPDX-License-Identifier: Apache-2.0 */
/* quantile.h - quantiles of noisy times, with confidence intervals. */
#ifndef TS_QUANTILE_H
#define TS_QUANTILE_H

#include <stddef.h>

/* Sorts x. The quantile q in [0, 1], interpolated; NaN if n is 0. */
double ts_quantile(double *x, size_t n, double q);
double ts_median(double *x, size_t n);

typedef struct ts_interval {
    double mid, lo, hi;
} ts_interval;

/* A quantile with its 95 % interval from order statistics, without assuming a distribution. For the
 * median of fewer than six values the interval is the range. Sorts x. */
ts_interval ts_quantile_interval(double *x, size_t n, double q);
ts_interval ts_median_interval(double *x, size_t n);

/* The quantile that counts as the time of several calls: disturbances only add time, and on a
 * shared machine they affect more than half of the calls for seconds. */
#define TS_TIME_QUANTILE 0.25

#endif

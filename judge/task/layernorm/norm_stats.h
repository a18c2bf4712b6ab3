/* SPDX-License-Identifier: Apache-2.0 */
/* norm_stats.h - mean and rstd of a row as the oracles of layer norm and of RMS norm have them. */
#ifndef TS_TASK_NORM_STATS_H
#define TS_TASK_NORM_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "real.h"
#include "touchstone/touchstone.h"

/* All NaN if the row contains a NaN or an infinity. Differences from the mean are computed at one
 * scale and squared at another: a row may have a large mean and a tiny variance. */
typedef struct ts_norm_stats {
    int     far, near;      /* exponents of the largest number, and of the largest distance */
    double  scale, stretch; /* 2^-far, and 2^(far - near) */
    ts_real mean, rstd;     /* of x scale, and of distances from that, times stretch */
    double  largest;        /* max |x|; 0 where every order of summation is exact */
} ts_norm_stats;

/* A row of n zeros, to be freed. */
double *ts_norm_new_row(int64_t n);

/* Not centred: the mean is taken for 0. */
ts_norm_stats ts_norm_stats_of(const double *x, int64_t n, double eps, bool centred);

ts_real ts_norm_xhat(const ts_norm_stats *s, double x);
double  ts_norm_mean(const ts_norm_stats *s);
double  ts_norm_rstd(const ts_norm_stats *s);

/* Equal powers of two add up without rounding, so nothing may be off because of a mean's. */
bool ts_norm_sums_exactly(const double *x, int64_t n);

/* ---- what leaves the range in which sums are kept, that of ts_wide(t) ---- */

/* Of a row of n with such a largest |x| and rstd: the sum of squares; squares and eps, 1 / rstd^2,
 * which are next to the smallest normal; or rstd^3, by which a gradient may multiply x. */
bool ts_norm_leaves_range(ts_dtype t, int64_t n, double largest, double rstd);
/* The same for a gradient b x + c: b has x rstd^3 as a factor, or what that is off. */
bool ts_norm_gradient_leaves_range(ts_dtype t, int64_t n, double largest, double rstd);
/* A sum of n such numbers, each times one of usual size; or eps, if n is 1. */
bool ts_norm_sum_leaves_range(ts_dtype t, int64_t n, double largest);

#endif

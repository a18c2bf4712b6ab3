/* SPDX-License-Identifier: Apache-2.0 */
/* norm.h - the norm of many floats over threads, and the factor that clips it. */
#ifndef TS_BASE_NORM_H
#define TS_BASE_NORM_H

#include <math.h>
#include <stdint.h>

#include "whole.h"

enum {
    TS_NORM_BLOCK = 1 << 14, /* whose squares one thread adds up into a part */
    TS_NORM_SMALL = 1 << 16, /* fewer are done before a second thread wakes up */
};

static inline int64_t ts_norm_parts(int64_t n)
{
    return ts_ceil_div(n, TS_NORM_BLOCK);
}

/* In double, with room for ts_norm_parts(n) parts, which are added in their order: no bit depends
 * on the number of threads. */
static inline double ts_norm(const float *x, int64_t n, double *part, int n_threads)
{
    const int64_t n_part = ts_norm_parts(n);
    double        sum = 0;
    if (n < TS_NORM_SMALL) n_threads = 1;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t b = 0; b < n_part; b++) {
        const int64_t end = ts_lesser((b + 1) * TS_NORM_BLOCK, n);
        double        s = 0;
        for (int64_t i = b * TS_NORM_BLOCK; i < end; i++) s += (double)x[i] * x[i];
        part[b] = s;
    }
    for (int64_t b = 0; b < n_part; b++) sum += part[b];
    return sqrt(sum);
}

/* What gradients are multiplied by; most 0: 1. */
static inline double ts_clip(double norm, double most)
{
    return most > 0 && norm > most ? most / norm : 1;
}

#endif

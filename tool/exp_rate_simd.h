/* SPDX-License-Identifier: Apache-2.0 */
/* exp_rate_simd.h - sums of exponentials, written once for any width of vector. Include it after
 * one of the vec_*.h. */
#ifndef TS_EXP_RATE_SIMD_H
#define TS_EXP_RATE_SIMD_H

#include "exp_rate.h"
#include "exp_simd.h"

static float in_float(const float *x, int64_t n)
{
    enum { SUMS = 4 };
    vec sum[SUMS];
    for (int k = 0; k < SUMS; k++) sum[k] = splat(0);
    for (int64_t i = 0; i < n; i += SUMS * LANES)
        for (int k = 0; k < SUMS; k++) sum[k] = add(sum[k], exp_of(get(x + i + k * LANES)));
    return total(add(add(sum[0], sum[1]), add(sum[2], sum[3])));
}

static double in_double(const float *x, int64_t n)
{
    return exp_sum(x, n, 0, 1);
}

const ts_exp_sums SIMD(ts_exp_sums) = { in_float, in_double };

#endif

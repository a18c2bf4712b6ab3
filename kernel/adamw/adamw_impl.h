/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_impl.h - implementations of adamw. Private. */
#ifndef TS_ADAMW_IMPL_H
#define TS_ADAMW_IMPL_H

#include <math.h>

#include "impl.h"
#include "touchstone/adamw.h"

extern const ts_impl ts_adamw_step_impls[];

TS_DECLARE_IMPLS(ts_adamw_step)

/* 1 - beta^step. Where beta^step is near 1 the plain difference would lose digits. */
static inline double ts_adamw_bias(double beta, int64_t step)
{
    return -expm1((double)step * log(beta));
}

/* Of the threaded ones: parameters from begin to end, with gradients times `scale`. */
typedef void (*ts_adamw_range)(const ts_adamw_step_args *a, double scale, int64_t begin,
                               int64_t end);

ts_status ts_adamw_step_threads(const ts_adamw_step_args *a, const ts_exec *x,
                                ts_adamw_range range);

#endif

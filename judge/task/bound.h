/* SPDX-License-Identifier: Apache-2.0 */
/* bound.h - parts of derived error bounds: with u the unit roundoff of accumulation, a sum of n
 * terms may err by ts_kappa(n) u sum|terms|, and an output by half a unit of storage. */
#ifndef TS_TASK_BOUND_H
#define TS_TASK_BOUND_H

#include <math.h>

#include "dtype.h"
#include "task.h"

static inline double ts_kappa(int64_t n)
{
    return 8 + 2 * sqrt((double)n);
}

/* A result below the smallest normal may be flushed; storing one errs by half its spacing. */
static inline ts_want ts_stored(double v, double error, ts_dtype t)
{
    const ts_format *f = ts_format_of(t);
    if (isnan(v)) return (ts_want) { NAN, 0 };
    return (ts_want) { v, error + f->u * fabs(v) + f->min_normal * f->u +
                              (fabs(v) < f->min_normal ? fabs(v) : 0) };
}

#endif

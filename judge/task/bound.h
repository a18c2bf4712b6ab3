/* SPDX-License-Identifier: Apache-2.0 */
/* bound.h - parts of derived error bounds: with u the unit roundoff of accumulation, a sum of n
 * terms may err by ts_kappa(n) u sum|terms|, and an output by half a unit of storage.
 *
 * That is the canon: roundings that are independent, as in lanes, pairs, blocks or with
 * compensation. By the common contract a sum may also be one loop in any order, with n - 1
 * roundings that may all go one way, as those of equal terms do: ts_kappa_any(n).
 *
 * Of many terms whose signs differ, that is more than the sum itself: it would accept a 0, or a sum
 * of some of them. Each rounding is of a partial sum, not of all magnitudes. Those of runs of
 * terms, be it one loop from either end, the parts of several threads or halves of halves, are
 * differences of two sums of first terms, and none exceeds their span: the sum errs by n u of it.
 * Sums of every k-th term are no such runs; but where an order says nothing of the terms, as that
 * of rows, their partial sums are no larger. The canon's bound comes on top: of terms of one sign
 * both together are ts_kappa_any(n), of others the span is some root of n of their size. */
#ifndef TS_TASK_BOUND_H
#define TS_TASK_BOUND_H

#include <math.h>

#include "dtype.h"
#include "task.h"

static inline double ts_kappa(int64_t n)
{
    return 8 + 2 * sqrt((double)n);
}

static inline double ts_kappa_any(int64_t n)
{
    return ts_kappa(n) + (double)n;
}

/* Of the sums of the first terms, from none to all. */
typedef struct ts_span {
    double sum, least, most;
} ts_span;

static inline void ts_span_add(ts_span *s, double term)
{
    s->sum += term;
    s->least = fmin(s->least, s->sum), s->most = fmax(s->most, s->sum);
}

static inline double ts_span_of(const ts_span *s)
{
    return s->most - s->least;
}

/* What a plain loop over n terms errs more than by the canon, if it begins with `had`. */
static inline double ts_plain_error(const ts_span *s, int64_t n, double had, double u)
{
    return (double)n * u * (fabs(had) + ts_span_of(s));
}

/* The rule of the canon that a plain sum breaks. */
#define TS_SUMS_RULE "the error of a sum of n terms grows as the root of n, not as n"

/* A result below the smallest normal may be flushed; storing one errs by half its spacing. */
static inline ts_want ts_stored(double v, double error, ts_dtype t)
{
    const ts_format *f = ts_format_of(t);
    if (isnan(v)) return (ts_want) { NAN, 0 };
    return (ts_want) { v, error + f->u * fabs(v) + f->min_normal * f->u +
                              (fabs(v) < f->min_normal ? fabs(v) : 0) };
}

#endif

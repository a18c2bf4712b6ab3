/* SPDX-License-Identifier: Apache-2.0 */
/* total.h - a compensated sum of doubles (Kahan), for reference implementations. */
#ifndef TS_BASE_TOTAL_H
#define TS_BASE_TOTAL_H

/* Each addition's rounding error is added to the next term. Otherwise the errors of equal terms add
 * up instead of cancelling, and a double ends many units off. */
typedef struct ts_total {
    double sum, lost;
} ts_total;

static inline void ts_total_add(ts_total *t, double term)
{
    const double x = term - t->lost, next = t->sum + x;
    t->lost = (next - t->sum) - x;
    t->sum = next;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* tally.h - the mean of all numbers so far: sum / n, in double. */
#ifndef TOUCHSTONE_TALLY_H
#define TOUCHSTONE_TALLY_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_tally {
    double  sum;
    int64_t n;
} ts_tally;

TS_API ts_status ts_tally_add(ts_tally *t, int64_t n, const float *x);
TS_API ts_status ts_tally_mean(const ts_tally *t, double *mean); /* none yet: TS_E_STATE */

#ifdef __cplusplus
}
#endif
#endif

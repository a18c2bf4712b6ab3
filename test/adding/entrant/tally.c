/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c - an entrant of tally. */
#include "touchstone/tally.h"

ts_status ts_tally_add(ts_tally *t, int64_t n, const float *x)
{
    for (int64_t i = 0; i < n; i++) t->sum += (double)x[i];
    t->n += n;
    return TS_OK;
}

ts_status ts_tally_mean(const ts_tally *t, double *mean)
{
    if (!t->n) return TS_E_STATE;
    *mean = t->sum / (double)t->n;
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c - the functions of tally, and their table: one implementation. */
#include "touchstone/tally.h"
#include "impl.h"

/* The functions do not differ by machine. */
static ts_status direct(const void *args, const ts_exec *x)
{
    (void)args, (void)x;
    return TS_OK;
}

extern const ts_impl ts_tally_impls[];
const ts_impl        ts_tally_impls[] = {
           { "ref", TS_CPU, 0, TS_HAS_F32, direct, NULL, NULL },
           { 0 },
};

ts_status ts_tally_add(ts_tally *t, int64_t n, const float *x)
{
    if (!t || n < 0 || (n && !x)) return TS_E_ARG;
    for (int64_t i = 0; i < n; i++) t->sum += (double)x[i];
    t->n += n;
    return TS_OK;
}

ts_status ts_tally_mean(const ts_tally *t, double *mean)
{
    if (!t || !mean) return TS_E_ARG;
    if (!t->n) return TS_E_STATE;
    *mean = t->sum / (double)t->n;
    return TS_OK;
}

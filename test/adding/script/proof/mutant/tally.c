/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c - tally with one injected bug at a time. */
#include "tally_script.h"

#include "mutant.h"

#define MUTANTS(X)                                                                                 \
    X(NONE, "tally_control", NONE, NULL)                                                           \
    X(FLOAT, "tally_float", VALUE, "offset")                                                       \
    X(READY, "tally_ready", VALUE, NULL)

typedef enum trap { MUTANTS(TRAP) N_TRAPS } trap;
static trap now;

static ts_status add(ts_tally *t, int64_t n, const float *x)
{
    for (int64_t i = 0; i < n; i++) t->sum += (double)x[i];
    if (now == FLOAT) t->sum = (double)(float)t->sum;
    t->n += n;
    return TS_OK;
}

static ts_status mean(const ts_tally *t, double *mean)
{
    if (!t->n) return now == READY ? TS_OK : TS_E_STATE;
    *mean = t->sum / (double)t->n;
    return TS_OK;
}

static const ts_tally_table table = { add, mean };

#define STEM  tally
#define TABLE ts_tally_table
#include "played.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* values.h - what mutants of single calls share: long double for correct arithmetic, how it is
 * rounded and stored, and the shares of threads. */
#ifndef TS_MUTANT_VALUES_H
#define TS_MUTANT_VALUES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "dtype.h"

typedef long double real;

/* Any NaN is stored as the plain one: a poison carried through a sum would look unwritten. */
static inline void put(void *p, ts_dtype t, int64_t i, real v)
{
    ts_store(p, t, i, isnan(v) ? (double)NAN : (double)v);
}

static inline real rounded(ts_dtype t, real v)
{
    double room;
    put(&room, t, 0, v);
    return ts_load(&room, t, 0);
}

/* The bf16 towards zero; of others the nearest. */
static inline real cut(ts_dtype t, real v)
{
    const real r = rounded(t, v);
    if (t != TS_BF16 || isnan(v) || isinf(v) || fabsl(r) <= fabsl(v)) return r;
    return ts_widen_bf16((uint16_t)(ts_narrow_bf16((double)v) - 1));
}

/* Whether the i-th of n is the first of another thread's share. */
static inline bool share_begins(int64_t i, int64_t n, const ts_exec *x)
{
    return i > 0 && i * x->n_threads / n != (i - 1) * x->n_threads / n;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.h - element sizes, limits, and conversion to and from double, for code that need not be
 * fast. Rounding is to nearest, ties to even, from double in one step. */
#ifndef TS_BASE_DTYPE_H
#define TS_BASE_DTYPE_H

#include "touchstone/touchstone.h"

typedef struct ts_format {
    const char *name;       /* "bf16" */
    size_t      n_bytes;    /* an element */
    double      u;          /* unit roundoff: half the spacing at 1 */
    double      min_normal; /* smallest normal */
    double      max;        /* largest finite */
} ts_format;

/* Floating dtypes only: TS_F32, TS_F64, TS_F16, TS_BF16. */
const ts_format *ts_format_of(ts_dtype t);

/* The dtype of statistics and parameter gradients that go with data of dtype t. */
static inline ts_dtype ts_wide(ts_dtype t)
{
    return t == TS_F64 ? TS_F64 : TS_F32;
}

double ts_load(const void *p, ts_dtype t, int64_t i);
void   ts_store(void *p, ts_dtype t, int64_t i, double v);

#endif

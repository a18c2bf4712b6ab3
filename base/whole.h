/* SPDX-License-Identifier: Apache-2.0 */
/* whole.h - minimum, maximum and rounded-up quotient of two integers. */
#ifndef TS_BASE_WHOLE_H
#define TS_BASE_WHOLE_H

#include <stdint.h>

static inline int64_t ts_lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t ts_greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Neither may be negative. */
static inline int64_t ts_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* doors.h - the library's API functions in a table. A function of the API takes its own args type;
 * one in the table takes const void *. */
#ifndef TS_DOORS_H
#define TS_DOORS_H

#include "challenges.h"
#include "touchstone/touchstone.h"

#define DOOR(function)                                                                             \
    static ts_status any_##function(const void *a, const ts_exec *x)                               \
    {                                                                                              \
        return function(a, x);                                                                     \
    }
#define QUERY(function)                                                                            \
    static ts_status any_##function(const void *a, const ts_exec *x, size_t *n)                    \
    {                                                                                              \
        return function(a, x, n);                                                                  \
    }

/* Declares the table of each challenge with a script. */
#define NO_DOORS(name)
#define DOORS(name) extern const void *const ts_##name##_doors;
TS_CHALLENGES(NO_DOORS, DOORS)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* entries.h - the library's API functions in a table. A function of the API takes its own args
 * type; one in the table takes const void *. */
#ifndef TS_ENTRIES_H
#define TS_ENTRIES_H

#include "challenges.h"
#include "touchstone/touchstone.h"

#define ENTRY(function)                                                                            \
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
#define NO_ENTRIES(name)
#define ENTRIES(name) extern const void *const ts_##name##_entries;
TS_CHALLENGES(NO_ENTRIES, ENTRIES)

#endif

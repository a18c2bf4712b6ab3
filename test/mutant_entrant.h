/* SPDX-License-Identifier: Apache-2.0 */
/* mutant_entrant.h - a mutant that runs scripts as a third-party shared library: its table, and
 * functions of the usual shape, which call those of the table. */
#include <stdlib.h>

#define TEXT(a)   #a
#define QUOTED(a) TEXT(a)

/* NAME_mutant(): the table of the mutant MUTANT, which is in proof/mutant/NAME.c. */
#define TABLE_OF(type, name)                                                                       \
    const type        *ts_##name##_mutant(const char *mutant);                                     \
    static const type *name##_mutant(void)                                                         \
    {                                                                                              \
        const type *t = ts_##name##_mutant(QUOTED(MUTANT));                                        \
        if (!t) abort();                                                                           \
        return t;                                                                                  \
    }

/* One of the usual shape, and its workspace query. */
#define CALL(stem, function, type, member)                                                         \
    ts_status function(const type *a, const ts_exec *x)                                            \
    {                                                                                              \
        return stem##_mutant()->member(a, x);                                                      \
    }
#define CALL_WORKSPACE(stem, function, type, member)                                               \
    ts_status function##_workspace(const type *a, const ts_exec *x, size_t *n)                     \
    {                                                                                              \
        return stem##_mutant()->member##_workspace(a, x, n);                                       \
    }

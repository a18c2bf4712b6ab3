/* SPDX-License-Identifier: Apache-2.0 */
/* confine.h - runs a trusted program on input that is not: the compiler on an entrant's sources. */
#ifndef TS_CONFINE_H
#define TS_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

/* What it and each of its children may take: memory, and the size of a file. */
enum { TS_CONFINED_GIB = 4, TS_CONFINED_MIB = 64 };

typedef struct ts_confined {
    unsigned guards;     /* TS_GUARD_* that held */
    int      status;     /* as waitpid gives it */
    bool     late;       /* ended for taking too long */
    double   cpu_s, gib; /* CPU time of it and its children; the most memory of one of them */
    char     said[8192]; /* the first of what it wrote; ends with 0 */
} ts_confined;

/* limit_s: of time, and of each process's CPU time. Runs argv with `cwd` as its folder; below
 * `folder` is all that it may write. False if no process could be made. Whatever it started is dead
 * on return. */
bool ts_confine(const char *folder, const char *cwd, const char *const *argv, int limit_s,
                ts_confined *c);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* confine.h - runs a trusted program on untrusted input: the compiler on an entrant's sources. */
#ifndef TS_CONFINE_H
#define TS_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

/* Limits for it and each of its children: memory, and file size. */
enum { TS_CONFINED_GIB = 4, TS_CONFINED_MIB = 64 };

typedef struct ts_confined {
    unsigned guards;      /* TS_GUARD_* in effect */
    int      status;      /* as waitpid gives it */
    bool     late;        /* killed at the time limit */
    bool     starved;     /* then, and had got less than half of the limit in CPU time */
    bool   out_of_memory; /* the machine killed a process for want of memory; or that is unknown */
    double cpu_s, gib;    /* CPU time with its children; peak memory of any one of them */
    char   said[8192];    /* the beginning of its output, 0-terminated */
} ts_confined;

/* Runs argv in `cwd`; it may write below `folder` only. limit_s limits wall time, and each
 * process's CPU time. False if it could not be started or confined, which is no fault of its input:
 * `said` then has the step and the system's error. On return everything that it started is dead. */
bool ts_confine(const char *folder, const char *cwd, const char *const *argv, int limit_s,
                ts_confined *c);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - the arguments of judge/cage/probe.c, an entrant of the project that attempts what no
 * entrant may do. */
#ifndef TS_PROBE_H
#define TS_PROBE_H

#include "touchstone/touchstone.h"

enum {
    TS_PROBE_NOTHING,
    TS_PROBE_RIGHT,     /* y = 2 x, z = 3 x */
    TS_PROBE_PARALLEL,  /* the same with j_parallel_for */
    TS_PROBE_WORKSPACE, /* the same through the workspace, of which every byte is used */
    TS_PROBE_WORKSPACE_PAST,
    TS_PROBE_WORKSPACE_BEFORE,
    TS_PROBE_OPEN,
    TS_PROBE_WRITE_FILE,
    TS_PROBE_TIME, /* by a system call */
    TS_PROBE_TSC,
    TS_PROBE_SLEEP, /* a futex with a time limit, which is a clock */
    TS_PROBE_SOCKET,
    TS_PROBE_FORK,
    TS_PROBE_THREAD,
    TS_PROBE_EXEC,
    TS_PROBE_KILL,     /* its parent */
    TS_PROBE_PEEK,     /* into its parent's memory */
    TS_PROBE_AFFINITY, /* onto all cores */
    TS_PROBE_WRITE_INPUT,
    TS_PROBE_REMAP_INPUT,  /* mprotect, then write */
    TS_PROBE_READ_PAST,    /* x[n] */
    TS_PROBE_READ_BEFORE,  /* z[-1]: z begins at a page boundary */
    TS_PROBE_WRITE_PAST,   /* z[n]: into the band */
    TS_PROBE_WRITE_BEFORE, /* y[-1]: into the band */
    TS_PROBE_EXIT,
    TS_PROBE_NULL,
    TS_PROBE_DIVIDE, /* by 0 */
    TS_PROBE_TRAP,   /* the instruction that compilers emit for unreachable code */
    TS_PROBE_DEEP,   /* infinite recursion */
    TS_PROBE_HANG,
    TS_PROBE_LATE,       /* a pool thread continues after done */
    TS_PROBE_LURK,       /* the same, but it only reads */
    TS_PROBE_LURK_41,    /* from the 41st call of a process on */
    TS_PROBE_FORGE,      /* reports done first, then computes */
    TS_PROBE_HEAD_START, /* poses as the runner, and computes before it reports ready */
    TS_PROBE_FLUSH,      /* subnormals to zero */
    TS_PROBE_FLOOD,      /* standard error */
    TS_PROBE_MEMORY,
    TS_PROBE_MEMFD, /* a file in memory */
    TS_N_PROBES
};

typedef struct ts_probe_args {
    int64_t      what; /* TS_PROBE_* */
    int64_t      n;
    const float *x;     /* [n] */
    float       *y, *z; /* [n] */
} ts_probe_args;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* sitting.h - one challenge being timed: shared by workload.c, sitting.c and times.c. */
#ifndef TS_SITTING_H
#define TS_SITTING_H

#include "ahead.h"
#include "court.h"
#include "hostile.h"

/* How much is timed on a device at a depth. */
typedef struct ts_timing {
    int    instances;
    double least, most; /* bytes of a workload */
    int    workloads;
    int    hostile; /* calls of a workload with other contents, which are not timed */
} ts_timing;

const ts_timing *ts_timing_of(const ts_court *c);

/* Who does nothing, to be timed with the others of a class: what is then measured is the judge. */
enum { IDLE_HOST, IDLE_PYTHON, N_IDLE };

typedef struct ts_sitting {
    ts_court      *court;
    const ts_task *task;
    int            n, n_workloads, n_instances;
    ts_judged     *e[TS_MOST_ENTRANTS];
    const ts_case *workload[TS_WORKLOADS];
    int            number[TS_WORKLOADS];
    double         gbs[TS_WORKLOADS];        /* of as many bytes as it has, seen before and after */
    double         work;                     /* of the whole sitting, up to now */
    double         none_bytes[TS_N_CLASSES]; /* a process with nobody in it; 0: not asked yet */
    /* Of the workload at hand. */
    int       w, n_turns;
    int       turn[TS_INSTANCES + TS_HOSTILE]; /* the instance that is timed, or HOSTILE - i */
    int       n_hostile, n_others;             /* calls; cases */
    ts_case   other[TS_HOSTILE];
    ts_ahead *ahead; /* its instances */
    ts_cage  *idle[N_IDLE];
    double    idle_ns[N_IDLE][TS_INSTANCES];
    double    free_ns[TS_MOST_ENTRANTS + N_IDLE]
                  [TS_INSTANCES]; /* of the idle ones behind the others */
} ts_sitting;

/* What an entrant does not offer it is not timed in. */
static inline bool ts_is_timed(const ts_sitting *s, const ts_judged *e, int w)
{
    return ts_scope_takes(&e->scope, s->task, s->workload[w]);
}

/* The judge's clock has launches and waiting in it, and the first kernel's start. Of a sealed
 * entrant it is the device's own. */
static inline bool ts_has_idle(const ts_sitting *s, ts_class cls)
{
    return s->court->device == TS_CUDA && cls != TS_GPU_SEALED;
}

/* Writes the times of those who were timed to the log, counts their memory, and puts whoever is
 * faster than can be under audit. */
bool ts_sitting_log(const ts_sitting *s);

#endif

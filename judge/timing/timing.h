/* SPDX-License-Identifier: Apache-2.0 */
/* timing.h - one challenge being timed; private to workload.c, timing.c, times.c and
 * anchor.c. */
#ifndef TS_TIMING_H
#define TS_TIMING_H

#include "ahead.h"
#include "hostile.h"
#include "run.h"

/* Amount of timing on a device at a depth. */
typedef struct ts_timing_rule {
    int    instances;
    double least, most; /* bytes of a workload */
    int    workloads;
    int    hostile; /* untimed calls of a workload, with other contents */
} ts_timing_rule;

const ts_timing_rule *ts_timing_rule_of(const ts_run *c);

/* Entrants without code, timed like those of their class: they measure the judge's overhead. */
enum { IDLE_HOST, IDLE_PYTHON, N_IDLE };

typedef struct ts_timing {
    ts_run        *run;
    const ts_task *task;
    int            n, n_entrants, n_workloads, n_instances; /* n: with the anchors, which follow */
    ts_judged     *e[TS_MOST_ENTRANTS];
    const ts_case *workload[TS_WORKLOADS]; /* NULL: not for these entrants */
    int            number[TS_WORKLOADS];
    double         gbs[TS_WORKLOADS]; /* bandwidth for its bytes, measured before and after */
    double         work;              /* of the whole run, so far */
    double
        none_bytes[TS_N_CLASSES]; /* memory of a process without an entrant; 0: not measured yet */
    /* The current workload. */
    int       w, n_turns;
    int       turn[TS_INSTANCES + TS_HOSTILE]; /* the timed instance, or HOSTILE - i */
    int       n_hostile, n_others;             /* calls; cases */
    ts_case   other[TS_HOSTILE];
    ts_ahead *ahead; /* its instances */
    ts_cage  *idle[N_IDLE];
    double    idle_ns[N_IDLE][TS_INSTANCES];
    double    free_ns[TS_MOST_ENTRANTS + N_IDLE][TS_INSTANCES]; /* the empty entrants come last */
    int       n_away[TS_MOST_ENTRANTS]; /* timed calls before which the judge lost its core */
} ts_timing;

/* Whether the workload is in the entrant's scope. */
static inline bool ts_is_timed(const ts_timing *s, const ts_judged *e, int w)
{
    return s->workload[w] && ts_scope_takes(&e->scope, s->task, s->workload[w]);
}

/* Whether the time includes launch and wait overhead, as the judge's clock does. A sealed entrant
 * is timed by the device's clock. */
static inline bool ts_has_idle(const ts_timing *s, ts_class cls)
{
    return s->run->device == TS_CUDA && cls != TS_GPU_SEALED;
}

/* Adds the anchors that the entrants of this challenge need. */
void ts_anchors_enter(ts_timing *s);
/* Whether an anchor is not called for this instance. */
bool ts_anchor_skips(const ts_timing *s, const ts_judged *e, int instance);
bool ts_anchors_log(ts_timing *s);

/* Logs the times of the entrants that were timed, sums up their memory, and records those that are
 * faster than the floor. */
bool ts_timing_log(const ts_timing *s);

#endif

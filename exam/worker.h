/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - a process that runs one implementation, so that a crash or a hang is a flaw of that
 * implementation and not the end of the run. The examiner sends it orders; each backend carries
 * them out in its own way. */
#ifndef TS_WORKER_H
#define TS_WORKER_H

#include "arena.h"
#include "task.h"

/* One implementation of one task, as the examiner calls it. */
typedef struct ts_function {
    const char     *name;
    ts_device       device;
    unsigned        dtypes; /* TS_HAS_* */
    unsigned        mask;   /* CPU features it may see */
    ts_run_fn       run;
    ts_workspace_fn workspace;  /* NULL: needs none */
    bool            any_order;  /* called without `deterministic` */
    bool            one_thread; /* does not use more: is run with fewer thread counts */
} ts_function;

typedef enum ts_verb {
    TS_LOAD,  /* point the args at this case's memory, on the function's device */
    TS_RUN,   /* one call */
    TS_TIME,  /* one call with cold caches and the clock on */
    TS_STORE, /* make the outputs visible to the examiner; later TS_TIMEs are compared with them */
    TS_DROP,  /* forget the case */
    TS_PROBE, /* describe the device */
    TS_CEILING, /* time one pass of a memory ceiling over the loaded case's size */
} ts_verb;

/* TS_SOUND: no way. Without args, without exec, and without a place for the workspace's size.
 * TS_NO_EMPTY: what has no elements is NULL, which is no less sound. */
enum { TS_SOUND = -1, TS_NO_ARGS = -2, TS_NO_EXEC = -3, TS_NO_SIZE = -4, TS_NO_EMPTY = -5 };

typedef struct ts_order {
    ts_verb        verb;
    const ts_task *task;
    int            n_threads;
    int            spoil;   /* TS_RUN: break the args in this way first; or TS_SOUND, TS_NO_* */
    int            ceiling; /* TS_CEILING: one of TS_CEILING_* */
    int            limit_ms;
} ts_order;

enum { TS_CEILING_COPY, TS_CEILING_COPY_PLAIN, TS_CEILING_READ, TS_N_CEILINGS };

typedef struct ts_reply {
    ts_status status;  /* that the function returned */
    ts_status must;    /* with spoil: what the task says it must be */
    bool      none;    /* with spoil: there is no such way */
    double    ns;      /* TS_TIME, TS_CEILING */
    double    bytes;   /* TS_CEILING: bytes read and written */
    bool      changed; /* TS_TIME: the outputs are not those that were stored */
    size_t    workspace_bytes;
    uintptr_t workspace_end; /* where a dead page begins; 0: none */
    char      text[256];     /* TS_PROBE; or what the device's runtime complained of */
    bool      broken; /* the worker could not do its part (no device, no memory): not the function's
                         fault */
    ts_flaw flaw;     /* what the worker itself saw */
} ts_reply;

typedef struct ts_worker ts_worker;

ts_worker         *ts_worker_start(const ts_function *e, const ts_arena *m);
void               ts_worker_stop(ts_worker **w);
const ts_function *ts_worker_function(const ts_worker *w);

/* False when the worker died or ran out of time; *reply.flaw then says how, and the next order is
 * given to a fresh worker. */
bool ts_worker_order(ts_worker *w, ts_order o, ts_reply *reply);

#endif

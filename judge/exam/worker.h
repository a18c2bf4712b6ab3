/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - a process that runs one implementation, so that a crash or a hang is a flaw of that
 * implementation and does not end the run.
 *
 * The examiner sends it orders; each backend implements them. */
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

/* TS_SOUND: a valid call. TS_NO_ARGS, TS_NO_EXEC, TS_NO_SIZE: without args, without exec, without a
 * pointer for the workspace's size. TS_NO_EMPTY: valid, with NULL for buffers without elements. */
enum { TS_SOUND = -1, TS_NO_ARGS = -2, TS_NO_EXEC = -3, TS_NO_SIZE = -4, TS_NO_EMPTY = -5 };

typedef struct ts_order {
    ts_verb        verb;
    const ts_task *task;
    int            n_threads;
    int            spoil;   /* TS_RUN: number of the invalid call to make; or TS_SOUND, TS_NO_* */
    int            ceiling; /* TS_CEILING: one of TS_CEILING_* */
    int            limit_ms;
} ts_order;

enum { TS_CEILING_COPY, TS_CEILING_COPY_PLAIN, TS_CEILING_READ, TS_N_CEILINGS };

typedef struct ts_reply {
    ts_status status;  /* that the function returned */
    ts_status must;    /* with spoil: the status that the task requires */
    bool      none;    /* with spoil: there is no such invalid call */
    double    ns;      /* TS_TIME, TS_CEILING */
    double    bytes;   /* TS_CEILING: bytes read and written */
    bool      changed; /* TS_TIME: the outputs are not those that were stored */
    size_t    workspace_bytes;
    uintptr_t workspace_begin, workspace_end; /* guards end and begin there; 0: none */
    char      text[256]; /* TS_PROBE; or an error message of the device's runtime */
    bool broken;  /* the worker could not run the case (no device, no memory): not the function's
                     fault */
    ts_flaw flaw; /* the flaw that the worker detected */
} ts_reply;

typedef struct ts_worker ts_worker;

ts_worker         *ts_worker_start(const ts_function *e, const ts_arena *m);
void               ts_worker_stop(ts_worker **w);
const ts_function *ts_worker_function(const ts_worker *w);

/* False if the worker died or exceeded the time limit: reply->flaw describes it, and the next order
 * goes to a new worker. */
bool ts_worker_order(ts_worker *w, ts_order o, ts_reply *reply);

#endif

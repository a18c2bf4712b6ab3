/* SPDX-License-Identifier: Apache-2.0 */
/* backend.h - how a worker carries out each verb on its device. Private to exam/; runs in the
 * worker. */
#ifndef TS_BACKEND_H
#define TS_BACKEND_H

#include "worker.h"

typedef struct ts_session {
    const ts_function *function;
    const ts_arena    *arena;      /* a copy made when the case was loaded */
    unsigned char      args[1024]; /* the case's args, with pointers to this device */
    ts_exec            exec;
    ts_reply          *reply;
} ts_session;

typedef struct ts_backend {
    void (*load)(ts_session *s, const ts_order *o);
    void (*run)(ts_session *s, const ts_order *o); /* TS_RUN and TS_TIME */
    void (*store)(ts_session *s);
    void (*drop)(ts_session *s);
    void (*probe)(ts_session *s);
    void (*ceiling)(ts_session *s, const ts_order *o);
} ts_backend;

extern const ts_backend ts_backend_cpu, ts_backend_cuda;

/* Queries the function for the size of its workspace, with the args of the order's call. */
void ts_session_workspace(ts_session *s, const ts_order *o);
/* Calls the function, after spoiling the args if the order says so. */
void ts_session_call(ts_session *s, const ts_order *o);

#endif

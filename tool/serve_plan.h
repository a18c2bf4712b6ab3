/* SPDX-License-Identifier: Apache-2.0 */
/* serve_plan.h - the options of `touchstone serve`. */
#ifndef TS_TOOL_SERVE_PLAN_H
#define TS_TOOL_SERVE_PLAN_H

#include "model_options.h"

typedef struct ts_serve_plan {
    ts_model_plan m;
    const char *template, *host, *name, *key_file;
    int64_t port, n_seq, n_wait, n_keep;
    int64_t context, cache, n_new; /* 0: default */
    int64_t n_body;                /* KiB */
    double  request_s, receive_s, drain_s;
    int     store;  /* a ts_dtype; below 0: as the arithmetic */
    bool    seeded; /* else the seed is drawn at the start */
    bool    quiet;
} ts_serve_plan;

/* Loads, serves until a signal, and reports; returns an exit status. */
int ts_serve_run(const ts_serve_plan *p);

#endif

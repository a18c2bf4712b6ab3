/* SPDX-License-Identifier: Apache-2.0 */
/* serve_plan.h - the options of `touchstone serve`. */
#ifndef TS_TOOL_SERVE_PLAN_H
#define TS_TOOL_SERVE_PLAN_H

#include "model_options.h"

typedef struct ts_serve_plan {
    const char *model, *tokenizer, *template, *host, *name, *key_file, *json;
    uint64_t port, context, n_seq, n_wait, n_keep, cache, chunk, n_new, n_threads; /* 0: default */
    uint64_t n_body;                                                               /* KiB */
    uint64_t seed;               /* TS_UNSET: drawn at the start */
    uint64_t top_k;              /* TS_UNSET: the model's */
    double   temperature, top_p; /* below 0: the model's */
    double   request_s, receive_s, drain_s;
    const char *exact; /* an option that was given, or NULL */
    ts_dtype    dtype, store;
    ts_device   device;
    bool        quiet;
} ts_serve_plan;

/* Loads, serves until a signal, and reports; returns an exit status. */
int ts_serve_run(const ts_serve_plan *p);

#endif

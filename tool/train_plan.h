/* SPDX-License-Identifier: Apache-2.0 */
/* train_plan.h - the options of `touchstone train`. */
#ifndef TS_TOOL_TRAIN_PLAN_H
#define TS_TOOL_TRAIN_PLAN_H

#include "model_options.h"

typedef struct ts_train_plan {
    const char *data, *out, *svg, *json;
    int64_t     n_layer, width, n_head, n_kv_head, head_dim, n_ffn, n_vocab;
    int64_t     n_step, n_batch, n_accumulate, length, eval_every, patience;
    uint64_t    seed;
    double      lr, weight_decay;
    bool        ternary, resume;
    int         paired; /* --group 256 */
    int         gguf;   /* also written */
    ts_device   device;
    int         dtype; /* a ts_dtype */
} ts_train_plan;

/* Plots the curves of log.jsonl; on failure prints one line on standard error. */
bool ts_train_svg(const char *log, const char *title, const char *path);

/* Reads, trains and reports; returns an exit status. */
int ts_train_text(const ts_train_plan *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.h - the options of `touchstone evaluate`. */
#ifndef TS_TOOL_EVALUATE_H
#define TS_TOOL_EVALUATE_H

#include "model_options.h"

typedef struct ts_evaluate_plan {
    const char *model, *tokenizer, *text, *json;
    uint64_t    context, stride; /* 0: the default */
    uint64_t    chunk, n_threads;
    ts_dtype    dtype;
    ts_device   device;
    const char *exact; /* an option that was given, or NULL */
} ts_evaluate_plan;

/* Loads, evaluates and reports; returns an exit status. */
int ts_evaluate_text(const ts_evaluate_plan *p);

#endif

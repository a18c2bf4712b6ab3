/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.h - the options of `touchstone evaluate`. */
#ifndef TS_TOOL_EVALUATE_H
#define TS_TOOL_EVALUATE_H

#include "model_options.h"

typedef struct ts_evaluate_plan {
    ts_model_plan m;
    const char   *text;
    int64_t       context, stride; /* 0: the default */
} ts_evaluate_plan;

/* Loads, evaluates and reports; returns an exit status. */
int ts_evaluate_text(const ts_evaluate_plan *p);

#endif

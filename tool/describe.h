/* SPDX-License-Identifier: Apache-2.0 */
/* describe.h - a challenge in words, derived from its task: for prompts and starters. */
#ifndef TS_TOOL_DESCRIBE_H
#define TS_TOOL_DESCRIBE_H

#include <stdio.h>

#include "task.h"

/* What the calls of a TS_PLAIN task are given, seen by laying out its small cases. */
typedef struct ts_arguments {
    bool absent[TS_MAX_NAMES];   /* a buffer that some calls do not have */
    bool in_place[TS_MAX_NAMES]; /* an input that some calls give as an output to overwrite */
    bool accumulates;            /* some calls add to an output */
    int  n_cases;
} ts_arguments;

bool ts_arguments_of(const ts_task *t, ts_arguments *a); /* false: no memory */

/* "softmax_topk(logits, k, inv_temperature, out)", and the rest of a Python def with its colon. */
void ts_python_signature(const ts_task *t, const ts_arguments *a, char *text, size_t n);
/* A table of the arguments in Markdown. */
void ts_python_arguments(const ts_task *t, const ts_arguments *a, FILE *f);

/* How a case is named, and a table of its dimensions. */
void ts_case_names(const ts_task *t, FILE *f);
/* The cases that the judge times on a device, with the depths, as a list in Markdown. */
void ts_timed_cases(const ts_task *t, ts_device d, FILE *f);

/* One call of the library on a small case, with all that goes in and comes out; false: none. */
bool ts_worked_example(const ts_task *t, FILE *f);

#endif

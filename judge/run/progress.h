/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - a status line with the current step and the remaining time, on terminals only. */
#ifndef TS_PROGRESS_H
#define TS_PROGRESS_H

#include <stdio.h>

#include "evidence.h"

typedef struct ts_progress {
    FILE  *to;           /* NULL: quiet */
    double all, done;    /* work, in seconds on a reference machine */
    double begun, shown; /* when */
    char   stage[80];
} ts_progress;

/* Estimated work of one case: drawing inputs, computing the expected outputs, and checking. */
double ts_work_of(const ts_task *t, const ts_case *c);

void ts_progress_begin(ts_progress *p, double all);
void ts_progress_stage(ts_progress *p, const char *what, const char *who, const char *where);
void ts_progress_reach(ts_progress *p, double done); /* raises the work done to this */
void ts_progress_clear(ts_progress *p);              /* before other output, and at the end */
/* A line for a verdict, with its cases; sample: NULL or "" if there is only one. */
void ts_progress_verdict(ts_progress *p, const char *who, const char *sample, const char *where,
                         const char *ruling, const char *reason, const ts_evidence *v);

#endif

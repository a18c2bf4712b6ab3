/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - one line on a terminal: what the judge is at, and how long the rest will take.
 * Elsewhere nothing. */
#ifndef TS_PROGRESS_H
#define TS_PROGRESS_H

#include <stdio.h>

#include "task.h"

typedef struct ts_progress {
    FILE  *to;           /* NULL: quiet */
    double all, done;    /* work, in seconds of some machine */
    double begun, shown; /* when */
    char   stage[80];
} ts_progress;

/* Of one case, roughly: to draw it, to work out its answer, and to look at another's. */
double ts_work_of(const ts_task *t, const ts_case *c);

void ts_progress_begin(ts_progress *p, double all);
void ts_progress_stage(ts_progress *p, const char *what, const char *who, const char *where);
void ts_progress_reach(ts_progress *p, double done); /* so much of all, if it is more than before */
void ts_progress_clear(ts_progress *p); /* before somebody else writes, and at the end */

#endif

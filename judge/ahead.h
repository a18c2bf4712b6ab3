/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.h - questions made before they are asked. Drawing inputs and working out the answers takes
 * far longer than most entrants do, so it is done for several cases at once, on all cores, while no
 * entrant runs; what is then asked is copied. Who made a question, and when, changes no bit of it.
 */
#ifndef TS_AHEAD_H
#define TS_AHEAD_H

#include "examine.h"

/* work(i, of) for every i below n, on all of the judge's cores; returns when all is done. */
void ts_spread(int n, void (*work)(int i, void *of), void *of);

typedef struct ts_question {
    const ts_case *c;
    uint64_t       seed;
} ts_question;

typedef struct ts_ahead ts_ahead;

ts_ahead *ts_ahead_open(const ts_task *t, const ts_question *q, int n);
/* Question i, and the others of its group, until one beyond them is asked for. Not backwards. Where
 * it is not made yet, the next ones are: as many as memory has room for. */
const ts_exam *ts_ahead_at(ts_ahead *a, int i);
void           ts_ahead_close(ts_ahead **a);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.h - cases prepared before they are run.
 *
 * Drawing inputs and computing the expected outputs takes far longer than most entrants take, so
 * several cases are prepared at once, on all cores, while no entrant runs, and copied later. The
 * bits of a case do not depend on when or on which core it is prepared. */
#ifndef TS_AHEAD_H
#define TS_AHEAD_H

#include "examine.h"

typedef struct ts_question {
    const ts_case *c;
    uint64_t       seed;
} ts_question;

typedef struct ts_ahead ts_ahead;

ts_ahead *ts_ahead_open(const ts_task *t, const ts_question *q, int n);
/* Case i. It and its group stay valid until a later group is requested; i must not decrease. If the
 * case is not prepared yet, prepares it and as many of the next ones as fit in memory. */
const ts_exam *ts_ahead_at(ts_ahead *a, int i);
void           ts_ahead_close(ts_ahead **a);

#endif

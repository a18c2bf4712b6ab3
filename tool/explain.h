/* SPDX-License-Identifier: Apache-2.0 */
/* explain.h - what a verdict of `touchstone judge` leaves unsaid. */
#ifndef TS_EXPLAIN_H
#define TS_EXPLAIN_H

#include "run.h"

/* One line to standard error for each C entrant of class host that was rejected because it calls
 * j_parallel_for: what made it class host. */
void ts_explain(const ts_run *c);

#endif

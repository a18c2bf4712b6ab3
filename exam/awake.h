/* SPDX-License-Identifier: Apache-2.0 */
/* awake.h - cores that are running when a timed call begins. Needs _GNU_SOURCE. */
#ifndef TS_AWAKE_H
#define TS_AWAKE_H

#include <sched.h>

/* An idle core sleeps. In a virtual machine it is then given to others, and may come back three
 * milliseconds after it is called: of fifteen threads that were to begin together one nearly always
 * comes too late. So, from begin until shortly after go, every core of the set has a thread of ours
 * that spins, and makes way for any other; begin returns when all of them have been seen to run.
 * Threads are made once, and sleep between calls. */
void ts_awake_begin(const cpu_set_t *cores);
void ts_awake_go(void);  /* the timed call begins */
void ts_awake_end(void); /* it is over */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* awake.h - keeps cores awake for the start of a timed call. Needs _GNU_SOURCE. */
#ifndef TS_AWAKE_H
#define TS_AWAKE_H

#include <sched.h>

/* An idle core sleeps. In a virtual machine the hypervisor then lends it to other guests, and it
 * may take three milliseconds to wake: of fifteen threads that should start together, one is nearly
 * always late. So from begin until shortly after go, every core of the set runs a spinning thread
 * that yields to any other; begin returns when all of them run. The threads are created once, and
 * sleep between calls. */
void ts_awake_begin(const cpu_set_t *cores);
void ts_awake_go(void);  /* the timed call begins */
void ts_awake_end(void); /* the timed call has ended */

#endif

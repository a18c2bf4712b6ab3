/* SPDX-License-Identifier: Apache-2.0 */
/* apart.h - a process's threads on other cores than the one that calls. Needs _GNU_SOURCE. */
#ifndef TS_APART_H
#define TS_APART_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

/* Before a timed call. Threads that are woken together are often put on one core, and left there
 * for milliseconds: of two threads on two cores half of all calls then take twice as long, and of
 * fifteen some take ten times as long. So every thread but the first gets one core, another than
 * the first was on last, and no two the same while there are enough. */

/* What was done last, all 0 at first: without a change nothing is done again. */
typedef struct ts_spread {
    int core, n_threads;
} ts_spread;

/* The first thread stays free, since those that it makes are allowed where it is: it wakes where it
 * was. For a process that is frozen. False: the system refuses. */
bool ts_threads_spread(pid_t pid, ts_spread *last);

/* The first thread keeps its core too. False: there is one core only, or the system refuses. Else
 * `was` is where the process might run. */
bool ts_threads_apart(pid_t pid, cpu_set_t *was);

/* After it: the first thread, and whatever it makes, may run anywhere again. */
void ts_threads_free(pid_t pid, const cpu_set_t *was);

#endif

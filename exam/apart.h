/* SPDX-License-Identifier: Apache-2.0 */
/* apart.h - a process's threads on other cores than the one that calls. Needs _GNU_SOURCE. */
#ifndef TS_APART_H
#define TS_APART_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

/* Before a timed call: the first thread of the process keeps the core that it is on, and the others
 * get the rest. Left to itself the system may wake a pool's thread on the caller's core and leave
 * it there for milliseconds: of two threads on two cores, half of all calls then take twice as
 * long. False: there is one core only, or the system refuses. Else `was` is where the process might
 * run. */
bool ts_threads_apart(pid_t pid, cpu_set_t *was);

/* After it: the first thread, and whatever it makes, may run anywhere again. */
void ts_threads_free(pid_t pid, const cpu_set_t *was);

#endif

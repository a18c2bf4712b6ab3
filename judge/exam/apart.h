/* SPDX-License-Identifier: Apache-2.0 */
/* apart.h - moves a process's threads to cores other than its first's. Needs _GNU_SOURCE. */
#ifndef TS_APART_H
#define TS_APART_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

/* Used before a timed call. Linux often puts threads that are woken together on one core and leaves
 * them there for milliseconds: with two threads on two cores half of all calls then take twice as
 * long, and with fifteen some take ten times as long. So every thread but the first gets one core,
 * not that of the first, and no two share one while there are enough. */

/* The last placement, initially all 0: an unchanged one is not repeated. */
typedef struct ts_spread {
    int core, n_threads;
} ts_spread;

/* For a frozen process. The first thread is not pinned, since new threads inherit its affinity: it
 * wakes where it last ran. False if the system refuses. */
bool ts_threads_spread(pid_t pid, ts_spread *last);

/* Also pins the first thread to its core. False if there is only one core, or the system refuses;
 * otherwise `was` is the previous affinity. */
bool ts_threads_apart(pid_t pid, cpu_set_t *was);

/* The next core of `may` after `last`, from the beginning again after the end; not `except`. -1:
 * there is none. */
int ts_core_after(int last, int except, const cpu_set_t *may);

/* Undoes it: the first thread, and threads that it creates, may run anywhere again. */
void ts_threads_free(pid_t pid, const cpu_set_t *was);

#endif

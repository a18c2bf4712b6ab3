/* SPDX-License-Identifier: Apache-2.0 */
/* cores.h - the judge's own work on all cores, while no entrant runs. Needs _GNU_SOURCE. */
#ifndef TS_CORES_H
#define TS_CORES_H

#include <sched.h>

/* The cores to use; until then, those of the caller. */
void ts_cores_use(const cpu_set_t *cores);
int  ts_cores_count(void); /* how many */

/* Calls work(i, of) for i in [0, n), each in some thread, and waits. */
void ts_on_all_cores(int n, void (*work)(int i, void *of), void *of);

#endif

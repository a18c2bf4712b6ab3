/* SPDX-License-Identifier: Apache-2.0 */
/* cores.h - the cores that the judge may use while no entrant runs. Needs _GNU_SOURCE. */
#ifndef TS_CORES_H
#define TS_CORES_H

#include <sched.h>

void ts_judge_cores(cpu_set_t *cores); /* as they were before it pinned itself to one */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* selfcheck.h - tests what this machine guarantees. */
#ifndef TS_SELFCHECK_H
#define TS_SELFCHECK_H

#include "cage.h"

/* A task for touchstone-probe.so, which makes the attempt dim[0], a TS_PROBE_*, on dim[1] elements;
 * with dim[2], z is in and out. */
extern const ts_task ts_task_probe;
/* For ts_cage_plan.seed: x and y end at the guard, z begins at it. */
uint64_t ts_probe_seed(const ts_case *c);

/* Attempts, from inside a cage, everything that must fail. Also measures how much time a correct
 * entrant uses outside its calls, so that head starts are charged and detected: run it before
 * judging. False if not even a correct entrant runs. */
bool ts_guarantee_all(ts_guarantees *g);

/* Does so in class host-gpu, if there is a device. */
void ts_guarantee_device(ts_guarantees *g);

/* Names of the TS_HELD_* bits in `lacks` that a cage needs: "seccomp, landlock". */
void ts_held_names(unsigned lacks, char *text, size_t n);

/* Adds the device's guarantees, with measurements; the badge goes from full to reduced if one
 * fails. Each trial runs in its own processes, which may fault or hang; this process never loads
 * the driver. */
void ts_fact_all(ts_guarantees *g);

#endif

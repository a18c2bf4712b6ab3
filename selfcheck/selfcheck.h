/* SPDX-License-Identifier: Apache-2.0 */
/* selfcheck.h - what this machine guarantees, found by trying. */
#ifndef TS_SELFCHECK_H
#define TS_SELFCHECK_H

#include "cage.h"

/* Asked of touchstone-probe.so, which tries what dim[0], a TS_PROBE_*, says on dim[1] elements;
 * with dim[2], z is in and out. */
extern const ts_task ts_task_probe;

/* Tries, from inside, all that must not work; and learns how much time an honest entrant takes
 * besides its calls, so that head starts are timed, and seen the sooner: run it before judging.
 * False: not even a right entrant can be run. */
bool ts_guarantee_all(ts_guarantees *g);

/* The same in the class with host code on a device, where there is one. */
void ts_guarantee_device(ts_guarantees *g);

/* "seccomp, landlock": what of TS_HELD_* is in there, of what a cage needs. */
void ts_held_names(unsigned lacks, char *text, size_t n);

/* Adds a guarantee for every fact, with what was measured, to those of the machine; a full badge
 * becomes a reduced one if one of them does not hold. Each trial runs in processes of its own,
 * which may fault or hang; this one stays without a driver. */
void ts_fact_all(ts_guarantees *g);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* hostile.h - what else a timed shape is asked. Who is right everywhere but where it is timed would
 * gain by it: so between timed calls others are made of the same shape, in the same place and in
 * the same way, with contents of every family that fits. They are checked, and not timed. */
#ifndef TS_HOSTILE_H
#define TS_HOSTILE_H

#include "arena.h"
#include "task.h"

enum { TS_HOSTILE = 64 };

/* The timed case with the contents of other families, and with other numbers that are no extents; a
 * numeric one, a special one, an adversarial one and one of the canon in turn, in an order that
 * follows from the seed. How many. */
int ts_hostile_of(const ts_task *t, const ts_case *timed, uint64_t seed, ts_case out[TS_HOSTILE]);

/* Whether a case's buffers could be another's. */
bool ts_alike(const ts_arena *a, const ts_arena *b);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* hostile.h - untimed calls between the timed ones.
 *
 * An entrant that is correct everywhere except in timed calls would gain from it: so between timed
 * calls there are others of the same shape, at the same addresses, with contents of every family
 * that fits. These are checked but not timed. */
#ifndef TS_HOSTILE_H
#define TS_HOSTILE_H

#include "arena.h"
#include "task.h"

enum { TS_HOSTILE = 64 };

/* The timed case with contents of other families and other values of parameters that are not
 * extents. Numeric, special, adversarial and canon families take turns, in an order derived from
 * the seed. Returns how many. */
int ts_hostile_of(const ts_task *t, const ts_case *timed, uint64_t seed, ts_case out[TS_HOSTILE]);

/* Whether two cases have the same buffers. */
bool ts_alike(const ts_arena *a, const ts_arena *b);

#endif

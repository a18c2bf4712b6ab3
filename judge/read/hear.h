/* SPDX-License-Identifier: Apache-2.0 */
/* hear.h - reads what another process writes, for a limited time. */
#ifndef TS_HEAR_H
#define TS_HEAR_H

#include <stdbool.h>
#include <stddef.h>

/* Reads from the pipe `in` until its other end is closed; false: it was not by end_s, of
 * ts_seconds. Keeps the first `room` bytes, *n of them. More bytes end it, or, if `all`, are
 * discarded, so that the writer neither blocks nor fills memory. */
bool ts_hear(int in, double end_s, bool all, void *to, size_t room, size_t *n);

#endif

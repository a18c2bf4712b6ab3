/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h - how a task allocates the memory of a case: with guard pages, bands and poison, see
 * arena.h. */
#ifndef TS_BUFFER_H
#define TS_BUFFER_H

#include "touchstone/touchstone.h"

typedef struct ts_arena ts_arena;
typedef enum ts_role { TS_IN, TS_OUT, TS_INOUT } ts_role;

typedef struct ts_buf {
    const char *name; /* as in the contract: "dgamma" */
    ts_role     role;
    ts_dtype    dtype;
    int64_t     n_rows, n_cols, row_stride; /* a vector has one row */
} ts_buf;

/* Elements of n buffers, without the gaps between rows. */
static inline size_t ts_bufs_elements(const ts_buf *b, int n)
{
    size_t all = 0;
    for (int i = 0; i < n; i++) all += (size_t)(b[i].n_rows * b[i].n_cols);
    return all;
}

/* Allocates memory for b, stores its address in *slot, a pointer inside the case's args, and
 * returns it. The arena updates the slot when the case runs on another device. TS_IN is read-only
 * during the call; TS_OUT is poisoned before it; bytes around and between rows are checked after
 * it. */
void *ts_take(ts_arena *m, void *slot, ts_buf b);

/* A parameter of the call other than a dimension, for entrants that are not called with the args.
 */
void ts_scalar(ts_arena *m, const char *name, double value);

#endif

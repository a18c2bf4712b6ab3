/* SPDX-License-Identifier: Apache-2.0 */
/* spoil.h - derives invalid calls from a valid one.
 *
 * A task declares which pointers of a call are required and which extents it has. Each invalid call
 * differs in one respect only, so that there is only one reason to reject it. */
#ifndef TS_TASK_SPOIL_H
#define TS_TASK_SPOIL_H

#include <stddef.h>

#include "task.h"

enum { TS_MAX_POINTERS = 12, TS_MAX_EXTENTS = 12, TS_MAX_PRODUCTS = 6, TS_MAX_FACTORS = 4 };

/* An extent, an int64_t of the args. */
typedef struct ts_extent {
    size_t  at;      /* where in the args */
    int64_t least;   /* below it, TS_E_SHAPE */
    int64_t most;    /* above it, TS_E_SHAPE; 0: only what products say */
    size_t  with;    /* another that must not be smaller, and goes up with it; 0: none */
    bool    empties; /* where it is 0, the call has nothing to do, whatever the others are */
    bool    keeps;   /* the least call keeps it: rows of the valid call, or a script */
} ts_extent;

/* Elements of a tensor: extents by number + 1, 0 ends. */
typedef struct ts_product {
    unsigned char extent[TS_MAX_FACTORS];
} ts_product;

typedef struct ts_invalid {
    size_t     pointer[TS_MAX_POINTERS]; /* that must not be NULL, each + 1: 0 ends */
    ts_extent  extent[TS_MAX_EXTENTS];
    int        n_extent;
    ts_product product[TS_MAX_PRODUCTS]; /* none of whose bytes fit 63 bits */
    bool       told; /* statuses of calls are in outputs: one that is TS_OK is none of these */
    /* Further invalid calls: as ts_task.spoil. */
    bool (*more)(int i, void *args, ts_exec *x, ts_status *must);
} ts_invalid;

#define TS_POINTER(type, member) (offsetof(type, member) + 1)

/* As ts_task.spoil. First each pointer alone is NULL, in the valid call and in the least one; then
 * extents are out of range, each alone, also in calls without work; then products are too large
 * although no extent is; then calls without work, which are TS_OK whatever else is large; then
 * `more`. If there is no such call, *i is reduced by the number of calls before `more`. */
bool ts_spoil(const ts_invalid *s, int *i, void *args, ts_exec *x, ts_status *must);

/* Every extent as small as can be with something to do. */
void ts_spoil_shrink(const ts_invalid *s, void *args);

#endif

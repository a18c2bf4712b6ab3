/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - allocates arrays from one workspace. A layout runs twice: without memory, for its
 * size, and with it. */
#ifndef TS_BASE_SCRATCH_H
#define TS_BASE_SCRATCH_H

#include "touchstone/touchstone.h"

enum { TS_LINE = 64 };

/* The first aligned address from p on: a layout needs TS_LINE additional bytes. */
static inline char *ts_line(void *p)
{
    return (char *)p + (TS_LINE - (uintptr_t)p % TS_LINE);
}

static inline char *ts_scratch(const ts_exec *x)
{
    return ts_line(x->workspace);
}

/* n elements at base + *used; NULL if base is. */
static inline void *ts_cut(char *base, size_t *used, int64_t n, size_t each)
{
    void *const p = base ? base + *used : NULL;
    *used += ((size_t)n * each + TS_LINE - 1) / TS_LINE * TS_LINE;
    return p;
}

/* A layout that may be in one of several memories. */
typedef struct ts_room {
    char  *base; /* NULL: only counts bytes */
    size_t used;
} ts_room;

static inline void *ts_take(ts_room *m, int64_t n, size_t each)
{
    return ts_cut(m->base, &m->used, n, each);
}

#endif

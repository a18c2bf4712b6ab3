/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - arrays cut from one workspace. A layout is run through twice: without memory, for its
 * size, and with it. */
#ifndef TS_BASE_SCRATCH_H
#define TS_BASE_SCRATCH_H

#include "touchstone/touchstone.h"

enum { TS_LINE = 64 };

/* The first boundary past the beginning of p: a layout needs TS_LINE bytes on top. */
static inline char *ts_line(void *p)
{
    return (char *)p + (TS_LINE - (uintptr_t)p % TS_LINE);
}

static inline char *ts_scratch(const ts_exec *x)
{
    return ts_line(x->workspace);
}

/* n elements from base + *used on; NULL where base is. */
static inline void *ts_cut(char *base, size_t *used, int64_t n, size_t each)
{
    void *const p = base ? base + *used : NULL;
    *used += ((size_t)n * each + TS_LINE - 1) / TS_LINE * TS_LINE;
    return p;
}

/* The same for layouts that lie in more than one memory. */
typedef struct ts_room {
    char  *base; /* NULL: it is only counted */
    size_t used;
} ts_room;

static inline void *ts_take(ts_room *m, int64_t n, size_t each)
{
    return ts_cut(m->base, &m->used, n, each);
}

#endif

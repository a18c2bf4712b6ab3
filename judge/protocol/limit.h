/* SPDX-License-Identifier: Apache-2.0 */
/* limit.h - lowers a resource limit of the calling process: compiler, reader, cage. */
#ifndef TS_LIMIT_H
#define TS_LIMIT_H

#include <stdbool.h>
#include <sys/resource.h>

/* A limit that is lower already stays: raising it would need a privilege. False: not limited. */
static inline bool ts_limit(int what, rlim_t most)
{
    struct rlimit r;
    if (getrlimit(what, &r)) return false;
    if (r.rlim_max < most) most = r.rlim_max;
    r.rlim_cur = r.rlim_max = most;
    return !setrlimit(what, &r);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_threads.c - ranges of parameters over threads. Parameters do not know of each other, so no
 * bit depends on the number of threads. */

#include "adamw_impl.h"
#include "threads.h"
#include "whole.h"

enum { RANGE = 1 << 14, SMALL = 1 << 14 }; /* fewer are done before a second thread wakes up */

ts_status ts_adamw_step_threads(const ts_adamw_step_args *a, const ts_exec *x, ts_adamw_range range)
{
    const double  scale = a->scale ? *a->scale : 1;
    const int64_t n_ranges = ts_ceil_div(a->n, RANGE);
    const int     most = ts_threads(x);
    const int     n_threads = a->n <= SMALL ? 1 : most;
    if (isnan(scale)) return TS_OK;
    TS_EACH(n_threads, static, r, n_ranges,
            range(a, scale, r * RANGE, ts_lesser((r + 1) * RANGE, a->n)));
    return TS_OK;
}

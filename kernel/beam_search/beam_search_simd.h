/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_simd.h - the sums of beam_search_merge.c with vectors of doubles, written once
 * for any width of vector. */
#ifndef TS_BEAM_SEARCH_SIMD_H
#define TS_BEAM_SEARCH_SIMD_H

#include "beam_search_impl.h"
#include "exp_simd.h"

static double sum(const float *x, int64_t n, double max)
{
    return exp_sum(x, n, max, 1.0);
}

static ts_status reduce(ts_beam_state *s, const ts_exec *x)
{
    return ts_beam_reduce(s, x, SIMD(ts_topk), sum);
}

ts_status SIMD(ts_beam_search)(const void *args, const ts_exec *x)
{
    static const ts_beam_steps steps = { reduce, ts_beam_choose_slots, ts_beam_finish_slots };
    return ts_beam_run(args, x, 0, &steps);
}

ts_status SIMD(ts_beam_search_archive)(const void *args, const ts_exec *x)
{
    static const ts_beam_steps steps = { reduce, ts_beam_choose_archive, ts_beam_finish_archive };
    return ts_beam_run(args, x, 1, &steps);
}

#endif

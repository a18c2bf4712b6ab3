/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_simd.h - the sums of tree_verify_choose.c with vectors of doubles, written once
 * for any width of vector. */
#ifndef TS_TREE_VERIFY_SIMD_H
#define TS_TREE_VERIFY_SIMD_H

#include "exp_simd.h"
#include "tree_verify_impl.h"

static double sum(const float *x, int64_t n, double max, double t)
{
    return exp_sum(x, n, max, t);
}

static ts_status choose(const ts_tree_chooser *c, int64_t row, double u, int32_t *token)
{
    return ts_tree_choose(c, row, u, token, SIMD(ts_topk), sum);
}

ts_status SIMD(ts_tree_verify)(const void *args, const ts_exec *x)
{
    static const ts_tree_steps steps = { NULL, choose };
    return ts_tree_run(args, x, &steps);
}

#endif

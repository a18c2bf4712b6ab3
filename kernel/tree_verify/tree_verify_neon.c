/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_neon.c - the sums of tree_verify_choose.c with vectors of doubles. */
#include "vec_neon.h"

#include "exp_sum.h"
#include "tree_verify_impl.h"

static double sum_neon(const float *x, int64_t n, double max, double t)
{
    return exp_sum(x, n, max, t);
}

static ts_status choose(const ts_tree_chooser *c, int64_t row, double u, int32_t *token)
{
    return ts_tree_choose(c, row, u, token, sum_neon);
}

ts_status ts_tree_verify_neon(const void *args, const ts_exec *x)
{
    static const ts_tree_steps steps = { NULL, choose };
    return ts_tree_run(args, x, &steps);
}

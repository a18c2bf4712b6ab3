/* SPDX-License-Identifier: Apache-2.0 */
/* three_pass.c - softmax_topk in three passes as an entrant like any other: it exports the
 * challenge's names and nothing else. */
#include "softmax_topk_impl.h"
#include "touchstone/softmax_topk.h"

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    return ts_softmax_topk_three_pass(a, x);
}

ts_status ts_softmax_topk_workspace(const ts_softmax_topk_args *a, const ts_exec *x, size_t *n)
{
    return ts_softmax_topk_three_pass_workspace(a, x, n);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* textbook.c - a naive way as an entrant like any other: it exports the challenge's names and
 * nothing else. WAY is textbook or three_pass. */
#include "softmax_topk_impl.h"
#include "touchstone/softmax_topk.h"

#define JOIN(a, b, c)     a##b##c
#define NAME(way, suffix) JOIN(ts_softmax_topk_, way, suffix)

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    return NAME(WAY, )(a, x);
}

ts_status ts_softmax_topk_workspace(const ts_softmax_topk_args *a, const ts_exec *x, size_t *n)
{
    return NAME(WAY, _workspace)(a, x, n);
}

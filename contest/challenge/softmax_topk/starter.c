/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk.c - your kernel. The prompt is the specification. */
#include "touchstone/softmax_topk.h"

/* How much scratch memory a call with these arguments needs in x->workspace. Omit this
 * function if it needs none. */
ts_status ts_softmax_topk_workspace(const ts_softmax_topk_args *a, const ts_exec *x,
                                    size_t *n_bytes)
{
    (void)a;
    (void)x;
    *n_bytes = 0;
    return TS_OK;
}

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    (void)a;
    (void)x;
    /* Begin here.
     * 1. Reject invalid calls before writing anything: NULL pointers, an inv_temperature
     *    that is not a normal float (TS_E_ARG), invalid extents (TS_E_SHAPE), other dtypes than
     *    TS_F32, TS_BF16 and TS_F16 (TS_E_DTYPE).
     * 2. For each row: the largest logit, the sum of exponentials relative to it, the first k
     *    entries in canonical order, their probabilities, and lse unless it is NULL.
     * 3. Return TS_OK. */
    return TS_E_UNSUPPORTED;
}

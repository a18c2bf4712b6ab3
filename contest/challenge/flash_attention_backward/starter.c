/* SPDX-License-Identifier: Apache-2.0 */
/* flash_attention_backward.c - your kernel. The prompt is the specification. */
#include "touchstone/attention.h"

/* How much scratch memory a call with these arguments needs in x->workspace. Omit this
 * function if it needs none. */
ts_status ts_flash_attention_backward_workspace(const ts_flash_attention_backward_args *a,
                                                const ts_exec *x, size_t *n_bytes)
{
    (void)a;
    (void)x;
    *n_bytes = 0;
    return TS_OK;
}

ts_status ts_flash_attention_backward(const ts_flash_attention_backward_args *a, const ts_exec *x)
{
    (void)a;
    (void)x;
    /* Begin here.
     * 1. Reject invalid calls before writing anything: NULL pointers, a scale that is not
     *    finite, a window without causal (TS_E_ARG), invalid extents (TS_E_SHAPE), other
     *    dtypes than TS_F32, TS_F64, TS_BF16 and TS_F16 (TS_E_DTYPE).
     * 2. For each query delta; then, tile by tile, P from s and lse, dP, dS, and the three sums.
     * 3. Return TS_OK. */
    return TS_E_UNSUPPORTED;
}

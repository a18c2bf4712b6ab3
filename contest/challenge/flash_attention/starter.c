/* SPDX-License-Identifier: Apache-2.0 */
/* flash_attention.c - your kernel. The prompt is the specification. */
#include "touchstone/attention.h"

/* How much scratch memory a call with these arguments needs in x->workspace. Omit this
 * function if it needs none. */
ts_status ts_flash_attention_workspace(const ts_flash_attention_args *a, const ts_exec *x,
                                       size_t *n_bytes)
{
    (void)a;
    (void)x;
    *n_bytes = 0;
    return TS_OK;
}

ts_status ts_flash_attention(const ts_flash_attention_args *a, const ts_exec *x)
{
    (void)a;
    (void)x;
    /* Begin here.
     * 1. Reject invalid calls before writing anything: NULL pointers, a scale that is not
     *    finite, a window without causal (TS_E_ARG), invalid extents (TS_E_SHAPE), other
     *    dtypes than TS_F32, TS_F64, TS_BF16 and TS_F16 (TS_E_DTYPE).
     * 2. For each query: go over the keys that it sees, tile by tile, with a running maximum, sum
     *    and output; when the maximum moves, rescale both. Then divide, and write o and, unless it
     *    is NULL, lse.
     * 3. Return TS_OK. */
    return TS_E_UNSUPPORTED;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_backward.c - your kernel. The prompt is the specification. */
#include "touchstone/layernorm.h"

/* How much scratch memory a call with these arguments needs in x->workspace. Omit this
 * function if it needs none. */
ts_status ts_layernorm_backward_workspace(const ts_layernorm_backward_args *a, const ts_exec *x,
                                          size_t *n_bytes)
{
    (void)a;
    (void)x;
    *n_bytes = 0;
    return TS_OK;
}

ts_status ts_layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x)
{
    (void)a;
    (void)x;
    /* Begin here.
     * 1. Reject invalid calls before writing anything: NULL pointers, an accumulate that
     * is neither 0 nor 1 (TS_E_ARG), invalid extents (TS_E_SHAPE), other dtypes than TS_F32,
     *    TS_BF16, TS_F16 and, if you like, TS_F64 (TS_E_DTYPE).
     * 2. For each row: dx. Over all rows: dgamma and dbeta, added to what is there if accumulate.
     * 3. Return TS_OK. */
    return TS_E_UNSUPPORTED;
}

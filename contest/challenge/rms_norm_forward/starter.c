/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_forward.c - your kernel. The prompt is the specification. */
#include "touchstone/rms_norm.h"

/* How much scratch memory a call with these arguments needs in x->workspace. Omit this
 * function if it needs none. */
ts_status ts_rms_norm_forward_workspace(const ts_rms_norm_forward_args *a, const ts_exec *x,
                                        size_t *n_bytes)
{
    (void)a;
    (void)x;
    *n_bytes = 0;
    return TS_OK;
}

ts_status ts_rms_norm_forward(const ts_rms_norm_forward_args *a, const ts_exec *x)
{
    (void)a;
    (void)x;
    /* Begin here.
     * 1. Reject invalid calls before writing anything: NULL pointers, a w_offset other than 0 and
     * 1, an eps that is not finite and above 0 (TS_E_ARG), invalid extents (TS_E_SHAPE), other
     *    dtypes than TS_F32, TS_BF16, TS_F16 and, if you like, TS_F64 (TS_E_DTYPE).
     * 2. For each row: r = x + residual, unless residual is NULL; rstd; y.
     * 3. Return TS_OK. */
    return TS_E_UNSUPPORTED;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_avx2.c - rms_norm_simd.h over the vectors of row_avx2.h. */
#include "rms_norm_impl.h"
#include "row_avx2.h"

#include "rms_norm_simd.h"

ts_status ts_rms_norm_forward_avx2(const void *args, const ts_exec *x)
{
    return forward(args, x);
}

ts_status ts_rms_norm_backward_avx2(const void *args, const ts_exec *x)
{
    return backward(args, x);
}

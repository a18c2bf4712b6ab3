/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_forward_sm90.cu - RMS norm's call of base/norm_forward.cuh. */
#include "norm_forward.cuh"
#include "touchstone/rms_norm.h"

extern "C" TS_API ts_status ts_rms_norm_forward_sm90(const void *args, const ts_exec *x)
{
    const ts_rms_norm_forward_args *a = (const ts_rms_norm_forward_args *)args;
    if (a->n_cols > INT32_MAX && a->n_rows != 0) return TS_E_UNSUPPORTED;
    const forward_params p = {
        .n_rows = a->n_rows,
        .row_stride = a->row_stride,
        .n_cols = (int)a->n_cols,
        .pitch = 0,
        .n_stages = 0,
        .one_over_n = 1.0f / (float)a->n_cols,
        .offset = (float)a->w_offset,
        .eps = a->eps,
        .x = a->x,
        .residual = a->residual,
        .gamma = a->w,
        .beta = nullptr,
        .r = a->residual ? a->r : const_cast<void *>(a->x),
        .y = a->y,
        .mean = nullptr,
        .rstd = (float *)a->rstd,
    };
    return norm_forward<false>(a->dtype, p, (cudaStream_t)x->stream);
}

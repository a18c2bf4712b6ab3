/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_forward_sm90.cu - layer norm's call of base/norm_forward.cuh. */
#include "norm_forward.cuh"
#include "touchstone/layernorm.h"

extern "C" TS_API ts_status ts_layernorm_forward_sm90(const void *args, const ts_exec *x)
{
    const ts_layernorm_forward_args *a = (const ts_layernorm_forward_args *)args;
    if (a->n_cols > INT32_MAX && a->n_rows != 0) return TS_E_UNSUPPORTED;
    const forward_params p = {
        .n_rows = a->n_rows,
        .row_stride = a->row_stride,
        .n_cols = (int)a->n_cols,
        .pitch = 0,
        .n_stages = 0,
        .one_over_n = 1.0f / (float)a->n_cols,
        .offset = 0.0f,
        .eps = a->eps,
        .x = a->x,
        .residual = nullptr,
        .gamma = a->gamma,
        .beta = a->beta,
        .r = const_cast<void *>(a->x),
        .y = a->y,
        .mean = (float *)a->mean,
        .rstd = (float *)a->rstd,
    };
    return norm_forward<true>(a->dtype, p, (cudaStream_t)x->stream);
}

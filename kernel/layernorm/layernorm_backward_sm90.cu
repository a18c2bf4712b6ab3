/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_backward_sm90.cu - layer norm's call of base/norm_backward.cuh. */
#include "norm_backward.cuh"
#include "touchstone/layernorm.h"

extern "C" TS_API ts_status ts_layernorm_backward_sm90_workspace(const void *args, const ts_exec *x,
                                                                 size_t *n_bytes)
{
    (void)x;
    *n_bytes = norm_backward_workspace<true>(((const ts_layernorm_backward_args *)args)->n_cols);
    return TS_OK;
}

extern "C" TS_API ts_status ts_layernorm_backward_sm90(const void *args, const ts_exec *x)
{
    const ts_layernorm_backward_args *a = (const ts_layernorm_backward_args *)args;
    if (a->n_cols > INT32_MAX / 2) return TS_E_UNSUPPORTED;
    const norm_params p = {
        .n_rows = a->n_rows,
        .row_stride = a->row_stride,
        .n_cols = (int)a->n_cols,
        .n_stages = 0,
        .turns = 0,
        .accumulate = a->accumulate,
        .one_over_n = 1.0f / (float)a->n_cols,
        .offset = 0.0f,
        .x = a->x,
        .dy = a->dy,
        .dr = nullptr,
        .gamma = a->gamma,
        .mean = (const float *)a->mean,
        .rstd = (const float *)a->rstd,
        .dx = a->dx,
        .dgamma = (float *)a->dgamma,
        .dbeta = (float *)a->dbeta,
        .partial = (float *)x->workspace,
    };
    return norm_backward<true>(a->dtype, p, (cudaStream_t)x->stream);
}

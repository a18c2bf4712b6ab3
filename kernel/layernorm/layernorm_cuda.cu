/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_cuda.cu - layer norm's calls of base/norm_cuda.cuh. */
#include "norm_cuda.cuh"

extern "C" {
#include "touchstone/layernorm.h"
}

extern "C" TS_API ts_status ts_layernorm_forward_cuda(const void *args, const ts_exec *x)
{
    const ts_layernorm_forward_args *a = (const ts_layernorm_forward_args *)args;
    norm_args                        n = {};
    n.n_rows = a->n_rows, n.n_cols = a->n_cols, n.row_stride = a->row_stride, n.eps = a->eps;
    n.x = a->x, n.gamma = a->gamma, n.beta = a->beta, n.y = a->y;
    n.mean_out = (float *)a->mean, n.rstd_out = (float *)a->rstd;
    return norm_forward<true>(a->dtype, n, (cudaStream_t)x->stream);
}

extern "C" TS_API ts_status ts_layernorm_backward_cuda_workspace(const void *args, const ts_exec *x,
                                                                 size_t *n_bytes)
{
    const ts_layernorm_backward_args *a = (const ts_layernorm_backward_args *)args;
    (void)x;
    *n_bytes = norm_workspace(a->n_rows, a->n_cols);
    return TS_OK;
}

extern "C" TS_API ts_status ts_layernorm_backward_cuda(const void *args, const ts_exec *x)
{
    const ts_layernorm_backward_args *a = (const ts_layernorm_backward_args *)args;
    norm_args                         n = {};
    n.n_rows = a->n_rows, n.n_cols = a->n_cols, n.row_stride = a->row_stride;
    n.accumulate = a->accumulate, n.parts = norm_parts(a->n_rows);
    n.x = a->x, n.dy = a->dy, n.gamma = a->gamma, n.y = a->dx;
    n.mean = (const float *)a->mean, n.rstd = (const float *)a->rstd;
    n.dgamma = (float *)a->dgamma, n.dbeta = (float *)a->dbeta;
    n.partial = (double *)x->workspace;
    return norm_backward<true>(a->dtype, n, (cudaStream_t)x->stream);
}

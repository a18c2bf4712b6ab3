/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_cuda.cu - RMS norm's calls of base/norm_cuda.cuh. */
#include "norm_cuda.cuh"

extern "C" {
#include "touchstone/rms_norm.h"
}

extern "C" TS_API ts_status ts_rms_norm_forward_cuda(const void *args, const ts_exec *x)
{
    const ts_rms_norm_forward_args *a = (const ts_rms_norm_forward_args *)args;
    norm_args                       n = {};
    n.n_rows = a->n_rows, n.n_cols = a->n_cols, n.row_stride = a->row_stride;
    n.eps = a->eps, n.offset = a->w_offset;
    n.x = a->x, n.residual = a->residual, n.gamma = a->w, n.r = a->r, n.y = a->y;
    n.rstd_out = (float *)a->rstd;
    return norm_forward<false>(a->dtype, n, (cudaStream_t)x->stream);
}

extern "C" TS_API ts_status ts_rms_norm_backward_cuda_workspace(const void *args, const ts_exec *x,
                                                                size_t *n_bytes)
{
    const ts_rms_norm_backward_args *a = (const ts_rms_norm_backward_args *)args;
    (void)x;
    *n_bytes = norm_workspace(a->n_rows, a->n_cols);
    return TS_OK;
}

extern "C" TS_API ts_status ts_rms_norm_backward_cuda(const void *args, const ts_exec *x)
{
    const ts_rms_norm_backward_args *a = (const ts_rms_norm_backward_args *)args;
    norm_args                        n = {};
    n.n_rows = a->n_rows, n.n_cols = a->n_cols, n.row_stride = a->row_stride;
    n.accumulate = a->accumulate, n.parts = norm_parts(a->n_rows), n.offset = a->w_offset;
    n.x = a->r, n.dy = a->dy, n.dr = a->dr, n.gamma = a->w, n.y = a->dx;
    n.rstd = (const float *)a->rstd, n.dgamma = (float *)a->dw;
    n.partial = (double *)x->workspace;
    return norm_backward<false>(a->dtype, n, (cudaStream_t)x->stream);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm.c - API entry points: validate the arguments, select an implementation, call it. */
#include <math.h>

#include "overlap.h"
#include "rms_norm_impl.h"
#include "row_chunks.h"

/* Of the threaded ones: room for the partial sums of norm_threads.h. */
static ts_status threads_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_rms_norm_backward_args *a = args;
    (void)x;
    *n_bytes = ts_chunk_bytes(a->n_rows, a->n_cols, 1);
    return TS_OK;
}

/* clang-format off */
const ts_impl ts_rms_norm_forward_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, TS_HAS_FAST, NULL, NULL, "ts_rms_norm_forward_sm90" },
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_rms_norm_forward_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_rms_norm_forward, NULL)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_rms_norm_forward_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_rms_norm_backward_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, TS_HAS_FAST, NULL, NULL, "ts_rms_norm_backward_sm90" },
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_rms_norm_backward_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_rms_norm_backward, threads_workspace)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_rms_norm_backward_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

/* Extents whose last element would not fit in 63 bits of bytes are rejected before any product. */
static ts_status check_shape(int64_t n_rows, int64_t n_cols, int64_t row_stride)
{
    if (n_rows < 0 || n_cols < 1 || row_stride < n_cols) return TS_E_SHAPE;
    if (row_stride > INT64_MAX / 8 / (n_rows > 0 ? n_rows : 1)) return TS_E_SHAPE;
    return TS_OK;
}

static int is_flag(int v)
{
    return v == 0 || v == 1;
}

static ts_status check_forward(const ts_rms_norm_forward_args *a, const ts_exec *x)
{
    if (!a || !x || !(a->eps > 0) || !isfinite(a->eps)) return TS_E_ARG;
    if (!is_flag(a->w_offset) || !a->w) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->x || !a->y || !a->rstd)) return TS_E_ARG;
    if (a->n_rows != 0 && a->residual && !a->r) return TS_E_ARG;
    return check_shape(a->n_rows, a->n_cols, a->row_stride);
}

static ts_status check_backward(const ts_rms_norm_backward_args *a, const ts_exec *x)
{
    if (!a || !x || !is_flag(a->w_offset) || !is_flag(a->accumulate)) return TS_E_ARG;
    if (!a->w || !a->dw) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->r || !a->dy || !a->rstd || !a->dx)) return TS_E_ARG;
    return check_shape(a->n_rows, a->n_cols, a->row_stride);
}

static bool apart_forward(const void *args, const ts_exec *x)
{
    const ts_rms_norm_forward_args *a = args;
    const ts_dtype                  t = a->dtype;
    const int64_t                   n = a->n_rows, D = a->n_cols, stride = a->row_stride;
    const void                     *r = a->residual ? a->r : NULL, *in = r == a->x ? NULL : a->x;
    return TS_APART(x, 3, ts_rows(a->y, n, D, stride, t), ts_rows(r, n, D, stride, t),
                    ts_vector(a->rstd, n, ts_wide(t)), ts_rows(in, n, D, stride, t),
                    ts_rows(a->residual, n, D, stride, t), ts_vector(a->w, D, t));
}

TS_API_ENTRY(ts_rms_norm_forward, check_forward, apart_forward, a->dtype)

static bool apart_backward(const void *args, const ts_exec *x)
{
    const ts_rms_norm_backward_args *a = args;
    const ts_dtype                   t = a->dtype;
    const int64_t                    n = a->n_rows, D = a->n_cols, stride = a->row_stride;
    return TS_APART(x, 2, ts_rows(a->dx, n, D, stride, t), ts_vector(a->dw, D, ts_wide(t)),
                    ts_rows(a->r, n, D, stride, t), ts_rows(a->dy, n, D, stride, t),
                    ts_rows(a->dr, n, D, stride, t), ts_vector(a->w, D, t),
                    ts_vector(a->rstd, n, ts_wide(t)));
}

TS_API_ENTRY(ts_rms_norm_backward, check_backward, apart_backward, a->dtype)

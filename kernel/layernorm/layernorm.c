/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm.c - API entry points: validate the arguments, select an implementation, call it. */
#include <math.h>

#include "cpu.h"
#include "layernorm_impl.h"
#include "overlap.h"
#include "row_chunks.h"

/* Of the threaded ones: room for the partial sums of norm_threads.h. */
static ts_status threads_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_layernorm_backward_args *a = args;
    (void)x;
    *n_bytes = ts_chunk_bytes(a->n_rows, a->n_cols, 2);
    return TS_OK;
}

/* clang-format off */
const ts_impl ts_layernorm_forward_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, TS_HAS_FAST, NULL, NULL, "ts_layernorm_forward_sm90" },
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_layernorm_forward_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_layernorm_forward, NULL)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_layernorm_forward_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_layernorm_backward_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, TS_HAS_FAST, NULL, NULL, "ts_layernorm_backward_sm90" },
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_layernorm_backward_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_layernorm_backward, threads_workspace)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_layernorm_backward_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

/* Extents whose last element would not fit in 63 bits of bytes are rejected before any product is
 * computed. */
static ts_status check_shape(int64_t n_rows, int64_t n_cols, int64_t row_stride)
{
    if (n_rows < 0 || n_cols < 1 || row_stride < n_cols) return TS_E_SHAPE;
    if (row_stride > INT64_MAX / 8 / (n_rows > 0 ? n_rows : 1)) return TS_E_SHAPE;
    return TS_OK;
}

static ts_status check_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    if (!a || !x || !(a->eps > 0) || !isfinite(a->eps)) return TS_E_ARG;
    if (!a->gamma || !a->beta) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->x || !a->y || !a->mean || !a->rstd)) return TS_E_ARG;
    return check_shape(a->n_rows, a->n_cols, a->row_stride);
}

static ts_status check_backward(const ts_layernorm_backward_args *a, const ts_exec *x)
{
    if (!a || !x || (a->accumulate != 0 && a->accumulate != 1)) return TS_E_ARG;
    if (!a->gamma || !a->dgamma || !a->dbeta) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->x || !a->dy || !a->mean || !a->rstd || !a->dx)) return TS_E_ARG;
    return check_shape(a->n_rows, a->n_cols, a->row_stride);
}

static bool apart_forward(const void *args, const ts_exec *x)
{
    const ts_layernorm_forward_args *a = args;
    const ts_dtype                   t = a->dtype, wide = ts_wide(t);
    const int64_t                    n = a->n_rows, D = a->n_cols, stride = a->row_stride;
    return TS_APART(x, 3, ts_rows(a->y, n, D, stride, t), ts_vector(a->mean, n, wide),
                    ts_vector(a->rstd, n, wide), ts_rows(a->x, n, D, stride, t),
                    ts_vector(a->gamma, D, t), ts_vector(a->beta, D, t));
}

TS_API_ENTRY(ts_layernorm_forward, check_forward, apart_forward, a->dtype)

static bool apart_backward(const void *args, const ts_exec *x)
{
    const ts_layernorm_backward_args *a = args;
    const ts_dtype                    t = a->dtype, wide = ts_wide(t);
    const int64_t                     n = a->n_rows, D = a->n_cols, stride = a->row_stride;
    return TS_APART(x, 3, ts_rows(a->dx, n, D, stride, t), ts_vector(a->dgamma, D, wide),
                    ts_vector(a->dbeta, D, wide), ts_rows(a->x, n, D, stride, t),
                    ts_rows(a->dy, n, D, stride, t), ts_vector(a->gamma, D, t),
                    ts_vector(a->mean, n, wide), ts_vector(a->rstd, n, wide));
}

TS_API_ENTRY(ts_layernorm_backward, check_backward, apart_backward, a->dtype)

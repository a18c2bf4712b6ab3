/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu.c - API entry points: validate the arguments, select an implementation, call it. */
#include <stdbool.h>

#include "swiglu_impl.h"

/* clang-format off */
const ts_impl ts_swiglu_forward_impls[] = {
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_swiglu_forward_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_swiglu_forward, NULL)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_swiglu_forward_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_swiglu_backward_impls[] = {
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_swiglu_backward_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_swiglu_backward, NULL)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_swiglu_backward_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

/* Extents whose last element would not fit in 63 bits of bytes are rejected before any product. */
static ts_status check_shape(int64_t n_rows, int64_t n_cols, int64_t x_stride, int64_t y_stride)
{
    const int64_t most = INT64_MAX / 8 / (n_rows > 0 ? n_rows : 1);
    if (n_rows < 0 || n_cols < 1 || x_stride < n_cols || y_stride < n_cols) return TS_E_SHAPE;
    return x_stride > most || y_stride > most ? TS_E_SHAPE : TS_OK;
}

static ts_status check_forward(const ts_swiglu_forward_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->gate || !a->up || !a->y)) return TS_E_ARG;
    const ts_status s = check_shape(a->n_rows, a->n_cols, a->x_stride, a->y_stride);
    const bool      in_place = a->n_rows != 0 && (a->y == a->gate || a->y == a->up);
    return !s && in_place && a->x_stride != a->y_stride ? TS_E_ARG : s;
}

static ts_status check_backward(const ts_swiglu_backward_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->gate || !a->up || !a->dy || !a->dgate || !a->dup)) return TS_E_ARG;
    if (a->n_rows != 0 && a->dgate == a->dup) return TS_E_ARG;
    const ts_status s = check_shape(a->n_rows, a->n_cols, a->x_stride, a->y_stride);
    const bool      in_place = a->n_rows != 0 && (a->dgate == a->dy || a->dup == a->dy);
    return !s && in_place && a->x_stride != a->y_stride ? TS_E_ARG : s;
}

TS_API_ENTRY(ts_swiglu_forward, check_forward, a->dtype)

TS_API_ENTRY(ts_swiglu_backward, check_backward, a->dtype)

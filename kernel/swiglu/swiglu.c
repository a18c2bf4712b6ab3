/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu.c - API entry points: validate the arguments, select an implementation, call it. */
#include <stdbool.h>

#include "overlap.h"
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

static bool apart_forward(const void *args, const ts_exec *x)
{
    const ts_swiglu_forward_args *a = args;
    const int64_t                 n = a->n_rows, D = a->n_cols, stride = a->x_stride;
    const void *gate = a->gate == a->y ? NULL : a->gate, *up = a->up == a->y ? NULL : a->up;
    return TS_APART(x, 1, ts_rows(a->y, n, D, a->y_stride, a->dtype),
                    ts_rows(gate, n, D, stride, a->dtype), ts_rows(up, n, D, stride, a->dtype));
}

TS_API_ENTRY(ts_swiglu_forward, check_forward, apart_forward, a->dtype)

/* An input, unless an output is the same. */
static const void *other(const void *in, const ts_swiglu_backward_args *a)
{
    return in == a->dgate || in == a->dup ? NULL : in;
}

static bool apart_backward(const void *args, const ts_exec *x)
{
    const ts_swiglu_backward_args *a = args;
    const ts_dtype                 t = a->dtype;
    const int64_t                  n = a->n_rows, D = a->n_cols, stride = a->x_stride;
    return TS_APART(x, 2, ts_rows(a->dgate, n, D, stride, t), ts_rows(a->dup, n, D, stride, t),
                    ts_rows(other(a->gate, a), n, D, stride, t),
                    ts_rows(other(a->up, a), n, D, stride, t),
                    ts_rows(other(a->dy, a), n, D, a->y_stride, t));
}

TS_API_ENTRY(ts_swiglu_backward, check_backward, apart_backward, a->dtype)

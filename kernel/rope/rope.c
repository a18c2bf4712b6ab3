/* SPDX-License-Identifier: Apache-2.0 */
/* rope.c - API entry points: validate the arguments, select an implementation, call it. */
#include <math.h>

#include "overlap.h"
#include "rope_impl.h"

/* clang-format off */
const ts_impl ts_rope_impls[] = {
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_rope_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_rope, NULL)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_rope_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

/* Extents whose last element would not fit in 63 bits of bytes are rejected before any product. */
static ts_status check_shape(const ts_rope_args *a)
{
    const int64_t rows = a->n_rows > 0 ? a->n_rows : 1;
    if (a->n_rows < 0 || a->n_heads < 1 || a->head_dim < 1) return TS_E_SHAPE;
    if (a->rotary_dim < 0 || a->rotary_dim > a->head_dim || a->rotary_dim % 2) return TS_E_SHAPE;
    if (a->head_dim > INT64_MAX / 8 / a->n_heads) return TS_E_SHAPE;
    const int64_t width = a->n_heads * a->head_dim;
    if (a->x_stride < width || a->x_stride > INT64_MAX / 8 / rows) return TS_E_SHAPE;
    if (a->y_stride < width || a->y_stride > INT64_MAX / 8 / rows) return TS_E_SHAPE;
    return TS_OK;
}

static ts_status check(const ts_rope_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    if (a->pairing != TS_ROPE_HALVES && a->pairing != TS_ROPE_ADJACENT) return TS_E_ARG;
    if (a->inverse != 0 && a->inverse != 1) return TS_E_ARG;
    if (!a->frequency && !(a->theta > 0 && isfinite(a->theta))) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->position || !a->x || !a->y)) return TS_E_ARG;
    const ts_status s = check_shape(a);
    return !s && a->n_rows != 0 && a->x == a->y && a->x_stride != a->y_stride ? TS_E_ARG : s;
}

static bool apart(const void *args, const ts_exec *x)
{
    const ts_rope_args *a = args;
    const int64_t       n = a->n_rows, width = a->n_heads * a->head_dim;
    const void         *in = a->x == a->y ? NULL : a->x;
    return TS_APART(x, 1, ts_rows(a->y, n, width, a->y_stride, a->dtype),
                    ts_rows(in, n, width, a->x_stride, a->dtype),
                    ts_vector(a->frequency, a->rotary_dim / 2, TS_F64),
                    ts_vector(a->position, n, TS_I32));
}

TS_API_ENTRY(ts_rope, check, apart, a->dtype)

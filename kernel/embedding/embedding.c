/* SPDX-License-Identifier: Apache-2.0 */
/* embedding.c - API entry points: validate the arguments, select an implementation, call it. */
#include <math.h>

#include "embedding_impl.h"
#include "overlap.h"

/* clang-format off */
const ts_impl ts_embedding_forward_impls[] = {
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_embedding_forward_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_embedding_forward, NULL)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_embedding_forward_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_embedding_backward_impls[] = {
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_embedding_backward_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_embedding_backward, ts_embedding_backward_threads_workspace)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_embedding_backward_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

/* Extents whose last element would not fit in 63 bits of bytes are rejected before any product. */
static ts_status check_shape(int64_t n_rows, int64_t n_cols, int64_t n_vocab, int64_t row_stride,
                             int64_t table_stride)
{
    if (n_rows < 0 || n_cols < 1 || n_vocab < 1) return TS_E_SHAPE;
    if (row_stride < n_cols || table_stride < n_cols) return TS_E_SHAPE;
    if (n_rows > 0 && row_stride > INT64_MAX / 8 / n_rows) return TS_E_SHAPE;
    return table_stride > INT64_MAX / 8 / n_vocab ? TS_E_SHAPE : TS_OK;
}

/* Those of a device are for its kernels to look at. */
static ts_status check_tokens(const int32_t *token, int64_t n, int64_t n_vocab, const ts_exec *x)
{
    for (int64_t i = 0; i < n && x->device == TS_CPU; i++)
        if (token[i] < 0 || token[i] >= n_vocab) return TS_E_ARG;
    return TS_OK;
}

static ts_status check_forward(const ts_embedding_forward_args *a, const ts_exec *x)
{
    if (!a || !x || !isfinite(a->scale) || !a->table) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->token || !a->y)) return TS_E_ARG;
    const ts_status s = check_shape(a->n_rows, a->n_cols, a->n_vocab, a->y_stride, a->table_stride);
    if (s) return s;
    if ((unsigned)a->dtype > TS_BF16) return TS_E_DTYPE;
    if (a->y_dtype != a->dtype && (a->y_dtype != TS_F32 || a->dtype == TS_F64)) return TS_E_DTYPE;
    return check_tokens(a->token, a->n_rows, a->n_vocab, x);
}

static ts_status check_backward(const ts_embedding_backward_args *a, const ts_exec *x)
{
    if (!a || !x || !isfinite(a->scale) || !a->dtable) return TS_E_ARG;
    if (a->accumulate != 0 && a->accumulate != 1) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->token || !a->dy)) return TS_E_ARG;
    const ts_status s =
        check_shape(a->n_rows, a->n_cols, a->n_vocab, a->dy_stride, a->table_stride);
    return s ? s : check_tokens(a->token, a->n_rows, a->n_vocab, x);
}

static bool apart_forward(const void *args, const ts_exec *x)
{
    const ts_embedding_forward_args *a = args;
    return TS_APART(x, 1, ts_rows(a->y, a->n_rows, a->n_cols, a->y_stride, a->y_dtype),
                    ts_rows(a->table, a->n_vocab, a->n_cols, a->table_stride, a->dtype),
                    ts_vector(a->token, a->n_rows, TS_I32));
}

TS_API_ENTRY(ts_embedding_forward, check_forward, apart_forward, a->dtype)

static bool apart_backward(const void *args, const ts_exec *x)
{
    const ts_embedding_backward_args *a = args;
    const ts_dtype                    wide = ts_wide(a->dtype);
    return TS_APART(x, 1, ts_rows(a->dtable, a->n_vocab, a->n_cols, a->table_stride, wide),
                    ts_rows(a->dy, a->n_rows, a->n_cols, a->dy_stride, a->dtype),
                    ts_vector(a->token, a->n_rows, TS_I32));
}

TS_API_ENTRY(ts_embedding_backward, check_backward, apart_backward, a->dtype)

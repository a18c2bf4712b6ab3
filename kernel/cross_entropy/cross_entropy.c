/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy.c - API entry points: validate, select an implementation, call it. */
#include <math.h>
#include <stdbool.h>

#include "cpu.h"
#include "cross_entropy_impl.h"
#include "overlap.h"

/* clang-format off */
const ts_impl ts_cross_entropy_impls[] = {
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_cross_entropy_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_cross_entropy, ts_cross_entropy_threads_workspace)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_cross_entropy_ref, ts_cross_entropy_ref_workspace, NULL },
    { 0 },
};

const ts_impl ts_cross_entropy_logits_impls[] = {
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_cross_entropy_logits_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_cross_entropy_logits, ts_cross_entropy_logits_threads_workspace)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_cross_entropy_logits_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

static bool is_flag(int v)
{
    return v == 0 || v == 1;
}

static ts_status check_loss(double scale, double smoothing, double z_loss, double softcap)
{
    if (!isfinite(scale) || !(smoothing >= 0 && smoothing <= 1)) return TS_E_ARG;
    return z_loss >= 0 && isfinite(z_loss) && softcap >= 0 && isfinite(softcap) ? TS_OK : TS_E_ARG;
}

/* Extents whose last element would not fit in 63 bits of bytes are rejected before any product is
 * computed. */
static bool fits(int64_t n, int64_t stride)
{
    return stride <= INT64_MAX / 8 / (n > 0 ? n : 1);
}

/* Those of a device are for its kernels to look at. */
static ts_status check_targets(const int32_t *target, int64_t n, int32_t ignored, int64_t n_vocab,
                               const ts_exec *x)
{
    for (int64_t i = 0; i < n && x->device == TS_CPU; i++)
        if (target[i] != ignored && (target[i] < 0 || target[i] >= n_vocab)) return TS_E_ARG;
    return TS_OK;
}

static ts_status check(const ts_cross_entropy_args *a, const ts_exec *x)
{
    if (!a || !x || !a->w || !a->total || !is_flag(a->mean) || !is_flag(a->accumulate))
        return TS_E_ARG;
    if (a->n_rows != 0 && (!a->h || !a->target || !a->loss || !a->lse)) return TS_E_ARG;
    if (check_loss(a->scale, a->smoothing, a->z_loss, a->softcap) || a->chunk < 0) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_vocab < 1 || a->n_hidden < 1) return TS_E_SHAPE;
    if (a->h_stride < a->n_hidden || a->w_stride < a->n_hidden) return TS_E_SHAPE;
    if (!fits(a->n_rows, a->h_stride) || !fits(a->n_vocab, a->w_stride)) return TS_E_SHAPE;
    if ((unsigned)a->dtype > TS_BF16) return TS_E_DTYPE;
    if (a->grad_dtype != a->dtype && a->grad_dtype != (a->dtype == TS_F64 ? TS_F64 : TS_F32))
        return TS_E_DTYPE;
    return check_targets(a->target, a->n_rows, a->ignore_index, a->n_vocab, x);
}

static ts_status check_logits(const ts_cross_entropy_logits_args *a, const ts_exec *x)
{
    if (!a || !x || !a->total || !is_flag(a->mean) || !is_flag(a->in_place)) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->logits || !a->target || !a->loss || !a->lse)) return TS_E_ARG;
    if (a->in_place && a->dlogits) return TS_E_ARG;
    if (check_loss(a->scale, a->smoothing, a->z_loss, a->softcap)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_vocab < 1 || a->row_stride < a->n_vocab) return TS_E_SHAPE;
    if (!fits(a->n_rows, a->row_stride)) return TS_E_SHAPE;
    if ((unsigned)a->dtype > TS_BF16) return TS_E_DTYPE;
    return check_targets(a->target, a->n_rows, a->ignore_index, a->n_vocab, x);
}

static bool apart(const void *args, const ts_exec *x)
{
    const ts_cross_entropy_args *a = args;
    const ts_dtype               wide = ts_wide(a->dtype);
    const int64_t                n = a->n_rows, V = a->n_vocab, D = a->n_hidden;
    return TS_APART(x, 5, ts_vector(a->loss, n, wide), ts_vector(a->lse, n, wide),
                    ts_vector(a->total, 1, wide), ts_rows(a->dh, n, D, a->h_stride, a->grad_dtype),
                    ts_rows(a->dw, V, D, a->w_stride, a->grad_dtype),
                    ts_rows(a->h, n, D, a->h_stride, a->dtype),
                    ts_rows(a->w, V, D, a->w_stride, a->dtype), ts_vector(a->bias, V, a->dtype),
                    ts_vector(a->target, n, TS_I32));
}

TS_API_ENTRY(ts_cross_entropy, check, apart, a->dtype)

static bool apart_logits(const void *args, const ts_exec *x)
{
    const ts_cross_entropy_logits_args *a = args;
    const ts_dtype                      t = a->dtype, wide = ts_wide(t);
    const int64_t                       n = a->n_rows;
    const void *out = a->in_place ? a->logits : a->dlogits, *in = a->in_place ? NULL : a->logits;
    return TS_APART(x, 4, ts_vector(a->loss, n, wide), ts_vector(a->lse, n, wide),
                    ts_vector(a->total, 1, wide), ts_rows(out, n, a->n_vocab, a->row_stride, t),
                    ts_rows(in, n, a->n_vocab, a->row_stride, t), ts_vector(a->target, n, TS_I32));
}

TS_API_ENTRY(ts_cross_entropy_logits, check_logits, apart_logits, a->dtype)

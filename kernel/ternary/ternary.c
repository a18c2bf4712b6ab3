/* SPDX-License-Identifier: Apache-2.0 */
/* ternary.c - API entry points: each validates its arguments, selects an implementation, and calls
 * it. */
#include "cpu.h"
#include "overlap.h"
#include "ternary_impl.h"
#include "whole.h"

enum { LATENT = TS_HAS_F32 }; /* of pack and unpack: activations do not come into it */

/* clang-format off */
const ts_impl ts_ternary_pack_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, LATENT, NULL, NULL, "ts_ternary_pack_sm90" },
    { "cuda", TS_CUDA, TS_SM80, LATENT, NULL, NULL, "ts_ternary_pack_cuda" },
    TS_SIMD_IMPLS(LATENT, ts_ternary_pack, ts_ternary_threads_pack_workspace)
    { "ref", TS_CPU, 0, LATENT, ts_ternary_pack_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_ternary_unpack_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, LATENT, NULL, NULL, "ts_ternary_unpack_sm90" },
    { "cuda", TS_CUDA, TS_SM80, LATENT, NULL, NULL, "ts_ternary_unpack_cuda" },
    TS_SIMD_IMPLS(LATENT, ts_ternary_unpack, NULL)
    { "ref", TS_CPU, 0, LATENT, ts_ternary_unpack_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_ternary_linear_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, TS_HAS_FAST, NULL, NULL, "ts_ternary_linear_sm90" },
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_ternary_linear_cuda" },
    TS_IMPL_AMX(TS_HAS_FAST, ts_ternary_linear_amx, ts_ternary_linear_workspace_amx)
    TS_SIMD_SIZED_IMPLS(TS_HAS_FAST, ts_ternary_linear)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_ternary_linear_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_ternary_linear_packed_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, TS_HAS_FAST, NULL, NULL, "ts_ternary_linear_packed_sm90" },
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_ternary_linear_packed_cuda" },
    TS_IMPL_AMX(TS_HAS_FAST, ts_ternary_linear_packed_amx, ts_ternary_linear_packed_workspace_amx)
    TS_SIMD_SIZED_IMPLS(TS_HAS_FAST, ts_ternary_linear_packed)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_ternary_linear_packed_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_ternary_linear_backward_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, TS_HAS_FAST, NULL, NULL, "ts_ternary_linear_backward_sm90" },
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_ternary_linear_backward_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_ternary_linear_backward, ts_ternary_threads_backward_workspace)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_ternary_linear_backward_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

/* ---- memory of a call ---- */

static ts_span codes(const ts_ternary_linear_dims *d, const uint8_t *code)
{
    return ts_vector(code, d->n_out * ts_ceil_div(d->n_in, TS_TERNARY_GROUP) * 32, TS_U8);
}

static ts_span scales(const ts_ternary_linear_dims *d, const uint16_t *scale)
{
    return ts_vector(scale, d->n_out * ts_ceil_div(d->n_in, TS_TERNARY_GROUP), TS_F16);
}

static ts_span weights(const ts_ternary_linear_dims *d, const float *w)
{
    return ts_vector(w, d->n_out * d->n_in, TS_F32);
}

static bool pack_apart(const void *args, const ts_exec *x)
{
    const ts_ternary_pack_args *a = args;
    return TS_APART(x, 2, codes(&a->d, a->code), scales(&a->d, a->scale), weights(&a->d, a->w));
}

static bool unpack_apart(const void *args, const ts_exec *x)
{
    const ts_ternary_unpack_args *a = args;
    return TS_APART(x, 1, weights(&a->d, a->wt), codes(&a->d, a->code), scales(&a->d, a->scale));
}

static bool linear_apart(const void *args, const ts_exec *x)
{
    const ts_ternary_linear_args *a = args;
    const ts_ternary_linear_dims *d = &a->d;
    return TS_APART(x, 1, ts_vector(a->y, d->n_rows * d->n_out, d->dtype), weights(d, a->w),
                    ts_vector(a->in, d->n_rows * d->n_in, d->dtype));
}

static bool packed_apart(const void *args, const ts_exec *x)
{
    const ts_ternary_linear_packed_args *a = args;
    const ts_ternary_linear_dims        *d = &a->d;
    return TS_APART(x, 1, ts_vector(a->y, d->n_rows * d->n_out, d->dtype), codes(d, a->code),
                    scales(d, a->scale), ts_vector(a->in, d->n_rows * d->n_in, d->dtype));
}

static bool backward_apart(const void *args, const ts_exec *x)
{
    const ts_ternary_linear_backward_args *a = args;
    const ts_ternary_linear_dims          *d = &a->d;
    const int64_t                          in = d->n_rows * d->n_in, out = d->n_rows * d->n_out;
    return TS_APART(x, 2, ts_vector(a->dx, in, d->dtype), weights(d, a->dw), weights(d, a->w),
                    ts_vector(a->in, in, d->dtype), ts_vector(a->dy, out, d->dtype));
}

/* ---- entry points ---- */

TS_API_ENTRY(ts_ternary_pack, ts_ternary_pack_check, pack_apart, TS_F32)

TS_API_ENTRY(ts_ternary_unpack, ts_ternary_unpack_check, unpack_apart, TS_F32)

TS_API_ENTRY(ts_ternary_linear, ts_ternary_linear_check, linear_apart, a->d.dtype)

TS_API_ENTRY(ts_ternary_linear_packed, ts_ternary_linear_packed_check, packed_apart, a->d.dtype)

TS_API_ENTRY(ts_ternary_linear_backward, ts_ternary_linear_backward_check, backward_apart,
             a->d.dtype)

/* SPDX-License-Identifier: Apache-2.0 */
/* ternary.c - API entry points: each validates its arguments, selects an implementation, and calls
 * it. */
#include "cpu.h"
#include "ternary_impl.h"

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
    TS_SIMD_SIZED_IMPLS(TS_HAS_FAST, ts_ternary_linear)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_ternary_linear_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_ternary_linear_packed_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, TS_HAS_FAST, NULL, NULL, "ts_ternary_linear_packed_sm90" },
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_ternary_linear_packed_cuda" },
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

TS_API_ENTRY(ts_ternary_pack, ts_ternary_pack_check, TS_F32)

TS_API_ENTRY(ts_ternary_unpack, ts_ternary_unpack_check, TS_F32)

TS_API_ENTRY(ts_ternary_linear, ts_ternary_linear_check, a->d.dtype)

TS_API_ENTRY(ts_ternary_linear_packed, ts_ternary_linear_packed_check, a->d.dtype)

TS_API_ENTRY(ts_ternary_linear_backward, ts_ternary_linear_backward_check, a->d.dtype)

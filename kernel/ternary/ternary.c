/* SPDX-License-Identifier: Apache-2.0 */
/* ternary.c - API entry points: each validates its arguments, selects an implementation, and calls
 * it. */
#include "cpu.h"
#include "ternary_impl.h"

enum {
    FAST = TS_HAS_F32 | TS_HAS_BF16 | TS_HAS_F16,
    ANY = FAST | TS_HAS_F64,
    LATENT = TS_HAS_F32, /* of pack and unpack: activations do not come into it */
};

/* clang-format off */
const ts_impl ts_ternary_pack_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, LATENT, NULL, NULL, "ts_ternary_pack_sm90" },
    { "cuda", TS_CUDA, TS_SM80, LATENT, NULL, NULL, "ts_ternary_pack_cuda" },
    TS_IMPL_AVX512(LATENT, ts_ternary_pack_avx512, ts_ternary_threads_pack_workspace)
    TS_IMPL_AVX2(LATENT, ts_ternary_pack_avx2, ts_ternary_threads_pack_workspace)
    TS_IMPL_NEON(LATENT, ts_ternary_pack_neon, ts_ternary_threads_pack_workspace)
    { "ref", TS_CPU, 0, LATENT, ts_ternary_pack_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_ternary_unpack_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, LATENT, NULL, NULL, "ts_ternary_unpack_sm90" },
    { "cuda", TS_CUDA, TS_SM80, LATENT, NULL, NULL, "ts_ternary_unpack_cuda" },
    TS_IMPL_AVX512(LATENT, ts_ternary_unpack_avx512, NULL)
    TS_IMPL_AVX2(LATENT, ts_ternary_unpack_avx2, NULL)
    TS_IMPL_NEON(LATENT, ts_ternary_unpack_neon, NULL)
    { "ref", TS_CPU, 0, LATENT, ts_ternary_unpack_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_ternary_linear_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, FAST, NULL, NULL, "ts_ternary_linear_sm90" },
    { "cuda", TS_CUDA, TS_SM80, FAST, NULL, NULL, "ts_ternary_linear_cuda" },
    TS_IMPL_AVX512(FAST, ts_ternary_linear_avx512, ts_ternary_linear_avx512_workspace)
    TS_IMPL_AVX2(FAST, ts_ternary_linear_avx2, ts_ternary_linear_avx2_workspace)
    TS_IMPL_NEON(FAST, ts_ternary_linear_neon, ts_ternary_linear_neon_workspace)
    { "ref", TS_CPU, 0, ANY, ts_ternary_linear_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_ternary_linear_packed_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, FAST, NULL, NULL, "ts_ternary_linear_packed_sm90" },
    { "cuda", TS_CUDA, TS_SM80, FAST, NULL, NULL, "ts_ternary_linear_packed_cuda" },
    TS_IMPL_AVX512(FAST, ts_ternary_linear_packed_avx512, ts_ternary_linear_packed_avx512_workspace)
    TS_IMPL_AVX2(FAST, ts_ternary_linear_packed_avx2, ts_ternary_linear_packed_avx2_workspace)
    TS_IMPL_NEON(FAST, ts_ternary_linear_packed_neon, ts_ternary_linear_packed_neon_workspace)
    { "ref", TS_CPU, 0, ANY, ts_ternary_linear_packed_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_ternary_linear_backward_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, FAST, NULL, NULL, "ts_ternary_linear_backward_sm90" },
    { "cuda", TS_CUDA, TS_SM80, FAST, NULL, NULL, "ts_ternary_linear_backward_cuda" },
    TS_IMPL_AVX512(FAST, ts_ternary_linear_backward_avx512, ts_ternary_threads_backward_workspace)
    TS_IMPL_AVX2(FAST, ts_ternary_linear_backward_avx2, ts_ternary_threads_backward_workspace)
    TS_IMPL_NEON(FAST, ts_ternary_linear_backward_neon, ts_ternary_threads_backward_workspace)
    { "ref", TS_CPU, 0, ANY, ts_ternary_linear_backward_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

ts_status ts_ternary_pack_workspace(const ts_ternary_pack_args *a, const ts_exec *x,
                                    size_t *n_bytes)
{
    const ts_status s = n_bytes ? ts_ternary_pack_check(a, x) : TS_E_ARG;
    return s ? s : ts_impl_workspace(ts_ternary_pack_impls, TS_F32, a, x, n_bytes);
}

ts_status ts_ternary_pack(const ts_ternary_pack_args *a, const ts_exec *x)
{
    const ts_status s = ts_ternary_pack_check(a, x);
    return s ? s : ts_impl_run(ts_ternary_pack_impls, TS_F32, a, x);
}

ts_status ts_ternary_unpack_workspace(const ts_ternary_unpack_args *a, const ts_exec *x,
                                      size_t *n_bytes)
{
    const ts_status s = n_bytes ? ts_ternary_unpack_check(a, x) : TS_E_ARG;
    return s ? s : ts_impl_workspace(ts_ternary_unpack_impls, TS_F32, a, x, n_bytes);
}

ts_status ts_ternary_unpack(const ts_ternary_unpack_args *a, const ts_exec *x)
{
    const ts_status s = ts_ternary_unpack_check(a, x);
    return s ? s : ts_impl_run(ts_ternary_unpack_impls, TS_F32, a, x);
}

ts_status ts_ternary_linear_workspace(const ts_ternary_linear_args *a, const ts_exec *x,
                                      size_t *n_bytes)
{
    const ts_status s = n_bytes ? ts_ternary_linear_check(a, x) : TS_E_ARG;
    return s ? s : ts_impl_workspace(ts_ternary_linear_impls, a->d.dtype, a, x, n_bytes);
}

ts_status ts_ternary_linear(const ts_ternary_linear_args *a, const ts_exec *x)
{
    const ts_status s = ts_ternary_linear_check(a, x);
    return s ? s : ts_impl_run(ts_ternary_linear_impls, a->d.dtype, a, x);
}

ts_status ts_ternary_linear_packed_workspace(const ts_ternary_linear_packed_args *a,
                                             const ts_exec *x, size_t *n_bytes)
{
    const ts_status s = n_bytes ? ts_ternary_linear_packed_check(a, x) : TS_E_ARG;
    return s ? s : ts_impl_workspace(ts_ternary_linear_packed_impls, a->d.dtype, a, x, n_bytes);
}

ts_status ts_ternary_linear_packed(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    const ts_status s = ts_ternary_linear_packed_check(a, x);
    return s ? s : ts_impl_run(ts_ternary_linear_packed_impls, a->d.dtype, a, x);
}

ts_status ts_ternary_linear_backward_workspace(const ts_ternary_linear_backward_args *a,
                                               const ts_exec *x, size_t *n_bytes)
{
    const ts_status s = n_bytes ? ts_ternary_linear_backward_check(a, x) : TS_E_ARG;
    return s ? s : ts_impl_workspace(ts_ternary_linear_backward_impls, a->d.dtype, a, x, n_bytes);
}

ts_status ts_ternary_linear_backward(const ts_ternary_linear_backward_args *a, const ts_exec *x)
{
    const ts_status s = ts_ternary_linear_backward_check(a, x);
    return s ? s : ts_impl_run(ts_ternary_linear_backward_impls, a->d.dtype, a, x);
}

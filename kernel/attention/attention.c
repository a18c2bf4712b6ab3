/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - API entry points of both passes: validate the arguments, select an implementation,
 * call it. */
#include "attention_impl.h"
#include "cpu.h"

enum { FAST = TS_HAS_F32 | TS_HAS_BF16 | TS_HAS_F16, ANY = FAST | TS_HAS_F64 };

/* clang-format off */
const ts_impl ts_flash_attention_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, FAST, NULL, NULL, "ts_flash_attention_sm90" },
    { "cuda", TS_CUDA, TS_SM80, FAST, NULL, NULL, "ts_flash_attention_cuda" },
    TS_IMPL_AMX(TS_HAS_BF16, ts_flash_attention_amx, ts_flash_attention_amx_workspace)
    TS_IMPL_AVX512(FAST, ts_flash_attention_avx512, ts_attention_threads_workspace)
    TS_IMPL_AVX2(FAST, ts_flash_attention_avx2, ts_attention_threads_workspace)
    TS_IMPL_NEON(FAST, ts_flash_attention_neon, ts_attention_threads_workspace)
    { "ref", TS_CPU, 0, ANY, ts_flash_attention_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_flash_attention_backward_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, FAST, NULL, NULL, "ts_flash_attention_backward_sm90" },
    { "cuda", TS_CUDA, TS_SM80, FAST, NULL, NULL, "ts_flash_attention_backward_cuda" },
    TS_IMPL_AMX(TS_HAS_BF16, ts_flash_attention_backward_amx, ts_flash_attention_backward_amx_workspace)
    TS_IMPL_AVX512(FAST, ts_flash_attention_backward_avx512, ts_attention_threads_backward_workspace)
    TS_IMPL_AVX2(FAST, ts_flash_attention_backward_avx2, ts_attention_threads_backward_workspace)
    TS_IMPL_NEON(FAST, ts_flash_attention_backward_neon, ts_attention_threads_backward_workspace)
    { "ref", TS_CPU, 0, ANY, ts_flash_attention_backward_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

ts_status ts_flash_attention_workspace(const ts_flash_attention_args *a, const ts_exec *x,
                                       size_t *n_bytes)
{
    const ts_status s = n_bytes ? ts_flash_attention_check(a, x) : TS_E_ARG;
    return s ? s : ts_impl_workspace(ts_flash_attention_impls, a->d.dtype, a, x, n_bytes);
}

ts_status ts_flash_attention(const ts_flash_attention_args *a, const ts_exec *x)
{
    const ts_status s = ts_flash_attention_check(a, x);
    return s ? s : ts_impl_run(ts_flash_attention_impls, a->d.dtype, a, x);
}

ts_status ts_flash_attention_backward_workspace(const ts_flash_attention_backward_args *a,
                                                const ts_exec *x, size_t *n_bytes)
{
    const ts_status s = n_bytes ? ts_flash_attention_backward_check(a, x) : TS_E_ARG;
    return s ? s : ts_impl_workspace(ts_flash_attention_backward_impls, a->d.dtype, a, x, n_bytes);
}

ts_status ts_flash_attention_backward(const ts_flash_attention_backward_args *a, const ts_exec *x)
{
    const ts_status s = ts_flash_attention_backward_check(a, x);
    return s ? s : ts_impl_run(ts_flash_attention_backward_impls, a->d.dtype, a, x);
}

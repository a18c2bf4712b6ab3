/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - API entry points of both passes: validate the arguments, select an implementation,
 * call it. */
#include "attention_impl.h"
#include "cpu.h"

/* clang-format off */
const ts_impl ts_flash_attention_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, TS_HAS_FAST, NULL, NULL, "ts_flash_attention_sm90" },
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_flash_attention_cuda" },
    TS_IMPL_AMX(TS_HAS_BF16, ts_flash_attention_amx, ts_flash_attention_amx_workspace)
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_flash_attention, ts_attention_threads_workspace)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_flash_attention_ref, NULL, NULL },
    { 0 },
};

const ts_impl ts_flash_attention_backward_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, TS_HAS_FAST, NULL, NULL, "ts_flash_attention_backward_sm90" },
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_flash_attention_backward_cuda" },
    TS_IMPL_AMX(TS_HAS_BF16, ts_flash_attention_backward_amx, ts_flash_attention_backward_amx_workspace)
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_flash_attention_backward, ts_attention_threads_backward_workspace)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_flash_attention_backward_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

TS_API_ENTRY(ts_flash_attention, ts_flash_attention_check, a->d.dtype)

TS_API_ENTRY(ts_flash_attention_backward, ts_flash_attention_backward_check, a->d.dtype)

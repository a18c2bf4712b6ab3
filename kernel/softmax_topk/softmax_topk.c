/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk.c - API entry points: validate the arguments, select an implementation, call it. */
#include "cpu.h"
#include "softmax_topk_impl.h"

/* clang-format off */
const ts_impl ts_softmax_topk_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, TS_HAS_FAST, NULL, NULL, "ts_softmax_topk_sm90" },
    { "cuda", TS_CUDA, TS_SM80, TS_HAS_FAST, NULL, NULL, "ts_softmax_topk_cuda" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_softmax_topk, ts_softmax_topk_threads_workspace)
    { "ref", TS_CPU, 0, TS_HAS_FAST, ts_softmax_topk_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

TS_API_ENTRY(ts_softmax_topk, ts_softmax_topk_check, a->dtype)

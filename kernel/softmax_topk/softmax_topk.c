/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk.c - API entry points: validate the arguments, select an implementation, call it. */
#include "cpu.h"
#include "softmax_topk_impl.h"

enum { FAST = TS_HAS_F32 | TS_HAS_BF16 | TS_HAS_F16 };

/* clang-format off */
const ts_impl ts_softmax_topk_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, FAST, NULL, NULL, "ts_softmax_topk_sm90" },
    { "cuda", TS_CUDA, TS_SM80, FAST, NULL, NULL, "ts_softmax_topk_cuda" },
    TS_IMPL_AVX512(FAST, ts_softmax_topk_avx512, ts_softmax_topk_threads_workspace)
    TS_IMPL_AVX2(FAST, ts_softmax_topk_avx2, ts_softmax_topk_threads_workspace)
    TS_IMPL_NEON(FAST, ts_softmax_topk_neon, ts_softmax_topk_threads_workspace)
    { "ref", TS_CPU, 0, FAST, ts_softmax_topk_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

ts_status ts_softmax_topk_workspace(const ts_softmax_topk_args *a, const ts_exec *x,
                                    size_t *n_bytes)
{
    const ts_status s = n_bytes ? ts_softmax_topk_check(a, x) : TS_E_ARG;
    return s ? s : ts_impl_workspace(ts_softmax_topk_impls, a->dtype, a, x, n_bytes);
}

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    const ts_status s = ts_softmax_topk_check(a, x);
    return s ? s : ts_impl_run(ts_softmax_topk_impls, a->dtype, a, x);
}

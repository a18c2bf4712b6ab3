/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk.c - API entry points: validate the arguments, select an implementation, call it. */
#include "cpu.h"
#include "overlap.h"
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

static bool apart(const void *args, const ts_exec *x)
{
    const ts_softmax_topk_args *a = args;
    const int64_t               n = a->n_rows;
    return TS_APART(x, 3, ts_vector(a->index, n * a->k, TS_I32),
                    ts_vector(a->prob, n * a->k, TS_F32), ts_vector(a->lse, n, TS_F32),
                    ts_rows(a->logits, n, a->n_vocab, a->row_stride, a->dtype));
}

TS_API_ENTRY(ts_softmax_topk, ts_softmax_topk_check, apart, a->dtype)

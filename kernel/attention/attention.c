/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - API entry points of both passes: validate the arguments, select an implementation,
 * call it. */
#include "attention_impl.h"
#include "cpu.h"
#include "overlap.h"

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

static bool apart(const void *args, const ts_exec *x)
{
    const ts_flash_attention_args *a = args;
    const ts_attention_dims       *d = &a->d;
    const ts_dtype                 t = d->dtype;
    const int64_t                  rows = d->n_batch * d->n_q_head * d->n_q, q = rows * d->head_dim;
    const int64_t                  k = d->n_batch * d->n_kv_head * d->n_k * d->head_dim;
    return TS_APART(x, 2, ts_vector(a->o, q, t), ts_vector(a->lse, rows, ts_wide(t)),
                    ts_vector(a->q, q, t), ts_vector(a->k, k, t), ts_vector(a->v, k, t),
                    ts_vector(a->kv_len, d->n_batch, TS_I32));
}

TS_API_ENTRY(ts_flash_attention, ts_flash_attention_check, apart, a->d.dtype)

static bool apart_backward(const void *args, const ts_exec *x)
{
    const ts_flash_attention_backward_args *a = args;
    const ts_attention_dims                *d = &a->d;
    const ts_dtype                          t = d->dtype;
    const int64_t rows = d->n_batch * d->n_q_head * d->n_q, q = rows * d->head_dim;
    const int64_t k = d->n_batch * d->n_kv_head * d->n_k * d->head_dim;
    return TS_APART(x, 3, ts_vector(a->dq, q, t), ts_vector(a->dk, k, t), ts_vector(a->dv, k, t),
                    ts_vector(a->q, q, t), ts_vector(a->k, k, t), ts_vector(a->v, k, t),
                    ts_vector(a->o, q, t), ts_vector(a->dout, q, t),
                    ts_vector(a->lse, rows, ts_wide(t)), ts_vector(a->kv_len, d->n_batch, TS_I32));
}

TS_API_ENTRY(ts_flash_attention_backward, ts_flash_attention_backward_check, apart_backward,
             a->d.dtype)

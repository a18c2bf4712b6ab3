/* SPDX-License-Identifier: Apache-2.0 */
/* attention_forward_mma.cu - selects the forward kernel by warp-level mma for a call. */
#include <float.h>

#include "attention_forward_mma.cuh"

namespace
{

template <class S> ts_status launch(const ts_flash_attention_args *a, const ts_exec *x)
{
    const ts_attention_dims &d = a->d;
    const int64_t n_head = d.n_batch * d.n_q_head, n_block = (d.n_q + S::ROWS - 1) / S::ROWS;
    const double  scale = fabs(d.scale) * LOG2_E;
    if (n_head > INT_MAX / n_block) return TS_E_UNSUPPORTED;
    const forward_call c = {
        .q = a->q,
        .k = a->k,
        .v = a->v,
        .kv_len = a->kv_len,
        .o = a->o,
        .lse = (float *)a->lse,
        .see = visible_keys(d),
        .of_q = strides(d, d.n_q_head, d.n_q),
        .of_k = strides(d, d.n_kv_head, d.n_k),
        .order = row_order(d, n_block),
        .n_q = (int)d.n_q,
        .n_head = (int)d.n_q_head,
        .group = (int)(d.n_q_head / d.n_kv_head),
        .head_dim = (int)d.head_dim,
        .in_pieces = d.head_dim % 8 == 0 && is_aligned(a->q) && is_aligned(a->k) &&
                     is_aligned(a->v) && is_aligned(a->o),
        /* A scale of 0, or as good as: scores of 0, or NaN, not of 0 times -inf where hidden. */
        .by = scale < FLT_MIN ? 0.0f
              : d.scale < 0   ? -1.0f
                              : 1.0f,
        .scale = scale < FLT_MIN ? 1.0f : (float)fmin(scale, (double)FLT_MAX),
    };
    if (cudaFuncSetAttribute(forward_by_warps<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             S::SHARED_BYTES) != cudaSuccess)
        return TS_E_DEVICE;
    forward_by_warps<S>
        <<<(unsigned)(n_head * n_block), S::THREADS, S::SHARED_BYTES, (cudaStream_t)x->stream>>>(c);
    return launched();
}

template <class T> ts_status launch_for(const ts_flash_attention_args *a, const ts_exec *x)
{
    if (a->d.head_dim <= 64) return launch<forward_shape<T, 64>>(a, x);
    if (a->d.head_dim <= 96) return launch<forward_shape<T, 96>>(a, x);
    if (a->d.head_dim <= 128) return launch<forward_shape<T, 128>>(a, x);
    return launch<forward_shape<T, 256>>(a, x);
}

} // namespace

ts_status ts_flash_attention_mma(const ts_flash_attention_args *a, const ts_exec *x)
{
    return a->d.dtype == TS_F16 ? launch_for<__half>(a, x) : launch_for<__nv_bfloat16>(a, x);
}

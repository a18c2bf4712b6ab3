/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_mma.cu - selects the backward kernel by warp-level mma for a call, and whether
 * dq is summed in memory. */
#include "attention_backward_mma.cuh"

namespace
{

typedef ts_flash_attention_backward_args backward_args;

int64_t rounded_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by * by;
}

int64_t n_rows_of(const ts_attention_dims &d)
{
    return d.n_batch * d.n_q_head * d.n_q;
}

/* Columns that the kernels know. */
int width_of(const ts_attention_dims &d)
{
    return d.head_dim <= 64 ? 64 : d.head_dim <= 128 ? 128 : 256;
}

/* Floats: the sums of dq, with what they are rounded up by; 0 where that is mostly padding, and
 * more memory than it is worth. */
int64_t n_sums_of(const ts_attention_dims &d)
{
    const int64_t width = width_of(d), height = width <= 128 ? 64 : 32;
    const int64_t n = d.n_batch * d.n_q_head * rounded_up(d.n_q, height) * width;
    return n <= 4 * n_rows_of(d) * d.head_dim || n <= 1 << 20 ? n : 0;
}

/* As many KV heads as have q, dout and dq_sums of one of their query heads in the L2 together. */
int section_of(const ts_attention_dims &d)
{
    const int64_t most = d.n_batch * d.n_kv_head, n = (40 << 20) / (d.n_q * d.head_dim * 8 + 1);
    return (int)(n < 1 ? 1 : n < most ? n : most);
}

bool in_pieces(const backward_args *a)
{
    return a->d.head_dim % 8 == 0 && is_aligned(a->q) && is_aligned(a->k) && is_aligned(a->v) &&
           is_aligned(a->o) && is_aligned(a->dout) && is_aligned(a->dq) && is_aligned(a->dk) &&
           is_aligned(a->dv);
}

/* Bytes of shared memory that a block may have. */
int most_shared(void)
{
    int device = 0, n = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&n, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return n;
}

template <class K> bool allow_shared(K kernel, int n_bytes)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes) ==
           cudaSuccess;
}

template <class Q>
ts_status launch_queries(const backward_call &c, const backward_args *a, cudaStream_t s)
{
    const ts_attention_dims &d = a->d;
    const int64_t n_head = d.n_batch * d.n_q_head, n_block = rounded_up(d.n_q, Q::ROWS) / Q::ROWS;
    if (n_head * n_block > INT_MAX) return TS_E_UNSUPPORTED;
    if (!allow_shared(own_queries<Q>, Q::SHARED_BYTES)) return TS_E_DEVICE;
    own_queries<Q><<<(unsigned)(n_head * n_block), Q::THREADS, Q::SHARED_BYTES, s>>>(
        c, row_order(d, n_block));
    return launched();
}

/* S: of the blocks that own keys; Q: of those that own queries. */
template <class S, class Q>
ts_status launch(backward_call c, const backward_args *a, const ts_exec *x)
{
    const ts_attention_dims &d = a->d;
    const cudaStream_t       s = (cudaStream_t)x->stream;
    const int64_t n_rows = n_rows_of(d), n_heads = d.n_batch * d.n_kv_head, n_sums = n_sums_of(d);
    const int64_t n_block = rounded_up(d.n_k, S::KEYS) / S::KEYS;
    const int64_t n_stats = rounded_up(n_rows * ROW_LANES, SIDE_THREADS) / SIDE_THREADS;
    const int64_t n_round = rounded_up(n_rows * (S::D / 8), SIDE_THREADS) / SIDE_THREADS;
    if (n_heads * n_block * S::PARTS > INT_MAX || n_stats > INT_MAX || n_round > INT_MAX)
        return TS_E_UNSUPPORTED;
    if (!allow_shared(own_keys<S>, S::SHARED_BYTES)) return TS_E_DEVICE;
    c.n_heads = (int)n_heads, c.n_block = (int)n_block;
    c.n_tile = (int)(rounded_up(d.n_q, S::HEIGHT) / S::HEIGHT);
    if (x->deterministic || n_sums == 0) c.dq_sums = NULL;
    else if (cudaMemsetAsync(c.dq_sums, 0, (size_t)n_sums * sizeof(float), s) != cudaSuccess)
        return TS_E_DEVICE;
    if (n_rows > 0) find_stats<typename S::T><<<(unsigned)n_stats, SIDE_THREADS, 0, s>>>(c, n_rows);
    if (n_heads > 0 && n_block > 0)
        own_keys<S>
            <<<(unsigned)(n_heads * n_block * S::PARTS), S::THREADS, S::SHARED_BYTES, s>>>(c);
    if (n_rows > 0 && c.dq_sums) round_dq<S><<<(unsigned)n_round, SIDE_THREADS, 0, s>>>(c, n_rows);
    else if (n_rows > 0) return launch_queries<Q>(c, a, s);
    return launched();
}

/* Of two sizes of blocks the larger, where it fits. */
template <class T, int D, int MANY, int FEW>
ts_status launch_fitting(const backward_call &c, const backward_args *a, const ts_exec *x)
{
    typedef backward_shape<T, D, MANY> large;
    typedef backward_shape<T, D, FEW>  small;
    if (MANY == FEW || large::SHARED_BYTES <= most_shared())
        return launch<large, query_shape<T, D>>(c, a, x);
    return launch<small, query_shape<T, D>>(c, a, x);
}

template <class T>
ts_status launch_for(const backward_call &c, const backward_args *a, const ts_exec *x)
{
    switch (width_of(a->d)) {
    case 64:
        return launch_fitting<T, 64, 4, 4>(c, a, x);
    case 128:
        return launch_fitting<T, 128, 8, 4>(c, a, x);
    default:
        return launch_fitting<T, 256, 4, 2>(c, a, x);
    }
}

} // namespace

size_t ts_flash_attention_backward_mma_workspace(const backward_args *a)
{
    return ALIGN + (size_t)n_sums_of(a->d) * sizeof(float) +
           (size_t)n_rows_of(a->d) * sizeof(float2);
}

ts_status ts_flash_attention_backward_mma(const backward_args *a, const ts_exec *x)
{
    const ts_attention_dims &d = a->d;
    float *const             sums = (float *)aligned_up(x->workspace);
    const backward_call      c = {
             .q = a->q,
             .k = a->k,
             .v = a->v,
             .o = a->o,
             .dout = a->dout,
             .lse = (const float *)a->lse,
             .kv_len = a->kv_len,
             .dq = a->dq,
             .dk = a->dk,
             .dv = a->dv,
             .see = sight(d),
             .of_q = strides(d, d.n_q_head, d.n_q),
             .of_k = strides(d, d.n_kv_head, d.n_k),
             .n_head = (int)d.n_kv_head,
             .group = (int)(d.n_q_head / d.n_kv_head),
             .head_dim = (int)d.head_dim,
             .n_heads = 0,
             .n_block = 0,
             .section = section_of(d),
             .n_tile = 0,
             .in_pieces = in_pieces(a),
             .scale = (float)d.scale,
             .scale_log2 = (float)(d.scale * LOG2_E),
             .stats = (float2 *)(sums + n_sums_of(d)),
             .dq_sums = sums,
    };
    return d.dtype == TS_F16 ? launch_for<__half>(c, a, x) : launch_for<__nv_bfloat16>(c, a, x);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* attention_forward_cuda.cu - flash attention in plain float, for every head size.
 *
 * 16-bit elements use attention_forward_mma.cu, and floats attention_forward_split.cu, for the
 * shapes that those support. A block has 32 rows (queries) of a head, a warp four of them. Tiles of
 * 32 keys and values are in shared memory. A lane computes the score of one key of the tile, and
 * every 32nd column of the results. */
#include <float.h>

#include "attention_split.cuh"

namespace
{

enum { WARPS = 8, ROWS = 4, BLOCK_ROWS = WARPS * ROWS, KEYS = 32 };

struct any_call {
    const float   *q, *k, *v;
    const int32_t *kv_len;
    float         *o, *lse;
    visible_keys   see;
    strides        of_q, of_k;
    int            n_q, n_q_head, n_kv_head, head_dim, n_block;
    float          sign, scale2; /* q is multiplied by sign, so that scale2 >= 0, of exp2 */
    double         scale;        /* >= 0 */
};

/* Queries, keys and values; columns from head_dim on are 0. */
template <int D> struct tiles {
    float q[BLOCK_ROWS][D], v[KEYS][D], k[KEYS][D + 1];
};

__device__ __forceinline__ int lane(void)
{
    return (int)threadIdx.x % 32;
}

__device__ __forceinline__ int warp(void)
{
    return (int)threadIdx.x / 32;
}

__device__ __forceinline__ float warp_max(float x)
{
#pragma unroll
    for (int d = 16; d; d /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

__device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (int d = 16; d; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

/* Rows from `first` on, one per warp and turn; those from `end` on are 0, whatever memory contains
 * there. */
template <int D, int STRIDE, class Row>
__device__ __forceinline__ void load_rows(float *to, const float *from, int n, int first, int end,
                                          int head_dim, float by, Row row)
{
    for (int r = warp(); r < n; r += WARPS) {
        const float *x = from + (first + r < end ? row(first + r) : 0);
        for (int d = lane(); d < D; d += 32)
            to[r * STRIDE + d] = first + r < end && d < head_dim ? x[d] * by : 0.0f;
    }
}

/* What a warp has of its rows. */
template <int D> struct state {
    float m[ROWS], l[ROWS], o[ROWS][D / 32];

    __device__ __forceinline__ state(void)
    {
        for (int r = 0; r < ROWS; r++) {
            m[r] = -INFINITY, l[r] = 0;
            for (int i = 0; i < D / 32; i++) o[r][i] = 0;
        }
    }
    __device__ __forceinline__ void meet(const any_call &c, const tiles<D> &t, int row, int key,
                                         int length)
    {
        float x[ROWS] = {};
#pragma unroll 4
        for (int d = 0; d < D; d++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                x[r] = fmaf(t.q[warp() * ROWS + r][d], t.k[lane()][d], x[r]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int   at = key + lane();
            const bool  seen = at >= c.see.begin(row + r) && at < c.see.end(row + r, length);
            const float next = fmaxf(m[r], warp_max(seen ? x[r] : -INFINITY));
            const float base = next == -INFINITY ? 0.0f : next;
            const float keep = m[r] == -INFINITY ? 0.0f : exp2f((m[r] - base) * c.scale2);
            x[r] = seen ? exp2f((x[r] - base) * c.scale2) : 0.0f;
            m[r] = next;
            l[r] = fmaf(l[r], keep, x[r]);
#pragma unroll
            for (int i = 0; i < D / 32; i++) o[r][i] *= keep;
        }
        for (int j = 0; j < KEYS; j++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const float p = __shfl_sync(0xffffffffu, x[r], j);
#pragma unroll
                for (int i = 0; i < D / 32; i++)
                    o[r][i] = fmaf(p, t.v[j][i * 32 + lane()], o[r][i]);
            }
    }
};

template <int D>
__global__ void __launch_bounds__(WARPS * 32, 2) forward_any(const __grid_constant__ any_call c)
{
    extern __shared__ float4 memory[];
    tiles<D>                &t = *(tiles<D> *)memory;
    const int                at = (int)blockIdx.x / c.n_block;
    const int                batch = at / c.n_q_head, head = at % c.n_q_head;
    const int                kv_head = head / (c.n_q_head / c.n_kv_head);
    const int                first = (int)blockIdx.x % c.n_block * BLOCK_ROWS;
    const int                row = first + warp() * ROWS;
    const int                length = c.see.length(c.kv_len, batch);
    const int                end = c.see.end(min(first + BLOCK_ROWS, c.n_q) - 1, length);
    const auto               query = [&](int i) { return c.of_q.at(batch, head, i); };
    const auto               key = [&](int j) { return c.of_k.at(batch, kv_head, j); };
    state<D>                 s;
    load_rows<D, D>(t.q[0], c.q, BLOCK_ROWS, first, c.n_q, c.head_dim, c.sign, query);
    for (int j = c.see.begin(first) / KEYS * KEYS; j < end; j += KEYS) {
        __syncthreads();
        load_rows<D, D + 1>(t.k[0], c.k, KEYS, j, length, c.head_dim, 1, key);
        load_rows<D, D>(t.v[0], c.v, KEYS, j, length, c.head_dim, 1, key);
        __syncthreads();
        s.meet(c, t, row, j, length);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float sum = warp_sum(s.l[r]);
        if (row + r >= c.n_q) continue;
        float *o = c.o + query(row + r);
#pragma unroll
        for (int i = 0; i < D / 32; i++)
            if (i * 32 + lane() < c.head_dim)
                o[i * 32 + lane()] = sum == 0 ? 0.0f : s.o[r][i] / sum;
        if (c.lse && lane() == 0)
            c.lse[(int64_t)at * c.n_q + row + r] =
                sum == 0 ? -INFINITY : (float)(s.m[r] * c.scale + log((double)sum));
    }
}

template <int D> ts_status launch(const any_call &c, int64_t n_blocks, cudaStream_t stream)
{
    cudaFuncSetAttribute(forward_any<D>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         (int)sizeof(tiles<D>));
    forward_any<D><<<(unsigned)n_blocks, WARPS * 32, sizeof(tiles<D>), stream>>>(c);
    return launched();
}

ts_status launch_for(const any_call &c, int64_t n_blocks, cudaStream_t stream)
{
    if (c.head_dim <= 32) return launch<32>(c, n_blocks, stream);
    if (c.head_dim <= 64) return launch<64>(c, n_blocks, stream);
    if (c.head_dim <= 128) return launch<128>(c, n_blocks, stream);
    return launch<256>(c, n_blocks, stream);
}

} // namespace

extern "C" ts_status ts_flash_attention_cuda(const void *args, const ts_exec *x)
{
    const ts_flash_attention_args *a = (const ts_flash_attention_args *)args;
    const ts_attention_dims       &d = a->d;
    const cudaStream_t             stream = (cudaStream_t)x->stream;
    const int64_t                  n_head = d.n_batch * d.n_q_head;
    const int64_t                  n_block = (d.n_q + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const double                   scale = fabs(d.scale);
    if (n_head == 0 || n_block == 0) return TS_OK;
    if (d.n_q > MOST_LENGTH || d.n_k > MOST_LENGTH || n_head > INT_MAX / n_block)
        return TS_E_UNSUPPORTED;
    if (d.dtype != TS_F32) return ts_flash_attention_mma(a, x);
    const ts_status split = ts_flash_attention_split(a, x);
    if (split != TS_E_UNSUPPORTED) return split;
    const any_call c = {
        .q = (const float *)a->q,
        .k = (const float *)a->k,
        .v = (const float *)a->v,
        .kv_len = a->kv_len,
        .o = (float *)a->o,
        .lse = (float *)a->lse,
        .see = visible_keys(d),
        .of_q = strides(d, d.n_q_head, d.n_q),
        .of_k = strides(d, d.n_kv_head, d.n_k),
        .n_q = (int)d.n_q,
        .n_q_head = (int)d.n_q_head,
        .n_kv_head = (int)d.n_kv_head,
        .head_dim = (int)d.head_dim,
        .n_block = (int)n_block,
        .sign = d.scale < 0 ? -1.0f : 1.0f,
        .scale2 = (float)fmin(scale * 1.4426950408889634, (double)FLT_MAX),
        .scale = scale,
    };
    return launch_for(c, n_head * n_block, stream);
}

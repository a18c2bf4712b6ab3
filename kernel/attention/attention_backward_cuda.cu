/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_cuda.cu - the gradients in plain float, for every head size.
 *
 * 16-bit elements use attention_backward_mma.cu, and floats attention_backward_split.cu, for the
 * shapes that those support. One kernel owns keys and iterates over queries, for dk and dv; another
 * owns queries and iterates over keys, for dq. Nothing is added across blocks, so the order of sums
 * is always the same. */
#include "attention_split.cuh"

namespace
{

enum { TILE = 32, THREADS = 256, ROW_THREADS = THREADS / TILE };

struct any_params {
    sight          see;
    strides        of_q, of_k;
    int            n_q_head, n_kv_head, head_dim;
    float          scale;
    const float   *q, *k, *v, *o, *dout, *lse;
    const int32_t *kv_len;
    float         *dq, *dk, *dv, *delta; /* delta: as lse */
};

/* ---- a tile of queries and one of keys in shared memory ---- */

/* The distance between rows is an odd number of words, so that a column's words are in different
 * banks. */
struct tile_memory {
    float *q, *dout, *k, *v; /* [TILE][pitch] */
    float *p, *ds;           /* [query][key], rows of TILE + 1 */
    float *lse, *delta;      /* [TILE] */
    int    pitch;

    __host__ __device__ tile_memory(float *at, int head_dim) : pitch(head_dim | 1)
    {
        q = at;
        dout = q + TILE * pitch;
        k = dout + TILE * pitch;
        v = k + TILE * pitch;
        p = v + TILE * pitch;
        ds = p + TILE * (TILE + 1);
        lse = ds + TILE * (TILE + 1);
        delta = lse + TILE;
    }

    static size_t n_bytes(int head_dim)
    {
        return (4 * (head_dim | 1) + 2 * (TILE + 1) + 2) * TILE * sizeof(float);
    }
};

/* Rows first .. first + TILE - 1 of a head; those from `end` on are zero, whatever memory contains
 * there. */
__device__ void load_rows(float *to, int pitch, const float *head, int64_t stride, int first,
                          int end, int head_dim)
{
    for (int r = threadIdx.x / ROW_THREADS, d = threadIdx.x % ROW_THREADS; d < head_dim;
         d += ROW_THREADS)
        to[r * pitch + d] = first + r < end ? head[(first + r) * stride + d] : 0.0f;
}

__device__ void load_queries(const any_params &p, const tile_memory &m, int b, int h, int first)
{
    const int64_t base = p.of_q.at(b, h, 0),
                  row = ((int64_t)b * p.n_q_head + h) * p.see.n_q + first;
    load_rows(m.q, m.pitch, p.q + base, p.of_q.row, first, p.see.n_q, p.head_dim);
    load_rows(m.dout, m.pitch, p.dout + base, p.of_q.row, first, p.see.n_q, p.head_dim);
    const int i = threadIdx.x;
    if (i >= TILE) return;
    const bool there = first + i < p.see.n_q;
    m.lse[i] = there ? p.lse[row + i] : -INFINITY;
    m.delta[i] = there ? p.delta[row + i] : 0.0f;
}

__device__ void load_keys(const any_params &p, const tile_memory &m, int b, int h, int first,
                          int length)
{
    const int64_t base = p.of_k.at(b, h, 0);
    load_rows(m.k, m.pitch, p.k + base, p.of_k.row, first, length, p.head_dim);
    load_rows(m.v, m.pitch, p.v + base, p.of_k.row, first, length, p.head_dim);
}

/* P and dS of the two tiles; a thread has two queries and two keys. */
__device__ void find_weights(const any_params &p, const tile_memory &m, int query, int key,
                             int length)
{
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    float     s[2][2] = { { 0 } }, dp[2][2] = { { 0 } };
    for (int d = 0; d < p.head_dim; d++)
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) {
                const int at = (y + 16 * i) * m.pitch + d, to = (x + 16 * j) * m.pitch + d;
                s[i][j] = fmaf(m.q[at], m.k[to], s[i][j]);
                dp[i][j] = fmaf(m.dout[at], m.v[to], dp[i][j]);
            }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            const int   r = y + 16 * i, c = x + 16 * j;
            const float lse = m.lse[r], score = s[i][j] * p.scale;
            const bool  seen =
                p.see.sees(query + r, key + c, length) && lse != -INFINITY && score != -INFINITY;
            const float w = seen ? expf(fmaf(s[i][j], p.scale, -lse)) : 0.0f;
            m.p[r * (TILE + 1) + c] = w;
            m.ds[r * (TILE + 1) + c] = seen ? w * (dp[i][j] - m.delta[r]) : 0.0f;
        }
}

/* Adds the tile's rows, each times its weight, to the columns that this thread owns; weights are BY
 * elements apart. */
template <int PER, int BY>
__device__ void add_products(float (&sum)[PER], const float *weight, const float *rows, int pitch,
                             int head_dim)
{
    const int d = threadIdx.x % ROW_THREADS;
    for (int i = 0; i < TILE; i++) {
        const float w = weight[i * BY];
        if (w == 0.0f) continue; /* takes nothing, not even of infinity */
#pragma unroll
        for (int n = 0; n < PER; n++)
            if (d + n * ROW_THREADS < head_dim)
                sum[n] = fmaf(w, rows[i * pitch + d + n * ROW_THREADS], sum[n]);
    }
}

template <int PER>
__device__ void store_row(float *row, const float (&sum)[PER], float scale, int head_dim)
{
#pragma unroll
    for (int n = 0; n < PER; n++) {
        const int d = threadIdx.x % ROW_THREADS + n * ROW_THREADS;
        if (d < head_dim) row[d] = sum[n] * scale;
    }
}

/* ---- kernels; PER: elements of a row that a thread owns, at most ---- */

/* One warp a row. */
__global__ void __launch_bounds__(THREADS) row_deltas(const any_params p, int64_t n)
{
    const int64_t row = blockIdx.x * (int64_t)(THREADS / 32) + threadIdx.x / 32;
    if (row >= n) return;
    const int64_t head = row / p.see.n_q;
    const int64_t at = p.of_q.at(head / p.n_q_head, head % p.n_q_head, row % p.see.n_q);
    float         sum = 0;
    for (int d = threadIdx.x % 32; d < p.head_dim; d += 32)
        sum = fmaf(p.dout[at + d], p.o[at + d], sum);
    for (int by = 16; by; by >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (threadIdx.x % 32 == 0) p.delta[row] = sum;
}

template <int PER> __global__ void __launch_bounds__(THREADS) own_keys(const any_params p)
{
    extern __shared__ float memory[];
    const tile_memory       m(memory, p.head_dim);
    const int               n_blocks = (p.see.n_k + TILE - 1) / TILE;
    const int key = blockIdx.x % n_blocks * TILE, head = blockIdx.x / n_blocks % p.n_kv_head;
    const int b = blockIdx.x / n_blocks / p.n_kv_head, group = p.n_q_head / p.n_kv_head;
    const int length = p.kv_len ? p.kv_len[b] : p.see.n_k, row = threadIdx.x / ROW_THREADS;
    const int first = p.see.first_tile(key, TILE);
    const int end = key < length ? p.see.end_tile(key, TILE, TILE) : 0;
    float     dk[PER] = { 0 }, dv[PER] = { 0 };
    load_keys(p, m, b, head, key, length);
    for (int h = head * group; h < (head + 1) * group; h++)
        for (int tile = first; tile < end; tile++) {
            __syncthreads();
            load_queries(p, m, b, h, tile * TILE);
            __syncthreads();
            find_weights(p, m, tile * TILE, key, length);
            __syncthreads();
            add_products<PER, TILE + 1>(dv, m.p + row, m.dout, m.pitch, p.head_dim);
            add_products<PER, TILE + 1>(dk, m.ds + row, m.q, m.pitch, p.head_dim);
        }
    if (key + row >= p.see.n_k) return;
    const int64_t at = p.of_k.at(b, head, key + row);
    store_row(p.dk + at, dk, p.scale, p.head_dim);
    store_row(p.dv + at, dv, 1.0f, p.head_dim);
}

template <int PER> __global__ void __launch_bounds__(THREADS) own_queries(const any_params p)
{
    extern __shared__ float memory[];
    const tile_memory       m(memory, p.head_dim);
    const int               n_tiles = (p.see.n_q + TILE - 1) / TILE;
    const int query = blockIdx.x % n_tiles * TILE, head = blockIdx.x / n_tiles % p.n_q_head;
    const int b = blockIdx.x / n_tiles / p.n_q_head, group = p.n_q_head / p.n_kv_head;
    const int length = p.kv_len ? p.kv_len[b] : p.see.n_k, row = threadIdx.x / ROW_THREADS;
    const int last = p.see.last_block(query, TILE, length, TILE);
    float     dq[PER] = { 0 };
    load_queries(p, m, b, head, query);
    for (int block = p.see.first_key(query) / TILE; block <= last; block++) {
        __syncthreads();
        load_keys(p, m, b, head / group, block * TILE, length);
        __syncthreads();
        find_weights(p, m, query, block * TILE, length);
        __syncthreads();
        add_products<PER, 1>(dq, m.ds + row * (TILE + 1), m.k, m.pitch, p.head_dim);
    }
    if (query + row >= p.see.n_q) return;
    store_row(p.dq + p.of_q.at(b, head, query + row), dq, p.scale, p.head_dim);
}

/* ---- choice ---- */

struct grid_sizes {
    int64_t rows, deltas, keys, queries;

    explicit grid_sizes(const ts_attention_dims &d)
    {
        rows = d.n_batch * d.n_q_head * d.n_q;
        deltas = (rows + THREADS / 32 - 1) / (THREADS / 32);
        keys = d.n_batch * d.n_kv_head * ((d.n_k + TILE - 1) / TILE);
        queries = d.n_batch * d.n_q_head * ((d.n_q + TILE - 1) / TILE);
    }

    bool launchable() const
    {
        return deltas <= INT_MAX && keys <= INT_MAX && queries <= INT_MAX;
    }
};

template <int PER> void launch(const any_params &p, const grid_sizes &n, cudaStream_t s)
{
    const size_t n_bytes = tile_memory::n_bytes(p.head_dim);
    cudaFuncSetAttribute(own_keys<PER>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)n_bytes);
    cudaFuncSetAttribute(own_queries<PER>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         (int)n_bytes);
    if (n.rows) row_deltas<<<(unsigned)n.deltas, THREADS, 0, s>>>(p, n.rows);
    if (n.keys) own_keys<PER><<<(unsigned)n.keys, THREADS, n_bytes, s>>>(p);
    if (n.queries) own_queries<PER><<<(unsigned)n.queries, THREADS, n_bytes, s>>>(p);
}

void launch_for(const any_params &p, const grid_sizes &n, cudaStream_t s)
{
    if (p.head_dim <= 8 * ROW_THREADS) launch<8>(p, n, s);
    else if (p.head_dim <= 16 * ROW_THREADS) launch<16>(p, n, s);
    else launch<32>(p, n, s);
}

} // namespace

/* In float, one for every row of q. */
extern "C" ts_status ts_flash_attention_backward_cuda_workspace(const void *args, const ts_exec *x,
                                                                size_t *n_bytes)
{
    const ts_flash_attention_backward_args *a = (const ts_flash_attention_backward_args *)args;
    const ts_attention_dims                &d = a->d;
    (void)x;
    if (d.dtype != TS_F32) *n_bytes = ts_flash_attention_backward_mma_workspace(a);
    else *n_bytes = ALIGN + (size_t)(d.n_batch * d.n_q_head * d.n_q) * sizeof(float);
    return TS_OK;
}

extern "C" ts_status ts_flash_attention_backward_cuda(const void *args, const ts_exec *x)
{
    const ts_flash_attention_backward_args *a = (const ts_flash_attention_backward_args *)args;
    const ts_attention_dims                &d = a->d;
    const cudaStream_t                      s = (cudaStream_t)x->stream;
    const grid_sizes                        n(d);
    if (d.n_q > MOST_LENGTH || d.n_k > MOST_LENGTH || d.n_q_head > INT_MAX || !n.launchable())
        return TS_E_UNSUPPORTED;
    if (d.dtype != TS_F32) return ts_flash_attention_backward_mma(a, x);
    const ts_status split = ts_flash_attention_backward_split(a, x);
    if (split != TS_E_UNSUPPORTED) return split;
    const any_params p = {
        .see = sight(d),
        .of_q = strides(d, d.n_q_head, d.n_q),
        .of_k = strides(d, d.n_kv_head, d.n_k),
        .n_q_head = (int)d.n_q_head,
        .n_kv_head = (int)d.n_kv_head,
        .head_dim = (int)d.head_dim,
        .scale = (float)d.scale,
        .q = (const float *)a->q,
        .k = (const float *)a->k,
        .v = (const float *)a->v,
        .o = (const float *)a->o,
        .dout = (const float *)a->dout,
        .lse = (const float *)a->lse,
        .kv_len = a->kv_len,
        .dq = (float *)a->dq,
        .dk = (float *)a->dk,
        .dv = (float *)a->dv,
        .delta = (float *)aligned_up(x->workspace),
    };
    launch_for(p, n, s);
    return launched();
}

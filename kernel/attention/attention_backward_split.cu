/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_split.cu - the gradients of floats on tensor cores, by split products
 * (attention_split.cuh).
 *
 * One kernel, in two forms. A block owns rows of a head, a warp 16 or 32 of them, and walks tiles
 * of the rows that they meet. Owning keys, it walks queries, over all heads that share the keys,
 * and finds dk and dv; owning queries, it walks keys and finds dq. In either form rows are owned
 * and columns are walked, so that P and dS are operands as they are.
 *
 * Where the order of sums is free, the first form also adds to dq in memory, from dS that goes
 * through shared memory: five matmuls. Else the second form finds dq: seven matmuls, but nothing is
 * added across blocks, and the order of sums depends on the shape alone. */
#include "attention_rows.cuh"
#include "attention_split.cuh"

namespace
{

enum { WALKED = 32, DELTA_THREADS = 256 };

struct gradient_call {
    sight          see;
    strides        of_q, of_k;
    row_order      order; /* of blocks that own queries, or keys */
    int            n_q_head, n_kv_head, group, head_dim;
    bool           adds_dq; /* blocks that own keys add to dq */
    float          scale;
    const float   *q, *k, *v, *o, *dout, *lse;
    const int32_t *kv_len;
    float         *dq, *dk, *dv, *delta; /* delta: as lse */
};

/* D: head_dim, at most; M: times 16 rows of a warp; G: as in `weighted`; PARTS: warps that share
 * rows, each with its part of the columns. */
template <bool OWNS_KEYS_, int D_, int M_, int G_, int WARPS_, int PARTS_, int BLOCKS_>
struct gradient_shape {
    static constexpr bool OWNS_KEYS = OWNS_KEYS_;
    static constexpr int  D = D_, M = M_, G = G_, WARPS = WARPS_, PARTS = PARTS_, BLOCKS = BLOCKS_;
    static constexpr int  THREADS = WARPS * 32, N = WALKED / 8, COLUMNS = D / PARTS;
    static constexpr int  WARP_ROWS = 16 * M, ROWS = WARPS / PARTS * WARP_ROWS;
    static constexpr int  OWN_BYTES = ROWS * D * 4, TILE_BYTES = WALKED * D * 4;
    /* q or k, and dout or v: of the rows, of a tile; of a tile of queries also lse and delta;
     * dS of both, a row of ROWS floats
     * per query */
    static constexpr int OWN_DOUT = OWN_BYTES, TILE = 2 * OWN_BYTES, TILE_DOUT = TILE + TILE_BYTES,
                         STATS = TILE_DOUT + TILE_BYTES, DS = STATS + WALKED * 8,
                         DS_BYTES = WALKED * ROWS * 4;

    static int shared_bytes(bool adds_dq)
    {
        return DS + (adds_dq ? DS_BYTES : 0);
    }
};

/* Rows `row` .. of the head that a block owns or walks. */
struct tile_place {
    int head, row;
};

template <class S> struct gradient_warp {
    static constexpr int M = S::M, G = S::G, D = S::D, N = S::N;
    static constexpr int GROUPS = S::COLUMNS / (8 * G), N_SUM = S::OWNS_KEYS ? 2 : 1;

    const gradient_call &c;
    const unsigned       memory;
    const int            lane, part, row; /* row: the warp's first, in its block */
    int                  batch, own, length;
    bool                 infinite; /* is there an infinite element in the block's keys? */
    float                s[M][N * 4], dp[M][N * 4];
    float                sum[N_SUM][M][S::COLUMNS / 2]; /* dk and dv, or dq */

    __device__ __forceinline__ gradient_warp(const gradient_call &c_, unsigned memory_)
        : c(c_), memory(memory_), lane((int)threadIdx.x % 32),
          part((int)threadIdx.x / 32 / (S::WARPS / S::PARTS)),
          row((int)threadIdx.x / 32 % (S::WARPS / S::PARTS) * S::WARP_ROWS)
    {
#pragma unroll
        for (int n = 0; n < N_SUM; n++)
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int i = 0; i < S::COLUMNS / 2; i++) sum[n][m][i] = 0;
    }
    __device__ __forceinline__ float_rows rows_of_q(const float *of, int head) const
    {
        return { of + c.of_q.at(batch, head, 0), c.of_q.row, c.see.n_q, c.head_dim };
    }
    __device__ __forceinline__ float_rows rows_of_k(const float *of, int kv_head) const
    {
        return { of + c.of_k.at(batch, kv_head, 0), c.of_k.row, length, c.head_dim };
    }
    __device__ __forceinline__ void bring_own(int head) const
    {
        const float_rows a = S::OWNS_KEYS ? rows_of_k(c.k, head) : rows_of_q(c.q, head);
        const float_rows b = S::OWNS_KEYS ? rows_of_k(c.v, head) : rows_of_q(c.dout, head);
        a.template bring<D, S::ROWS, S::THREADS>(memory, own);
        b.template bring<D, S::ROWS, S::THREADS>(memory + S::OWN_DOUT, own);
    }
    __device__ __forceinline__ void bring_first(const tile_place &p) const
    {
        const float_rows a =
            S::OWNS_KEYS ? rows_of_q(c.q, p.head) : rows_of_k(c.k, p.head / c.group);
        a.template bring<D, WALKED, S::THREADS>(memory + S::TILE, p.row);
    }
    /* Returns whether one of the queries has lse = -inf. */
    __device__ __forceinline__ bool bring_second(const tile_place &p) const
    {
        const float_rows a =
            S::OWNS_KEYS ? rows_of_q(c.dout, p.head) : rows_of_k(c.v, p.head / c.group);
        a.template bring<D, WALKED, S::THREADS>(memory + S::TILE_DOUT, p.row);
        if (!S::OWNS_KEYS || threadIdx.x >= WALKED) return false;
        const float2 x = stats_of(p.head, p.row + (int)threadIdx.x);
        store_pair(memory + S::STATS + threadIdx.x * 8, x);
        return x.x == INFINITY;
    }
    /* lse, or +inf where the row takes and gives nothing, and delta. */
    __device__ __forceinline__ float2 stats_of(int head, int query) const
    {
        if (query >= c.see.n_q) return { INFINITY, 0 };
        const int64_t at = ((int64_t)batch * c.n_q_head + head) * c.see.n_q + query;
        const float   lse = c.lse[at];
        return { lse == -INFINITY ? INFINITY : lse, c.delta[at] };
    }
    /* Of the queries and keys that a warp's rows and a tile are: is a pair seen, are all? */
    __device__ __forceinline__ void look(const tile_place &p, bool *any, bool *all) const
    {
        const int q = S::OWNS_KEYS ? p.row : own + row, k = S::OWNS_KEYS ? own + row : p.row;
        const int last_q = q + (S::OWNS_KEYS ? WALKED : S::WARP_ROWS) - 1;
        const int last_k = k + (S::OWNS_KEYS ? S::WARP_ROWS : WALKED) - 1;
        const int most = last_q + c.see.shift - k, least = q + c.see.shift - last_k;
        *any = k < length && q < c.see.n_q && most >= 0 && least < c.see.window;
        *all = last_k < length && least >= 0 && most < c.see.window;
    }
    __device__ __forceinline__ void find_dots(float (&to)[M][N * 4], int own_at, int tile_at) const
    {
        split_sum x[M][N];
        add_dots<D, M, N>(x, along_rows<D>(memory + (unsigned)(own_at + row * D * 4)),
                          along_rows<D>(memory + (unsigned)tile_at), (c.head_dim + 15) / 16);
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int i = 0; i < N * 4; i++) to[m][i] = x[m][i / 4].of(i % 4);
    }
    /* Scores become P, and dP becomes dS. */
    __device__ __forceinline__ void find_weights(const tile_place &p, bool all)
    {
#pragma unroll
        for (int m = 0; m < M; m++) {
            const int own_row = own + row + m * 16 + lane / 4;
            float2    stats[2];
            if (!S::OWNS_KEYS)
#pragma unroll
                for (int h = 0; h < 2; h++) stats[h] = stats_of(p.head, own_row + 8 * h);
#pragma unroll
            for (int i = 0; i < N * 4; i++) {
                const int column = i / 4 * 8 + lane % 4 * 2 + i % 2, at = own_row + i % 4 / 2 * 8;
                const int query = S::OWNS_KEYS ? p.row + column : at;
                const int key = S::OWNS_KEYS ? at : p.row + column;
                if (S::OWNS_KEYS && i % 4 < 2)
                    stats[i % 2] = load_pair(memory + S::STATS + (unsigned)(column * 8));
                const float2 of = stats[S::OWNS_KEYS ? i % 2 : i % 4 / 2];
                const bool   seen = of.x != INFINITY && (all || c.see.sees(query, key, length));
                const float  x = fmaf(s[m][i], c.scale, -of.x);
                s[m][i] = seen ? exp2_of(x * (float)LOG2_E) : 0.0f;
                dp[m][i] = seen ? s[m][i] * (dp[m][i] - of.y) : 0.0f;
            }
        }
    }
    __device__ __forceinline__ void add_products(float (&to)[M][S::COLUMNS / 2],
                                                 const float (&w)[M][N * 4], int tile_at)
    {
        const weighted<D, M, N, G> p(w, memory + (unsigned)tile_at);
#pragma unroll
        for (int n = 0; n < GROUPS; n++) {
            if (part * S::COLUMNS + n * 8 * G >= c.head_dim) break;
            split_sum x[M][G];
            p.find(x, part * GROUPS + n);
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int i = 0; i < 4 * G; i++) to[m][n * 4 * G + i] += x[m][i / 4].of(i % 4);
        }
    }
    /* Scores of keys with an infinite element are -inf, or NaN: their weight is 0 in other rows,
     * and must not meet the infinity. Likewise queries with lse = -inf, whatever they are. */
    __device__ __forceinline__ void clear_tile(void) const
    {
        for (int i = (int)threadIdx.x; i < WALKED * D; i += S::THREADS) {
            const unsigned at = memory + S::TILE + (unsigned)i * 4;
            if constexpr (S::OWNS_KEYS) {
                if (load_pair(memory + S::STATS + (unsigned)(i / D * 8)).x != INFINITY) continue;
                store_word(at, 0);
                store_word(at + S::TILE_BYTES, 0);
            } else if ((load_word(at) & 0x7fffffffu) == 0x7f800000u) {
                store_word(at, 0);
            }
        }
    }
    /* The address of dS of a query and of a key, counted in the block. */
    __device__ __forceinline__ unsigned ds_at(int query, int key) const
    {
        return memory + S::DS +
               (unsigned)(query * S::ROWS * 4 + ((key / 4 ^ turned(query)) << 4) + key % 4 * 4);
    }
    __device__ __forceinline__ void share_ds(bool any) const
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int i = 0; i < N * 4; i++)
                store_word(ds_at(i / 4 * 8 + lane % 4 * 2 + i % 2,
                                 row + m * 16 + lane / 4 + i % 4 / 2 * 8),
                           any ? __float_as_uint(dp[m][i]) : 0u);
    }
    /* dq of the tile, from dS of all warps and the block's keys; a warp has some of the columns. */
    __device__ __forceinline__ void add_dq(const tile_place &p) const
    {
        constexpr int C = D / S::WARPS / 8; /* times 8 columns */
        const int     warp = (int)threadIdx.x / 32, g = lane / 4, t = lane % 4;
        if (warp * 8 * C >= c.head_dim) return;
        const inner_rows<D, C> keys(memory);
#pragma unroll 1
        for (int m = 0; m < 2; m++) { /* 16 queries, for want of registers */
            split_sum x[1][C];
#pragma unroll 2
            for (int n = 0; n < S::ROWS / 8; n++) {
                split_a        w;
                const split_a *a[1] = { &w };
                float          b[2][C];
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const float2 y = load_pair(ds_at(m * 16 + h * 8 + g, n * 8 + 2 * t));
                    w.set(h, y.x), w.set(2 + h, y.y);
                }
                keys.load(b, n, warp);
                if (infinite)
#pragma unroll
                    for (int i = 0; i < 2 * C; i++)
                        if (fabsf(b[i / C][i % C]) == INFINITY) b[i / C][i % C] = 0;
                add_columns(x, a, b);
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int query = p.row + m * 16 + h * 8 + g, column = warp * 8 * C + t * 2 * C;
                float    *to = c.dq + c.of_q.at(batch, p.head, query) + column;
                if (query >= c.see.n_q) continue;
#pragma unroll
                for (int k = 0; k < 2 * C; k += 4) {
                    float y[4];
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        y[e] = x[0][(k + e) % C].of(h * 2 + (k + e) / C) * c.scale;
                    if (column + k < c.head_dim) add_floats(to + k, y[0], y[1], y[2], y[3]);
                }
            }
        }
    }
    __device__ __forceinline__ bool has_infinite_keys(void) const
    {
        bool found = false;
        for (int i = (int)threadIdx.x; i < S::ROWS * D / 4; i += S::THREADS) {
            const float4 x = load_floats(memory + (unsigned)i * 16);
            found |=
                fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w))) == INFINITY;
        }
        return found;
    }
    __device__ __forceinline__ bool has_infinite_scores(void) const
    {
        bool found = false;
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int i = 0; i < N * 4; i++) found |= !(fabsf(s[m][i]) < INFINITY);
        return found;
    }
    /* The block's rows meet tiles begin .. end - 1 of WALKED rows, of heads first .. last - 1. */
    __device__ __forceinline__ void walk(int begin, int end, int first, int last)
    {
        tile_place now = { begin < end ? first : last, begin * WALKED };
        if (now.head < last) bring_first(now);
        if (S::OWNS_KEYS && c.adds_dq) {
            copies_wait();
            __syncthreads();
            infinite = __syncthreads_or(has_infinite_keys());
        }
#pragma unroll 1
        while (now.head < last) {
            bool       any, all;
            tile_place next = { now.head, now.row + WALKED };
            if (next.row >= end * WALKED) next = { now.head + 1, begin * WALKED };
            look(now, &any, &all);
            copies_wait();
            __syncthreads(); /* the first part has come, and all have read the second before */
            bool odd = bring_second(now);
            if (any) find_dots(s, 0, S::TILE);
            if (!S::OWNS_KEYS && any) odd = has_infinite_scores();
            copies_wait();
            if (__syncthreads_or(odd)) { /* the second part has come */
                clear_tile();
                __syncthreads();
            }
            if (any) {
                find_dots(dp, S::OWN_DOUT, S::TILE_DOUT);
                find_weights(now, all);
                add_products(sum[0], dp, S::TILE);
            }
            if (S::OWNS_KEYS && c.adds_dq && part == 0) share_ds(any);
            __syncthreads(); /* all have read the first part, and dS is there */
            if (next.head < last) bring_first(next);
            if constexpr (S::OWNS_KEYS)
                if (any) add_products(sum[1], s, S::TILE_DOUT);
            if constexpr (S::OWNS_KEYS)
                if (c.adds_dq) add_dq(now);
            now = next;
        }
        copies_wait();
    }
    /* Of one kind; a lane has 2 G neighbouring columns of each group. */
    __device__ __forceinline__ void store(float *to, const strides &of, int head, int n_rows,
                                          const float (&x)[M][S::COLUMNS / 2], float scale) const
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int at = own + row + m * 16 + lane / 4 + 8 * h;
                if (at >= n_rows) continue;
                store_columns<GROUPS, G>(to + of.at(batch, head, at), part * S::COLUMNS, c.head_dim,
                                         x[m], h, scale);
            }
    }
};

template <class S>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    gradients(const __grid_constant__ gradient_call c)
{
    extern __shared__ uint4 memory[];
    gradient_warp<S>        w(c, shared_address(memory));
    const int               n_head = S::OWNS_KEYS ? c.n_kv_head : c.n_q_head;
    int                     at, block;
    c.order.find((int)blockIdx.x, &at, &block);
    if (S::OWNS_KEYS) block = c.order.n_block - 1 - block; /* the first keys are seen by most */
    const int head = at % n_head;
    w.batch = at / n_head;
    w.own = block * S::ROWS;
    w.length = c.kv_len ? max(0, min(c.see.n_k, c.kv_len[w.batch])) : c.see.n_k;
    w.bring_own(head);
    if constexpr (S::OWNS_KEYS) {
        w.walk(c.see.first_tile(w.own, WALKED),
               w.own < w.length ? c.see.end_tile(w.own, S::ROWS, WALKED) : 0, head * c.group,
               (head + 1) * c.group);
        w.store(c.dk, c.of_k, head, c.see.n_k, w.sum[0], c.scale);
        w.store(c.dv, c.of_k, head, c.see.n_k, w.sum[1], 1.0f);
    } else {
        w.walk(c.see.first_key(w.own) / WALKED,
               c.see.last_block(w.own, S::ROWS, w.length, WALKED) + 1, head, head + 1);
        w.store(c.dq, c.of_q, head, c.see.n_q, w.sum[0], c.scale);
    }
}

/* One warp a row. */
__global__ void __launch_bounds__(DELTA_THREADS)
    split_deltas(const __grid_constant__ gradient_call c, int64_t n)
{
    const int64_t row = blockIdx.x * (int64_t)(DELTA_THREADS / 32) + threadIdx.x / 32;
    if (row >= n) return;
    const int64_t head = row / c.see.n_q;
    const int64_t at = c.of_q.at(head / c.n_q_head, head % c.n_q_head, row % c.see.n_q);
    float         sum = 0;
    for (int d = (int)threadIdx.x % 32 * 4; d < c.head_dim; d += 128) {
        const float4 x = *(const float4 *)(c.dout + at + d), y = *(const float4 *)(c.o + at + d);
        sum = fmaf(x.x, y.x, fmaf(x.y, y.y, fmaf(x.z, y.z, fmaf(x.w, y.w, sum))));
    }
    for (int by = 16; by; by >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (threadIdx.x % 32 == 0) c.delta[row] = sum;
}

template <class S> ts_status launch(gradient_call c, ts_attention_dims d, cudaStream_t stream)
{
    const int64_t n = S::OWNS_KEYS ? d.n_k : d.n_q, n_block = (n + S::ROWS - 1) / S::ROWS;
    const int     n_bytes = S::shared_bytes(S::OWNS_KEYS && c.adds_dq);
    if (S::OWNS_KEYS) d.n_q_head = d.n_kv_head;
    const int64_t n_head = d.n_batch * d.n_q_head;
    if (n_head * n_block == 0) return TS_OK;
    c.order = row_order(d, n_block);
    gradients<S><<<(unsigned)(n_head * n_block), S::THREADS, n_bytes, stream>>>(c);
    return launched();
}

template <class S> bool fits(const ts_attention_dims &d, bool adds_dq)
{
    const int64_t n = S::OWNS_KEYS ? d.n_k : d.n_q, n_block = (n + S::ROWS - 1) / S::ROWS;
    if (n_block && d.n_batch * d.n_q_head > INT_MAX / n_block) return false;
    if (cudaFuncSetAttribute(gradients<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             S::shared_bytes(adds_dq)) == cudaSuccess)
        return true;
    cudaGetLastError(); /* too little shared memory */
    return false;
}

/* Where the order of sums is free dq is added by the blocks that own keys: five matmuls, if the
 * device has the shared memory. */
template <class K, class Q>
ts_status launch_all(gradient_call c, const ts_attention_dims &d, const ts_exec *x)
{
    const cudaStream_t stream = (cudaStream_t)x->stream;
    const int64_t      n = d.n_batch * d.n_q_head * d.n_q, per = DELTA_THREADS / 32;
    const size_t       dq_bytes = (size_t)(n * d.head_dim) * sizeof *c.dq;
    const bool large = fits<K>(d, true); /* then so for all calls, which may be concurrent */
    c.adds_dq = large && !x->deterministic;
    if ((!large && !fits<K>(d, false)) || (!c.adds_dq && !fits<Q>(d, false)) || n / per >= INT_MAX)
        return TS_E_UNSUPPORTED;
    if (n) split_deltas<<<(unsigned)((n + per - 1) / per), DELTA_THREADS, 0, stream>>>(c, n);
    if (c.adds_dq && cudaMemsetAsync(c.dq, 0, dq_bytes, stream) != cudaSuccess) return TS_E_DEVICE;
    const ts_status s = launch<K>(c, d, stream);
    return s || c.adds_dq ? s : launch<Q>(c, d, stream);
}

} // namespace

ts_status ts_flash_attention_backward_split(const ts_flash_attention_backward_args *a,
                                            const ts_exec                          *x)
{
    const ts_attention_dims &d = a->d;
    const void *const        tensors[] = { a->q, a->k, a->v, a->o, a->dout, a->dq, a->dk, a->dv };
    if (d.n_batch == 0) return TS_OK;
    if (d.head_dim % 4) return TS_E_UNSUPPORTED;
    for (const void *t : tensors)
        if (!is_aligned(t)) return TS_E_UNSUPPORTED;
    const gradient_call c = {
        .see = sight(d),
        .of_q = strides(d, d.n_q_head, d.n_q),
        .of_k = strides(d, d.n_kv_head, d.n_k),
        .order = row_order(d, 1),
        .n_q_head = (int)d.n_q_head,
        .n_kv_head = (int)d.n_kv_head,
        .group = (int)(d.n_q_head / d.n_kv_head),
        .head_dim = (int)d.head_dim,
        .adds_dq = false,
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
    if (d.head_dim <= 64)
        return launch_all<gradient_shape<true, 64, 1, 4, 4, 1, 2>,
                          gradient_shape<false, 64, 1, 4, 4, 1, 3>>(c, d, x);
    if (d.head_dim <= 128)
        return launch_all<gradient_shape<true, 128, 1, 2, 4, 1, 2>,
                          gradient_shape<false, 128, 1, 4, 4, 1, 2>>(c, d, x);
    return launch_all<gradient_shape<true, 256, 1, 2, 8, 2, 1>,
                      gradient_shape<false, 256, 1, 4, 8, 2, 1>>(c, d, x);
}

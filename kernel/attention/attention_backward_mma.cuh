/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_mma.cuh - the gradients by warp-level mma, for 16-bit elements on every device
 * from sm_80 on.
 *
 * own_keys: a block owns some keys of a KV head, each of its warps 16 of them, and iterates over
 * the queries that may see them, of all query heads that share the KV head: dk and dv stay in
 * registers. Scores are transposed, keys are rows and queries columns, so that P and dS in
 * registers are already operands of the matmuls for dv and dk. If dq may be added in any order, dS
 * goes through shared memory for dq = dS k, which is added to sums in memory.
 *
 * own_queries: otherwise dq is computed by blocks that own queries and iterate over keys, which
 * takes two more matmuls and no sums in memory. */
#ifndef TS_ATTENTION_BACKWARD_MMA_CUH
#define TS_ATTENTION_BACKWARD_MMA_CUH

#include "attention_mma.cuh"
#include "attention_rows.cuh"

namespace
{

struct backward_call {
    const void    *q, *k, *v, *o, *dout;
    const float   *lse;
    const int32_t *kv_len;
    void          *dq, *dk, *dv;
    sight          see;
    strides        of_q, of_k;
    int            n_head, group, head_dim; /* n_head: KV heads of a batch; group: that share one */
    int            n_heads, n_block, section; /* KV heads of all batches; of a head; see find_job */
    int            n_tile;                    /* of queries, of a head */
    bool           in_pieces;
    float          scale, scale_log2;
    float2        *stats; /* [batch][query head][query]: lse in units of log 2, +inf for -inf; and
                             the row's sum of dout o */
    float *dq_sums;       /* [batch][query head][tile], see dq_fragment; NULL: none */

    template <class T>
    __device__ __forceinline__ head_rows<T> rows_of_q(const void *of, int batch, int head) const
    {
        return { (const T *)of + of_q.at(batch, head, 0), of_q.row, see.n_q, head_dim, in_pieces };
    }
    template <class T>
    __device__ __forceinline__ head_rows<T> rows_of_k(const void *of, int batch, int head,
                                                      int length) const
    {
        return { (const T *)of + of_k.at(batch, head, 0), of_k.row, length, head_dim, in_pieces };
    }
    __device__ __forceinline__ int length(int batch) const
    {
        return kv_len ? max(0, min(see.n_k, kv_len[batch])) : see.n_k;
    }
    __device__ __forceinline__ int64_t row_number(int batch, int head, int query) const
    {
        return ((int64_t)batch * n_head * group + head) * see.n_q + query;
    }
};

/* D: head_dim, rounded up. A block of a wide head does one half of the columns of dk, dv and dq,
 * for want of registers. */
template <class T_, int D_, int WARPS_> struct backward_shape {
    typedef T_           T;
    static constexpr int D = D_, WARPS = WARPS_, THREADS = WARPS * 32;
    static constexpr int KEYS = WARPS * 16, HEIGHT = D <= 128 ? 64 : 32; /* HEIGHT: queries */
    static constexpr int COLUMNS = D <= 128 ? D : D / 2, PARTS = D / COLUMNS;
    /* Of dq, a warp has 32 queries and this many columns. */
    static constexpr int DQ_COLUMNS = COLUMNS / (WARPS / (HEIGHT / 32));
    static constexpr int KV_BYTES = KEYS * PITCH<D>, Q_BYTES = HEIGHT * PITCH<D>;
    static constexpr int STAT_BYTES = HEIGHT * 8, DS_BYTES = KEYS * PITCH<HEIGHT>;
    /* k, v, two of q, dout, dS, two of stats */
    static constexpr int V = KV_BYTES, Q = 2 * KV_BYTES, DOUT = Q + 2 * Q_BYTES,
                         DS = DOUT + Q_BYTES, STATS = DS + DS_BYTES,
                         SHARED_BYTES = STATS + 2 * STAT_BYTES;
};

/* ---- own_keys ---- */

struct key_job {
    int batch, kv_head, key, length, part;
    int head, end_head; /* query heads */
    int tile, end_tile; /* queries that may see the keys */
};

/* A tile of queries on the walk. */
struct tile_place {
    int head, tile, stage;

    __device__ __forceinline__ void advance(const key_job &j)
    {
        stage ^= 1;
        if (++tile == j.end_tile) tile = j.tile, head++;
    }
};

/* Heads come in sections that share the L2; in each, the first keys of all heads come first, which
 * under a causal mask most queries see. */
template <class S> __device__ __forceinline__ key_job find_job(const backward_call &c)
{
    const int index = (int)blockIdx.x / S::PARTS, nth = index / (c.section * c.n_block);
    const int rest = index - nth * c.section * c.n_block;
    const int width = min(c.section, c.n_heads - nth * c.section);
    const int head = nth * c.section + rest % width;
    key_job   j;
    j.batch = head / c.n_head, j.kv_head = head % c.n_head;
    j.key = rest / width * S::KEYS;
    j.length = c.length(j.batch);
    j.part = (int)blockIdx.x % S::PARTS;
    j.head = j.kv_head * c.group, j.end_head = j.head + c.group;
    j.tile = c.see.first_tile(j.key, S::HEIGHT);
    j.end_tile = j.key < j.length ? c.see.end_tile(j.key, S::KEYS, S::HEIGHT) : 0;
    return j;
}

/* Where the 128 floats of 8 columns of 16 rows of dq begin: block m of rows and n of columns of
 * what a warp has. Within them lane_sum says what is whose. */
template <class S>
__device__ __forceinline__ int64_t dq_fragment(int64_t tile, int part, int warp, int m, int n)
{
    constexpr int N = S::DQ_COLUMNS / 8;
    return ((((tile * S::PARTS + part) * S::WARPS + warp) * 2 + m) * N + n) * 128;
}

template <class S> struct key_warp {
    typedef typename S::T T;
    static constexpr int  D = S::D, H = S::HEIGHT;

    const backward_call &c;
    const key_job       &j;
    const unsigned       memory;
    const int            warp, lane;
    unsigned             infinite; /* of the warp's keys, bit 2 r */
    float                dk[1][S::COLUMNS / 2], dv[1][S::COLUMNS / 2];

    __device__ __forceinline__ key_warp(const backward_call &c_, const key_job &j_, unsigned at)
        : c(c_), j(j_), memory(at), warp((int)threadIdx.x / 32), lane((int)threadIdx.x % 32),
          infinite(0)
    {
#pragma unroll
        for (int i = 0; i < S::COLUMNS / 2; i++) dk[0][i] = dv[0][i] = 0;
    }
    __device__ __forceinline__ unsigned own(unsigned tile) const /* the warp's rows of k or v */
    {
        return memory + tile + (unsigned)(warp * 16 * PITCH<D>);
    }
    __device__ __forceinline__ unsigned q_at(const tile_place &p) const
    {
        return memory + S::Q + p.stage * S::Q_BYTES;
    }
    __device__ __forceinline__ unsigned stats_at(const tile_place &p) const
    {
        return memory + S::STATS + p.stage * S::STAT_BYTES;
    }
    __device__ __forceinline__ void bring_queries(const tile_place &p) const
    {
        const int  r = (int)threadIdx.x, query = p.tile * H + r;
        const bool there = query < c.see.n_q;
        c.rows_of_q<T>(c.q, j.batch, p.head).template bring<D, H, S::THREADS>(q_at(p), p.tile * H);
        /* Of rows past the last, 0 is as good as any: their q and dout are. */
        if (r < H)
            copy_pair(stats_at(p) + r * 8,
                      c.stats + (there ? c.row_number(j.batch, p.head, query) : 0), there);
    }
    __device__ __forceinline__ void bring_douts(const tile_place &p) const
    {
        c.rows_of_q<T>(c.dout, j.batch, p.head)
            .template bring<D, H, S::THREADS>(memory + S::DOUT, p.tile * H);
    }
    /* Clears keys with an infinite element: times a weight of 0 they would be NaN in dq. Two lanes
     * look at a key. */
    __device__ __forceinline__ void clear_infinite(void)
    {
        constexpr int  PART = D / 16; /* pieces */
        const unsigned at = own(0) + (unsigned)(lane / 2 * PITCH<D> + lane % 2 * PART * 16);
        bool           found = false;
#pragma unroll
        for (int i = 0; i < PART; i++) found |= has_infinite<T>(load_piece(at + i * 16));
        const unsigned by_lane = __ballot_sync(0xffffffffu, found);
        infinite = (by_lane | by_lane >> 1) & 0x55555555;
        if (infinite >> lane / 2 * 2 & 1)
#pragma unroll
            for (int i = 0; i < PART; i++) store_piece(at + i * 16, make_uint4(0, 0, 0, 0));
        __syncwarp();
    }
    /* Is there a pair that is not seen? */
    __device__ __forceinline__ bool straddles(int query) const
    {
        const int past = query + c.see.shift - j.key; /* of the first query and the first key */
        return j.key + S::KEYS > j.length || past < S::KEYS - 1 || past + H - 1 >= c.see.window;
    }
    /* P' and dS' of a tile, narrowed. */
    __device__ __forceinline__ void find_weights(const tile_place &p, unsigned (&p_bits)[1][H / 4],
                                                 unsigned (&ds_bits)[1][H / 4])
    {
        const int      query = p.tile * H, column = lane % 4 * 2;
        const bool     masked = straddles(query);
        const view     seen(c.see, j.length, j.key + warp * 16 + lane / 4, query + column);
        const unsigned q = columns_then_rows<D>(q_at(p));
        const unsigned dout = columns_then_rows<D>(memory + S::DOUT);
        const unsigned stats = stats_at(p) + column * 8;
        float          s[1][H / 2], dp[1][H / 2];
#pragma unroll
        for (int k = 0; k < H / 2; k++) s[0][k] = dp[0][k] = 0;
        add_scores<T, D, 1, H>(s, rows_then_columns<D>(own(0)), q);
        add_scores<T, D, 1, H>(dp, rows_then_columns<D>(own(S::V)), dout);
        if (infinite) sink_infinite(s[0], infinite, c.scale_log2, lane);
#pragma unroll
        for (int n = 0; n < H / 8; n++) { /* a pair of queries: lse, delta, lse, delta */
            const float4 of = load_floats(stats + n * 64);
#pragma unroll
            for (int k = 4 * n; k < 4 * n + 4; k++) {
                const float lse = k % 2 ? of.z : of.x, delta = k % 2 ? of.w : of.y;
                s[0][k] = exp2_of(fmaf(s[0][k], c.scale_log2, -lse));
                dp[0][k] = s[0][k] * (dp[0][k] - delta);
            }
        }
        if (masked) blank(s[0], seen), blank(dp[0], seen);
        narrow_all<T>(p_bits[0], s[0]);
        narrow_all<T>(ds_bits[0], dp[0]);
    }
    /* dS', as rows of keys. */
    __device__ __forceinline__ void share_ds(const unsigned (&ds)[1][H / 4]) const
    {
        const unsigned to =
            memory + S::DS + (unsigned)((warp * 16 + lane / 4) * PITCH<H> + lane % 4 * 4);
#pragma unroll
        for (int k = 0; k < H / 4; k++)
            store_word(to + (unsigned)(k % 2 * 8 * PITCH<H> + k / 2 * 16), ds[0][k]);
    }
    __device__ __forceinline__ void add_dq(const tile_place &p) const
    {
        constexpr int  ROWS = H / 32;
        const int      rows = warp % ROWS * 32, column = warp / ROWS * S::DQ_COLUMNS;
        const unsigned ds = columns_then_rows<H>(memory + S::DS) + (unsigned)(rows * 2);
        const unsigned k =
            rows_then_columns<D>(memory) + (unsigned)((j.part * S::COLUMNS + column) * 2);
        float dq[2][S::DQ_COLUMNS / 2];
#pragma unroll
        for (int n = 0; n < S::DQ_COLUMNS / 2; n++) dq[0][n] = dq[1][n] = 0;
#pragma unroll
        for (int key = 0; key < S::KEYS; key += 16) {
            unsigned a[2][4], b[4];
            load_matrices<true>(a[0], ds + (unsigned)(key * PITCH<H>));
            load_matrices<true>(a[1], ds + (unsigned)(key * PITCH<H> + 32));
#pragma unroll
            for (int n = 0; n < S::DQ_COLUMNS / 16; n++) {
                load_matrices<true>(b, k + (unsigned)(key * PITCH<D> + n * 32));
                add_product<T>(dq[0], n, a[0], b);
                add_product<T>(dq[1], n, a[1], b);
            }
        }
        const int64_t tile = ((int64_t)j.batch * c.n_head * c.group + p.head) * c.n_tile + p.tile;
        float        *to = c.dq_sums + dq_fragment<S>(tile, j.part, warp, 0, 0);
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < S::DQ_COLUMNS / 8; n++)
                add_four(to + dq_fragment<S>(0, 0, 0, m, n), lane, dq[m][4 * n], dq[m][4 * n + 1],
                         dq[m][4 * n + 2], dq[m][4 * n + 3]);
    }
    __device__ __forceinline__ void walk(void)
    {
        const unsigned part = (unsigned)(j.part * S::COLUMNS * 2);
        tile_place     now = { j.tile < j.end_tile ? j.head : j.end_head, j.tile, 0 };
        if (now.head < j.end_head) {
            c.rows_of_k<T>(c.k, j.batch, j.kv_head, j.length)
                .template bring<D, S::KEYS, S::THREADS>(memory, j.key);
            c.rows_of_k<T>(c.v, j.batch, j.kv_head, j.length)
                .template bring<D, S::KEYS, S::THREADS>(memory + S::V, j.key);
            bring_queries(now);
            bring_douts(now);
            copies_wait();
            __syncthreads();
            clear_infinite();
        }
#pragma unroll 1
        while (now.head < j.end_head) {
            unsigned   p[1][H / 4], ds[1][H / 4];
            tile_place next = now;
            next.advance(j);
            copies_wait();
            __syncthreads(); /* the tile has come, and all are done with the one before */
            if (next.head < j.end_head) bring_queries(next);
            find_weights(now, p, ds);
            if (c.dq_sums) share_ds(ds);
            add_weighted<T, D, S::COLUMNS, 1, H>(dv, p,
                                                 rows_then_columns<D>(memory + S::DOUT) + part);
            __syncthreads(); /* dS is there, and all have read dout */
            if (next.head < j.end_head) bring_douts(next);
            add_weighted<T, D, S::COLUMNS, 1, H>(dk, ds, rows_then_columns<D>(q_at(now)) + part);
            if (c.dq_sums) add_dq(now);
            now = next;
        }
        __syncthreads();
    }
    __device__ __forceinline__ void finish(void) const
    {
        const int     key = j.key + warp * 16, n = min(16, c.see.n_k - key);
        const int64_t at = c.of_k.at(j.batch, j.kv_head, 0);
        stage_sums<T, D>(own(0), dk[0], c.scale, c.scale);
        stage_sums<T, D>(own(S::V), dv[0], 1.0f, 1.0f);
        store_staged<T, D, S::COLUMNS>((T *)c.dk + at, c.of_k.row, key, n, j.part * S::COLUMNS,
                                       c.head_dim, c.in_pieces, own(0));
        store_staged<T, D, S::COLUMNS>((T *)c.dv + at, c.of_k.row, key, n, j.part * S::COLUMNS,
                                       c.head_dim, c.in_pieces, own(S::V));
    }
};

template <class S>
__global__ void __launch_bounds__(S::THREADS, 256 / S::THREADS)
    own_keys(const __grid_constant__ backward_call c)
{
    extern __shared__ uint4 memory[];
    __shared__ key_job      j; /* registers are short */
    if (threadIdx.x == 0) j = find_job<S>(c);
    __syncthreads();
    key_warp<S> w(c, j, shared_address(memory));
    w.walk();
    w.finish();
}

/* ---- own_queries ---- */

/* Rows with an infinite element become 0, by all threads of the block. */
template <class T, int D> __device__ __forceinline__ void clear_infinite(unsigned at, int n)
{
    for (int r = (int)threadIdx.x; r < n; r += (int)blockDim.x) {
        bool found = false;
        for (int i = 0; i < D / 8; i++)
            found |= has_infinite<T>(load_piece(at + (unsigned)(r * PITCH<D> + i * 16)));
        for (int i = 0; i < D / 8 && found; i++)
            store_piece(at + (unsigned)(r * PITCH<D> + i * 16), make_uint4(0, 0, 0, 0));
    }
}

template <class T_, int D_> struct query_shape {
    typedef T_           T;
    static constexpr int D = D_, WARPS = 4, THREADS = WARPS * 32, ROWS = WARPS * 16;
    static constexpr int KEYS = D <= 128 ? 64 : 32;
    static constexpr int Q_BYTES = ROWS * PITCH<D>, KV_BYTES = KEYS * PITCH<D>;
    static constexpr int DOUT = Q_BYTES, K = 2 * Q_BYTES, V = K + KV_BYTES,
                         SHARED_BYTES = V + KV_BYTES;
};

template <class S>
__global__ void __launch_bounds__(S::THREADS, 2)
    own_queries(const __grid_constant__ backward_call c, const row_order order)
{
    typedef typename S::T   T;
    constexpr int           D = S::D, KEYS = S::KEYS;
    extern __shared__ uint4 shared[];
    const unsigned          memory = shared_address(shared);
    const int               lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int                     at, block;
    order.find((int)blockIdx.x, &at, &block);
    const int batch = at / (c.n_head * c.group), head = at % (c.n_head * c.group);
    const int first = block * S::ROWS, row = first + warp * 16, length = c.length(batch);
    const int end = c.see.last_block(min(first + S::ROWS, c.see.n_q) - 1, 1, length, KEYS) + 1;
    const head_rows<T> k = c.rows_of_k<T>(c.k, batch, head / c.group, length);
    const head_rows<T> v = c.rows_of_k<T>(c.v, batch, head / c.group, length);
    const unsigned     q_own = memory + (unsigned)(warp * 16 * PITCH<D>);
    float              dq[1][D / 2], lse[2], delta[2];
#pragma unroll
    for (int i = 0; i < D / 2; i++) dq[0][i] = 0;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int    own = row + lane / 4 + 8 * h;
        const float2 of =
            own < c.see.n_q ? c.stats[c.row_number(batch, head, own)] : make_float2(INFINITY, 0);
        lse[h] = of.x, delta[h] = of.y;
    }
    c.rows_of_q<T>(c.q, batch, head).template bring<D, S::ROWS, S::THREADS>(memory, first);
    c.rows_of_q<T>(c.dout, batch, head)
        .template bring<D, S::ROWS, S::THREADS>(memory + S::DOUT, first);
    int tile = c.see.first_key(first) / KEYS;
    if (tile < end) v.template bring<D, KEYS, S::THREADS>(memory + S::V, tile * KEYS);
#pragma unroll 1
    for (; tile < end; tile++) {
        const int key = tile * KEYS;
        float     s[1][KEYS / 2], dp[1][KEYS / 2];
        unsigned  ds[1][KEYS / 4];
        bool      odd = false; /* a score that is infinite, or no number */
        k.template bring<D, KEYS, S::THREADS>(memory + S::K, key);
        copies_wait();
        __syncthreads();
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) s[0][i] = dp[0][i] = 0;
        add_scores<T, D, 1, KEYS>(s, rows_then_columns<D>(q_own),
                                  columns_then_rows<D>(memory + S::K));
        add_scores<T, D, 1, KEYS>(dp, rows_then_columns<D>(q_own + S::DOUT),
                                  columns_then_rows<D>(memory + S::V));
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) {
            const int   h = i / 2 % 2;
            const float p = exp2_of(fmaf(s[0][i], c.scale_log2, -lse[h]));
            const bool  seen =
                c.see.sees(row + lane / 4 + 8 * h, key + i / 4 * 8 + lane % 4 * 2 + i % 2, length);
            odd |= !(fabsf(s[0][i]) < INFINITY);
            dp[0][i] = seen ? p * (dp[0][i] - delta[h]) : 0.0f;
        }
        narrow_all<T>(ds[0], dp[0]);
        if (__syncthreads_or(odd)) { /* all have read keys and values */
            clear_infinite<T, D>(memory + S::K, KEYS);
            __syncthreads();
        }
        if (tile + 1 < end) v.template bring<D, KEYS, S::THREADS>(memory + S::V, key + KEYS);
        add_weighted<T, D, D, 1, KEYS>(dq, ds, rows_then_columns<D>(memory + S::K));
        __syncthreads(); /* all are done with the keys */
    }
    copies_wait();
    __syncthreads();
    stage_sums<T, D>(q_own, dq[0], c.scale, c.scale);
    store_staged<T, D, D>((T *)c.dq + c.of_q.at(batch, head, 0), c.of_q.row, row,
                          min(16, c.see.n_q - row), 0, c.head_dim, c.in_pieces, q_own);
}

/* ---- before and after ---- */

enum { SIDE_THREADS = 256, ROW_LANES = 16 };

/* Half a warp has a row. */
template <class T>
__global__ void __launch_bounds__(SIDE_THREADS)
    find_stats(const __grid_constant__ backward_call c, int64_t n_rows)
{
    const int     lane = (int)threadIdx.x % ROW_LANES;
    const int64_t row = ((int64_t)blockIdx.x * SIDE_THREADS + threadIdx.x) / ROW_LANES;
    const bool    there = row < n_rows;
    const int64_t head = there ? row / c.see.n_q : 0;
    const int64_t at =
        c.of_q.at(head / (c.n_head * c.group), head % (c.n_head * c.group), row % c.see.n_q);
    const T *o = (const T *)c.o + at, *dout = (const T *)c.dout + at;
    float    sum = 0;
    if (there && c.in_pieces)
        for (int d = lane * 8; d < c.head_dim; d += ROW_LANES * 8) {
            float a[8], b[8];
            unpack_as<T>(*(const uint4 *)(o + d), a);
            unpack_as<T>(*(const uint4 *)(dout + d), b);
#pragma unroll
            for (int i = 0; i < 8; i++) sum = fmaf(a[i], b[i], sum);
        }
    else if (there)
        for (int d = lane; d < c.head_dim; d += ROW_LANES)
            sum = fmaf(to_float(o[d]), to_float(dout[d]), sum);
#pragma unroll
    for (int by = ROW_LANES / 2; by; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (there && lane == 0) {
        const float lse = c.lse[row];
        c.stats[row] = make_float2(lse == -INFINITY ? INFINITY : lse * (float)LOG2_E, sum);
    }
}

/* dq of eight columns of a row. */
template <class S>
__global__ void __launch_bounds__(SIDE_THREADS)
    round_dq(const __grid_constant__ backward_call c, int64_t n_rows)
{
    typedef typename S::T T;
    const int64_t i = (int64_t)blockIdx.x * SIDE_THREADS + threadIdx.x, row = i / (S::D / 8);
    const int     column = (int)(i % (S::D / 8)) * 8;
    if (row >= n_rows || column >= c.head_dim) return;
    const int64_t head = row / c.see.n_q;
    const int     query = (int)(row % c.see.n_q), r = query % S::HEIGHT;
    /* Which lane has it: see key_warp::add_dq. */
    const int    part = column / S::COLUMNS, to = column % S::COLUMNS;
    const int    warp = to / S::DQ_COLUMNS * (S::HEIGHT / 32) + r / 32;
    const float *sums = c.dq_sums + dq_fragment<S>(head * c.n_tile + query / S::HEIGHT, part, warp,
                                                   r % 32 / 16, to % S::DQ_COLUMNS / 8);
    T           *dq = (T *)c.dq + column +
            c.of_q.at(head / (c.n_head * c.group), head % (c.n_head * c.group), query);
    float f[8];
#pragma unroll
    for (int d = 0; d < 8; d++)
        f[d] = sums[lane_sum(r % 8 * 4 + d / 2, r % 16 / 8 * 2 + d % 2)] * c.scale;
    if (c.in_pieces) *(uint4 *)dq = pack_as<T>(f);
    else
        for (int d = 0; d < 8 && column + d < c.head_dim; d++) from_float(dq + d, f[d]);
}

} // namespace

#endif

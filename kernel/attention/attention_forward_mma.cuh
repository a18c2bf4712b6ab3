/* SPDX-License-Identifier: Apache-2.0 */
/* attention_forward_mma.cuh - flash attention by warp-level mma, for 16-bit elements on every
 * device from sm_80 on.
 *
 * A block has some rows (queries) of a head, each of its four warps 16 or 32 of them, with scores
 * and sums in registers. Values are loaded while scores are computed, the next keys while weights
 * are computed and multiplied; a second block on the same multiprocessor fills the remaining gaps.
 * Tiles are processed from the last key to the first, so that those which need a mask come first.
 * */
#ifndef TS_ATTENTION_FORWARD_MMA_CUH
#define TS_ATTENTION_FORWARD_MMA_CUH

#include "attention_mma.cuh"
#include "attention_rows.cuh"

namespace
{

struct forward_call {
    const void    *q, *k, *v;
    const int32_t *kv_len;
    void          *o;
    float         *lse;
    visible_keys   see;
    strides        of_q, of_k;
    row_order      order;
    int            n_q, n_head, group, head_dim; /* n_head: of a batch; group: that share keys */
    bool           in_pieces;
    float          by, scale; /* scores are times `by`, if it is not 1; scale > 0, for exp2 */
};

/* D: head_dim, rounded up. */
template <class T_, int D_> struct forward_shape {
    typedef T_           T;
    static constexpr int D = D_, WARPS = 4, THREADS = WARPS * 32, KEYS = 64;
    static constexpr int TILES = D <= 128 ? 2 : 1; /* of 16 rows, that a warp has */
    static constexpr int WARP_ROWS = 16 * TILES, ROWS = WARPS * WARP_ROWS;
    static constexpr int Q_BYTES = ROWS * PITCH<D>, KV_BYTES = KEYS * PITCH<D>;
    static constexpr int SHARED_BYTES = Q_BYTES + 2 * KV_BYTES;
};

/* What a warp has of its rows. */
template <class S> struct forward_warp {
    typedef typename S::T T;
    static constexpr int  TILES = S::TILES, D = S::D, KEYS = S::KEYS;

    const forward_call &c;
    int                 row, n_keys; /* the warp's first */
    row_sums            r[TILES];
    float               s[TILES][KEYS / 2], o[TILES][D / 2];

    __device__ __forceinline__ forward_warp(const forward_call &c_, int row_, int n_keys_)
        : c(c_), row(row_), n_keys(n_keys_)
    {
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < D / 2; i++) o[t][i] = 0;
    }
    /* Does any of the rows see a key of this tile? */
    __device__ __forceinline__ bool sees(int from) const
    {
        return row < c.n_q && from + KEYS > c.see.begin(row) &&
               from < c.see.end(min(row + S::WARP_ROWS, c.n_q) - 1, n_keys);
    }
    /* q and k: this lane's rows. */
    __device__ __forceinline__ void find_scores(unsigned q, unsigned k)
    {
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < KEYS / 2; i++) s[t][i] = 0;
        add_scores<T, D, TILES, KEYS>(s, q, k);
    }
    __device__ __forceinline__ void find_weights(int from)
    {
        const int  lane = (int)threadIdx.x % 32, last = row + S::WARP_ROWS - 1;
        const bool hidden = from + KEYS > c.see.end(row, n_keys) || from < c.see.begin(last);
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            float keep[2];
            if (c.by != 1)
#pragma unroll
                for (int i = 0; i < KEYS / 2; i++) s[t][i] *= c.by;
            if (hidden)
                hide_unseen(s[t], c.see, n_keys, row + t * 16 + lane / 4, from + lane % 4 * 2);
            weigh<T>(s[t], &r[t], keep, c.scale);
            if (__any_sync(0xffffffffu, keep[0] != 1 || keep[1] != 1))
#pragma unroll
                for (int i = 0; i < D / 2; i++) o[t][i] *= keep[i % 4 / 2];
        }
    }
    __device__ __forceinline__ void add_values(unsigned v)
    {
        unsigned p[TILES][KEYS / 4];
#pragma unroll
        for (int t = 0; t < TILES; t++) narrow_all<T>(p[t], s[t]);
        add_weighted<T, D, D, TILES, KEYS>(o, p, v);
    }
    /* Results replace the warp's queries in shared memory, and are stored from there. */
    __device__ __forceinline__ void finish(unsigned to)
    {
        const int lane = (int)threadIdx.x % 32;
        int       at, block;
        c.order.find((int)blockIdx.x, &at,
                     &block); /* not kept over the tiles: registers are short */
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            float by[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float sum = whole_sum(r[t], h);
                const int   own = row + t * 16 + lane / 4 + 8 * h;
                by[h] = sum == 0 ? 0.0f : 1.0f / sum;
                if (c.lse && lane % 4 == 0 && own < c.n_q)
                    c.lse[(int64_t)at * c.n_q + own] = lse_of<T>(r[t], h, sum);
            }
            stage_sums<T, D>(to + (unsigned)(t * 16 * PITCH<D>), o[t], by[0], by[1]);
        }
        store_staged<T, D, D>((T *)c.o + c.of_q.at(at / c.n_head, at % c.n_head, 0), c.of_q.row,
                              row, min(S::WARP_ROWS, c.n_q - row), 0, c.head_dim, c.in_pieces, to);
    }
};

template <class S>
__global__ void __launch_bounds__(S::THREADS, 2)
    forward_by_warps(const __grid_constant__ forward_call c)
{
    typedef typename S::T   T;
    extern __shared__ uint4 memory[];
    const unsigned          q_at = shared_address(memory), k_at = q_at + S::Q_BYTES;
    const unsigned          v_at = k_at + S::KV_BYTES;
    int                     at, block;
    c.order.find((int)blockIdx.x, &at, &block);
    const int          batch = at / c.n_head, head = at % c.n_head, row = block * S::ROWS;
    const int          warp_row = (int)threadIdx.x / 32 * S::WARP_ROWS;
    const int          n_keys = c.see.length(c.kv_len, batch);
    const int64_t      kv = c.of_k.at(batch, head / c.group, 0);
    const head_rows<T> q = { (const T *)c.q + c.of_q.at(batch, head, 0), c.of_q.row, c.n_q,
                             c.head_dim, c.in_pieces };
    const head_rows<T> k = { (const T *)c.k + kv, c.of_k.row, n_keys, c.head_dim, c.in_pieces };
    const head_rows<T> v = { (const T *)c.v + kv, c.of_k.row, n_keys, c.head_dim, c.in_pieces };
    const int          first_tile = c.see.begin(row) / S::KEYS;
    const int end_tile = (c.see.end(min(row + S::ROWS, c.n_q) - 1, n_keys) + S::KEYS - 1) / S::KEYS;
    const unsigned  q_own = q_at + (unsigned)(warp_row * PITCH<S::D>);
    const unsigned  q_lane = rows_then_columns<S::D>(q_own);
    const unsigned  k_lane = columns_then_rows<S::D>(k_at);
    const unsigned  v_lane = rows_then_columns<S::D>(v_at);
    forward_warp<S> w(c, row + warp_row, n_keys);

    q.template bring<S::D, S::ROWS, S::THREADS>(q_at, row);
    if (first_tile < end_tile)
        k.template bring<S::D, S::KEYS, S::THREADS>(k_at, (end_tile - 1) * S::KEYS);
#pragma unroll 1
    for (int tile = end_tile - 1; tile >= first_tile; tile--) {
        const bool seen = w.sees(tile * S::KEYS);
        copies_wait();
        __syncthreads(); /* the keys have come, and all have read the values before */
        v.template bring<S::D, S::KEYS, S::THREADS>(v_at, tile * S::KEYS);
        if (seen) w.find_scores(q_lane, k_lane);
        copies_wait();
        __syncthreads(); /* the values have come, and all have read the keys */
        if (tile > first_tile)
            k.template bring<S::D, S::KEYS, S::THREADS>(k_at, (tile - 1) * S::KEYS);
        if (seen) {
            w.find_weights(tile * S::KEYS);
            w.add_values(v_lane);
        }
    }
    copies_wait();
    __syncthreads();
    w.finish(q_own);
}

} // namespace

#endif

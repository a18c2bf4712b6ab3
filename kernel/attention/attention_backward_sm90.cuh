/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_sm90.cuh - the main backward kernel by wgmma, for 16-bit heads of up to 128.
 *
 * A block owns 128 keys. Warpgroups 1 and 2 have 64 keys each; in warpgroup 0 one warp loads tiles
 * and one adds dq to sums in memory. P and dS in registers are already operands of the matmuls for
 * dv and dk; only dS goes through shared memory, for dq = dS k, of which each warpgroup computes
 * one half: 64 queries, or up to 64 columns. */
#ifndef TS_ATTENTION_BACKWARD_SM90_CUH
#define TS_ATTENTION_BACKWARD_SM90_CUH

#include "attention_backward_block_sm90.cuh"

namespace
{

/* ---- adding to dq: one thread ---- */

template <int D>
__device__ __forceinline__ void add_dq_of(const main_params &p, const block_memory<D> &m,
                                          const job &w, unsigned *parity)
{
    typedef dq_parts<D> parts;
    for (int head = w.head; head < w.end_head; head++)
        for (int tile = w.tile; tile < w.end_tile; tile++, *parity ^= 1) {
            const int64_t i = (int64_t)(w.batch * p.n_q_head + head) * p.n_tile + tile;
            if (p.turns) await_turn(p.turns + i, turn_of<D>(p, w, tile));
#pragma unroll
            for (int half = 0; half < 2; half++) {
                barrier_wait(m.dq_full(half), *parity);
                add_floats(p.dq_sums + i * parts::FLOATS + half * parts::FIRST * CHUNK_FLOATS,
                           m.at + m.DQ + half * PART_BYTES,
                           (half ? parts::ALL - parts::FIRST : parts::FIRST) * CHUNK_BYTES);
                stores_end();
            }
            stores_wait_read<1>();
            barrier_arrive(m.dq_empty(0));
            stores_wait_read<0>();
            barrier_arrive(m.dq_empty(1));
            if (!p.turns) continue;
            stores_wait<0>();
            pass_turn(p.turns + i);
        }
}

/* By a warp, of which one lane adds. */
template <int D> __device__ void add_dq(const main_params &p, const block_memory<D> &m)
{
    unsigned parity = 0, told = 0;
    await_last(); /* for the sums, which are 0 then */
    for (int ticket; (ticket = hear_job(m, told)) >= 0; told ^= 1) {
        const job w = find_job<D>(p, ticket);
        if (threadIdx.x % 32 == 0) add_dq_of<D>(p, m, w, &parity);
        __syncwarp();
    }
}

/* ---- a warpgroup with 64 keys ---- */

/* As dq_parts has it. */
template <int N> __device__ __forceinline__ void store_dq(unsigned to, const float (&dq)[N])
{
    to += threadIdx.x % WARPGROUP * 16;
#pragma unroll
    for (int j = 0; j < N / 4; j++)
        store_floats(to + j * CHUNK_BYTES,
                     make_float4(dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]));
}

template <class T, int D>
__device__ __forceinline__ void store_owned(const main_params &p, const block_memory<D> &m,
                                            const job &w, const place &me, const float (&dk)[D / 2],
                                            const float (&dv)[D / 2])
{
    named_wait(BOTH_BARRIER, 2 * WARPGROUP); /* the other half's dq has read all of k */
    stage_rows<T, D>(m.at + m.V + me.half * HALF * SLAB_BYTES, dv, 1.0f, me);
    stage_rows<T, D>(m.at + m.K + me.half * HALF * SLAB_BYTES, dk, p.scale, me);
    publish_to_engines();
    named_wait(HALF_BARRIER + me.half, WARPGROUP);
    if (threadIdx.x % WARPGROUP) return;
    for (int s = 0; s < SLABS<D>; s++) {
        const unsigned rows = m.at + (s * KEYS<D> + me.half * HALF) * SLAB_BYTES;
        store_box(&p.map.dv, rows + m.V, s * 64, w.key + me.half * HALF, w.kv_head, w.batch);
        store_box(&p.map.dk, rows + m.K, s * 64, w.key + me.half * HALF, w.kv_head, w.batch);
    }
    stores_end();
    stores_wait_read<0>();
    barrier_arrive(m.kv_empty());
}

/* A tile of queries in its stage, with the keys that a warpgroup multiplies it by. */
template <int D> struct operands {
    static constexpr int H = HEIGHT<D>;
    along_rows<KEYS<D>>  k_rows, v_rows; /* this half's keys */
    along_rows<H>        q_rows, dout_rows, ds_rows;
    down_rows<H>         q_down, dout_down;
    down_rows<KEYS<D>>   k_down;
    unsigned             ds;
    const float2 *lse; /* in units of log 2, from this thread's first column on; then delta */

    /* A half of dq is half the columns, or half the queries. */
    __device__ __forceinline__ operands(const block_memory<D> &m, const place &me, int stage)
        : k_rows(m.at + m.K + me.half * HALF * SLAB_BYTES),
          v_rows(m.at + m.V + me.half * HALF * SLAB_BYTES),
          q_rows(m.at + m.Q + stage * TILE_BYTES<D>),
          dout_rows(m.at + m.DOUT + stage * TILE_BYTES<D>),
          ds_rows(m.at + m.DS + stage * m.DS_BYTES + (D <= 64 ? me.half * HALF * SLAB_BYTES : 0)),
          q_down(m.at + m.Q + stage * TILE_BYTES<D>),
          dout_down(m.at + m.DOUT + stage * TILE_BYTES<D>),
          k_down(m.at + m.K + (D <= 64 ? 0 : me.half * KEYS<D> * SLAB_BYTES)),
          ds(m.at + m.DS + stage * m.DS_BYTES), lse((const float2 *)__cvta_shared_to_generic(
                                                    m.at + m.STATS + stage * 1024 + me.column * 4))
    {
    }
};

/* P' and dS' of a tile, narrowed. */
template <class T, int D>
__device__ __forceinline__ void
find_weights(const main_params &p, const block_memory<D> &m, const job &w, const place &me,
             unsigned infinite, int query, const ring_place<STAGES> &from, const operands<D> &of,
             unsigned (&p_bits)[HEIGHT<D> / 4], unsigned (&ds_bits)[HEIGHT<D> / 4])
{
    constexpr int H = HEIGHT<D>;
    const bool    masked = straddles<D>(p.see, w, query);
    const auto    seen = [&] {
        const int t = thread_now();
        return view(p.see, w.length, w.key + key_row<D>(t), query + t % 4 * 2);
    };
    float        s[H / 2], dp[H / 2];
    row_stats<H> stats;

    barrier_wait(m.q_full(from.stage), from.parity);
    products_begin();
#pragma unroll
    for (int i = 0; i < D / 16; i++)
        product<T, 0, 0>(s, of.k_rows.step(i), of.q_rows.step(i), i != 0);
    products_end();
    stats.load(of.lse);
    barrier_wait(m.dout_full(from.stage), from.parity);
    products_begin();
#pragma unroll
    for (int i = 0; i < D / 16; i++)
        product<T, 0, 0>(dp, of.v_rows.step(i), of.dout_rows.step(i), i != 0);
    products_end();

    products_wait<1>();
    pin(s);
    if (infinite) sink_infinite(s, infinite, p.scale_log2, thread_now() % 32);
    find_p(s, stats, p.scale_log2);
    stats.load(of.lse + H / 2);
    /* Behind the branch the compiler narrows after the wait. */
    if (row_stats<H>::AHEAD) {
        narrow_all<T>(p_bits, s);
        pin(p_bits);
    }
    if (masked) blank(s, seen());
    if (masked || !row_stats<H>::AHEAD) narrow_all<T>(p_bits, s);
    products_wait<0>();
    pin(dp);
    find_ds(dp, s, stats);
    if (masked) blank(dp, seen());
    narrow_all<T>(ds_bits, dp);
}

/* What a tile of queries adds to dk, dv and dq, of which the warpgroup has some columns. */
template <class T, int D, int DQ_COLUMNS>
__device__ __forceinline__ void add_tile(const main_params &p, const block_memory<D> &m,
                                         const job &w, const place &me, unsigned infinite,
                                         int query, const ring_place<STAGES> &from,
                                         float (&dk)[D / 2], float (&dv)[D / 2])
{
    constexpr int     H = HEIGHT<D>;
    const operands<D> of(m, me, from.stage);
    unsigned          p_bits[H / 4], ds_bits[H / 4];
    float             dq[DQ_COLUMNS / 2];
    find_weights<T, D>(p, m, w, me, infinite, query, from, of, p_bits, ds_bits);
    store_weights(of.ds + me.half * H * SLAB_BYTES, ds_bits, me);
    pin(p_bits), pin(ds_bits), pin(dv), pin(dk);
    products_begin();
#pragma unroll
    for (int i = 0; i < H / 16; i++)
        product<T, 1>(dv, p_bits[4 * i], p_bits[4 * i + 1], p_bits[4 * i + 2], p_bits[4 * i + 3],
                      of.dout_down.step(i), 1);
    products_end();
    publish_to_engines();
    named_wait(BOTH_BARRIER, 2 * WARPGROUP); /* both halves of ds are there */
#pragma unroll
    for (int i = 0; i < KEYS<D> / 16; i++)
        product<T, 0, 1>(dq, of.ds_rows.step(i), of.k_down.step(i), i != 0);
    products_end();
    products_wait<1>();
    pin(dv);
    if (me.lane == 0) barrier_arrive(m.dout_empty(from.stage));
#pragma unroll
    for (int i = 0; i < H / 16; i++)
        product<T, 1>(dk, ds_bits[4 * i], ds_bits[4 * i + 1], ds_bits[4 * i + 2],
                      ds_bits[4 * i + 3], of.q_down.step(i), 1);
    products_end();
    products_wait<1>();
    pin(dq);
    static_assert(STAGES == 2, "the parity of the tile's number is its stage");
    barrier_wait(m.dq_empty(me.half), from.stage ^ 1);
    store_dq(m.at + m.DQ + me.half * PART_BYTES, dq);
    publish_to_engines();
    __syncwarp();
    if (me.lane == 0) barrier_arrive(m.dq_full(me.half));
    products_wait<0>();
    pin(dk);
    if (me.lane == 0) barrier_arrive(m.q_empty(from.stage));
}

template <class T, int D, int DQ_COLUMNS>
__device__ __forceinline__ void find_sums(const main_params &p, const block_memory<D> &m)
{
    const place        me;
    ring_place<STAGES> from;
    unsigned           kv_parity = 0;
    for (unsigned told = 0;; told ^= 1) {
        const int ticket = hear_job(m, told);
        if (ticket < 0) break;
        const job w = find_job<D>(p, ticket);
        unsigned  infinite = 0;
        float     dk[D / 2], dv[D / 2];
#pragma unroll
        for (int i = 0; i < D / 2; i++) dk[i] = dv[i] = 0.0f;
        if (!w.idle()) {
            barrier_wait(m.kv_full(0), kv_parity);
            infinite = clear_keys<T>(m, w);
            barrier_wait(m.kv_full(1), kv_parity);
            kv_parity ^= 1;
        }
        for (int head = w.head; head < w.end_head; head++)
#pragma unroll 1
            for (int tile = w.tile; tile < w.end_tile; tile++, from.advance())
                add_tile<T, D, DQ_COLUMNS>(p, m, w, me, infinite, tile * HEIGHT<D>, from, dk, dv);
        /* The job and the thread's place are found again: they are not kept over the loop. */
        store_owned<T, D>(p, m, find_job<D>(p, ticket), place(), dk, dv);
    }
}

template <class T, int D>
__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    backward_main(const __grid_constant__ main_params p)
{
    if constexpr (HAS_WGMMA) {
        extern __shared__ char memory[];
        const block_memory<D>  m = { (shared_address(memory) + 1023) / 1024 * 1024 };
        const int warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x / WARPGROUP, 0);
        if (threadIdx.x == 0) {
            prefetch_maps(p.map);
            m.init_barriers();
        }
        __syncthreads();
        if (warpgroup == 0) {
            give_registers<40>(); /* a thread begins with 168: 504 for one of each warpgroup */
            if (threadIdx.x == 0) bring_tiles<D>(p, m);
            if (threadIdx.x / 32 == 1) add_dq<D>(p, m);
        } else {
            take_registers<232>();
            if constexpr (D <= 64) find_sums<T, D, D>(p, m);
            else if (D >= 112 || warpgroup == 1) find_sums<T, D, 64>(p, m); /* 112: or it spills */
            else find_sums<T, D, D - 64>(p, m);
        }
    }
}

} // namespace

#endif

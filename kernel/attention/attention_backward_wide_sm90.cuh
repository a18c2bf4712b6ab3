/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_wide_sm90.cuh - the main pass backward by wgmma, for 16-bit heads above 128.
 *
 * A block owns 64 keys. Two warpgroups share the columns of dk, dv and dq: the first has 128, the
 * second the rest. Each finds P and dS of all keys and half of a tile's queries; both matrices go
 * through shared memory, as every warpgroup multiplies all of them by its columns. dq is added to
 * sums in memory straight from registers. */
#ifndef TS_ATTENTION_BACKWARD_WIDE_SM90_CUH
#define TS_ATTENTION_BACKWARD_WIDE_SM90_CUH

#include "attention_backward_block_sm90.cuh"

namespace
{

enum { FIRST_COLUMNS = 128, FIRST_SLABS = FIRST_COLUMNS / 64, HALF_QUERIES = 32 };

/* to[0 .. 3] += v, at a multiple of 16 bytes. */
__device__ __forceinline__ void add_to_memory(float *to, float4 v)
{
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x),
                 "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}

/* As dq_parts has it; `to` is the warpgroup's first chunk. */
template <int N> __device__ __forceinline__ void add_chunks(float *to, const float (&dq)[N])
{
    to += threadIdx.x % WARPGROUP * 4;
#pragma unroll
    for (int j = 0; j < N / 4; j++)
        add_to_memory(to + j * CHUNK_FLOATS,
                      make_float4(dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]));
}

/* Columns of different warpgroups have turns of their own. */
template <int N>
__device__ __forceinline__ void add_in_turn(int *turn, int mine, float *to, const float (&dq)[N],
                                            const place &me)
{
    const bool first = threadIdx.x % WARPGROUP == 0;
    if (first) await_turn(turn, mine);
    named_wait(HALF_BARRIER + me.half, WARPGROUP);
    add_chunks(to, dq);
    __threadfence();
    named_wait(HALF_BARRIER + me.half, WARPGROUP);
    if (first) pass_turn(turn);
}

/* A tile of queries in its stage, and the keys. `rows`: a warpgroup's half of the queries; `down`:
 * its columns. */
template <int D> struct wide_operands {
    along_rows<HALF> k_rows, v_rows, q_rows, dout_rows, ds_rows;
    down_rows<HALF>  p_down, ds_down, q_down, dout_down, k_down;
    unsigned         p, ds; /* where the warpgroup stores its half */
    const float2    *lse;   /* in units of log 2, from this thread's first column on; then delta */

    __device__ __forceinline__ wide_operands(const block_memory<D> &m, const place &me, int stage)
        : k_rows(m.at + m.K), v_rows(m.at + m.V),
          q_rows(m.at + m.Q + stage * TILE_BYTES<D> + me.half * HALF_QUERIES * SLAB_BYTES),
          dout_rows(m.at + m.DOUT + stage * TILE_BYTES<D> + me.half * HALF_QUERIES * SLAB_BYTES),
          ds_rows(m.at + m.DS + stage * m.DS_BYTES), p_down(m.at + m.P + stage * m.DS_BYTES),
          ds_down(m.at + m.DS + stage * m.DS_BYTES),
          q_down(m.at + m.Q + stage * TILE_BYTES<D> + me.half * FIRST_SLABS * HALF * SLAB_BYTES),
          dout_down(m.at + m.DOUT + stage * TILE_BYTES<D> +
                    me.half * FIRST_SLABS * HALF * SLAB_BYTES),
          k_down(m.at + m.K + me.half * FIRST_SLABS * HALF * SLAB_BYTES),
          p(m.at + m.P + stage * m.DS_BYTES + me.half * HALF_QUERIES * SLAB_BYTES),
          ds(m.at + m.DS + stage * m.DS_BYTES + me.half * HALF_QUERIES * SLAB_BYTES),
          lse((const float2 *)__cvta_shared_to_generic(m.at + m.STATS + stage * 1024 +
                                                       (me.half * HALF_QUERIES + me.column) * 4))
    {
    }
};

/* P' and dS' of all keys and half of the queries, narrowed, to shared memory. */
template <class T, int D>
__device__ __forceinline__ void
store_half(const main_params &p, const block_memory<D> &m, const job &w, const place &me,
           unsigned infinite, int query, const ring_place<STAGES> &from, const wide_operands<D> &of)
{
    const bool masked = straddles<D>(p.see, w, query);
    const auto seen = [&] {
        const int t = thread_now();
        return view(p.see, w.length, w.key + key_row<D>(t),
                    query + me.half * HALF_QUERIES + t % 4 * 2);
    };
    float                   s[HALF_QUERIES / 2], dp[HALF_QUERIES / 2];
    unsigned                bits[HALF_QUERIES / 4];
    row_stats<HALF_QUERIES> stats;

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
    stats.load(of.lse + HEIGHT<D> / 2);
    if (masked) blank(s, seen());
    narrow_all<T>(bits, s);
    store_weights(of.p, bits, me);
    products_wait<0>();
    pin(dp);
    find_ds(dp, s, stats);
    if (masked) blank(dp, seen());
    narrow_all<T>(bits, dp);
    store_weights(of.ds, bits, me);
}

/* What a tile of queries adds to the warpgroup's columns of dk, dv and dq. */
template <class T, int D, int COLUMNS>
__device__ __forceinline__ void add_wide_tile(const main_params &p, const block_memory<D> &m,
                                              const job &w, const place &me, unsigned infinite,
                                              int head, int tile, const ring_place<STAGES> &from,
                                              float (&dk)[COLUMNS / 2], float (&dv)[COLUMNS / 2])
{
    constexpr int          H = HEIGHT<D>;
    const wide_operands<D> of(m, me, from.stage);
    float                  dq[COLUMNS / 2];
    store_half<T, D>(p, m, w, me, infinite, tile * H, from, of);
    publish_to_engines();
    named_wait(BOTH_BARRIER, 2 * WARPGROUP); /* both halves are there */
    pin(dv), pin(dk);
    products_begin();
#pragma unroll
    for (int i = 0; i < H / 16; i++)
        product<T, 1, 1>(dv, of.p_down.step(i), of.dout_down.step(i), 1);
    products_end();
#pragma unroll
    for (int i = 0; i < KEYS<D> / 16; i++)
        product<T, 0, 1>(dq, of.ds_rows.step(i), of.k_down.step(i), i != 0);
    products_end();
    products_wait<1>();
    pin(dv);
    if (me.lane == 0) barrier_arrive(m.dout_empty(from.stage));
#pragma unroll
    for (int i = 0; i < H / 16; i++) product<T, 1, 1>(dk, of.ds_down.step(i), of.q_down.step(i), 1);
    products_end();
    products_wait<1>();
    pin(dq);
    const int64_t i = (int64_t)(w.batch * p.n_q_head + head) * p.n_tile + tile;
    float *const  sums =
        p.dq_sums + i * dq_parts<D>::FLOATS + me.half * (FIRST_COLUMNS / 8 * CHUNK_FLOATS);
    if (p.turns) add_in_turn(p.turns + i * 2 + me.half, turn_of<D>(p, w, tile), sums, dq, me);
    else add_chunks(sums, dq);
    products_wait<0>();
    pin(dk);
    if (me.lane == 0) barrier_arrive(m.q_empty(from.stage));
}

template <class T, int D, int N>
__device__ __forceinline__ void store_columns(const main_params &p, const block_memory<D> &m,
                                              const job &w, const place &me, const float (&dk)[N],
                                              const float (&dv)[N])
{
    const int      slab = me.half * FIRST_SLABS;
    const unsigned at = m.at + slab * HALF * SLAB_BYTES;
    named_wait(BOTH_BARRIER, 2 * WARPGROUP); /* no matmul reads k or v any more */
    stage_rows<T, D>(at + m.V, dv, 1.0f, me);
    stage_rows<T, D>(at + m.K, dk, p.scale, me);
    publish_to_engines();
    named_wait(HALF_BARRIER + me.half, WARPGROUP);
    if (threadIdx.x % WARPGROUP) return;
    for (int s = 0; s < (2 * N + 63) / 64; s++) {
        const unsigned rows = at + s * HALF * SLAB_BYTES;
        store_box(&p.map.dv, rows + m.V, (slab + s) * 64, w.key, w.kv_head, w.batch);
        store_box(&p.map.dk, rows + m.K, (slab + s) * 64, w.key, w.kv_head, w.batch);
    }
    stores_end();
    stores_wait_read<0>();
    barrier_arrive(m.kv_empty());
}

template <class T, int D, int COLUMNS>
__device__ __forceinline__ void find_columns(const main_params &p, const block_memory<D> &m)
{
    const place        me;
    ring_place<STAGES> from;
    unsigned           kv_parity = 0;
    await_last(); /* for the sums, which are 0 then */
    for (unsigned told = 0;; told ^= 1) {
        const int ticket = hear_job(m, told);
        if (ticket < 0) break;
        const job w = find_job<D>(p, ticket);
        unsigned  infinite = 0;
        float     dk[COLUMNS / 2], dv[COLUMNS / 2];
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i++) dk[i] = dv[i] = 0.0f;
        if (!w.idle()) {
            barrier_wait(m.kv_full(0), kv_parity);
            infinite = clear_keys<T>(m, w);
            barrier_wait(m.kv_full(1), kv_parity);
            kv_parity ^= 1;
        }
        for (int head = w.head; head < w.end_head; head++)
#pragma unroll 1
            for (int tile = w.tile; tile < w.end_tile; tile++, from.advance())
                add_wide_tile<T, D, COLUMNS>(p, m, w, me, infinite, head, tile, from, dk, dv);
        /* The job and the thread's place are found again: they are not kept over the loop. */
        store_columns<T, D>(p, m, find_job<D>(p, ticket), place(), dk, dv);
    }
}

template <class T, int D>
__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    backward_wide(const __grid_constant__ main_params p)
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
            give_registers<40>();
            if (threadIdx.x == 0) bring_tiles<D>(p, m);
        } else {
            take_registers<232>();
            if (warpgroup == 1) find_columns<T, D, FIRST_COLUMNS>(p, m);
            else find_columns<T, D, D - FIRST_COLUMNS>(p, m);
        }
    }
}

} // namespace

#endif

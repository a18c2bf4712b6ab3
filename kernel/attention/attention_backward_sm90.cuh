/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_sm90.cuh - the main pass backward by products of warpgroups, for 16-bit
 * elements and heads of 64 and 128.
 *
 * A block owns 128 keys of a KV head, and walks the queries that may see them, over all query heads
 * that share the KV head: dk and dv stay in registers. Warpgroups 1 and 2 have 64 keys each; of
 * warpgroup 0 one warp brings tiles and one adds dq to sums in memory. Scores stand transposed,
 * keys down and queries across, so that P and dS are, as they lie in registers, operands of the
 * products for dv and dk; only dS goes through shared memory, for dq = dS k, of which each
 * warpgroup finds one half. */
#ifndef TS_ATTENTION_BACKWARD_SM90_CUH
#define TS_ATTENTION_BACKWARD_SM90_CUH

#include "attention_sm90.cuh"

namespace
{

enum { KEYS = 128, HALF = 64, STAGES = 2, BLOCK_THREADS = 3 * WARPGROUP };

/* Queries in a tile. In both cases a tile has 8192 elements, and a half of its dq 64 x 64. */
template <int D> constexpr int HEIGHT = D == 64 ? 128 : 64;

enum { TILE_BYTES = 8192 * 2, PART_FLOATS = 64 * 64, PART_BYTES = PART_FLOATS * 4 };

struct tensor_maps {
    CUtensorMap q, dout, k, v, dk, dv, stats;
};

struct main_params {
    tensor_maps    map;
    sight          see;
    int            n_q_head, n_kv_head, n_head; /* n_head: KV heads of all batches */
    int            n_tile, n_block;             /* of a head */
    int            section;                     /* heads worked on together, to share the L2 */
    float          scale, scale_log2;
    const int32_t *kv_len;
    float         *dq_sums; /* [batch][query head][tile][half][64][64], see dq_piece */
    int           *turns;   /* [batch][query head][tile]; NULL: dq may be added in any order */
    int           *ticket;  /* with turns: how many blocks have begun */
};

/* Eight columns from 8 m on of row r of a half of dq, as they lie in its 64 x 64 floats: where the
 * threads of a warp, which have eight rows, write at once without meeting in a bank. */
__device__ __forceinline__ int dq_piece(int r, int m)
{
    return r * 64 + (m ^ r % 4) * 8;
}

/* ---- shared memory ---- */

template <int D> struct block_memory {
    static constexpr unsigned K = 0, V = K + KEYS * D * 2, Q = V + KEYS * D * 2,
                              DOUT = Q + STAGES * TILE_BYTES, DS = DOUT + STAGES * TILE_BYTES,
                              DS_BYTES = HEIGHT<D> * KEYS * 2, DQ = DS + STAGES * DS_BYTES,
                              STATS = DQ + 2 * PART_BYTES, BARRIERS = STATS + STAGES * 1024,
                              END = BARRIERS + 16 * 8, ALLOCATED = END + 1024;
    unsigned at; /* a multiple of 1024 */

    __device__ __forceinline__ unsigned bar(int i) const
    {
        return at + BARRIERS + i * 8;
    }
    __device__ __forceinline__ unsigned kv_full(int which) const
    {
        return bar(which);
    }
    __device__ __forceinline__ unsigned q_full(int stage) const
    {
        return bar(2 + stage);
    }
    __device__ __forceinline__ unsigned q_empty(int stage) const
    {
        return bar(4 + stage);
    }
    __device__ __forceinline__ unsigned dout_full(int stage) const
    {
        return bar(6 + stage);
    }
    __device__ __forceinline__ unsigned dout_empty(int stage) const
    {
        return bar(8 + stage);
    }
    __device__ __forceinline__ unsigned dq_full(int half) const
    {
        return bar(10 + half);
    }
    __device__ __forceinline__ unsigned dq_empty(int half) const
    {
        return bar(12 + half);
    }

    /* By one thread. Consumers arrive by warps, four to a warpgroup. */
    __device__ __forceinline__ void init_barriers(void) const
    {
        for (int i = 0; i < 2; i++) {
            barrier_init(kv_full(i), 1);
            barrier_init(q_full(i), 1), barrier_init(q_empty(i), 8);
            barrier_init(dout_full(i), 1), barrier_init(dout_empty(i), 8);
            barrier_init(dq_full(i), 4), barrier_init(dq_empty(i), 1);
        }
        barrier_init_end();
    }
};

/* ---- what a block does ---- */

struct job {
    int batch, kv_head, block, key, length;
    int head, end_head; /* query heads */
    int tile, end_tile; /* queries that may see the keys */

    __device__ __forceinline__ bool idle(void) const
    {
        return tile >= end_tile;
    }
};

/* Sections of heads one after the other; in each, blocks of keys go in one order over all its
 * heads. With turns, from the last keys to the first, which is the order in which they add to dq:
 * who waits for a turn waits for blocks that began before. Else the other way: under a causal mask
 * the first keys have the most queries, and long jobs had better not come last. */
template <int D> __device__ __forceinline__ job find_job(const main_params &p, int ticket)
{
    const int s = ticket / (p.section * p.n_block), first = s * p.section;
    const int n = min(p.section, p.n_head - first), i = ticket - first * p.n_block;
    const int head = first + i % n, group = p.n_q_head / p.n_kv_head;
    job       w;
    w.batch = head / p.n_kv_head, w.kv_head = head % p.n_kv_head;
    w.block = p.turns ? p.n_block - 1 - i / n : i / n;
    w.key = w.block * KEYS;
    w.length = p.kv_len ? p.kv_len[w.batch] : p.see.n_k;
    w.head = w.kv_head * group, w.end_head = w.head + group;
    w.tile = p.see.first_tile(w.key, HEIGHT<D>);
    w.end_tile = w.key < w.length ? p.see.end_tile(w.key, KEYS, HEIGHT<D>) : 0;
    return w;
}

/* ---- bringing tiles: one thread ---- */

/* For what many blocks read, like the sums of dq, whose lines have no other policy. */
__device__ __forceinline__ uint64_t share_in_l2(void)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

template <int D>
__device__ __forceinline__ void load_owned(const CUtensorMap *map, unsigned to, unsigned bar,
                                           const job &w)
{
    barrier_expect(bar, KEYS * D * 2);
    for (int s = 0; s < D / 64; s++)
        for (int h = 0; h < 2; h++)
            load_box(to + (s * KEYS + h * HALF) * SLAB_BYTES, map, bar, s * 64, w.key + h * HALF,
                     w.kv_head, w.batch, drop_from_l2());
}

template <int D>
__device__ __forceinline__ void load_tile(const CUtensorMap *map, unsigned to, unsigned bar,
                                          int batch, int head, int tile)
{
    for (int s = 0; s < D / 64; s++)
        load_box(to + s * HEIGHT<D> * SLAB_BYTES, map, bar, s * 64, tile * HEIGHT<D>, head, batch,
                 share_in_l2());
}

template <int D>
__device__ void bring_tiles(const main_params &p, const block_memory<D> &m, const job &w)
{
    constexpr int      H = HEIGHT<D>, STAT_ROWS = H / 16;
    ring_place<STAGES> to;
    bool               begun = false;
    if (w.idle()) return;
    load_owned<D>(&p.map.k, m.at + m.K, m.kv_full(0), w);
    for (int head = w.head; head < w.end_head; head++)
        for (int tile = w.tile; tile < w.end_tile; tile++, to.advance()) {
            const unsigned q = m.q_full(to.stage), dout = m.dout_full(to.stage);
            barrier_wait(m.q_empty(to.stage), to.parity ^ 1);
            barrier_expect(q, TILE_BYTES + 2 * H * 4);
            load_tile<D>(&p.map.q, m.at + m.Q + to.stage * TILE_BYTES, q, w.batch, head, tile);
            load_box(m.at + m.STATS + to.stage * 1024, &p.map.stats, q, 0, tile * STAT_ROWS,
                     w.batch * p.n_q_head + head, 0, share_in_l2());
            if (!begun) load_owned<D>(&p.map.v, m.at + m.V, m.kv_full(1), w);
            begun = true;
            barrier_wait(m.dout_empty(to.stage), to.parity ^ 1);
            barrier_expect(dout, TILE_BYTES);
            load_tile<D>(&p.map.dout, m.at + m.DOUT + to.stage * TILE_BYTES, dout, w.batch, head,
                         tile);
        }
}

/* ---- adding to dq: one thread ---- */

/* What other blocks added before they passed the turn on is there for this block's sums. */
__device__ __forceinline__ void await_turn(const int *turn, int mine)
{
    int now;
    do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
    while (now != mine);
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

/* After stores_wait<0>. */
__device__ __forceinline__ void pass_turn(int *turn)
{
    asm volatile("fence.proxy.async.global;\n\tred.release.gpu.global.add.s32 [%0], 1;" ::"l"(turn)
                 : "memory");
}

template <int D>
__device__ void add_dq(const main_params &p, const block_memory<D> &m, const job &w)
{
    constexpr int H = HEIGHT<D>;
    unsigned      parity = 0;
    for (int head = w.head; head < w.end_head; head++)
        for (int tile = w.tile; tile < w.end_tile; tile++, parity ^= 1) {
            const int64_t i = (int64_t)(w.batch * p.n_q_head + head) * p.n_tile + tile;
            if (p.turns)
                await_turn(p.turns + i, p.see.last_block(tile * H, H, w.length, KEYS) - w.block);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                barrier_wait(m.dq_full(half), parity);
                add_floats(p.dq_sums + (i * 2 + half) * PART_FLOATS,
                           m.at + m.DQ + half * PART_BYTES, PART_BYTES);
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
    stores_wait<0>();
}

/* ---- products: a warpgroup with 64 keys ---- */

enum { BOTH_BARRIER = 1, HALF_BARRIER = 2 }; /* of 256 threads; of 128, one for each half */

/* Where a thread stands: accumulators have, of rows (keys) row and row + 8, columns 8 j + column
 * and the next. By the shuffle the compiler knows that a warp is all in one half. */
struct place {
    int half, warp, lane, row, column;

    __device__ __forceinline__ place(void)
        : half(__shfl_sync(0xffffffffu, (int)threadIdx.x / WARPGROUP, 0) - 1),
          warp((int)threadIdx.x % WARPGROUP / 32), lane((int)threadIdx.x % 32),
          row(half * HALF + warp * 16 + lane / 4), column(lane % 4 * 2)
    {
    }
};

/* Is there a pair that is not seen? */
template <int D>
__device__ __forceinline__ bool straddles(const sight &see, const job &w, int query)
{
    const int past = query + see.shift - w.key; /* of the first query and the first key */
    return w.key + KEYS > w.length || past < KEYS - 1 || past + HEIGHT<D> - 1 >= see.window;
}

/* Scores to weights. A thread's columns are 2 of every 8, hence of the rows' statistics a pair of
 * every four. */
template <int N>
__device__ __forceinline__ void find_p(float (&s)[N], const float2 *lse, float scale_log2)
{
#pragma unroll
    for (int j = 0; j < N / 4; j++) {
        const float2 l = lse[j * 4];
        s[4 * j] = exp2_of(fmaf(s[4 * j], scale_log2, -l.x));
        s[4 * j + 1] = exp2_of(fmaf(s[4 * j + 1], scale_log2, -l.y));
        s[4 * j + 2] = exp2_of(fmaf(s[4 * j + 2], scale_log2, -l.x));
        s[4 * j + 3] = exp2_of(fmaf(s[4 * j + 3], scale_log2, -l.y));
    }
}

template <int N>
__device__ __forceinline__ void find_ds(float (&dp)[N], const float (&p)[N], const float2 *delta)
{
#pragma unroll
    for (int j = 0; j < N / 4; j++) {
        const float2 d = delta[j * 4];
        dp[4 * j] = p[4 * j] * (dp[4 * j] - d.x);
        dp[4 * j + 1] = p[4 * j + 1] * (dp[4 * j + 1] - d.y);
        dp[4 * j + 2] = p[4 * j + 2] * (dp[4 * j + 2] - d.x);
        dp[4 * j + 3] = p[4 * j + 3] * (dp[4 * j + 3] - d.y);
    }
}

/* dS' of this half of the keys, as rows of queries. */
template <int D, int N>
__device__ __forceinline__ void store_ds(unsigned ds, const unsigned (&a)[N], const place &me)
{
    const int      matrix = me.lane / 8, query = matrix / 2 * 8 + me.lane % 8;
    const unsigned row =
        slab_piece(ds + me.half * HEIGHT<D> * SLAB_BYTES, query, 2 * me.warp + matrix % 2);
#pragma unroll
    for (int i = 0; i < N / 4; i++)
        store_matrices<true>(row + i * 16 * SLAB_BYTES, a[4 * i], a[4 * i + 1], a[4 * i + 2],
                             a[4 * i + 3]);
}

__device__ __forceinline__ void store_pair(unsigned to, float a, float b)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(a), "f"(b) : "memory");
}

/* As dq_piece has it; `to` is a multiple of 256. */
__device__ __forceinline__ void store_dq(unsigned to, const float (&dq)[32], const place &me)
{
    const int      r = me.warp * 16 + me.lane / 4;
    const unsigned at = to + (unsigned)(dq_piece(r, 0) + me.column) * 4;
#pragma unroll
    for (int j = 0; j < 8; j++) { /* r + 8 has its pieces in the same places */
        store_pair(at ^ (unsigned)j * 32, dq[4 * j], dq[4 * j + 1]);
        store_pair((at ^ (unsigned)j * 32) + 8 * 256, dq[4 * j + 2], dq[4 * j + 3]);
    }
}

/* Clears keys past the length, which may be anything, and keys with an infinite element: times a
 * weight of 0 they would be NaN in dq. Says which of the warp's 16 keys are infinite: bit 2 r. */
template <class T, int D>
__device__ __forceinline__ unsigned clear_keys(const block_memory<D> &m, const job &w)
{
    constexpr int PART = D / 16; /* pieces of a row that one of two threads looks at */
    const int     i = (int)threadIdx.x - WARPGROUP, row = i / 2;
    bool          found = false;
    uint4        *at[PART];
#pragma unroll
    for (int n = 0; n < PART; n++) { /* in another order in each row: other banks */
        const int piece = i % 2 * PART + (n + row) % PART;
        at[n] = (uint4 *)__cvta_shared_to_generic(
            slab_piece(m.at + m.K + piece / 8 * KEYS * SLAB_BYTES, row, piece % 8));
        found |= has_infinite<T>(*at[n]);
    }
    const unsigned by_thread = __ballot_sync(0xffffffffu, found);
    const unsigned infinite = (by_thread | by_thread >> 1) & 0x55555555;
    if (infinite >> i % 32 / 2 * 2 & 1 || w.key + row >= w.length)
#pragma unroll
        for (int n = 0; n < PART; n++) *at[n] = make_uint4(0, 0, 0, 0);
    publish_to_engines();
    named_wait(BOTH_BARRIER, 2 * WARPGROUP);
    return infinite;
}

/* This half's rows of dk or dv, over the tile of k or v that is not needed any more. */
template <class T, int D>
__device__ __forceinline__ void stage_rows(unsigned to, const float (&d)[D / 2], float scale,
                                           const place &me)
{
    const int matrix = me.lane / 8;
    const int row = me.half * HALF + me.warp * 16 + matrix % 2 * 8 + me.lane % 8;
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        unsigned a[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            a[k] = narrow(d[8 * i + 2 * k] * scale, d[8 * i + 2 * k + 1] * scale, T());
        store_matrices<false>(
            slab_piece(to + i / 4 * KEYS * SLAB_BYTES, row, i % 4 * 2 + matrix / 2), a[0], a[1],
            a[2], a[3]);
    }
}

template <class T, int D>
__device__ __forceinline__ void store_owned(const main_params &p, const block_memory<D> &m,
                                            const job &w, const place &me, const float (&dk)[D / 2],
                                            const float (&dv)[D / 2])
{
    named_wait(BOTH_BARRIER, 2 * WARPGROUP); /* the other half's dq has read all of k */
    stage_rows<T, D>(m.at + m.V, dv, 1.0f, me);
    stage_rows<T, D>(m.at + m.K, dk, p.scale, me);
    publish_to_engines();
    named_wait(HALF_BARRIER + me.half, WARPGROUP);
    if (threadIdx.x % WARPGROUP) return;
    for (int s = 0; s < D / 64; s++) {
        const unsigned rows = m.at + (s * KEYS + me.half * HALF) * SLAB_BYTES;
        store_box(&p.map.dv, rows + m.V, s * 64, w.key + me.half * HALF, w.kv_head, w.batch);
        store_box(&p.map.dk, rows + m.K, s * 64, w.key + me.half * HALF, w.kv_head, w.batch);
    }
    stores_end();
    stores_wait_read<0>();
}

/* A tile of queries in its stage, with the keys that a warpgroup multiplies it by. */
template <int D> struct operands {
    static constexpr int H = HEIGHT<D>;
    along_rows<KEYS>     k_rows, v_rows; /* this half's keys */
    along_rows<H>        q_rows, dout_rows, ds_rows;
    down_rows<H>         q_down, dout_down;
    down_rows<KEYS>      k_down;
    unsigned             ds;
    const float2 *lse; /* in units of log 2, from this thread's first column on; then delta */

    /* A half of dq is half the columns, or half the queries. */
    __device__ __forceinline__ operands(const block_memory<D> &m, const place &me, int stage)
        : k_rows(m.at + m.K + me.half * HALF * SLAB_BYTES),
          v_rows(m.at + m.V + me.half * HALF * SLAB_BYTES), q_rows(m.at + m.Q + stage * TILE_BYTES),
          dout_rows(m.at + m.DOUT + stage * TILE_BYTES),
          ds_rows(m.at + m.DS + stage * m.DS_BYTES + (D == 64 ? me.half * HALF * SLAB_BYTES : 0)),
          q_down(m.at + m.Q + stage * TILE_BYTES), dout_down(m.at + m.DOUT + stage * TILE_BYTES),
          k_down(m.at + m.K + (D == 64 ? 0 : me.half * KEYS * SLAB_BYTES)),
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
    const view    seen(p.see, w.length, w.key + me.row, query + me.column);
    float         s[H / 2], dp[H / 2];

    barrier_wait(m.q_full(from.stage), from.parity);
    products_begin();
#pragma unroll
    for (int i = 0; i < D / 16; i++)
        product<T, 0, 0>(s, of.k_rows.step(i), of.q_rows.step(i), i != 0);
    products_end();
    barrier_wait(m.dout_full(from.stage), from.parity);
    products_begin();
#pragma unroll
    for (int i = 0; i < D / 16; i++)
        product<T, 0, 0>(dp, of.v_rows.step(i), of.dout_rows.step(i), i != 0);
    products_end();

    products_wait<1>();
    pin(s);
    if (infinite) sink_infinite(s, infinite, p.scale_log2, me.lane);
    find_p(s, of.lse, p.scale_log2);
    if (masked) blank(s, seen);
    narrow_all<T>(p_bits, s);
    products_wait<0>();
    pin(dp);
    find_ds(dp, s, of.lse + H / 2);
    if (masked) blank(dp, seen);
    narrow_all<T>(ds_bits, dp);
}

/* What a tile of queries adds to dk, dv and dq. */
template <class T, int D>
__device__ __forceinline__ void add_tile(const main_params &p, const block_memory<D> &m,
                                         const job &w, const place &me, unsigned infinite,
                                         int query, const ring_place<STAGES> &from,
                                         unsigned dq_parity, float (&dk)[D / 2], float (&dv)[D / 2])
{
    constexpr int     H = HEIGHT<D>;
    const operands<D> of(m, me, from.stage);
    unsigned          p_bits[H / 4], ds_bits[H / 4];
    float             dq[32];
    find_weights<T, D>(p, m, w, me, infinite, query, from, of, p_bits, ds_bits);
    store_ds<D>(of.ds, ds_bits, me);
    publish_to_engines();

    pin(p_bits), pin(ds_bits), pin(dv), pin(dk);
    products_begin();
#pragma unroll
    for (int i = 0; i < H / 16; i++)
        product<T, 1>(dv, p_bits[4 * i], p_bits[4 * i + 1], p_bits[4 * i + 2], p_bits[4 * i + 3],
                      of.dout_down.step(i), 1);
    products_end();
    named_wait(BOTH_BARRIER, 2 * WARPGROUP); /* both halves of ds are there */
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++)
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
    barrier_wait(m.dq_empty(me.half), dq_parity ^ 1);
    store_dq(m.at + m.DQ + me.half * PART_BYTES, dq, me);
    publish_to_engines();
    __syncwarp();
    if (me.lane == 0) barrier_arrive(m.dq_full(me.half));
    products_wait<0>();
    pin(dk);
    if (me.lane == 0) barrier_arrive(m.q_empty(from.stage));
}

template <class T, int D>
__device__ __forceinline__ void find_sums(const main_params &p, const block_memory<D> &m,
                                          const int &ticket)
{
    const job          w = find_job<D>(p, ticket);
    const place        me;
    ring_place<STAGES> from;
    unsigned           dq_parity = 0, infinite = 0;
    float              dk[D / 2], dv[D / 2];
#pragma unroll
    for (int i = 0; i < D / 2; i++) dk[i] = dv[i] = 0.0f;
    if (!w.idle()) {
        barrier_wait(m.kv_full(0), 0);
        infinite = clear_keys<T>(m, w);
        barrier_wait(m.kv_full(1), 0);
    }
    for (int head = w.head; head < w.end_head; head++)
#pragma unroll 1
        for (int tile = w.tile; tile < w.end_tile; tile++, from.advance(), dq_parity ^= 1)
            add_tile<T, D>(p, m, w, me, infinite, tile * HEIGHT<D>, from, dq_parity, dk, dv);
    store_owned<T, D>(p, m, find_job<D>(p, ticket), me, dk, dv); /* not kept over the loop */
}

template <class T, int D>
__global__ void __launch_bounds__(BLOCK_THREADS, 1)
    backward_main(const __grid_constant__ main_params p)
{
    if constexpr (HAS_WGMMA) {
        extern __shared__ char memory[];
        __shared__ int         ticket;
        const block_memory<D>  m = { (shared_address(memory) + 1023) / 1024 * 1024 };
        if (threadIdx.x == 0) {
            m.init_barriers();
            ticket = p.turns ? atomicAdd(p.ticket, 1) : (int)blockIdx.x;
        }
        __syncthreads();
        if (threadIdx.x < WARPGROUP) {
            give_registers<40>(); /* a thread begins with 168: 504 for one of each warpgroup */
            if (threadIdx.x == 0) bring_tiles<D>(p, m, find_job<D>(p, ticket));
            if (threadIdx.x == 32) add_dq<D>(p, m, find_job<D>(p, ticket));
        } else {
            take_registers<232>();
            find_sums<T, D>(p, m, ticket);
        }
    }
}

} // namespace

#endif

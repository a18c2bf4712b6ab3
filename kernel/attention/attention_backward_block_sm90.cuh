/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_block_sm90.cuh - shared by the wgmma kernels of the backward pass: parameters,
 * shared memory, the division of work, loading of tiles, and gradients of scores.
 *
 * A block owns keys of a KV head, and iterates over the queries that may see them, of all query
 * heads that share the KV head: dk and dv stay in registers. Scores are transposed: keys are rows,
 * queries columns. */
#ifndef TS_ATTENTION_BACKWARD_BLOCK_SM90_CUH
#define TS_ATTENTION_BACKWARD_BLOCK_SM90_CUH

#include "attention_sm90.cuh"

namespace
{

enum { HALF = 64, STAGES = 2, BLOCK_THREADS = 3 * WARPGROUP };

/* D is head_dim rounded up to 16, above 128 to 32; slabs have 64 columns, which TMA fills with
 * zeros from head_dim on and does not store from there on. */
template <int D> constexpr int      SLABS = (D + 63) / 64;
template <int D> constexpr int      HEIGHT = D <= 64 ? 128 : 64; /* queries in a tile */
template <int D> constexpr int      KEYS = D <= 128 ? 128 : 64;  /* that a block owns */
template <int D> constexpr unsigned TILE_BYTES = SLAB_BYTES *(SLABS<D> *HEIGHT<D>);

/* A tile's dq has the layout of the registers of warpgroups with 64 queries each: chunks of 8
 * columns, in each four floats per thread. */
enum { CHUNK_FLOATS = 4 * WARPGROUP, CHUNK_BYTES = CHUNK_FLOATS * 4, PART_BYTES = 8 * CHUNK_BYTES };
template <int D> struct dq_parts {
    static constexpr int FIRST = D <= 64 ? D / 8 : 8; /* of the first warpgroup, up to D = 128 */
    static constexpr int ALL = D <= 64 ? 2 * FIRST : D / 8;
    static constexpr int FLOATS = ALL * CHUNK_FLOATS; /* of a tile: HEIGHT<D> * D */
};

struct tensor_maps {
    CUtensorMap q, dout, k, v, dk, dv, stats;
};

struct main_params {
    tensor_maps    map;
    sight          see;
    int            n_q_head, n_kv_head, n_head; /* n_head: KV heads of all batches */
    int            n_tile, n_block, n_job;      /* of a head; of all heads */
    int            section, n_section;          /* heads worked on together, to share the L2 */
    float          scale, scale_log2;
    const int32_t *kv_len;
    float         *dq_sums; /* [batch][query head][tile][chunk][thread][4], see dq_parts */
    int           *turns;   /* [batch][query head][tile], above D = 128 [half]; NULL: any order */
    int           *ticket;  /* jobs taken, but for the blocks' first ones without turns */
};

/* ---- shared memory ---- */

/* P goes through shared memory above D = 128, dq up to there. If statistics leave half of their
 * place free, barriers are stored there: at D = 256 no other place is left. */
template <int D> struct block_memory {
    static constexpr unsigned OWNED_BYTES = SLABS<D> * KEYS<D> * SLAB_BYTES, K = 0,
                              V = K + OWNED_BYTES, Q = V + OWNED_BYTES,
                              DOUT = Q + STAGES * TILE_BYTES<D>, DS = DOUT + STAGES * TILE_BYTES<D>,
                              DS_BYTES = HEIGHT<D> * KEYS<D> * 2, DQ = DS + STAGES * DS_BYTES,
                              P = DQ,
                              STATS = D <= 128 ? DQ + 2 * PART_BYTES : P + STAGES * DS_BYTES,
                              BARRIERS = STATS + (D <= 64 ? STAGES * 1024 : 512),
                              MAIL = BARRIERS + 17 * 8, /* the number of the job */
        END = STATS + STAGES * 1024 + (D <= 64 ? 20 * 8 : 0), ALLOCATED = END + 1024;
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
    __device__ __forceinline__ unsigned kv_empty(void) const
    {
        return bar(14);
    }
    __device__ __forceinline__ unsigned job_full(void) const
    {
        return bar(15);
    }
    __device__ __forceinline__ unsigned job_empty(void) const
    {
        return bar(16);
    }

    /* By one thread. Consumers arrive by warps, four to a warpgroup, and so does the warp that adds
     * dq; the place of k and v is given back by one thread of each warpgroup. */
    __device__ __forceinline__ void init_barriers(void) const
    {
        barrier_init(kv_empty(), 2);
        barrier_init(job_full(), 1), barrier_init(job_empty(), D <= 128 ? 9 : 8);
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
 * heads. With turns, from the last keys to the first, which is the order in which they add to dq: a
 * block then waits only for blocks that began before it. Otherwise the other way: under a causal
 * mask the first keys have the most queries, and long jobs should not come last. */
template <int D> __device__ __forceinline__ job find_job(const main_params &p, int ticket)
{
    const int s = min(ticket / (p.section * p.n_block), p.n_section - 1), first = s * p.section;
    const int n = s < p.n_section - 1 ? p.section : p.n_head - first;
    const int i = ticket - first * p.n_block;
    const int head = first + i % n, group = p.n_q_head / p.n_kv_head;
    job       w;
    w.batch = head / p.n_kv_head, w.kv_head = head % p.n_kv_head;
    w.block = p.turns ? p.n_block - 1 - i / n : i / n;
    w.key = w.block * KEYS<D>;
    w.length = p.kv_len ? p.kv_len[w.batch] : p.see.n_k;
    w.head = w.kv_head * group, w.end_head = w.head + group;
    w.tile = p.see.first_tile(w.key, HEIGHT<D>);
    w.end_tile = w.key < w.length ? p.see.end_tile(w.key, KEYS<D>, HEIGHT<D>) : 0;
    return w;
}

/* The thread's number, found again where few tiles need it: nothing is kept over the loop over
 * tiles, where registers are short. */
__device__ __forceinline__ int thread_now(void)
{
    int t;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(t));
    return t;
}

/* Blocks stay, and take job after job, which the thread that loads tiles tells the others; -1:
 * there are no more. */
template <int D>
__device__ __forceinline__ void tell_job(const block_memory<D> &m, int ticket, unsigned *told)
{
    barrier_wait(m.job_empty(), *told ^ 1);
    store_word(m.at + m.MAIL, (unsigned)ticket);
    barrier_arrive(m.job_full());
    *told ^= 1;
}

/* Called by a warp. The lane that reads it signals that it may be overwritten. */
template <int D> __device__ __forceinline__ int hear_job(const block_memory<D> &m, unsigned told)
{
    unsigned ticket = 0;
    barrier_wait(m.job_full(), told);
    if (thread_now() % 32 == 0) {
        ticket = load_word(m.at + m.MAIL);
        barrier_arrive(m.job_empty());
    }
    return (int)__shfl_sync(0xffffffffu, ticket, 0);
}

/* With turns in the order of tickets, as blocks wait for those that began before. */
__device__ __forceinline__ int take_job(const main_params &p)
{
    return (p.turns ? 0 : (int)gridDim.x) + atomicAdd(p.ticket, 1);
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
    barrier_expect(bar, block_memory<D>::OWNED_BYTES);
    for (int s = 0; s < SLABS<D>; s++)
        for (int h = 0; h < KEYS<D> / HALF; h++)
            load_box(to + (s * KEYS<D> + h * HALF) * SLAB_BYTES, map, bar, s * 64, w.key + h * HALF,
                     w.kv_head, w.batch, drop_from_l2());
}

template <int D>
__device__ __forceinline__ void load_tile(const CUtensorMap *map, unsigned to, unsigned bar,
                                          int batch, int head, int tile)
{
    for (int s = 0; s < SLABS<D>; s++)
        load_box(to + s * HEIGHT<D> * SLAB_BYTES, map, bar, s * 64, tile * HEIGHT<D>, head, batch,
                 share_in_l2());
}

__device__ __forceinline__ void prefetch_maps(const tensor_maps &map)
{
    for (const CUtensorMap *of : { &map.k, &map.q, &map.stats, &map.v, &map.dout })
        prefetch_map(of);
}

/* Queries of the next job come while the last results are stored; then its keys and values, whose
 * place those had. In a block's first job keys come first, for statistics wait for another kernel.
 */
template <int D> __device__ void bring_tiles(const main_params &p, const block_memory<D> &m)
{
    constexpr int      H = HEIGHT<D>, STAT_ROWS = H / 16;
    ring_place<STAGES> to;
    unsigned           told = 0, n_owned = 0;
    if (p.turns) await_last();
    for (int ticket = p.turns ? take_job(p) : (int)blockIdx.x; ticket < p.n_job;
         ticket = take_job(p)) {
        const job  w = find_job<D>(p, ticket);
        const auto own = [&] {
            tell_job(m, ticket, &told);
            barrier_wait(m.kv_empty(), (n_owned++ & 1) ^ 1);
            if (w.idle()) return;
            load_owned<D>(&p.map.k, m.at + m.K, m.kv_full(0), w);
            load_owned<D>(&p.map.v, m.at + m.V, m.kv_full(1), w);
        };
        bool owned = n_owned == 0 || w.idle();
        if (owned) own();
        await_last();
        for (int head = w.head; head < w.end_head; head++)
            for (int tile = w.tile; tile < w.end_tile; tile++, to.advance()) {
                const unsigned q = m.q_full(to.stage), dout = m.dout_full(to.stage);
                barrier_wait(m.q_empty(to.stage), to.parity ^ 1);
                barrier_expect(q, TILE_BYTES<D> + 2 * H * 4);
                load_tile<D>(&p.map.q, m.at + m.Q + to.stage * TILE_BYTES<D>, q, w.batch, head,
                             tile);
                load_box(m.at + m.STATS + to.stage * 1024, &p.map.stats, q, 0, tile * STAT_ROWS,
                         w.batch * p.n_q_head + head, 0, share_in_l2());
                barrier_wait(m.dout_empty(to.stage), to.parity ^ 1);
                barrier_expect(dout, TILE_BYTES<D>);
                load_tile<D>(&p.map.dout, m.at + m.DOUT + to.stage * TILE_BYTES<D>, dout, w.batch,
                             head, tile);
                if (!owned) own();
                owned = true;
            }
    }
    tell_job(m, -1, &told);
}

/* ---- turns: blocks add to a tile's dq from the last keys that it sees to the first ---- */

template <int D>
__device__ __forceinline__ int turn_of(const main_params &p, const job &w, int tile)
{
    const int H = HEIGHT<D>;
    return p.see.last_block(tile * H, H, w.length, KEYS<D>) - w.block;
}

/* What other blocks added before they passed the turn on is there for this block's sums. */
__device__ __forceinline__ void await_turn(const int *turn, int mine)
{
    int now;
    do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
    while (now != mine);
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

/* After stores_wait<0>, or a fence and a barrier of all threads that added. */
__device__ __forceinline__ void pass_turn(int *turn)
{
    asm volatile("fence.proxy.async.global;\n\tred.release.gpu.global.add.s32 [%0], 1;" ::"l"(turn)
                 : "memory");
}

/* ---- what warpgroups that compute have in common ---- */

enum { BOTH_BARRIER = 1, HALF_BARRIER = 2 }; /* of 256 threads; of 128, one for each half */

/* The first of a thread's two rows (keys) of the block. */
template <int D> __device__ __forceinline__ int key_row(int thread)
{
    return (thread - WARPGROUP) / 32 * 16 % KEYS<D> + thread % 32 / 4;
}

/* The place of a thread: accumulators have, of two rows (keys), columns 8 j + column and the next.
 * By the shuffle the compiler knows that a warp is all in one half. */
struct place {
    int half, warp, lane, column;

    __device__ __forceinline__ place(void) : place(thread_now())
    {
    }
    __device__ __forceinline__ explicit place(int thread)
        : half(__shfl_sync(0xffffffffu, thread / WARPGROUP, 0) - 1), warp(thread % WARPGROUP / 32),
          lane(thread % 32), column(lane % 4 * 2)
    {
    }
};

/* Is there a pair that is not seen? */
template <int D>
__device__ __forceinline__ bool straddles(const sight &see, const job &w, int query)
{
    const int past = query + see.shift - w.key; /* of the first query and the first key */
    return w.key + KEYS<D> > w.length || past < KEYS<D> - 1 || past + HEIGHT<D> - 1 >= see.window;
}

/* Statistics of a tile's queries. A thread's columns are 2 of every 8, hence its numbers a pair of
 * every four. They are loaded ahead of the wait for the matmul, where there are registers for it.
 */
template <int H> struct row_stats {
    static constexpr bool AHEAD = H <= 64;
    float2                ahead[AHEAD ? H / 8 : 1];
    const float2         *at;

    __device__ __forceinline__ void load(const float2 *from)
    {
        at = from;
        if (AHEAD)
#pragma unroll
            for (int j = 0; j < H / 8; j++) ahead[j] = load_pair(shared_address(from + j * 4));
    }
    __device__ __forceinline__ float2 operator[](int j) const
    {
        return AHEAD ? ahead[j] : at[j * 4];
    }
};

/* Scores to weights. */
template <int N>
__device__ __forceinline__ void find_p(float (&s)[N], const row_stats<2 * N> &lse, float scale_log2)
{
#pragma unroll
    for (int j = 0; j < N / 4; j++) {
        const float2 l = lse[j];
        s[4 * j] = exp2_of(fmaf(s[4 * j], scale_log2, -l.x));
        s[4 * j + 1] = exp2_of(fmaf(s[4 * j + 1], scale_log2, -l.y));
        s[4 * j + 2] = exp2_of(fmaf(s[4 * j + 2], scale_log2, -l.x));
        s[4 * j + 3] = exp2_of(fmaf(s[4 * j + 3], scale_log2, -l.y));
    }
}

template <int N>
__device__ __forceinline__ void find_ds(float (&dp)[N], const float (&p)[N],
                                        const row_stats<2 * N> &delta)
{
#pragma unroll
    for (int j = 0; j < N / 4; j++) {
        const float2 d = delta[j];
        dp[4 * j] = p[4 * j] * (dp[4 * j] - d.x);
        dp[4 * j + 1] = p[4 * j + 1] * (dp[4 * j + 1] - d.y);
        dp[4 * j + 2] = p[4 * j + 2] * (dp[4 * j + 2] - d.x);
        dp[4 * j + 3] = p[4 * j + 3] * (dp[4 * j + 3] - d.y);
    }
}

/* P' or dS' of a warpgroup's 64 keys, as rows of queries. */
template <int N>
__device__ __forceinline__ void store_weights(unsigned to, const unsigned (&a)[N], const place &me)
{
    const int      matrix = me.lane / 8, query = matrix / 2 * 8 + me.lane % 8;
    const unsigned row = slab_piece(to, query, 2 * me.warp + matrix % 2);
#pragma unroll
    for (int i = 0; i < N / 4; i++)
        store_matrices<true>(row + i * 16 * SLAB_BYTES, a[4 * i], a[4 * i + 1], a[4 * i + 2],
                             a[4 * i + 3]);
}

/* Clears keys past the length, which may be anything, and keys with an infinite element: times a
 * weight of 0 they would be NaN in dq. Says which of the warp's 16 keys are infinite: bit 2 r. */
template <class T, int D>
__device__ __forceinline__ unsigned clear_keys(const block_memory<D> &m, const job &w)
{
    constexpr int PART = D / 16; /* pieces of a row that one of two threads looks at */
    const int     i = thread_now() - WARPGROUP, row = i / 2 % KEYS<D>;
    bool          found = false;
    uint4        *at[PART];
#pragma unroll
    for (int n = 0; n < PART; n++) { /* in another order in each row: other banks */
        const int piece = i % 2 * PART + (n + row) % PART;
        at[n] = (uint4 *)__cvta_shared_to_generic(
            slab_piece(m.at + m.K + piece / 8 * KEYS<D> * SLAB_BYTES, row, piece % 8));
        found |= has_infinite<T>(*at[n]);
    }
    const unsigned by_thread = __ballot_sync(0xffffffffu, found);
    const unsigned infinite = (by_thread | by_thread >> 1) & 0x55555555;
    if (KEYS<D> == HALF) named_wait(BOTH_BARRIER, 2 * WARPGROUP); /* both have looked at all */
    if (infinite >> i % 32 / 2 * 2 & 1 || w.key + row >= w.length)
#pragma unroll
        for (int n = 0; n < PART; n++) *at[n] = make_uint4(0, 0, 0, 0);
    publish_to_engines();
    named_wait(BOTH_BARRIER, 2 * WARPGROUP);
    return infinite;
}

/* A warpgroup's rows of dk or dv, over those of k or v that are not needed any more. */
template <class T, int D, int N>
__device__ __forceinline__ void stage_rows(unsigned to, const float (&d)[N], float scale,
                                           const place &me)
{
    const int matrix = me.lane / 8, row = me.warp * 16 + matrix % 2 * 8 + me.lane % 8;
#pragma unroll
    for (int i = 0; i < N / 8; i++) {
        unsigned a[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            a[k] = narrow(d[8 * i + 2 * k] * scale, d[8 * i + 2 * k + 1] * scale, T());
        store_matrices<false>(
            slab_piece(to + i / 4 * KEYS<D> * SLAB_BYTES, row, i % 4 * 2 + matrix / 2), a[0], a[1],
            a[2], a[3]);
    }
}

} // namespace

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* attention_forward_sm90.cuh - flash attention by wgmma.
 *
 * A block stays on its multiprocessor and processes one item after the other: an item is some rows
 * (queries) of one head. Its first warpgroup only loads tiles of keys and values; each of the
 * others has 64 rows, with scores and sums in registers. While the tensor cores add P V of one
 * tile, a warpgroup computes the weights of the next. Tiles are processed from the last key to the
 * first, so that those which need a mask come first; items with the most tiles come first, too. */
#ifndef TS_ATTENTION_FORWARD_SM90_CUH
#define TS_ATTENTION_FORWARD_SM90_CUH

#include "attention_sm90.cuh"

namespace
{

enum { ROWS = 64 }; /* of a warpgroup */

/* How a block is cut: columns, warpgroups that compute, keys per tile, and how many tiles of keys,
 * of values and of queries fit. D is head_dim rounded up to 16. Slabs have 64 columns: TMA fills
 * those from head_dim on with zeros, which no matmul beyond D reads, and does not store them. */
template <class T_, int D_, int CONSUMERS_, int KEYS_, int K_STAGES_, int V_STAGES_, int Q_STAGES_>
struct shape {
    typedef T_           T;
    static constexpr int D = D_, CONSUMERS = CONSUMERS_, KEYS = KEYS_;
    static constexpr int K_STAGES = K_STAGES_, V_STAGES = V_STAGES_, Q_STAGES = Q_STAGES_;
    static constexpr int THREADS = WARPGROUP * (CONSUMERS + 1), BLOCK_ROWS = ROWS * CONSUMERS;
    static constexpr int SLABS = (D + SLAB_COLUMNS - 1) / SLAB_COLUMNS;
    static constexpr int Q_BYTES = SLABS * ROWS * SLAB_BYTES, KV_BYTES = SLABS * KEYS * SLAB_BYTES;
    static constexpr int PRODUCER_REGISTERS = CONSUMERS == 2 ? 24 : 32;
    static constexpr int CONSUMER_REGISTERS = CONSUMERS == 2 ? 240 : 160;
    /* Queries of this item and, with two stages, of the next; keys, values; and room to align. */
    static constexpr int SHARED_BYTES =
        Q_STAGES * CONSUMERS * Q_BYTES + (K_STAGES + V_STAGES) * KV_BYTES + 8 * SLAB_BYTES;
};

struct forward_call {
    CUtensorMap    q, k, v, o;
    visible_keys   see;
    const int32_t *kv_len;
    float         *lse;
    unsigned      *n_taken; /* items, beyond the first of each block */
    int            n_item;  /* of all heads */
    row_order      order;
    int            n_head, group, n_q; /* heads of a batch, that share keys */
    float          scale;              /* for exp2, > 0 */
};

/* Some rows of a head, and the tiles of keys that any of them sees. */
struct item {
    int batch, head, row, n_keys; /* batch -1: there are no more */
    int first, end;               /* tiles */
};

/* Tiles that n rows see between them. */
template <class S>
__device__ __forceinline__ void tiles_of(const forward_call &c, int n_keys, int row, int n,
                                         int *first, int *end)
{
    const int keys = row < c.n_q ? c.see.end(min(row + n, c.n_q) - 1, n_keys) : 0;
    *end = (keys + S::KEYS - 1) / S::KEYS;
    *first = min(c.see.begin(row) / S::KEYS, *end);
}

template <class S> __device__ __forceinline__ item item_at(const forward_call &c, int index)
{
    int  at, block;
    item i;
    c.order.find(index, &at, &block);
    i.batch = at / c.n_head, i.head = at % c.n_head;
    i.row = block * S::BLOCK_ROWS;
    i.n_keys = c.see.length(c.kv_len, i.batch);
    tiles_of<S>(c, i.n_keys, i.row, S::BLOCK_ROWS, &i.first, &i.end);
    return i;
}

template <class S> struct pipes {
    uint64_t k_full[S::K_STAGES], k_empty[S::K_STAGES], v_full[S::V_STAGES], v_empty[S::V_STAGES];
    uint64_t q_full[S::Q_STAGES], q_empty[S::Q_STAGES], v_came, item_full, item_empty;
    item     next;
};

/* Layout of shared memory. */
template <class S> struct places {
    unsigned             at; /* queries, keys, values */
    pipes<S>            *p;
    static constexpr int K_AT = S::Q_STAGES * S::CONSUMERS * S::Q_BYTES,
                         V_AT = K_AT + S::K_STAGES * S::KV_BYTES;

    __device__ __forceinline__ unsigned q(int stage, int consumer) const
    {
        return at + (unsigned)((stage * S::CONSUMERS + consumer) * S::Q_BYTES);
    }
    __device__ __forceinline__ unsigned k(int stage) const
    {
        return at + (unsigned)(K_AT + stage * S::KV_BYTES);
    }
    __device__ __forceinline__ unsigned v(int stage) const
    {
        return at + (unsigned)(V_AT + stage * S::KV_BYTES);
    }
    __device__ __forceinline__ void begin(void) const
    {
        const int warps = S::CONSUMERS * 4;
        for (int i = 0; i < S::K_STAGES; i++) {
            barrier_init(shared_address(&p->k_full[i]), 1);
            barrier_init(shared_address(&p->k_empty[i]), warps);
        }
        for (int i = 0; i < S::V_STAGES; i++) {
            barrier_init(shared_address(&p->v_full[i]), 1);
            barrier_init(shared_address(&p->v_empty[i]), warps);
        }
        for (int i = 0; i < S::Q_STAGES; i++) {
            barrier_init(shared_address(&p->q_full[i]), 1);
            barrier_init(shared_address(&p->q_empty[i]), S::CONSUMERS);
        }
        barrier_init(shared_address(&p->v_came), 1);
        barrier_init(shared_address(&p->item_full), 1);
        barrier_init(shared_address(&p->item_empty), warps);
        barrier_init_end();
    }
};

__device__ __forceinline__ int lane(void)
{
    return (int)threadIdx.x % 32;
}

__device__ __forceinline__ int first_lane(int v)
{
    return __shfl_sync(~0u, v, 0);
}

/* ---- the warp that loads; its first lane issues the loads, all wait ---- */

template <class S> struct producer {
    const forward_call     &c;
    const places<S>        &in;
    ring_place<S::K_STAGES> k;
    ring_place<S::V_STAGES> v;
    ring_place<S::Q_STAGES> q;
    ring_place<1>           told, came;
    uint64_t                keep = keep_in_l2(), drop = drop_from_l2();

    __device__ __forceinline__ producer(const forward_call &c_, const places<S> &in_)
        : c(c_), in(in_)
    {
    }
    __device__ __forceinline__ void tell(const item &next)
    {
        barrier_wait(shared_address(&in.p->item_empty), told.parity ^ 1);
        if (lane() == 0) {
            in.p->next = next;
            barrier_arrive(shared_address(&in.p->item_full));
        }
        told.advance();
    }
    __device__ __forceinline__ void send_tile(const CUtensorMap *map, unsigned to, unsigned bar,
                                              const item &i, int tile)
    {
        if (lane()) return;
        barrier_expect(bar, S::KV_BYTES);
        for (int s = 0; s < S::SLABS; s++)
            load_box(to + (unsigned)(s * S::KEYS * SLAB_BYTES), map, bar, s * SLAB_COLUMNS,
                     tile * S::KEYS, i.head / c.group, i.batch, keep);
    }
    __device__ __forceinline__ void send_queries(const item &i)
    {
        const unsigned bar = shared_address(&in.p->q_full[q.stage]);
        barrier_wait(shared_address(&in.p->q_empty[q.stage]), q.parity ^ 1);
        if (lane() == 0) {
            barrier_expect(bar, S::CONSUMERS * S::Q_BYTES);
            for (int w = 0; w < S::CONSUMERS; w++)
                for (int s = 0; s < S::SLABS; s++)
                    load_box(in.q(q.stage, w) + (unsigned)(s * ROWS * SLAB_BYTES), &c.q, bar,
                             s * SLAB_COLUMNS, i.row + w * ROWS, i.head, i.batch, drop);
        }
        q.advance();
    }
    __device__ __forceinline__ void send_keys(const item &i, int tile)
    {
        barrier_wait(shared_address(&in.p->k_empty[k.stage]), k.parity ^ 1);
        send_tile(&c.k, in.k(k.stage), shared_address(&in.p->k_full[k.stage]), i, tile);
        k.advance();
    }
    /* Values past kv_len may be NaN, and NaN times a weight of 0 is NaN: they are set to 0. */
    __device__ __forceinline__ void send_values(const item &i, int tile)
    {
        const unsigned bar = shared_address(&in.p->v_full[v.stage]), to = in.v(v.stage);
        const int      n_clean = i.n_keys - tile * S::KEYS;
        barrier_wait(shared_address(&in.p->v_empty[v.stage]), v.parity ^ 1);
        if (n_clean >= S::KEYS || i.n_keys == c.see.n_k) send_tile(&c.v, to, bar, i, tile);
        else {
            const unsigned own = shared_address(&in.p->v_came);
            send_tile(&c.v, to, own, i, tile);
            barrier_wait(own, came.parity);
            came.advance();
            for (int s = 0; s < S::SLABS; s++)
                for (int at = n_clean * SLAB_BYTES + lane() * 16; at < S::KEYS * SLAB_BYTES;
                     at += 32 * 16)
                    store_piece(to + (unsigned)(s * S::KEYS * SLAB_BYTES + at),
                                make_uint4(0, 0, 0, 0));
            publish_to_engines();
            __syncwarp();
            if (lane() == 0) barrier_arrive(bar);
        }
        v.advance();
    }
};

/* What a loader L does: keys run one tile ahead of values, and the next item is taken as late as
 * may be. */
template <class S, class L> __device__ __forceinline__ void load_items(L &&to)
{
    int index = (int)blockIdx.x;
    while (index < to.c.n_item) {
        const item i = item_at<S>(to.c, index);
        to.tell(i);
        if (i.first < i.end) to.send_keys(i, i.end - 1);
        to.send_queries(i);
        for (int tile = i.end - 2; tile >= i.first; tile--) {
            to.send_keys(i, tile);
            to.send_values(i, tile + 1);
        }
        if (lane() == 0) index = (int)(gridDim.x + atomicAdd(to.c.n_taken, 1u));
        if (i.first < i.end) to.send_values(i, i.first);
        index = __shfl_sync(0xffffffffu, index, 0);
    }
    to.tell({ -1, 0, 0, 0, 0, 0 });
}

/* ---- a warpgroup that computes ---- */

template <class S> struct consumer {
    static constexpr int N_S = S::KEYS / 2, N_O = S::D / 2, N_P = S::KEYS / 4;

    const forward_call     &c;
    const places<S>        &in;
    const int               nth; /* among the warpgroups that compute */
    ring_place<S::K_STAGES> k;
    ring_place<S::V_STAGES> v;
    ring_place<S::Q_STAGES> q;
    ring_place<1>           told;
    bool                    owes = false; /* a store may still read the last queries' place */

    __device__ __forceinline__ consumer(const forward_call &c_, const places<S> &in_, int nth_)
        : c(c_), in(in_), nth(nth_)
    {
    }
    /* The reader signals that it may be written again. */
    __device__ __forceinline__ item next_item(void)
    {
        item i = {};
        barrier_wait(shared_address(&in.p->item_full), told.parity);
        if (lane() == 0) {
            i = in.p->next;
            barrier_arrive(shared_address(&in.p->item_empty));
        }
        told.advance();
        return { first_lane(i.batch),  first_lane(i.head),  first_lane(i.row),
                 first_lane(i.n_keys), first_lane(i.first), first_lane(i.end) };
    }
    __device__ __forceinline__ void wait_keys(void)
    {
        barrier_wait(shared_address(&in.p->k_full[k.stage]), k.parity);
    }
    __device__ __forceinline__ void wait_values(void)
    {
        barrier_wait(shared_address(&in.p->v_full[v.stage]), v.parity);
    }
    __device__ __forceinline__ void release_keys(void)
    {
        if (lane() == 0) barrier_arrive(shared_address(&in.p->k_empty[k.stage]));
        k.advance();
    }
    __device__ __forceinline__ void release_values(void)
    {
        if (lane() == 0) barrier_arrive(shared_address(&in.p->v_empty[v.stage]));
        v.advance();
    }
    /* Tiles that other warpgroups see. */
    __device__ __forceinline__ void pass(int n)
    {
#pragma unroll 1
        for (; n > 0; n--) {
            wait_keys();
            release_keys();
            wait_values();
            release_values();
        }
    }
    /* The place of the last item's queries, from which its results were stored. */
    __device__ __forceinline__ void settle(void)
    {
        if (owes && threadIdx.x % WARPGROUP == 0) {
            stores_wait_read<0>();
            barrier_arrive(shared_address(&in.p->q_empty[S::Q_STAGES - 1 - q.stage]));
        }
        owes = false;
    }
    __device__ __forceinline__ void issue_scores(float (&s)[N_S])
    {
        const along_rows<ROWS>    a(in.q(q.stage, nth));
        const along_rows<S::KEYS> b(in.k(k.stage));
        products_begin();
#pragma unroll
        for (int i = 0; i < S::D / 16; i++)
            product<typename S::T, 0, 0>(s, a.step(i), b.step(i), i > 0);
        products_end();
    }
    __device__ __forceinline__ void issue_sums(float (&o)[N_O], const unsigned (&p)[N_P])
    {
        const down_rows<S::KEYS> b(in.v(v.stage));
        products_begin();
#pragma unroll
        for (int i = 0; i < S::KEYS / 16; i++)
            product<typename S::T, 1>(o, p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3],
                                      b.step(i), 1);
        products_end();
    }
    /* Scores that are not seen become -inf. */
    __device__ __forceinline__ void mask(float (&s)[N_S], const item &i, int tile)
    {
        const int from = tile * S::KEYS, row = i.row + nth * ROWS;
        if (from + S::KEYS <= c.see.end(row, i.n_keys) && from >= c.see.begin(row + ROWS - 1))
            return;
        hide_unseen(s, c.see, i.n_keys, row + (int)threadIdx.x % WARPGROUP / 32 * 16 + lane() / 4,
                    from + lane() % 4 * 2);
    }
    /* What the rows' sums are to be multiplied by; their lse is stored. */
    __device__ __forceinline__ void close_rows(const item &i, const row_sums &r, float (&by)[2])
    {
        const int row = i.row + nth * ROWS + (int)threadIdx.x % WARPGROUP / 32 * 16 + lane() / 4;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float sum = whole_sum(r, h);
            by[h] = sum == 0 ? 0.0f : inverse(sum);
            if (c.lse && lane() % 4 == 0 && row + 8 * h < c.n_q)
                c.lse[((int64_t)i.batch * c.n_head + i.head) * c.n_q + row + 8 * h] =
                    lse_of<typename S::T>(r, h, sum);
        }
        named_wait(1 + nth, WARPGROUP); /* no warp needs its queries any more */
    }
    /* All tiles of an item, of which there is at least one. */
    __device__ __forceinline__ void attend(const item &i, int first, int end, float (&o)[N_O],
                                           row_sums *r, float (&by)[2])
    {
        float    s[N_S], keep[2];
        unsigned p[N_P];
        wait_keys();
        issue_scores(s);
        settle();
        products_wait<0>();
        pin(s);
        release_keys();
        mask(s, i, end - 1);
        weigh<typename S::T>(s, r, keep, c.scale);
        narrow_all<typename S::T>(p, s);
        if (end - first > 1) wait_keys();
#pragma unroll 1
        for (int tile = end - 2; tile >= first; tile--) {
            pin(o);
            pin(p);
            issue_scores(s);
            wait_values();
            issue_sums(o, p);
            products_wait<1>();
            pin(s);
            release_keys();
            mask(s, i, tile);
            weigh<typename S::T>(s, r, keep, c.scale);
            /* The wait for the values' matmul must come after the weights. The compiler puts it
             * there if a vote depends on their sums, since a NaN changes nothing, and if a branch
             * comes between the two. */
            const bool shrink = __any_sync(0xffffffffu, keep[0] != 1 || keep[1] != 1 ||
                                                            isnan(r->sum[0] + r->sum[1]));
            if (tile > first) wait_keys();
            products_wait<0>();
            pin(o);
            pin(p);
            release_values();
            if (shrink)
#pragma unroll
                for (int j = 0; j < N_O; j++) o[j] *= keep[j % 4 / 2];
            narrow_all<typename S::T>(p, s);
        }
        wait_values();
        pin(o);
        pin(p);
        issue_sums(o, p);
        close_rows(i, *r, by);
        products_wait<0>();
        pin(o);
        release_values();
    }
    /* Results replace the queries in shared memory, and are stored from there. */
    __device__ __forceinline__ void store(const item &i, const float (&o)[N_O],
                                          const float (&by)[2])
    {
        const int      warp = (int)threadIdx.x % WARPGROUP / 32, row = i.row + nth * ROWS;
        const unsigned to = in.q(q.stage, nth);
#pragma unroll
        for (int j = 0; j < S::D / 16; j++) {
            unsigned w[4];
#pragma unroll
            for (int n = 0; n < 4; n++)
                w[n] = narrow(o[8 * j + 2 * n] * by[n % 2], o[8 * j + 2 * n + 1] * by[n % 2],
                              typename S::T());
            store_matrices<false>(slab_piece(to + (unsigned)(j / 4 * ROWS * SLAB_BYTES),
                                             warp * 16 + lane() % 16, j % 4 * 2 + lane() / 16),
                                  w[0], w[1], w[2], w[3]);
        }
        publish_to_engines();
        named_wait(1 + nth, WARPGROUP);
        if (threadIdx.x % WARPGROUP == 0) {
            for (int s = 0; s < S::SLABS; s++)
                store_box(&c.o, to + (unsigned)(s * ROWS * SLAB_BYTES), s * SLAB_COLUMNS, row,
                          i.head, i.batch);
            stores_end();
        }
        owes = true;
    }
    __device__ __forceinline__ void run(void)
    {
        for (;;) {
            const item i = next_item();
            if (i.batch < 0) break;
            row_sums r;
            float    o[N_O] = {}, by[2];
            int      first, end;
            tiles_of<S>(c, i.n_keys, i.row + nth * ROWS, ROWS, &first, &end);
            if (first == end) first = end = i.end;
            if (S::Q_STAGES == 1) settle(); /* else the next queries could not come */
            barrier_wait(shared_address(&in.p->q_full[q.stage]), q.parity);
            pass(i.end - end);
            if (first < end) attend(i, first, end, o, &r, by);
            else {
                settle();
                close_rows(i, r, by);
            }
            pass(first - i.first);
            store(i, o, by);
            q.advance();
        }
        if (threadIdx.x % WARPGROUP == 0) stores_wait<0>();
    }
};

template <class S>
__global__ void __launch_bounds__(S::THREADS, 1) forward(const __grid_constant__ forward_call c)
{
    if constexpr (HAS_WGMMA) {
        extern __shared__ uint4 memory[];
        __shared__ pipes<S> p;
        const unsigned      align = 8 * SLAB_BYTES;
        const places<S>     in = { (shared_address(memory) + align - 1) / align * align, &p };
        const int           warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x / WARPGROUP, 0);
        if (threadIdx.x == 0) {
            for (const CUtensorMap *m : { &c.q, &c.k, &c.v, &c.o }) prefetch_map(m);
            in.begin();
        }
        __syncthreads();
        if (warpgroup == 0) {
            give_registers<S::PRODUCER_REGISTERS>();
            if (threadIdx.x < 32) load_items<S>(producer<S>(c, in));
        } else {
            take_registers<S::CONSUMER_REGISTERS>();
            consumer<S>(c, in, warpgroup - 1).run();
        }
    }
}

} // namespace

#endif

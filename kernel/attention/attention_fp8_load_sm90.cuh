/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fp8_load_sm90.cuh - layout of tiles of e4m3 codes in shared memory: the warp that loads
 * them, and those that transpose values.
 *
 * V is transposed. Matmuls of 8-bit elements need the inner index, which is the key, along rows.
 * Two warps of the first warpgroup transpose each tile in shared memory, by pairs of bytes
 * (ldmatrix.trans) and then within registers. Keys and columns change places on the way, which
 * costs nothing, since sums do not depend on the order of keys. Of 16 keys, slot 4 t + b holds key
 * 8 (b / 2) + 2 t + b % 2: the order in which a lane has scores in registers, so that weights are
 * operands as they are. Of 16 columns, row n holds column 2 n, and row 8 + n column 2 n + 1: a lane
 * then has four neighbouring columns of the sums. */
#ifndef TS_ATTENTION_FP8_LOAD_SM90_CUH
#define TS_ATTENTION_FP8_LOAD_SM90_CUH

#include "attention_forward_sm90.cuh"

namespace
{

enum { TRANSPOSERS = 2 }; /* warps */

/* A tile of R rows in slabs of W bytes, 32, 64 or 128, with the chunks of each row permuted as TMA
 * does for that width. */
template <int R, int W> struct tile8 {
    unsigned at;

    static __device__ __forceinline__ int swizzle(int row)
    {
        return row / (128 / W) % (W / 16);
    }
    /* The address of the 16-byte chunk `piece` of a whole row. */
    __device__ __forceinline__ unsigned piece(int row, int piece) const
    {
        return at + (unsigned)(piece / (W / 16) * (R * W) + row * W +
                               (piece % (W / 16) ^ swizzle(row)) * 16);
    }
    /* Step i of a matmul takes 32 bytes of every row, from `row` on, a multiple of 8. */
    __device__ __forceinline__ uint64_t step(int i, int row = 0) const
    {
        const unsigned from = at + (unsigned)(i / (W / 32) * (R * W) + i % (W / 32) * 32 + row * W);
        return (uint64_t)(W == 128  ? 1
                          : W == 64 ? 2
                                    : 3)
                   << 62 |
               (uint64_t)(8 * W >> 4) << 32 | (uint64_t)1 << 16 | (from & 0x3ffff) >> 4;
    }
};

/* How a block is cut. D is head_dim rounded up to 64, 128 or 256. */
template <int D_, int CONSUMERS_, int KEYS_, int K_STAGES_, int RAW_STAGES_, int V_STAGES_,
          int Q_STAGES_, int PART_ = D_ <= 128 ? D_ : 64>
struct shape8 {
    static constexpr int D = D_, CONSUMERS = CONSUMERS_, KEYS = KEYS_;
    static constexpr int K_STAGES = K_STAGES_, RAW_STAGES = RAW_STAGES_, V_STAGES = V_STAGES_;
    static constexpr int Q_STAGES = Q_STAGES_;
    static constexpr int THREADS = WARPGROUP * (CONSUMERS + 1), BLOCK_ROWS = ROWS * CONSUMERS;
    static constexpr int W = D <= 64 ? 64 : 128, SLABS = (D + W - 1) / W;
    static constexpr int KEY_W = KEYS % 128 == 0 ? 128 : KEYS % 64 == 0 ? 64 : 32;
    static constexpr int PART = PART_; /* columns of a tile's sums at a time */
    static constexpr int Q_BYTES = SLABS * ROWS * W, KV_BYTES = SLABS * KEYS * W;
    static constexpr int V_BYTES = D * KEYS; /* transposed */
    /* Together what the launch allots: 3 x 168 or 4 x 128. */
    static constexpr int PRODUCER_REGISTERS = CONSUMERS == 2 ? 40 : 32;
    static constexpr int CONSUMER_REGISTERS = CONSUMERS == 2 ? 232 : 160;
    static constexpr int SHARED_BYTES = Q_STAGES * CONSUMERS * Q_BYTES +
                                        (K_STAGES + RAW_STAGES) * KV_BYTES + V_STAGES * V_BYTES +
                                        8 * SLAB_BYTES;
    typedef tile8<ROWS, W>  q_tile;
    typedef tile8<KEYS, W>  k_tile;
    typedef tile8<D, KEY_W> v_tile;
};

struct fp8_call {
    forward_call c;
    const float *q_scale, *k_scale, *v_scale;
    void        *o;
    strides      of_o;
    ts_dtype     dtype; /* of o */
    int          head_dim;
};

template <class S> struct pipes8 {
    uint64_t k_full[S::K_STAGES], k_empty[S::K_STAGES];
    uint64_t raw_full[S::RAW_STAGES], raw_empty[S::RAW_STAGES];
    uint64_t v_full[S::V_STAGES], v_empty[S::V_STAGES];
    uint64_t q_full[S::Q_STAGES], q_empty[S::Q_STAGES], item_full, item_empty;
    item     next;
};

template <int N> __device__ __forceinline__ void ring_init(uint64_t (&bars)[N], int n)
{
    for (int i = 0; i < N; i++) barrier_init(shared_address(&bars[i]), n);
}

/* Layout of shared memory. */
template <class S> struct places8 {
    unsigned             at;
    pipes8<S>           *p;
    static constexpr int K_AT = S::Q_STAGES * S::CONSUMERS * S::Q_BYTES,
                         RAW_AT = K_AT + S::K_STAGES * S::KV_BYTES,
                         V_AT = RAW_AT + S::RAW_STAGES * S::KV_BYTES;

    __device__ __forceinline__ typename S::q_tile q(int stage, int consumer) const
    {
        return { at + (unsigned)((stage * S::CONSUMERS + consumer) * S::Q_BYTES) };
    }
    __device__ __forceinline__ typename S::k_tile k(int stage) const
    {
        return { at + (unsigned)(K_AT + stage * S::KV_BYTES) };
    }
    __device__ __forceinline__ typename S::k_tile raw(int stage) const
    {
        return { at + (unsigned)(RAW_AT + stage * S::KV_BYTES) };
    }
    __device__ __forceinline__ typename S::v_tile v(int stage) const
    {
        return { at + (unsigned)(V_AT + stage * S::V_BYTES) };
    }
    __device__ __forceinline__ void begin(void) const
    {
        const int warps = S::CONSUMERS * 4;
        ring_init(p->k_full, 1), ring_init(p->k_empty, warps);
        ring_init(p->raw_full, 1), ring_init(p->raw_empty, TRANSPOSERS);
        ring_init(p->v_full, TRANSPOSERS), ring_init(p->v_empty, warps);
        ring_init(p->q_full, 1), ring_init(p->q_empty, warps);
        barrier_init(shared_address(&p->item_full), 1);
        barrier_init(shared_address(&p->item_empty), warps + TRANSPOSERS);
        barrier_init_end();
    }
};

/* An item from the loader. The reader signals that it may be written again. */
template <class S>
__device__ __forceinline__ item told_item(const places8<S> &in, ring_place<1> *told)
{
    item i = {};
    barrier_wait(shared_address(&in.p->item_full), told->parity);
    if (lane() == 0) {
        i = in.p->next;
        barrier_arrive(shared_address(&in.p->item_empty));
    }
    told->advance();
    return { first_lane(i.batch),  first_lane(i.head),  first_lane(i.row),
             first_lane(i.n_keys), first_lane(i.first), first_lane(i.end) };
}

/* ---- the warp that loads; its first lane issues the loads, all wait ---- */

template <class S> struct loader {
    const forward_call       &c;
    const places8<S>         &in;
    ring_place<S::K_STAGES>   k;
    ring_place<S::RAW_STAGES> raw;
    ring_place<S::Q_STAGES>   q;
    ring_place<1>             told;
    uint64_t                  keep = keep_in_l2(), drop = drop_from_l2();

    __device__ __forceinline__ loader(const forward_call &c_, const places8<S> &in_)
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
    template <int N>
    __device__ __forceinline__ void send(const CUtensorMap *map, unsigned to, uint64_t (&full)[N],
                                         uint64_t (&empty)[N], ring_place<N> *at, const item &i,
                                         int tile)
    {
        const unsigned bar = shared_address(&full[at->stage]);
        barrier_wait(shared_address(&empty[at->stage]), at->parity ^ 1);
        if (lane() == 0) {
            barrier_expect(bar, S::KV_BYTES);
            for (int s = 0; s < S::SLABS; s++)
                load_box(to + (unsigned)(s * S::KEYS * S::W), map, bar, s * S::W, tile * S::KEYS,
                         i.head / c.group, i.batch, keep);
        }
        at->advance();
    }
    __device__ __forceinline__ void send_keys(const item &i, int tile)
    {
        send(&c.k, in.k(k.stage).at, in.p->k_full, in.p->k_empty, &k, i, tile);
    }
    __device__ __forceinline__ void send_values(const item &i, int tile)
    {
        send(&c.v, in.raw(raw.stage).at, in.p->raw_full, in.p->raw_empty, &raw, i, tile);
    }
    __device__ __forceinline__ void send_queries(const item &i)
    {
        const unsigned bar = shared_address(&in.p->q_full[q.stage]);
        barrier_wait(shared_address(&in.p->q_empty[q.stage]), q.parity ^ 1);
        if (lane() == 0) {
            barrier_expect(bar, S::CONSUMERS * S::Q_BYTES);
            for (int w = 0; w < S::CONSUMERS; w++)
                for (int s = 0; s < S::SLABS; s++)
                    load_box(in.q(q.stage, w).at + (unsigned)(s * ROWS * S::W), &c.q, bar, s * S::W,
                             i.row + w * ROWS, i.head, i.batch, drop);
        }
        q.advance();
    }
};

/* ---- warps that transpose values ---- */

__device__ __forceinline__ void load_matrices_transposed(unsigned row, unsigned (&w)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(row)
                 : "memory");
}

/* A warp's share of a tile: some groups of 16 columns, of all keys. Word i of a lane has keys
 * 8 i + 2 t and the next one, of columns 2 g and 2 g + 1. From n_clean on keys are past kv_len, and
 * may be NaN: they become 0. Addresses differ by constants, as 16 columns and 32 keys are whole
 * periods of the permutation of chunks; four loads are under way at a time. */
template <class S>
__device__ __forceinline__ void transpose(const typename S::k_tile &raw,
                                          const typename S::v_tile &v, int warp, int n_clean)
{
    constexpr int COLUMNS = S::D / 16 / TRANSPOSERS, BATCH = COLUMNS < 4 ? COLUMNS : 4;
    const int     m = lane() / 8, r = lane() % 8;
    const bool    clean = n_clean >= S::KEYS;
#pragma unroll
    for (int first = 0; first < COLUMNS; first += BATCH) {
        const int column = warp * COLUMNS + first;
        unsigned  from[BATCH];
#pragma unroll
        for (int c = 0; c < BATCH; c++) from[c] = raw.piece(m * 8 + r, column + c);
#pragma unroll
        for (int key = 0; key < S::KEYS / 32; key++) {
            const unsigned to = v.piece(column * 16 + m % 2 * 8 + r, key * 2 + m / 2);
            unsigned       w[BATCH][4];
#pragma unroll
            for (int c = 0; c < BATCH; c++)
                load_matrices_transposed(from[c] + (unsigned)(key * 32 * S::W), w[c]);
            if (!clean)
#pragma unroll
                for (int i = 0; i < 4 * BATCH; i++) {
                    const int n = n_clean - (key * 32 + i % 4 * 8 + lane() % 4 * 2); /* to keep */
                    w[i / 4][i % 4] &= n <= 0 ? 0 : n == 1 ? 0xffff : 0xffffffff;
                }
#pragma unroll
            for (int c = 0; c < BATCH; c++)
                store_matrices<false>(
                    to + (unsigned)(c * 16 * S::KEY_W), __byte_perm(w[c][0], w[c][1], 0x6420),
                    __byte_perm(w[c][0], w[c][1], 0x7531), __byte_perm(w[c][2], w[c][3], 0x6420),
                    __byte_perm(w[c][2], w[c][3], 0x7531));
        }
    }
}

template <class S> __device__ __forceinline__ void run_transposer(const places8<S> &in, int warp)
{
    ring_place<S::RAW_STAGES> raw;
    ring_place<S::V_STAGES>   v;
    ring_place<1>             told;
    for (;;) {
        const item i = told_item(in, &told);
        if (i.batch < 0) break;
        for (int tile = i.end - 1; tile >= i.first; tile--) {
            barrier_wait(shared_address(&in.p->raw_full[raw.stage]), raw.parity);
            barrier_wait(shared_address(&in.p->v_empty[v.stage]), v.parity ^ 1);
            transpose<S>(in.raw(raw.stage), in.v(v.stage), warp, i.n_keys - tile * S::KEYS);
            publish_to_engines();
            __syncwarp();
            if (lane() == 0) {
                barrier_arrive(shared_address(&in.p->raw_empty[raw.stage]));
                barrier_arrive(shared_address(&in.p->v_full[v.stage]));
            }
            raw.advance();
            v.advance();
        }
    }
}

} // namespace

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_decode_load.cuh - how tokens come into shared memory, for kv_cache_decode.cuh: each lane
 * sends for what it will use itself, a few turns ahead. */
#ifndef TS_KV_CACHE_DECODE_LOAD_CUH
#define TS_KV_CACHE_DECODE_LOAD_CUH

#include "kv_cache_attend.cuh"
#include "kv_cache_mma.cuh"

namespace decode
{

enum { WARPS = 4, THREADS = 32 * WARPS, ROWS = 16, COLUMNS = 8 };

/* Sizes in bytes. A product is of ROWS tokens: a lane has 2 rows of keys, a quarter of each, and 4
 * rows of values, an eighth of each; both in vectors of up to 16 bytes. */
template <int BITS_, int D_, bool CHANNEL_> struct shape {
    static constexpr int  BITS = BITS_, D = D_, ROW = D * BITS / 8;
    static constexpr bool CODES = BITS < 16, CHANNEL = CHANNEL_;
    static constexpr int  K_VECTOR = ROW / 4 < 16 ? ROW / 4 : 16, K_PIECES = ROW / 4 / K_VECTOR;
    static constexpr int  V_VECTOR = ROW / 8 < 16 ? ROW / 8 : 16, V_PIECES = ROW / 8 / V_VECTOR;
    static constexpr int  PARTS = CODES ? 2 : 1, TOKENS = PARTS * ROWS; /* of a slot */
    static constexpr int  SLOT = 2 * TOKENS * ROW;                      /* without pairs */
    static constexpr int  SLOTS = SLOT >= 4096 ? 3 : 4;
    static constexpr int  BLOCKS = SLOT >= 8192 ? 2 : SLOT >= 4096 ? 3 : 4; /* at once */
    static constexpr int  STEPS = CHANNEL ? 2 : 1; /* slots: what a warp has of a tile */
    static constexpr int  TILE = WARPS * STEPS * TOKENS;
    static constexpr int  USED = CHANNEL ? COLUMNS / 2 : COLUMNS; /* columns that are queries */
};

static __host__ __device__ __forceinline__ int pair_bytes(const ts_kv_layout &l)
{
    return l.meta_dtype == TS_F32 ? 8 : 4;
}

template <class S> __host__ __device__ __forceinline__ int slot_bytes(const ts_kv_layout &l)
{
    return S::SLOT + (S::CODES ? 2 * S::TOKENS * pair_bytes(l) : 0);
}

template <class S> size_t shared_bytes(const attend_call &a)
{
    return (size_t)(WARPS * S::SLOTS * slot_bytes<S>(a.c.l)) +
           (size_t)(WARPS * a.columns * (S::D + 2)) * sizeof(float);
}

/* A lane's vectors in a slot, and its pairs: of the key and of the value of token `lane`. */
template <class S> struct slot_view {
    unsigned at; /* in shared memory */

    __device__ __forceinline__ unsigned key(int part, int row, int piece) const
    {
        return at + (((part * 2 + row) * S::K_PIECES + piece) * 32 + lane()) * S::K_VECTOR;
    }
    __device__ __forceinline__ unsigned value(int part, int row, int piece) const
    {
        return at + S::TOKENS * S::ROW +
               (((part * 4 + row) * S::V_PIECES + piece) * 32 + lane()) * S::V_VECTOR;
    }
    __device__ __forceinline__ unsigned pair(int of_value, int bytes) const
    {
        return at + S::SLOT + (of_value * 32 + lane()) * bytes;
    }
};

/* ---- on their way ---- */

/* Sends for tokens, ahead of whoever uses them. The pages of the next ones are looked up one turn
 * before, so that nobody waits for the table either. */
template <class S> struct loader {
    walk    w;
    segment s;
    int     step;          /* within the tile */
    int     page, rest;    /* of the lane's token of those that are next: its row is
                              page * rows of a page + rest */
    unsigned       in_run; /* lanes whose token is seen, and in the page of its part's first */
    bool           seen, more;
    const int32_t *pages;

    __device__ __forceinline__ loader(const attend_call &a) : w(a, (int)blockIdx.x), step(0)
    {
        begin_segment(a);
        look_up(a);
    }
    __device__ __forceinline__ void begin_segment(const attend_call &a)
    {
        more = w.next(a, &s);
        if (more) pages = pages_of(a.c, a.c.part[s.part]);
    }
    __device__ __forceinline__ void look_up(const attend_call &a)
    {
        if (!more) return;
        const int first =
            s.tiles.at(s.t) * S::TILE + ((int)(threadIdx.x / 32) * S::STEPS + step) * S::TOKENS;
        const int token = first + lane() % S::TOKENS, at = a.page.of(token);
        seen = s.see.any(token);
        in_run = __ballot_sync(0xffffffffu, seen && at == a.page.of(token - lane() % ROWS));
        page = seen ? pages[at] : 0;
        rest = (s.head - at) * (int)a.c.l.page + token;
    }
    /* A part in one page: its token i is in row `row` + i. */
    __device__ __forceinline__ void send_run(const attend_call &a, int row, int part,
                                             slot_view<S> to)
    {
        const int   g = lane() / 4, t = lane() % 4;
        const char *k = a.c.l.k_data + (int64_t)(row + g) * S::ROW + t * S::K_VECTOR;
        const char *v = a.c.l.v_data + (int64_t)(row + 2 * t) * S::ROW + g * S::V_VECTOR;
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int i = 0; i < S::K_PIECES; i++)
                copy_ahead<S::K_VECTOR>(to.key(part, r, i),
                                        k + 8 * r * S::ROW + i * 4 * S::K_VECTOR, true);
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int i = 0; i < S::V_PIECES; i++)
                copy_ahead<S::V_VECTOR>(to.value(part, r, i),
                                        v + (r % 2 + r / 2 * 8) * S::ROW + i * 8 * S::V_VECTOR,
                                        true);
    }
    /* Each token has a row of its own, or none: what nobody sees is zero. */
    __device__ __forceinline__ void send_each(const attend_call &a, int row, int part,
                                              slot_view<S> to)
    {
        const int g = lane() / 4, t = lane() % 4;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int   from = __shfl_sync(0xffffffffu, row, part * ROWS + g + 8 * r);
            const char *k = a.c.l.k_data + (int64_t)max(from, 0) * S::ROW + t * S::K_VECTOR;
#pragma unroll
            for (int i = 0; i < S::K_PIECES; i++)
                copy_ahead<S::K_VECTOR>(to.key(part, r, i), k + i * 4 * S::K_VECTOR, from >= 0);
        }
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const int from = __shfl_sync(0xffffffffu, row, part * ROWS + 2 * t + r % 2 + r / 2 * 8);
            const char *v = a.c.l.v_data + (int64_t)max(from, 0) * S::ROW + g * S::V_VECTOR;
#pragma unroll
            for (int i = 0; i < S::V_PIECES; i++)
                copy_ahead<S::V_VECTOR>(to.value(part, r, i), v + i * 8 * S::V_VECTOR, from >= 0);
        }
    }
    template <int N>
    __device__ __forceinline__ void send_pairs(const attend_call &a, int row, slot_view<S> to)
    {
        const int64_t at = (int64_t)max(row, 0) * N;
        if (!S::CHANNEL) copy_ahead<N>(to.pair(0, N), a.c.l.k_meta + at, seen);
        copy_ahead<N>(to.pair(1, N), a.c.l.v_meta + at, seen);
    }
    __device__ __forceinline__ void send(const attend_call &a, slot_view<S> to)
    {
        if (more) {
            const int row = seen ? page * a.page_rows + rest : -1;
#pragma unroll
            for (int part = 0; part < S::PARTS; part++)
                if ((in_run >> part * ROWS & 0xffffu) == 0xffffu)
                    send_run(a, __shfl_sync(0xffffffffu, row, part * ROWS), part, to);
                else send_each(a, row, part, to);
            if (S::CODES && a.c.l.meta_dtype == TS_F32) send_pairs<8>(a, row, to);
            else if (S::CODES) send_pairs<4>(a, row, to);
            if (++step == S::STEPS) {
                step = 0;
                if (++s.t == s.end) begin_segment(a);
            }
            look_up(a);
        }
        copies_end();
    }
};

} // namespace decode

#endif

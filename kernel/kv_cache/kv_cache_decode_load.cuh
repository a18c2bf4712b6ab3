/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_decode_load.cuh - how tokens come into shared memory, for kv_cache_decode.cuh: one
 * warp of a block sends for what the others will use. */
#ifndef TS_KV_CACHE_DECODE_LOAD_CUH
#define TS_KV_CACHE_DECODE_LOAD_CUH

#include "kv_cache_attend.cuh"
#include "kv_cache_mma.cuh"

namespace decode
{

enum { WARPS = 4, WORKERS = 32 * WARPS, ROWS = 16, COLUMNS = 8, MOST_SLOTS = 8 };
enum { THREADS = WORKERS + 32 }; /* the last warp copies for the others */

/* The largest power of two that divides n, at most `most`. */
static constexpr int power_in(int n, int most)
{
    return (n & -n) < most ? n & -n : most;
}

/* Sizes in bytes. A matmul is of ROWS tokens: a lane has 2 rows of keys, a quarter of each, in
 * vectors of up to 16 bytes. RAGGED: heads have any multiple of 8 channels up to D, 16 bits each.
 * Missing channels of a matmul are zero in the queries and in the keys; in the values they are any
 * other channel, and their sums are not used. */
template <int BITS_, int D_, bool CHANNEL_, bool RAGGED_ = false> struct shape {
    static constexpr int  BITS = BITS_, D = D_, ROW = D * BITS / 8;
    static constexpr bool CODES = BITS < 16, CHANNEL = CHANNEL_, RAGGED = RAGGED_;
    static constexpr int  K_VECTOR = power_in(ROW / 4, 16), K_PIECES = ROW / 4 / K_VECTOR;
    static constexpr int  TWISTED = power_in(ROW, 128); /* bytes that a twist stays in */
    static constexpr int  PARTS = CODES ? 2 : 1, TOKENS = PARTS * ROWS; /* of a share of a slot */
    static constexpr int  BLOCKS = D <= 128 ? 2 : 1;                    /* at once */
    static constexpr int  STEPS = CHANNEL ? 2 : 1; /* slots: what a share has of a tile */
    static constexpr int  TILE = WARPS * STEPS * TOKENS;
    static constexpr int  USED = CHANNEL ? COLUMNS / 2 : COLUMNS; /* columns that are queries */
    static_assert(!CODES || TOKENS == 32, "a lane looks after one token of a share");
    static_assert(ROW % 32 == 0 && (!RAGGED || BITS == 16), "values come in pairs of vectors");
};

/* Bytes of a row, and its channels. */
template <class S> __host__ __device__ __forceinline__ int row_bytes(const ts_kv_layout &l)
{
    return S::RAGGED ? (int)l.row_bytes : (int)S::ROW;
}

template <class S> __host__ __device__ __forceinline__ int channels(const ts_kv_layout &l)
{
    return S::RAGGED ? (int)l.head_dim : (int)S::D;
}

static __host__ __device__ __forceinline__ int pair_bytes(ts_dtype meta_dtype)
{
    return meta_dtype == TS_F32 ? 8 : 4;
}

/* s and lo, from shared memory. */
static __device__ __forceinline__ float2 pair_at(unsigned from, ts_dtype meta_dtype)
{
    unsigned u[2];
    if (meta_dtype == TS_F32) {
        load_words<2>(u, from);
        return make_float2(__uint_as_float(u[0]), __uint_as_float(u[1]));
    }
    load_words<1>(u, from);
    return widen(u[0], __half());
}

/* Of a slot: pairs of values, then pairs of keys, by token or by channel. */
template <class S> __host__ __device__ __forceinline__ int pairs_bytes(const ts_kv_layout &l)
{
    const int n = WARPS * (32 + (S::CHANNEL ? S::D : 32));
    return S::CODES ? (n * pair_bytes(l.meta_dtype) + 255) / 256 * 256 : 0;
}

/* Rows of keys and of values, without pairs. */
template <class S> __host__ __device__ __forceinline__ int rows_bytes(const ts_kv_layout &l)
{
    return WARPS * 2 * S::TOKENS * row_bytes<S>(l);
}

/* Rows of keys, rows of values, pairs; each for one share after the other. */
template <class S> __host__ __device__ __forceinline__ int slot_bytes(const ts_kv_layout &l)
{
    return rows_bytes<S>(l) + pairs_bytes<S>(l);
}

/* As many as leave room for what is merged, and for the other block. */
template <class S> __host__ __device__ __forceinline__ int n_slots(const ts_kv_layout &l)
{
    if (S::CODES) return S::BITS == 4 ? 3 : 2;
    if (!S::RAGGED && (S::D == 64 || S::D == 128)) return 2;
    const int n = (S::BLOCKS == 1 ? 192 : 96) * 1024 / rows_bytes<S>(l);
    return n < MOST_SLOTS ? n : (int)MOST_SLOTS;
}

/* Slots, and two barriers for each. */
template <class S> __host__ __device__ __forceinline__ int ring_bytes(const ts_kv_layout &l)
{
    return n_slots<S>(l) * (slot_bytes<S>(l) + 16);
}

/* The ring, and what warps leave to be merged: there are WARPS / spread sums of each column. */
template <class S> size_t shared_bytes(const attend_call &a)
{
    const size_t left = (size_t)(WARPS / a.spread * a.columns * (S::D + 2)) * sizeof(float);
    return (size_t)ring_bytes<S>(a.c.l) + left;
}

/* In shared memory, as all that follows. */
template <class S> struct ring_view {
    unsigned at, bytes; /* of a slot */
    unsigned n;         /* slots */

    __device__ __forceinline__ ring_view(unsigned at_, const ts_kv_layout &l)
        : at(at_), bytes((unsigned)slot_bytes<S>(l)), n((unsigned)n_slots<S>(l))
    {
    }
    __device__ __forceinline__ unsigned slot(unsigned i) const
    {
        return at + i * bytes;
    }
    /* The barriers of a slot: when it is full, and when it may be filled. */
    __device__ __forceinline__ unsigned full(unsigned i) const
    {
        return at + n * bytes + i * 16;
    }
    __device__ __forceinline__ unsigned empty(unsigned i) const
    {
        return full(i) + 8;
    }
};

/* A share of a slot: the TOKENS that a warp takes at a time. Rows are twisted. */
template <class S> struct slot_view {
    unsigned at;         /* its keys, from a multiple of 256 on */
    int      share, row; /* row: its bytes */

    __device__ __forceinline__ slot_view(unsigned slot, int share_, const ts_kv_layout &l)
        : share(share_), row(row_bytes<S>(l))
    {
        at = slot + (unsigned)(share * S::TOKENS * row);
    }
    __device__ __forceinline__ unsigned pairs(void) const
    {
        return at + (unsigned)((2 * WARPS - share) * S::TOKENS * row);
    }
    __device__ __forceinline__ unsigned values(void) const
    {
        return at + (unsigned)(WARPS * S::TOKENS * row);
    }
    /* Bytes `mine` + `more` of a row that begins at `from`, the latter the same in all lanes. */
    __device__ __forceinline__ unsigned in_row(unsigned from, int mine, int more, int twist) const
    {
        if constexpr (S::RAGGED) { /* behind its end: the first of it */
            return from + (unsigned)((mine + more < row ? mine + more : 0) ^ twist);
        } else if constexpr ((S::ROW & (S::ROW - 1)) == 0) { /* `from` is a multiple of it */
            return (from + (unsigned)(mine ^ twist)) ^ (unsigned)more;
        } else {
            const int low = more % S::TWISTED;
            return ((from + (unsigned)(mine ^ twist)) ^ (unsigned)low) + (unsigned)(more - low);
        }
    }
    /* Row lane / 4 + 8 half of a part: vector lane % 4 of a piece. */
    __device__ __forceinline__ unsigned key(int part, int half, int piece) const
    {
        const int g = lane() / 4, t = lane() % 4;
        return in_row(at + (unsigned)(g * row), t * S::K_VECTOR, piece * (4 * S::K_VECTOR),
                      twist_of(row, g)) +
               (unsigned)((part * ROWS + half * 8) * row);
    }
    /* Whether the row has that vector. */
    __device__ __forceinline__ bool has_key(int piece) const
    {
        return !S::RAGGED || piece * (4 * S::K_VECTOR) + lane() % 4 * S::K_VECTOR < row;
    }
    /* For load_matrices: tokens 0 to 7 and 8 to 15 of the even vector of pair i, then of the odd
     * one. */
    __device__ __forceinline__ unsigned value(int part, int i) const
    {
        const int token = lane() % 16;
        return in_row(values() + (unsigned)(token * row), lane() / 16 * 16, i * 32,
                      twist_of(row, token)) +
               (unsigned)(part * ROWS * row);
    }
    __device__ __forceinline__ unsigned value_pair(int bytes) const
    {
        return pairs() + (unsigned)((share * 32 + lane()) * bytes);
    }
    __device__ __forceinline__ unsigned key_pair(int bytes, int i) const
    {
        return pairs() + (unsigned)((WARPS * 32 + share * (S::CHANNEL ? S::D : 32) + i) * bytes);
    }
};

/* ---- on their way ---- */

/* Pairs of channels of the group of keys that slots lie in. */
template <class S, int N>
__device__ __forceinline__ void send_group(const attend_call &a, int head, int page, int first,
                                           slot_view<S> to)
{
    const ts_kv_layout &l = a.c.l;
    const int           in_page = first - a.page.of(first) * (int)l.page;
    const int64_t       at = ((int64_t)page * l.n_kv_head + head) * l.n_group;
    const char         *from = l.k_meta + (at + a.key_group.of(in_page)) * (S::D * N);
    for (int i = lane() * 16; i < S::D * N; i += 512)
        copy_ahead<16>(to.key_pair(N, 0) + (unsigned)i, from + i, true);
}

/* Loads the tokens of all shares asynchronously. If all of them are seen, they come in runs of
 * `run` tokens of one page, up to a whole slot; lane i has the address of run i. The page was
 * looked up one turn before, so that no lane waits for the table. Otherwise a lane loads a token of
 * each share. */
template <class S> struct loader {
    static constexpr int N = WARPS * S::TOKENS; /* of a slot */

    walk_by<true> w;
    segment       s;
    int           step, tile; /* within the tile; and where that begins */
    int           page, rest; /* of the lane's run: its first row is page * rows of a page + rest */
    int           group[WARPS];    /* of keys by channel, that was sent for last */
    int           ahead;           /* entries of the table */
    int           touched;         /* the entry that far ahead: no page is negative */
    int           run;             /* a power of two, as N is */
    bool          more, all, easy; /* all: in one page; easy: by runs */
    const int32_t *pages;

    __device__ __forceinline__ loader(const attend_call &a) : w(a, (int)blockIdx.x), step(0)
    {
        const int p = (int)a.c.l.page;
        run = min(p & -p, S::STEPS == 1 ? N : (int)S::TOKENS);
        touched = 0;
        ahead = max(32, a.page.of(2 * S::TILE));
        begin_segment(a);
        look_up(a);
    }
    __device__ __forceinline__ void begin_segment(const attend_call &a)
    {
        more = w.next(a, &s);
#pragma unroll
        for (int r = 0; r < WARPS; r++) group[r] = -1;
        if (!more) return;
        pages = pages_of(a.c, a.c.part[s.part]);
        if (lane() < s.n_columns) /* queries will be wanted soon */
            fetch_to_l2((const uint16_t *)a.q +
                        row_of(a, s.part, s.head, s.chunk, lane()) * channels<S>(a.c.l));
    }
    __device__ __forceinline__ int first_of(int r) const
    {
        return tile + (r * S::STEPS + step) * S::TOKENS;
    }
    __device__ __forceinline__ void look_up(const attend_call &a)
    {
        if (!more) return;
        tile = s.tiles.at(s.t) * S::TILE;
        const int  begin = first_of(0), last = first_of(WARPS - 1) + S::TOKENS - 1;
        const int  i = lane() * max(run, ROWS) % N;
        const int  token = first_of(i / S::TOKENS) + i % S::TOKENS, at = a.page.of(token);
        const bool pairs_in_order = !S::CODES || a.c.l.page % 4 == 0; /* see send_pairs_of */
        all = S::STEPS == 1 && a.page.of(begin) == a.page.of(last) && pairs_in_order;
        easy = s.see.every(begin, last) && (all || run >= ROWS);
        page = token < s.see.end && touched >= 0 ? pages[at] : 0;
        rest = (s.head - at) * (int)a.c.l.page + token;
        touched = fetch_to_l1(pages + min(at + ahead, (int)a.c.l.max_pages - 1));
    }
    /* Keys, or values, from row `row` on. */
    static __device__ __forceinline__ void send_run(const attend_call &a, slot_view<S> to,
                                                    unsigned barrier, int token, bool values,
                                                    int row, int n)
    {
        copy_run((values ? to.values() : to.at) + (unsigned)(token * to.row),
                 (values ? a.c.l.v_data : a.c.l.k_data) + (int64_t)row * to.row,
                 (unsigned)(n * to.row), barrier);
    }
    /* Of token `lane` of a share; row -1: there is none. */
    template <int BYTES>
    __device__ __forceinline__ void send_pairs_as(const attend_call &a, slot_view<S> to, int row)
    {
        const int64_t at = (int64_t)max(row, 0) * BYTES;
        copy_ahead<BYTES>(to.value_pair(BYTES), a.c.l.v_meta + at, row >= 0);
        if (!S::CHANNEL) copy_ahead<BYTES>(to.key_pair(BYTES, lane()), a.c.l.k_meta + at, row >= 0);
    }
    /* page_: that of any token of the share that is seen. */
    __device__ __forceinline__ void send_pairs(const attend_call &a, int r, slot_view<S> to,
                                               int row, int page_)
    {
        if constexpr (!S::CODES) return;
        const bool is_float = a.c.l.meta_dtype == TS_F32;
        if (is_float) send_pairs_as<8>(a, to, row);
        else send_pairs_as<4>(a, to, row);
        if (!S::CHANNEL || !a.grouped || a.key_group.of(first_of(r)) == group[r]) return;
        group[r] = a.key_group.of(first_of(r));
        if (is_float) send_group<S, 8>(a, s.head, page_, first_of(r), to);
        else send_group<S, 4>(a, s.head, page_, first_of(r), to);
    }
    /* Of a slot, in runs of n tokens: 16 bytes per lane, of 4 tokens or of 2, which are contiguous.
     * */
    template <int BYTES>
    __device__ __forceinline__ void send_pairs_of(const attend_call &a, unsigned slot, int row,
                                                  int n)
    {
#pragma unroll
        for (int i = 0; i < N * BYTES; i += 512) {
            const int      token = (i + lane() * 16) / BYTES, of = token >> __ffs(n) - 1;
            const int64_t  at = __shfl_sync(0xffffffffu, row, of) + (token & (n - 1));
            const unsigned to = slot + (unsigned)(rows_bytes<S>(a.c.l) + i + lane() * 16);
            copy_ahead<16>(to, a.c.l.v_meta + at * BYTES, true);
            copy_ahead<16>(to + N * BYTES, a.c.l.k_meta + at * BYTES, true);
        }
    }
    __device__ __forceinline__ void send_runs(const attend_call &a, unsigned slot, unsigned barrier)
    {
        const int  row = page * a.page_rows + rest, n = all ? N : run, size = row_bytes<S>(a.c.l);
        const bool sends = is_elected();
        int        at[N / ROWS];
        if (sends) barrier_expect(barrier, (unsigned)rows_bytes<S>(a.c.l));
#pragma unroll
        for (int i = 0; i < N / ROWS; i++) at[i] = __shfl_sync(0xffffffffu, row, i);
        if (sends)
#pragma unroll
            for (int i = 0; i < N / ROWS && i * n < N; i++) {
                const unsigned to = slot + (unsigned)(i * n * size), all_of = (unsigned)(n * size);
                copy_run(to, a.c.l.k_data + (int64_t)at[i] * size, all_of, barrier);
                copy_run(to + (unsigned)(N * size), a.c.l.v_data + (int64_t)at[i] * size, all_of,
                         barrier);
            }
        __syncwarp();
        if constexpr (S::CODES && S::STEPS == 1) {
            if (a.c.l.meta_dtype == TS_F32) send_pairs_of<8>(a, slot, row, n);
            else send_pairs_of<4>(a, slot, row, n);
        } else if constexpr (S::CODES) {
#pragma unroll
            for (int r = 0; r < WARPS; r++) {
                const int token = r * S::TOKENS + lane(), of = token >> __ffs(n) - 1;
                send_pairs(a, r, slot_view<S>(slot, r, a.c.l),
                           __shfl_sync(0xffffffffu, row, of) + (token & (n - 1)),
                           __shfl_sync(0xffffffffu, page, of));
            }
        }
    }
    /* A part that is seen and in one page, or single rows; what no query sees is left unchanged. */
    __device__ __forceinline__ void send_tokens(const attend_call &a, unsigned slot,
                                                unsigned barrier)
    {
        int row[WARPS], n = 0;
#pragma unroll
        for (int r = 0; r < WARPS; r++) {
            const int  token = first_of(r) + lane() % S::TOKENS, at = a.page.of(token);
            const bool seen = s.see.any(token);
            row[r] = -1;
            if (seen) row[r] = pages[at] * a.page_rows + (s.head - at) * (int)a.c.l.page + token;
            n += __popc(__ballot_sync(0xffffffffu, seen && lane() < S::TOKENS));
        }
        if (lane() == 0) barrier_expect(barrier, (unsigned)(n * 2 * row_bytes<S>(a.c.l)));
        __syncwarp();
#pragma unroll
        for (int r = 0; r < WARPS; r++) {
            const slot_view<S> to(slot, r, a.c.l);
            const int          head = __shfl_sync(0xffffffffu, row[r], lane() / ROWS * ROWS);
            const unsigned     in_run =
                __ballot_sync(0xffffffffu, row[r] >= 0 && row[r] == head + lane() % ROWS);
            const bool is_run = (in_run >> lane() / ROWS * ROWS & 0xffffu) == 0xffffu;
            if (lane() < S::TOKENS && row[r] >= 0 && (!is_run || lane() % ROWS == 0)) {
                send_run(a, to, barrier, lane(), false, row[r], is_run ? ROWS : 1);
                send_run(a, to, barrier, lane(), true, row[r], is_run ? ROWS : 1);
            }
            const unsigned sees = __ballot_sync(0xffffffffu, row[r] >= 0);
            const int      any = max(__ffs((int)sees), 1) - 1;
            int            page_ = 0; /* for groups: they do not lie in two */
            if (S::CHANNEL && sees) page_ = pages[a.page.of(first_of(r) + any % S::TOKENS)];
            send_pairs(a, r, to, row[r], page_);
        }
    }
    /* To a slot that may be filled. */
    __device__ __forceinline__ void send(const attend_call &a, unsigned slot, unsigned barrier)
    {
        if (easy) send_runs(a, slot, barrier);
        else send_tokens(a, slot, barrier);
        if (S::CODES) barrier_arrive_later(barrier);
        if (++step == S::STEPS) {
            step = 0;
            if (++s.t == s.end) begin_segment(a);
        }
        look_up(a);
    }
};

/* All that the block will want, one slot after the other. */
template <class S>
__device__ __forceinline__ void send_all(const attend_call &a, const ring_view<S> &ring)
{
    loader<S> ahead(a);
    unsigned  parity = 1;
    while (ahead.more)
        for (unsigned i = 0; i < ring.n && ahead.more; i++) {
            barrier_wait(ring.empty(i), parity);
            ahead.send(a, ring.slot(i), ring.full(i));
            if (i + 1 == ring.n) parity ^= 1;
        }
}

} // namespace decode

#endif

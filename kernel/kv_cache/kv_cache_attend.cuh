/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_attend.cuh - how attention is cut among blocks, and how their shares come together.
 *
 * An item is a KV head of a sequence with up to `columns` of the queries that read it: column c of
 * a head is the c % group-th of its query heads at query c / group. The keys that an item sees lie
 * in tiles, at multiples of `tile` tokens. The tiles of all items stand in a row, which is cut into
 * equal shares, one for a block; or, where there are items enough, a block takes an item. What a
 * share has of an item is a segment: it gives a largest score m, a sum l of 2^(s - m), and a sum o
 * of 2^(s - m) v. Where an item was cut its segments are merged in order. All that hangs on lengths
 * alone, not on pages. Scores are in units of ln 2. */
#ifndef TS_KV_CACHE_ATTEND_CUH
#define TS_KV_CACHE_ATTEND_CUH

#include "kv_cache_sm90.cuh"

/* Division by a number known beforehand, of numbers below 2^31. */
struct divider {
    unsigned factor;
    int      shift;

    divider(int by = 1)
    {
        for (shift = 31; (int64_t)1 << (shift - 31) < by; shift++) {}
        factor = (unsigned)((((uint64_t)1 << shift) + (unsigned)by - 1) / (unsigned)by);
    }
    __host__ __device__ __forceinline__ int of(int n) const
    {
        return (int)((uint64_t)(unsigned)n * factor >> shift);
    }
};

struct attend_call {
    kv_call     c; /* units: tiles, or items if by_item */
    divider     page;
    int         page_rows; /* of all heads, in a page */
    int         columns, tile, group, n_share, window, n_sink;
    bool        by_item;
    float       scale; /* of the scores, with log2(e) */
    const void *q;
    void       *out;
    float      *lse;
    float      *partial; /* [2 n_share][columns][head_dim + 2]: o, m, l */
};

/* ---- who sees what ---- */

/* Queries at positions first .. last. */
struct sight {
    int first, last, window, n_sink;

    __device__ __forceinline__ bool any(int key) const
    {
        return key <= last && (!window || key > first - window || key < n_sink);
    }
    __device__ __forceinline__ bool all(int from, int to) const
    {
        return to - 1 <= first && (!window || from > last - window || to <= n_sink);
    }
    __device__ __forceinline__ bool one(int query, int key) const
    {
        return key <= query && (!window || key > query - window || key < n_sink);
    }
};

/* The tiles in sight: some at the beginning, and those from another one on. */
struct tile_list {
    int n, n_sink, skip;

    tile_list(void) = default;
    __host__ __device__ tile_list(const sight &s, int tile)
    {
        const int low = s.window ? max(0, s.first - s.window + 1) / tile : 0;
        n_sink = s.window ? min(low, (s.n_sink + tile - 1) / tile) : 0;
        skip = low - n_sink;
        n = s.last / tile + 1 - skip;
    }
    __device__ __forceinline__ int at(int t) const
    {
        return t < n_sink ? t : t + skip;
    }
};

static inline __host__ __device__ int chunks_of(const attend_call &a, const kv_part &p)
{
    return (int)(((int64_t)p.n * a.group + a.columns - 1) / a.columns);
}

/* What all queries of a part see, or those of one chunk. */
static inline __host__ __device__ sight sight_of(const attend_call &a, const kv_part &p, int chunk)
{
    const int begin = p.len - p.n;
    if (!a.by_item) return { begin, p.len - 1, a.window, a.n_sink };
    const int64_t last = ((int64_t)(chunk + 1) * a.columns - 1) / a.group;
    return { begin + (int)((int64_t)chunk * a.columns / a.group),
             begin + (int)(last < p.n ? last : p.n - 1), a.window, a.n_sink };
}

/* ---- shares ---- */

struct segment {
    int       part, head, chunk;
    int       n_columns;
    int       t, end; /* of the item's tiles */
    int       slot;   /* among the partial results; -1: it is the whole item */
    sight     see;
    tile_list tiles;
};

static __device__ __forceinline__ int share_begin(const attend_call &a, int share)
{
    return (int)((int64_t)share * a.c.begin[a.c.n] / a.n_share);
}

/* The segments of a share. */
struct walk {
    int unit, end, share;

    __device__ __forceinline__ walk(const attend_call &a, int share_)
        : unit(share_begin(a, share_)), end(share_begin(a, share_ + 1)), share(share_)
    {
    }
    __device__ __forceinline__ bool next(const attend_call &a, segment *s)
    {
        if (unit >= end) return false;
        s->part = part_of(a.c, unit);
        const kv_part &p = a.c.part[s->part];
        const int      begin = a.c.begin[s->part], chunks = chunks_of(a, p);
        s->see = sight_of(a, p, 0);
        s->tiles = tile_list(s->see, a.tile);
        const int n = a.by_item ? 1 : s->tiles.n;
        const int item = (unit - begin) / n, from = unit - begin - item * n;
        const int to = min(n, end - begin - item * n);
        s->head = item / chunks;
        s->chunk = a.by_item ? chunks - 1 - item % chunks : item % chunks; /* long ones first */
        s->n_columns = min(a.columns, p.n * a.group - s->chunk * a.columns);
        s->t = from, s->end = to;
        s->slot = to - from == n ? -1 : 2 * share + (unit > share_begin(a, share));
        if (a.by_item) {
            s->see = sight_of(a, p, s->chunk);
            s->tiles = tile_list(s->see, a.tile);
            s->end = s->tiles.n;
        }
        unit += to - from;
        return true;
    }
};

/* The position of the query of column c. */
static __device__ __forceinline__ int position_of(const attend_call &a, const segment &s, int c)
{
    const kv_part &p = a.c.part[s.part];
    return p.len - p.n + (s.chunk * a.columns + c) / a.group;
}

/* The row of column c in q, out and lse. */
static __device__ __forceinline__ int64_t row_of(const attend_call &a, int part, int head,
                                                 int chunk, int c)
{
    const int     at = chunk * a.columns + c;
    const int64_t token = a.c.part[part].first + at / a.group;
    return token * a.c.l.n_q_head + head * a.group + at % a.group;
}

/* ---- arithmetic ---- */

static __device__ __forceinline__ float exp2_of(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 2^(m - to), where both may be -inf: then there is nothing to be weighed. */
static __device__ __forceinline__ float weight_of(float m, float to)
{
    return m == -INFINITY ? 0.0f : exp2_of(m - to);
}

static __device__ __forceinline__ float lse_of(float m, float l)
{
    return (m + log2f(l)) * 0.6931471805599453f;
}

/* ---- the end of a segment ---- */

static __device__ __forceinline__ float *partial_of(const attend_call &a, int slot, int c)
{
    return a.partial + ((int64_t)slot * a.columns + c) * (a.c.l.head_dim + 2);
}

/* Element d of column c, of a segment or of the item that it is. */
static __device__ __forceinline__ void put(const attend_call &a, const segment &s, int c, int d,
                                           float m, float l, float o)
{
    const int D = (int)a.c.l.head_dim;
    if (s.slot < 0) {
        const int64_t row = row_of(a, s.part, s.head, s.chunk, c);
        store_io(a.c.l.io_dtype, a.out, row * D + d, o / l);
        if (d == 0 && a.lse) a.lse[row] = lse_of(m, l);
        return;
    }
    float *to = partial_of(a, s.slot, c);
    to[d] = o;
    if (d == 0) to[D] = m, to[D + 1] = l;
}

/* Block x looks at the item in which share x + 1 begins; it is merged by the first such block.
 * blockIdx.y: a column of it. */
static __global__ void __launch_bounds__(128) merge_segments(const __grid_constant__ attend_call a)
{
    const int      D = (int)a.c.l.head_dim, c = (int)blockIdx.y;
    const int      unit = share_begin(a, (int)blockIdx.x + 1), i = part_of(a.c, unit);
    const kv_part &p = a.c.part[i];
    const int      n = tile_list(sight_of(a, p, 0), a.tile).n, chunks = chunks_of(a, p);
    const int      item = (unit - a.c.begin[i]) / n, begin = a.c.begin[i] + item * n;
    const int      first = (int)blockIdx.x, chunk = item % chunks;
    if (unit == begin || share_begin(a, first) > begin) return;
    if (c >= p.n * a.group - chunk * a.columns) return;
    const auto slot = [&](int share) { return 2 * share + (share_begin(a, share) < begin); };
    float      m = -INFINITY, l = 0;
    int        last = first;
    for (; last < a.n_share && share_begin(a, last) < begin + n; last++)
        m = fmaxf(m, partial_of(a, slot(last), c)[D]);
    for (int s = first; s < last; s++) {
        const float *from = partial_of(a, slot(s), c);
        l += from[D + 1] * weight_of(from[D], m);
    }
    const int64_t row = row_of(a, i, item / chunks, chunk, c);
    for (int d = (int)threadIdx.x; d < D; d += 128) {
        float o = 0;
        for (int s = first; s < last; s++) {
            const float *from = partial_of(a, slot(s), c);
            o += from[d] * weight_of(from[D], m);
        }
        store_io(a.c.l.io_dtype, a.out, row * D + d, o / l);
    }
    if (threadIdx.x == 0 && a.lse) a.lse[row] = lse_of(m, l);
}

#endif

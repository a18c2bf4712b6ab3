/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_attend.cuh - divides attention over a cache among blocks, and merges their results.
 *
 * An item is a KV head of a sequence with up to `columns` of the queries that read it: column c of
 * a head is the c % group-th of its query heads at query c / group. The keys that an item sees are
 * in tiles, at multiples of `tile` tokens. The tiles of all items form one sequence, which is
 * divided into equal shares, one per block; or, if that is even enough, a block or a cluster of
 * blocks takes an item. The part of an item in a share is a segment: it gives a largest score m, a
 * sum l of 2^(s - m), and a sum o of 2^(s - m) v. The segments of a divided item are merged in
 * order. All this depends on lengths alone, not on pages. Scores are in units of ln 2. */
#ifndef TS_KV_CACHE_ATTEND_CUH
#define TS_KV_CACHE_ATTEND_CUH

#include "device.cuh"
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
    divider     page, key_group;
    int         page_rows; /* of all heads, in a page */
    int         columns, tile, group, window, n_sink;
    int         spread; /* decode: warps that share tokens, and the columns between them */
    int         n_share, share_units, share_rest; /* the first share_rest have a unit more */
    bool        by_item;
    int         team;    /* if by_item: 2^team blocks, which are a cluster, share an item's tiles */
    bool        grouped; /* keys by channel: groups are of whole slots */
    float       scale;   /* of the scores, with log2(e) */
    const void *q;
    void       *out;
    float      *lse;
    float      *partial; /* [2 n_share][columns][partial_pitch]: m, l, and from 4 on o */
    /* Of a tree; deep 0: no tree. Queries follow all tokens of their sequence, up to `deep` of them
     * one after the other; another kernel adds their own branches. */
    int            deep;
    const int32_t *position; /* [tokens of the call] */
    float         *sums;     /* [tokens][n_q_head][partial_pitch]: instead of out and lse */
};

/* ---- the keys that a query sees ---- */

/* Queries at positions first .. last, of keys below `end`. */
struct sight {
    int first, last, end, window, n_sink;

    __device__ __forceinline__ bool any(int key) const
    {
        return key < end && (!window || key > first - window || key < n_sink);
    }
    /* Each of from .. last_key by some query. */
    __device__ __forceinline__ bool every(int from, int last_key) const
    {
        return last_key < end && (!window || from > first - window || last_key < n_sink);
    }
    __device__ __forceinline__ bool all(int from, int to) const
    {
        return to - 1 <= first && to <= end && (!window || from > last - window || to <= n_sink);
    }
    __device__ __forceinline__ bool one(int query, int key) const
    {
        return key <= query && key < end && (!window || key > query - window || key < n_sink);
    }
};

/* The tiles in sight: some at the beginning, and those from another one on. */
struct tile_list {
    int n, n_sink, skip;

    tile_list(void) = default;
    __host__ __device__ tile_list(const sight &s, int tile)
    {
        const int low = s.window ? max(0, min(s.first - s.window, s.end - 2) + 1) / tile : 0;
        n_sink = s.window ? min(low, (s.n_sink + tile - 1) / tile) : 0;
        skip = low - n_sink;
        n = (s.end + tile - 1) / tile - skip;
    }
    __device__ __forceinline__ int at(int t) const
    {
        return t < n_sink ? t : t + skip;
    }
};

static inline __host__ __device__ int chunks_of(const attend_call &a, const kv_part &p)
{
    return (int)(((unsigned)(p.n * a.group) + (unsigned)a.columns - 1) / (unsigned)a.columns);
}

/* What all queries of a part see, or those of one chunk. */
static inline __host__ __device__ sight sight_of(const attend_call &a, const kv_part &p, int chunk)
{
    const int begin = p.len - p.n;
    if (a.deep) return { p.len, p.len + a.deep - 1, p.len, a.window, a.n_sink };
    if (!a.by_item) return { begin, p.len - 1, p.len, a.window, a.n_sink };
    const int64_t at = ((int64_t)(chunk + 1) * a.columns - 1) / a.group;
    const int     last = begin + (int)(at < p.n ? at : p.n - 1);
    return { begin + (int)((int64_t)chunk * a.columns / a.group), last, last + 1, a.window,
             a.n_sink };
}

/* ---- shares ---- */

struct segment {
    int       part, head, chunk;
    int       n_columns;
    int       t, end; /* of the item's tiles */
    int       slot;   /* among the partial results; -1: the whole item; -2: a cluster's part */
    sight     see;
    tile_list tiles;
};

static __device__ __forceinline__ int share_begin(const attend_call &a, int share)
{
    return share * a.share_units + min(share, a.share_rest);
}

static __device__ __forceinline__ int share_of(const attend_call &a, int unit)
{
    const int longer = a.share_rest * (a.share_units + 1);
    if (unit < longer) return unit / (a.share_units + 1);
    return a.share_rest + (unit - longer) / a.share_units;
}

/* The segments of a share. TEAMS: there may be some, see attend_call. */
template <bool TEAMS> struct walk_by {
    int unit, end, share, part, rank;

    __device__ __forceinline__ walk_by(const attend_call &a, int block) : share(block), rank(0)
    {
        if (TEAMS) share = block >> a.team, rank = block & ((1 << a.team) - 1);
        unit = share_begin(a, share), end = share_begin(a, share + 1);
        part = part_of(a.c, unit);
    }
    __device__ __forceinline__ bool next(const attend_call &a, segment *s)
    {
        if (unit >= end) return false;
        while (unit >= a.c.begin[part + 1]) part++;
        s->part = part;
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
            if (TEAMS && a.team) {
                s->t = s->tiles.n * rank >> a.team, s->end = s->tiles.n * (rank + 1) >> a.team;
                s->slot = -2;
            }
        }
        unit += to - from;
        return true;
    }
};

typedef walk_by<false> walk;

/* The position of the query of column c. */
static __device__ __forceinline__ int position_of(const attend_call &a, const segment &s, int c)
{
    const kv_part &p = a.c.part[s.part];
    const int      i = (s.chunk * a.columns + c) / a.group;
    return a.deep ? a.position[p.first + i] : p.len - p.n + i;
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

static __host__ __device__ __forceinline__ int partial_pitch(int head_dim)
{
    return 4 + (head_dim + 3) / 4 * 4;
}

static __device__ __forceinline__ float *partial_of(const attend_call &a, int slot, int c)
{
    return a.partial + ((int64_t)slot * a.columns + c) * partial_pitch((int)a.c.l.head_dim);
}

static __device__ __forceinline__ void put_sum(float *to, int d, float m, float l, float o)
{
    to[4 + d] = o;
    if (d == 0) to[0] = m, to[1] = l;
}

/* Element d of a row after all its cached keys. */
static __device__ __forceinline__ void put_row(const attend_call &a, int64_t row, int d, float m,
                                               float l, float o)
{
    const int D = (int)a.c.l.head_dim;
    if (a.deep) return put_sum(a.sums + row * partial_pitch(D), d, m, l, o);
    store_io(a.c.l.io_dtype, a.out, row * D + d, o / l);
    if (d == 0 && a.lse) a.lse[row] = lse_of(m, l);
}

/* Element d of column c, of a segment or of the item that it is. */
static __device__ __forceinline__ void put(const attend_call &a, const segment &s, int c, int d,
                                           float m, float l, float o)
{
    if (s.slot < 0) put_row(a, row_of(a, s.part, s.head, s.chunk, c), d, m, l, o);
    else put_sum(partial_of(a, s.slot, c), d, m, l, o);
}

/* ---- segments of an item become one ---- */

enum { MERGE_WARPS = 4, MERGE_THREADS = 32 * MERGE_WARPS, MERGE_D = 256, MERGE_AT_ONCE = 4 };

/* An item that was cut: shares first .. last have segments of it. */
struct cut_item {
    int part, head, chunk, n_columns;
    int begin, first, last;

    __device__ __forceinline__ cut_item(const attend_call &a, int part_, int unit) : part(part_)
    {
        const kv_part &p = a.c.part[part];
        const int      n = tile_list(sight_of(a, p, 0), a.tile).n, chunks = chunks_of(a, p);
        const int      item = (unit - a.c.begin[part]) / n;
        begin = a.c.begin[part] + item * n;
        head = item / chunks, chunk = item % chunks;
        n_columns = min(a.columns, p.n * a.group - chunk * a.columns);
        first = share_of(a, begin);
        last = share_of(a, begin + n - 1) + 1;
    }
    __device__ __forceinline__ int slot(const attend_call &a, int share) const
    {
        return 2 * share + (share_begin(a, share) < begin);
    }
};

/* Column c of an item, by MERGE_THREADS. The order of sums depends on the number of segments only.
 */
static __device__ __forceinline__ void merge_column(const attend_call &a, const cut_item &it, int c)
{
    __shared__ float room[MERGE_WARPS][MERGE_D];
    const int        D = (int)a.c.l.head_dim, warp = (int)threadIdx.x / 32, n = it.last - it.first;
    float            top = -INFINITY, l = 0, o[MERGE_D / 32] = {};
    for (int s = lane(); s < n; s += 32) {
        const float2 x = __ldcg((const float2 *)partial_of(a, it.slot(a, it.first + s), c));
        const float  next = fmaxf(top, x.x);
        l = l * weight_of(top, next) + x.y * weight_of(x.x, next);
        top = next;
    }
    float m = top;
#pragma unroll
    for (int d = 16; d; d /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
    l *= weight_of(top, m);
#pragma unroll
    for (int d = 16; d; d /= 2) l += __shfl_xor_sync(0xffffffffu, l, d);
    for (int s = warp; s < n; s += MERGE_WARPS * MERGE_AT_ONCE) {
        float keep[MERGE_AT_ONCE], x[MERGE_AT_ONCE][MERGE_D / 32];
#pragma unroll
        for (int j = 0; j < MERGE_AT_ONCE; j++) {
            const int    at = min(s + j * MERGE_WARPS, n - 1);
            const float *from = partial_of(a, it.slot(a, it.first + at), c);
            keep[j] = s + j * MERGE_WARPS < n ? weight_of(__ldcg(from), m) : 0.0f;
#pragma unroll
            for (int k = 0; k < MERGE_D / 32; k++)
                x[j][k] = lane() + 32 * k < D ? __ldcg(from + 4 + lane() + 32 * k) : 0.0f;
        }
#pragma unroll
        for (int j = 0; j < MERGE_AT_ONCE; j++)
#pragma unroll
            for (int k = 0; k < MERGE_D / 32; k++)
                if (keep[j] != 0) o[k] = fmaf(x[j][k], keep[j], o[k]);
    }
#pragma unroll
    for (int k = 0; k < MERGE_D / 32; k++) room[warp][lane() + 32 * k] = o[k];
    __syncthreads();
    const int64_t row = row_of(a, it.part, it.head, it.chunk, c);
    for (int d = (int)threadIdx.x; d < D; d += MERGE_THREADS) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < MERGE_WARPS; w++) sum += room[w][d];
        put_row(a, row, d, m, l, sum);
    }
}

/* Block x looks at the item in which share x + 1 begins; it is merged by the first such block.
 * blockIdx.y: a column of it. It may begin before those whose segments they are have ended. */
static __global__ void __launch_bounds__(MERGE_THREADS)
    merge_segments(const __grid_constant__ attend_call a)
{
    const int      unit = share_begin(a, (int)blockIdx.x + 1), part = part_of(a.c, unit);
    const cut_item it(a, part, unit);
    const bool     mine = unit != it.begin && it.first == (int)blockIdx.x;
    /* One block waits in any case, lest this kernel end before the other. */
    if (mine || blockIdx.x + blockIdx.y == 0) asm volatile("griddepcontrol.wait;" ::: "memory");
    if (mine && (int)blockIdx.y < it.n_columns) merge_column(a, it, (int)blockIdx.y);
}

/* Lets the next kernel of the stream take its place; it waits there until this one has ended. */
static __device__ __forceinline__ void next_may_begin(void)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_attend_sm90.cu - which kernel attends, and in how many shares. */
#include "device.cuh"
#include "kv_cache_attend_any.cuh"
#include "kv_cache_decode.cuh"
#include "kv_cache_prefill.cuh"
#include "kv_cache_tree.cuh"

namespace
{

enum { ALIGN = 16 };

int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One way to attend: a kernel, the columns of an item, the tokens of a tile. It serves parts with
 * from `least` to `most` columns a head. With `spreading` an item may have up to 4 times as many
 * columns. Shares have no more than `blocks` a multiprocessor, whatever would fit. is_light: one
 * block keeps a multiprocessor's share of memory busy, unless it spreads. */
struct way {
    void (*kernel)(attend_call);
    int columns, tile, threads;
    size_t (*shared_bytes)(const attend_call &a);
    int64_t least = 1, most = INT32_MAX;
    int     blocks = 4;
    bool    teams = false; /* a cluster may share an item */
    bool    is_light = false;
    void (*spreading)(attend_call) = NULL;

    /* For n columns of a part. */
    int spread(int64_t n) const
    {
        if (!spreading || n <= columns) return 1;
        return n <= 2 * columns ? 2 : 4;
    }

    /* Before a tree there may be no tokens at all, and then there is nothing to do. */
    bool serves(const attend_call &a, const kv_part &p) const
    {
        return p.len > 0 && (int64_t)p.n * a.group >= least && (int64_t)p.n * a.group <= most;
    }
};

/* Columns from which on blocks are worth their while that take many at a time. */
enum { MANY = 65 };

/* ---- which one ---- */

size_t shared_bytes_of_any(const attend_call &a)
{
    return general::shared_bytes((int)a.c.l.head_dim);
}

size_t shared_bytes_of_prefill(const attend_call &a)
{
    return prefill::shared_bytes((int)a.c.l.head_dim);
}

template <class S, class T> way decode_by(void)
{
    way w = { decode::attend<S, T, false>, S::USED, S::TILE, decode::THREADS,
              decode::shared_bytes<S> };
    w.blocks = S::BLOCKS;
    w.teams = true;
    w.is_light = !S::CODES && (S::D > 64 || S::RAGGED);
    return w;
}

/* A block that is alone on its multiprocessor had better not spread: its warps would compute longer
 * than the items of the other columns take to read the same keys from the L2 cache. */
template <class S, class T> way decode_spreading(void)
{
    way w = decode_by<S, T>();
    if constexpr (S::BLOCKS > 1) w.spreading = decode::attend<S, T, true>;
    return w;
}

template <int BITS, int D> way decode_codes(ts_key_axis axis)
{
    if (axis == TS_KEY_CHANNEL) return decode_by<decode::shape<BITS, D, true>, __half>();
    return decode_by<decode::shape<BITS, D, false>, __half>();
}

template <int D, bool RAGGED> way decode_values(const ts_kv_layout &l)
{
    using S = decode::shape<16, D, false, RAGGED>;
    if (l.store_dtype == TS_F16) return decode_spreading<S, __half>();
    return decode_spreading<S, __nv_bfloat16>();
}

/* Kernels of their own for head sizes that are common. */
way decode_of(const ts_kv_layout &l)
{
    const int64_t D = l.head_dim;
    if (l.store_dtype == TS_U8)
        return D == 64 ? decode_codes<8, 64>(l.key_axis) : decode_codes<8, 128>(l.key_axis);
    if (l.store_dtype == TS_U4)
        return D == 64 ? decode_codes<4, 64>(l.key_axis) : decode_codes<4, 128>(l.key_axis);
    if (D == 64) return decode_values<64, false>(l);
    if (D == 96) return decode_values<96, false>(l);
    if (D == 128) return decode_values<128, false>(l);
    if (D == 192) return decode_values<192, false>(l);
    if (D == 256) return decode_values<256, false>(l);
    if (D < 64) return decode_values<64, true>(l);
    return D < 128 ? decode_values<128, true>(l) : decode_values<256, true>(l);
}

template <int D> way prefill_of(const ts_kv_layout &l)
{
    way w = { NULL, prefill::COLUMNS, prefill::TOKENS, prefill::THREADS, shared_bytes_of_prefill };
    if (l.store_dtype == TS_F16) w.kernel = prefill::attend<__half, D>;
    else w.kernel = prefill::attend<__nv_bfloat16, D>;
    w.least = MANY;
    return w;
}

/* Whether tensor cores can be used: 16-bit queries, and keys that are either like them, or codes
 * whose scale can be factored out of the dot product. Rows are counted in an int. */
bool is_plain(const ts_kv_layout &l)
{
    const bool common = l.head_dim == 64 || l.head_dim == 128;
    if (l.head_dim % 8 || l.head_dim > 256 || (is_code(l.store_dtype) && !common)) return false;
    if (l.io_dtype != TS_BF16 && l.io_dtype != TS_F16) return false;
    if (l.n_page > INT32_MAX / l.page / l.n_kv_head) return false;
    if (!is_code(l.store_dtype)) return l.store_dtype == l.io_dtype;
    return l.key_axis == TS_KEY_CHANNEL ? l.key_group % decode::ROWS == 0 : l.n_group == 1;
}

/* One or two kernels that support all parts between them. */
int ways_of(const ts_kv_layout &l, way (&w)[2])
{
    if (!is_plain(l)) {
        w[0] = { NULL, general::COLUMNS, general::TOKENS, general::THREADS, shared_bytes_of_any };
        by_store(l.store_dtype, [&](auto t) {
            w[0].kernel = general::attend<decltype(t)::value>;
            return TS_OK;
        });
        return 1;
    }
    w[0] = decode_of(l);
    if (is_code(l.store_dtype) || (l.head_dim != 64 && l.head_dim != 128)) return 1;
    w[0].most = MANY - 1;
    w[1] = l.head_dim == 64 ? prefill_of<64>(l) : prefill_of<128>(l);
    return 2;
}

/* ---- in how many shares ---- */

void spread_units(attend_call *a)
{
    const int n = a->c.begin[a->c.n];
    a->share_units = a->n_share > 0 ? n / a->n_share : 0;
    a->share_rest = a->n_share > 0 ? n % a->n_share : 0;
}

/* Bytes that a multiprocessor reads in the time that a merge takes, about: in a kernel of its own,
 * and within a cluster. */
enum { MERGE_BYTES = 192 << 10, TEAM_BYTES = 24 << 10, MOST_TEAM = 3 };

/* Of n_items, all of `shortest` to `longest` tiles, n_tiles in all: log2 of the blocks that best
 * take one together, or -1 if they are best cut into equal shares. These are the most even, but
 * then another kernel merges. Items of one head, if it has several, are best side by side: they
 * read the same keys. large_room: blocks of clusters of more than two that find room at once. */
int team_of(const attend_call &a, const way &w, int64_t n_items, int64_t shortest, int64_t longest,
            int64_t n_tiles, int64_t chunks, int resident, int large_room)
{
    const int64_t sms = n_multiprocessors(), bytes = 2 * a.tile * a.c.l.row_bytes;
    const bool    is_light = w.is_light && a.spread == 1;
    int64_t       least = n_tiles / sms * (chunks > 1 ? 2 : 1) + MERGE_BYTES / bytes;
    int           best = -1;
    if (!w.teams || a.deep) return -1;
    for (int t = 0; t <= MOST_TEAM && 1 << t <= shortest; t++) {
        const int64_t blocks = n_items << t;
        if (blocks > (t > 1 ? large_room : resident) && t) continue;
        if (!is_light && w.blocks > 1 && blocks <= sms) continue;
        const int64_t cost = (blocks + sms - 1) / sms * (((longest - 1) >> t) + 1) +
                             (t ? TEAM_BYTES / bytes + 1 : 0);
        if (cost <= least) least = cost, best = t;
    }
    return best;
}

/* Of a part's items; each has queries of its own, and may see less than all of them do. */
int64_t least_tiles(attend_call *a, const kv_part &p, int64_t chunks)
{
    int64_t least = INT32_MAX;
    a->by_item = true;
    for (int64_t c = 0; c < (p.n > 1 ? chunks : 1); c++)
        least = smaller(least, tile_list(sight_of(*a, p, (int)c), a->tile).n);
    a->by_item = false;
    return least;
}

/* Fills in units and shares for parts from *i on. Returns false if there are too many. A part that
 * fills many columns is taken item by item; but a tree, whose few rows all see the same past, only
 * where there are items enough. n_room: shares that there is room for. */
bool cut(attend_call *a, const way &w, const ts_kv_part *part, int64_t n_part, int64_t *i,
         int resident, int large_room, int64_t n_room)
{
    const int64_t from = *i;
    int64_t       most = 0; /* chunks of a part */
    int64_t       n_whole = 0, longest = 0, shortest = INT32_MAX;
    int           team = 0;
    a->by_item = false;
    const int64_t n_tiles = take_parts(&a->c, part, n_part, i, [&](const kv_part &p) -> int64_t {
        if (!w.serves(*a, p)) return 0;
        const int64_t chunks = chunks_of(*a, p);
        const int64_t tiles = tile_list(sight_of(*a, p, 0), a->tile).n;
        most = chunks > most ? chunks : most;
        longest = tiles > longest ? tiles : longest;
        shortest = smaller(shortest, least_tiles(a, p, chunks));
        n_whole += chunks * a->c.l.n_kv_head;
        return chunks * a->c.l.n_kv_head * tiles;
    });
    if ((w.least == 1 || (a->deep && n_room > 0)) && n_tiles >= 0 &&
        (most == 1 || a->c.n * most * a->c.l.n_kv_head < 2 * resident))
        team = team_of(*a, w, n_whole, shortest, longest, n_tiles, most, resident, large_room);
    a->team = team < 0 ? 0 : team;
    if (team < 0) {
        a->n_share = (int)smaller(n_tiles, smaller(resident, n_room));
        spread_units(a);
        return true;
    }
    *i = from;
    a->by_item = true;
    const int64_t n_items = take_parts(&a->c, part, n_part, i, [&](const kv_part &p) -> int64_t {
        return w.serves(*a, p) ? chunks_of(*a, p) * a->c.l.n_kv_head : 0;
    });
    a->n_share = (int)n_items;
    spread_units(a);
    return n_items >= 0;
}

ts_status launch_teams(const way &w, const attend_call &a, size_t n_bytes, cudaStream_t stream)
{
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 1u << a.team;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3((unsigned)a.n_share << a.team);
    how.blockDim = dim3((unsigned)w.threads);
    how.dynamicSmemBytes = n_bytes;
    how.stream = stream;
    how.attrs = &cluster;
    how.numAttrs = 1;
    cudaLaunchKernelEx(&how, w.kernel, a);
    return launched();
}

ts_status launch(const way &w, const attend_call &a, size_t n_bytes, cudaStream_t stream)
{
    if (!a.n_share) return TS_OK;
    if (a.team) return launch_teams(w, a, n_bytes, stream);
    w.kernel<<<(unsigned)a.n_share, (unsigned)w.threads, n_bytes, stream>>>(a);
    if (!a.by_item && a.n_share > 1) {
        cudaLaunchAttribute early = {};
        early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t how = {};
        how.gridDim = dim3((unsigned)a.n_share - 1, (unsigned)a.columns);
        how.blockDim = dim3(MERGE_THREADS);
        how.stream = stream;
        how.attrs = &early;
        how.numAttrs = 1;
        cudaLaunchKernelEx(&how, merge_segments, a);
    }
    return launched();
}

/* All parts that one kernel supports. n_float: of a->partial. */
ts_status attend_by(way w, attend_call *a, int64_t n_part, const ts_kv_part *part, int64_t n_float,
                    cudaStream_t stream)
{
    int     fit = 0;
    int64_t most = 0; /* columns of a part */
    for (int64_t i = 0; i < n_part; i++) {
        const int64_t columns = part[i].n * a->group;
        if (columns < w.least || columns > w.most) continue;
        most = columns > most ? columns : most;
    }
    if (!most) return TS_OK;
    a->spread = w.spread(most);
    if (a->spread > 1) w.kernel = w.spreading;
    a->columns = (int)smaller(w.columns * a->spread, most);
    a->tile = w.tile;
    const size_t n_bytes = w.shared_bytes(*a);
    cudaFuncSetAttribute(w.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)n_bytes);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, w.kernel, w.threads, n_bytes);
    if (!fit) return TS_E_DEVICE;
    const int     resident = n_multiprocessors() * (fit > w.blocks ? w.blocks : fit);
    const int64_t n_room = n_float / (2 * a->columns * partial_pitch((int)a->c.l.head_dim));
    for (int64_t i = 0; i < n_part;) {
        if (!cut(a, w, part, n_part, &i, resident, n_multiprocessors() * fit / 2, n_room))
            return TS_E_UNSUPPORTED;
        const ts_status s = launch(w, *a, n_bytes, stream);
        if (s) return s;
    }
    return TS_OK;
}

/* ---- the workspace ---- */

struct scratch {
    int64_t  n_partial; /* floats of `partial` */
    int64_t  n_rows;    /* of a tree that are attended to at a time */
    float   *partial, *sums;
    int32_t *up, *position;
};

/* Two partial results a share. There are no more shares than tiles; of those with many columns,
 * which only a tree has, no more than multiprocessors. */
int64_t partial_floats(const ts_kv_layout &l)
{
    way           w[2];
    const int     n_ways = ways_of(l, w);
    const int64_t group = l.n_q_head / l.n_kv_head, sms = n_multiprocessors();
    int64_t       most = 0;
    for (int i = 0; i < n_ways; i++) {
        if (l.max_call_tokens < (w[i].least - 1) / group + 1) continue;
        const int64_t resident = w[i].least == 1 ? sms * w[i].blocks : sms;
        const int64_t columns = w[i].columns * w[i].spread(group * l.max_call_tokens);
        const int64_t n_tiles = l.max_pages * l.page / w[i].tile + 1;
        const int64_t n_items = l.n_kv_head * l.max_call_tokens * ((group - 1) / w[i].columns + 1);
        const int64_t n = n_items > resident ? resident : smaller(resident, n_items * n_tiles);
        most = n * columns > most ? n * columns : most;
    }
    return 2 * most * partial_pitch((int)l.head_dim);
}

/* Its address from base on, or, if that is NULL, its size. */
size_t lay_out(const ts_kv_layout &l, char *base, scratch *s)
{
    const int64_t pitch = partial_pitch((int)l.head_dim), rows = tree::MOST_SUMS / l.n_q_head;
    s->n_partial = partial_floats(l);
    s->n_rows = smaller(l.max_call_tokens, rows > 0 ? rows : 1);
    s->partial = (float *)base;
    s->sums = s->partial + s->n_partial;
    s->up = (int32_t *)(s->sums + s->n_rows * l.n_q_head * pitch);
    s->position = s->up + l.max_call_tokens;
    return (size_t)((char *)(s->position + l.max_call_tokens) - base);
}

/* What all launches of a call have in common; false: more than can be counted here. */
bool begin(attend_call *a, const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
           const ts_kv_part *part, scratch *s)
{
    const ts_kv_layout &l = c->l;
    a->group = (int)(l.n_q_head / l.n_kv_head);
    if (l.head_dim > general::MOST_D || !fits(part, n_part)) return false;
    for (int64_t i = 0; i < n_part; i++)
        if (part[i].n > INT32_MAX / a->group) return false;
    lay_out(l, (char *)(((uintptr_t)x->workspace + ALIGN - 1) / ALIGN * ALIGN), s);
    a->c.l = l;
    a->c.layer = (int)layer;
    a->page = divider((int)l.page);
    a->key_group = divider((int)smaller(l.key_group, INT32_MAX / 2));
    a->grouped = l.key_group % 32 == 0;         /* a slot has no more tokens */
    a->page_rows = (int)(l.n_kv_head * l.page); /* fits where it is used, see is_plain */
    a->window = (int)smaller(l.window, INT32_MAX / 2);
    a->n_sink = (int)smaller(l.n_sink, INT32_MAX / 2);
    a->scale = (float)(l.scale * 1.4426950408889634);
    a->partial = s->partial;
    a->deep = 0;
    return true;
}

ts_status attend(attend_call *a, int64_t n_part, const ts_kv_part *part, int64_t n_float,
                 cudaStream_t stream)
{
    way       w[2];
    ts_status s = TS_OK;
    const int n = ways_of(a->c.l, w);
    for (int i = 0; !s && i < n; i++) s = attend_by(w[i], a, n_part, part, n_float, stream);
    return s;
}

} // namespace

size_t ts_kv_attend_sm90_workspace(const ts_kv_layout *l)
{
    scratch s;
    return lay_out(*l, NULL, &s) + ALIGN;
}

ts_status ts_kv_attend_sm90(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                            const ts_kv_part *part, const void *q, void *out, float *lse)
{
    attend_call a;
    scratch     s;
    if (!begin(&a, c, x, layer, n_part, part, &s)) return TS_E_UNSUPPORTED;
    a.q = q, a.out = out, a.lse = lse;
    return attend(&a, n_part, part, s.n_partial, (cudaStream_t)x->stream);
}

/* The cached keys as for any query, a round of rows at a time; then each row's own branch. */
ts_status ts_kv_attend_tree_sm90(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                                 const ts_kv_part *part, const ts_kv_tree *tree, const void *q,
                                 void *out, float *lse)
{
    const cudaStream_t stream = (cudaStream_t)x->stream;
    const int64_t      width = c->l.n_q_head * c->l.head_dim * (c->l.io_dtype == TS_F32 ? 4 : 2);
    attend_call        a;
    scratch            s;
    tree::round        r = {};
    if (!begin(&a, c, x, layer, n_part, part, &s)) return TS_E_UNSUPPORTED;
    ts_status status = TS_OK;
    a.deep = tree::send(part, n_part, tree, s.up, s.position, stream);
    a.sums = s.sums;
    while (!status && r.next(part, n_part, s.n_rows)) {
        a.q = (const char *)q + r.first * width;
        a.position = s.position + r.first;
        status = attend(&a, r.n_part, r.part, s.n_partial, stream);
        const tree::call t = { c->l, (int)r.first, (int)r.n_rows, a.window, a.n_sink, a.scale,
                               q,    tree->k,      tree->v,       out,      lse,      s.sums,
                               s.up, s.position };
        if (!status) status = tree::finish(t, stream);
    }
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_attend_sm90.cu - which kernel attends, and in how many shares. */
#include "kv_cache_attend_any.cuh"
#include "kv_cache_decode.cuh"
#include "kv_cache_prefill.cuh"

namespace
{

/* Shares have no more blocks a multiprocessor than that, whatever would fit. */
enum { MOST_BLOCKS = 4, ALIGN = 16 };

int n_multiprocessors(void)
{
    int device = 0, n = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device);
    return n;
}

int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One way to attend: a kernel, the columns of an item, the tokens of a tile. It serves parts with
 * from `least` to `most` columns a head. */
struct way {
    void (*kernel)(attend_call);
    int columns, tile, threads;
    size_t (*shared_bytes)(const attend_call &a);
    int64_t least = 1, most = INT32_MAX;

    bool serves(const attend_call &a, const kv_part &p) const
    {
        return (int64_t)p.n * a.group >= least && (int64_t)p.n * a.group <= most;
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
    return { decode::attend<S, T>, S::USED, S::TILE, decode::THREADS, decode::shared_bytes<S> };
}

template <int BITS, int D> way decode_codes(ts_key_axis axis)
{
    if (axis == TS_KEY_CHANNEL) return decode_by<decode::shape<BITS, D, true>, __half>();
    return decode_by<decode::shape<BITS, D, false>, __half>();
}

template <int D> way decode_of(const ts_kv_layout &l)
{
    if (l.store_dtype == TS_U8) return decode_codes<8, D>(l.key_axis);
    if (l.store_dtype == TS_U4) return decode_codes<4, D>(l.key_axis);
    if (l.store_dtype == TS_F16) return decode_by<decode::shape<16, D, false>, __half>();
    return decode_by<decode::shape<16, D, false>, __nv_bfloat16>();
}

template <int D> way prefill_of(const ts_kv_layout &l)
{
    way w = { NULL, prefill::COLUMNS, prefill::TOKENS, prefill::THREADS, shared_bytes_of_prefill };
    if (l.store_dtype == TS_F16) w.kernel = prefill::attend<__half, D>;
    else w.kernel = prefill::attend<__nv_bfloat16, D>;
    w.least = MANY;
    return w;
}

/* Whether tensor cores serve: 16-bit queries, and keys that are either like them, or codes whose
 * scale can be taken out of the product. Rows are counted in an int. */
bool is_plain(const ts_kv_layout &l)
{
    if (l.head_dim != 64 && l.head_dim != 128) return false;
    if (l.io_dtype != TS_BF16 && l.io_dtype != TS_F16) return false;
    if (l.n_page > INT32_MAX / l.page / l.n_kv_head) return false;
    if (!is_code(l.store_dtype)) return l.store_dtype == l.io_dtype;
    return l.key_axis == TS_KEY_CHANNEL ? l.key_group % decode::ROWS == 0 : l.n_group == 1;
}

/* One or two, that serve all parts between them. */
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
    w[0] = l.head_dim == 64 ? decode_of<64>(l) : decode_of<128>(l);
    if (is_code(l.store_dtype)) return 1;
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

/* Fills in units and shares for parts from *i on. Returns false if there are too many. A part that
 * fills many columns is taken item by item. */
bool cut(attend_call *a, const way &w, const ts_kv_part *part, int64_t n_part, int64_t *i,
         int resident)
{
    const int64_t from = *i;
    int64_t       most = 0; /* chunks of a part */
    a->by_item = false;
    const int64_t n_tiles = take_parts(&a->c, part, n_part, i, [&](const kv_part &p) -> int64_t {
        if (!w.serves(*a, p)) return 0;
        const int64_t chunks = chunks_of(*a, p);
        most = chunks > most ? chunks : most;
        return chunks * a->c.l.n_kv_head * tile_list(sight_of(*a, p, 0), a->tile).n;
    });
    if (w.least == 1 && n_tiles >= 0 &&
        (most == 1 || a->c.n * most * a->c.l.n_kv_head < 2 * resident)) {
        a->n_share = (int)smaller(n_tiles, resident);
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

ts_status launch(const way &w, const attend_call &a, size_t n_bytes, cudaStream_t stream)
{
    if (!a.n_share) return TS_OK;
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

/* All parts that one way serves. */
ts_status attend_by(const way &w, attend_call *a, int64_t n_part, const ts_kv_part *part,
                    cudaStream_t stream)
{
    int     fit = 0;
    int64_t most = 0; /* columns of a part */
    for (int64_t i = 0; i < n_part; i++) {
        const int64_t columns = part[i].n * a->group;
        if (columns >= w.least && columns <= w.most && columns > most) most = columns;
    }
    if (!most) return TS_OK;
    a->columns = (int)smaller(w.columns, most);
    a->tile = w.tile;
    const size_t n_bytes = w.shared_bytes(*a);
    cudaFuncSetAttribute(w.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)n_bytes);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, w.kernel, w.threads, n_bytes);
    if (!fit) return TS_E_DEVICE;
    const int resident = n_multiprocessors() * (fit > MOST_BLOCKS ? (int)MOST_BLOCKS : fit);
    for (int64_t i = 0; i < n_part;) {
        if (!cut(a, w, part, n_part, &i, resident)) return TS_E_UNSUPPORTED;
        const ts_status s = launch(w, *a, n_bytes, stream);
        if (s) return s;
    }
    return TS_OK;
}

} // namespace

/* Two partial results a share. There are no more shares than tiles. */
size_t ts_kv_attend_sm90_workspace(const ts_kv_layout *l)
{
    way w[2];
    ways_of(*l, w);
    const int64_t group = l->n_q_head / l->n_kv_head;
    const int64_t n_tiles = l->max_pages * l->page / w[0].tile + 1;
    const int64_t n_items = l->n_kv_head * l->max_call_tokens * ((group - 1) / w[0].columns + 1);
    const int64_t resident = (int64_t)n_multiprocessors() * MOST_BLOCKS;
    const int64_t n_share = n_items > resident ? resident : smaller(resident, n_items * n_tiles);
    const int64_t n_float = 2 * n_share * w[0].columns * partial_pitch((int)l->head_dim);
    return (size_t)n_float * sizeof(float) + ALIGN;
}

ts_status ts_kv_attend_sm90(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                            const ts_kv_part *part, const void *q, void *out, float *lse)
{
    const ts_kv_layout &l = c->l;
    attend_call         a;
    way                 w[2];
    a.group = (int)(l.n_q_head / l.n_kv_head);
    if (l.head_dim > general::MOST_D || !fits(part, n_part)) return TS_E_UNSUPPORTED;
    for (int64_t i = 0; i < n_part; i++)
        if (part[i].n > INT32_MAX / a.group) return TS_E_UNSUPPORTED;
    a.c.l = l;
    a.c.layer = (int)layer;
    a.page = divider((int)l.page);
    a.key_group = divider((int)smaller(l.key_group, INT32_MAX / 2));
    a.grouped = l.key_group % 32 == 0;         /* a slot has no more tokens */
    a.page_rows = (int)(l.n_kv_head * l.page); /* fits where it is used, see is_plain */
    a.window = (int)smaller(l.window, INT32_MAX / 2);
    a.n_sink = (int)smaller(l.n_sink, INT32_MAX / 2);
    a.scale = (float)(l.scale * 1.4426950408889634);
    a.q = q, a.out = out, a.lse = lse;
    a.partial = (float *)(((uintptr_t)x->workspace + ALIGN - 1) / ALIGN * ALIGN);
    ts_status s = TS_OK;
    const int n = ways_of(l, w);
    for (int i = 0; !s && i < n; i++)
        s = attend_by(w[i], &a, n_part, part, (cudaStream_t)x->stream);
    return s;
}

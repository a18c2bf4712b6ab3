/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_sm90.cu - rows are stored, coded, read back and copied on the device, a warp a row.
 *
 * What the host knows of a call (its sequences, lengths, new pages) travels as parameters of the
 * launches, so nothing waits for a copy. */
#include "kv_cache_sm90.cuh"

namespace
{

enum { WARPS = 4, THREADS = 32 * WARPS, MOST_NEWS = 320, MOST_COPIES = 128 };

unsigned blocks_for(int64_t warps)
{
    return (unsigned)((warps + WARPS - 1) / WARPS);
}

/* ---- the device's copy of the table ---- */

struct table_news {
    int     n;
    int32_t page[MOST_NEWS];
    int64_t at[MOST_NEWS];
};

__global__ void __launch_bounds__(MOST_NEWS)
    write_table(const __grid_constant__ table_news news, int32_t *table)
{
    if ((int)threadIdx.x < news.n) table[news.at[threadIdx.x]] = news.page[threadIdx.x];
}

/* Gathers entries and sends them off, as many as fit at a time. */
struct table_writer {
    const ts_kv *c;
    cudaStream_t stream;
    table_news   news;

    void flush(void)
    {
        if (news.n) write_table<<<1, MOST_NEWS, 0, stream>>>(news, c->l.table);
        news.n = 0;
    }
    void add(int64_t at, int64_t n)
    {
        for (int64_t i = at; i < at + n; i++) {
            news.at[news.n] = i;
            news.page[news.n++] = c->table[i];
            if (news.n == MOST_NEWS) flush();
        }
    }
};

ts_status set_table(const ts_kv *c, const ts_exec *x, int64_t at, int64_t n)
{
    const cudaStream_t stream = (cudaStream_t)x->stream;
    if (n > 64 * MOST_NEWS) { /* a new cache, or a fork with a very long table */
        cudaMemcpyAsync(c->l.table + at, c->table + at, (size_t)n * sizeof *c->table,
                        cudaMemcpyHostToDevice, stream);
        return launched();
    }
    table_writer w = { c, stream, {} };
    w.add(at, n);
    w.flush();
    return launched();
}

/* ---- codes ---- */

/* Keeps the pair of a group, and gives it as it was rounded. */
__device__ float2 make_pair(const ts_kv_layout &l, char *meta, int64_t i, const extremes &e)
{
    const float2 m = pair_of(l, e);
    if (l.meta_dtype == TS_F32) ((float2 *)meta)[i] = m;
    else ((__half2 *)meta)[i] = __floats2half2_rn(m.x, m.y);
    return m;
}

/* One row of x; `i` is the index of its first pair. */
template <class IO>
__device__ void store_codes(const ts_kv_layout &l, const IO *x, char *to, char *meta, int64_t i,
                            int group, int twist)
{
    const int D = (int)l.head_dim, top = top_code(l);
    for (int g = 0; g * group < D; g++) {
        extremes e;
        for (int d = g * group + lane(); d < min(D, (g + 1) * group); d += 32)
            e.meet(to_float(x[d]));
        e.of_warp();
        if (lane() == 0) make_pair(l, meta, i + g, e);
    }
    __syncwarp();
    const auto code = [&](int d) {
        return code_of(to_float(x[d]), load_pair(l.meta_dtype, meta, i + d / group), top);
    };
    for (int b = lane(); b < (int)l.row_bytes; b += 32) {
        unsigned byte;
        if (l.store_dtype == TS_U8) byte = code(b);
        else byte = code(2 * b) | (2 * b + 1 < D ? code(2 * b + 1) << 4 : 0u);
        to[b ^ twist] = (char)byte;
    }
}

/* To row `row` of the pool, of position p. */
template <class IO>
__device__ void store_row(const ts_kv_layout &l, const IO *x, char *pool, char *meta, int64_t row,
                          int n_group, int group, int p)
{
    char     *to = pool + row * l.row_bytes;
    const int size = l.store_dtype == TS_F32 ? 4 : 2, twist = twist_of((int)l.row_bytes, p);
    if (is_code(l.store_dtype)) store_codes(l, x, to, meta, row * n_group, group, twist);
    else
        for (int d = lane(); d < (int)l.head_dim; d += 32)
            store_io(l.store_dtype, to + ((d * size) ^ twist), 0, to_float(x[d]));
}

/* ---- append ---- */

/* A unit is a token; a warp takes one head of it. Keys coded by channel stay behind in the tail,
 * those at its end, or are none of this kernel's business. */
template <class IO>
__global__ void __launch_bounds__(THREADS)
    store_tokens(const __grid_constant__ kv_call c, const IO *k, const IO *v)
{
    const ts_kv_layout &l = c.l;
    const int64_t       at = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int           H = (int)l.n_kv_head, D = (int)l.head_dim, unit = (int)(at / H);
    const int           head = (int)(at % H);
    if (unit >= c.begin[c.n]) return;
    const int     i = part_of(c, unit), j = unit - c.begin[i];
    const kv_part p = c.part[i];
    const int     pos = p.len + j;
    const int64_t row = ts_kv_row(&l, pages_of(c, p)[pos / (int)l.page], head, pos % (int)l.page);
    const int64_t from = ((int64_t)(p.first + j) * H + head) * D;
    store_row(l, v + from, l.v_data, l.v_meta, row, 1, D, pos);
    if (l.key_axis == TS_KEY_TOKEN)
        store_row(l, k + from, l.k_data, l.k_meta, row, (int)l.n_group, (int)l.key_group, pos);
    else if (pos >= ts_kv_tail_begin(&l, p.len + p.n)) {
        IO *tail = (IO *)l.tail + ts_kv_tail_at(&l, p.seq, c.layer, head, pos);
        for (int d = lane(); d < D; d += 32) tail[d] = k[from + d];
    }
}

/* A unit is a group of tokens that is complete now, its first tokens in the tail perhaps; a block
 * takes one head of it, and a thread a byte of each row. */
template <class IO>
__global__ void __launch_bounds__(THREADS)
    finish_groups(const __grid_constant__ kv_call c, const IO *k)
{
    const ts_kv_layout &l = c.l;
    const int           H = (int)l.n_kv_head, D = (int)l.head_dim, G = (int)l.key_group;
    const int           unit = (int)blockIdx.x / H, head = (int)blockIdx.x % H;
    const int           i = part_of(c, unit);
    const kv_part       p = c.part[i];
    const int           first = (p.len / G + unit - c.begin[i]) * G, slot = first % (int)l.page;
    const int64_t       page = pages_of(c, p)[first / (int)l.page];
    const int           per_byte = l.store_dtype == TS_U8 ? 1 : 2;
    const int           top = top_code(l);
    char               *data = l.k_data + ts_kv_row(&l, page, head, slot) * l.row_bytes;
    const IO           *tail = (const IO *)l.tail + ts_kv_tail_at(&l, p.seq, c.layer, head, first);
    const auto          key = [&](int t, int d) {
        const int after = first + t - p.len; /* of the tokens of this call */
        return to_float(after < 0 ? tail[(int64_t)t * D + d]
                                           : k[((int64_t)(p.first + after) * H + head) * D + d]);
    };
    for (int b = (int)threadIdx.x; b < (int)l.row_bytes; b += THREADS) {
        float2 m[2];
        for (int e = 0; e < per_byte && b * per_byte + e < D; e++) {
            const int d = b * per_byte + e;
            extremes  x;
            for (int t = 0; t < G; t++) x.meet(key(t, d));
            m[e] = make_pair(l, l.k_meta, ts_kv_key_pair(&l, page, head, slot, d), x);
        }
        for (int t = 0; t < G; t++) {
            unsigned byte = code_of(key(t, b * per_byte), m[0], top);
            if (per_byte == 2 && 2 * b + 1 < D) byte |= code_of(key(t, 2 * b + 1), m[1], top) << 4;
            data[t * l.row_bytes + (b ^ twist_of((int)l.row_bytes, first + t))] = (char)byte;
        }
    }
}

/* First the groups that are complete now: what was in the tail is overwritten after that. */
template <class IO>
ts_status append_as(kv_call *c, cudaStream_t stream, int64_t n_part, const ts_kv_part *part,
                    const void *k, const void *v)
{
    const int H = (int)c->l.n_kv_head, G = (int)c->l.key_group;
    for (int64_t i = 0; c->l.key_axis == TS_KEY_CHANNEL && i < n_part;) {
        const int64_t n = take_parts(c, part, n_part, &i, [&](const kv_part &p) {
            return (int64_t)((p.len + p.n) / G - p.len / G);
        });
        if (n) finish_groups<IO><<<(unsigned)(n * H), THREADS, 0, stream>>>(*c, (const IO *)k);
    }
    for (int64_t i = 0; i < n_part;) {
        const int64_t n =
            take_parts(c, part, n_part, &i, [](const kv_part &p) { return (int64_t)p.n; });
        store_tokens<IO>
            <<<blocks_for(n * H), THREADS, 0, stream>>>(*c, (const IO *)k, (const IO *)v);
    }
    return launched();
}

ts_status append(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                 const ts_kv_part *part, const void *k, const void *v)
{
    const cudaStream_t  stream = (cudaStream_t)x->stream;
    const ts_kv_layout *l = &c->l;
    kv_call             call;
    int64_t             n = 0;
    for (int64_t i = 0; i < n_part; i++) n += part[i].n;
    if (!fits(part, n_part) || n * l->n_kv_head > INT32_MAX) return TS_E_UNSUPPORTED;
    if (!c->contiguous) {
        table_writer w = { c, stream, {} };
        for (int64_t i = 0; i < n_part; i++) {
            const int64_t from = part[i].len / l->page;
            const int64_t to = (part[i].len + part[i].n - 1) / l->page + 1;
            w.add((part[i].seq * l->n_layer + layer) * l->max_pages + from, to - from);
        }
        w.flush();
    }
    call.l = *l;
    call.layer = (int)layer;
    if (l->io_dtype == TS_F32) return append_as<float>(&call, stream, n_part, part, k, v);
    if (l->io_dtype == TS_F16) return append_as<__half>(&call, stream, n_part, part, k, v);
    return append_as<__nv_bfloat16>(&call, stream, n_part, part, k, v);
}

/* ---- read ---- */

/* Where a call reads one sequence: positions from .. from + n. */
struct reading {
    ts_kv_layout l;
    int64_t      layer, seq;
    int          len, from, n;
};

template <ts_dtype T>
__global__ void __launch_bounds__(THREADS) read_rows(const reading r, float *k, float *v)
{
    const int64_t at = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32, H = r.l.n_kv_head;
    if (at >= r.n * H) return;
    const int      p = r.from + (int)(at / H), head = (int)(at % H);
    const int32_t *pages = ts_kv_pages(&r.l, r.l.table, r.seq, r.layer);
    float         *to_k = k + at * r.l.head_dim, *to_v = v + at * r.l.head_dim;
    read_key<T>(r.l, pages, r.seq, r.layer, r.len, head, p, [&](int d, float x) { to_k[d] = x; });
    read_value<T>(r.l, pages, head, p, [&](int d, float x) { to_v[d] = x; });
}

ts_status read(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t seq, int64_t len,
               int64_t from, int64_t n, float *k, float *v)
{
    const unsigned blocks = blocks_for(n * c->l.n_kv_head);
    if (len > INT32_MAX || n * c->l.n_kv_head > INT32_MAX) return TS_E_UNSUPPORTED;
    const reading r = { c->l, layer, seq, (int)len, (int)from, (int)n };
    return by_store(c->l.store_dtype, [&](auto t) {
        read_rows<decltype(t)::value><<<blocks, THREADS, 0, (cudaStream_t)x->stream>>>(r, k, v);
        return launched();
    });
}

/* ---- tails ---- */

/* The keys before n of the group that contains position n become its tail. */
template <ts_dtype T> __global__ void __launch_bounds__(THREADS) read_to_tail(const reading r)
{
    const int64_t at = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32, H = r.l.n_kv_head;
    if (at >= r.n * H) return;
    const int      p = r.from + (int)(at / H), head = (int)(at % H);
    const int32_t *pages = ts_kv_pages(&r.l, r.l.table, r.seq, r.layer);
    const int64_t  to = ts_kv_tail_at(&r.l, r.seq, r.layer, head, p);
    read_key<T>(r.l, pages, r.seq, r.layer, r.len, head, p,
                [&](int d, float x) { store_io(r.l.io_dtype, r.l.tail, to + d, x); });
}

ts_status fill_tail(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t seq, int64_t n)
{
    const ts_kv_layout *l = &c->l;
    const int64_t       from = ts_kv_tail_begin(l, n);
    const unsigned      blocks = blocks_for((n - from) * l->n_kv_head);
    /* read as if the group were still complete */
    const reading r = { *l, layer, seq, (int)(from + l->key_group), (int)from, (int)(n - from) };
    return by_store(l->store_dtype, [&](auto t) {
        read_to_tail<decltype(t)::value><<<blocks, THREADS, 0, (cudaStream_t)x->stream>>>(r);
        return launched();
    });
}

ts_status copy_tail(const ts_kv *c, const ts_exec *x, int64_t from_seq, int64_t to_seq)
{
    const ts_kv_layout *l = &c->l;
    const size_t        size = l->io_dtype == TS_F32 ? 4 : 2;
    const size_t        n = (size_t)(ts_kv_tail_at(l, 1, 0, 0, 0)) * size; /* of a sequence */
    if (l->key_axis != TS_KEY_CHANNEL) return TS_OK;
    cudaMemcpyAsync(l->tail + (size_t)to_seq * n, l->tail + (size_t)from_seq * n, n,
                    cudaMemcpyDeviceToDevice, (cudaStream_t)x->stream);
    return launched();
}

/* ---- copies ---- */

struct copy_list {
    ts_kv_layout l;
    ts_kv_copy   copy[MOST_COPIES];
};

/* By the `all` threads that share the job, of which this is number `me`. */
__device__ void copy_bytes(char *pool, int64_t from, int64_t to, int64_t n, int64_t me, int64_t all)
{
    int64_t done = 0;
    if ((from | to) % 16 == 0) {
        const uint4 *a = (const uint4 *)(pool + from);
        uint4       *b = (uint4 *)(pool + to);
        for (int64_t i = me; i < n / 16; i += all) b[i] = a[i];
        done = n / 16 * 16;
    }
    for (int64_t i = done + me; i < n; i += all) pool[to + i] = pool[from + i];
}

/* blockIdx.x: copy and head; blockIdx.y: a share of the work. */
__global__ void __launch_bounds__(256) copy_rows(const __grid_constant__ copy_list list)
{
    const ts_kv_layout &l = list.l;
    const int           head = (int)(blockIdx.x % l.n_kv_head);
    const ts_kv_copy    c = list.copy[blockIdx.x / l.n_kv_head];
    const int64_t       me = blockIdx.y * 256 + threadIdx.x, all = (int64_t)gridDim.y * 256;
    const int64_t       a = ts_kv_row(&l, c.from, head, 0), b = ts_kv_row(&l, c.to, head, 0);
    copy_bytes(l.k_data, a * l.row_bytes, b * l.row_bytes, c.n * l.row_bytes, me, all);
    copy_bytes(l.v_data, a * l.row_bytes, b * l.row_bytes, c.n * l.row_bytes, me, all);
    if (!is_code(l.store_dtype)) return;
    const int64_t pair = l.meta_dtype == TS_F32 ? 8 : 4;
    copy_bytes(l.v_meta, a * pair, b * pair, c.n * pair, me, all);
    int64_t first = a * l.n_group, to = b * l.n_group, n = c.n * l.n_group;
    if (l.key_axis == TS_KEY_CHANNEL) {
        first = ts_kv_key_pair(&l, c.from, head, 0, 0), to = ts_kv_key_pair(&l, c.to, head, 0, 0);
        n = c.n / l.key_group * l.head_dim; /* of groups that are complete */
    }
    copy_bytes(l.k_meta, first * pair, to * pair, n * pair, me, all);
}

ts_status copy_pages(const ts_kv *c, const ts_exec *x, int64_t n_copy, const ts_kv_copy *copy)
{
    const ts_kv_layout *l = &c->l;
    const unsigned      shares = l->page * l->row_bytes > 65536 ? 16 : 1;
    copy_list           list;
    if (l->n_kv_head > INT32_MAX / MOST_COPIES) return TS_E_UNSUPPORTED;
    list.l = *l;
    for (int64_t done = 0, n; done < n_copy; done += n) {
        n = n_copy - done < MOST_COPIES ? n_copy - done : (int64_t)MOST_COPIES;
        for (int64_t i = 0; i < n; i++) list.copy[i] = copy[done + i];
        copy_rows<<<dim3((unsigned)(n * l->n_kv_head), shares), 256, 0, (cudaStream_t)x->stream>>>(
            list);
    }
    return launched();
}

const ts_kv_ops ops = {
    ts_kv_attend_sm90_workspace,
    append,
    ts_kv_attend_sm90,
    read,
    copy_pages,
    copy_tail,
    fill_tail,
    set_table,
    ts_kv_attend_tree_sm90,
};

} // namespace

extern "C" TS_API ts_status ts_kv_cache_sm90(const void *ask, const ts_exec *)
{
    *((const ts_kv_ask *)ask)->ops = &ops;
    return TS_OK;
}

// SPDX-License-Identifier: Apache-2.0
// kv_cache_kernels.cuh - of kv_cache.cu, what runs on the device: one thread computes a stored row,
// or the output of one head of a query, in double.
#include "number.cuh"
#include "touchstone/kv_cache.h"

enum { MOST_DIM = 256 };

// A sequence of a call: its rows in the call's tensors, and its tokens before an append.
struct entry {
    int64_t first, n, len;
    int32_t seq;
};

// What kernels see of a cache and a call.
struct view {
    ts_kv_dims     d;
    bool           codes, by_channel;
    int64_t        own, max_pages, row_bytes, n_group, layer, n_entry, n_item, from;
    unsigned char *k, *v, *k_meta, *v_meta; // rows of [cells][n_kv_head]; pairs of step and lowest
    unsigned char *tail;                    // [n_seq_max][n_layer][key_group][n_kv_head][head_dim]
    const entry   *e;                       // in the workspace, and the pages of the layer
    const int32_t *page;                    // [n_seq_max][max_pages]
    const void    *in_k, *in_v, *q;
    void          *out;
    float         *lse, *read_k, *read_v;
};

// ---- device: cells and codes, as in proof/plain/kv_cache.c ----

static __host__ __device__ int64_t bytes_of(ts_dtype t)
{
    return t == TS_F64 ? 8 : t == TS_F32 ? 4 : t == TS_U8 ? 1 : 2;
}

static __device__ int64_t cell(const view &s, int32_t seq, int64_t p)
{
    if (!s.d.page) return (seq * s.d.n_layer + s.layer) * s.own + p;
    return (int64_t)s.page[seq * s.max_pages + p / s.d.page] * s.d.page + p % s.d.page;
}

static __device__ unsigned char *row_of(const view &s, bool key, int64_t at, int64_t head)
{
    return (key ? s.k : s.v) + (at * s.d.n_kv_head + head) * s.row_bytes;
}

static __device__ int64_t tail_at(const view &s, int32_t seq, int64_t p, int64_t e)
{
    const int64_t g = s.d.key_group;
    return ((seq * s.d.n_layer + s.layer) * g + p % g) * s.d.n_kv_head * s.d.head_dim + e;
}

static __device__ int64_t channel_pair(const view &s, int64_t at, int64_t head, int64_t e)
{
    return (at / s.d.key_group * s.d.n_kv_head + head) * s.d.head_dim + e;
}

static __device__ void set_meta(const view &s, void *meta, int64_t pair, double lowest,
                                double highest)
{
    const double most = s.d.store_dtype == TS_U8 ? 255 : 15;
    store(meta, s.d.meta_dtype, 2 * pair, (highest - lowest) / most);
    store(meta, s.d.meta_dtype, 2 * pair + 1, lowest);
}

static __device__ void encode(const view &s, unsigned char *row, int64_t e, double x,
                              const void *meta, int64_t pair)
{
    const int    most = s.d.store_dtype == TS_U8 ? 255 : 15;
    const double step = load(meta, s.d.meta_dtype, 2 * pair);
    const double r = step > 0 ? rint((x - load(meta, s.d.meta_dtype, 2 * pair + 1)) / step) : 0;
    const int    q = r < 0 ? 0 : r < most ? (int)r : most;
    if (most == 255) row[e] = (unsigned char)q;
    else row[e / 2] = (unsigned char)(e % 2 ? (row[e / 2] & 15) | q << 4 : (row[e / 2] & 240) | q);
}

static __device__ double decode(const view &s, const unsigned char *row, int64_t e,
                                const void *meta, int64_t pair)
{
    const int q = s.d.store_dtype == TS_U8 ? row[e] : e % 2 ? row[e / 2] >> 4 : row[e / 2] & 15;
    return load(meta, s.d.meta_dtype, 2 * pair + 1) + q * load(meta, s.d.meta_dtype, 2 * pair);
}

static __device__ double stored(const view &s, const entry &of, int64_t p, bool key, int64_t head,
                                int64_t e)
{
    const int64_t        at = cell(s, of.seq, p), i = at * s.d.n_kv_head + head;
    const int64_t        g = s.d.key_group, D = s.d.head_dim;
    const unsigned char *row = row_of(s, key, at, head);
    if (!s.codes) return load(row, s.d.store_dtype, e);
    if (!key) return decode(s, row, e, s.v_meta, i);
    if (!s.by_channel) return decode(s, row, e, s.k_meta, i * s.n_group + e / g);
    if (p >= of.len / g * g) return load(s.tail, s.d.io_dtype, tail_at(s, of.seq, p, head * D + e));
    return decode(s, row, e, s.k_meta, channel_pair(s, at, head, e));
}

static __device__ const entry &entry_of(const view &s, int64_t token)
{
    int64_t i = 0;
    while (token >= s.e[i].first + s.e[i].n) i++;
    return s.e[i];
}

// ---- kernels ----

// A row of values, or of keys that are not coded by channel: one head of a token.
static __global__ void save_rows(view s)
{
    const int64_t i = item(), H = s.d.n_kv_head, D = s.d.head_dim, token = i / 2 / H,
                  head = i / 2 % H;
    const bool key = i % 2;
    if (i >= s.n_item || (key && s.by_channel)) return;
    const entry   &of = entry_of(s, token);
    const int64_t  at = cell(s, of.seq, of.len + token - of.first), row = at * H + head;
    const int64_t  n = key ? s.d.key_group : D, first = (token * H + head) * D;
    const void    *x = key ? s.in_k : s.in_v;
    unsigned char *to = row_of(s, key, at, head), *meta = key ? s.k_meta : s.v_meta;
    for (int64_t e = 0; e < D && !s.codes; e++)
        store(to, s.d.store_dtype, e, load(x, s.d.io_dtype, first + e));
    for (int64_t b = 0; b < D && s.codes; b += n) {
        const int64_t pair = key ? row * s.n_group + b / n : row, end = b + n < D ? b + n : D;
        double        lowest = INFINITY, highest = -INFINITY;
        for (int64_t e = b; e < end; e++) {
            lowest = fmin(lowest, load(x, s.d.io_dtype, first + e));
            highest = fmax(highest, load(x, s.d.io_dtype, first + e));
        }
        set_meta(s, meta, pair, lowest, highest);
        for (int64_t e = b; e < end; e++)
            encode(s, to, e, load(x, s.d.io_dtype, first + e), meta, pair);
    }
}

// Keys by channel: two channels, which share a byte, of all tokens of a sequence.
static __global__ void save_channels(view s)
{
    const int64_t  H = s.d.n_kv_head, D = s.d.head_dim, g = s.d.key_group, pairs = (D + 1) / 2;
    const int64_t  i = item(), head = i / pairs % H, e0 = i % pairs * 2;
    const ts_dtype io = s.d.io_dtype;
    if (i >= s.n_item) return;
    const entry &of = s.e[i / pairs / H];
    for (int64_t t = 0; t < of.n; t++)
        for (int64_t e = e0; e < e0 + 2 && e < D; e++) {
            const int64_t p = of.len + t, c = head * D + e;
            double        lowest = INFINITY, highest = -INFINITY;
            store(s.tail, io, tail_at(s, of.seq, p, c),
                  load(s.in_k, io, (of.first + t) * H * D + c));
            if ((p + 1) % g) continue;
            const int64_t first = cell(s, of.seq, p + 1 - g),
                          pair = channel_pair(s, first, head, e);
            for (int64_t j = 0; j < g; j++) {
                lowest = fmin(lowest, load(s.tail, io, tail_at(s, of.seq, j, c)));
                highest = fmax(highest, load(s.tail, io, tail_at(s, of.seq, j, c)));
            }
            set_meta(s, s.k_meta, pair, lowest, highest);
            for (int64_t j = 0; j < g; j++)
                encode(s, row_of(s, true, first + j, head), e,
                       load(s.tail, io, tail_at(s, of.seq, j, c)), s.k_meta, pair);
        }
}

// Keys of a finished group that is cut, from s.from on, go back to the tail.
static __global__ void keep_tail(view s)
{
    const int64_t i = item(), D = s.d.head_dim, W = s.d.n_kv_head * D, p = s.from + i / W,
                  c = i % W;
    if (i < s.n_item)
        store(s.tail, s.d.io_dtype, tail_at(s, s.e->seq, p, c),
              stored(s, *s.e, p, true, c / D, c % D));
}

// One head of one query.
static __global__ void attend(view s)
{
    const int64_t i = item(), D = s.d.head_dim, head = i % s.d.n_q_head, token = i / s.d.n_q_head;
    const int64_t kv = head * s.d.n_kv_head / s.d.n_q_head;
    double        most = -INFINITY, sum = 0, o[MOST_DIM] = { 0 };
    if (i >= s.n_item) return;
    const entry  &of = entry_of(s, token);
    const int64_t p = of.len - of.n + token - of.first;
    for (int64_t j = 0; j <= p; j++) {
        double dot = 0;
        if (s.d.window && p - j >= s.d.window && j >= s.d.n_sink) continue;
        for (int64_t e = 0; e < D; e++)
            dot += load(s.q, s.d.io_dtype, i * D + e) * stored(s, of, j, true, kv, e);
        dot *= s.d.scale;
        if (dot == -INFINITY) continue;
        const double less = dot > most ? exp(most - dot) : 1;
        most = dot > most ? dot : most;
        const double weight = exp(dot - most);
        sum = sum * less + weight;
        for (int64_t e = 0; e < D; e++)
            o[e] = o[e] * less + weight * stored(s, of, j, false, kv, e);
    }
    for (int64_t e = 0; e < D; e++) store(s.out, s.d.io_dtype, i * D + e, o[e] / sum);
    if (s.lse) s.lse[i] = (float)(most + log(sum));
}

static __global__ void read_back(view s)
{
    const int64_t i = item(), D = s.d.head_dim, W = s.d.n_kv_head * D, c = i % W,
                  p = s.from + i / W;
    if (i >= s.n_item) return;
    s.read_k[i] = (float)stored(s, *s.e, p, true, c / D, c % D);
    s.read_v[i] = (float)stored(s, *s.e, p, false, c / D, c % D);
}

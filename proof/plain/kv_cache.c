/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache.c - the obvious solution: every token's place is looked up, and attention is two passes
 * over the keys in double. */
#include "touchstone/kv_cache.h"

#include "number.h"

struct ts_kv {
    ts_kv_dims     d;
    size_t         bytes;
    int            codes, by_channel;
    int64_t        n_cell, own, max_pages, row_bytes, n_group, n_free;
    int32_t        least;        /* no page below it is free */
    int32_t       *page, *n_ref; /* [n_seq_max][n_layer][max_pages], [n_page] */
    int64_t       *len;          /* [n_seq_max][n_layer] */
    unsigned char *open;
    unsigned char *k, *v;           /* [n_cell][n_kv_head] rows */
    unsigned char *k_meta, *v_meta; /* pairs of step and lowest */
    unsigned char *tail;            /* [n_seq_max][n_layer][key_group][n_kv_head][head_dim] */
};

/* ---- layout ---- */

static size_t bytes_of(ts_dtype t)
{
    return t == TS_F64 ? 8 : t == TS_F32 ? 4 : t == TS_U8 ? 1 : 2;
}

static void lay_out(const ts_kv_dims *dims, void *base, ts_kv *c)
{
    const ts_kv_dims *const d = HOOK(dims, dims);
    const int64_t g = d->key_group, H = HOOK(n_stored_heads, d->n_kv_head), D = d->head_dim;
    const int64_t n_len = d->n_seq_max * d->n_layer;
    const size_t  pair = 2 * bytes_of(d->meta_dtype);
    size_t        used = (sizeof *c + ALIGN - 1) / ALIGN * ALIGN;
    memset(c, 0, sizeof *c);
    c->d = *d;
    c->n_free = d->n_page;
    c->codes = d->store_dtype == TS_U8 || d->store_dtype == TS_U4;
    c->by_channel = c->codes && d->key_axis == TS_KEY_CHANNEL;
    c->own = c->by_channel ? (d->capacity + g - 1) / g * g : d->capacity;
    c->n_cell = d->page ? d->n_page * d->page : n_len * c->own;
    c->max_pages = d->page ? (d->capacity + d->page - 1) / d->page : 0;
    c->row_bytes = HOOK(row_bytes, d->store_dtype == TS_U4 ? (D + 1) / 2
                                                           : D * (int64_t)bytes_of(d->store_dtype));
    c->n_group = c->codes && !c->by_channel ? (D + g - 1) / g : 0;
    c->page = place(base, &used, n_len * c->max_pages, sizeof *c->page);
    c->n_ref = place(base, &used, d->n_page, sizeof *c->n_ref);
    c->len = place(base, &used, HOOK(n_lengths, n_len), sizeof *c->len);
    c->open = place(base, &used, d->n_seq_max, 1);
    c->k = place(base, &used, c->n_cell * H, (size_t)c->row_bytes);
    c->v = place(base, &used, c->n_cell * H, (size_t)c->row_bytes);
    c->v_meta = place(base, &used, c->codes ? c->n_cell * H : 0, pair);
    c->k_meta = place(base, &used,
                      c->by_channel ? c->n_cell / g * H * D : c->n_cell * H * c->n_group, pair);
    c->tail = place(base, &used, c->by_channel ? n_len * g * H * D : 0, bytes_of(d->io_dtype));
    c->bytes = used + ALIGN; /* the memory may begin anywhere */
}

static int32_t *pages_of(const ts_kv *c, int64_t seq, int64_t layer)
{
    return c->page + (seq * c->d.n_layer + layer) * c->max_pages;
}

static int64_t *len_of(const ts_kv *c, int64_t seq, int64_t layer)
{
    return &c->len[seq * c->d.n_layer + HOOK(length_layer, layer)];
}

static int64_t cell(const ts_kv *c, int64_t seq, int64_t layer, int64_t p)
{
    HERE(cell);
    if (!c->d.page) return (seq * c->d.n_layer + layer) * c->own + p;
    return pages_of(c, seq, layer)[HOOK(page, p / c->d.page)] * c->d.page + p % c->d.page;
}

static unsigned char *row_of(const ts_kv *c, int key, int64_t at, int64_t head)
{
    return (key ? c->k : c->v) + (at * c->d.n_kv_head + head) * HOOK(row_stride, c->row_bytes);
}

/* Element e of the token at p % key_group in the tail. */
static int64_t tail_at(const ts_kv *c, int64_t seq, int64_t layer, int64_t p, int64_t e)
{
    const int64_t g = c->d.key_group;
    return ((seq * c->d.n_layer + layer) * g + p % g) * c->d.n_kv_head * c->d.head_dim + e;
}

/* ---- codes ---- */

static void encode(const ts_kv *c, unsigned char *row, int64_t e, double x, const void *meta,
                   int64_t pair)
{
    const int    most = c->d.store_dtype == TS_U8 ? 255 : 15;
    const double step = load(meta, c->d.meta_dtype, 2 * pair);
    const double lowest = load(meta, c->d.meta_dtype, 2 * pair + 1);
    const double r = HOOK(code, step > 0 ? rint((x - lowest) / step) : 0);
    const int    q = r < 0 ? 0 : r < most ? (int)r : most;
    if (most == 255) row[e] = (unsigned char)q;
    else row[e / 2] = (unsigned char)(e % 2 ? (row[e / 2] & 15) | q << 4 : (row[e / 2] & 240) | q);
}

static double decode(const ts_kv *c, const unsigned char *row, int64_t e, const void *meta,
                     int64_t pair)
{
    const int    q = c->d.store_dtype == TS_U8 ? row[e] : e % 2 ? row[e / 2] >> 4 : row[e / 2] & 15;
    const double step = load(meta, c->d.meta_dtype, 2 * pair);
    return load(meta, c->d.meta_dtype, 2 * pair + 1) + HOOK(decoded, q) * step;
}

static void set_meta(const ts_kv *c, void *meta, int64_t pair, double lowest, double highest)
{
    const double most = c->d.store_dtype == TS_U8 ? 255 : 15;
    store(meta, c->d.meta_dtype, 2 * pair, HOOK(step, (highest - lowest) / most));
    store(meta, c->d.meta_dtype, 2 * pair + 1, lowest);
}

static int64_t channel_pair(const ts_kv *c, int64_t at, int64_t head, int64_t e)
{
    return (at / c->d.key_group * c->d.n_kv_head + head) * c->d.head_dim + e;
}

static void save_row(const ts_kv *c, int key, int64_t at, int64_t head, const void *x,
                     int64_t first)
{
    const int64_t  D = c->d.head_dim, n = key ? c->d.key_group : D, i = at * c->d.n_kv_head + head;
    const ts_dtype io = c->d.io_dtype;
    unsigned char *row = row_of(c, key, at, head), *meta = key ? c->k_meta : c->v_meta;
    HERE(save_row);
    for (int64_t e = 0; e < D && !c->codes; e++)
        store(row, c->d.store_dtype, e, HOOK(stored, load(x, io, first + e)));
    for (int64_t b = 0; b < D && c->codes; b += n) {
        const int64_t pair = key ? i * c->n_group + b / n : i, end = b + n < D ? b + n : D;
        double        lowest = INFINITY, highest = -INFINITY;
        for (int64_t e = b; e < end; e++) {
            lowest = fmin(lowest, load(x, io, first + e));
            highest = fmax(highest, load(x, io, first + e));
        }
        set_meta(c, meta, pair, HOOK(lowest, lowest), HOOK(highest, highest));
        for (int64_t e = b; e < end; e++) encode(c, row, e, load(x, io, first + e), meta, pair);
    }
}

/* The tail is full: it becomes the group of keys before position `end`. */
static void finish_group(const ts_kv *c, int64_t seq, int64_t layer, int64_t end)
{
    const int64_t  g = c->d.key_group, D = c->d.head_dim, first = cell(c, seq, layer, end - g);
    const ts_dtype io = c->d.io_dtype;
    for (int64_t e = 0; e < c->d.n_kv_head * D; e++) {
        const int64_t pair = channel_pair(c, first, e / D, e % D);
        double        lowest = INFINITY, highest = -INFINITY;
        for (int64_t i = 0; i < g; i++) {
            lowest = fmin(lowest, load(c->tail, io, tail_at(c, seq, layer, i, e)));
            highest = fmax(highest, load(c->tail, io, tail_at(c, seq, layer, i, e)));
        }
        set_meta(c, c->k_meta, pair, lowest, highest);
        for (int64_t i = 0; i < g; i++)
            encode(c, row_of(c, 1, first + i, e / D), e % D,
                   load(c->tail, io, tail_at(c, seq, layer, i, e)), c->k_meta, pair);
    }
}

static void read_row(const ts_kv *c, int64_t seq, int64_t layer, int64_t p, int key, int64_t head,
                     double *x)
{
    const int64_t        at = cell(c, seq, layer, p), i = at * c->d.n_kv_head + head;
    const int64_t        g = c->d.key_group, D = c->d.head_dim;
    const unsigned char *row = row_of(c, key, at, head);
    HERE(read_row);
    for (int64_t e = 0; e < D; e++)
        if (!c->codes) x[e] = load(row, c->d.store_dtype, e);
        else if (!key) x[e] = decode(c, row, e, c->v_meta, i);
        else if (!c->by_channel) x[e] = decode(c, row, e, c->k_meta, i * c->n_group + e / g);
        else if (p >= *len_of(c, seq, layer) / g * g)
            x[e] = load(c->tail, c->d.io_dtype, tail_at(c, seq, layer, p, head * D + e));
        else x[e] = decode(c, row, e, c->k_meta, channel_pair(c, at, head, e));
}

/* ---- beginning and end ---- */

static int is_float(ts_dtype t)
{
    return t == TS_F32 || t == TS_BF16 || t == TS_F16;
}

static ts_status check_dims(const ts_kv_dims *d)
{
    const int codes = d && (d->store_dtype == TS_U8 || d->store_dtype == TS_U4);
    if (!d || !(d->scale - d->scale == 0) || d->window < 0 || d->n_sink < 0) return TS_E_ARG;
    if (codes && d->key_axis != TS_KEY_TOKEN && d->key_axis != TS_KEY_CHANNEL) return TS_E_ARG;
    if (d->n_layer < 1 || d->n_seq_max < 1 || d->n_q_head < 1 || d->n_kv_head < 1)
        return TS_E_SHAPE;
    if (d->head_dim < 1 || d->capacity < 1 || HOOK(uneven, d->n_q_head % d->n_kv_head))
        return TS_E_SHAPE;
    if (d->page < 0 || (d->page && d->n_page < 1) || d->max_call_tokens < 0) return TS_E_SHAPE;
    const double head = (double)d->head_dim, rows = (double)d->n_layer * (double)d->n_seq_max;
    if (d->n_seq_max > INT32_MAX || d->page > INT32_MAX || d->n_page > INT32_MAX ||
        rows * (double)d->capacity * (double)d->n_kv_head * head >= 0x1p58 ||
        (double)d->max_call_tokens * (double)d->n_q_head * head >= 0x1p58)
        return TS_E_SHAPE;
    if (codes && d->key_group < 1) return TS_E_SHAPE;
    if (codes && d->key_axis == TS_KEY_CHANNEL && d->page % d->key_group) return TS_E_SHAPE;
    if (!is_float(d->io_dtype) && d->io_dtype != TS_F64) return TS_E_DTYPE;
    if (codes) return d->meta_dtype == TS_F32 || d->meta_dtype == TS_F16 ? TS_OK : TS_E_DTYPE;
    return is_float(d->store_dtype) || d->store_dtype == d->io_dtype ? TS_OK : TS_E_DTYPE;
}

static size_t workspace_of(const ts_kv_dims *d)
{
    /* the scores of a query, a row, and the sum of rows */
    return (size_t)(HOOK(n_scores, d->capacity) + 2 * d->head_dim) * sizeof(double) + ALIGN;
}

ts_status ts_kv_bytes(const ts_kv_dims *d, const ts_exec *x, size_t *state_bytes,
                      size_t *workspace_bytes)
{
    ts_kv           c;
    const ts_status s = check_dims(d);
    if (s) return s;
    if (!x || !state_bytes || !workspace_bytes) return TS_E_ARG;
    lay_out(d, NULL, &c);
    *state_bytes = c.bytes;
    *workspace_bytes = workspace_of(d);
    return TS_OK;
}

ts_status ts_kv_create(const ts_kv_dims *d, const ts_exec *x, void *memory, size_t memory_bytes,
                       ts_kv **c)
{
    ts_kv           made;
    const ts_status s = check_dims(d);
    void *const     base = aligned(memory);
    if (s) return s;
    if (!x || !memory || !c) return TS_E_ARG;
    lay_out(d, base, &made);
    if (memory_bytes < HOOK(least_memory, made.bytes)) return TS_E_WORKSPACE;
    memset(made.len, 0, (size_t)HOOK(n_lengths, d->n_seq_max * d->n_layer) * sizeof *made.len);
    memset(made.n_ref, 0, (size_t)d->n_page * sizeof *made.n_ref);
    memset(made.open, 0, (size_t)d->n_seq_max);
    HERE(created);
    *c = memcpy(base, &made, sizeof made);
    return TS_OK;
}

ts_status ts_kv_destroy(ts_kv **c)
{
    if (!c) return TS_E_ARG;
    *c = NULL;
    return TS_OK;
}

/* ---- sequences and pages ---- */

static ts_status check_seq(const ts_kv *c, int64_t seq)
{
    if (!c || seq < 0 || seq >= c->d.n_seq_max) return TS_E_ARG;
    return c->open[seq] ? TS_OK : TS_E_STATE;
}

static int64_t pages_for(const ts_kv *c, int64_t n)
{
    return c->d.page ? (n + c->d.page - 1) / c->d.page : 0;
}

static int32_t take_page(ts_kv *c)
{
    while (c->n_ref[c->least]) c->least++;
    c->n_ref[c->least] = 1;
    c->n_free--;
    return c->least;
}

static void drop_page(ts_kv *c, int32_t page)
{
    if (HOOK(is_last, --c->n_ref[page] == 0)) c->n_free++;
    if (page < c->least) c->least = page;
}

static void copy_cells(const ts_kv *c, int64_t from, int64_t to, int64_t n)
{
    const int64_t H = c->d.n_kv_head, g = c->by_channel ? c->d.key_group : 1;
    const int64_t n_pairs = c->by_channel ? H * c->d.head_dim : H * c->n_group;
    const size_t  row = (size_t)(H * c->row_bytes), pair = 2 * bytes_of(c->d.meta_dtype);
    const size_t  key = (size_t)n_pairs * pair, value = (size_t)H * pair;
    memcpy(c->k + (size_t)to * row, c->k + (size_t)from * row, (size_t)n * row);
    memcpy(c->v + (size_t)to * row, c->v + (size_t)from * row, (size_t)n * row);
    if (!c->codes) return;
    memcpy(c->v_meta + (size_t)to * value, c->v_meta + (size_t)from * value, (size_t)n * value);
    memcpy(c->k_meta + (size_t)(to / g) * key, c->k_meta + (size_t)(from / g) * key,
           (size_t)((n + g - 1) / g) * key);
}

ts_status ts_kv_open(ts_kv *c, const ts_exec *x, int32_t *seq)
{
    int32_t i = 0;
    if (!c || !x || !seq) return TS_E_ARG;
    while (i < c->d.n_seq_max && c->open[i]) i++;
    if (i == c->d.n_seq_max) return HOOK(no_seq, TS_E_CAPACITY);
    c->open[i] = 1;
    *seq = i;
    return TS_OK;
}

ts_status ts_kv_fork(ts_kv *c, const ts_exec *x, int32_t src, int32_t *dst)
{
    int32_t   to;
    ts_status s = dst ? check_seq(c, src) : TS_E_ARG;
    if (!s) s = ts_kv_open(c, x, &to);
    for (int64_t l = 0; l < c->d.n_layer && !s; l++) {
        const int64_t len = *len_of(c, to, l) = *len_of(c, src, l);
        const size_t  tail = (size_t)(c->d.key_group * c->d.n_kv_head * c->d.head_dim);
        if (!c->d.page) copy_cells(c, cell(c, src, l, 0), cell(c, to, l, 0), len);
        for (int64_t i = 0; i < pages_for(c, len); i++) {
            c->n_ref[pages_of(c, to, l)[i] = pages_of(c, src, l)[i]]++;
            HERE(page_shared);
        }
        if (c->by_channel)
            memcpy(c->tail + (size_t)tail_at(c, to, l, 0, 0) * bytes_of(c->d.io_dtype),
                   c->tail + (size_t)tail_at(c, src, l, 0, 0) * bytes_of(c->d.io_dtype),
                   tail * bytes_of(c->d.io_dtype));
        HERE(forked);
    }
    if (!s) *dst = to;
    return s;
}

static void shrink(ts_kv *c, int64_t seq, int64_t layer, int64_t n)
{
    int64_t *len = len_of(c, seq, layer);
    HERE(shrink);
    for (int64_t i = pages_for(c, n); i < pages_for(c, *len); i++) {
        const int32_t page = pages_of(c, seq, layer)[i];
        HERE(drop);
        drop_page(c, page);
    }
    *len = n;
}

/* Keys of a finished group that is cut go back to the tail, as they are read. */
static void keep_tail(ts_kv *c, int64_t seq, int64_t layer, int64_t n, double *row)
{
    const int64_t g = c->d.key_group, D = c->d.head_dim;
    if (!c->by_channel || HOOK(keeps, n >= *len_of(c, seq, layer) / g * g)) return;
    for (int64_t p = n / g * g; p < n; p++)
        for (int64_t h = 0; h < c->d.n_kv_head; h++) {
            read_row(c, seq, layer, p, 1, h, row);
            for (int64_t e = 0; e < D; e++)
                store(c->tail, c->d.io_dtype, tail_at(c, seq, layer, p, h * D + e), row[e]);
        }
}

ts_status ts_kv_truncate(ts_kv *c, const ts_exec *x, int32_t seq, int64_t n)
{
    const ts_status s = x ? check_seq(c, seq) : TS_E_ARG;
    if (s) return s;
    for (int64_t l = 0; l < c->d.n_layer; l++)
        if (n < 0 || n > *len_of(c, seq, l)) return TS_E_ARG;
    if (x->workspace_bytes < workspace_of(&c->d)) return TS_E_WORKSPACE;
    for (int64_t l = 0; l < c->d.n_layer; l++) {
        keep_tail(c, seq, l, n, aligned(x->workspace));
        shrink(c, seq, l, n);
    }
    return TS_OK;
}

ts_status ts_kv_free(ts_kv *c, const ts_exec *x, int32_t seq)
{
    const ts_status s = x ? check_seq(c, seq) : TS_E_ARG;
    for (int64_t l = 0; l < c->d.n_layer && !s; l++) shrink(c, seq, l, 0);
    if (!s) c->open[seq] = 0;
    return HOOK(freed, s);
}

/* ---- tokens ---- */

static int is_layer(const ts_kv *c, int64_t layer)
{
    return c && layer >= 0 && layer < c->d.n_layer;
}

static ts_status check_list(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                            const int32_t *seq, const int64_t *n)
{
    if (!is_layer(c, layer) || !x || !seq || !n) return TS_E_ARG;
    if (n_seq < 0 || n_seq > HOOK(most_seqs, c->d.n_seq_max)) return TS_E_ARG; /* one comes twice */
    HERE(check_list);
    for (int64_t i = 0; i < n_seq; i++) {
        HERE(listed);
        const ts_status s = check_seq(c, seq[i]);
        if (s) return s;
        for (int64_t k = 0; k < i; k++)
            if (HOOK(twice, seq[k] == seq[i])) return TS_E_ARG;
        if (n[i] < 0) return TS_E_ARG;
    }
    return HOOK(short, x->workspace_bytes < workspace_of(&c->d)) ? TS_E_WORKSPACE : TS_OK;
}

static int is_shared(const ts_kv *c, int64_t seq, int64_t layer)
{
    const int64_t len = *len_of(c, seq, layer);
    return c->d.page && len % c->d.page &&
           HOOK(shared, c->n_ref[pages_of(c, seq, layer)[len / c->d.page]] > 1);
}

static ts_status check_room(const ts_kv *c, int64_t layer, int64_t n_seq, const int32_t *seq,
                            const int64_t *n)
{
    int64_t need = 0;
    for (int64_t i = 0; i < n_seq; i++) {
        const int64_t len = *len_of(c, seq[i], layer);
        if (len + n[i] > HOOK(capacity, c->d.capacity)) return TS_E_CAPACITY;
        need += pages_for(c, len + n[i]) - pages_for(c, len);
        need += n[i] && is_shared(c, seq[i], layer);
    }
    return need > c->n_free ? TS_E_CAPACITY : TS_OK;
}

/* Page i of a sequence becomes its own. */
static void copy_page(ts_kv *c, int64_t seq, int64_t layer, int64_t i)
{
    const int32_t old = pages_of(c, seq, layer)[i], own = take_page(c);
    copy_cells(c, old * c->d.page, own * c->d.page, c->d.page);
    drop_page(c, old);
    pages_of(c, seq, layer)[i] = own;
}

static void grow(ts_kv *c, int64_t seq, int64_t layer, int64_t n)
{
    const int64_t len = *len_of(c, seq, layer);
    if (HOOK(grows, n) && is_shared(c, seq, layer)) copy_page(c, seq, layer, len / c->d.page);
    for (int64_t i = pages_for(c, len); i < pages_for(c, len + n); i++)
        pages_of(c, seq, layer)[i] = take_page(c);
}

static void append_one(ts_kv *c, int64_t seq, int64_t layer, const void *k, const void *v,
                       int64_t token)
{
    const int64_t  D = c->d.head_dim, p = *len_of(c, seq, layer), at = cell(c, seq, layer, p);
    const int64_t  H = HOOK(n_written, c->d.n_kv_head);
    const ts_dtype io = c->d.io_dtype;
    for (int64_t h = 0; h < H; h++) {
        save_row(c, 0, at, h, v, (token * H + h) * D);
        if (!c->by_channel) save_row(c, 1, at, h, k, (token * H + h) * D);
    }
    for (int64_t e = 0; e < H * D && c->by_channel; e++)
        store(c->tail, io, tail_at(c, seq, layer, p, e), load(k, io, token * H * D + e));
    ++*len_of(c, seq, layer);
    if (c->by_channel && (p + 1) % c->d.key_group == 0) finish_group(c, seq, layer, p + 1);
}

ts_status ts_kv_append(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq, const int32_t *seq,
                       const int64_t *n_new, const void *k, const void *v)
{
    int64_t token = 0;
    HERE(append);
    ts_status s = k && v ? check_list(c, x, layer, n_seq, seq, n_new) : TS_E_ARG;
    if (!s) s = HOOK(room, check_room(c, layer, n_seq, seq, n_new));
    for (int64_t i = 0; i < n_seq && !s; i++) {
        HERE(append_seq);
        grow(c, seq[i], layer, n_new[i]);
        for (int64_t j = 0; j < n_new[i]; j++) append_one(c, seq[i], layer, k, v, token++);
        HERE(appended_seq);
    }
    return s;
}

static int sees(const ts_kv_dims *d, int64_t p, int64_t j)
{
    return HOOK(sees, !d->window || p - j < d->window || j < d->n_sink);
}

/* The query at position p, whose first element is q[at]. */
static void attend_one(const ts_kv *c, int64_t seq, int64_t layer, int64_t p, int64_t head,
                       const void *q, int64_t at, void *out, float *lse, double *score)
{
    const ts_kv_dims *d = &c->d;
    const int64_t     D = d->head_dim, kv = HOOK(kv_head, head * d->n_kv_head / d->n_q_head);
    const int64_t     n = HOOK(n_keys, p + 1);
    double           *row = score + HOOK(n_scores, d->capacity), *o = row + D;
    double            most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) {
        score[j] = -INFINITY;
        if (!sees(d, p, j)) continue;
        double dot = 0;
        read_row(c, seq, layer, j, 1, kv, row);
        for (int64_t e = 0; e < HOOK(n_dims, D); e++) dot += load(q, d->io_dtype, at + e) * row[e];
        score[j] = HOOK(score, dot * d->scale);
        most = fmax(most, score[j]);
    }
    for (int64_t e = 0; e < D; e++) o[e] = HOOK(start, 0);
    for (int64_t j = 0; j < n; j++) {
        if (score[j] == -INFINITY) continue;
        const double weight = HOOK(weight, exp(score[j] - HOOK(most, most)));
        read_row(c, seq, layer, j, 0, kv, row);
        for (int64_t e = 0; e < D; e++) o[e] += weight * row[e];
        sum = HOOK(sum, sum + weight);
        HERE(key_done);
    }
    HERE(keys_done);
    for (int64_t e = 0; e < D; e++) store(out, d->io_dtype, at + e, o[e] / sum);
    if (lse) *lse = (float)HOOK(lse, HOOK(most, most) + log(sum));
}

ts_status ts_kv_attend(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq, const int32_t *seq,
                       const int64_t *n_q, const void *q, void *out, float *lse)
{
    int64_t token = 0;
    HERE(attend);
    ts_status s = q && out ? check_list(c, x, layer, n_seq, seq, n_q) : TS_E_ARG;
    for (int64_t i = 0; i < n_seq && !s; i++)
        if (n_q[i] > HOOK(most_queries, *len_of(c, seq[i], layer))) s = TS_E_ARG;
    for (int64_t i = 0; i < n_seq && !s; i++)
        for (int64_t r = 0; r < n_q[i]; r++, token++)
            for (int64_t h = 0; h < HOOK(n_heads, c->d.n_q_head); h++) {
                const int64_t at = token * c->d.n_q_head + h;
                attend_one(c, seq[i], layer, *len_of(c, seq[i], layer) - n_q[i] + r, h, q,
                           at * c->d.head_dim, out, lse ? lse + at : NULL, aligned(x->workspace));
            }
    return s;
}

ts_status ts_kv_read(ts_kv *c, const ts_exec *x, int64_t layer, int32_t seq, int64_t from,
                     int64_t n, float *k, float *v)
{
    ts_status s = is_layer(c, layer) && x && k && v ? check_seq(c, seq) : TS_E_ARG;
    if (!s && (from < 0 || n < 0 || n > *len_of(c, seq, layer) - from)) s = TS_E_ARG;
    if (!s && x->workspace_bytes < workspace_of(&c->d)) s = TS_E_WORKSPACE;
    if (s) return s;
    const int64_t D = c->d.head_dim, H = c->d.n_kv_head;
    double *const row = aligned(x->workspace);
    for (int64_t i = 0; i < 2 * n * H; i++) {
        const int64_t at = i / 2; /* the row of a head */
        read_row(c, seq, layer, HOOK(from, from) + at / H, i % 2, at % H, row);
        for (int64_t e = 0; e < D; e++) (i % 2 ? k : v)[at * D + e] = (float)row[e];
    }
    return TS_OK;
}

ts_status ts_kv_status(const ts_kv *c, int64_t layer, int32_t seq, int64_t *len, ts_kv_usage *u)
{
    const ts_status s = is_layer(c, layer) ? check_seq(c, seq) : TS_E_ARG;
    int64_t         tokens = 0;
    if (s) return s;
    HERE(status);
    if (len) *len = *len_of(c, seq, layer);
    if (!u) return TS_OK;
    for (int64_t i = 0; i < c->d.n_seq_max; i++)
        for (int64_t l = 0; l < c->d.n_layer && c->open[i]; l++)
            tokens += HOOK(n_live, *len_of(c, i, l));
    size_t head = 2 * (size_t)c->row_bytes;
    if (c->codes) head += (size_t)(1 + c->n_group) * 2 * bytes_of(c->d.meta_dtype);
    *u = (ts_kv_usage) { c->d.n_page, c->n_free, c->bytes,
                         (size_t)(tokens * c->d.n_kv_head) * head };
    return TS_OK;
}

// SPDX-License-Identifier: Apache-2.0
// kv_cache.cu - the obvious solution on a device. The host keeps lengths and pages, and sends those
// of a call to the workspace.
#include <stdlib.h>

#include "kv_cache_kernels.cuh"

struct ts_kv {
    view           s;
    size_t         bytes;
    int64_t        n_cell, n_free;
    int32_t       *page, *n_ref; // [n_layer][n_seq_max][max_pages], [n_page]
    int64_t       *len;          // [n_layer][n_seq_max]
    unsigned char *open;
    unsigned char *sent; // what goes to the workspace
};

// ---- beginning and end ----

static void lay_out(const ts_kv_dims *d, void *memory, ts_kv *c)
{
    const int64_t g = d->key_group, H = d->n_kv_head, D = d->head_dim,
                  n_len = d->n_seq_max * d->n_layer;
    const size_t pair = 2 * (size_t)bytes_of(d->meta_dtype);
    void *const  base = memory ? aligned(memory) : NULL;
    size_t       used = 0;
    view        *s = &c->s;
    memset(c, 0, sizeof *c);
    s->d = *d;
    c->n_free = d->n_page;
    s->codes = d->store_dtype == TS_U8 || d->store_dtype == TS_U4;
    s->by_channel = s->codes && d->key_axis == TS_KEY_CHANNEL;
    s->own = s->by_channel ? (d->capacity + g - 1) / g * g : d->capacity;
    c->n_cell = d->page ? d->n_page * d->page : n_len * s->own;
    s->max_pages = d->page ? (d->capacity + d->page - 1) / d->page : 0;
    s->row_bytes = d->store_dtype == TS_U4 ? (D + 1) / 2 : D * bytes_of(d->store_dtype);
    s->n_group = s->codes && !s->by_channel ? (D + g - 1) / g : 0;
    s->k = (unsigned char *)place(base, &used, c->n_cell * H, (size_t)s->row_bytes);
    s->v = (unsigned char *)place(base, &used, c->n_cell * H, (size_t)s->row_bytes);
    s->v_meta = (unsigned char *)place(base, &used, s->codes ? c->n_cell * H : 0, pair);
    s->k_meta = (unsigned char *)place(
        base, &used, s->by_channel ? c->n_cell / g * H * D : c->n_cell * H * s->n_group, pair);
    s->tail = (unsigned char *)place(base, &used, s->by_channel ? n_len * g * H * D : 0,
                                     (size_t)bytes_of(d->io_dtype));
    c->bytes = used + ALIGN; // the memory may begin anywhere
}

static size_t pages_bytes(const ts_kv *c)
{
    return (size_t)(c->s.d.n_seq_max * c->s.max_pages) * sizeof(int32_t);
}

static size_t workspace_of(const ts_kv *c)
{
    return (size_t)c->s.d.n_seq_max * sizeof(entry) + pages_bytes(c);
}

static bool is_float(ts_dtype t)
{
    return t == TS_F32 || t == TS_BF16 || t == TS_F16;
}

static ts_status check_dims(const ts_kv_dims *d)
{
    const bool codes = d && (d->store_dtype == TS_U8 || d->store_dtype == TS_U4);
    if (!d || !(d->scale - d->scale == 0) || d->window < 0 || d->n_sink < 0) return TS_E_ARG;
    if (codes && d->key_axis != TS_KEY_TOKEN && d->key_axis != TS_KEY_CHANNEL) return TS_E_ARG;
    if (d->n_layer < 1 || d->n_seq_max < 1 || d->n_q_head < 1 || d->n_kv_head < 1)
        return TS_E_SHAPE;
    if (d->head_dim < 1 || d->capacity < 1 || d->n_q_head % d->n_kv_head) return TS_E_SHAPE;
    if (d->page < 0 || (d->page && d->n_page < 1) || d->max_call_tokens < 0) return TS_E_SHAPE;
    const double head = (double)d->head_dim, rows = (double)d->n_layer * (double)d->n_seq_max;
    if (d->n_seq_max > INT32_MAX || d->page > INT32_MAX || d->n_page > INT32_MAX ||
        rows * (double)d->capacity * (double)d->n_kv_head * head >= 0x1p58 ||
        (double)d->max_call_tokens * (double)d->n_q_head * head >= 0x1p58)
        return TS_E_SHAPE;
    if (codes && d->key_group < 1) return TS_E_SHAPE;
    if (codes && d->key_axis == TS_KEY_CHANNEL && d->page % d->key_group) return TS_E_SHAPE;
    if (d->io_dtype == TS_F64 || d->head_dim > MOST_DIM) return TS_E_UNSUPPORTED;
    if (!is_float(d->io_dtype)) return TS_E_DTYPE;
    if (codes) return d->meta_dtype == TS_F32 || d->meta_dtype == TS_F16 ? TS_OK : TS_E_DTYPE;
    return is_float(d->store_dtype) ? TS_OK : TS_E_DTYPE;
}

TS_API ts_status ts_kv_bytes(const ts_kv_dims *d, const ts_exec *x, size_t *state_bytes,
                             size_t *workspace_bytes)
{
    ts_kv           c;
    const ts_status s = check_dims(d);
    if (s) return s;
    if (!x || x->device != TS_CUDA || !state_bytes || !workspace_bytes) return TS_E_ARG;
    lay_out(d, NULL, &c);
    *state_bytes = c.bytes;
    *workspace_bytes = workspace_of(&c);
    return TS_OK;
}

TS_API ts_status ts_kv_create(const ts_kv_dims *d, const ts_exec *x, void *memory,
                              size_t memory_bytes, ts_kv **c)
{
    const ts_status s = check_dims(d);
    ts_kv           made;
    if (s) return s;
    if (!x || x->device != TS_CUDA || !memory || !c) return TS_E_ARG;
    lay_out(d, memory, &made);
    if (memory_bytes < made.bytes) return TS_E_WORKSPACE;
    const size_t n_len = (size_t)(d->n_seq_max * d->n_layer), n_page = (size_t)d->n_page;
    made.len = (int64_t *)calloc(n_len, sizeof(int64_t));
    made.page = (int32_t *)calloc(n_len * (size_t)made.s.max_pages + 1, sizeof(int32_t));
    made.n_ref = (int32_t *)calloc(n_page + 1, sizeof(int32_t));
    made.open = (unsigned char *)calloc((size_t)d->n_seq_max, 1);
    made.sent = (unsigned char *)malloc(workspace_of(&made));
    ts_kv *own = (ts_kv *)malloc(sizeof made);
    if (!made.len || !made.page || !made.n_ref || !made.open || !made.sent || !own) abort();
    *own = made;
    *c = own;
    return TS_OK;
}

TS_API ts_status ts_kv_destroy(ts_kv **c)
{
    if (!c) return TS_E_ARG;
    if (*c) {
        void *const all[] = { (*c)->len, (*c)->page, (*c)->n_ref, (*c)->open, (*c)->sent, *c };
        for (void *p : all) free(p);
    }
    *c = NULL;
    return TS_OK;
}

// ---- sequences and pages ----

static ts_status check_seq(const ts_kv *c, const ts_exec *x, int64_t seq)
{
    if (!c || !x || x->device != TS_CUDA || seq < 0 || seq >= c->s.d.n_seq_max) return TS_E_ARG;
    return c->open[seq] ? TS_OK : TS_E_STATE;
}

static int64_t *len_of(const ts_kv *c, int64_t seq, int64_t layer)
{
    return &c->len[layer * c->s.d.n_seq_max + seq];
}

static int32_t *pages_of(const ts_kv *c, int64_t seq, int64_t layer)
{
    return c->page + (layer * c->s.d.n_seq_max + seq) * c->s.max_pages;
}

static int64_t pages_for(const ts_kv *c, int64_t n)
{
    return c->s.d.page ? (n + c->s.d.page - 1) / c->s.d.page : 0;
}

static int32_t take_page(ts_kv *c)
{
    int32_t i = 0;
    while (c->n_ref[i]) i++;
    c->n_ref[i] = 1;
    c->n_free--;
    return i;
}

static void drop_page(ts_kv *c, int32_t page)
{
    if (--c->n_ref[page] == 0) c->n_free++;
}

static void copy(unsigned char *base, int64_t to, int64_t from, int64_t n, size_t each,
                 const ts_exec *x)
{
    cudaMemcpyAsync(base + (size_t)to * each, base + (size_t)from * each, (size_t)n * each,
                    cudaMemcpyDeviceToDevice, (cudaStream_t)x->stream);
}

static void copy_cells(const ts_kv *c, int64_t from, int64_t to, int64_t n, const ts_exec *x)
{
    const view   &s = c->s;
    const int64_t H = s.d.n_kv_head, g = s.by_channel ? s.d.key_group : 1;
    const size_t  pair = 2 * (size_t)bytes_of(s.d.meta_dtype);
    copy(s.k, to, from, n, (size_t)(H * s.row_bytes), x);
    copy(s.v, to, from, n, (size_t)(H * s.row_bytes), x);
    if (!s.codes) return;
    copy(s.v_meta, to, from, n, (size_t)H * pair, x);
    copy(s.k_meta, to / g, from / g, (n + g - 1) / g,
         (size_t)(s.by_channel ? H * s.d.head_dim : H * s.n_group) * pair, x);
}

TS_API ts_status ts_kv_open(ts_kv *c, const ts_exec *x, int32_t *seq)
{
    int32_t i = 0;
    if (!c || !x || x->device != TS_CUDA || !seq) return TS_E_ARG;
    while (i < c->s.d.n_seq_max && c->open[i]) i++;
    if (i == c->s.d.n_seq_max) return TS_E_CAPACITY;
    c->open[i] = 1;
    *seq = i;
    return TS_OK;
}

TS_API ts_status ts_kv_fork(ts_kv *c, const ts_exec *x, int32_t src, int32_t *dst)
{
    int32_t   to = 0;
    ts_status s = dst ? check_seq(c, x, src) : TS_E_ARG;
    if (!s) s = ts_kv_open(c, x, &to);
    for (int64_t l = 0; !s && l < c->s.d.n_layer; l++) {
        const int64_t len = *len_of(c, to, l) = *len_of(c, src, l), own = c->s.own;
        if (!c->s.d.page)
            copy_cells(c, (src * c->s.d.n_layer + l) * own, (to * c->s.d.n_layer + l) * own, len,
                       x);
        for (int64_t i = 0; i < pages_for(c, len); i++)
            c->n_ref[pages_of(c, to, l)[i] = pages_of(c, src, l)[i]]++;
        if (c->s.by_channel)
            copy(c->s.tail, to * c->s.d.n_layer + l, src * c->s.d.n_layer + l, 1,
                 (size_t)(c->s.d.key_group * c->s.d.n_kv_head * c->s.d.head_dim *
                          bytes_of(c->s.d.io_dtype)),
                 x);
    }
    if (!s) *dst = to;
    return s;
}

static void shrink(ts_kv *c, int64_t seq, int64_t layer, int64_t n)
{
    int64_t *len = len_of(c, seq, layer);
    for (int64_t i = pages_for(c, n); i < pages_for(c, *len); i++)
        drop_page(c, pages_of(c, seq, layer)[i]);
    *len = n;
}

// Sends the sequences of a call and the pages of the layer to the workspace.
static view view_of(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq, const int32_t *seq,
                    const int64_t *n)
{
    view         s = c->s;
    entry *const e = (entry *)c->sent;
    int64_t      first = 0;
    for (int64_t i = 0; i < n_seq; i++) {
        e[i].first = first, e[i].n = n[i], e[i].len = *len_of(c, seq[i], layer), e[i].seq = seq[i];
        first += n[i];
    }
    const size_t at = (size_t)s.d.n_seq_max * sizeof(entry);
    memcpy(c->sent + at, pages_of(c, 0, layer), pages_bytes(c));
    cudaMemcpyAsync(x->workspace, c->sent, workspace_of(c), cudaMemcpyHostToDevice,
                    (cudaStream_t)x->stream);
    s.e = (const entry *)x->workspace;
    s.page = (const int32_t *)((char *)x->workspace + at);
    s.layer = layer;
    s.n_entry = n_seq;
    s.n_item = first;
    return s;
}

static bool has_room(const ts_kv *c, const ts_exec *x)
{
    return x->workspace && x->workspace_bytes >= workspace_of(c);
}

TS_API ts_status ts_kv_truncate(ts_kv *c, const ts_exec *x, int32_t seq, int64_t n)
{
    ts_status s = check_seq(c, x, seq);
    for (int64_t l = 0; !s && l < c->s.d.n_layer; l++)
        if (n < 0 || n > *len_of(c, seq, l)) s = TS_E_ARG;
    if (!s && !has_room(c, x)) s = TS_E_WORKSPACE;
    for (int64_t l = 0; !s && l < c->s.d.n_layer; l++) {
        const int64_t g = c->s.d.key_group;
        if (c->s.by_channel && n < *len_of(c, seq, l) / g * g) {
            const int64_t none = 0;
            view          v = view_of(c, x, l, 1, &seq, &none);
            v.from = n / g * g;
            v.n_item = (n - v.from) * c->s.d.n_kv_head * c->s.d.head_dim;
            s = launch(keep_tail, v, v.n_item, x);
        }
        shrink(c, seq, l, n);
    }
    return s;
}

TS_API ts_status ts_kv_free(ts_kv *c, const ts_exec *x, int32_t seq)
{
    const ts_status s = check_seq(c, x, seq);
    for (int64_t l = 0; !s && l < c->s.d.n_layer; l++) shrink(c, seq, l, 0);
    if (!s) c->open[seq] = 0;
    return s;
}

// ---- tokens ----

static bool is_layer(const ts_kv *c, int64_t layer)
{
    return c && layer >= 0 && layer < c->s.d.n_layer;
}

static ts_status check_list(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                            const int32_t *seq, const int64_t *n)
{
    int64_t all = 0;
    if (!is_layer(c, layer) || !x || x->device != TS_CUDA || !seq || !n) return TS_E_ARG;
    if (n_seq < 0 || n_seq > c->s.d.n_seq_max) return TS_E_ARG;
    for (int64_t i = 0; i < n_seq; i++) {
        const ts_status s = check_seq(c, x, seq[i]);
        if (s) return s;
        for (int64_t k = 0; k < i; k++)
            if (seq[k] == seq[i]) return TS_E_ARG;
        if (n[i] < 0 || n[i] > c->s.d.max_call_tokens - all) return TS_E_ARG;
        all += n[i];
    }
    return has_room(c, x) ? TS_OK : TS_E_WORKSPACE;
}

static bool is_shared(const ts_kv *c, int64_t seq, int64_t layer)
{
    const int64_t len = *len_of(c, seq, layer), page = c->s.d.page;
    return page && len % page && c->n_ref[pages_of(c, seq, layer)[len / page]] > 1;
}

static ts_status check_capacity(const ts_kv *c, int64_t layer, int64_t n_seq, const int32_t *seq,
                                const int64_t *n)
{
    int64_t need = 0;
    for (int64_t i = 0; i < n_seq; i++) {
        const int64_t len = *len_of(c, seq[i], layer);
        if (n[i] > c->s.d.capacity - len) return TS_E_CAPACITY;
        need += pages_for(c, len + n[i]) - pages_for(c, len);
        need += n[i] && is_shared(c, seq[i], layer);
    }
    return need > c->n_free ? TS_E_CAPACITY : TS_OK;
}

static void grow(ts_kv *c, int64_t seq, int64_t layer, int64_t n, const ts_exec *x)
{
    const int64_t  len = *len_of(c, seq, layer), page = c->s.d.page;
    int32_t *const pages = pages_of(c, seq, layer);
    if (n && is_shared(c, seq, layer)) {
        const int32_t old = pages[len / page], own = take_page(c);
        copy_cells(c, old * page, own * page, page, x);
        drop_page(c, old);
        pages[len / page] = own;
    }
    for (int64_t i = pages_for(c, len); i < pages_for(c, len + n); i++) pages[i] = take_page(c);
}

TS_API ts_status ts_kv_append(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                              const int32_t *seq, const int64_t *n_new, const void *k,
                              const void *v)
{
    ts_status s = k && v ? check_list(c, x, layer, n_seq, seq, n_new) : TS_E_ARG;
    if (!s) s = check_capacity(c, layer, n_seq, seq, n_new);
    if (s) return s;
    for (int64_t i = 0; i < n_seq; i++) grow(c, seq[i], layer, n_new[i], x);
    view t = view_of(c, x, layer, n_seq, seq, n_new);
    t.in_k = k, t.in_v = v;
    t.n_item *= 2 * t.d.n_kv_head;
    s = launch(save_rows, t, t.n_item, x);
    t.n_item = n_seq * t.d.n_kv_head * ((t.d.head_dim + 1) / 2);
    if (!s && t.by_channel) s = launch(save_channels, t, t.n_item, x);
    for (int64_t i = 0; i < n_seq; i++) *len_of(c, seq[i], layer) += n_new[i];
    return s;
}

TS_API ts_status ts_kv_attend(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                              const int32_t *seq, const int64_t *n_q, const void *q, void *out,
                              float *lse)
{
    ts_status s = q && out ? check_list(c, x, layer, n_seq, seq, n_q) : TS_E_ARG;
    for (int64_t i = 0; !s && i < n_seq; i++)
        if (n_q[i] > *len_of(c, seq[i], layer)) s = TS_E_ARG;
    if (s) return s;
    view t = view_of(c, x, layer, n_seq, seq, n_q);
    t.q = q, t.out = out, t.lse = lse;
    t.n_item *= t.d.n_q_head;
    return launch(attend, t, t.n_item, x);
}

TS_API ts_status ts_kv_read(ts_kv *c, const ts_exec *x, int64_t layer, int32_t seq, int64_t from,
                            int64_t n, float *k, float *v)
{
    ts_status s = is_layer(c, layer) && k && v ? check_seq(c, x, seq) : TS_E_ARG;
    if (!s && (from < 0 || n < 0 || n > *len_of(c, seq, layer) - from)) s = TS_E_ARG;
    if (!s && !has_room(c, x)) s = TS_E_WORKSPACE;
    if (s) return s;
    view t = view_of(c, x, layer, 1, &seq, &n);
    t.from = from, t.read_k = k, t.read_v = v;
    t.n_item *= t.d.n_kv_head * t.d.head_dim;
    return launch(read_back, t, t.n_item, x);
}

TS_API ts_status ts_kv_status(const ts_kv *c, int64_t layer, int32_t seq, int64_t *len,
                              ts_kv_usage *u)
{
    int64_t tokens = 0;
    if (!c) return TS_E_ARG;
    if (len) {
        if (!is_layer(c, layer) || seq < 0 || seq >= c->s.d.n_seq_max) return TS_E_ARG;
        if (!c->open[seq]) return TS_E_STATE;
        *len = *len_of(c, seq, layer);
    }
    if (!u) return TS_OK;
    for (int64_t i = 0; i < c->s.d.n_seq_max; i++)
        for (int64_t l = 0; l < c->s.d.n_layer && c->open[i]; l++) tokens += *len_of(c, i, l);
    size_t head = 2 * (size_t)c->s.row_bytes;
    if (c->s.codes) head += (size_t)(1 + c->s.n_group) * 2 * (size_t)bytes_of(c->s.d.meta_dtype);
    u->n_page = c->s.d.n_page, u->n_free = c->n_free;
    u->bytes_reserved = c->bytes, u->bytes_live = (size_t)(tokens * c->s.d.n_kv_head) * head;
    return TS_OK;
}

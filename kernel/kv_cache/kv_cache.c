/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache.c - API entry points: validate the arguments, track lengths, and call the selected
 * implementation. */
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kv_cache_impl.h"
#include "overlap.h"

enum { ALIGN = 256 };

/* clang-format off */
const ts_impl ts_kv_cache_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, TS_HAS_FAST, NULL, NULL, "ts_kv_cache_sm90" },
    TS_SIMD_IMPLS(TS_HAS_FAST, ts_kv_cache, NULL)
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_kv_cache_ref, NULL, NULL },
    { 0 },
};
/* clang-format on */

/* ---- create and destroy ---- */

/* Computes everything about a cache except its addresses. */
static ts_status plan(const ts_kv_dims *d, const ts_exec *x, ts_kv *c, size_t *book, size_t *pools)
{
    if (!d || !x) return TS_E_ARG;
    ts_impl         row;
    const ts_kv_ask ask = { &c->ops };
    ts_status       s = ts_kv_check_dims(d);
    if (!s) s = ts_pick(ts_kv_cache_impls, x->device, d->io_dtype, &row);
    if (!s) s = row.run(&ask, x);
    if (!s) s = ts_kv_lay_out(c, d, x->device, NULL, NULL, book, pools);
    if (s) return s;
    c->state_bytes = (x->device == TS_CPU ? *book : *pools) + ALIGN;
    c->workspace_bytes = c->ops->workspace(&c->l);
    return TS_OK;
}

ts_status ts_kv_bytes(const ts_kv_dims *d, const ts_exec *x, size_t *state_bytes,
                      size_t *workspace_bytes)
{
    ts_kv  c;
    size_t book, pools;
    if (!state_bytes || !workspace_bytes) return TS_E_ARG;
    const ts_status s = plan(d, x, &c, &book, &pools);
    if (s) return s;
    *state_bytes = c.state_bytes;
    *workspace_bytes = c.workspace_bytes;
    return TS_OK;
}

static void start_empty(ts_kv *c)
{
    const ts_kv_layout *l = &c->l;
    memset(c->len, 0, (size_t)(l->n_seq_max * l->n_layer) * sizeof *c->len);
    memset(c->is_open, 0, (size_t)l->n_seq_max);
    memset(c->is_listed, 0, (size_t)l->n_seq_max);
    memset(c->n_ref, 0, (size_t)l->n_page * sizeof *c->n_ref);
    c->n_free = c->contiguous ? 0 : l->n_page;
    for (int64_t i = 0; i < c->n_free; i++) c->free_page[i] = (int32_t)(l->n_page - 1 - i);
    for (int64_t i = 0; i < l->n_seq_max * l->n_layer * l->max_pages; i++)
        c->table[i] = c->contiguous ? (int32_t)i : 0;
}

ts_status ts_kv_create(const ts_kv_dims *d, const ts_exec *x, void *memory, size_t memory_bytes,
                       ts_kv **out)
{
    ts_kv     c = { 0 };
    size_t    book, pools;
    ts_status s = plan(d, x, &c, &book, &pools);
    if (s) return s;
    if (!memory || !out) return TS_E_ARG;
    if (memory_bytes < c.state_bytes) return TS_E_WORKSPACE;
    char *const first = (char *)memory + (ALIGN - (uintptr_t)memory % ALIGN) % ALIGN;
    char *const host = x->device == TS_CPU ? first : malloc(book);
    if (!host) return TS_E_DEVICE;
    (void)ts_kv_lay_out(&c, d, x->device, host, first, &book, &pools);
    ts_kv *const made = (void *)host;
    *made = c;
    start_empty(made);
    if (c.ops->set_table)
        s = c.ops->set_table(made, x, 0, c.l.n_seq_max * c.l.n_layer * c.l.max_pages);
    if (s)
        free(host); /* only implementations with set_table can fail, and for these host is allocated
                     */
    else *out = made;
    return s;
}

ts_status ts_kv_destroy(ts_kv **c)
{
    if (!c) return TS_E_ARG;
    if (*c && (*c)->device != TS_CPU) free(*c);
    *c = NULL;
    return TS_OK;
}

/* ---- what every call checks ---- */

static ts_status check_exec(const ts_kv *c, const ts_exec *x)
{
    return c && x && x->device == c->device ? TS_OK : TS_E_ARG;
}

/* Checked last, as in every kernel. */
static ts_status check_workspace(const ts_kv *c, const ts_exec *x)
{
    if (!c->workspace_bytes) return TS_OK;
    return x->workspace && x->workspace_bytes >= c->workspace_bytes ? TS_OK : TS_E_WORKSPACE;
}

static ts_status check_seq(const ts_kv *c, int64_t seq)
{
    if (seq < 0 || seq >= c->l.n_seq_max) return TS_E_ARG;
    return c->is_open[seq] ? TS_OK : TS_E_STATE;
}

/* Lists the sequences with tokens in c->part. Reports closed ones only if all else is valid. */
static ts_status list_parts(ts_kv *c, int64_t layer, int64_t n_seq, const int32_t *seq,
                            const int64_t *n, int64_t *n_part)
{
    ts_status s = TS_OK;
    int64_t   i, n_tokens = 0;
    *n_part = 0;
    if (layer < 0 || layer >= c->l.n_layer || n_seq < 0) return TS_E_ARG;
    if (n_seq > 0 && (!seq || !n)) return TS_E_ARG;
    if (n_seq > c->l.n_seq_max) return TS_E_ARG; /* then one would be listed twice, or not exist */
    for (i = 0; i < n_seq; i++) {
        const ts_status is = check_seq(c, seq[i]);
        if (is == TS_E_ARG || c->is_listed[seq[i]]) break;
        if (n[i] < 0 || n[i] > c->l.max_call_tokens - n_tokens) break;
        c->is_listed[seq[i]] = 1;
        if (is) s = is;
        if (n[i])
            c->part[(*n_part)++] =
                (ts_kv_part) { c->len[seq[i] * c->l.n_layer + layer], n[i], n_tokens, seq[i] };
        n_tokens += n[i];
    }
    if (i < n_seq) s = TS_E_ARG;
    while (i-- > 0) c->is_listed[seq[i]] = 0;
    return s;
}

/* ---- memory of a call ---- */

/* What an implementation on the CPU keeps; that of a device is never the host's. */
static ts_span kept(const ts_kv *c)
{
    return ts_flat(c->device == TS_CPU ? c : NULL, (int64_t)c->state_bytes - ALIGN, 1);
}

static ts_span scratch(const ts_kv *c, const ts_exec *x)
{
    return ts_flat(x->workspace, (int64_t)c->workspace_bytes, 1);
}

/* Tokens of the parts, times channels of one row of a head. */
static int64_t n_channels(const ts_kv *c, int64_t n_part)
{
    const ts_kv_part *last = n_part ? &c->part[n_part - 1] : NULL;
    return last ? (last->first + last->n) * c->l.head_dim : 0;
}

static ts_status check_append(const ts_kv *c, const ts_exec *x, int64_t n_part, const void *k,
                              const void *v)
{
    const ts_dtype t = c->l.io_dtype;
    const int64_t  n = n_channels(c, n_part) * c->l.n_kv_head;
    const bool     apart =
        TS_APART(NULL, 2, kept(c), scratch(c, x), ts_vector(k, n, t), ts_vector(v, n, t));
    return apart ? TS_OK : TS_E_ARG;
}

static ts_status check_attend(const ts_kv *c, const ts_exec *x, int64_t n_part, const void *q,
                              void *out, float *lse, const ts_kv_tree *tree)
{
    const ts_kv_layout *l = &c->l;
    const ts_dtype      t = l->io_dtype;
    const int64_t       n = n_channels(c, n_part), n_q = n * l->n_q_head, n_k = n * l->n_kv_head;
    const void         *k = tree ? tree->k : NULL, *v = tree ? tree->v : NULL;
    const bool          apart = TS_APART(NULL, 3, ts_vector(out, n_q, t),
                                         ts_vector(lse, n_q / l->head_dim, TS_F32), scratch(c, x), kept(c),
                                         ts_vector(q, n_q, t), ts_vector(k, n_k, t), ts_vector(v, n_k, t));
    return apart ? TS_OK : TS_E_ARG;
}

static ts_status check_read(const ts_kv *c, const ts_exec *x, int64_t n, const float *k,
                            const float *v)
{
    const int64_t each = n * c->l.n_kv_head * c->l.head_dim;
    const bool    apart = TS_APART(NULL, 3, ts_vector(k, each, TS_F32), ts_vector(v, each, TS_F32),
                                   scratch(c, x), kept(c));
    return apart ? TS_OK : TS_E_ARG;
}

/* ---- sequences ---- */

static ts_status find_closed(const ts_kv *c, int32_t *seq)
{
    for (int64_t i = 0; i < c->l.n_seq_max; i++) {
        if (c->is_open[i]) continue;
        *seq = (int32_t)i;
        return TS_OK;
    }
    return TS_E_CAPACITY;
}

ts_status ts_kv_open(ts_kv *c, const ts_exec *x, int32_t *seq)
{
    int32_t   slot;
    ts_status s = check_exec(c, x);
    if (!s && !seq) s = TS_E_ARG;
    if (!s) s = check_workspace(c, x);
    if (!s) s = find_closed(c, &slot);
    if (s) return s;
    c->is_open[slot] = 1; /* its lengths are 0 since create or free */
    *seq = slot;
    return TS_OK;
}

/* Contiguous: copies all tokens at once. Paged: copies the table only. */
static ts_status copy_content(ts_kv *c, const ts_exec *x, int64_t src, int64_t dst)
{
    const ts_kv_layout *l = &c->l;
    const int64_t       n_entries = l->n_layer * l->max_pages;
    ts_status           s = TS_OK;
    int64_t             n_copy = 0;
    for (int64_t layer = 0; c->contiguous && layer < l->n_layer; layer++) {
        const int64_t from = src * l->n_layer + layer, to = dst * l->n_layer + layer;
        if (c->len[from]) c->copy[n_copy++] = (ts_kv_copy) { from, to, c->len[from] };
    }
    if (!c->contiguous) {
        memcpy(c->table + dst * n_entries, c->table + src * n_entries,
               (size_t)n_entries * sizeof *c->table);
        if (c->ops->set_table) s = c->ops->set_table(c, x, dst * n_entries, n_entries);
    }
    if (!s && n_copy) s = c->ops->copy_pages(c, x, n_copy, c->copy);
    if (!s && l->key_axis == TS_KEY_CHANNEL) s = c->ops->copy_tail(c, x, src, dst);
    return s;
}

ts_status ts_kv_fork(ts_kv *c, const ts_exec *x, int32_t src, int32_t *dst)
{
    int32_t   slot;
    ts_status s = check_exec(c, x);
    if (!s && !dst) s = TS_E_ARG;
    if (!s) s = check_seq(c, src);
    if (!s) s = check_workspace(c, x);
    if (!s) s = find_closed(c, &slot);
    if (!s) s = copy_content(c, x, src, slot);
    if (s) return s;
    const int64_t n = c->l.n_layer;
    if (!c->contiguous) ts_kv_book_share(c, src);
    memcpy(c->len + slot * n, c->len + src * n, (size_t)n * sizeof *c->len);
    c->is_open[slot] = 1;
    *dst = slot;
    return TS_OK;
}

static ts_status keep_tail(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t seq, int64_t n)
{
    const int64_t len = c->len[seq * c->l.n_layer + layer];
    if (n == ts_kv_tail_begin(&c->l, n) || n >= ts_kv_tail_begin(&c->l, len)) return TS_OK;
    return c->ops->fill_tail(c, x, layer, seq, n);
}

ts_status ts_kv_truncate(ts_kv *c, const ts_exec *x, int32_t seq, int64_t n)
{
    ts_status s = check_exec(c, x);
    if (!s) s = check_seq(c, seq);
    if (s) return s;
    for (int64_t i = 0; i < c->l.n_layer; i++)
        if (n < 0 || n > c->len[seq * c->l.n_layer + i]) return TS_E_ARG;
    s = check_workspace(c, x);
    for (int64_t i = 0; !s && i < c->l.n_layer; i++) s = keep_tail(c, x, i, seq, n);
    for (int64_t i = 0; !s && i < c->l.n_layer; i++) ts_kv_book_shrink(c, seq, i, n);
    return s;
}

ts_status ts_kv_free(ts_kv *c, const ts_exec *x, int32_t seq)
{
    ts_status s = check_exec(c, x);
    if (!s) s = check_seq(c, seq);
    if (!s) s = check_workspace(c, x);
    if (s) return s;
    for (int64_t i = 0; i < c->l.n_layer; i++) ts_kv_book_shrink(c, seq, i, 0);
    c->is_open[seq] = 0;
    return TS_OK;
}

/* ---- tokens ---- */

ts_status ts_kv_append(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq, const int32_t *seq,
                       const int64_t *n_new, const void *k, const void *v)
{
    int64_t   n_part, n_copy;
    ts_status s = check_exec(c, x);
    if (!s) s = list_parts(c, layer, n_seq, seq, n_new, &n_part);
    if (!s && n_part && (!k || !v)) s = TS_E_ARG;
    if (!s) s = check_append(c, x, n_part, k, v);
    if (!s) s = check_workspace(c, x);
    if (s || !n_part) return s;
    for (int64_t i = 0; i < n_part; i++)
        if (c->part[i].n > c->capacity - c->part[i].len) return TS_E_CAPACITY;
    s = ts_kv_book_reserve(c, layer, n_part, &n_copy);
    if (s) return s;
    if (n_copy) s = c->ops->copy_pages(c, x, n_copy, c->copy);
    if (!s) s = c->ops->append(c, x, layer, n_part, c->part, k, v);
    if (s) ts_kv_book_undo(c, layer, n_part, n_copy);
    for (int64_t i = 0; !s && i < n_part; i++)
        c->len[c->part[i].seq * c->l.n_layer + layer] += c->part[i].n;
    return s;
}

ts_status ts_kv_attend(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq, const int32_t *seq,
                       const int64_t *n_q, const void *q, void *out, float *lse)
{
    int64_t   n_part;
    ts_status s = check_exec(c, x);
    if (!s) s = list_parts(c, layer, n_seq, seq, n_q, &n_part);
    if (!s && n_part && (!q || !out)) s = TS_E_ARG;
    for (int64_t i = 0; !s && i < n_part; i++)
        if (c->part[i].n > c->part[i].len) s = TS_E_ARG;
    if (!s) s = check_attend(c, x, n_part, q, out, lse, NULL);
    if (!s) s = check_workspace(c, x);
    if (s || !n_part) return s;
    return c->ops->attend(c, x, layer, n_part, c->part, q, out, lse);
}

/* Parents come before their children, in each part. */
static int is_tree(const ts_kv_part *p, const int32_t *parent)
{
    for (int64_t i = 0; i < p->n; i++)
        if (parent[p->first + i] < -1 || parent[p->first + i] >= i) return 0;
    return 1;
}

ts_status ts_kv_attend_tree(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                            const int32_t *seq, const int64_t *n_row, const ts_kv_tree *tree,
                            const void *q, void *out, float *lse)
{
    int64_t   n_part;
    ts_status s = check_exec(c, x);
    if (!s) s = list_parts(c, layer, n_seq, seq, n_row, &n_part);
    if (!s && n_part && (!tree || !tree->parent || !tree->k || !tree->v || !q || !out))
        s = TS_E_ARG;
    for (int64_t i = 0; !s && i < n_part; i++)
        if (!is_tree(&c->part[i], tree->parent)) s = TS_E_ARG;
    if (!s && !c->ops->attend_tree) s = TS_E_UNSUPPORTED;
    if (!s) s = check_attend(c, x, n_part, q, out, lse, tree);
    if (!s) s = check_workspace(c, x);
    if (s || !n_part) return s;
    return c->ops->attend_tree(c, x, layer, n_part, c->part, tree, q, out, lse);
}

ts_status ts_kv_read(ts_kv *c, const ts_exec *x, int64_t layer, int32_t seq, int64_t from,
                     int64_t n, float *k, float *v)
{
    ts_status s = check_exec(c, x);
    if (!s && (layer < 0 || layer >= c->l.n_layer)) s = TS_E_ARG;
    if (!s) s = check_seq(c, seq);
    if (s) return s;
    const int64_t len = c->len[seq * c->l.n_layer + layer];
    if (from < 0 || n < 0 || n > len || from > len - n) return TS_E_ARG;
    if (n && (!k || !v)) return TS_E_ARG;
    s = check_read(c, x, n, k, v);
    if (!s) s = check_workspace(c, x);
    return s || !n ? s : c->ops->read(c, x, layer, seq, len, from, n, k, v);
}

ts_status ts_kv_status(const ts_kv *c, int64_t layer, int32_t seq, int64_t *len, ts_kv_usage *u)
{
    if (!c) return TS_E_ARG;
    if (len) { /* usage is that of the whole cache, and defined even if no sequence is open */
        const ts_status s = layer < 0 || layer >= c->l.n_layer ? TS_E_ARG : check_seq(c, seq);
        if (s) return s;
        *len = c->len[seq * c->l.n_layer + layer];
    }
    if (u) ts_kv_book_usage(c, u);
    return TS_OK;
}

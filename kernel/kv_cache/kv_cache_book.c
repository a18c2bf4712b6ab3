/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_book.c - page bookkeeping: which sequences use which page. A page is free, and then on
 * the stack of free pages, or used by n_ref sequences; a shared page is never written. */
#include <string.h>

#include "dtype.h"
#include "kv_cache_impl.h"

static int32_t *pages_of(const ts_kv *c, int64_t seq, int64_t layer)
{
    return c->table + (seq * c->l.n_layer + layer) * c->l.max_pages;
}

static int64_t count_pages(const ts_kv *c, int64_t n_tokens)
{
    return (n_tokens + c->l.page - 1) / c->l.page;
}

static int32_t take_page(ts_kv *c)
{
    const int32_t page = c->free_page[--c->n_free];
    c->n_ref[page] = 1;
    return page;
}

static void drop_page(ts_kv *c, int32_t page)
{
    if (--c->n_ref[page] == 0) c->free_page[c->n_free++] = page;
}

ts_status ts_kv_book_reserve(ts_kv *c, int64_t layer, int64_t n_part, int64_t *n_copy)
{
    *n_copy = 0;
    if (c->contiguous) return TS_OK;
    for (int64_t i = 0; i < n_part; i++) {
        const ts_kv_part *p = &c->part[i];
        int32_t          *pages = pages_of(c, p->seq, layer);
        const int64_t     have = count_pages(c, p->len), want = count_pages(c, p->len + p->n);
        const int64_t     begun = p->len % c->l.page; /* tokens in the page that is written first */
        const int         copies = begun && c->n_ref[pages[have - 1]] > 1;
        if (want - have + copies > c->n_free) {
            ts_kv_book_undo(c, layer, i, *n_copy);
            return TS_E_CAPACITY;
        }
        if (copies) {
            const int32_t from = pages[have - 1];
            pages[have - 1] = take_page(c);
            c->n_ref[from]--;
            c->copy[(*n_copy)++] = (ts_kv_copy) { from, pages[have - 1], begun };
        }
        for (int64_t j = have; j < want; j++) pages[j] = take_page(c);
    }
    return TS_OK;
}

/* Backwards, which leaves even the order of the free pages as it was. */
void ts_kv_book_undo(ts_kv *c, int64_t layer, int64_t n_part, int64_t n_copy)
{
    if (c->contiguous) return;
    for (int64_t i = n_part; i-- > 0;) {
        const ts_kv_part *p = &c->part[i];
        int32_t          *pages = pages_of(c, p->seq, layer);
        const int64_t     have = count_pages(c, p->len), want = count_pages(c, p->len + p->n);
        for (int64_t j = want; j-- > have;) drop_page(c, pages[j]);
        if (have && n_copy && c->copy[n_copy - 1].to == pages[have - 1]) {
            drop_page(c, pages[have - 1]);
            pages[have - 1] = (int32_t)c->copy[--n_copy].from;
            c->n_ref[pages[have - 1]]++;
        }
    }
}

/* All pages of src are held once more. */
void ts_kv_book_share(ts_kv *c, int64_t src)
{
    for (int64_t layer = 0; layer < c->l.n_layer; layer++) {
        const int32_t *from = pages_of(c, src, layer);
        const int64_t  n = count_pages(c, c->len[src * c->l.n_layer + layer]);
        for (int64_t j = 0; j < n; j++) c->n_ref[from[j]]++;
    }
}

void ts_kv_book_shrink(ts_kv *c, int64_t seq, int64_t layer, int64_t n)
{
    int64_t *len = &c->len[seq * c->l.n_layer + layer];
    if (!c->contiguous)
        for (int64_t j = count_pages(c, *len); j-- > count_pages(c, n);)
            drop_page(c, pages_of(c, seq, layer)[j]);
    *len = n;
}

/* Bytes of `n` tokens of a page; of keys those in finished groups alone. */
static size_t page_bytes(const ts_kv_layout *l, int64_t n)
{
    const int     codes = ts_kv_code_bits(l) != 0;
    const int64_t pair = 2 * (int64_t)ts_format_of(l->meta_dtype)->n_bytes;
    const int64_t v = n * (l->row_bytes + (codes ? pair : 0));
    int64_t       k = n * (l->row_bytes + l->n_group * pair);
    if (l->key_axis == TS_KEY_CHANNEL)
        k = n / l->key_group * (l->key_group * l->row_bytes + l->head_dim * pair);
    return (size_t)((k + v) * l->n_kv_head);
}

/* A shared page is counted once, with the most tokens that a sequence has in it. */
void ts_kv_book_usage(const ts_kv *c, ts_kv_usage *u)
{
    const ts_kv_layout *l = &c->l;
    const int64_t       tail_row =
        l->n_kv_head * l->head_dim * (int64_t)ts_format_of(l->io_dtype)->n_bytes;
    size_t live = 0;
    memset(c->n_held, 0, (size_t)l->n_page * sizeof *c->n_held);
    for (int64_t i = 0; i < l->n_seq_max * l->n_layer; i++) {
        const int64_t len = c->len[i];
        for (int64_t j = 0; j * l->page < len; j++) {
            const int64_t n = len - j * l->page < l->page ? len - j * l->page : l->page;
            int32_t      *held = &c->n_held[c->table[i * l->max_pages + j]];
            if (n > *held) *held = (int32_t)n;
        }
        live += (size_t)((len - ts_kv_tail_begin(l, len)) * tail_row);
    }
    for (int64_t j = 0; j < l->n_page; j++) live += page_bytes(l, c->n_held[j]);
    *u = (ts_kv_usage) { c->contiguous ? 0 : l->n_page, c->n_free, c->state_bytes, live };
}

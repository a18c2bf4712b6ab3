/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_model.c - the expected observations of a script, from a list of tokens per sequence and
 * layer.
 *
 * A token is only the rows of its key and value; everything is computed from them again whenever it
 * is needed. Attention is in kv_cache_attend.c. */
#include <math.h>
#include <stdlib.h>

#include "dtype.h"
#include "kv_cache_model.h"

/* ---- state ---- */

static kv_seq *seq_of(kv_cache *c, int32_t slot)
{
    return &c->seq[slot];
}

static void *take(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    if (!p) abort();
    return p;
}

static void make_room(kv_cache *c, kv_seq *q)
{
    const int64_t n = c->d->capacity, n_page = c->d->page ? n / c->d->page + 1 : 0;
    for (int64_t l = 0; l < c->d->n_layer; l++) {
        q->token[l] = take((size_t)n, sizeof **q->token);
        q->page[l] = take((size_t)n_page, sizeof **q->page);
        q->len[l] = 0;
    }
    q->open = true;
    c->n_open++;
}

static int64_t pages(const kv_cache *c, int64_t len)
{
    return c->d->page ? (len + c->d->page - 1) / c->d->page : 0;
}

static void let_go(kv_cache *c, int32_t page)
{
    if (--c->n_held[page]) return;
    c->n_free++;
    if (page < c->least_free) c->least_free = page;
}

static int32_t hold_free(kv_cache *c)
{
    while (c->n_held[c->least_free]) c->least_free++;
    c->n_held[c->least_free] = 1;
    c->n_free--;
    return c->least_free;
}

static void cut(kv_cache *c, kv_seq *q, int64_t l, int64_t n)
{
    for (int64_t i = pages(c, n); i < pages(c, q->len[l]); i++) let_go(c, q->page[l][i]);
    q->len[l] = n;
}

static void close_seq(kv_cache *c, kv_seq *q)
{
    for (int64_t l = 0; l < c->d->n_layer; l++) {
        cut(c, q, l, 0);
        free(q->token[l]);
        free(q->page[l]);
    }
    *q = (kv_seq) { .open = false };
    c->n_open--;
}

/* ---- operations: the status, and the change if it is TS_OK ---- */

static ts_status open_seq(kv_cache *c, int32_t slot)
{
    if (c->n_open == c->d->n_seq_max) return TS_E_CAPACITY;
    make_room(c, seq_of(c, slot));
    return TS_OK;
}

static ts_status fork_seq(kv_cache *c, int32_t from, int32_t slot)
{
    const kv_seq *src = seq_of(c, from);
    kv_seq       *q = seq_of(c, slot);
    if (!src->open) return TS_E_STATE;
    if (c->n_open == c->d->n_seq_max) return TS_E_CAPACITY;
    make_room(c, q);
    c->forked = true;
    for (int64_t l = 0; l < c->d->n_layer; l++) {
        q->len[l] = src->len[l];
        for (int64_t i = 0; i < q->len[l]; i++) q->token[l][i] = src->token[l][i];
        for (int64_t i = 0; i < pages(c, q->len[l]); i++)
            c->n_held[q->page[l][i] = src->page[l][i]]++;
    }
    return TS_OK;
}

static ts_status free_seq(kv_cache *c, int32_t slot)
{
    if (!seq_of(c, slot)->open) return TS_E_STATE;
    close_seq(c, seq_of(c, slot));
    return TS_OK;
}

static bool by_channel(const kv_cache *c)
{
    return ts_kv_is_code(c->d->store_dtype) && c->d->key_axis == TS_KEY_CHANNEL;
}

/* Of a finished group that is cut, what was last read of its keys is what is left of them. */
static ts_status truncate_seq(kv_cache *c, int32_t slot, int64_t n)
{
    kv_seq *q = seq_of(c, slot);
    if (!q->open) return TS_E_STATE;
    for (int64_t l = 0; l < c->d->n_layer; l++)
        if (n > q->len[l]) return TS_E_ARG;
    for (int64_t l = 0; l < c->d->n_layer; l++) {
        const int64_t g = c->d->key_group;
        if (by_channel(c) && n % g && n / g * g + g <= q->len[l])
            for (int64_t i = n / g * g; i < n; i++) {
                q->token[l][i].key_back = q->token[l][i].key_read;
                q->token[l][i].key_read = 0;
                q->token[l][i].cut = true;
            }
        cut(c, q, l, n);
    }
    return TS_OK;
}

static bool listed_twice(const ts_kv_item *item, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < i; k++)
            if (item[i].slot == item[k].slot) return true;
    return false;
}

static ts_status sound_list(kv_cache *c, const ts_kv_op *o, const ts_kv_item *item)
{
    for (int32_t i = 0; i < o->n_item; i++)
        if (!seq_of(c, item[i].slot)->open) return TS_E_STATE;
    return listed_twice(item, o->n_item) ? TS_E_ARG : TS_OK;
}

/* The last page is written to though it is held twice. */
static bool copies_page(const kv_cache *c, const kv_seq *q, int64_t l, int64_t n)
{
    return c->d->page && n && q->len[l] % c->d->page &&
           c->n_held[q->page[l][q->len[l] / c->d->page]] > 1;
}

static ts_status room_for(kv_cache *c, const ts_kv_op *o, const ts_kv_item *item)
{
    int64_t need = 0;
    for (int32_t i = 0; i < o->n_item; i++) {
        const kv_seq *q = seq_of(c, item[i].slot);
        const int64_t len = q->len[o->layer];
        if (len + item[i].n > c->d->capacity) return TS_E_CAPACITY;
        need += pages(c, len + item[i].n) - pages(c, len) + copies_page(c, q, o->layer, item[i].n);
    }
    return need > c->n_free ? TS_E_CAPACITY : TS_OK;
}

static ts_status append(kv_cache *c, const ts_kv_op *o, const ts_kv_item *item)
{
    int64_t   row = o->data;
    ts_status s = o->how & TS_KV_MANY ? TS_E_ARG : sound_list(c, o, item);
    if (!s) s = room_for(c, o, item);
    for (int32_t i = 0; i < o->n_item && !s; i++) {
        kv_seq       *q = seq_of(c, item[i].slot);
        const int64_t l = o->layer, len = q->len[l], g = c->d->key_group;
        if (copies_page(c, q, l, item[i].n)) {
            int32_t *page = &q->page[l][len / c->d->page];
            let_go(c, *page);
            *page = hold_free(c);
        }
        q->len[l] += item[i].n;
        for (int64_t k = pages(c, len); k < pages(c, q->len[l]); k++) q->page[l][k] = hold_free(c);
        for (int64_t k = len; k < q->len[l]; k++) q->token[l][k] = (kv_token) { .row = row++ };
        /* A group that is finished now is read back otherwise than before. */
        for (int64_t k = by_channel(c) && item[i].n ? len / g * g : len; k < len; k++)
            q->token[l][k].key_read = 0;
    }
    return s;
}

static ts_status may_attend(kv_cache *c, const ts_kv_op *o, const ts_kv_item *item)
{
    const ts_status s = o->how & TS_KV_INVALID ? TS_E_ARG : sound_list(c, o, item);
    if (s) return s;
    for (int32_t i = 0; i < o->n_item && o->what == TS_KV_ATTEND; i++)
        if (item[i].n > seq_of(c, item[i].slot)->len[o->layer]) return TS_E_ARG;
    return o->how & TS_KV_SHORT ? TS_E_WORKSPACE : TS_OK;
}

static ts_status may_read(kv_cache *c, const ts_kv_op *o, const ts_kv_item *item)
{
    const kv_seq *q = seq_of(c, item->slot);
    if (!q->open) return TS_E_STATE;
    return o->from + item->n > q->len[o->layer] ? TS_E_ARG : TS_OK;
}

/* ---- what is seen ---- */

/* Refused, by whatever name: the contract gives none. */
static const ts_want any_error = { (TS_E_ARG + TS_E_DEVICE) / 2.0, (TS_E_DEVICE - TS_E_ARG) / 2.0 };

/* Of whole numbers, so that the ends themselves are within. */
static ts_want between(double lo, double hi)
{
    lo = floor(lo), hi = ceil(hi);
    return (ts_want) { (lo + hi) / 2, (hi - lo) / 2 };
}

/* Bytes of `tokens` tokens: data alone; and with metadata, bytes that are filled up, and the tails
 * of `n_tail` sequences and layers. */
static void bytes_of(const ts_kv_dims *d, double tokens, double n_tail, double *least, double *most)
{
    const bool   codes = ts_kv_is_code(d->store_dtype);
    const double heads = tokens * (double)d->n_kv_head, D = (double)d->head_dim;
    const double meta = d->meta_dtype == TS_F16 ? 2 : 4, g = (double)d->key_group;
    const double bits = d->store_dtype == TS_U8 ? 8 : 4;
    if (!codes) {
        *least = *most = 2 * heads * D * (double)ts_format_of(d->store_dtype)->n_bytes;
        return;
    }
    const double key_meta = d->key_axis == TS_KEY_TOKEN ? ceil(D / g) : D / g;
    *least = 2 * heads * D * bits / 8;
    *most = 2 * heads * ceil(D * bits / 8) + heads * 2 * meta * (1 + key_meta);
    if (d->key_axis == TS_KEY_CHANNEL)
        *most += n_tail * (double)d->n_kv_head * D *
                 (g * (double)ts_kv_io_bytes(d) + 2 * meta); /* and a group that is begun */
}

/* Keys quantised by channel come in groups of tokens: reserving whole groups is legitimate. */
ts_want ts_kv_want_state(const ts_kv_dims *d)
{
    const bool   by_channel = ts_kv_is_code(d->store_dtype) && d->key_axis == TS_KEY_CHANNEL;
    const double g = by_channel ? (double)d->key_group : 1, capacity = (double)d->capacity;
    const double seqs = (double)(d->n_layer * d->n_seq_max), pool = (double)(d->n_page * d->page);
    const double tables =
        d->page ? 8 * (seqs * ceil(capacity / (double)d->page) + (double)d->n_page) : 0;
    double least, most, unused;
    bytes_of(d, d->page ? pool : seqs * capacity, seqs, &least, &unused);
    bytes_of(d, d->page ? pool : seqs * ceil(capacity / g) * g, seqs, &unused, &most);
    return between(least, 1.05 * (most + tables) + 65536);
}

/* Of each layer the longest sequence: tokens that are not shared in any way. */
static double tokens_apart(const kv_cache *c)
{
    double all = 0;
    for (int64_t l = 0; l < c->d->n_layer; l++) {
        int64_t most = 0;
        for (int32_t i = 0; i < TS_KV_SLOTS; i++)
            if (c->seq[i].open && c->seq[i].len[l] > most) most = c->seq[i].len[l];
        all += (double)most;
    }
    return all;
}

/* Once there was a fork, whether tokens that are held twice count twice is open. */
static void want_usage(const kv_cache *c, ts_want *seen)
{
    double tokens = 0, tails = 0, least, most, unused;
    for (int32_t i = 0; i < TS_KV_SLOTS; i++)
        for (int64_t l = 0; l < c->d->n_layer && c->seq[i].open; l++)
            tokens += (double)c->seq[i].len[l], tails++;
    bytes_of(c->d, tokens, tails, &least, &most);
    if (c->forked) bytes_of(c->d, tokens_apart(c), 0, &least, &unused);
    const bool paged = c->d->page > 0;
    seen[2] = (ts_want) { (double)c->d->n_page, paged ? 0 : INFINITY };
    seen[3] = (ts_want) { (double)c->n_free, paged ? 0 : INFINITY };
    seen[4] = between(least, most);
    seen[5] = ts_kv_want_state(c->d);
}

static ts_status status(const kv_cache *c, const ts_kv_op *o, int32_t slot, ts_want *seen)
{
    const kv_seq *q = &c->seq[slot];
    seen[1].value = q->open ? (double)q->len[o->layer] : TS_KV_UNSEEN;
    if (!q->open) return TS_E_STATE;
    want_usage(c, seen);
    return TS_OK;
}

static void created(const kv_cache *c, ts_want *seen)
{
    seen[1] = ts_kv_want_state(c->d);
    seen[2] = any_error;
}

/* ---- the script ---- */

static ts_status observe(kv_model *m, const ts_kv_op *o, const ts_kv_item *item,
                         const int32_t *word, ts_want *seen)
{
    kv_cache *c = &m->cache[o->cache];
    ts_status s;
    switch (o->what) {
    case TS_KV_SIZE:
        created(c, seen);
        return TS_OK;
    case TS_KV_OPEN:
    case TS_KV_FORK:
        s = o->what == TS_KV_OPEN ? open_seq(c, item->slot)
                                  : fork_seq(c, item[0].slot, item[1].slot);
        seen[1] = (ts_want) { TS_KV_UNSEEN, s ? 0 : INFINITY };
        return s;
    case TS_KV_TRUNCATE:
        return truncate_seq(c, item->slot, item->n);
    case TS_KV_FREE:
        return free_seq(c, item->slot);
    case TS_KV_APPEND:
        return append(c, o, item);
    case TS_KV_ATTEND:
        s = may_attend(c, o, item);
        ts_kv_model_attend(m, o, item, !s);
        return s;
    case TS_KV_TREE:
        s = may_attend(c, o, item);
        ts_kv_model_tree(m, o, item, word, !s);
        return s;
    case TS_KV_READ:
        s = may_read(c, o, item);
        ts_kv_model_read(m, o, item, !s);
        return s;
    case TS_KV_STATUS:
        return status(c, o, item->slot, seen);
    case TS_KV_WRONG:
        return TS_E_ARG;
    default:
        return TS_OK;
    }
}

void ts_kv_model(const ts_kv_cache_args *a, const ts_kv_script *s, const float *read, ts_want *want)
{
    kv_model      *m = take(1, sizeof *m);
    const int32_t *at = a->script;
    ts_want       *seen = want;
    *m = (kv_model) { .a = a, .d = &a->dims[0], .read = read };
    m->want_read = seen + s->n_op * TS_KV_SEEN;
    m->want_out = m->want_read + s->n_read * m->d->n_kv_head * m->d->head_dim;
    m->want_lse = m->want_out + s->n_out * m->d->n_q_head * m->d->head_dim;
    m->one_in = a->staged || s->flops < MOST_FLOPS ? 1 : (uint64_t)(s->flops / MOST_FLOPS) + 1;
    for (int64_t i = 0; i < a->n_cache; i++) {
        kv_cache *c = &m->cache[i];
        c->d = &a->dims[i];
        c->n_free = c->d->n_page;
        c->n_held = take((size_t)c->d->n_page, sizeof *c->n_held);
    }
    for (int64_t i = 0; i < a->n_op; i++, seen += TS_KV_SEEN) {
        ts_kv_op   o;
        ts_kv_item item[TS_KV_ITEMS];
        memcpy(&o, at, sizeof o);
        memcpy(item, at + sizeof o / sizeof *at, (size_t)o.n_item * sizeof *item);
        at += ts_kv_op_words(&o);
        for (int k = 0; k < TS_KV_SEEN; k++) seen[k] = (ts_want) { 0, 0 };
        seen[0].value = observe(m, &o, item, at - (o.what == TS_KV_TREE ? o.from : 0), seen);
        const bool named = seen[0].value != TS_E_ARG || listed_twice(item, o.n_item) ||
                           (o.what == TS_KV_ATTEND && !(o.how & TS_KV_MANY)) ||
                           (o.how & TS_KV_INVALID && !(o.how & TS_KV_MANY)) ||
                           (o.what == TS_KV_WRONG &&
                            o.from < ts_kv_wrong_ways(o.data) - ts_kv_wrong_sequences(o.data));
        if (!named) seen[0] = any_error;
    }
    for (int64_t i = 0; i < a->n_cache; i++) {
        for (int32_t k = 0; k < TS_KV_SLOTS; k++)
            if (m->cache[i].seq[k].open) close_seq(&m->cache[i], &m->cache[i].seq[k]);
        free(m->cache[i].n_held);
    }
    free(m);
}

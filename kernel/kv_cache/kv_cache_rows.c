/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_rows.c - rows are stored, coded, read back and copied: in plain C, for every dtype, by
 * every implementation on the CPU. */
#include <math.h>
#include <string.h>

#include "dtype.h"
#include "kv_cache_impl.h"

enum { LINE = 64 };

/* ---- codes: a group is n elements, `stride` apart ---- */

typedef struct pair {
    float s, lo;
} pair;

static pair load_pair(const char *meta, ts_dtype t, int64_t i)
{
    return (pair) { (float)ts_load(meta, t, 2 * i), (float)ts_load(meta, t, 2 * i + 1) };
}

/* The pair that a group is coded with, as it is kept: codes are made with the rounded one. A group
 * that is not finite is kept as NaN. */
static pair make_pair(const void *x, ts_dtype t, int64_t at, int64_t stride, int64_t n, int bits,
                      char *meta, ts_dtype meta_dtype, int64_t i)
{
    double lo = INFINITY, hi = -INFINITY;
    int    finite = 1;
    for (int64_t j = 0; j < n; j++) {
        const double v = ts_load(x, t, at + j * stride);
        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
        finite &= isfinite(v) != 0;
    }
    ts_store(meta, meta_dtype, 2 * i, finite ? (hi - lo) / ((1 << bits) - 1) : NAN);
    ts_store(meta, meta_dtype, 2 * i + 1, finite ? lo : NAN);
    return load_pair(meta, meta_dtype, i);
}

static void put_code(char *row, int bits, int64_t d, pair m, double x)
{
    const double q = m.s > 0 ? rint((x - (double)m.lo) / (double)m.s) : 0;
    const int    top = (1 << bits) - 1;
    const int    code = q > 0 ? (q < top ? (int)q : top) : 0;
    if (bits == 8) row[d] = (char)code;
    else row[d / 2] = (char)(d % 2 ? (row[d / 2] & 0x0f) | code << 4 : code);
}

static double get_code(const char *row, int bits, int64_t d, pair m)
{
    const int   byte = (unsigned char)row[bits == 8 ? d : d / 2];
    const float q = (float)(bits == 8 ? byte : d % 2 ? byte >> 4 : byte & 0x0f);
    return (double)(m.lo + q * m.s);
}

/* ---- one row ---- */

ts_kv_view ts_kv_view_of(const ts_kv *c, int64_t layer, int64_t seq, int64_t len)
{
    return (ts_kv_view) { &c->l, ts_kv_pages(&c->l, c->table, seq, layer), seq, layer,
                          ts_kv_tail_begin(&c->l, len) };
}

void ts_kv_key(const ts_kv_view *s, int64_t head, int64_t p, double *row)
{
    const ts_kv_layout *l = s->l;
    const int           bits = ts_kv_code_bits(l);
    if (l->key_axis == TS_KEY_CHANNEL && p >= s->tail_begin) {
        const int64_t at = ts_kv_tail_at(l, s->seq, s->layer, head, p);
        for (int64_t d = 0; d < l->head_dim; d++) row[d] = ts_load(l->tail, l->io_dtype, at + d);
        return;
    }
    const int64_t page = s->pages[p / l->page];
    const char   *data = l->k_data + ts_kv_row(l, page, head, p % l->page) * l->row_bytes;
    for (int64_t d = 0; d < l->head_dim; d++) {
        if (!bits) row[d] = ts_load(data, l->store_dtype, d);
        else {
            const int64_t i = ts_kv_key_pair(l, page, head, p % l->page, d);
            row[d] = get_code(data, bits, d, load_pair(l->k_meta, l->meta_dtype, i));
        }
    }
}

void ts_kv_value(const ts_kv_view *s, int64_t head, int64_t p, double *row)
{
    const ts_kv_layout *l = s->l;
    const int           bits = ts_kv_code_bits(l);
    const int64_t       i = ts_kv_row(l, s->pages[p / l->page], head, p % l->page);
    const char         *data = l->v_data + i * l->row_bytes;
    const pair          m = bits ? load_pair(l->v_meta, l->meta_dtype, i) : (pair) { 0, 0 };
    for (int64_t d = 0; d < l->head_dim; d++)
        row[d] = bits ? get_code(data, bits, d, m) : ts_load(data, l->store_dtype, d);
}

/* ---- a row that is not stored ---- */

/* n codes' worth of x[at..], with a pair of their own, read back. */
static void pass_codes(const ts_kv_layout *l, const void *x, int64_t at, int64_t n, double *row)
{
    const int  bits = ts_kv_code_bits(l);
    float      meta[2]; /* room for one pair of any meta_dtype */
    const pair m = make_pair(x, l->io_dtype, at, 1, n, bits, (char *)meta, l->meta_dtype, 0);
    for (int64_t d = 0; d < n; d++) {
        char code;
        put_code(&code, bits, 0, m, ts_load(x, l->io_dtype, at + d));
        row[d] = get_code(&code, bits, 0, m);
    }
}

static void pass_floats(const ts_kv_layout *l, ts_dtype store, const void *x, int64_t at,
                        double *row)
{
    for (int64_t d = 0; d < l->head_dim; d++) {
        double room; /* for one of any dtype */
        ts_store(&room, store, 0, ts_load(x, l->io_dtype, at + d));
        row[d] = ts_load(&room, store, 0);
    }
}

void ts_kv_as_key(const ts_kv_layout *l, const void *x, int64_t at, double *row)
{
    const int64_t D = l->head_dim;
    if (l->key_axis == TS_KEY_CHANNEL) pass_floats(l, l->io_dtype, x, at, row);
    else if (!ts_kv_code_bits(l)) pass_floats(l, l->store_dtype, x, at, row);
    else
        for (int64_t d = 0; d < D; d += l->key_group)
            pass_codes(l, x, at + d, D - d < l->key_group ? D - d : l->key_group, row + d);
}

void ts_kv_as_value(const ts_kv_layout *l, const void *x, int64_t at, double *row)
{
    if (ts_kv_code_bits(l)) pass_codes(l, x, at, l->head_dim, row);
    else pass_floats(l, l->store_dtype, x, at, row);
}

/* ---- append ---- */

static void put_value(const ts_kv_view *s, int64_t head, int64_t p, const void *v, int64_t at)
{
    const ts_kv_layout *l = s->l;
    const int           bits = ts_kv_code_bits(l);
    const int64_t       i = ts_kv_row(l, s->pages[p / l->page], head, p % l->page);
    char               *data = l->v_data + i * l->row_bytes;
    pair                m = { 0, 0 };
    if (bits) m = make_pair(v, l->io_dtype, at, 1, l->head_dim, bits, l->v_meta, l->meta_dtype, i);
    for (int64_t d = 0; d < l->head_dim; d++) {
        const double e = ts_load(v, l->io_dtype, at + d);
        if (bits) put_code(data, bits, d, m, e);
        else ts_store(data, l->store_dtype, d, e);
    }
}

static void put_key(const ts_kv_view *s, int64_t head, int64_t p, const void *k, int64_t at)
{
    const ts_kv_layout *l = s->l;
    const int           bits = ts_kv_code_bits(l);
    const int64_t       page = s->pages[p / l->page];
    char               *data = l->k_data + ts_kv_row(l, page, head, p % l->page) * l->row_bytes;
    pair                m = { 0, 0 };
    for (int64_t d = 0; d < l->head_dim; d++) {
        const double e = ts_load(k, l->io_dtype, at + d);
        if (bits && d % l->key_group == 0) {
            const int64_t n = l->head_dim - d < l->key_group ? l->head_dim - d : l->key_group;
            m = make_pair(k, l->io_dtype, at + d, 1, n, bits, l->k_meta, l->meta_dtype,
                          ts_kv_key_pair(l, page, head, p % l->page, d));
        }
        if (bits) put_code(data, bits, d, m, e);
        else ts_store(data, l->store_dtype, d, e);
    }
}

/* The group of tokens from p on is complete: from the tail into the page. */
static void finish_group(const ts_kv_view *s, int64_t head, int64_t p)
{
    const ts_kv_layout *l = s->l;
    const int           bits = ts_kv_code_bits(l);
    const int64_t       page = s->pages[p / l->page], D = l->head_dim;
    const int64_t       at = ts_kv_tail_at(l, s->seq, s->layer, head, p);
    char               *data = l->k_data + ts_kv_row(l, page, head, p % l->page) * l->row_bytes;
    for (int64_t d = 0; d < D; d++) {
        const pair m = make_pair(l->tail, l->io_dtype, at + d, D, l->key_group, bits, l->k_meta,
                                 l->meta_dtype, ts_kv_key_pair(l, page, head, p % l->page, d));
        for (int64_t j = 0; j < l->key_group; j++)
            put_code(data + j * l->row_bytes, bits, d, m,
                     ts_load(l->tail, l->io_dtype, at + j * D + d));
    }
}

static void put_tail(const ts_kv_view *s, int64_t head, int64_t p, const void *k, int64_t at)
{
    const ts_kv_layout *l = s->l;
    const size_t        size = ts_format_of(l->io_dtype)->n_bytes;
    memcpy(l->tail + (size_t)ts_kv_tail_at(l, s->seq, s->layer, head, p) * size,
           (const char *)k + (size_t)at * size, (size_t)l->head_dim * size);
    if ((p + 1) % l->key_group == 0) finish_group(s, head, p + 1 - l->key_group);
}

ts_status ts_kv_rows_append(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                            const ts_kv_part *part, const void *k, const void *v)
{
    const int64_t H = c->l.n_kv_head, D = c->l.head_dim;
    (void)x;
    for (int64_t i = 0; i < n_part; i++) {
        const ts_kv_view s = ts_kv_view_of(c, layer, part[i].seq, part[i].len);
        for (int64_t j = 0; j < part[i].n * H; j++) {
            const int64_t p = part[i].len + j / H, head = j % H, at = (part[i].first * H + j) * D;
            put_value(&s, head, p, v, at);
            if (c->l.key_axis == TS_KEY_CHANNEL) put_tail(&s, head, p, k, at);
            else put_key(&s, head, p, k, at);
        }
    }
    return TS_OK;
}

/* ---- read and copy ---- */

double *ts_kv_scratch(const ts_exec *x)
{
    return (void *)((char *)x->workspace + (LINE - (uintptr_t)x->workspace % LINE) % LINE);
}

ts_status ts_kv_rows_read(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t seq, int64_t len,
                          int64_t from, int64_t n, float *k, float *v)
{
    const ts_kv_view s = ts_kv_view_of(c, layer, seq, len);
    const int64_t    H = c->l.n_kv_head, D = c->l.head_dim;
    double          *row = ts_kv_scratch(x);
    for (int64_t j = 0; j < n * H; j++) {
        ts_kv_key(&s, j % H, from + j / H, row);
        for (int64_t d = 0; d < D; d++) k[j * D + d] = (float)row[d];
        ts_kv_value(&s, j % H, from + j / H, row);
        for (int64_t d = 0; d < D; d++) v[j * D + d] = (float)row[d];
    }
    return TS_OK;
}

static void copy_rows(char *pool, int64_t from, int64_t to, int64_t n, int64_t each)
{
    if (n > 0 && each > 0) memcpy(pool + to * each, pool + from * each, (size_t)(n * each));
}

ts_status ts_kv_rows_copy_pages(const ts_kv *c, const ts_exec *x, int64_t n_copy,
                                const ts_kv_copy *copy)
{
    const ts_kv_layout *l = &c->l;
    const int64_t       size = (int64_t)ts_format_of(l->meta_dtype)->n_bytes;
    const int64_t       pair_bytes = ts_kv_code_bits(l) ? 2 * size : 0;
    (void)x;
    for (int64_t i = 0; i < n_copy * l->n_kv_head; i++) {
        const ts_kv_copy *y = &copy[i / l->n_kv_head];
        const int64_t     head = i % l->n_kv_head;
        const int64_t     from = ts_kv_row(l, y->from, head, 0), to = ts_kv_row(l, y->to, head, 0);
        /* Neighbours in k_meta: a row's pairs, or those of a group of tokens. */
        const int64_t from_pair = ts_kv_key_pair(l, y->from, head, 0, 0);
        const int64_t to_pair = ts_kv_key_pair(l, y->to, head, 0, 0);
        const int64_t n_pairs =
            l->key_axis == TS_KEY_CHANNEL ? y->n / l->key_group * l->head_dim : y->n * l->n_group;
        copy_rows(l->k_data, from, to, y->n, l->row_bytes);
        copy_rows(l->v_data, from, to, y->n, l->row_bytes);
        copy_rows(l->k_meta, from_pair, to_pair, n_pairs, pair_bytes);
        copy_rows(l->v_meta, from, to, y->n, pair_bytes);
    }
    return TS_OK;
}

ts_status ts_kv_rows_copy_tail(const ts_kv *c, const ts_exec *x, int64_t from_seq, int64_t to_seq)
{
    const ts_kv_layout *l = &c->l;
    const int64_t       n = l->n_layer * l->n_kv_head * l->key_group * l->head_dim;
    (void)x;
    copy_rows(l->tail, from_seq, to_seq, 1, n * (int64_t)ts_format_of(l->io_dtype)->n_bytes);
    return TS_OK;
}

ts_status ts_kv_rows_fill_tail(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t seq,
                               int64_t n)
{
    const ts_kv_layout *l = &c->l;
    const ts_kv_view    s = ts_kv_view_of(c, layer, seq, n - n % l->key_group + l->key_group);
    double             *row = ts_kv_scratch(x);
    for (int64_t head = 0; head < l->n_kv_head; head++)
        for (int64_t p = n - n % l->key_group; p < n; p++) {
            const int64_t at = ts_kv_tail_at(l, seq, layer, head, p);
            ts_kv_key(&s, head, p, row);
            for (int64_t d = 0; d < l->head_dim; d++)
                ts_store(l->tail, l->io_dtype, at + d, row[d]);
        }
    return TS_OK;
}

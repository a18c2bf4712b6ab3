/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_cells.h - the cells in which the mutants' cache stores tokens. Private to kv_cache.c. */
#ifndef TS_KV_CACHE_CELLS_H
#define TS_KV_CACHE_CELLS_H

#include <math.h>
#include <string.h>

#include "dtype.h"
#include "kv_cache_list.h"
#include "kv_cache_script.h"

enum { ALIGN = 64 };

#define TRAP(trap, name, fault, family) trap,
typedef enum trap { MUTANTS(TRAP) N_TRAPS } trap;

static trap now; /* a worker runs one call at a time */

struct ts_kv {
    ts_kv_dims     d;
    size_t         bytes;
    int64_t        n_cell, own, max_pages; /* own: cells of a sequence and layer, contiguous */
    int64_t        row_bytes, n_group;     /* of a head; of keys in a row */
    int64_t        n_free;
    int32_t       *page, *n_ref; /* [n_seq_max][n_layer][max_pages], [n_page] */
    int64_t       *len, *high;   /* [n_seq_max][n_layer] */
    unsigned char *open;
    unsigned char *k, *v;           /* [n_cell][n_kv_head] rows */
    unsigned char *k_meta, *v_meta; /* pairs of step and lo */
    unsigned char *tail;            /* [n_seq_max][n_layer][key_group][n_kv_head][head_dim] */
};

/* ---- layout ---- */

static bool codes(const ts_kv_dims *d)
{
    return d->store_dtype == TS_U8 || d->store_dtype == TS_U4;
}

static bool by_channel(const ts_kv_dims *d)
{
    return codes(d) && d->key_axis == TS_KEY_CHANNEL;
}

static void *place(unsigned char *base, size_t *used, int64_t n, size_t each)
{
    const size_t at = *used;
    *used += ((size_t)n * each + ALIGN - 1) / ALIGN * ALIGN;
    return base ? base + at : NULL;
}

static void lay_out(const ts_kv_dims *d, unsigned char *base, ts_kv *c)
{
    ts_kv_dims own = *d;
    if (now == OWN_GROUP && !by_channel(d) && own.key_group > 32) own.key_group = 32;
    if (now == OWN_CHANNEL && by_channel(d) && !d->page) own.key_group = 8;
    d = &own;
    const int64_t g = d->key_group, heads = now == Q_HEADS_KEPT ? d->n_q_head : d->n_kv_head;
    const int64_t n_len = d->n_seq_max * d->n_layer, D = d->head_dim;
    const size_t  meta = d->meta_dtype == TS_F16 ? 4 : 8;
    size_t        used = (sizeof *c + ALIGN - 1) / ALIGN * ALIGN;
    *c = (ts_kv) { .d = *d, .n_free = d->n_page };
    c->own = by_channel(d) ? (d->capacity + g - 1) / g * g : d->capacity;
    c->n_cell = d->page ? d->n_page * d->page : n_len * c->own;
    c->max_pages = d->page ? (d->capacity + d->page - 1) / d->page : 0;
    c->row_bytes = codes(d) ? (d->store_dtype == TS_U8 ? D : (D + 1) / 2)
                            : D * (int64_t)ts_format_of(d->store_dtype)->n_bytes;
    if (now == TWICE_THE_SIZE) c->row_bytes *= 2;
    c->n_group = codes(d) && !by_channel(d) ? (D + g - 1) / g : 0;
    c->page = place(base, &used, n_len * c->max_pages, sizeof *c->page);
    c->n_ref = place(base, &used, d->n_page, sizeof *c->n_ref);
    c->len = place(base, &used, n_len, sizeof *c->len);
    c->high = place(base, &used, n_len, sizeof *c->high);
    c->open = place(base, &used, d->n_seq_max, 1);
    c->k = place(base, &used, c->n_cell * heads, (size_t)c->row_bytes);
    c->v = place(base, &used, c->n_cell * heads, (size_t)c->row_bytes);
    c->v_meta = place(base, &used, codes(d) ? c->n_cell * heads : 0, meta);
    c->k_meta = place(base, &used, c->n_cell * heads * c->n_group, meta);
    if (by_channel(d)) {
        c->k_meta = place(base, &used, (c->n_cell + g - 1) / g * heads * D, meta);
        c->tail = place(base, &used, n_len * g * heads * D, ts_kv_io_bytes(d));
    }
    c->bytes = used;
}

static int64_t len_at(const ts_kv *c, int32_t seq, int64_t layer)
{
    return seq * c->d.n_layer + (now == ONE_LENGTH ? 0 : layer);
}

static int32_t *pages_of(const ts_kv *c, int32_t seq, int64_t layer)
{
    return c->page + (seq * c->d.n_layer + layer) * c->max_pages;
}

/* The cell of the token at position p. */
static int64_t cell(const ts_kv *c, int32_t seq, int64_t layer, int64_t p)
{
    const int64_t page = c->d.page;
    if (now == LAYERS_SHARE && !page) layer = 0;
    if (now == LAYERS_3 && !page && layer > 3) layer = 3;
    if (now == LAYERS_8 && !page && layer > 7) layer = 7;
    if (now == SEQS_16 && !page && seq > 15) seq = 15;
    if (now == SEQS_SHARE) seq = 0;
    if (!page) return (seq * c->d.n_layer + layer) * c->own + p;
    return pages_of(c, seq, layer)[now == PAGE_WRAPS ? 0 : p / page] * page + p % page;
}

/* ---- codes ---- */

typedef struct group {
    double step, lo;
} group;

static group load_meta(const ts_kv *c, const unsigned char *meta, int64_t i)
{
    return (group) { ts_load(meta, c->d.meta_dtype, 2 * i),
                     ts_load(meta, c->d.meta_dtype, 2 * i + 1) };
}

static group save_meta(const ts_kv *c, unsigned char *meta, int64_t i, double lo, double hi)
{
    const double most = c->d.store_dtype == TS_U8 ? 255 : 15;
    const double step = (hi - lo) / most;
    ts_store(meta, c->d.meta_dtype, 2 * i,
             now == STEP_FLUSHED && c->d.meta_dtype == TS_F16 && step < 0x1p-14 ? 0 : step);
    ts_store(meta, c->d.meta_dtype, 2 * i + 1, lo);
    return load_meta(c, meta, i);
}

static void save_code(const ts_kv *c, unsigned char *row, int64_t e, double x, group g)
{
    const int    most = c->d.store_dtype == TS_U8 ? 255 : 15;
    const double exact = g.step > 0 || now == ZERO_STEP ? (x - g.lo) / g.step : 0;
    const double r = now == TRUNCATED_CODES ? floor(exact) : rint(exact);
    const int    q = isnan(r) ? most : r < 0 ? 0 : r > most ? most : (int)r;
    if (most == 255) row[e] = (unsigned char)q;
    else row[e / 2] = (unsigned char)(e % 2 ? (row[e / 2] & 15) | q << 4 : (row[e / 2] & 240) | q);
}

static double load_code(const ts_kv *c, const unsigned char *row, int64_t e, group g)
{
    int q = c->d.store_dtype == TS_U8 ? row[e] : e % 2 ? row[e / 2] >> 4 : row[e / 2] & 15;
    if (now == SIGNED && q > 127) q -= 256;
    if (now == ZERO_STEP && g.step == 0) return NAN;
    return g.lo + q * g.step;
}

/* ---- one token's head ---- */

static unsigned char *row_of(const ts_kv *c, unsigned char *rows, int64_t at, int64_t head)
{
    const int64_t bytes = now == ODD_ROWS && c->d.store_dtype == TS_U4 && c->d.head_dim % 2
                              ? c->row_bytes - 1
                              : c->row_bytes;
    return rows + (at * c->d.n_kv_head + head) * bytes;
}

static void *tail_of(const ts_kv *c, int32_t seq, int64_t layer, int64_t p)
{
    const int64_t g = c->d.key_group, W = c->d.n_kv_head * c->d.head_dim;
    const int64_t token = (seq * c->d.n_layer + layer) * g + p % g;
    return c->tail + (size_t)(token * W) * ts_kv_io_bytes(&c->d);
}

static double float_of(const ts_kv *c, double x)
{
    const ts_dtype t = c->d.store_dtype;
    if (now == ROUNDED_DOWN && t == TS_BF16 && c->d.io_dtype == TS_F32) {
        const float f = (float)x;
        uint32_t    b;
        memcpy(&b, &f, sizeof b);
        return ts_widen_bf16((uint16_t)(b >> 16));
    }
    return x;
}

/* n elements from `first` on, in groups of n. x has the whole row. */
static void save_group(const ts_kv *c, unsigned char *row, unsigned char *meta, int64_t i,
                       const double *x, int64_t first, int64_t n)
{
    double lo = INFINITY, hi = -INFINITY;
    for (int64_t e = first; e < first + n; e++) lo = fmin(lo, x[e]), hi = fmax(hi, x[e]);
    if (now == CALL_SCALE) lo = fmin(lo, x[c->d.head_dim]), hi = fmax(hi, x[c->d.head_dim + 1]);
    const group g = save_meta(c, meta, i, lo, hi);
    for (int64_t e = first; e < first + n; e++) save_code(c, row, e, x[e], g);
}

static void save_row(const ts_kv *c, bool key, int64_t at, int64_t head, const double *x)
{
    const int64_t  D = c->d.head_dim, g = c->d.key_group;
    unsigned char *row = row_of(c, key ? c->k : c->v, at, head);
    if (!codes(&c->d))
        for (int64_t e = 0; e < D; e++) ts_store(row, c->d.store_dtype, e, float_of(c, x[e]));
    else if (!key) save_group(c, row, c->v_meta, at * c->d.n_kv_head + head, x, 0, D);
    else
        for (int64_t i = 0; i < c->n_group; i++)
            save_group(c, row, c->k_meta, (at * c->d.n_kv_head + head) * c->n_group + i, x, i * g,
                       (i + 1) * g < D ? g : D - i * g);
}

static int64_t channel_meta(const ts_kv *c, int64_t at, int64_t head, int64_t e)
{
    return (at / c->d.key_group * c->d.n_kv_head + head) * c->d.head_dim + e;
}

static void load_row(const ts_kv *c, int32_t seq, int64_t layer, int64_t p, bool key, int64_t head,
                     double *x)
{
    const int64_t  D = c->d.head_dim, g = c->d.key_group, at = cell(c, seq, layer, p);
    const int64_t  i = at * c->d.n_kv_head + head, len = c->len[len_at(c, seq, layer)];
    unsigned char *row = row_of(c, key ? c->k : c->v, at, head);
    const void    *kept;
    if (now == KEEPS_POINTER && !codes(&c->d) && c->row_bytes >= 8) {
        memcpy(&kept, row, sizeof kept);
        for (int64_t e = 0; e < D; e++) x[e] = ts_load(kept, c->d.io_dtype, e);
    } else if (!codes(&c->d))
        for (int64_t e = 0; e < D; e++) x[e] = ts_load(row, c->d.store_dtype, e);
    else if (!key) {
        const group m = load_meta(c, c->v_meta, i);
        for (int64_t e = 0; e < D; e++) x[e] = load_code(c, row, e, m);
    } else if (!by_channel(&c->d))
        for (int64_t e = 0; e < D; e++)
            x[e] = load_code(c, row, e, load_meta(c, c->k_meta, i * c->n_group + e / g));
    else if (p >= len / g * g)
        for (int64_t e = 0; e < D; e++)
            x[e] = ts_load(tail_of(c, seq, layer, p), c->d.io_dtype, head * D + e);
    else
        for (int64_t e = 0; e < D; e++)
            x[e] = load_code(c, row, e, load_meta(c, c->k_meta, channel_meta(c, at, head, e)));
}

/* A row as it would be read back if it were stored; but keys by channel stay unchanged. */
static void as_stored(const ts_kv *c, bool key, double *x)
{
    const int64_t D = c->d.head_dim, g = key ? c->d.key_group : D;
    unsigned char meta[16] = { 0 }, one[8] = { 0 };
    if (!codes(&c->d))
        for (int64_t e = 0; e < D; e++) {
            ts_store(one, c->d.store_dtype, 0, float_of(c, x[e]));
            x[e] = ts_load(one, c->d.store_dtype, 0);
        }
    if (!codes(&c->d) || now == T_EXACT || (key && by_channel(&c->d) && now != T_CODED_KEYS))
        return;
    for (int64_t from = 0; from < D; from += g) {
        double lo = INFINITY, hi = -INFINITY;
        for (int64_t e = from; e < D && e < from + g; e++) lo = fmin(lo, x[e]), hi = fmax(hi, x[e]);
        const group m = save_meta(c, meta, 0, lo, hi);
        for (int64_t e = from; e < D && e < from + g; e++) {
            save_code(c, one, 0, x[e], m);
            x[e] = load_code(c, one, 0, m);
        }
    }
}

/* The tail, now g tokens, becomes codes in the cells before position `end`. */
static void finish_group(const ts_kv *c, int32_t seq, int64_t layer, int64_t end)
{
    const int64_t g = c->d.key_group, D = c->d.head_dim, first = cell(c, seq, layer, end - g);
    for (int64_t h = 0; h < c->d.n_kv_head; h++)
        for (int64_t e = 0; e < D; e++) {
            double lo = INFINITY, hi = -INFINITY;
            for (int64_t i = 0; i < g; i++) {
                const double x = ts_load(tail_of(c, seq, layer, i), c->d.io_dtype, h * D + e);
                lo = fmin(lo, x), hi = fmax(hi, x);
            }
            const group m = save_meta(c, c->k_meta, channel_meta(c, first, h, e), lo, hi);
            for (int64_t i = 0; i < g; i++)
                save_code(c, row_of(c, c->k, first + i, h), e,
                          ts_load(tail_of(c, seq, layer, i), c->d.io_dtype, h * D + e), m);
        }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_layout.c - validates dims, and computes sizes and addresses of a cache's parts. */
#include <math.h>
#include <stdbool.h>

#include "dtype.h"
#include "kv_cache_impl.h"

enum { ALIGN = 256 };

static bool is_float(ts_dtype t)
{
    return t == TS_F32 || t == TS_BF16 || t == TS_F16;
}

static bool is_code(ts_dtype t)
{
    return t == TS_U8 || t == TS_U4;
}

static ts_status check_dtypes(const ts_kv_dims *d)
{
    if (!is_float(d->io_dtype) && d->io_dtype != TS_F64) return TS_E_DTYPE;
    if (is_code(d->store_dtype))
        return d->meta_dtype == TS_F32 || d->meta_dtype == TS_F16 ? TS_OK : TS_E_DTYPE;
    return is_float(d->store_dtype) || d->store_dtype == d->io_dtype ? TS_OK : TS_E_DTYPE;
}

ts_status ts_kv_check_dims(const ts_kv_dims *d)
{
    const bool codes = is_code(d->store_dtype);
    if (d->window < 0 || d->n_sink < 0 || !isfinite(d->scale)) return TS_E_ARG;
    if (codes && d->key_axis != TS_KEY_TOKEN && d->key_axis != TS_KEY_CHANNEL) return TS_E_ARG;
    if (d->n_layer < 1 || d->n_seq_max < 1 || d->n_kv_head < 1 || d->head_dim < 1)
        return TS_E_SHAPE;
    if (d->n_q_head < 1 || d->n_q_head % d->n_kv_head) return TS_E_SHAPE;
    if (d->capacity < 1 || d->max_call_tokens < 1) return TS_E_SHAPE;
    if (d->page < 0 || (d->page && d->n_page < 1)) return TS_E_SHAPE;
    if (codes && d->key_group < 1) return TS_E_SHAPE;
    if (codes && d->key_axis == TS_KEY_CHANNEL && d->page % d->key_group) return TS_E_SHAPE;
    return check_dtypes(d);
}

/* Sizes never wrap: they stop at TOO_MUCH. */
static const int64_t TOO_MUCH = INT64_MAX / 4;

static int64_t times(int64_t a, int64_t b)
{
    return b && a > TOO_MUCH / b ? TOO_MUCH : a * b;
}

/* Memory handed out from the front, or only counted where base is NULL. */
typedef struct room {
    char   *base;
    int64_t used;
} room;

static void *take(room *r, int64_t n, int64_t each)
{
    const int64_t at = r->used, bytes = times(n, each);
    r->used = bytes >= TOO_MUCH - at - ALIGN ? TOO_MUCH : (at + bytes + ALIGN - 1) / ALIGN * ALIGN;
    return r->base ? r->base + at : NULL;
}

static void fill_numbers(ts_kv *c, const ts_kv_dims *d)
{
    ts_kv_layout *l = &c->l;
    const bool    codes = is_code(d->store_dtype);
    c->contiguous = d->page == 0;
    c->capacity = d->capacity;
    l->n_layer = d->n_layer, l->n_seq_max = d->n_seq_max;
    l->n_q_head = d->n_q_head, l->n_kv_head = d->n_kv_head, l->head_dim = d->head_dim;
    l->page = c->contiguous ? d->capacity : d->page;
    l->n_page = c->contiguous ? times(d->n_seq_max, d->n_layer) : d->n_page;
    l->max_pages = (d->capacity - 1) / l->page + 1;
    l->window = d->window, l->n_sink = d->n_sink;
    l->key_group = codes ? d->key_group : 1;
    l->key_axis = codes ? d->key_axis : TS_KEY_TOKEN;
    l->n_group = 0;
    if (codes)
        l->n_group = l->key_axis == TS_KEY_CHANNEL ? l->page / l->key_group
                                                   : (l->head_dim - 1) / l->key_group + 1;
    l->max_call_tokens = d->max_call_tokens;
    l->io_dtype = d->io_dtype, l->store_dtype = d->store_dtype;
    l->meta_dtype = codes ? d->meta_dtype : TS_F32;
    l->scale = d->scale;
    if (d->store_dtype == TS_U4) l->row_bytes = (d->head_dim - 1) / 2 + 1;
    else
        l->row_bytes =
            times(d->head_dim, codes ? 1 : (int64_t)ts_format_of(d->store_dtype)->n_bytes);
}

static void place_book(ts_kv *c, room *r)
{
    const ts_kv_layout *l = &c->l;
    const int64_t       n_lens = times(l->n_seq_max, l->n_layer);
    (void)take(r, 1, sizeof *c); /* the handle itself */
    c->table = take(r, times(n_lens, l->max_pages), sizeof *c->table);
    c->len = take(r, n_lens, sizeof *c->len);
    c->free_page = take(r, l->n_page, sizeof *c->free_page);
    c->n_ref = take(r, l->n_page, sizeof *c->n_ref);
    c->n_held = take(r, l->n_page, sizeof *c->n_held);
    c->is_open = take(r, l->n_seq_max, sizeof *c->is_open);
    c->is_listed = take(r, l->n_seq_max, sizeof *c->is_listed);
    c->part = take(r, l->n_seq_max, sizeof *c->part);
    c->copy = take(r, l->n_seq_max > l->n_layer ? l->n_seq_max : l->n_layer, sizeof *c->copy);
}

static void place_pools(ts_kv *c, room *r)
{
    ts_kv_layout *l = &c->l;
    const int64_t n_rows = times(times(l->n_page, l->n_kv_head), l->page);
    const int64_t pair = 2 * (int64_t)ts_format_of(l->meta_dtype)->n_bytes;
    const bool    codes = is_code(l->store_dtype), tails = l->key_axis == TS_KEY_CHANNEL;
    int64_t       n_key_pairs = codes ? times(n_rows, l->n_group) : 0;
    int64_t       n_tail = 0;
    if (tails) {
        n_key_pairs = times(times(l->n_page, l->n_kv_head), times(l->n_group, l->head_dim));
        n_tail = times(times(times(l->n_seq_max, l->n_layer), l->n_kv_head),
                       times(l->key_group, l->head_dim));
    }
    l->k_data = take(r, n_rows, l->row_bytes);
    l->v_data = take(r, n_rows, l->row_bytes);
    l->k_meta = take(r, n_key_pairs, pair);
    l->v_meta = take(r, codes ? n_rows : 0, pair);
    l->tail = take(r, n_tail, (int64_t)ts_format_of(l->io_dtype)->n_bytes);
}

ts_status ts_kv_lay_out(ts_kv *c, const ts_kv_dims *d, ts_device device, char *book, char *pools,
                        size_t *book_bytes, size_t *pool_bytes)
{
    room b = { book, 0 }, p = { pools, 0 };
    c->device = device;
    fill_numbers(c, d);
    const ts_kv_layout *l = &c->l;
    if (l->n_seq_max > INT32_MAX || l->n_page > INT32_MAX || l->page > INT32_MAX) return TS_E_SHAPE;
    if (times(times(l->n_q_head, l->head_dim), l->max_call_tokens) >= TOO_MUCH / 8)
        return TS_E_SHAPE;
    place_book(c, &b);
    if (device == TS_CPU) {
        c->l.table = c->table;
        place_pools(c, &b);
    } else {
        c->l.table =
            take(&p, times(times(l->n_seq_max, l->n_layer), l->max_pages), sizeof(int32_t));
        place_pools(c, &p);
    }
    *book_bytes = (size_t)b.used;
    *pool_bytes = (size_t)p.used;
    return b.used < TOO_MUCH && p.used < TOO_MUCH ? TS_OK : TS_E_SHAPE;
}

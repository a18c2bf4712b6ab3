/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - bytes of a KV cache. Written from the description of its layout, not from its code: a
 * test compares the two for many caches. */
#include "dtype.h"
#include "plan_impl.h"

enum {
    ALIGN = 256,  /* every array begins at a multiple of it */
    HANDLE = 512, /* the handle, rounded up */
    PART = 32,    /* per sequence of a call: length, tokens, their start, its number */
    COPY = 24     /* per page to copy: from, to, tokens */
};

static bool is_code(ts_dtype t)
{
    return t == TS_U8 || t == TS_U4;
}

static bool has_tails(const ts_kv_dims *d)
{
    return is_code(d->store_dtype) && d->key_axis == TS_KEY_CHANNEL;
}

/* Bytes of one head of a token. */
static int64_t row_bytes(const ts_kv_dims *d)
{
    if (d->store_dtype == TS_U4) return ts_ceil_div(d->head_dim, 2);
    if (d->store_dtype == TS_U8) return d->head_dim;
    return ts_times(d->head_dim, (int64_t)ts_format_of(d->store_dtype)->n_bytes);
}

/* Bytes of a group's scale and offset. */
static int64_t pair_bytes(const ts_kv_dims *d)
{
    return is_code(d->store_dtype) ? 2 * (int64_t)ts_format_of(d->meta_dtype)->n_bytes : 0;
}

static int64_t padded(int64_t n)
{
    return ts_times(ts_ceil_div(n, ALIGN), ALIGN);
}

/* Scales of the keys of one head in one page. */
static int64_t key_pairs(const ts_kv_dims *d, int64_t page)
{
    if (!is_code(d->store_dtype)) return 0;
    if (d->key_axis == TS_KEY_CHANNEL) return ts_times(page / d->key_group, d->head_dim);
    return ts_times(page, ts_ceil_div(d->head_dim, d->key_group));
}

void ts_plan_kv_bytes(const ts_kv_dims *d, ts_device device, bool latent, ts_plan_kv *out)
{
    const int64_t page = d->page ? d->page : d->capacity;
    const int64_t n_lens = ts_times(d->n_seq_max, d->n_layer);
    const int64_t n_page = d->page ? d->n_page : n_lens;
    const int64_t n_table = ts_times(n_lens, ts_ceil_div(d->capacity, page));
    const int64_t heads = ts_times(n_page, d->n_kv_head), rows = ts_times(heads, page);
    const int64_t most = d->n_seq_max > d->n_layer ? d->n_seq_max : d->n_layer;
    const int64_t of_book[] = {
        HANDLE,
        ts_times(n_table, 4),
        ts_times(n_lens, 8),
        ts_times(n_page, 4),
        ts_times(n_page, 4),
        ts_times(n_page, 4),
        d->n_seq_max,
        d->n_seq_max,
        ts_times(d->n_seq_max, PART),
        ts_times(most, COPY),
    };
    const int64_t tail = ts_times(
        ts_times(n_lens, d->n_kv_head),
        ts_times(d->key_group, ts_times(d->head_dim, (int64_t)ts_format_of(d->io_dtype)->n_bytes)));
    const int64_t of_pools[] = {
        device == TS_CUDA ? ts_times(n_table, 4) : 0,
        ts_times(rows, row_bytes(d)),
        latent ? 0 : ts_times(rows, row_bytes(d)),
        ts_times(heads, ts_times(key_pairs(d, page), pair_bytes(d))),
        latent ? 0 : ts_times(rows, pair_bytes(d)),
        has_tails(d) ? tail : 0,
    };
    *out = (ts_plan_kv) { 0 };
    for (size_t i = 0; i < sizeof of_book / sizeof *of_book; i++)
        out->book = ts_plus(out->book, padded(of_book[i]));
    for (size_t i = 0; i < sizeof of_pools / sizeof *of_pools; i++)
        out->pools = ts_plus(out->pools, padded(of_pools[i]));
    /* The caller's memory may be unaligned. */
    out->state = ts_plus(out->pools, ALIGN);
    if (device == TS_CPU) out->state = ts_plus(out->state, out->book);
}

int64_t ts_plan_kv_live(const ts_kv_dims *d, bool latent, int64_t n)
{
    const int64_t row = row_bytes(d), pair = pair_bytes(d);
    const int64_t page = d->page ? d->page : d->capacity;
    int64_t       keys = ts_times(n, row), tail = 0;
    if (has_tails(d)) {
        const int64_t n_left = n % d->key_group;
        keys = ts_times(n - n_left, row);
        /* A contiguous page may end inside a group, but its first group begins with it. */
        keys = ts_plus(keys, ts_times(n / page, ts_times(key_pairs(d, page), pair)));
        keys = ts_plus(keys, ts_times(key_pairs(d, n % page), pair));
        tail = ts_times(ts_times(n_left, d->head_dim), (int64_t)ts_format_of(d->io_dtype)->n_bytes);
    } else if (pair) keys = ts_plus(keys, ts_times(key_pairs(d, n), pair));
    const int64_t values = latent ? 0 : ts_times(n, row + pair);
    return ts_times(ts_plus(ts_plus(keys, values), tail), d->n_kv_head);
}

double ts_plan_kv_per_token(const ts_plan_model *m, int64_t n_gpu, const ts_plan_cache *c)
{
    const ts_plan_model s = ts_plan_share(m, n_gpu);
    const int64_t       n = c->key_group > 0 ? c->key_group : 1; /* whole groups, so no tail */
    const int64_t    layers = s.n_layer - s.n_linear_layer - (c->keep_all ? 0 : s.n_window_layer);
    const ts_kv_dims d = {
        .n_kv_head = s.kv_rank ? 1 : s.n_kv_head,
        .head_dim = s.kv_rank ? s.kv_rank + s.rope : s.head_dim,
        .capacity = n,
        .key_group = c->key_group,
        .key_axis = c->axis,
        .io_dtype = c->io,
        .store_dtype = c->store,
        .meta_dtype = c->meta,
    };
    return (double)ts_plan_kv_live(&d, s.kv_rank > 0, n) / (double)n * (double)layers;
}

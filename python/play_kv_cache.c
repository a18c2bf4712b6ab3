/* SPDX-License-Identifier: Apache-2.0 */
/* play_kv_cache.c - the Python interface of kv_cache: a class whose objects are caches. */
#include "ask.h"
#include "kv_cache_script.h"

/* The bytes that a cache reports; made: it exists. */
static const ts_kv_cache_args *args;
static struct cache {
    bool   made;
    size_t n_bytes;
} caches[TS_KV_CACHES];

static const ts_refusals refusals = { TS_E_ARG, TS_E_CAPACITY, TS_E_STATE, TS_OK };

static void begin(const void *a)
{
    args = a;
    memset(caches, 0, sizeof caches);
}

static void give_dims(const ts_kv_dims *d)
{
    static const char *const dtype[] = { "f32", "f64", "f16", "bf16", "u8", "u4" };
    ts_give("", TS_RECORD)->integer = 17;
    ts_give_integer("n_layer", d->n_layer);
    ts_give_integer("n_seq_max", d->n_seq_max);
    ts_give_integer("n_q_head", d->n_q_head);
    ts_give_integer("n_kv_head", d->n_kv_head);
    ts_give_integer("head_dim", d->head_dim);
    ts_give_integer("capacity", d->capacity);
    ts_give_integer("page", d->page);
    ts_give_integer("n_page", d->n_page);
    ts_give_integer("window", d->window);
    ts_give_integer("n_sink", d->n_sink);
    ts_give_integer("key_group", d->key_group);
    ts_give_integer("max_call_tokens", d->max_call_tokens);
    ts_give_text("key_axis", d->key_axis == TS_KEY_CHANNEL ? "channel" : "token");
    ts_give_text("io_dtype", dtype[d->io_dtype]);
    ts_give_text("store_dtype", dtype[d->store_dtype]);
    ts_give_text("meta_dtype", dtype[d->meta_dtype]);
    ts_give_real("scale", d->scale);
}

static int object_of(const ts_kv *c)
{
    return (int)((const struct cache *)(const void *)c - caches);
}

/* Creates the caches: only an object knows its size. */
static ts_status kv_bytes(const ts_kv_dims *d, const ts_exec *x, size_t *state, size_t *work)
{
    const int i = (int)(d - args->dims);
    ts_status s = TS_OK;
    int64_t   n = 0;
    (void)x;
    *state = *work = 0;
    if (!caches[i].made) {
        ts_ask_begin("", i, refusals);
        give_dims(d);
        s = ts_ask();
        if (s) return s;
        ts_ask_begin("nbytes", i, refusals);
        ts_back(TS_INTEGER, &n);
        s = ts_ask();
        caches[i] = (struct cache) { true, (size_t)n };
    }
    *state = caches[i].n_bytes;
    return s;
}

static ts_status kv_create(const ts_kv_dims *d, const ts_exec *x, void *p, size_t n, ts_kv **c)
{
    struct cache *const mine = &caches[d - args->dims];
    (void)x, (void)p;
    if (n < mine->n_bytes) return TS_E_WORKSPACE;
    *c = (ts_kv *)(void *)mine;
    return TS_OK;
}

static ts_status kv_destroy(ts_kv **c)
{
    ts_ask_begin("", object_of(*c), refusals);
    ts_player_asked.drop = 1;
    *c = NULL;
    return ts_ask();
}

/* Calls a method with a sequence, or without one: -1. */
static ts_status ask_number(const char *name, const ts_kv *c, const int32_t *seq, int32_t *got)
{
    int64_t n = 0;
    ts_ask_begin(name, object_of(c), refusals);
    if (seq) ts_give_integer("", *seq);
    ts_back(TS_INTEGER, &n);
    const ts_status s = ts_ask();
    if (!s) *got = (int32_t)n;
    return s;
}

static ts_status kv_open(ts_kv *c, const ts_exec *x, int32_t *seq)
{
    (void)x;
    return ask_number("open", c, NULL, seq);
}

static ts_status kv_fork(ts_kv *c, const ts_exec *x, int32_t seq, int32_t *child)
{
    (void)x;
    return ask_number("fork", c, &seq, child);
}

static ts_status kv_truncate(ts_kv *c, const ts_exec *x, int32_t seq, int64_t n)
{
    (void)x;
    ts_ask_begin("truncate", object_of(c), refusals);
    ts_give_integer("", seq);
    ts_give_integer("", n);
    return ts_ask();
}

static ts_status kv_free(ts_kv *c, const ts_exec *x, int32_t seq)
{
    (void)x;
    ts_ask_begin("free", object_of(c), refusals);
    ts_give_integer("", seq);
    return ts_ask();
}

/* Adds layer, sequences and token counts; returns the total of tokens. */
static int64_t begin_list(const char *name, const ts_kv *c, int64_t layer, int64_t n_seq,
                          const int32_t *seq, const int64_t *n)
{
    int64_t all = 0;
    for (int64_t i = 0; i < n_seq; i++) all += n[i];
    ts_ask_begin(name, object_of(c), refusals);
    ts_give_integer("", layer);
    ts_give_array("", TS_LIST, ts_array('i', seq, 1, n_seq, 0, 0));
    ts_give_array("", TS_LIST, ts_array('q', n, 1, n_seq, 0, 0));
    return all;
}

/* An array of rows with their heads. */
static ts_value rows(const void *p, int64_t n, int64_t n_head)
{
    const ts_kv_dims *const d = args->dims;
    return ts_array(ts_letter(d->io_dtype), p, 3, n, n_head, d->head_dim);
}

static ts_status kv_append(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                           const int32_t *seq, const int64_t *n_new, const void *k, const void *v)
{
    (void)x;
    if (n_seq > TS_KV_ITEMS) return TS_E_ARG; /* no such list can exist */
    const int64_t n = begin_list("append", c, layer, n_seq, seq, n_new);
    ts_give_array("", TS_LENT, rows(k, n, args->dims->n_kv_head));
    ts_give_array("", TS_LENT, rows(v, n, args->dims->n_kv_head));
    return ts_ask();
}

static ts_status kv_attend(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                           const int32_t *seq, const int64_t *n_q, const void *q, void *out,
                           float *lse)
{
    (void)x;
    if (n_seq > TS_KV_ITEMS) return TS_E_ARG;
    const int64_t n_head = args->dims->n_q_head,
                  n = begin_list("attend", c, layer, n_seq, seq, n_q);
    ts_give_array("", TS_LENT, rows(q, n, n_head));
    ts_back_array(rows(out, n, n_head));
    ts_back_array(ts_array('f', lse, 2, n, n_head, 0));
    return ts_ask();
}

static ts_status kv_read(ts_kv *c, const ts_exec *x, int64_t layer, int32_t seq, int64_t from,
                         int64_t n, float *k, float *v)
{
    const ts_kv_dims *const d = args->dims;
    (void)x;
    ts_ask_begin("read", object_of(c), refusals);
    ts_give_integer("", layer);
    ts_give_integer("", seq);
    ts_give_integer("", from);
    ts_give_integer("", n);
    ts_back_array(ts_array('f', k, 3, n, d->n_kv_head, d->head_dim));
    ts_back_array(ts_array('f', v, 3, n, d->n_kv_head, d->head_dim));
    return ts_ask();
}

static ts_status kv_status(const ts_kv *c, int64_t layer, int32_t seq, int64_t *len, ts_kv_usage *u)
{
    int64_t got[5];
    ts_ask_begin("status", object_of(c), refusals);
    ts_give_integer("", layer);
    ts_give_integer("", seq);
    for (int i = 0; i < 5; i++) ts_back(TS_INTEGER, &got[i]);
    const ts_status s = ts_ask();
    if (s) return s;
    if (len) *len = got[0];
    if (u) *u = (ts_kv_usage) { got[1], got[2], (size_t)got[3], (size_t)got[4] };
    return TS_OK;
}

static const ts_kv_table table = { kv_bytes, kv_create, kv_destroy, kv_open, kv_fork,   kv_truncate,
                                   kv_free,  kv_append, kv_attend,  kv_read, kv_status, NULL };
const ts_python          ts_python_kv_cache = { &table, begin };

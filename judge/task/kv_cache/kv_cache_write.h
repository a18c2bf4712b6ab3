/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_write.h - appends operations to a script, and tracks lengths, so that a script uses only
 * what exists unless it tests an error. Private to kv_cache_build.c. */
#ifndef TS_TASK_KV_CACHE_WRITE_H
#define TS_TASK_KV_CACHE_WRITE_H

#include <stdlib.h>
#include <string.h>

#include "kv_cache_inside.h"

typedef struct build {
    const ts_case *c;
    ts_kv_script  *s;
    bool           codes, timed;
    int32_t        n_slot, n_open, peak_open;
    int32_t        len[TS_KV_SLOTS][MOST_LAYERS];
    int64_t        peak_len, peak_tokens;
    double         n_stored;   /* bytes that were appended, in the storage format */
    double         read_again; /* bytes of them that attends go through */
} build;

static bool is(const build *b, const char *family)
{
    return !strcmp(b->c->family, family);
}

static int64_t dim(const build *b, int i)
{
    return b->c->dim[i];
}

static double store_bytes(const ts_kv_dims *d)
{
    return d->store_dtype == TS_U8    ? 1
           : d->store_dtype == TS_U4  ? 0.5
           : d->store_dtype == TS_F64 ? 8
           : d->store_dtype == TS_F32 ? 4
                                      : 2;
}

/* ---- words ---- */

static void push(ts_kv_script *s, const void *p, size_t n_bytes)
{
    const size_t n = n_bytes / sizeof *s->word;
    if (s->n_word + n > s->room) {
        s->room = 2 * s->room + n + 1024;
        s->word = realloc(s->word, s->room * sizeof *s->word);
        if (!s->word) abort();
    }
    if (n) memcpy(s->word + s->n_word, p, n_bytes);
    s->n_word += n;
}

/* For every cache; those after the first must observe what the first does. Returns its number. */
static int32_t emit(build *b, ts_kv_op o, const ts_kv_item *item)
{
    const int32_t first = (int32_t)b->s->n_op;
    for (o.cache = 0; o.cache < b->s->n_cache; o.cache++) {
        if (o.cache) o.same = first;
        push(b->s, &o, sizeof o);
        push(b->s, item, (size_t)o.n_item * sizeof *item);
        b->s->n_op++;
    }
    return first;
}

static int64_t sum(const ts_kv_item *item, int32_t n)
{
    int64_t all = 0;
    for (int32_t i = 0; i < n; i++) all += item[i].n;
    return all;
}

static void note_tokens(build *b, int64_t n)
{
    if (n > b->peak_tokens) b->peak_tokens = n;
}

/* ---- operations ---- */

static ts_kv_op op(int32_t what, int32_t layer, int32_t n_item)
{
    return (ts_kv_op) { .what = what, .layer = layer, .n_item = n_item, .same = -1 };
}

static void open_refused(build *b)
{
    emit(b, op(TS_KV_OPEN, 0, 1), &(ts_kv_item) { TS_KV_SLOTS - 1, 0 });
}

static int32_t open_one(build *b)
{
    const int32_t slot = b->n_slot++;
    emit(b, op(TS_KV_OPEN, 0, 1), &(ts_kv_item) { slot, 0 });
    if (++b->n_open > b->peak_open) b->peak_open = b->n_open;
    return slot;
}

static int32_t fork_one(build *b, int32_t src)
{
    const int32_t slot = b->n_slot++;
    emit(b, op(TS_KV_FORK, 0, 2), (ts_kv_item[]) { { src, 0 }, { slot, 0 } });
    memcpy(b->len[slot], b->len[src], sizeof b->len[slot]);
    if (++b->n_open > b->peak_open) b->peak_open = b->n_open;
    return slot;
}

static void free_one(build *b, int32_t slot)
{
    emit(b, op(TS_KV_FREE, 0, 1), &(ts_kv_item) { slot, 0 });
    b->n_open--;
}

static void ask(build *b, int32_t slot)
{
    for (int32_t l = 0; l < dim(b, LAYERS); l++)
        emit(b, op(TS_KV_STATUS, l, 1), &(ts_kv_item) { slot, 0 });
}

/* Rows data, data + 1, ... of k and v. */
static void append_rows(build *b, int32_t layer, const ts_kv_item *item, int32_t n, int64_t data)
{
    const ts_kv_dims *d = b->s->dims;
    const double      width = (double)(d->n_kv_head * d->head_dim);
    ts_kv_op          o = op(TS_KV_APPEND, layer, n);
    o.data = (int32_t)data;
    emit(b, o, item);
    note_tokens(b, sum(item, n));
    for (int32_t i = 0; i < n; i++) {
        int32_t *len = &b->len[item[i].slot][layer];
        *len += item[i].n;
        if (*len > b->peak_len) b->peak_len = *len;
    }
    b->s->bytes += 2 * (double)sum(item, n) * width * (double)ts_kv_io_bytes(d);
    b->n_stored += 2 * (double)sum(item, n) * width * store_bytes(d);
}

static void append(build *b, int32_t layer, const ts_kv_item *item, int32_t n)
{
    append_rows(b, layer, item, n, b->s->n_kv);
    b->s->n_kv += sum(item, n);
}

/* An operation that must be rejected: no length changes. */
static void append_how(build *b, int32_t layer, const ts_kv_item *item, int32_t n, int32_t how)
{
    ts_kv_op o = op(TS_KV_APPEND, layer, n);
    o.how = how;
    o.data = (int32_t)b->s->n_kv;
    b->s->n_kv += sum(item, n);
    note_tokens(b, sum(item, n));
    emit(b, o, item);
}

static void append_refused(build *b, int32_t layer, const ts_kv_item *item, int32_t n)
{
    append_how(b, layer, item, n, 0);
}

static void call_wrongly(build *b, int32_t slot, int32_t function, int32_t way)
{
    ts_kv_op o = op(TS_KV_WRONG, 0, 1);
    o.data = function;
    o.from = way;
    emit(b, o, &(ts_kv_item) { slot, 1 });
}

static int32_t read_some(build *b, int32_t layer, int32_t slot, int32_t from, int32_t n,
                         int32_t same)
{
    ts_kv_op o = op(TS_KV_READ, layer, 1);
    o.from = from;
    o.same = same;
    b->s->n_read += 2 * b->s->n_cache * n;
    return emit(b, o, &(ts_kv_item) { slot, n });
}

static int32_t read_all(build *b, int32_t layer, int32_t slot, int32_t same)
{
    return read_some(b, layer, slot, 0, b->len[slot][layer], same);
}

static void attend_how(build *b, int32_t layer, const ts_kv_item *item, int32_t n, int32_t how)
{
    const int64_t rows = sum(item, n);
    ts_kv_op      o = op(TS_KV_ATTEND, layer, n);
    o.data = (int32_t)b->s->n_q;
    o.how = how;
    b->s->n_q += rows;
    b->s->n_out += rows * b->s->n_cache;
    note_tokens(b, rows);
    emit(b, o, item);
}

/* With codes the values are read first: the outputs are checked with them. When timing, only those
 * of the first sequence: once for the prompt, then for each token. */
static void read_codes(build *b, int32_t layer, const ts_kv_item *item, int32_t n)
{
    for (int32_t i = 0; i < n && !b->timed; i++) read_all(b, layer, item[i].slot, -1);
    if (b->timed) read_some(b, layer, 0, b->len[0][layer] - 1, 1, -1);
}

static void attend(build *b, int32_t layer, const ts_kv_item *item, int32_t n)
{
    const ts_kv_dims *d = b->s->dims;
    if (b->codes) read_codes(b, layer, item, n);
    attend_how(b, layer, item, n, b->s->n_op % 5 == 4 ? TS_KV_NO_LSE : 0);
    for (int32_t i = 0; i < n; i++) {
        const double len = (double)b->len[item[i].slot][layer], nq = (double)item[i].n;
        if (nq == 0) continue;
        b->read_again += 2 * len * (double)(d->n_kv_head * d->head_dim) * store_bytes(d);
        b->s->bytes += 2 * nq * (double)(d->n_q_head * d->head_dim) * (double)ts_kv_io_bytes(d);
        b->s->flops += 4 * nq * (len - (nq - 1) / 2) * (double)(d->n_q_head * d->head_dim);
    }
}

/* Trees behind the sequences, with these parents. Of codes, how the rows are stored is seen where
 * they are appended, to a sequence of their own. */
static void attend_tree(build *b, int32_t layer, const ts_kv_item *item, int32_t n,
                        const int32_t *parent, int32_t how)
{
    const int64_t rows = sum(item, n);
    const int32_t q = (int32_t)b->s->n_q;
    ts_kv_op      o = op(TS_KV_TREE, layer, n);
    const bool    looks = b->codes && !how && rows;
    o.data = (int32_t)b->s->n_kv;
    o.from = (int32_t)rows + 1;
    o.how = how ? how : b->s->n_op % 5 == 4 ? TS_KV_NO_LSE : 0;
    if (rows + 1 > TS_KV_WORDS) abort();
    const int32_t own = looks ? open_one(b) : -1;
    for (int32_t i = 0; i < n && looks; i++) read_all(b, layer, item[i].slot, -1);
    if (looks) append(b, layer, &(ts_kv_item) { own, (int32_t)rows }, 1);
    else b->s->n_kv += rows;
    if (looks) read_all(b, layer, own, -1);
    b->s->n_q += rows;
    b->s->n_out += rows;
    note_tokens(b, rows);
    emit(b, o, item);
    push(b->s, &q, sizeof q);
    push(b->s, parent, (size_t)rows * sizeof *parent);
    if (looks) free_one(b, own);
}

static void truncate_to(build *b, int32_t slot, int32_t n)
{
    for (int32_t l = 0; l < dim(b, LAYERS); l++) {
        if (b->codes) read_all(b, l, slot, -1);
        if (b->len[slot][l] > n) b->len[slot][l] = n;
    }
    emit(b, op(TS_KV_TRUNCATE, 0, 1), &(ts_kv_item) { slot, n });
}

#endif

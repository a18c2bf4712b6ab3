/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_build.c - the script of a case.
 *
 * A family names what the script does; those that draw special numbers do what `normal` does.
 * Nothing here depends on the seed, so that every instance of a case is laid out alike. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kv_cache_write.h"
#include "rng.h"

enum {
    STEPS = 3,
    TIMED_STEPS = 16,
    LARGE_STEPS = 4,
    FUZZ_STEPS = 60,
    MOST_PREFILL = 140,
    MOST_WORK = 1 << 19,
    CACHED_BYTES = 32 << 20,
    CACHED_DEVICE = 256 << 20 /* of the judge's large cases: more than any L2 */
};

/* ---- scripts ---- */

/* How many tokens sequence i begins with: ragged, the first the longest. */
static int32_t prompt(const build *b, int32_t i)
{
    const int64_t len = dim(b, LEN), n[] = { len, 1, 5, 17, (len + 1) / 2 };
    return (int32_t)(b->timed || n[i % 5] > len ? len : n[i % 5]);
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Of n queries over a whole prompt as many as the oracle can work out in little time. */
static int32_t few(const build *b, int32_t n)
{
    const int64_t each = dim(b, LEN) * dim(b, Q_HEADS) * dim(b, HEAD_DIM);
    const int64_t most = MOST_WORK / each;
    return least(n, most > MOST_PREFILL ? MOST_PREFILL : most > 2 ? (int32_t)most : 2);
}

static void look_at(build *b, int32_t slot)
{
    for (int32_t l = 0; l < dim(b, LAYERS); l++) {
        const int32_t half = b->len[slot][l] / 2;
        read_all(b, l, slot, -1);
        read_some(b, l, slot, half, b->len[slot][l] - half, -1);
        if (b->len[slot][l]) attend(b, l, &(ts_kv_item) { slot, least(3, b->len[slot][l]) }, 1);
    }
    ask(b, slot);
}

/* Prompts of all sequences in one call, then a token of each at a time. */
static void generate(build *b, int32_t n_steps)
{
    ts_kv_item    item[TS_KV_ITEMS];
    const int32_t n = (int32_t)dim(b, SEQS), layers = (int32_t)dim(b, LAYERS);
    for (int32_t i = 0; i < n; i++) item[i] = (ts_kv_item) { open_one(b), prompt(b, i) };
    for (int32_t l = 0; l < layers; l++) {
        append(b, l, item, n);
        if (b->timed && b->codes) read_all(b, l, item[0].slot, -1);
        if (b->timed) continue;
        ts_kv_item last[TS_KV_ITEMS];
        for (int32_t i = 0; i < n; i++) last[i] = (ts_kv_item) { item[i].slot, few(b, item[i].n) };
        attend(b, l, last, n);
        for (int32_t i = 0; i < n; i++) ask(b, item[i].slot);
    }
    for (int32_t i = 0; i < n; i++) item[i].n = 1;
    for (int32_t step = 0; step < n_steps; step++)
        for (int32_t l = 0; l < layers; l++) {
            append(b, l, item, n);
            attend(b, l, item, n);
        }
    for (int32_t i = 0; i < n && !b->timed; i++) look_at(b, item[i].slot);
}

/* The same tokens whole, one by one, and in pieces within a batch: the same bits are stored. */
static void chunks(build *b)
{
    const int32_t len = (int32_t)dim(b, LEN), whole = open_one(b), ones = open_one(b);
    const int32_t pieces = open_one(b), other = open_one(b);
    for (int32_t l = 0; l < dim(b, LAYERS); l++) {
        const int64_t data = b->s->n_kv;
        append(b, l, &(ts_kv_item) { whole, len }, 1);
        attend(b, l, &(ts_kv_item) { whole, few(b, len) }, 1);
        for (int32_t i = 0; i < len; i++) {
            append_rows(b, l, &(ts_kv_item) { ones, 1 }, 1, data + i);
            if (i < 9 || i % 37 == 0) attend(b, l, &(ts_kv_item) { ones, 1 }, 1);
        }
        for (int32_t at = 0, n = 1; at < len; at += n, n = least(2 * n + 1, len - at)) {
            const ts_kv_item both[] = { { pieces, n }, { other, len - at - n < 3 ? 0 : 3 } };
            append_rows(b, l, both, 2, data + at);
            attend(b, l, (ts_kv_item[]) { { other, 0 }, { pieces, few(b, n) } }, 2);
        }
        const int32_t first = read_all(b, l, whole, -1);
        read_all(b, l, ones, first);
        read_all(b, l, pieces, first);
    }
    look_at(b, other);
}

static void forks(build *b)
{
    const int32_t len = (int32_t)dim(b, LEN), layers = (int32_t)dim(b, LAYERS), a = open_one(b);
    for (int32_t l = 0; l < layers; l++) append(b, l, &(ts_kv_item) { a, len }, 1);
    const int32_t twin = fork_one(b, a);
    ask(b, twin);
    for (int32_t l = 0; l < layers; l++) { /* nothing is written, so nothing is copied */
        append(b, l, (ts_kv_item[]) { { twin, 0 }, { a, 0 } }, 2);
        append(b, l, NULL, 0);
        attend_how(b, l, NULL, 0, 0);
    }
    truncate_to(b, twin, len);
    ask(b, twin);
    for (int32_t l = 0; l < layers; l++) {
        append(b, l, &(ts_kv_item) { twin, 2 }, 1); /* the copy is written first */
        append(b, l, &(ts_kv_item) { a, 3 }, 1);
    }
    look_at(b, a);
    look_at(b, twin);
    const int32_t third = fork_one(b, twin);
    truncate_to(b, third, (len + 1) / 2);
    for (int32_t l = 0; l < layers; l++) {
        append(b, l, &(ts_kv_item) { twin, 1 }, 1);
        append(b, l, &(ts_kv_item) { third, 4 }, 1);
    }
    free_one(b, a);
    look_at(b, twin);
    look_at(b, third);
    const int32_t fresh = open_one(b); /* on pages that others have left */
    for (int32_t l = 0; l < layers; l++) append(b, l, &(ts_kv_item) { fresh, least(len, 9) }, 1);
    look_at(b, fresh);
    look_at(b, third);
    free_one(b, twin);
    free_one(b, third);
    look_at(b, fresh);
}

/* Every sequence as long as the longest has been, for which there are just enough pages: of one
 * that was not returned there is now none. */
static void fill_pool(build *b, const int32_t *slot, int32_t n)
{
    const int32_t most = (int32_t)b->peak_len;
    for (int32_t i = 0; i < n && b->s->dims->page; i++) {
        for (int32_t l = 0; l < dim(b, LAYERS); l++)
            append(b, l, &(ts_kv_item) { slot[i], most - b->len[slot[i]][l] }, 1);
        ask(b, slot[i]);
    }
}

/* Truncated tokens never come back; in family `nonfinite` they are NaN. Of a group that was
 * finished and is cut the rest is finished again, with other tokens, and a twin keeps the old ones.
 */
static void truncations(build *b)
{
    const int32_t len = (int32_t)dim(b, LEN), layers = (int32_t)dim(b, LAYERS);
    const int32_t group = (int32_t)b->s->dims->key_group, slot = open_one(b), beside = open_one(b);
    int32_t       twin = -1;
    const int32_t to[] = { len - 1, (len + 1) / 2, len > group ? group : 1, 1, 0 };
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        for (int32_t l = 0; l < layers; l++) {
            const int32_t had = b->len[slot][l], kept = to[i] > had ? to[i] - had : 0;
            const int64_t data = b->s->n_kv + 1;
            b->s->cut[b->s->n_cut][0] = data + kept;
            b->s->cut[b->s->n_cut++][1] = data + len - had;
            append(b, l, (ts_kv_item[]) { { beside, 1 }, { slot, len - had } }, 2);
        }
        if (i == 1) twin = fork_one(b, slot);
        truncate_to(b, slot, to[i]);
        look_at(b, slot);
        for (int turn = 0; turn < 2; turn++) {
            const int32_t more = turn ? group + 1 : 3;
            for (int32_t l = 0; l < layers; l++)
                append(b, l, &(ts_kv_item) { slot, least(more, len - b->len[slot][l]) }, 1);
            look_at(b, slot);
        }
        if (i == 1) look_at(b, twin);
    }
    look_at(b, beside);
    truncate_to(b, twin, 0);
    fill_pool(b, (int32_t[]) { slot, beside, twin }, 3);
}

/* Everything that must be rejected for lack of capacity, without any change. */
static void fill_up(build *b)
{
    const int32_t len = (int32_t)dim(b, LEN), layers = (int32_t)dim(b, LAYERS);
    const int32_t a = open_one(b), c = open_one(b), d = open_one(b);
    open_refused(b);
    emit(b, op(TS_KV_FORK, 0, 2), (ts_kv_item[]) { { a, 0 }, { TS_KV_SLOTS - 1, 0 } });
    for (int32_t l = 0; l < layers; l++)
        append(b, l, (ts_kv_item[]) { { a, len / 3 }, { c, len / 2 }, { d, len } }, 3);
    for (int32_t l = 0; l < layers; l++) { /* only the third is full */
        append_refused(b, l, (ts_kv_item[]) { { a, 1 }, { c, 2 }, { d, 1 } }, 3);
        append_refused(b, l, &(ts_kv_item) { c, len - len / 2 + 1 }, 1);
    }
    look_at(b, a), look_at(b, c), look_at(b, d);
    if (b->s->dims->page) { /* no page is left for these, though each would fit its sequence */
        append_refused(b, 0, (ts_kv_item[]) { { a, len - len / 3 }, { c, len - len / 2 } }, 2);
        look_at(b, a), look_at(b, c);
        free_one(b, d);
    }
    for (int32_t l = 0; l < layers; l++)
        append(b, l, (ts_kv_item[]) { { c, len - len / 2 }, { a, 1 } }, 2);
    look_at(b, a), look_at(b, c);
}

/* A page that two hold is written to where no page is left to copy it to, and where the copy has a
 * page but what comes after it in the call has none. */
static void copy_without_room(build *b)
{
    const int32_t page = (int32_t)b->s->dims->page, layers = (int32_t)dim(b, LAYERS);
    const int32_t len = (int32_t)dim(b, LEN) + (page && dim(b, LEN) % page == 0);
    const int32_t a = open_one(b), c = open_one(b);
    for (int32_t l = 0; l < layers; l++) append(b, l, (ts_kv_item[]) { { a, len }, { c, len } }, 2);
    const int32_t twin = fork_one(b, a), other = fork_one(b, c);
    append(b, 0, &(ts_kv_item) { twin, 1 }, 1); /* takes the last page */
    append_refused(b, 0, &(ts_kv_item) { other, 1 }, 1);
    append_refused(b, 0, &(ts_kv_item) { c, 1 }, 1);
    look_at(b, a), look_at(b, c), look_at(b, twin), look_at(b, other);
    truncate_to(b, twin, 0);
    append_refused(b, 0, (ts_kv_item[]) { { other, 1 }, { twin, 2 } }, 2);
    look_at(b, a), look_at(b, c), look_at(b, twin), look_at(b, other);
    append(b, 0, &(ts_kv_item) { other, 1 }, 1);
    append_refused(b, 0, &(ts_kv_item) { twin, 1 }, 1);
    look_at(b, a), look_at(b, c), look_at(b, twin), look_at(b, other);
}

/* Operations that must be rejected for their arguments. */
static void nonsense(build *b)
{
    const int32_t    a = open_one(b), c = open_one(b);
    const ts_kv_item both[] = { { a, 3 }, { c, 2 } }, twice[] = { { a, 1 }, { a, 1 } };
    append(b, 0, both, 2);
    append_refused(b, 0, twice, 2);
    attend_how(b, 0, twice, 2, 0);
    attend_how(b, 0, &(ts_kv_item) { c, 3 }, 1, 0); /* more queries than tokens */
    attend_how(b, 0, both, 2, TS_KV_SHORT);
    emit(b, op(TS_KV_TRUNCATE, 0, 1), &(ts_kv_item) { a, 4 });
    read_some(b, 0, a, 2, 2, -1);
    append_how(b, 0, both, 2, TS_KV_MANY);
    attend_how(b, 0, (ts_kv_item[]) { { a, 1 }, { c, 1 } }, 2, TS_KV_MANY);
    for (int32_t f = 0; f < TS_KV_FUNCTIONS; f++)
        for (int32_t way = 0; way < ts_kv_wrong_ways(f); way++) call_wrongly(b, a, f, way);
    ask(b, a), ask(b, c);
    free_one(b, c);
    emit(b, op(TS_KV_FREE, 0, 1), &(ts_kv_item) { c, 0 });
    append_refused(b, 0, both, 2);
    attend_how(b, 0, both, 2, 0);
    emit(b, op(TS_KV_TRUNCATE, 0, 1), &(ts_kv_item) { c, 0 });
    emit(b, op(TS_KV_FORK, 0, 2), (ts_kv_item[]) { { c, 0 }, { TS_KV_SLOTS - 1, 0 } });
    read_some(b, 0, c, 0, 1, -1);
    emit(b, op(TS_KV_STATUS, 0, 1), &(ts_kv_item) { c, 0 });
    look_at(b, a);
}

/* A forest as it comes, a chain, a star, level after level, and two paths that take turns. */
static int32_t parent_of(int32_t shape, int32_t i)
{
    if (shape == 1) return i - 1;
    if (shape == 2) return -1;
    if (shape == 3) return i < 2 ? -1 : (i - 2) / 2;
    if (shape == 4) return i < 2 ? -1 : i - 2;
    return (int32_t)(ts_bits(77, i) % (uint64_t)(i + 1)) - 1;
}

/* Trees of every shape behind long, short and empty sequences; long, short and empty ones. */
static void trees(build *b)
{
    const int32_t len = (int32_t)dim(b, LEN), n = (int32_t)dim(b, SEQS);
    const int32_t kept[] = { len, 1, 0, (len + 1) / 2, len },
                  rows[] = { len, len, least(5, len), 1, 0 };
    static int32_t parent[TS_KV_WORDS];
    ts_kv_item     item[TS_KV_ITEMS];
    for (int32_t i = 0; i < n; i++) item[i] = (ts_kv_item) { open_one(b), kept[i % 5] };
    for (int32_t l = 0; l < dim(b, LAYERS); l++) append(b, l, item, n);
    for (int32_t shape = 0; shape < 5; shape++) {
        const int32_t l = shape % (int32_t)dim(b, LAYERS), few = shape < 2 ? n : 1;
        int32_t       at = 0;
        for (int32_t i = 0; i < few; i++) {
            item[i].n = rows[i % 5];
            for (int32_t k = 0; k < item[i].n; k++) parent[at++] = parent_of((shape + i) % 5, k);
        }
        attend_tree(b, l, item, few, parent, 0);
    }
    for (int32_t i = 0; i < n; i++) look_at(b, item[i].slot); /* nothing was stored */
}

static void tree_nonsense(build *b)
{
    const int32_t    parent[] = { -1, 0, -1, 0 }, a = open_one(b), c = open_one(b);
    const ts_kv_item both[] = { { a, 2 }, { c, 2 } }, twice[] = { { a, 2 }, { a, 2 } };
    append(b, 0, both, 2);
    for (int32_t how = TS_KV_MANY; how <= TS_KV_LAST_WAY; how *= 2)
        attend_tree(b, 0, both, 2, parent, how);
    attend_tree(b, 0, twice, 2, parent, TS_KV_NO_LSE);
    attend_tree(b, 0, both, 2, parent, TS_KV_SHORT);
    attend_tree(b, 0, both, 2, parent, 0);
    free_one(b, c);
    attend_tree(b, 0, both, 2, parent, TS_KV_NO_LSE); /* closed */
    look_at(b, a);
}

/* A random walk over all operations that fit; the state is read after each step. */
static void fuzz(build *b)
{
    int32_t       live[TS_KV_ITEMS], n_live = 0;
    const int32_t len = (int32_t)dim(b, LEN), most = (int32_t)dim(b, SEQS);
    uint64_t      key = (uint64_t)(dim(b, LEN) * 1000 + dim(b, PAGE) * 10 + dim(b, STORE));
    for (int64_t i = 0; i < FUZZ_STEPS; i++) {
        const uint64_t bits = ts_bits(key, i);
        const int32_t  what = (int32_t)(bits % 16);
        const int32_t  pick = n_live ? (int32_t)((bits >> 8) % (uint64_t)n_live) : 0;
        const int32_t  slot = n_live ? live[pick] : -1;
        const int32_t  layer = (int32_t)((bits >> 40) % (uint64_t)dim(b, LAYERS));
        if (!n_live || (what == 0 && n_live < most)) {
            live[n_live++] = open_one(b);
            continue;
        }
        if (what == 1 && n_live < most) live[n_live++] = fork_one(b, slot);
        else if (what == 2) {
            int32_t shortest = len;
            for (int32_t l = 0; l < dim(b, LAYERS); l++)
                shortest = least(shortest, b->len[slot][l]);
            truncate_to(b, slot, (int32_t)((bits >> 48) % (uint64_t)(shortest + 1)));
        } else if (what == 3 && n_live > 1) {
            free_one(b, slot);
            live[pick] = live[--n_live];
            continue;
        } else {
            const int32_t n = (int32_t)((bits >> 48) % 7);
            append(b, layer, &(ts_kv_item) { slot, least(n, len - b->len[slot][layer]) }, 1);
        }
        ask(b, slot);
        if (i % 4 == 3 && b->len[slot][layer]) attend(b, layer, &(ts_kv_item) { slot, 1 }, 1);
    }
    for (int32_t i = 0; i < n_live; i++) look_at(b, live[i]);
    fill_pool(b, live, n_live);
}

/* ---- dims ---- */

static int64_t divisor_below(int64_t n, int64_t most)
{
    while (n % most) most--;
    return most;
}

/* Of most heads the last group is shorter. */
static int64_t token_group(int64_t head_dim)
{
    return head_dim > 64 ? 32 : head_dim > 8 ? 8 : head_dim > 2 ? head_dim - 1 : head_dim;
}

static void set_store(const ts_case *c, ts_kv_dims *d)
{
    const int64_t store = c->dim[STORE] % META_F16, page = c->dim[PAGE];
    d->io_dtype = d->store_dtype = c->dtype;
    d->meta_dtype = TS_F32;
    d->key_group = 8;
    if (c->dim[STORE] == STORE_F32) d->store_dtype = TS_F32;
    else if (c->dim[STORE] == STORE_F16) d->store_dtype = TS_F16;
    else if (c->dim[STORE] == STORE_BF16) d->store_dtype = TS_BF16;
    else if (store) {
        d->store_dtype = store == STORE_U8 || store == STORE_U8_CHANNEL ? TS_U8 : TS_U4;
        d->meta_dtype = c->dim[STORE] > META_F16 ? TS_F16 : TS_F32;
        d->key_axis = store == STORE_U8 || store == STORE_U4 ? TS_KEY_TOKEN : TS_KEY_CHANNEL;
        d->key_group = d->key_axis == TS_KEY_TOKEN ? token_group(d->head_dim)
                       : page                      ? divisor_below(page, page > 8 ? page / 2 : page)
                                                   : 8;
        if (c->dim[GROUP]) d->key_group = c->dim[GROUP];
    }
}

ts_kv_dims ts_kv_dims_of(const ts_case *c)
{
    const int64_t *m = c->dim;
    ts_kv_dims     d = { .n_layer = m[LAYERS],
                         .n_q_head = m[Q_HEADS],
                         .n_kv_head = m[KV_HEADS],
                         .head_dim = m[HEAD_DIM],
                         .page = m[PAGE],
                         .scale = (ts_is(c, "hot") ? 8 : 1) / sqrt((double)m[HEAD_DIM]) };
    const double   scale[] = { d.scale, 0, 1e-3 * d.scale, 20 * d.scale, -d.scale };
    d.scale = scale[m[SCALE]];
    set_store(c, &d);
    if (ts_is(c, "window") || ts_is(c, "window_only")) d.window = m[LEN] / 3 + 1;
    if (ts_is(c, "window")) d.n_sink = 2;
    if (m[WINDOW]) d.window = m[WINDOW];
    if (m[SINK]) d.n_sink = m[SINK];
    return d;
}

static void begin(build *b)
{
    *b->s->dims = ts_kv_dims_of(b->c);
    b->codes = ts_kv_is_code(b->s->dims->store_dtype);
    b->s->n_cache = is(b, "paged") ? 2 : 1;
    emit(b, op(TS_KV_SIZE, 0, 0), NULL);
}

/* Pages that n tokens of every layer take. */
static int64_t pages_of(const ts_kv_dims *d, int64_t n)
{
    return d->n_layer * ((n + d->page - 1) / d->page);
}

static void end(build *b)
{
    ts_kv_dims *d = b->s->dims;
    emit(b, op(TS_KV_DESTROY, 0, 0), NULL);
    d->n_seq_max = b->peak_open;
    d->capacity = is(b, "sized") ? 2048 : b->peak_len;
    d->max_call_tokens = b->peak_tokens;
    if (d->page) d->n_page = d->n_seq_max * pages_of(d, d->capacity);
    const int64_t len = dim(b, LEN);
    /* As many as the longest and the other two take, and one, which is too little for another. */
    if (d->page && is(b, "full"))
        d->n_page = pages_of(d, len) + pages_of(d, len / 2) + pages_of(d, len / 3) + 1;
    /* What two sequences take, and one more. */
    if (d->page && is(b, "cow")) d->n_page = 2 * pages_of(d, len + (len % d->page == 0)) + 1;
    /* Enough only if what is held twice is kept once. */
    if (d->page && is(b, "fork")) d->n_page = d->n_layer * (len / d->page + 19 / d->page + 8);
    /* What some processor's caches may hold need not come from memory again. */
    const bool device = b->c->use & TS_USE_JUDGE && b->c->use & TS_USE_LARGE;
    if (b->n_stored > (device ? CACHED_DEVICE : CACHED_BYTES)) b->s->bytes += b->read_again;
    b->s->bytes *= (double)b->s->n_cache;
    b->s->flops *= (double)b->s->n_cache;
    b->s->dims[1] = *d;
    b->s->dims[1].page = b->s->dims[1].n_page = 0;
}

enum {
    FORK = 1u << TS_KV_DOES_FORK,
    TRUNCATE = 1u << TS_KV_DOES_TRUNCATE,
    FREE = 1u << TS_KV_DOES_FREE,
    TREE = 1u << TS_KV_DOES_TREE,
    REFUSED = 1u << TS_KV_DOES_REFUSED
};
static const struct {
    const char *family;
    void (*write)(build *b);
    unsigned does;
} scripts[] = { { "chunk", chunks, 0 },
                { "fork", forks, FORK | TRUNCATE | FREE },
                { "truncate", truncations, FORK | TRUNCATE },
                { "nonfinite", truncations, FORK | TRUNCATE },
                { "full", fill_up, FORK | FREE | REFUSED },
                { "nonsense", nonsense, FORK | TRUNCATE | FREE | REFUSED },
                { "fuzz", fuzz, FORK | TRUNCATE | FREE },
                { "paged", fuzz, FORK | TRUNCATE | FREE },
                { "cow", copy_without_room, FORK | TRUNCATE | REFUSED },
                { "tree", trees, TREE | FREE },
                { "tree_nonsense", tree_nonsense, TREE | FREE | REFUSED } };
enum { N_SCRIPTS = sizeof scripts / sizeof *scripts };

/* N_SCRIPTS: as `normal`. */
static int script_of(const ts_case *c)
{
    int i = 0;
    while (i < N_SCRIPTS && !ts_is(c, scripts[i].family)) i++;
    return i;
}

unsigned ts_kv_does(const ts_case *c)
{
    const int i = script_of(c);
    return i < N_SCRIPTS ? scripts[i].does : 0;
}

void ts_kv_script_of(const ts_case *c, ts_kv_script *s)
{
    build *b = calloc(1, sizeof *b);
    if (!b) abort();
    memset(s, 0, sizeof *s);
    b->c = c, b->s = s;
    b->timed = c->use & (TS_USE_TIME | TS_USE_JUDGE);
    s->staged = !b->timed;
    begin(b);
    const int i = script_of(c);
    if (i < N_SCRIPTS) scripts[i].write(b);
    else generate(b, !b->timed ? STEPS : c->use & TS_USE_LARGE ? LARGE_STEPS : TIMED_STEPS);
    end(b);
    free(b);
}

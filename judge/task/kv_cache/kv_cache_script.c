/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_script.c - plays a script of operations on KV caches. */
#include "kv_cache_script.h"

#include <assert.h>
#include <stddef.h>

#include "band.h"

const char *const ts_kv_names[TS_KV_FUNCTIONS + 1] = {
    "ts_kv_bytes", "ts_kv_create", "ts_kv_destroy", "ts_kv_open", "ts_kv_fork",   "ts_kv_truncate",
    "ts_kv_free",  "ts_kv_append", "ts_kv_attend",  "ts_kv_read", "ts_kv_status", NULL,
};

const char *const ts_kv_optional[2] = { "ts_kv_attend_tree", NULL };

enum { ALIGN = TS_BAND_ALIGN, BAND = 64, WORK_BAND = 256, BAND_BYTE = 0xfe };

/* The script is read, and the record written, in blocks: on a device each copy takes some 10 us. */
enum { READ_AHEAD = 1 << 13, LEFT_BEHIND = 1 << 9 };

/* Layout of the workspace: per cache its state and a band; then copies lent to a call; then the
 * caches' own workspace between bands; then a list of sequences. */
typedef struct plan {
    size_t align;
    size_t state_bytes[TS_KV_CACHES], work_bytes, lent_bytes;
    size_t state[TS_KV_CACHES], lent, work, end; /* offsets */
} plan;

typedef struct player {
    const ts_kv_table      *t;
    const ts_mover         *m;
    const ts_kv_cache_args *a;
    ts_exec                 x; /* as passed to the caches */
    plan                    p;
    unsigned char          *base;
    size_t                  room; /* bytes available there */
    ts_kv                  *cache[TS_KV_CACHES];
    int32_t                 number[TS_KV_CACHES][TS_KV_SLOTS];
    int64_t                 n_out, n_read; /* rows written so far */
    int64_t                 begin, end;    /* of the words of the script that were read */
    ts_kv_item              item[TS_KV_ITEMS];
    int32_t                 seq[TS_KV_ITEMS];
    int64_t                 n[TS_KV_ITEMS], n_all;
    int32_t                 word[TS_KV_WORDS]; /* of a tree */
} player;

/* Buffers lent to a call at a time: k, v and q. */
enum { LENT = 3 };

static size_t round_up(const plan *p, size_t n)
{
    return (n + p->align - 1) / p->align * p->align;
}

static size_t kv_row(const ts_kv_dims *d)
{
    return (size_t)(d->n_kv_head * d->head_dim) * ts_kv_io_bytes(d);
}

static size_t q_row(const ts_kv_dims *d)
{
    return (size_t)(d->n_q_head * d->head_dim) * ts_kv_io_bytes(d);
}

static ts_status make_plan(const ts_kv_table *t, const ts_kv_cache_args *a, const ts_exec *x,
                           plan *p)
{
    const ts_kv_dims *d = &a->dims[0];
    *p = (plan) { .align = x->device == TS_CPU ? ALIGN : TS_DEVICE_ALIGN };
    for (int64_t i = 0; i < a->n_cache; i++) {
        size_t          work = 0;
        const ts_status s = t->bytes(&a->dims[i], x, &p->state_bytes[i], &work);
        if (s) return s;
        if (work > p->work_bytes) p->work_bytes = work;
        p->state[i] = p->end;
        p->end += round_up(p, p->state_bytes[i] + BAND);
    }
    p->lent = p->end;
    if (a->staged) {
        const size_t row = kv_row(d) > q_row(d) ? kv_row(d) : q_row(d);
        p->lent_bytes = LENT * ((size_t)d->max_call_tokens * row + ALIGN);
    }
    p->work = p->lent + round_up(p, p->lent_bytes) + WORK_BAND;
    p->end =
        p->work + round_up(p, p->work_bytes + WORK_BAND) + ALIGN + TS_KV_ITEMS * sizeof(int32_t);
    return TS_OK;
}

static ts_status workspace(const void *table, const void *args, const ts_exec *x, size_t *n_bytes)
{
    plan            p;
    const ts_status s = make_plan(table, args, x, &p);
    if (!s) *n_bytes = p.end;
    return s;
}

static size_t band_bytes(const player *w, int i)
{
    return round_up(&w->p, w->p.state_bytes[i] + BAND) - w->p.state_bytes[i];
}

/* Number of changed bytes in the band after a state. */
static int64_t band_changed(const player *w, int i)
{
    unsigned char band[BAND + TS_DEVICE_ALIGN];
    w->m->out(band, w->base + w->p.state[i] + w->p.state_bytes[i], band_bytes(w, i));
    return ts_count_other(band, band_bytes(w, i), BAND_BYTE);
}

/* Number of changed bytes around the caches' workspace. */
static int64_t work_changed(const player *w)
{
    unsigned char before[WORK_BAND], behind[WORK_BAND];
    w->m->out(before, w->base + w->p.work - WORK_BAND, WORK_BAND);
    w->m->out(behind, w->base + w->p.work + w->p.work_bytes, WORK_BAND);
    return ts_count_other(before, WORK_BAND, BAND_BYTE) +
           ts_count_other(behind, WORK_BAND, BAND_BYTE);
}

/* Copies rows of k, v or q (which = 0, 1 or 2) for the duration of a call. */
static const void *lend(player *w, const void *from, int64_t row, size_t row_bytes, int which)
{
    const unsigned char *p = (const unsigned char *)from + (size_t)row * row_bytes;
    if (!w->a->staged) return p;
    unsigned char *to =
        w->base + w->p.lent + (size_t)which * (w->p.lent_bytes / LENT) + ts_kv_io_bytes(w->a->dims);
    w->m->within(to, p, (size_t)w->n_all * row_bytes);
    return to;
}

/* Fills the copies with NaN, for entrants that kept a pointer. */
static void take_back(const player *w, size_t row_bytes)
{
    for (size_t i = 0; i < LENT && w->a->staged; i++)
        w->m->fill(w->base + w->p.lent + i * (w->p.lent_bytes / LENT) + ts_kv_io_bytes(w->a->dims),
                   0xff, (size_t)w->n_all * row_bytes);
}

/* The possibly invalid list of a call. */
typedef struct list {
    ts_kv         *cache;
    int64_t        n_seq;
    const int32_t *seq;
    const int64_t *n;
} list;

static list list_of(player *w, const ts_kv_op *o)
{
    list l = { w->cache[o->cache], o->n_item, w->seq, w->n };
    if (o->how & TS_KV_NO_CACHE) l.cache = NULL;
    if (o->how & TS_KV_NO_LIST) l.seq = NULL;
    if (o->how & TS_KV_NO_COUNTS) l.n = NULL;
    if (!(o->how & TS_KV_MANY)) return l;
    l.n_seq = (int64_t)1 << 60;
    if (w->m != &ts_on_cpu) return l;
    /* At the very end of the arena's buffer, so that reading past it faults. */
    const size_t n = (size_t)o->n_item * sizeof *w->seq;
    l.seq = memcpy(w->base + w->room / sizeof *w->seq * sizeof *w->seq - n, w->seq, n);
    return l;
}

static ts_status append(player *w, const ts_kv_op *o)
{
    const size_t    row = kv_row(w->a->dims);
    const void     *k = lend(w, w->a->k, o->data, row, 0), *v = lend(w, w->a->v, o->data, row, 1);
    const list      l = list_of(w, o);
    const ts_status s = w->t->append(l.cache, &w->x, o->layer, l.n_seq, l.seq, l.n, k, v);
    take_back(w, row);
    return s;
}

static ts_status attend(player *w, const ts_kv_op *o)
{
    const size_t row = q_row(w->a->dims);
    const void  *q = lend(w, w->a->q, o->data, row, 0);
    void        *out = (unsigned char *)w->a->out + (size_t)w->n_out * row;
    float       *lse = o->how & TS_KV_NO_LSE ? NULL : w->a->lse + w->n_out * w->a->dims->n_q_head;
    ts_exec      x = w->x;
    w->n_out += w->n_all;
    if (o->how & TS_KV_SHORT) {
        if (!w->p.work_bytes) return TS_E_WORKSPACE; /* there is none to be short of */
        x.workspace_bytes = 0;
    }
    const list      l = list_of(w, o);
    const ts_status s = w->t->attend(l.cache, &x, o->layer, l.n_seq, l.seq, l.n, q, out, lse);
    take_back(w, row);
    return s;
}

/* Makes one of n parents invalid. */
static void spoil_parents(int32_t how, int32_t *parent, int64_t n, int64_t n_last)
{
    if (how & TS_KV_CHILD_FIRST) parent[0] = 1;
    if (how & TS_KV_OWN_PARENT) parent[n - 1] = (int32_t)n_last - 1;
    if (how & TS_KV_BELOW) parent[n - 1] = -2;
}

static ts_status attend_tree(player *w, const ts_kv_op *o)
{
    const size_t kv = kv_row(w->a->dims), row = q_row(w->a->dims);
    const void  *q = lend(w, w->a->q, w->word[0], row, 2);
    ts_kv_tree   tree = { w->word + 1, lend(w, w->a->k, o->data, kv, 0),
                          lend(w, w->a->v, o->data, kv, 1) };
    void        *out = (unsigned char *)w->a->out + (size_t)w->n_out * row;
    float       *lse = o->how & TS_KV_NO_LSE ? NULL : w->a->lse + w->n_out * w->a->dims->n_q_head;
    ts_exec      x = w->x;
    w->n_out += w->n_all;
    if (!w->t->attend_tree) return TS_E_UNSUPPORTED;
    if (o->how & TS_KV_SHORT) {
        if (!w->p.work_bytes) return TS_E_WORKSPACE; /* there is none to be short of */
        x.workspace_bytes = 0;
    }
    if (o->n_item) spoil_parents(o->how, w->word + 1, w->n_all, w->n[o->n_item - 1]);
    if (o->how & TS_KV_NO_PARENTS) tree.parent = NULL;
    if (o->how & TS_KV_NO_KEYS) tree.k = NULL;
    if (o->how & TS_KV_NO_VALUES) tree.v = NULL;
    const list      l = list_of(w, o);
    const ts_status s = w->t->attend_tree(
        l.cache, o->how & TS_KV_NO_EXEC ? NULL : &x, o->layer, l.n_seq, l.seq, l.n,
        o->how & TS_KV_NO_TREE ? NULL : &tree, o->how & TS_KV_NO_ROWS ? NULL : q,
        o->how & TS_KV_NO_OUT ? NULL : out, lse);
    take_back(w, row);
    return s;
}

static ts_status read_back(player *w, const ts_kv_op *o)
{
    const int64_t row = w->a->dims->n_kv_head * w->a->dims->head_dim;
    float        *k = w->a->read + w->n_read * row, *v = k + w->n[0] * row;
    w->n_read += 2 * w->n[0];
    return w->t->read(w->cache[o->cache], &w->x, o->layer, w->seq[0], o->from, w->n[0], k, v);
}

/* Stores in seen[2] the status of a creation with one byte too few. */
static void size(player *w, const ts_kv_op *o, double *seen)
{
    const size_t n = w->p.state_bytes[o->cache];
    ts_kv       *c = NULL;
    seen[1] = (double)n;
    seen[2] = w->t->create(&w->a->dims[o->cache], &w->x, w->base + w->p.state[o->cache], n - 1, &c);
    seen[3] = c != NULL;
}

static ts_status ask_status(player *w, const ts_kv_op *o, double *seen)
{
    const ts_kv  *c = w->cache[o->cache];
    const int32_t seq = w->seq[0];
    ts_kv_usage   u = { 0 };
    int64_t       len = TS_KV_UNSEEN;
    ts_status     s = w->t->status(c, o->layer, seq, &len, &u);
    if (!s) s = w->t->status(c, o->layer, seq, &len, NULL); /* either output may be NULL */
    if (!s) s = w->t->status(c, o->layer, seq, NULL, &u);
    seen[1] = (double)len;
    seen[2] = (double)u.n_page, seen[3] = (double)u.n_free;
    seen[4] = (double)u.bytes_live, seen[5] = (double)u.bytes_reserved;
    return s;
}

static ts_status destroy(player *w, const ts_kv_op *o, double *seen)
{
    const ts_status s = w->t->destroy(&w->cache[o->cache]);
    seen[1] = w->cache[o->cache] != NULL;
    seen[2] = (double)(band_changed(w, o->cache) + work_changed(w));
    return s;
}

/* ---- invalid calls ---- */

enum { BYTES, CREATE, DESTROY, OPEN, FORK, TRUNCATE, FREE, APPEND, ATTEND, READ, STATUS, N_ALL };
static_assert((int)N_ALL == TS_KV_FUNCTIONS, "in the order of the table");
enum { LAYER = 1, LIST = 2, COUNT = 4, FROM = 8, SEQ = 16 };

/* Per function: its required pointers, and its numeric arguments. */
static const struct {
    int n_pointer, numbers;
} entry[TS_KV_FUNCTIONS] = {
    [BYTES] = { 4, 0 },
    [CREATE] = { 4, 0 },
    [DESTROY] = { 1, 0 },
    [OPEN] = { 3, 0 },
    [FORK] = { 3, SEQ },
    [TRUNCATE] = { 2, COUNT | SEQ },
    [FREE] = { 2, SEQ },
    [APPEND] = { 6, LAYER | LIST | COUNT | SEQ },
    [ATTEND] = { 6, LAYER | LIST | COUNT | SEQ },
    [READ] = { 4, LAYER | COUNT | FROM | SEQ },
    [STATUS] = { 1, LAYER | SEQ },
};

/* The first invalid values on either side. */
static const struct {
    int     number;
    int64_t value;
} wrong_number[] = { { LAYER, -1 }, { LAYER, 0 }, { LIST, -1 }, { COUNT, -1 },
                     { FROM, -1 },  { SEQ, -1 },  { SEQ, 0 } };
enum { N_WRONG = sizeof wrong_number / sizeof *wrong_number };

int ts_kv_wrong_sequences(int function)
{
    return entry[function].numbers & SEQ ? 2 : 0;
}

int ts_kv_wrong_ways(int function)
{
    int n = entry[function].n_pointer;
    for (int i = 0; i < N_WRONG; i++) n += (entry[function].numbers & wrong_number[i].number) != 0;
    return n;
}

typedef struct numbers {
    int64_t layer, n_seq, n, from;
    int32_t seq;
} numbers;

/* 0 for a layer or a sequence means one past the last. */
static void make_wrong(const ts_kv_dims *d, int function, int way, numbers *number)
{
    int i = 0;
    for (; i < N_WRONG; i++)
        if (entry[function].numbers & wrong_number[i].number && way-- == 0) break;
    if (i == N_WRONG) return;
    const int64_t v = wrong_number[i].value;
    if (wrong_number[i].number == LAYER) number->layer = v ? v : d->n_layer;
    if (wrong_number[i].number == LIST) number->n_seq = v;
    if (wrong_number[i].number == COUNT) number->n = v;
    if (wrong_number[i].number == FROM) number->from = v;
    if (wrong_number[i].number == SEQ) number->seq = v ? (int32_t)v : (int32_t)d->n_seq_max;
}

static ts_status call_wrongly(player *w, const ts_kv_op *o)
{
    const ts_kv_table      *t = w->t;
    const ts_kv_cache_args *a = w->a;
    const ts_kv_dims       *d = &a->dims[o->cache];
    ts_kv                  *c = w->cache[o->cache], *made = NULL;
    numbers                 i = { .n_seq = 1, .n = 1, .seq = w->seq[0] };
    size_t                  bytes[2];
    int32_t                 got;
    const ptrdiff_t         row = (ptrdiff_t)(d->n_kv_head * d->head_dim);
    const void *const       k = lend(w, a->k, 0, kv_row(d), 0), *v = lend(w, a->v, 0, kv_row(d), 1);
    float *const            read = a->read + (ptrdiff_t)w->n_read * row;
    void *const             out = (unsigned char *)a->out + (size_t)w->n_out * q_row(d);
    unsigned char *const    state = w->base + w->p.state[o->cache];
    const void             *all[TS_KV_FUNCTIONS][6] = {
                    [BYTES] = { d, &w->x, &bytes[0], &bytes[1] },
                    [CREATE] = { d, &w->x, state, &made },
                    [DESTROY] = { &made },
                    [OPEN] = { c, &w->x, &got },
                    [FORK] = { c, &w->x, &got },
                    [TRUNCATE] = { c, &w->x },
                    [FREE] = { c, &w->x },
                    [APPEND] = { c, &w->x, &i.seq, &i.n, k, v },
                    [ATTEND] = { c, &w->x, &i.seq, &i.n, k, out },
                    [READ] = { c, &w->x, read, read + row },
                    [STATUS] = { c },
    };
    void *p[6];
    memcpy(p, all[o->data], sizeof p);
    if (o->from < entry[o->data].n_pointer) p[o->from] = NULL;
    else make_wrong(d, o->data, o->from - entry[o->data].n_pointer, &i);
    switch (o->data) {
    case BYTES:
        return t->bytes(p[0], p[1], p[2], p[3]);
    case CREATE:
        return t->create(p[0], p[1], p[2], w->p.state_bytes[o->cache], p[3]);
    case DESTROY:
        return t->destroy(p[0]);
    case OPEN:
        return t->open(p[0], p[1], p[2]);
    case FORK:
        return t->fork(p[0], p[1], i.seq, p[2]);
    case TRUNCATE:
        return t->truncate(p[0], p[1], i.seq, i.n);
    case FREE:
        return t->free(p[0], p[1], i.seq);
    case APPEND:
        return t->append(p[0], p[1], i.layer, i.n_seq, p[2], p[3], p[4], p[5]);
    case ATTEND:
        return t->attend(p[0], p[1], i.layer, i.n_seq, p[2], p[3], p[4], p[5], NULL);
    case READ:
        return t->read(p[0], p[1], i.layer, i.seq, i.from, i.n, p[2], p[3]);
    default:
        return t->status(p[0], i.layer, i.seq, &i.from, NULL);
    }
}

static ts_status perform(player *w, const ts_kv_op *o, double *seen)
{
    ts_kv    *c = w->cache[o->cache];
    int32_t  *number = w->number[o->cache], got = TS_KV_UNSEEN;
    ts_status s = TS_OK;
    switch (o->what) {
    case TS_KV_SIZE:
        size(w, o, seen);
        return TS_OK;
    case TS_KV_OPEN:
        s = w->t->open(c, &w->x, &got);
        break;
    case TS_KV_FORK:
        s = w->t->fork(c, &w->x, w->seq[0], &got);
        break;
    case TS_KV_TRUNCATE:
        return w->t->truncate(c, &w->x, w->seq[0], w->n[0]);
    case TS_KV_FREE:
        return w->t->free(c, &w->x, w->seq[0]);
    case TS_KV_APPEND:
        return append(w, o);
    case TS_KV_ATTEND:
        return attend(w, o);
    case TS_KV_TREE:
        return attend_tree(w, o);
    case TS_KV_READ:
        return read_back(w, o);
    case TS_KV_STATUS:
        return ask_status(w, o, seen);
    case TS_KV_WRONG:
        return w->m->by_value ? TS_E_ARG : call_wrongly(w, o);
    default:
        return destroy(w, o, seen);
    }
    seen[1] = got;
    if (!s) number[w->item[o->n_item - 1].slot] = got;
    return s;
}

static void play_op(player *w, const ts_kv_op *o, double *seen)
{
    w->n_all = 0;
    for (int32_t i = 0; i < o->n_item; i++) {
        w->seq[i] = w->number[o->cache][w->item[i].slot];
        w->n[i] = w->item[i].n;
        w->n_all += w->n[i];
    }
    memset(seen, 0, TS_KV_SEEN * sizeof *seen);
    seen[0] = perform(w, o, seen);
}

/* The n words of the script from `at` on, as many as an operation has or fewer. */
static const int32_t *words_at(player *w, int64_t at, size_t n)
{
    static int32_t word[READ_AHEAD];
    if (at + (int64_t)n > w->end) {
        w->begin = at;
        w->end = w->a->n_word - at < READ_AHEAD ? w->a->n_word : at + READ_AHEAD;
        w->m->out(word, w->a->script + at, (size_t)(w->end - at) * sizeof *word);
    }
    return word + (at - w->begin);
}

static void play_ops(player *w)
{
    static double seen[LEFT_BEHIND][TS_KV_SEEN];
    int64_t       at = 0, kept = 0;
    ts_kv_op      o;
    for (int64_t i = 0; i < w->a->n_op; i++, at += (int64_t)ts_kv_op_words(&o)) {
        memcpy(&o, words_at(w, at, sizeof o / sizeof(int32_t)), sizeof o);
        const int32_t *const word = words_at(w, at, ts_kv_op_words(&o));
        memcpy(w->item, word + sizeof o / sizeof *word, (size_t)o.n_item * sizeof *w->item);
        if (o.what == TS_KV_TREE)
            memcpy(w->word, word + ts_kv_op_words(&o) - o.from, (size_t)o.from * sizeof *w->word);
        play_op(w, &o, seen[i - kept]);
        if (i + 1 < w->a->n_op && i + 1 - kept < LEFT_BEHIND) continue;
        w->m->in(w->a->seen + kept * TS_KV_SEEN, seen, (size_t)(i + 1 - kept) * sizeof *seen);
        kept = i + 1;
    }
}

static ts_status create(player *w)
{
    ts_status s = TS_OK;
    for (int i = 0; i < w->a->n_cache && !s; i++) {
        unsigned char *const state = w->base + w->p.state[i];
        w->m->fill(state + w->p.state_bytes[i], BAND_BYTE, band_bytes(w, i));
        s = w->t->create(&w->a->dims[i], &w->x, state, w->p.state_bytes[i], &w->cache[i]);
    }
    return s;
}

static ts_status play(const void *table, const ts_mover *m, const void *args, const ts_exec *x)
{
    const ts_kv_cache_args *a = args;
    player w = { .t = table, .m = m ? m : &ts_on_cpu, .a = a, .x = *x, .base = x->workspace };
    w.room = x->workspace_bytes;
    ts_status s = make_plan(w.t, a, x, &w.p);
    if (s) return s;
    if (!x->workspace || x->workspace_bytes < w.p.end) return TS_E_WORKSPACE;
    if (w.m == &ts_on_cpu && a->staged) w.p.work += ts_odd_offset(w.base + w.p.work);
    w.x.workspace = w.p.work_bytes ? w.base + w.p.work : NULL;
    w.x.workspace_bytes = w.p.work_bytes;
    memset(w.number, 0xff, sizeof w.number);
    w.m->fill(w.base + w.p.work - WORK_BAND, BAND_BYTE, WORK_BAND);
    w.m->fill(w.base + w.p.work + w.p.work_bytes, BAND_BYTE, WORK_BAND);
    s = create(&w);
    if (!s) play_ops(&w);
    return s;
}

const ts_player ts_player_kv_cache = {
    ts_kv_names, ts_kv_optional, NULL, play, workspace, false,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_canon.c - what the rules of the canon are about: elements of one output that break the
 * family's rule, and nothing else.
 *
 * nonfinite   NaN and infinities that attend gives over memory where a truncated one may lie: of a
 *             sequence that is shorter than it was with them, or that has taken a page since.
 * masked      NaN that attend gives for a head and a query that see a key whose score is -inf.
 * nonsense    the answers to invalid calls; and, where one that changes a sequence was accepted,
 *             what is seen of that sequence afterwards. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "kv_cache_inside.h"

/* A sequence in one layer. */
typedef struct span {
    int64_t len, stale; /* stale: one past the last position that has held a NaN or infinity */
    int64_t masked;     /* the first position of a key whose score is -inf; INT64_MAX: none */
    bool    reused;     /* it has taken a page that another NaN may have been on */
} span;

typedef struct state {
    span span[TS_KV_SLOTS][MOST_LAYERS];
    bool dirty; /* a NaN was truncated: its page may be any that is taken from now on */
    bool spoilt[TS_KV_SLOTS], all_spoilt; /* an invalid call that changes it was accepted */
    bool miscounted;                      /* the same, of pages */
} state;

typedef struct walk {
    const ts_kv_cache_args *a;
    const ts_kv_script     *s;
    state                  *cache;
    ts_want                *seen;             /* of the operation at hand */
    const double           *got;              /* what was seen instead */
    ts_want                *read, *out, *lse; /* of its first row */
    int64_t                 n_out;            /* rows so far */
    ts_kv_item              item[TS_KV_ITEMS];
    bool                    stale, masked, nonsense, excused;
} walk;

/* ---- elements ---- */

static bool is_unwritten(const void *p, ts_dtype t, int64_t at)
{
    const size_t n = ts_format_of(t)->n_bytes;
    return ts_is_poison(t, (const unsigned char *)p + (size_t)at * n, n);
}

/* Numbers that are not finite, or only NaN, and that were written. */
static void lift(walk *w, const void *p, ts_dtype t, int64_t at, int64_t n, bool only_nan,
                 ts_want *want)
{
    for (int64_t i = 0; i < n; i++) {
        const double got = ts_load(p, t, at + i);
        if (isfinite(got) || (only_nan && !isnan(got)) || is_unwritten(p, t, at + i)) continue;
        if (want[i].bound == INFINITY) continue;
        want[i].bound = INFINITY;
        w->excused = true;
    }
}

static void lift_all(walk *w, ts_want *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) want[i].bound = INFINITY;
    w->excused = true;
}

/* ---- attend ---- */

/* One row of out and lse, of the query at position p. */
static void pass_over_row(walk *w, const ts_kv_dims *d, const span *s, int64_t p)
{
    const int64_t D = d->head_dim, H = d->n_q_head;
    const bool    stale = w->stale && (s->stale > s->len || s->reused);
    for (int64_t h = 0; h < H; h++) {
        const bool masked = w->masked && h * d->n_kv_head / H == 0 && s->masked <= p;
        if (!stale && !masked) continue;
        lift(w, w->a->out, d->io_dtype, (w->n_out * H + h) * D, D, masked, w->out + h * D);
        lift(w, w->a->lse, TS_F32, w->n_out * H + h, 1, masked, w->lse + h);
    }
}

static void next_row(walk *w, const ts_kv_dims *d)
{
    w->out += d->n_q_head * d->head_dim, w->lse += d->n_q_head, w->n_out++;
}

static bool is_spoilt(const state *c, int32_t slot)
{
    return c->all_spoilt || c->spoilt[slot];
}

/* Of a tree too: what it is given is finite. */
static void attend(walk *w, const ts_kv_op *o, const state *c)
{
    const ts_kv_dims *d = &w->a->dims[o->cache];
    bool              spoilt = false;
    for (int32_t i = 0; i < o->n_item; i++) spoilt |= is_spoilt(c, w->item[i].slot);
    if (spoilt) lift_all(w, w->seen, 1);
    for (int32_t i = 0; i < o->n_item; i++) {
        const span *s = &c->span[w->item[i].slot][o->layer];
        const bool  any = spoilt && (w->got[0] != 0 || is_spoilt(c, w->item[i].slot));
        for (int64_t k = 0; k < w->item[i].n; k++, next_row(w, d)) {
            if (any) lift_all(w, w->out, d->n_q_head * d->head_dim);
            if (any) lift_all(w, w->lse, d->n_q_head);
            pass_over_row(w, d, s, s->len - w->item[i].n + k);
        }
    }
}

static void read_back(walk *w, const state *c)
{
    const int64_t W = w->a->dims->n_kv_head * w->a->dims->head_dim, n = 2 * w->item->n;
    if (is_spoilt(c, w->item->slot)) {
        lift_all(w, w->seen, 1);
        lift_all(w, w->read, n * W);
    }
    w->read += n * W;
}

/* ---- the other operations ---- */

static int64_t pages(const ts_kv_dims *d, int64_t len)
{
    return d->page ? (len + d->page - 1) / d->page : 0;
}

static bool is_cut(const ts_kv_script *s, int64_t row)
{
    for (int i = 0; i < s->n_cut; i++)
        if (row >= s->cut[i][0] && row < s->cut[i][1]) return true;
    return false;
}

static void append(walk *w, const ts_kv_op *o, state *c)
{
    const ts_kv_dims *d = &w->a->dims[o->cache];
    const int64_t     W = d->n_kv_head * d->head_dim;
    int64_t           row = o->data;
    for (int32_t i = 0; i < o->n_item; i++) {
        span *const s = &c->span[w->item[i].slot][o->layer];
        s->reused |= c->dirty && pages(d, s->len + w->item[i].n) > pages(d, s->len);
        for (int64_t k = 0; k < w->item[i].n; k++, row++, s->len++) {
            if (w->stale && is_cut(w->s, row))
                s->stale = s->len + 1 > s->stale ? s->len + 1 : s->stale;
            if (w->masked && isinf(ts_load(w->a->k, d->io_dtype, row * W)) && s->len < s->masked)
                s->masked = s->len;
        }
    }
}

static void cut(const ts_kv_dims *d, state *c, int32_t slot, int64_t n)
{
    for (int64_t l = 0; l < d->n_layer; l++) {
        span *const s = &c->span[slot][l];
        c->dirty |= d->page && s->stale > n;
        s->len = n;
        if (s->masked >= n) s->masked = INT64_MAX;
    }
}

/* Whether an invalid call of the function leaves every sequence alone, even if it is accepted. */
static bool spares_all(int32_t function)
{
    static const char *const name[] = { "ts_kv_bytes", "ts_kv_destroy", "ts_kv_open",
                                        "ts_kv_fork",  "ts_kv_attend",  "ts_kv_read",
                                        "ts_kv_status" };
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (!strcmp(ts_kv_names[function], name[i])) return true;
    return false;
}

/* An invalid call: its answer is not compared. */
static void refuse(walk *w, const ts_kv_op *o, state *c)
{
    if (!w->nonsense) return;
    for (int k = 0; k < 2; k++)
        if (!(fabs(w->got[k] - w->seen[k].value) <= w->seen[k].bound)) lift_all(w, w->seen + k, 1);
    if (w->got[0] != 0) return;
    switch (o->what) {
    case TS_KV_WRONG:
        c->all_spoilt |= !spares_all(o->data);
        break;
    case TS_KV_APPEND:
    case TS_KV_TRUNCATE:
    case TS_KV_FREE:
        for (int32_t i = 0; i < o->n_item; i++) c->spoilt[w->item[i].slot] = true;
        break;
    case TS_KV_FORK:
        break;
    default:
        return;
    }
    c->miscounted = true;
}

static void perform(walk *w, const ts_kv_op *o)
{
    state *const      c = &w->cache[o->cache];
    const ts_kv_dims *d = &w->a->dims[o->cache];
    const int32_t     slot = w->item->slot;
    const bool        refused = w->seen->value != 0;
    if (refused) refuse(w, o, c);
    if (o->what == TS_KV_ATTEND || o->what == TS_KV_TREE) attend(w, o, c);
    if (o->what == TS_KV_READ) read_back(w, c);
    if (refused) return;
    if (o->what == TS_KV_STATUS && is_spoilt(c, slot)) lift_all(w, w->seen, 2);
    if (o->what == TS_KV_STATUS && c->miscounted) lift_all(w, w->seen + 2, 2);
    if (o->what == TS_KV_APPEND) append(w, o, c);
    if (o->what == TS_KV_TRUNCATE) cut(d, c, slot, w->item->n);
    if (o->what == TS_KV_FREE) cut(d, c, slot, 0);
    if (o->what == TS_KV_FORK) memcpy(c->span[w->item[1].slot], c->span[slot], sizeof *c->span);
}

/* ---- what a cache says of its memory ---- */

/* Whether it never says another number of pages, or of free ones: it does not count them. */
static bool counts_pages(const ts_kv_cache_args *a, int32_t cache)
{
    const int32_t *at = a->script;
    const double  *first = NULL, *seen = a->seen;
    ts_kv_op       o;
    for (int64_t i = 0; i < a->n_op; i++, at += ts_kv_op_words(&o), seen += TS_KV_SEEN) {
        memcpy(&o, at, sizeof o);
        if (o.what != TS_KV_STATUS || o.cache != cache || seen[0] != 0) continue;
        if (!first) first = seen;
        if (seen[2] != first[2] || seen[3] != first[3]) return true;
    }
    return false;
}

/* Bytes, and pages that are not counted. */
static void pass_over_memory(const ts_kv_op *o, bool counts, ts_want *seen)
{
    const int first = o->what == TS_KV_SIZE ? 1 : o->what == TS_KV_STATUS ? 2 : TS_KV_SEEN;
    for (int k = first; k < TS_KV_SEEN; k++)
        if (o->what == TS_KV_SIZE || k > 3 || !counts) seen[k].bound = INFINITY;
}

const char *ts_kv_excuse(const ts_case *c, const ts_kv_cache_args *a, const ts_kv_script *s,
                         ts_want *want)
{
    walk          *w = calloc(1, sizeof *w);
    const int32_t *at = a->script;
    bool           counts[TS_KV_CACHES];
    ts_kv_op       o;
    if (!w || !(w->cache = calloc(TS_KV_CACHES, sizeof *w->cache))) abort();
    w->a = a, w->s = s;
    w->stale = ts_is(c, "nonfinite"), w->masked = ts_is(c, "masked");
    w->nonsense = ts_is(c, "nonsense") || ts_is(c, "tree_nonsense");
    w->seen = want, w->got = a->seen;
    w->read = want + s->n_op * TS_KV_SEEN;
    w->out = w->read + s->n_read * a->dims->n_kv_head * a->dims->head_dim;
    w->lse = w->out + s->n_out * a->dims->n_q_head * a->dims->head_dim;
    for (int32_t i = 0; i < TS_KV_CACHES; i++) {
        counts[i] = i < a->n_cache && counts_pages(a, i);
        for (int k = 0; k < TS_KV_SLOTS * MOST_LAYERS; k++)
            w->cache[i].span[k / MOST_LAYERS][k % MOST_LAYERS].masked = INT64_MAX;
    }
    for (int64_t i = 0; i < a->n_op; i++, w->seen += TS_KV_SEEN, w->got += TS_KV_SEEN) {
        memcpy(&o, at, sizeof o);
        memcpy(w->item, at + sizeof o / sizeof *at, (size_t)o.n_item * sizeof *w->item);
        at += ts_kv_op_words(&o);
        perform(w, &o);
        pass_over_memory(&o, counts[o.cache], w->seen);
    }
    const char *const rule = !w->excused ? NULL
                             : w->stale  ? TS_KV_STALE
                             : w->masked ? TS_KV_MASKED
                                         : TS_KV_NONSENSE;
    free(w->cache);
    free(w);
    return rule;
}

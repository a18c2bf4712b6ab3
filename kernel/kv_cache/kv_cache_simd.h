/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_simd.h - a piece of attention over a cache, written once for any width of vector.
 *
 * Private to the files that include it, each of which has first its base/vec_*.h and, for its own
 * instruction set:
 *
 *     ROWS           rows that are taken together
 *     TURNS          of the loop over a row's elements that are unrolled
 *     SPREAD         whether rows are asked for a line at a time, between products
 *     WEIGH          weigh is INLINE, or a function
 *     below          a, and 0 where x is below y
 *     exponent       2^n from a float whose lowest bits are n + 127
 *     largest        of the lanes
 *     put_totals     the totals of four vecs, to memory
 *     unpack         LANES elements or codes, in the order of memory, as floats
 *     unpack_codes   CODES codes, as vectors
 *     AS_CODES       whether codes become floats in registers for few rows: else in memory, which
 *                    takes fewer registers
 *     half, to_half  one TS_F16 as a float, and back
 *
 * A tile of keys and values is made floats and then shared by all rows of the piece; for few rows
 * it is made floats in registers, each time it is used, by the same operations. Each row goes
 * through its own keys alone, so that no other can matter, and in one order, so that its bits do
 * not depend on which rows it is taken with. */
#ifndef TS_KV_CACHE_SIMD_H
#define TS_KV_CACHE_SIMD_H

#include <math.h>
#include <string.h>

#include "exp_simd.h"
#include "unroll.h"
#include "vec_simd.h"

enum {
    VECS = 4,   /* of values, and */
    KEYS = 4,   /* that are taken together */
    FEW = 4,    /* rows for which no copy is made of keys and values */
    AHEAD = 16, /* keys and values that are prefetched */
    LINE = 64,
};

typedef struct tile {
    const char *raw_k[TS_KV_TILE + AHEAD], *raw_v[TS_KV_TILE + AHEAD]; /* addresses of the rows */
    int64_t     place[TS_KV_TILE + AHEAD];                             /* their number in v_data */
    const char *k[TS_KV_TILE], *v[TS_KV_TILE];         /* the same, or copies in floats */
    float       k_step[TS_KV_TILE], k_low[TS_KV_TILE]; /* of codes that are used in place */
    float       v_step[TS_KV_TILE], v_low[TS_KV_TILE];
} tile;

typedef struct work {
    const ts_kv_piece  *p;
    const ts_kv_layout *l;
    const int32_t      *pages;
    int64_t             width, group, tail_begin;
    int64_t             at[TS_KV_ROWS]; /* positions of the rows' queries */
    float              *sums;
    _Alignas(LINE) float q[TS_KV_ROWS * TS_KV_WIDEST]; /* [n_rows][width], times scale */
    _Alignas(LINE) float k[TS_KV_TILE * TS_KV_WIDEST], v[TS_KV_TILE * TS_KV_WIDEST];
    _Alignas(LINE) float step[TS_KV_WIDEST], low[TS_KV_WIDEST]; /* of a group of tokens */
} work;

INLINE float exp_one(float x)
{
    float e[LANES];
    put(e, exp_of(splat(x)));
    return e[0];
}

#include "kv_cache_simd_rows.h"

/* ---- some rows, and keys that all of them see ---- */

/* score[r][j] = q_r k_j for keys a .. b of the tile, of elements t. Codes have a pair of their own,
 * or with `channels` those in step and low. */
INLINE void scores(const work *w, const tile *y, int64_t r0, int n, int64_t a, int64_t b,
                   ts_dtype t, int channels, int64_t width, float score[ROWS][TS_KV_TILE])
{
    const float *q = w->q + r0 * width;
    const int    ahead = r0 == 0 && w->l->store_dtype == t; /* copies were prefetched */
    for (int64_t j = a; j < b; j += KEYS) {
        const char *k[KEYS], *next_k[KEYS], *this_v[KEYS];
        vec         s[ROWS][KEYS], step[KEYS], low[KEYS];
        for (int e = 0; e < KEYS; e++) {
            const int64_t i = ts_lesser(j + e, b - 1);
            k[e] = y->k[i], next_k[e] = y->raw_k[i + AHEAD], this_v[e] = y->raw_v[i];
            step[e] = low[e] = splat(0);
            if (is_code(t) && !channels) step[e] = splat(y->k_step[i]), low[e] = splat(y->k_low[i]);
            if (!SPREAD && ahead) prefetch(next_k[e], w->l->row_bytes);
        }
        UNROLL
        for (int i = 0; i < n * KEYS; i++) s[i / KEYS][i % KEYS] = splat(0);
        TURNS
        for (int64_t d = 0; d < width; d += LANES) {
            vec kv[KEYS];
            if (SPREAD && ahead && bytes_of(t, d) % LINE == 0) {
                const int64_t at = w->l->row_bytes * d / width;
                UNROLL
                for (int e = 0; e < KEYS; e++) {
                    __builtin_prefetch(next_k[e] + at);
                    __builtin_prefetch(this_v[e] + at);
                }
            }
            UNROLL
            for (int e = 0; e < KEYS; e++) {
                if (channels) step[e] = get(w->step + d), low[e] = get(w->low + d);
                kv[e] = element(k[e] + bytes_of(t, d), t, step[e], low[e]);
            }
            UNROLL
            for (int r = 0; r < n; r++) {
                const vec qv = get(q + r * width + d);
                UNROLL
                for (int e = 0; e < KEYS; e++) s[r][e] = madd(qv, kv[e], s[r][e]);
            }
        }
        UNROLL
        for (int r = 0; r < n; r++) put_totals(&score[r][j - a], s[r]);
    }
}

/* Scores to weights; what was summed before is brought to the new largest score. */
WEIGH void weigh(const work *w, float *sum, float *score, int64_t n)
{
    float *m = sum + w->width, *total_weight = m + 1;
    vec    top = splat(-INFINITY), all = splat(0);
    for (int64_t j = n; j % LANES; j++) score[j] = -INFINITY;
    for (int64_t j = 0; j < n; j += LANES) top = larger(top, get(score + j));
    const float here = largest(top), now = here > *m ? here : *m;
    const vec   base = splat(now == -INFINITY ? 0 : now); /* all are -inf: all weights 0 */
    for (int64_t j = 0; j < n; j += LANES) {
        const vec e = exp_of(sub(get(score + j), base));
        put(score + j, e);
        all = add(all, e);
    }
    if (now > *m) {
        const float old = exp_one(*m - now);
        for (int64_t d = 0; d < w->width; d += LANES) put(sum + d, mul(get(sum + d), splat(old)));
        *total_weight *= old;
        *m = now;
    }
    *total_weight += total(all);
}

/* s[r] += sum_j weight[r][j - a] v_j for keys j .. j + picks, with n_vec vecs of each from d on. */
INLINE void add_some(vec s[ROWS][VECS], const tile *y, int n, int64_t a, int64_t j, int picks,
                     ts_dtype t, const float weight[ROWS][TS_KV_TILE], int64_t d, int n_vec)
{
    vec x[ROWS];
    UNROLL
    for (int k = 0; k < picks; k++) {
        vec v[VECS];
        UNROLL
        for (int e = 0; e < n_vec; e++)
            v[e] = element(y->v[j + k] + bytes_of(t, d + e * LANES), t, splat(y->v_step[j + k]),
                           splat(y->v_low[j + k]));
        UNROLL
        for (int r = 0; r < n; r++) {
            const float *p = &weight[r][j - a];
            if (k == 0) x[r] = picks == 1 ? splat(*p) : get_picks(p);
            UNROLL
            for (int e = 0; e < n_vec; e++) s[r][e] = madd_pick(x[r], k, v[e], s[r][e]);
        }
    }
}

/* sum_r += sum_j weight[r][j] v_j, for n_vec vecs from d on. */
INLINE void add_values(const work *w, const tile *y, int64_t r0, int n, int64_t a, int64_t b,
                       ts_dtype t, int64_t width, float weight[ROWS][TS_KV_TILE], int64_t d,
                       int n_vec)
{
    const int64_t each = width + TS_KV_LANES;
    /* Prefetches as much of the next values as is used of these. */
    const int64_t soon = w->l->row_bytes * d / width;
    const int64_t n_soon = w->l->row_bytes * n_vec * LANES / width;
    float        *sum = w->sums + r0 * each + d;
    int64_t       j = a;
    vec           s[ROWS][VECS];
    UNROLL
    for (int i = 0; i < n * n_vec; i++)
        s[i / n_vec][i % n_vec] = get(sum + i / n_vec * each + i % n_vec * LANES);
    for (; j + PICKS <= b; j += PICKS) {
        if (!SPREAD && r0 == 0 && w->l->store_dtype == t)
            for (int k = 0; k < PICKS; k++) prefetch(y->raw_v[j + k + AHEAD] + soon, n_soon);
        add_some(s, y, n, a, j, PICKS, t, weight, d, n_vec);
    }
    for (; PICKS > 1 && j < b; j++) add_some(s, y, n, a, j, 1, t, weight, d, n_vec);
    UNROLL
    for (int i = 0; i < n * n_vec; i++)
        put(sum + i / n_vec * each + i % n_vec * LANES, s[i / n_vec][i % n_vec]);
}

/* Keys t0 + a .. t0 + b, each group of tokens with its own pairs. */
INLINE void scores_by_channel(work *w, const tile *y, int64_t r0, int n, int64_t t0, int64_t a,
                              int64_t b, ts_dtype t, int64_t width, float score[ROWS][TS_KV_TILE])
{
    const ts_kv_layout *l = w->l;
    float               some[ROWS][TS_KV_TILE];
    for (int64_t i = a, end; i < b; i = end) {
        const int64_t at = t0 + i;
        end = ts_lesser(b, i + l->key_group - at % l->key_group);
        spread(w, l->k_meta, ts_kv_key_pair(l, w->pages[at / l->page], w->p->head, at % l->page, 0),
               1);
        scores(w, y, r0, n, i, end, t, 1, width, some);
        for (int r = 0; r < n; r++)
            memcpy(score[r] + i - a, some[r], (size_t)(end - i) * sizeof **score);
    }
}

INLINE void add_keys(work *w, const tile *y, int64_t r0, int n, int64_t t0, int64_t a, int64_t b,
                     ts_dtype t, int64_t width)
{
    _Alignas(LINE) float score[ROWS][TS_KV_TILE];
    int64_t              d = 0;
    if (is_code(t) && w->l->key_axis == TS_KEY_CHANNEL)
        scores_by_channel(w, y, r0, n, t0, a, b, t, width, score);
    else scores(w, y, r0, n, a, b, t, 0, width, score);
    for (int r = 0; r < n; r++)
        weigh(w, w->sums + (r0 + r) * (width + TS_KV_LANES), score[r], b - a);
    for (; d + VECS * LANES <= width; d += VECS * LANES)
        add_values(w, y, r0, n, a, b, t, width, score, d, VECS);
    for (; d < width; d += LANES) add_values(w, y, r0, n, a, b, t, width, score, d, 1);
}

/* ---- a tile, a piece ---- */

/* Of the keys t0 .. t1 the query at p sees a[0] .. b[0], the sinks, and a[1] .. b[1]. */
typedef struct view {
    int64_t a[2], b[2];
} view;

INLINE view view_of(const work *w, int64_t r, int64_t t0, int64_t t1)
{
    const int64_t p = w->at[r];
    const int64_t end = ts_greater(t0, ts_lesser(t1, p + 1));
    const int64_t first = w->l->window ? ts_greater(t0, p - w->l->window + 1) : t0;
    const int64_t sinks = w->l->window ? ts_greater(t0, ts_lesser(end, w->l->n_sink)) : t0;
    return (view) { { 0, ts_greater(first, sinks) - t0 }, { sinks - t0, end - t0 } };
}

INLINE int same_view(view a, view b)
{
    return a.a[1] == b.a[1] && a.b[0] == b.b[0] && a.b[1] == b.b[1];
}

/* Keys t0 .. t1 of positions and rows r .. r1 of queries. */
typedef struct span {
    int64_t t0, t1, r, r1;
} span;

/* Elements are of t. Rows go in groups of ROWS where these see the same keys. */
INLINE void add_tile(work *w, const tile *y, span s, ts_dtype t, int64_t width)
{
    const int64_t t0 = s.t0, t1 = s.t1;
    for (int64_t r = s.r, n; r < s.r1; r += n) {
        const view see = view_of(w, r, t0, t1);
        for (n = 1; n < ROWS && r + n < s.r1; n++)
            if (!same_view(see, view_of(w, r + n, t0, t1))) break;
        n = n == ROWS ? ROWS : n > 1 ? 2 : 1;
        for (int i = 0; i < 2; i++) {
            if (see.a[i] >= see.b[i]) continue;
            if (n == ROWS) add_keys(w, y, r, ROWS, t0, see.a[i], see.b[i], t, width);
            else if (n == 2) add_keys(w, y, r, 2, t0, see.a[i], see.b[i], t, width);
            else add_keys(w, y, r, 1, t0, see.a[i], see.b[i], t, width);
        }
    }
}

/* One function for each kind of element; the commonest width is known to the compiler. */
static void add_tile_f32(work *w, const tile *y, span s)
{
    if (w->width == 128) add_tile(w, y, s, TS_F32, 128);
    else add_tile(w, y, s, TS_F32, w->width);
}

static void add_tile_bf16(work *w, const tile *y, span s)
{
    if (w->width == 128) add_tile(w, y, s, TS_BF16, 128);
    else add_tile(w, y, s, TS_BF16, w->width);
}

static void add_tile_f16(work *w, const tile *y, span s)
{
    add_tile(w, y, s, TS_F16, w->width);
}

static void add_tile_u8(work *w, const tile *y, span s)
{
    if (w->width == 128) add_tile(w, y, s, TS_U8, 128);
    else add_tile(w, y, s, TS_U8, w->width);
}

static void add_tile_u4(work *w, const tile *y, span s)
{
    if (w->width == 128) add_tile(w, y, s, TS_U4, 128);
    else add_tile(w, y, s, TS_U4, w->width);
}

/* Row i of the tile is a token of the tree, as it would be read back. */
INLINE void branch_floats(work *w, tile *y, int64_t i, int64_t token, ts_dtype store)
{
    const ts_kv_layout *l = w->l;
    const ts_kv_tree   *tree = w->p->tree;
    const int64_t       D = l->head_dim, at = (token * l->n_kv_head + w->p->head) * D;
    float *const k = w->k + i * w->width, *const v = w->v + i * w->width;
    y->k[i] = (const char *)k, y->v[i] = (const char *)v;
    if (store == l->io_dtype) {
        floats_of((const char *)tree->k + bytes_of(store, at), store, D, k);
        floats_of((const char *)tree->v + bytes_of(store, at), store, D, v);
        return;
    }
    double row[TS_KV_WIDEST];
    ts_kv_as_key(l, tree->k, at, row);
    for (int64_t d = 0; d < D; d++) k[d] = (float)row[d];
    ts_kv_as_value(l, tree->v, at, row);
    for (int64_t d = 0; d < D; d++) v[d] = (float)row[d];
}

/* A tile with keys of the tree: each query has its own ancestors in it. They take the places that
 * they would have, had they been appended, so that a row's bits are the same as then. */
INLINE void add_branches(work *w, int64_t from, int64_t n, ts_dtype store)
{
    const ts_kv_part *part = w->p->part;
    const int64_t     n_old = ts_greater(0, ts_lesser(n, part->len - from));
    tile              y;
    if (n_old) find_rows(w, from, n_old, &y);
    for (int64_t i = n_old; i < TS_KV_TILE + AHEAD; i++)
        y.raw_k[i] = y.raw_v[i] = (const char *)w->k; /* to be asked for in vain */
    for (int64_t i = 0; i < n_old; i++) key_floats(w, &y, from + i, i, store);
    for (int64_t i = 0; i < n_old; i++) value_floats(w, &y, i, store);
    for (int64_t r = 0, r1; r < w->p->n_rows; r = r1) {
        int64_t i = (w->p->row + r) / w->group, p = w->at[r];
        r1 = ts_lesser(w->p->n_rows, (i + 1) * w->group - w->p->row);
        const int64_t end = ts_lesser(from + n, p + 1);
        for (; p >= ts_greater(from, part->len); p--, i = w->p->tree->parent[part->first + i])
            if (p < end) branch_floats(w, &y, p - from, part->first + i, store);
        if (from < end) add_tile_f32(w, &y, (span) { from, end, r, r1 });
    }
}

INLINE void add_range(work *w, int64_t from, int64_t to, ts_dtype store)
{
    const int64_t n_held = w->p->part->len;
    tile          y;
    for (int64_t n; from < to; from += n) {
        n = ts_lesser(TS_KV_TILE - from % TS_KV_TILE, to - from);
        if (from + n > n_held) {
            add_branches(w, from, n, store);
            continue;
        }
        const span    s = { from, from + n, 0, w->p->n_rows };
        const int64_t n_found = ts_lesser(n + AHEAD, ts_lesser(to, n_held) - from);
        find_rows(w, from, n_found, &y);
        for (int64_t i = n_found; i < TS_KV_TILE + AHEAD; i++)
            y.raw_k[i] = y.raw_k[0], y.raw_v[i] = y.raw_v[0]; /* to be asked for in vain */
        load_rows(w, &y, from, n, store);
        const int as_is = lies_well(w, from, n, store);
        if (store == TS_BF16 && as_is) add_tile_bf16(w, &y, s);
        else if (store == TS_F16 && as_is) add_tile_f16(w, &y, s);
        else if (store == TS_U8 && as_is) add_tile_u8(w, &y, s);
        else if (store == TS_U4 && as_is) add_tile_u4(w, &y, s);
        else add_tile_f32(w, &y, s);
    }
}

INLINE void start(work *w, const ts_kv_piece *p, float *sums)
{
    const ts_kv_layout *l = &p->c->l;
    w->p = p, w->l = l, w->sums = sums;
    w->pages = ts_kv_pages(l, l->table, p->part->seq, p->layer);
    w->width = ts_kv_width(l);
    w->group = l->n_q_head / l->n_kv_head;
    w->tail_begin = ts_kv_tail_begin(l, p->part->len);
    for (int64_t r = 0; r < p->n_rows; r++)
        w->at[r] = ts_kv_position(p->tree, p->part, (p->row + r) / w->group);
    memset(sums, 0, (size_t)(p->n_rows * ts_kv_sum_floats(l)) * sizeof *sums);
    if (l->head_dim == w->width) return;
    memset(w->q, 0, (size_t)(p->n_rows * w->width) * sizeof *w->q); /* the padding, for good */
    memset(w->k, 0, (size_t)(TS_KV_TILE * w->width) * sizeof *w->k);
    memset(w->v, 0, (size_t)(TS_KV_TILE * w->width) * sizeof *w->v);
    memset(w->step, 0, sizeof w->step);
    memset(w->low, 0, sizeof w->low);
}

/* The place of row r among the packed tokens' heads. */
INLINE int64_t head_at(const ts_kv_piece *p, int64_t r)
{
    const int64_t group = p->c->l.n_q_head / p->c->l.n_kv_head, row = p->row + r;
    return (p->part->first + row / group) * p->c->l.n_q_head + p->head * group + row % group;
}

INLINE void load_queries(work *w)
{
    const ts_kv_layout *l = w->l;
    const vec           scale = splat((float)l->scale);
    for (int64_t r = 0; r < w->p->n_rows; r++) {
        const int64_t at = head_at(w->p, r) * l->head_dim;
        float        *q = w->q + r * w->width;
        floats_of((const char *)w->p->q + bytes_of(l->io_dtype, at), l->io_dtype, l->head_dim, q);
        for (int64_t d = 0; d < w->width; d += LANES) put(q + d, mul(get(q + d), scale));
        w->sums[r * ts_kv_sum_floats(l) + w->width] = -INFINITY;
    }
}

static void piece(const ts_kv_piece *p, float *sums)
{
    work w;
    start(&w, p, sums);
    load_queries(&w);
    for (int i = 0; i < 2; i++) {
        const int64_t from = i ? p->from : 0, to = i ? p->to : p->n_sink;
        if (w.l->store_dtype == TS_F32) add_range(&w, from, to, TS_F32);
        else if (w.l->store_dtype == TS_BF16) add_range(&w, from, to, TS_BF16);
        else if (w.l->store_dtype == TS_F16) add_range(&w, from, to, TS_F16);
        else if (w.l->store_dtype == TS_U8) add_range(&w, from, to, TS_U8);
        else add_range(&w, from, to, TS_U4);
    }
}

static void finish(const ts_kv_piece *p, const float *sums, int64_t n, int64_t stride)
{
    const ts_kv_layout *l = &p->c->l;
    const int64_t       width = ts_kv_width(l), each = ts_kv_sum_floats(l);
    for (int64_t r = 0; r < p->n_rows; r++, sums += each) {
        float sum[TS_KV_WIDEST] = { 0 }, m = -INFINITY, weight = 0;
        for (int64_t i = 0; i < n; i++)
            m = sums[i * stride + width] > m ? sums[i * stride + width] : m;
        for (int64_t i = 0; i < n; i++) {
            const float *s = sums + i * stride;
            const float  share = m == -INFINITY ? 1 : exp_one(s[width] - m);
            for (int64_t d = 0; d < width; d += LANES)
                put(sum + d, madd(get(s + d), splat(share), get(sum + d)));
            weight += s[width + 1] * share;
        }
        const int64_t at = head_at(p, r);
        char         *out = (char *)p->out + bytes_of(l->io_dtype, at * l->head_dim);
        for (int64_t d = 0; d < l->head_dim; d += LANES) {
            char last[LANES * sizeof(float)];
            narrow(last, l->io_dtype, divide(get(sum + d), splat(weight)));
            memcpy(out + bytes_of(l->io_dtype, d), last,
                   (size_t)bytes_of(l->io_dtype, ts_lesser(LANES, l->head_dim - d)));
        }
        if (p->lse) p->lse[at] = m + logf(weight);
    }
}

#include "kv_cache_simd_store.h"

static const ts_kv_steps steps = { piece, finish };

static ts_status attend(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                        const ts_kv_part *part, const void *q, void *out, float *lse)
{
    return ts_kv_threads_attend(c, x, layer, n_part, part, NULL, q, out, lse, &steps);
}

static ts_status attend_tree(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                             const ts_kv_part *part, const ts_kv_tree *tree, const void *q,
                             void *out, float *lse)
{
    return ts_kv_threads_attend(c, x, layer, n_part, part, tree, q, out, lse, &steps);
}

static const ts_kv_ops ops = {
    .workspace = ts_kv_threads_workspace,
    .append = append,
    .attend = attend,
    .read = ts_kv_rows_read,
    .copy_pages = ts_kv_rows_copy_pages,
    .copy_tail = ts_kv_rows_copy_tail,
    .fill_tail = ts_kv_rows_fill_tail,
    .attend_tree = attend_tree,
};

ts_status SIMD(ts_kv_cache)(const void *ask, const ts_exec *x)
{
    (void)x;
    *((const ts_kv_ask *)ask)->ops = &ops;
    return TS_OK;
}

#endif

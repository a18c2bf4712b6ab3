/* SPDX-License-Identifier: Apache-2.0 */
/* attention_simd.h - attention of a tile of queries over all keys that it sees, written once for
 * any width of vector. Private to the files that include it.
 *
 * Each of them first includes its base/vec_*.h and defines, for its own instruction set:
 *
 *     ROWS, VECS      rows of a matmul, and vecs of a row, that are processed together
 *     WIDE            vecs of scores that are converted to weights together
 *     finite_of       0 for what is not finite
 *     within          v where begin <= i < end, else -inf
 *
 * Queries are in lanes. Scores are transposed, S' = K Q', and so is the sum, O' = V' P': maxima and
 * sums over keys are then vertical, K and V are read in their own layout, one element at a time,
 * and neither their number nor head_dim need be a multiple of anything. Queries do not affect each
 * other, and lanes without a query are never stored. */
#ifndef TS_ATTENTION_SIMD_H
#define TS_ATTENTION_SIMD_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "exp_simd.h"
#include "unroll.h"

enum { TILE = TS_ATTENTION_TILE };

INLINE int64_t round_up(int64_t n)
{
    return (n + LANES - 1) / LANES * LANES;
}

/* ---- products of tiles ---- */

/* An operand of which single elements are wanted. Element i of row r is at[r * stride + i] or,
 * by_col, at[i * stride + r]. */
typedef struct factor {
    const float *at;
    int64_t      stride;
    bool         by_col;
} factor;

/* Adds terms to sums, from a.at and row b on: one, or by_row as many as there are picks in a vec.
 * Elements of a come to a vec by `picks`: PICKS, or 1. */
INLINE void add_terms(vec sum[ROWS][VECS], factor a, const float *b, int64_t ldb, int picks,
                      int rows, int vecs)
{
    const int n = a.by_col ? 1 : picks;
    vec       x[ROWS];
    UNROLL
    for (int t = 0; t < n; t++) {
        vec y[VECS];
        UNROLL
        for (int v = 0; v < vecs; v++) y[v] = get(b + t * ldb + v * LANES);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const int    e = a.by_col ? r / picks : r, pick = a.by_col ? r % picks : t;
            const float *p = a.at + (a.by_col ? r : r * a.stride);
            if (pick == 0) x[e] = picks == 1 ? splat(*p) : get_picks(p);
            UNROLL
            for (int v = 0; v < vecs; v++) sum[r][v] = madd_pick(x[e], pick, y[v], sum[r][v]);
        }
    }
}

/* c = a b + c * keep, or a b where keep is NULL: `rows` rows of `vecs` vecs, sums of n terms. Rows
 * of b and c are ldb and ldc floats apart; keep is one row. */
INLINE void block(float *c, int64_t ldc, factor a, const float *b, int64_t ldb, const float *keep,
                  int64_t n, int rows, int vecs)
{
    const int64_t step = a.by_col ? a.stride : 1;
    vec           sum[ROWS][VECS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++)
            sum[r][v] = keep ? mul(get(c + r * ldc + v * LANES), get(keep + v * LANES)) : splat(0);
    }
    if (!a.by_col)
        for (; n >= PICKS; n -= PICKS, a.at += PICKS, b += PICKS * ldb)
            add_terms(sum, a, b, ldb, PICKS, rows, vecs);
    if (a.by_col || PICKS > 1)
        for (; n > 0; n--, a.at += step, b += ldb)
            add_terms(sum, a, b, ldb, a.by_col && rows % PICKS == 0 ? PICKS : 1, rows, vecs);
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++) put(c + r * ldc + v * LANES, sum[r][v]);
    }
}

INLINE void column(float *c, int64_t ldc, factor a, const float *b, int64_t ldb, const float *keep,
                   int64_t m, int64_t n, int vecs)
{
    const int64_t step = a.by_col ? 1 : a.stride;
    int64_t       r = 0;
    for (; r + ROWS <= m; r += ROWS, a.at += ROWS * step)
        block(c + r * ldc, ldc, a, b, ldb, keep, n, ROWS, vecs);
    c += r * ldc;
    if (ROWS > 7 && m - r == 7) block(c, ldc, a, b, ldb, keep, n, 7, vecs);
    else if (ROWS > 6 && m - r == 6) block(c, ldc, a, b, ldb, keep, n, 6, vecs);
    else if (ROWS > 5 && m - r == 5) block(c, ldc, a, b, ldb, keep, n, 5, vecs);
    else if (ROWS > 4 && m - r == 4) block(c, ldc, a, b, ldb, keep, n, 4, vecs);
    else if (m - r == 3) block(c, ldc, a, b, ldb, keep, n, 3, vecs);
    else if (m - r == 2) block(c, ldc, a, b, ldb, keep, n, 2, vecs);
    else if (m - r == 1) block(c, ldc, a, b, ldb, keep, n, 1, vecs);
}

/* c = a b + c * keep of m rows, `width` columns (a multiple of LANES), sums of n terms. */
INLINE void product(float *c, int64_t ldc, factor a, const float *b, int64_t ldb, const float *keep,
                    int64_t m, int64_t width, int64_t n)
{
    int64_t v = 0;
    for (; v + VECS * LANES <= width; v += VECS * LANES)
        column(c + v, ldc, a, b + v, ldb, keep ? keep + v : NULL, m, n, VECS);
    for (; v < width; v += LANES)
        column(c + v, ldc, a, b + v, ldb, keep ? keep + v : NULL, m, n, 1);
}

__attribute__((noinline)) static void product_rows(float *c, int64_t ldc, const float *a,
                                                   int64_t lda, const float *b, int64_t ldb,
                                                   int64_t m, int64_t width, int64_t n)
{
    product(c, ldc, (factor) { a, lda, false }, b, ldb, NULL, m, width, n);
}

__attribute__((noinline)) static void product_cols(float *c, const float *a, int64_t lda,
                                                   const float *b, const float *keep, int64_t m,
                                                   int64_t width, int64_t n)
{
    product(c, TILE, (factor) { a, lda, true }, b, TILE, keep, m, width, n);
}

/* ---- rows of memory ---- */

INLINE int64_t bytes_of(ts_dtype t, int64_t n)
{
    return t == TS_F32 ? 4 * n : 2 * n;
}

/* The last elements of a row, fewer than LANES, and 0 in the other lanes. */
INLINE vec widen_last(const char *p, ts_dtype t, int64_t n)
{
    char last[LANES * sizeof(float)] = { 0 };
    memcpy(last, p, (size_t)bytes_of(t, n));
    return widen(last, t);
}

/* n elements as floats, and zeros up to a multiple of LANES. */
INLINE void floats_of(const void *from, ts_dtype t, int64_t at, int64_t n, float *out)
{
    const char *p = (const char *)from + bytes_of(t, at);
    int64_t     c = 0;
    for (; c + LANES <= n; c += LANES) put(out + c, widen(p + bytes_of(t, c), t));
    if (c < n) put(out + c, widen_last(p + bytes_of(t, c), t, n - c));
}

INLINE void store_row(void *to, ts_dtype t, int64_t at, int64_t n, const float *row)
{
    char   *p = (char *)to + bytes_of(t, at);
    int64_t c = 0;
    for (; c + LANES <= n; c += LANES) narrow(p + bytes_of(t, c), t, get(row + c));
    if (c < n) {
        char last[LANES * sizeof(float)];
        narrow(last, t, get(row + c));
        memcpy(p + bytes_of(t, c), last, (size_t)bytes_of(t, n - c));
    }
}

/* out[c][r] = scale * row[c] */
INLINE void put_column(float *out, int64_t r, const float *row, int64_t n, float scale)
{
    for (int64_t c = 0; c < n; c++) out[c * TILE + r] = scale * row[c];
}

INLINE void get_column(const float *from, int64_t r, float *row, int64_t n, float scale)
{
    for (int64_t c = 0; c < n; c++) row[c] = scale * from[c * TILE + r];
}

/* ---- forward ---- */

typedef struct work {
    const ts_flash_attention_args *a;
    const ts_attention_piece      *p;
    int64_t                        kv_head, n, width; /* queries, and lanes that they take */
    float                         *q, *o, *s; /* q and o: [head_dim][TILE], s: [keys][TILE] */
    float                         *k, *v;     /* copies, where these are made */
    float                         *max, *sum, *keep; /* [TILE] */
} work;

/* Scores that a query of the tile does not see become -inf. */
INLINE void hide(const work *w, int64_t begin, int64_t end)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t            past = d->n_k - d->n_q + w->p->begin, wide = ts_attention_window(d);
    float                    lane[LANES];
    for (int i = 0; i < LANES; i++) lane[i] = (float)i;
    for (int64_t j = begin; j < end; j++) {
        const vec from = splat((float)ts_greater(0, ts_lesser(TILE, j - past)));
        const vec to = splat((float)ts_greater(0, ts_lesser(TILE, j - past + wide)));
        float    *s = w->s + (j - begin) * TILE;
        for (int64_t c = 0; c < w->width; c += LANES)
            put(s + c, within(get(s + c), add(get(lane), splat((float)c)), from, to));
    }
}

/* Scores of n keys become weights, relative to the largest score so far. Where that is -inf still,
 * they are relative to a number: -inf less -inf would be NaN. Where it is +inf, NaN is right. */
INLINE void weigh(const work *w, int64_t c, int64_t n, int vecs)
{
    vec max[WIDE], sum[WIDE], base[WIDE];
    UNROLL
    for (int v = 0; v < vecs; v++) max[v] = get(w->max + c + v * LANES);
    for (int64_t j = 0; j < n; j++) {
        UNROLL
        for (int v = 0; v < vecs; v++)
            max[v] = larger(get(w->s + j * TILE + c + v * LANES), max[v]);
    }
    UNROLL
    for (int v = 0; v < vecs; v++) {
        const vec before = get(w->max + c + v * LANES);
        base[v] = larger(max[v], splat(-FLT_MAX));
        const vec keep = exp_of(sub(before, base[v]));
        sum[v] = splat(0); /* of this tile: next to one large weight, small ones would be lost */
        put(w->keep + c + v * LANES, keep);
        put(w->max + c + v * LANES, max[v]);
    }
    for (int64_t j = 0; j < n; j++) {
        UNROLL
        for (int v = 0; v < vecs; v++) {
            float *const s = w->s + j * TILE + c + v * LANES;
            const vec    p = exp_of(sub(get(s), base[v]));
            sum[v] = add(sum[v], p);
            put(s, p);
        }
    }
    UNROLL
    for (int v = 0; v < vecs; v++) {
        float *const all = w->sum + c + v * LANES;
        put(all, add(mul(get(all), get(w->keep + c + v * LANES)), sum[v]));
    }
}

/* Rows [begin, end) of K or V: in place, or a copy in floats, side by side. */
INLINE const float *rows_of(const work *w, const void *from, int64_t begin, int64_t end,
                            float *copy)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t            stride = ts_attention_stride(d, d->n_kv_head);
    const int64_t at = ts_attention_row(d, d->n_kv_head, d->n_k, w->p->batch, w->kv_head, begin);
    if (d->dtype == TS_F32 && stride == d->head_dim) return (const float *)from + at;
    for (int64_t j = 0; j < end - begin; j++)
        floats_of(from, d->dtype, at + j * stride, d->head_dim, copy + j * ts_attention_width(d));
    return copy;
}

INLINE void add_keys(const work *w, int64_t begin, int64_t end)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t            n = end - begin;
    const float             *k = rows_of(w, w->a->k, begin, end, w->k);
    const float             *v = rows_of(w, w->a->v, begin, end, w->v);
    const int64_t            ld = k == w->k ? ts_attention_width(d) : d->head_dim;
    product_rows(w->s, TILE, k, ld, w->q, TILE, n, w->width, d->head_dim);
    if (ts_attention_first(d, w->p->end - 1) > begin ||
        ts_attention_end(d, d->n_k, w->p->begin) < end)
        hide(w, begin, end);
    int64_t c = 0;
    for (; c + WIDE * LANES <= w->width; c += WIDE * LANES) weigh(w, c, n, WIDE);
    for (; c < w->width; c += LANES) weigh(w, c, n, 1);
    product_cols(w->o, v, ld, w->s, w->keep, d->head_dim, w->width, n);
}

INLINE void load_queries(const work *w)
{
    const ts_attention_dims *d = &w->a->d;
    const ts_attention_piece p = *w->p;
    float                    row[TS_ATTENTION_WIDEST];
    memset(w->q, 0, (size_t)(d->head_dim * TILE) * sizeof *w->q);
    memset(w->o, 0, (size_t)(d->head_dim * TILE) * sizeof *w->o);
    for (int64_t r = 0; r < w->n; r++) {
        floats_of(w->a->q, d->dtype,
                  ts_attention_row(d, d->n_q_head, d->n_q, p.batch, p.head, p.begin + r),
                  d->head_dim, row);
        put_column(w->q, r, row, d->head_dim, (float)d->scale);
    }
    for (int64_t r = 0; r < TILE; r++) w->max[r] = -INFINITY, w->sum[r] = 0;
}

INLINE void store_queries(const work *w)
{
    const ts_attention_dims *d = &w->a->d;
    const ts_attention_piece p = *w->p;
    float *const             lse = w->a->lse;
    for (int64_t r = 0; r < w->n; r++) {
        float        row[TS_ATTENTION_WIDEST] = { 0 };
        const double sum = (double)w->sum[r];
        if (sum != 0) get_column(w->o, r, row, d->head_dim, (float)(1 / sum));
        store_row(w->a->o, d->dtype,
                  ts_attention_row(d, d->n_q_head, d->n_q, p.batch, p.head, p.begin + r),
                  d->head_dim, row);
        if (lse)
            lse[(p.batch * d->n_q_head + p.head) * d->n_q + p.begin + r] =
                (float)((double)w->max[r] + log(sum));
    }
}

static void forward(const ts_flash_attention_args *a, const ts_attention_piece *p, float *scratch)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            tile = ts_attention_tile(d);
    float *const             last = scratch + 5 * tile;
    work                     w = { .a = a, .p = p, .n = p->end - p->begin };
    w.kv_head = p->head / (d->n_q_head / d->n_kv_head);
    w.width = round_up(w.n);
    w.q = scratch, w.o = scratch + tile, w.s = scratch + 2 * tile;
    w.k = scratch + 3 * tile, w.v = scratch + 4 * tile;
    w.max = last, w.sum = last + TILE, w.keep = last + 2 * TILE;
    const int64_t step = d->tile_k > 0 ? ts_lesser(d->tile_k, TILE) : TILE;
    const int64_t end = ts_attention_end(d, ts_attention_keys(d, a->kv_len, p->batch), p->end - 1);
    load_queries(&w);
    for (int64_t k = ts_attention_first(d, p->begin); k < end; k += step)
        add_keys(&w, k, ts_lesser(k + step, end));
    store_queries(&w);
}

#endif

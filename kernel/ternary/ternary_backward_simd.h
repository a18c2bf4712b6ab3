/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_backward_simd.h - tiles of dx and of dw, over ternary_simd.h and, for the instruction
 * set,
 *
 *     TALL, WIDE      rows of the product, and vecs of a row, that are taken together
 *     DW_TILES        tiles of outputs that share a look at `in`
 *
 * Both are products of float tiles: dx of dy and of weights made from codes, dw of dy, taken by
 * columns, and `in`. A tile's sum is made from 0 and then added, which keeps roundings few. */
#ifndef TS_TERNARY_BACKWARD_SIMD_H
#define TS_TERNARY_BACKWARD_SIMD_H

#include "unroll.h"

enum { TILE = TS_TERNARY_TILE };

/* The left factor. Element i of row r is at[r * down + i * along]; one of the strides is 1. */
typedef struct factor {
    const float *at;
    int64_t      down, along;
} factor;

/* Adds terms to sums: one, or as many as there are picks in a vec where these follow one another in
 * a row. Elements come to a vec by `picks`: PICKS, or 1. */
INLINE void add_terms(vec part[TALL][WIDE], factor left, const float *right, int rows, int picks)
{
    const bool by_row = left.along == 1;
    const int  n = by_row ? picks : 1;
    vec        x[TALL];
    UNROLL
    for (int t = 0; t < n; t++) {
        vec y[WIDE];
        UNROLL
        for (int v = 0; v < WIDE; v++) y[v] = get(right + t * GROUP + v * LANES);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const int    e = by_row ? r : r / picks, pick = by_row ? t : r % picks;
            const float *p = left.at + r * left.down;
            if (pick == 0) x[e] = picks == 1 ? splat(*p) : get_picks(p);
            UNROLL
            for (int v = 0; v < WIDE; v++) part[r][v] = madd_pick(x[e], pick, y[v], part[r][v]);
        }
    }
}

/* sum += left right, or, where these are the first terms, 0 + left right: `rows` rows of WIDE vecs,
 * `stride` floats apart, and n terms. */
INLINE void product(float *sum, int64_t stride, factor left, const float *right, int64_t n,
                    int rows, bool first)
{
    const bool by_row = left.along == 1;
    const int  picks = by_row || rows % PICKS == 0 ? PICKS : 1, step = by_row ? picks : 1;
    vec        part[TALL][WIDE];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < WIDE; v++) part[r][v] = splat(0);
    }
    for (; n >= step; n -= step, left.at += step * left.along, right += step * GROUP)
        add_terms(part, left, right, rows, picks);
    if (step > 1)
        for (; n > 0; n--, left.at++, right += GROUP) add_terms(part, left, right, rows, 1);
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < WIDE; v++) {
            float *const to = sum + r * stride + v * LANES;
            put(to, add(first ? splat(0) : get(to), part[r][v]));
        }
    }
}

/* m rows, by TALL, then by two; all of GROUP columns. */
INLINE void add_product(float *to, int64_t stride, factor left, const float *right, int64_t m,
                        int64_t n, bool first)
{
    for (int64_t c = 0; c < GROUP; c += WIDE * LANES) {
        factor  l = left;
        float  *sum = to + c;
        int64_t r = 0;
        for (; r + TALL <= m; r += TALL, l.at += TALL * l.down, sum += TALL * stride)
            product(sum, stride, l, right + c, n, TALL, first);
        for (; r + 2 <= m; r += 2, l.at += 2 * l.down, sum += 2 * stride)
            product(sum, stride, l, right + c, n, 2, first);
        if (r < m) product(sum, stride, l, right + c, n, 1, first);
    }
}

static void give_dx(const ts_ternary_linear_backward_args *a, const ts_ternary_matrix *m,
                    int64_t row, int64_t g, ts_ternary_scratch *s)
{
    const ts_ternary_linear_dims *d = &a->d;
    const int64_t                 n_rows = min_of(TILE, d->n_rows - row);
    memset(s->sum, 0, sizeof s->sum);
    for (int64_t o = 0; o < d->n_out; o += TILE) {
        const int64_t n = min_of(TILE, d->n_out - o);
        for (int64_t r = 0; r < n_rows; r++)
            floats_of(a->dy, d->dtype, (row + r) * d->n_out + o, n, 1, s->left + r * TILE);
        for (int64_t i = 0; i < n; i++) weights(m, o + i, g, s->right + i * GROUP);
        add_product(s->sum, GROUP, (factor) { s->left, TILE, 1 }, s->right, n_rows, n, false);
    }
    for (int64_t r = 0; r < n_rows; r++)
        store(s->sum + r * GROUP, ts_ternary_width(d->n_in, g), 1, a->dx, d->dtype,
              (row + r) * d->n_in + g * GROUP);
}

/* dw of outputs [begin, end), at most TILE, and rows from `row` on, which `right` has: added to
 * sums, `stride` floats apart. */
INLINE void add_dw(const ts_ternary_linear_backward_args *a, int64_t begin, int64_t end,
                   int64_t row, ts_ternary_scratch *s, float *sum, int64_t stride)
{
    const ts_ternary_linear_dims *d = &a->d;
    const int64_t                 n = min_of(TILE, d->n_rows - row);
    for (int64_t r = 0; r < n; r++)
        floats_of(a->dy, d->dtype, (row + r) * d->n_out + begin, end - begin, 1,
                  s->left + r * TILE);
    add_product(sum, stride, (factor) { s->left, 1, TILE }, s->right, end - begin, n, row == 0);
}

/* A whole group is summed in dw itself, a part in the scratch. */
static void give_dw(const ts_ternary_linear_backward_args *a, int64_t out, int64_t g,
                    ts_ternary_scratch *s)
{
    const ts_ternary_linear_dims *d = &a->d;
    const int64_t                 end = min_of(out + DW_TILES * TILE, d->n_out), n_in = d->n_in;
    const int64_t width = ts_ternary_width(n_in, g), step = width < GROUP ? TILE : end - out;
    memset(s->sum, 0, sizeof s->sum);
    if (width < GROUP) memset(s->right, 0, sizeof s->right);
    for (int64_t o = out; o < end; o += step) {
        const int64_t to = min_of(o + step, end);
        float *const  dw = a->dw + o * n_in + g * GROUP;
        for (int64_t row = 0; row < d->n_rows; row += TILE) {
            for (int64_t r = row; r < min_of(row + TILE, d->n_rows); r++)
                floats_of(a->in, d->dtype, r * n_in + g * GROUP, width, 1,
                          s->right + (r - row) * GROUP);
            if (width < GROUP) add_dw(a, o, to, row, s, s->sum, GROUP);
            for (int64_t i = o; i < to && width == GROUP; i += TILE)
                add_dw(a, i, min_of(i + TILE, to), row, s, dw + (i - o) * n_in, n_in);
        }
        for (int64_t i = 0; i < to - o && (width < GROUP || d->n_rows == 0); i++)
            memcpy(dw + i * n_in, s->sum + i % TILE * GROUP, (size_t)width * sizeof *dw);
    }
}

#endif

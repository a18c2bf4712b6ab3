/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_backward_simd.h - tiles of dx and of dw, over ternary_simd.h and, for the instruction
 * set,
 *
 *     TALL, WIDE      rows of the product, and vecs of a row, that are taken together
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

/* sum += left right: `rows` rows of WIDE vecs, n terms. */
INLINE void product(float *sum, factor left, const float *right, int64_t n, int rows)
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
            float *const to = sum + r * GROUP + v * LANES;
            put(to, add(get(to), part[r][v]));
        }
    }
}

/* m rows, by TALL, then by two; all of GROUP columns. */
INLINE void add_product(ts_ternary_scratch *s, int64_t down, int64_t along, int64_t m, int64_t n)
{
    for (int64_t c = 0; c < GROUP; c += WIDE * LANES) {
        factor  left = { s->left, down, along };
        float  *sum = s->sum + c;
        int64_t r = 0;
        for (; r + TALL <= m; r += TALL, left.at += TALL * down, sum += TALL * GROUP)
            product(sum, left, s->right + c, n, TALL);
        for (; r + 2 <= m; r += 2, left.at += 2 * down, sum += 2 * GROUP)
            product(sum, left, s->right + c, n, 2);
        if (r < m) product(sum, left, s->right + c, n, 1);
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
        add_product(s, TILE, 1, n_rows, n);
    }
    for (int64_t r = 0; r < n_rows; r++)
        store(s->sum + r * GROUP, ts_ternary_width(d->n_in, g), 1, a->dx, d->dtype,
              (row + r) * d->n_in + g * GROUP);
}

static void give_dw(const ts_ternary_linear_backward_args *a, int64_t out, int64_t g,
                    ts_ternary_scratch *s)
{
    const ts_ternary_linear_dims *d = &a->d;
    const int64_t n_outs = min_of(TILE, d->n_out - out), width = ts_ternary_width(d->n_in, g);
    memset(s->sum, 0, sizeof s->sum);
    memset(s->right, 0, sizeof s->right);
    for (int64_t row = 0; row < d->n_rows; row += TILE) {
        const int64_t n = min_of(TILE, d->n_rows - row);
        for (int64_t r = 0; r < n; r++) {
            floats_of(a->dy, d->dtype, (row + r) * d->n_out + out, n_outs, 1, s->left + r * TILE);
            floats_of(a->in, d->dtype, (row + r) * d->n_in + g * GROUP, width, 1,
                      s->right + r * GROUP);
        }
        add_product(s, 1, TILE, n_outs, n);
    }
    for (int64_t o = 0; o < n_outs; o++)
        memcpy(a->dw + (out + o) * d->n_in + g * GROUP, s->sum + o * GROUP,
               (size_t)width * sizeof *a->dw);
}

#endif

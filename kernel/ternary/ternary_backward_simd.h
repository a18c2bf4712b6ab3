/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_backward_simd.h - tiles of dx and of dw, over ternary_simd.h and, for the instruction
 * set,
 *
 *     WIDE            vecs of a row of the product that are taken together
 *
 * Both are products of float tiles: dx of dy and of weights made from codes, dw of dy, taken by
 * columns, and `in`. A tile's sum is made from 0 and then added, which keeps roundings few. */
#ifndef TS_TERNARY_BACKWARD_SIMD_H
#define TS_TERNARY_BACKWARD_SIMD_H

enum { TALL = 6, TILE = TS_TERNARY_TILE };

/* sum += left right: `rows` rows of WIDE vecs, n terms. Element i of row r of left is
 * left[r * down + i * along]. */
INLINE void product(float *sum, const float *left, int64_t down, int64_t along, const float *right,
                    int64_t n, int rows)
{
    vec part[TALL][WIDE];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < WIDE; v++) part[r][v] = splat(0);
    for (int64_t i = 0; i < n; i++) {
        vec y[WIDE];
#pragma GCC unroll 4
        for (int v = 0; v < WIDE; v++) y[v] = get(right + i * GROUP + v * LANES);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const vec x = splat(left[r * down + i * along]);
#pragma GCC unroll 4
            for (int v = 0; v < WIDE; v++) part[r][v] = madd(x, y[v], part[r][v]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < WIDE; v++) {
            float *const to = sum + r * GROUP + v * LANES;
            put(to, add(get(to), part[r][v]));
        }
}

/* m rows, by TALL and then one by one; all of GROUP columns. */
INLINE void add_product(ts_ternary_scratch *s, int64_t down, int64_t along, int64_t m, int64_t n)
{
    for (int64_t c = 0; c < GROUP; c += WIDE * LANES) {
        int64_t r = 0;
        for (; r + TALL <= m; r += TALL)
            product(s->sum + r * GROUP + c, s->left + r * down, down, along, s->right + c, n, TALL);
        for (; r + 2 <= m; r += 2)
            product(s->sum + r * GROUP + c, s->left + r * down, down, along, s->right + c, n, 2);
        if (r < m)
            product(s->sum + r * GROUP + c, s->left + r * down, down, along, s->right + c, n, 1);
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

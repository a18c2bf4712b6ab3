/* SPDX-License-Identifier: Apache-2.0 */
/* codes_rows.h - rows of a matrix times one row of activations, or four, four groups at a time.
 * Included after codes_simd.h and, for its own instruction set, these:
 *
 *     dots         of four groups of codes and integers, added up in the order of scales_at
 *     dots_halves  the same with a factor for each 16 codes
 *     dot          of one group, in any order */
#ifndef TS_MODEL_CODES_ROWS_H
#define TS_MODEL_CODES_ROWS_H

/* Rows of activations and of the matrix; groups; bytes that are requested ahead, since rows follow
 * rows. */
enum { FEW = 4, TALL = 2, QUAD = 4, AHEAD = 2048 };

/* Rows of activations. */
typedef struct rows {
    const int8_t *code[FEW];
    const float  *scale[FEW], *sum[FEW];
} rows;

typedef struct sums {
    vec dot[FEW], least[FEW];
} sums;

/* Scales and least values of four groups, from block p on or group g of it. */
INLINE void quad_factors(ts_code f, const unsigned char *p, const float d[8], const float m[8],
                         int g, vec *to_d, vec *to_m)
{
    *to_m = zero();
    if (groups_of(f) == 1) {
        four_halves(p, bytes_of(f), to_d, to_m);
    } else {
        *to_d = scales_at(d + g);
        if (!is_signed(f)) *to_m = sums_at(m + g);
    }
}

/* Adds four groups, from block p on or group g of it; g0 is the first one's number in the row. */
INLINE void add_quad(ts_code f, const unsigned char *p, const float d[8], const float m[8], int g,
                     const rows *x, int64_t g0, int n, sums *s)
{
    bytes w[QUAD];
    vec   four_d, four_m;
    quad_factors(f, p, d, m, g, &four_d, &four_m);
    UNROLL
    for (int i = 0; i < QUAD; i++)
        w[i] = groups_of(f) == 1 ? codes_of(f, p + i * bytes_of(f), 0) : codes_of(f, p, g + i);
    UNROLL
    for (int t = 0; t < n; t++) {
        const int8_t *b = x->code[t] + g0 * 2 * TS_CODE_GROUP;
        const vec     scale = scales_at(x->scale[t] + g0);
        s->dot[t] = f == TS_CODE_Q6_K ? dots_halves(w, b, halves_of(p, g), four_d, scale, s->dot[t])
                                      : dots(w, b, is_signed(f), four_d, scale, s->dot[t]);
        if (!is_signed(f)) s->least[t] = madd(four_m, sums_at(x->sum[t] + g0), s->least[t]);
    }
}

/* Adds the one group of block p. */
INLINE void add_one(ts_code f, const unsigned char *p, const rows *x, int64_t g, int n, sums *s)
{
    const bytes w = codes_of(f, p, 0);
    float       d[8], m[8] = { 0 };
    factors_of(f, p, d, m);
    for (int t = 0; t < n; t++) {
        const vec y = dot(w, x->code[t] + g * 2 * TS_CODE_GROUP, is_signed(f));
        s->dot[t] = madd(y, splat(d[0] * x->scale[t][g]), s->dot[t]);
        const float once[QUAD] = { m[0] * x->sum[t][g] };
        s->least[t] = plus(sums_at(once), s->least[t]);
    }
}

/* `tall` rows of the matrix, which share what is loaded of x, and n rows of x. */
INLINE void multiply_few(ts_code f, const ts_encoded_product *p, const ts_rounded *y, int64_t row,
                         int tall, int64_t t0, int n)
{
    const int64_t        n_group = y->cols / TS_CODE_GROUP;
    const int            every = groups_of(f), n_bytes = bytes_of(f);
    const unsigned char *w[TALL];
    rows                 x;
    sums                 s[TALL];
    int64_t              g = 0;
    UNROLL
    for (int t = 0; t < n; t++) {
        x.code[t] = y->code + (t0 + t) * 2 * y->cols;
        x.scale[t] = y->scale + (t0 + t) * n_group;
        x.sum[t] = y->sum + (t0 + t) * n_group;
    }
    UNROLL
    for (int r = 0; r < tall; r++) {
        w[r] = ts_encoded_at(p->e, y->cols, row + r);
        for (int t = 0; t < n; t++) s[r].dot[t] = s[r].least[t] = zero();
    }
    for (; every == 1 && g + QUAD <= n_group; g += QUAD) UNROLL
    for (int r = 0; r < tall; r++, w[r - 1] += QUAD * n_bytes) {
        for (int i = 0; i < QUAD * n_bytes; i += 64) __builtin_prefetch(w[r] + AHEAD + i);
        add_quad(f, w[r], NULL, NULL, 0, &x, g, n, &s[r]);
    }
    for (; every == 1 && g < n_group; g++) UNROLL
    for (int r = 0; r < tall; r++, w[r - 1] += n_bytes) add_one(f, w[r], &x, g, n, &s[r]);
    for (; g < n_group; g += every) {
        float d[TALL][8], m[TALL][8];
        UNROLL
        for (int r = 0; r < tall; r++) {
            factors_of(f, w[r], d[r], m[r]);
            for (int i = 0; i < n_bytes; i += 64) __builtin_prefetch(w[r] + AHEAD + i);
        }
        UNROLL
        for (int i = 0; i < 2 * tall; i++) {
            const int r = i % tall, half = i / tall * QUAD;
            add_quad(f, w[r], d[r], m[r], half, &x, g + half, n, &s[r]);
        }
        UNROLL
        for (int r = 0; r < tall; r++) w[r] += n_bytes;
    }
    UNROLL
    for (int r = 0; r < tall; r++) UNROLL
    for (int t = 0; t < n; t++) {
        float *to = (float *)p->y + (t0 + t) * p->shape.rows + row + r;
        *to = (p->add ? *to : 0) + total(plus(s[r].dot[t], s[r].least[t]));
    }
}

INLINE void multiply_rows(ts_code f, const ts_encoded_product *p, const ts_rounded *x,
                          int64_t first, int64_t n)
{
    int64_t t = 0;
    for (; t + FEW <= x->n; t += FEW)
        for (int64_t r = first; r < first + n; r++) multiply_few(f, p, x, r, 1, t, FEW);
    for (; t < x->n; t++) {
        int64_t r = first;
        for (; r + TALL <= first + n; r += TALL) multiply_few(f, p, x, r, TALL, t, 1);
        for (; r < first + n; r++) multiply_few(f, p, x, r, 1, t, 1);
    }
}

#include "codes_formats.h"

#endif

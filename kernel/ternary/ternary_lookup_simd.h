/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_lookup_simd.h - the forward product with outputs in lanes, over ternary_simd.h and, for
 * the instruction set,
 *
 *     ints                 a vec's worth of 32-bit integers
 *     VECS, VECS_MORE      vecs of outputs that are taken together, of one row of `in` and of more
 *     TABLE                floats that an input is turned into
 *     columns, rows_of     of ternary_columns_x86.h
 *     halves               f16s in the lower halves of words, or in the upper ones, as floats
 *     tables               GROUP inputs as tables
 *     PER                  inputs that share an entry of those, of PER * TABLE floats
 *     chosen, choose       what codes i, i + 1 ... of a word choose of an entry
 *     entry                as a vec, from the table
 *     add_chosen           adds what was chosen to a sum
 *     hold                 makes a sum before what follows
 *
 * A word of a row is 16 codes, and `columns` puts those of as many rows side by side as a vec has
 * lanes. No sum then crosses lanes, and a group's sums meet their scales in one operation. Code
 * point 3 stands for NaN wherever it is looked up. So codes are examined only where a result is not
 * finite, and otherwise cost nothing to check. */
#ifndef TS_TERNARY_LOOKUP_SIMD_H
#define TS_TERNARY_LOOKUP_SIMD_H

enum {
    AHEAD = 8, /* groups whose scales are fetched together: 16 bytes of them */
    ROWS = 4,  /* of `in` that are multiplied together, at most */
};

static void tabulate(const ts_ternary_rows *rows, int r, int64_t g)
{
    const int64_t n_groups = ts_ternary_groups(rows->n_in);
    float         some[GROUP] = { 0 };
    floats_of(rows->in, rows->dtype, (rows->first + r) * rows->n_in + g * GROUP,
              ts_ternary_width(rows->n_in, g), rows->shrink[r], some);
    tables(some, rows->table + (r * n_groups + g) * GROUP * TABLE);
}

/* What is multiplied: some rows of `in` with outputs whose codes and scales begin here. */
typedef struct work {
    const uint8_t *code, *scale;
    const uint8_t *next, *end; /* what will be wanted of the codes */
    int64_t        n_groups, n_out;
    const float   *table;
    int64_t        table_stride;
    float         *y;
    int64_t        y_stride;
} work;

/* Scales of groups [g, g + AHEAD), [group][output]; those past the end are whatever was there. */
INLINE void fetch_scales(const work *w, int64_t g, int vecs, float *out)
{
    uint8_t        copy[VECS * LANES * AHEAD * 2] = { 0 };
    int64_t        stride = w->n_groups * 2;
    const int      n = (int)min_of(AHEAD, w->n_groups - g) * 2;
    const uint8_t *p =
        rows_of(w->scale + g * 2, w->n_out, &stride, vecs * LANES, n, AHEAD * 2, copy);
    for (int v = 0; v < vecs; v++) {
        ints words[4];
        columns(p + v * LANES * stride, stride, words);
#pragma GCC unroll 8
        for (int j = 0; j < AHEAD; j++)
            put(out + (j * vecs + v) * LANES, halves(words[j / 2], j % 2));
    }
}

/* The codes of the outputs after these, a few lines at a time while these are multiplied: the
 * processor itself does not foresee a walk along many rows at once. */
INLINE void look_ahead(work *w, int64_t n_bytes)
{
    for (int64_t i = 0; i < n_bytes && w->next < w->end; i += 64, w->next += 64)
        __builtin_prefetch(w->next, 0, 2);
}

/* Adds the inputs of a word, which are 16, to sums. */
INLINE void add_word(vec sum[][VECS], const ints *word, const float *table, int64_t stride,
                     int rows, int vecs)
{
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += PER) {
        chosen c[VECS];
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) c[v] = choose(word[v], i);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const vec e = entry(table + r * stride + i * TABLE);
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++) {
                sum[r][v] = add_chosen(sum[r][v], c[v], e);
                hold(&sum[r][v]);
            }
        }
    }
}

/* A row's line of memory is two groups. It is taken whole: rows may lie so far apart that few of
 * their lines can be in the first cache at once. */
enum { WORDS = GROUP_BYTES / 4, PAIR = 2 };

INLINE void fetch_codes(work *w, int64_t g, int vecs, ints words[][VECS])
{
    enum { LINE = PAIR * GROUP_BYTES };
    uint8_t        copy[VECS * LANES * LINE];
    int64_t        stride = w->n_groups * GROUP_BYTES;
    const int      n = (int)min_of(PAIR, w->n_groups - g) * GROUP_BYTES;
    const uint8_t *p = w->code + g * GROUP_BYTES;
    p = rows_of(p, w->n_out, &stride, vecs * LANES, n, LINE, copy);
    for (int v = 0; v < vecs; v++)
        for (int q = 0; q < n / 4; q += 4) {
            ints four[4];
            columns(p + v * LANES * stride + q * 4, stride, four);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) words[q + j][v] = four[j];
        }
}

INLINE void add_group(work *w, int64_t g, ints words[][VECS], const float *scale, int rows,
                      int vecs)
{
    vec sum[ROWS][VECS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) sum[r][v] = splat(0);
    for (int j = 0; j < WORDS; j++) {
        look_ahead(w, vecs * LANES * 4);
        add_word(sum, words[j], w->table + (g * GROUP + j * 16) * TABLE, w->table_stride, rows,
                 vecs);
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) {
            float *const y = w->y + r * w->y_stride + v * LANES;
            put(y, madd(get(scale + v * LANES), sum[r][v], get(y)));
        }
}

INLINE void add_groups(work *w, int rows, int vecs)
{
    float scale[AHEAD * VECS * LANES];
    ints  words[PAIR * WORDS][VECS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vecs; v++) put(w->y + r * w->y_stride + v * LANES, splat(0));
    for (int64_t g = 0; g < w->n_groups; g += PAIR) {
        const int n = (int)min_of(PAIR, w->n_groups - g);
        if (g % AHEAD == 0) fetch_scales(w, g, vecs, scale);
        fetch_codes(w, g, vecs, words);
        for (int i = 0; i < n; i++)
            add_group(w, g + i, words + i * WORDS, scale + (g % AHEAD + i) * vecs * LANES, rows,
                      vecs);
    }
}

static void add_1(work *w)
{
    add_groups(w, 1, VECS);
}

static void add_2(work *w)
{
    add_groups(w, 2, VECS_MORE);
}

static void add_3(work *w)
{
    add_groups(w, 3, VECS_MORE);
}

static void add_4(work *w)
{
    add_groups(w, 4, VECS_MORE);
}

static bool multiply(const ts_ternary_matrix *m, int64_t out, int n_rows, const float *table,
                     float *y, int64_t y_stride)
{
    static void (*const ways[])(work *) = { add_1, add_2, add_3, add_4 };
    const int     vecs = n_rows == 1 ? VECS : VECS_MORE;
    const int64_t each = m->n_groups * GROUP_BYTES, n = min_of(TS_TERNARY_BLOCK, m->n_out - out);
    const int64_t next = (out + n) * each, ahead = min_of(m->n_out * each - next, n * each);
    bool          finite = true;
    work          w = { .n_groups = m->n_groups, .table = table };
    w.table_stride = m->n_groups * GROUP * TABLE;
    w.next = m->code + next, w.end = w.next + ahead, w.y_stride = y_stride;
    for (int64_t i = 0; i < n; i += vecs * LANES) {
        w.code = m->code + (out + i) * each, w.n_out = m->n_out - out - i, w.y = y + i;
        w.scale = (const uint8_t *)(m->scale + (out + i) * m->n_groups);
        ways[n_rows - 1](&w);
    }
    for (int r = 0; r < n_rows; r++)
        for (int64_t i = 0; i < n; i++) finite &= y[r * y_stride + i] - y[r * y_stride + i] == 0;
    return finite;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_cases.c - the cases of the embedding tasks: shapes, families, ranges of parameters. */
#include "embedding_cases.h"

#include <math.h>
#include <string.h>

#include "case_list.h"
#include "dtype.h"
#include "rng.h"

typedef struct shape {
    int64_t rows, cols, vocab;
} shape;

/* Every count around the width of a vector, a warp and a block; 70000 rows and tokens of more than
 * 16 bits pass limits. */
static const shape odd_shapes[] = {
    { 0, 16, 5 },     { 1, 1, 1 },     { 3, 1, 2 },     { 2, 3, 4 },       { 5, 7, 3 },
    { 17, 31, 9 },    { 17, 33, 40 },  { 65, 127, 64 }, { 65, 129, 65 },   { 9, 513, 7 },
    { 33, 1025, 12 }, { 257, 96, 50 }, { 300, 17, 2 },  { 70000, 3, 300 }, { 40, 5, 70000 },
};

/* Rows in 16-byte steps, as models have them. */
static const shape even_shapes[] = {
    { 37, 64, 30 }, { 130, 128, 129 }, { 19, 768, 33 }, { 64, 1024, 16 }, { 5, 4096, 6 }
};

static const shape dense_shapes[] = { { 5, 7, 6 }, { 40, 64, 9 }, { 300, 256, 100 } };

/* Rows enough for every unit of a large device to take several. */
static const shape device_shapes[] = { { 6000, 1024, 3000 }, { 9000, 384, 20000 } };

static const shape timed_shapes[] = { { 4096, 768, 32000 },
                                      { 8192, 2048, 32000 },
                                      { 16384, 4096, 50304 } };

typedef struct family {
    const char *name;
    unsigned    dtypes;
    shape       shapes[3];
} family;

static const family families[] = {
    { "same", ALL, { { 9, 7, 5 }, { 300, 33, 40 }, { 20000, 16, 3 } } },
    { "ends", ALL, { { 9, 7, 5 }, { 65, 33, 200 }, { 40, 64, 1000 } } },
    { "constant", ALL, { { 9, 7, 5 }, { 3000, 33, 4 }, { 20000, 16, 3 } } },
    { "denormal", ALL, { { 9, 7, 5 }, { 65, 33, 20 }, { 40, 64, 100 } } },
    { "huge", FAST, { { 9, 7, 5 }, { 65, 33, 20 }, { 40, 64, 100 } } },
    { "nonfinite", ALL, { { 9, 7, 5 }, { 65, 33, 20 }, { 40, 64, 100 } } },
};

/* By the number in a case: scales of no float are the last two. */
static const double scales[] = { 1, 27.712812921102035, -0.5, 0, 1e-42, 1e45 };
enum { TINY_SCALE = 4, LARGE_SCALE = 5 };

double ts_embedding_scale(const ts_case *c)
{
    return scales[c->dim[TS_EMB_SCALE]];
}

/* Results stay in the range of the dtype, and neither table nor dtable is too large. */
static bool affordable(const ts_case *c)
{
    const int64_t scale = c->dim[TS_EMB_SCALE];
    if (scale >= TINY_SCALE && (c->dtype == TS_F16 || ts_is(c, "denormal"))) return false;
    if (fabs(scales[scale]) > 1 && ts_is(c, "huge")) return false;
    if (scale >= TINY_SCALE && ts_is(c, "huge")) return false;
    const int64_t n = (c->dim[TS_EMB_ROWS] + c->dim[TS_EMB_VOCAB]) * c->dim[TS_EMB_COLS];
    return n * (int64_t)ts_format_of(c->dtype)->n_bytes <= 1000000;
}

static bool affordable_forward(const ts_case *c)
{
    if (c->dim[TS_EMB_FLAG] && (c->dtype == TS_F32 || c->dtype == TS_F64)) return false;
    return affordable(c);
}

#define FAMILIES                                                                                   \
    { "normal", ALL }, { "same", ALL }, { "ends", ALL }, { "constant", ALL }, { "denormal", ALL }, \
        { "huge", FAST },                                                                          \
    {                                                                                              \
        "nonfinite", ALL                                                                           \
    }
#define ROWS  TS_COUNTS(2, 70000, 0, 1, 2, 9, 33, 257, 1025, 20001)
#define COLS  TS_COUNTS(2, 8193, 1, 2, 9, 17, 33, 129, 513, 1025)
#define VOCAB TS_COUNTS(2, 70000, 1, 2, 9, 65, 257, 32769, 65537)
#define PADS  TS_RANGE(0, 64, 0, 1, 2, 8, 17)
#define FLAG  TS_RANGE(0, 1, 0, 1)
#define SCALE TS_NUMBERS(0, 0, 1, 2, 3, TINY_SCALE, LARGE_SCALE)

/* rows, cols, vocab, pad, wide; scale */
const ts_cover ts_embedding_forward_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { FAMILIES },
    .empties = 1u << TS_EMB_ROWS,
    .dim = { ROWS, COLS, VOCAB, PADS, FLAG, { 0 }, { 0 }, { 0 }, SCALE },
    .allows = affordable_forward,
};

/* rows, cols, vocab, pad, acc; scale */
const ts_cover ts_embedding_backward_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { FAMILIES },
    .empties = 1u << TS_EMB_ROWS,
    .dim = { ROWS, COLS, VOCAB, PADS, FLAG, { 0 }, { 0 }, { 0 }, SCALE },
    .allows = affordable,
};

/* `number` counts through the flag and the scales of a case. */
static void add(ts_case_list *l, unsigned use, unsigned dtypes, shape s, int64_t pad, int number,
                const char *name)
{
    ts_case        c = { use, TS_F32, { s.rows, s.cols, s.vocab, pad, number & 1 }, name };
    const unsigned narrow = l->backward ? ALL : F16 | BF16; /* which have a flag */
    c.dim[TS_EMB_SCALE] = number / 2 % 4;
    if (ts_is(&c, "huge") && c.dim[TS_EMB_SCALE] == 1) c.dim[TS_EMB_SCALE] = 2;
    ts_case plain = c;
    plain.dim[TS_EMB_FLAG] = 0;
    ts_list_add(l, dtypes & ~narrow, plain); /* f32 and f64 come first */
    ts_list_add(l, dtypes & narrow, c);
}

/* Each shape with scale 1, and with another; pad -1: a few elements. */
static void add_shapes(ts_case_list *l, unsigned dtypes, const shape *s, size_t n, int64_t pad)
{
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            add(l, TS_USE_CHECK, dtypes, s[i], pad < 0 ? 1 + (int64_t)i % 5 : pad,
                ((int)i + k) % 2 + k * 2 * (1 + (int)i % 3), "normal");
}

static const ts_case *build(ts_case_list *l, bool backward)
{
    if (l->n) return l->c;
    l->backward = backward;
    add_shapes(l, ALL, odd_shapes, COUNT(odd_shapes), -1);
    add_shapes(l, FAST, even_shapes, COUNT(even_shapes), 8);
    add_shapes(l, ALL, dense_shapes, COUNT(dense_shapes), 0);
    for (size_t i = 0; i < COUNT(families); i++)
        for (int k = 0; k < 3; k++)
            add(l, TS_USE_CHECK, families[i].dtypes, families[i].shapes[k], k == 2 ? 8 : 3,
                k == 1 ? 3 : k, families[i].name);
    add(l, TS_USE_CHECK, F32 | BF16, (shape) { 3, 40, 3 }, FAR_PAD, 0, "far");
    ts_list_cover(l, backward ? &ts_embedding_backward_cover : &ts_embedding_forward_cover);
    /* A call on the CPU rejects these tokens. */
    add(l, TS_USE_DEVICE, FAST, (shape) { 65, 33, 20 }, 3, 0, "stray");
    add(l, TS_USE_DEVICE, FAST, (shape) { 300, 64, 100 }, 8, 1, "stray");
    for (size_t i = 0; i < COUNT(device_shapes); i++)
        add(l, TS_USE_DEVICE, FAST, device_shapes[i], 8, 1, "normal");
    for (size_t i = 0; i < COUNT(timed_shapes); i++)
        add(l, TS_USE_TIME | (i == 2 ? TS_USE_LARGE : 0), F32 | BF16, timed_shapes[i], 0, 0,
            "normal");
    return l->c;
}

const ts_case *ts_embedding_forward_cases(void)
{
    static ts_case_list l;
    return build(&l, false);
}

const ts_case *ts_embedding_backward_cases(void)
{
    static ts_case_list l;
    return build(&l, true);
}

int64_t ts_embedding_row_stride(const ts_case *c)
{
    return c->dim[TS_EMB_COLS] + c->dim[TS_EMB_PAD];
}

/* Another one, unless rows are dense. */
int64_t ts_embedding_table_stride(const ts_case *c)
{
    return ts_embedding_row_stride(c) + (c->dim[TS_EMB_PAD] ? 8 : 0);
}

/* Low tokens are frequent, as in texts. The first row has the last token, so that a vocabulary that
 * is one shorter does not contain it. */
int32_t ts_embedding_draw_token(const ts_case *c, uint64_t seed, int64_t row)
{
    const int64_t n = c->dim[TS_EMB_VOCAB];
    const double  u = fabs(ts_uniform(seed, row));
    if (ts_is(c, "stray") && row % 5 == 3)
        return (const int32_t[]) { -1, (int32_t)n, INT32_MAX, INT32_MIN }[row / 5 % 4];
    if (ts_is(c, "far")) return (int32_t)(n - 1 - row % n);
    if (ts_is(c, "ends") && row % 2) return 0;
    if (row == 0 || ts_is(c, "ends") || ts_is(c, "same") || ts_is(c, "constant") ||
        ts_is(c, "huge"))
        return (int32_t)(n - 1);
    const int64_t t = (int64_t)(u * u * u * (double)n);
    return (int32_t)(t < n ? t : n - 1);
}

/* All rows have one token, and each column one size: two are added, two are subtracted, so that
 * parts of the sum overflow and the whole does not. */
static double draw_huge(const ts_case *c, uint64_t seed, int64_t row, int64_t col)
{
    const double size = ts_format_of(c->dtype)->max * (0.7 + 0.2 * ts_uniform(seed, col));
    if (row % 4 == 1 && row == c->dim[TS_EMB_ROWS] - 1) return 0;
    return row / 2 % 2 ? -size : size;
}

double ts_embedding_draw(const ts_case *c, uint64_t seed, int64_t row, int64_t col)
{
    const int64_t n = c->dim[TS_EMB_COLS], i = row * n + col, scale = c->dim[TS_EMB_SCALE];
    const double  z = ts_normal(seed, i);
    if (ts_is(c, "normal") && scale < TINY_SCALE) return z; /* large cases are */
    if (ts_is(c, "denormal")) return ts_format_of(c->dtype)->min_normal * 0.25 * z;
    if (ts_is(c, "huge")) return draw_huge(c, seed, row, col);
    if (ts_is(c, "nonfinite") && row % 3 && col == (int64_t)(ts_bits(seed + 8, row) % (uint64_t)n))
        return row % 3 == 1 ? NAN : row % 2 ? INFINITY : -INFINITY;
    const double size = scale == TINY_SCALE ? 1e20 : scale == LARGE_SCALE ? 1e-20 : 1;
    return size * (ts_is(c, "constant") ? 1.1 + 0.01 * (double)(col % 7) : z);
}

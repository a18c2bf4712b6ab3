/* SPDX-License-Identifier: Apache-2.0 */
/* rope_cases.c - the cases of the task rope: shapes, families, ranges of parameters. */
#include "rope_cases.h"

#include <string.h>

#include "case_list.h"
#include "dtype.h"

typedef struct shape {
    int64_t rows, heads, pairs, rest;
} shape;

/* Counts of pairs around the width of a vector and of a warp, with and without channels that are
 * not turned; 70000 rows pass a launch limit. */
static const shape odd_shapes[] = {
    { 0, 2, 4, 0 },   { 1, 1, 1, 0 },   { 2, 1, 0, 3 },   { 3, 1, 1, 1 },    { 5, 2, 3, 1 },
    { 9, 3, 4, 0 },   { 9, 2, 5, 2 },   { 17, 1, 7, 0 },  { 17, 3, 8, 5 },   { 9, 5, 9, 0 },
    { 33, 2, 15, 0 }, { 33, 3, 16, 1 }, { 9, 2, 17, 0 },  { 257, 3, 31, 0 }, { 33, 4, 33, 3 },
    { 9, 2, 127, 0 }, { 9, 2, 129, 2 }, { 5, 1, 257, 0 }, { 3, 65, 5, 0 },   { 70000, 1, 2, 0 },
};

/* As models have them: heads of 64, 80, 96, 128 and 256 channels, all or some turned. */
static const shape model_shapes[] = {
    { 19, 8, 32, 0 }, { 37, 4, 16, 64 }, { 13, 6, 48, 0 }, { 33, 8, 64, 0 }, { 9, 2, 128, 0 },
};

static const shape device_shapes[] = { { 4000, 8, 64, 0 }, { 9000, 3, 32, 0 }, { 3000, 5, 20, 8 } };
static const shape timed_shapes[] = { { 4096, 32, 64, 0 },
                                      { 16384, 8, 64, 0 },
                                      { 8192, 16, 32, 0 } };

static bool affordable(const ts_case *c)
{
    if (c->dim[TS_ROPE_PAIRS] + c->dim[TS_ROPE_REST] == 0) return false; /* no head */
    const int64_t n = c->dim[TS_ROPE_ROWS] * ts_rope_width(c);
    return n * (int64_t)ts_format_of(c->dtype)->n_bytes <=
           (c->dim[TS_ROPE_ROWS] > 2000 ? 1500000 : 400000);
}

static void make(ts_case *c)
{
    if (c->dim[TS_ROPE_PLACE]) c->use |= TS_USE_HOST;
}

#define FLAG TS_RANGE(0, 1, 0, 1)

/* rows, heads, pairs, rest, pad, adj, inv, place; theta, table */
const ts_cover ts_rope_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { { "normal", ALL },
                { "long", ALL },
                { "one", ALL },
                { "huge", ALL },
                { "denormal", ALL },
                { "nonfinite", ALL } },
    .empties = 1u << TS_ROPE_ROWS,
    .dim = { TS_COUNTS(2, 5000, 0, 1, 2, 9, 33, 257, 2001), TS_RANGE(1, 64, 1, 2, 5, 17),
             TS_RANGE(2, 300, 0, 1, 2, 5, 9, 17, 33, 65, 129), TS_RANGE(0, 40, 0, 1, 2, 17),
             TS_RANGE(0, 40, 0, 1, 2, 17), FLAG, FLAG, FLAG, TS_NUMBERS(1, -1, 0, 2, 6), FLAG },
    .allows = affordable,
    .make = make,
};

/* `flags` counts through the switches of a case: pairing, inverse, place, table. */
static void add(ts_case_list *l, unsigned use, unsigned dtypes, shape s, int64_t pad, int flags,
                const char *name)
{
    ts_case c = { use,
                  TS_F32,
                  { s.rows, s.heads, s.pairs, s.rest, pad, flags & 1, flags >> 1 & 1,
                    flags >> 2 & 1, flags % 5 == 4 ? 6 : 0, flags >> 3 & 1 },
                  name };
    make(&c);
    ts_list_add(l, dtypes, c);
}

static void add_shapes(ts_case_list *l, unsigned dtypes, const shape *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            add(l, TS_USE_CHECK, dtypes, s[i], ((int64_t)i + k) % 4, (int)i * 3 + k * 5, "normal");
}

const ts_case *ts_rope_cases(void)
{
    static ts_case_list      l;
    static const char *const family[] = { "long", "one", "huge", "denormal", "nonfinite" };
    if (l.n) return l.c;
    add_shapes(&l, ALL, odd_shapes, COUNT(odd_shapes));
    add_shapes(&l, ALL, model_shapes, COUNT(model_shapes));
    for (size_t i = 0; i < COUNT(family); i++)
        for (int k = 0; k < 4; k++)
            add(&l, TS_USE_CHECK, ALL, odd_shapes[4 + 3 * k], k, (int)i + 5 * k, family[i]);
    for (int k = 0; k < 2; k++) /* y apart, so that both have rows that far */
        add(&l, TS_USE_CHECK, F32 | BF16, (shape) { 3, 2, 8, 4 }, FAR_PAD, k, "far");
    ts_list_cover(&l, &ts_rope_cover);
    for (size_t i = 0; i < COUNT(device_shapes); i++)
        add(&l, TS_USE_DEVICE, FAST, device_shapes[i], 8, (int)i, "normal");
    for (size_t i = 0; i < COUNT(timed_shapes); i++)
        for (int adjacent = 0; adjacent < 2; adjacent++)
            add(&l, TS_USE_TIME, F32 | BF16, timed_shapes[i], 0, adjacent, "normal");
    return l.c;
}

int64_t ts_rope_head_dim(const ts_case *c)
{
    return 2 * c->dim[TS_ROPE_PAIRS] + c->dim[TS_ROPE_REST];
}

int64_t ts_rope_width(const ts_case *c)
{
    return c->dim[TS_ROPE_HEADS] * ts_rope_head_dim(c);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu_cases.c - the cases of the swiglu tasks: shapes, families, ranges of parameters. */
#include "swiglu_cases.h"

#include <math.h>
#include <string.h>

#include "case_list.h"
#include "dtype.h"
#include "rng.h"

typedef struct shape {
    int64_t rows, cols;
} shape;

/* Every count around the width of a vector and of a block; 70000 rows pass a launch limit. */
static const shape odd_shapes[] = {
    { 0, 16 },   { 1, 1 },    { 3, 1 },    { 2, 3 },     { 5, 7 },     { 17, 8 },    { 17, 15 },
    { 17, 16 },  { 17, 17 },  { 17, 31 },  { 17, 33 },   { 17, 127 },  { 9, 1023 },  { 9, 1024 },
    { 9, 1025 }, { 3, 8191 }, { 3, 8193 }, { 1, 40001 }, { 257, 256 }, { 70000, 2 },
};

static const shape device_shapes[] = { { 3000, 1024 }, { 700, 5632 }, { 9000, 96 } };
static const shape timed_shapes[] = { { 8192, 1024 }, { 4096, 5632 }, { 2048, 14336 } };

typedef struct family {
    const char *name;
    unsigned    dtypes;
} family;

static const family families[] = {
    { "large", ALL }, { "deep", ALL },    { "tiny", ALL },     { "root", ALL },
    { "huge", ALL },  { "extreme", ALL }, { "denormal", ALL }, { "nonfinite", ALL },
};

static const shape family_shapes[] = { { 5, 7 }, { 17, 33 }, { 9, 129 }, { 3, 1024 } };

static bool affordable(const ts_case *c)
{
    const int64_t most = c->dim[TS_SWIGLU_ROWS] > 20000 ? 1500000 : 600000;
    return 3 * c->dim[TS_SWIGLU_ROWS] * c->dim[TS_SWIGLU_COLS] *
               (int64_t)ts_format_of(c->dtype)->n_bytes <=
           most;
}

static void make(ts_case *c)
{
    if (c->dim[TS_SWIGLU_PLACE]) c->use |= TS_USE_HOST;
}

#define COVER(places)                                                                              \
    {                                                                                              \
        .use = TS_USE_CHECK, .dtypes = ALL,                                                        \
        .family = { { "normal", ALL },  { "large", ALL },    { "deep", ALL },                      \
                    { "tiny", ALL },    { "root", ALL },     { "huge", ALL },                      \
                    { "extreme", ALL }, { "denormal", ALL }, { "nonfinite", ALL } },               \
        .empties = 1u << TS_SWIGLU_ROWS, .row = TS_COVER_DIMS + 1, .gap = TS_COVER_DIMS + 2,       \
        .dim = { TS_COUNTS(2, 70000, 0, 1, 2, 9, 33, 257, 1025, 20001),                            \
                 TS_COUNTS(2, 20000, 1, 2, 9, 17, 33, 129, 1025, 8193),                            \
                 TS_RANGE(0, 64, 0, 1, 2, 8, 17), places },                                        \
        .allows = affordable, .make = make                                                         \
    }

/* rows, cols, pad, place */
const ts_cover ts_swiglu_forward_cover = COVER(TS_RANGE(0, 2, 0, 1, 2));
const ts_cover ts_swiglu_backward_cover = COVER(TS_RANGE(0, 3, 0, 1, 2, 3));

static void add(ts_case_list *l, unsigned use, unsigned dtypes, shape s, int64_t pad, int place,
                const char *name)
{
    ts_case c = { use, TS_F32, { s.rows, s.cols, pad, place }, name };
    make(&c);
    ts_list_add(l, dtypes, c);
}

static const ts_case *build(ts_case_list *l, bool backward)
{
    const int places = backward ? TS_SWIGLU_PLACES : TS_SWIGLU_Y_IS_UP + 1;
    if (l->n) return l->c;
    for (size_t i = 0; i < COUNT(odd_shapes); i++) {
        add(l, TS_USE_CHECK, ALL, odd_shapes[i], 1 + (int64_t)i % 5, 0, "normal");
        add(l, TS_USE_CHECK, ALL, odd_shapes[i], (int64_t)i % 3 * 8, 1 + (int)i % (places - 1),
            "normal");
    }
    for (size_t i = 0; i < COUNT(families); i++)
        for (int k = 0; k < 4; k++)
            add(l, TS_USE_CHECK, families[i].dtypes, family_shapes[k], k == 3 ? 0 : 3,
                k < 2 ? 0 : k % places, families[i].name);
    add(l, TS_USE_CHECK, F32 | BF16, (shape) { 3, 40 }, FAR_PAD, 0, "far");
    ts_list_cover(l, backward ? &ts_swiglu_backward_cover : &ts_swiglu_forward_cover);
    for (size_t i = 0; i < COUNT(device_shapes); i++)
        add(l, TS_USE_DEVICE, FAST, device_shapes[i], 8, 0, "normal");
    for (size_t i = 0; i < COUNT(timed_shapes); i++)
        add(l, TS_USE_TIME, F32 | BF16, timed_shapes[i], 0, 0, "normal");
    return l->c;
}

const ts_case *ts_swiglu_forward_cases(void)
{
    static ts_case_list l;
    return build(&l, false);
}

const ts_case *ts_swiglu_backward_cases(void)
{
    static ts_case_list l;
    return build(&l, true);
}

int64_t ts_swiglu_x_stride(const ts_case *c)
{
    return c->dim[TS_SWIGLU_COLS] + c->dim[TS_SWIGLU_PAD];
}

/* Its own, unless a buffer has both. */
int64_t ts_swiglu_y_stride(const ts_case *c)
{
    return ts_swiglu_x_stride(c) + (c->dim[TS_SWIGLU_PAD] && !c->dim[TS_SWIGLU_PLACE] ? 1 : 0);
}

/* Infinities and NaN in some places, and what they meet. */
static double nonfinite(double z, uint64_t bits)
{
    if (bits % 4) return z;
    return (const double[]) { NAN, INFINITY, -INFINITY, 0 }[bits / 4 % 4];
}

/* Deep: s is past the range of dtype, and what it is multiplied by brings it back. Extreme: the
 * same of a product of dy and up, or of gate and up. */
ts_swiglu_point ts_swiglu_draw(const ts_case *c, uint64_t seed, int64_t i)
{
    const char     *f = c->family;
    const ts_dtype  t = c->dtype;
    const double    u = ts_uniform(ts_mix(seed + 3), i); /* -1 to 1 */
    ts_swiglu_point p = { ts_normal(seed, i), ts_normal(ts_mix(seed + 1), i),
                          ts_normal(ts_mix(seed + 2), i) };
    if (!strcmp(f, "normal")) {
        p.gate *= 2;
    } else if (!strcmp(f, "large")) {
        p.gate *= ts_by_dtype(t, 60, 300, 12, 60);
    } else if (!strcmp(f, "deep")) {
        p.gate = ts_by_dtype(t, -130, -1000, -14, -130) + u * ts_by_dtype(t, 40, 200, 3, 40);
        p.up *= ts_by_dtype(t, 1e36, 1e300, 6000, 1e36);
        p.dy *= ts_by_dtype(t, 1e30, 1e250, 1000, 1e30);
    } else if (!strcmp(f, "extreme")) {
        const bool   large = ts_bits(seed + 9, i) % 2;
        const double most = ts_by_dtype(t, 1e30, 1e200, 1000, 1e30);
        p.gate = large ? ts_by_dtype(t, -72, -500, -16, -72) + 4 * u : p.gate;
        p.up *= large ? most : 1 / most;
        p.dy *= most;
    } else if (!strcmp(f, "tiny")) {
        p.gate *= ts_by_dtype(t, 1e-25, 1e-200, 1e-3, 1e-25);
    } else if (!strcmp(f, "root")) {
        p.gate = -1.2784645427610738 + 0.01 * u;
    } else if (!strcmp(f, "huge")) {
        p.gate = ts_format_of(t)->max * (u < 0 ? -0.99 : 0.99);
        p.up = ts_uniform(ts_mix(seed + 1), i);
        p.dy = ts_uniform(ts_mix(seed + 2), i);
    } else if (!strcmp(f, "denormal")) {
        p.gate *= ts_format_of(t)->min_normal;
        p.dy *= ts_format_of(t)->min_normal;
    } else if (!strcmp(f, "nonfinite")) {
        p.gate = nonfinite(p.gate, ts_bits(seed + 4, i));
        p.up = nonfinite(p.up, ts_bits(seed + 5, i));
        p.dy = nonfinite(p.dy, ts_bits(seed + 6, i));
    }
    return p;
}

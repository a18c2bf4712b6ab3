/* SPDX-License-Identifier: Apache-2.0 */
/* attention_cases.c - the cases of the attention tasks, and their inputs. */
#include "attention_cases.h"

#include <string.h>

#include "case_list.h"

enum { SOME = F32 | BF16, MAX_SHAPES = 4, MUCH = 1 << 17 };
enum { FULL = TS_FULL, CAUSAL = TS_CAUSAL, WINDOW = TS_WINDOW };

#define LONGEST (INT64_MAX - 1) /* window, plus 1 */

typedef ts_attention_shape_of shape;

/* Invalid calls are derived from the first. Lengths around tiles of 16, 64 and 128, lengths of q
 * and k that differ, every way to share heads, odd head dimensions, hints that divide nothing; many
 * tiles of keys, and of queries. */
static const shape plain_shapes[] = {
    { 17, 17, 2, 4, 2, 64, CAUSAL, 640 },
    { 2, 2, 1, 2, 1, 8, CAUSAL, 11 },
    { 1, 1, 1, 1, 1, 1, FULL, 0 },
    { 15, 15, 1, 6, 3, 33, FULL, 160 },
    { 3, 9, 1, 14, 2, 8, FULL, 0 },
    { 17, 17, 2, 6, 3, 80, CAUSAL, 371 },
    { 33, 33, 1, 2, 1, 1, CAUSAL, 10 },
    { 1, 64, 2, 4, 2, 64, CAUSAL, 0 },
    { 5, 64, 2, 4, 2, 64, CAUSAL, 161 },
    { 64, 5, 1, 2, 1, 64, CAUSAL, 160 },
    { 65, 130, 1, 2, 1, 64, CAUSAL, 641 },
    { 130, 65, 1, 1, 1, 33, FULL, 372 },
    { 1, 65, 1, 8, 1, 128, FULL, 1 },
    { 63, 63, 1, 4, 1, 64, CAUSAL, 640 },
    { 64, 64, 1, 2, 2, 64, FULL, 643 },
    { 65, 65, 1, 2, 2, 128, CAUSAL, 640 },
    { 65, 65, 1, 2, 1, 64, FULL, 971 },
    { 127, 127, 1, 2, 1, 33, CAUSAL, 0 },
    { 128, 128, 1, 1, 1, 64, FULL, 1280 },
    { 128, 128, 1, 1, 1, 128, CAUSAL, 1 },
    { 129, 129, 1, 2, 1, 80, CAUSAL, 640 },
    { 17, 33, 1, 2, 1, 129, CAUSAL, 0 },
    { 9, 40, 1, 2, 2, 200, FULL, 161 },
    { 9, 17, 2, 1, 1, 255, CAUSAL, 0 },
    { 65, 129, 1, 1, 1, 256, FULL, 161 },
    { 40, 40, 1, 2, 2, 256, CAUSAL, 2 },
    { 300, 300, 1, 1, 1, 33, CAUSAL, 970 },
    { 300, 129, 1, 1, 1, 8, FULL, 5121 },
    { 65, 1021, 1, 1, 1, 16, CAUSAL, 0 },
    { 1021, 33, 1, 1, 1, 16, FULL, 5120 },
    { 3, 5, 1, 66, 2, 8, FULL, 0 },
    { 2, 17, 1, 35, 35, 9, CAUSAL, 1 },
    { 5, 40, 1, 2, 1, 8, CAUSAL, INT64_MAX / 10 * 10 },
};

/* More rows than 16 bits count, as the queries of the heads that share, by how many share. */
static const shape shared_rows[] = {
    { 22100, 3, 1, 6, 2, 1, FULL, 0 },   { 13200, 2, 1, 5, 1, 1, FULL, 1 },
    { 11100, 3, 1, 12, 2, 1, FULL, 0 },  { 9500, 2, 1, 7, 1, 1, CAUSAL, 0 },
    { 7400, 3, 1, 18, 2, 1, FULL, 1 },   { 6100, 2, 1, 11, 1, 1, FULL, 0 },
    { 5500, 3, 1, 24, 2, 1, CAUSAL, 0 }, { 4500, 2, 1, 15, 1, 1, FULL, 0 },
};

/* Work enough for threads to overlap in the heads that add to one gradient. */
static const shape contended[] = {
    { 257, 257, 1, 8, 1, 64, CAUSAL, 0 },
    { 300, 130, 1, 6, 2, 64, FULL, 0 },
    { 200, 300, 1, 4, 1, 128, CAUSAL, 1 },
};

/* No queries, no visible keys, neither; and heads past a launch limit. */
static const shape many_heads = { 1, 1, 33000, 2, 1, 1, CAUSAL, 0 };
static const shape many_keys = { 1, 70000, 1, 1, 1, 1, CAUSAL, 0 };
static const shape many_queries = { 70000, 2, 1, 1, 1, 1, FULL, 0 };
static const shape empty_shapes[] = { { 0, 17, 2, 2, 1, 8, FULL, 0 },
                                      { 17, 0, 2, 2, 1, 8, CAUSAL, 1 },
                                      { 5, 5, 0, 2, 1, 8, FULL, 0 } };

typedef struct family {
    const char *name;
    unsigned    dtypes, backward; /* in which dtypes; 0: not at all */
    shape       shapes[MAX_SHAPES];
} family;

/* clang-format off */
static const family families[] = {
    { "late",      ALL, ALL, { { 65, 65, 1, 2, 1, 64, FULL, 160 }, { 129, 129, 1, 2, 1, 33, CAUSAL, 641 },
                               { 65, 300, 1, 1, 1, 33, FULL, 640 } } },
    { "falling",   ALL, ALL, { { 65, 65, 1, 1, 1, 64, CAUSAL, 161 }, { 129, 129, 1, 1, 1, 33, FULL, 640 } } },
    { "sink",      ALL, ALL, { { 65, 65, 1, 2, 1, 64, CAUSAL, 640 }, { 65, 130, 1, 1, 1, 128, FULL, 0 } } },
    { "last",      ALL, ALL, { { 65, 65, 1, 1, 1, 64, FULL, 641 }, { 129, 129, 1, 1, 1, 64, FULL, 0 } } },
    { "saturated", ALL, ALL, { { 65, 65, 1, 1, 1, 64, FULL, 0 }, { 129, 129, 1, 1, 1, 64, CAUSAL, 640 } } },
    { "early",     ALL, ALL, { { 65, 65, 1, 1, 1, 64, CAUSAL, 160 }, { 129, 129, 1, 1, 1, 33, FULL, 641 } } },
    { "offset",    ALL, ALL, { { 65, 65, 1, 1, 1, 64, CAUSAL, 0 }, { 65, 129, 1, 1, 1, 128, FULL, 1 } } },
    { "hot",       ALL, WIDE,
                             { { 65, 65, 1, 2, 1, 64, CAUSAL, 640 }, { 129, 129, 1, 1, 1, 33, FULL, 161 } } },
    { "flat",      ALL, ALL, { { 65, 700, 1, 1, 1, 8, FULL, 0 }, { 129, 129, 1, 1, 1, 64, CAUSAL, 641 } } },
    { "negative",  ALL, ALL, { { 65, 65, 1, 1, 1, 64, CAUSAL, 0 }, { 129, 64, 1, 2, 1, 33, FULL, 641 } } },
    { "window",    ALL, ALL, { { 65, 65, 1, 2, 1, 64, WINDOW, 160 }, { 129, 129, 1, 2, 1, 33, WINDOW + 16, 641 },
                               { 65, 300, 1, 2, 2, 64, WINDOW + 63, 640 }, { 64, 40, 1, 2, 1, 80, WINDOW + 7, 1 } } },
    { "window_long", F32 | F64, F32 | F64, { { 2, 4200, 1, 1, 1, 3, WINDOW + 4096, 0 } } },
    { "deep",      ALL, ALL, { { 17, 33, 1, 2, 1, 8, FULL, 0 }, { 65, 65, 1, 1, 1, 33, CAUSAL, 641 } } },
    { "sunk",      0, WIDE,  { { 17, 33, 1, 2, 1, 8, FULL, 0 }, { 65, 65, 1, 1, 1, 33, CAUSAL, 641 },
                               { 65, 40, 2, 4, 2, 64, FULL, 0 }, { 130, 130, 1, 2, 1, 80, FULL, 1 } } },
    { "floor",     WIDE, 0,  { { 17, 33, 1, 2, 1, 8, FULL, 0 }, { 65, 65, 1, 1, 1, 33, CAUSAL, 641 },
                               { 9, 300, 1, 2, 2, 64, FULL, 1 } } },
    { "ragged",    ALL, ALL, { { 65, 65, 3, 2, 1, 64, FULL, 640 }, { 64, 130, 3, 2, 1, 33, CAUSAL, 371 },
                               { 1, 64, 4, 4, 1, 64, CAUSAL, 0 }, { 65, 129, 3, 2, 1, 16, WINDOW + 40, 640 } } },
    { "padding",   ALL, ALL, { { 65, 65, 3, 2, 1, 64, FULL, 160 }, { 130, 64, 3, 2, 1, 33, CAUSAL, 1 },
                               { 17, 129, 5, 2, 2, 8, FULL, 640 } } },
    { "empty",     ALL, ALL, { { 17, 33, 4, 4, 2, 64, FULL, 160 }, { 65, 64, 3, 2, 1, 33, CAUSAL, 641 } } },
    { "masked",    ALL, 0,   { { 65, 65, 1, 6, 3, 1, FULL, 160 }, { 129, 129, 2, 2, 2, 1, FULL, 641 },
                               { 17, 300, 1, 3, 3, 1, FULL, 0 } } },
    { "nonfinite_key",  ALL, 0,   { { 17, 33, 2, 4, 2, 8, FULL, 0 }, { 65, 129, 1, 3, 3, 33, CAUSAL, 641 },
                               { 5, 5, 3, 2, 2, 1, FULL, 0 }, { 9, 1, 2, 3, 3, 8, FULL, 0 } } },
    { "nonfinite_value", ALL, 0,  { { 17, 33, 2, 4, 2, 8, FULL, 0 }, { 65, 129, 1, 3, 3, 33, CAUSAL, 641 },
                               { 5, 5, 3, 2, 2, 1, FULL, 0 } } },
    { "loud",      0, ALL,   { { 17, 33, 1, 2, 1, 8, FULL, 0 }, { 65, 65, 1, 2, 1, 33, CAUSAL, 641 } } },
    { "faint",     0, WIDE,  { { 17, 33, 1, 2, 1, 8, FULL, 0 }, { 65, 65, 1, 2, 1, 33, CAUSAL, 641 } } },
    { "nonfinite",      ALL, 0,   { { 17, 17, 1, 2, 1, 8, FULL, 0 }, { 65, 65, 1, 2, 1, 64, CAUSAL, 641 } } },
};
/* clang-format on */

/* Enough to fill a device, and to be cut in many ways. */
static const shape device_shapes[] = {
    { 1000, 1000, 2, 8, 2, 128, CAUSAL, 0 },       { 2048, 2048, 1, 4, 4, 64, FULL, 1 },
    { 513, 1025, 2, 8, 8, 128, CAUSAL, 641 },      { 4096, 4096, 2, 8, 8, 64, CAUSAL, 0 },
    { 2000, 2000, 1, 8, 1, 64, WINDOW + 255, 0 },  { 700, 700, 1, 4, 2, 96, CAUSAL, 0 },
    { 1500, 1500, 2, 4, 4, 128, WINDOW + 99, 11 }, { 2, 1, 35000, 2, 1, 64, CAUSAL, 0 },
};

/* Heads of every width that a device may treat on its own, and of widths between them; from 2048
 * queries on tiles may differ. */
static const shape width_shapes[] = {
    { 300, 513, 1, 4, 2, 8, CAUSAL, 0 },       { 700, 700, 1, 2, 2, 24, FULL, 1 },
    { 333, 333, 2, 2, 1, 40, WINDOW + 70, 0 }, { 513, 300, 1, 4, 4, 48, CAUSAL, 1 },
    { 260, 900, 1, 2, 1, 56, CAUSAL, 0 },      { 2100, 2100, 1, 2, 1, 72, CAUSAL, 1 },
    { 600, 600, 2, 2, 2, 80, FULL, 0 },        { 2050, 700, 1, 2, 2, 88, FULL, 0 },
    { 400, 400, 1, 4, 2, 96, WINDOW + 99, 1 }, { 2300, 2300, 1, 2, 2, 104, CAUSAL, 0 },
    { 500, 777, 1, 2, 1, 112, CAUSAL, 1 },     { 2049, 300, 1, 1, 1, 120, FULL, 1 },
    { 333, 777, 1, 4, 2, 136, CAUSAL, 0 },     { 500, 500, 1, 2, 2, 160, FULL, 1 },
    { 600, 600, 2, 2, 1, 192, CAUSAL, 1 },     { 270, 270, 1, 2, 2, 208, WINDOW + 50, 0 },
    { 700, 260, 1, 2, 1, 224, CAUSAL, 0 },     { 2100, 2100, 1, 4, 2, 256, CAUSAL, 0 },
    { 300, 650, 1, 2, 2, 248, FULL, 1 },
};
static const struct {
    const char *name;
    shape       s;
} device_families[] = {
    { "late", { 1100, 1100, 1, 8, 8, 128, FULL, 0 } },
    { "sink", { 1100, 1100, 1, 8, 2, 64, CAUSAL, 0 } },
    { "hot", { 900, 900, 1, 4, 4, 128, CAUSAL, 1 } },
    { "ragged", { 900, 1300, 5, 4, 2, 128, CAUSAL, 0 } },
    { "padding", { 900, 1300, 5, 4, 4, 64, FULL, 1 } },
    { "empty", { 1300, 900, 4, 4, 1, 128, CAUSAL, 0 } },
    { "late", { 600, 600, 1, 4, 4, 96, FULL, 0 } },
    { "sink", { 600, 600, 1, 4, 2, 192, CAUSAL, 1 } },
    { "hot", { 500, 500, 1, 2, 2, 80, CAUSAL, 0 } },
    { "ragged", { 300, 700, 5, 2, 1, 112, CAUSAL, 1 } },
    { "ragged", { 300, 700, 5, 2, 1, 256, FULL, 0 } },
    { "padding", { 300, 700, 5, 2, 2, 80, FULL, 0 } },
    { "padding", { 300, 700, 5, 2, 2, 192, CAUSAL, 1 } },
    { "padding", { 300, 700, 5, 2, 2, 32, CAUSAL, 0 } },
    { "empty", { 700, 300, 4, 2, 1, 72, CAUSAL, 0 } },
    { "empty", { 700, 300, 4, 2, 1, 256, CAUSAL, 1 } },
};

/* The judge times f32 of three sizes called `normal`; it has patience for no larger ones on a CPU,
 * so that those of `bench` are called otherwise. */
static const shape judged_shapes[] = { { 128, 128, 1, 4, 4, 64, CAUSAL, 0 },
                                       { 256, 256, 1, 4, 4, 64, CAUSAL, 0 },
                                       { 512, 512, 1, 4, 4, 64, CAUSAL, 0 } };
static const shape timed_shapes[] = { { 2048, 2048, 1, 8, 8, 64, FULL, 0 },
                                      { 2048, 2048, 1, 8, 8, 64, CAUSAL, 0 },
                                      { 1024, 1024, 1, 8, 2, 128, CAUSAL, 0 } };

/* For devices, causal and full; and what the judge times there. */
static const shape large_shapes[] = { { 1024, 1024, 16, 32, 32, 128, FULL, 0 },
                                      { 4096, 4096, 4, 32, 32, 128, FULL, 0 },
                                      { 16384, 16384, 1, 32, 32, 128, FULL, 0 },
                                      { 4096, 4096, 4, 32, 8, 128, FULL, 0 },
                                      { 4096, 4096, 8, 16, 16, 64, FULL, 0 } };
static const shape large_judged[] = { { 1056, 1056, 2, 16, 16, 64, CAUSAL, 0 },
                                      { 736, 736, 2, 16, 16, 64, CAUSAL, 0 } };

bool ts_attention_affordable(const ts_case *c)
{
    static const char *const steered[] = { "late",      "falling", "sink", "last",
                                           "saturated", "offset",  "tail", NULL };
    const int64_t           *m = c->dim, scale = m[TS_SCALE];
    const double pairs = (double)(m[0] + 1) * (double)(m[1] + 1) * (double)(m[2] * m[3] * m[5]);
    const double elements = (double)(m[2] * m[5]) * (double)(m[3] * (m[0] + 1) + m[4] * m[1]);
    if (pairs > 2e5 || elements > 1e5) return false;
    for (const char *const *f = steered; *f; f++)
        if (ts_is(c, *f) && (scale == TS_SCALE_0 || scale == TS_SCALE_SMALL)) return false;
    return true;
}

/* What a family hides must be hidden. */
static bool affordable(const ts_case *c)
{
    const int64_t scale = c->dim[TS_SCALE], mask = c->dim[6];
    if (!ts_attention_affordable(c)) return false;
    if (ts_is(c, "masked"))
        return c->dim[5] == 1 && mask == FULL && scale != TS_SCALE_0 && scale != TS_SCALE_NEGATIVE;
    if (ts_is(c, "floor")) return scale != TS_SCALE_0 && scale != TS_SCALE_NEGATIVE;
    if (ts_is(c, "deep") || ts_is(c, "sunk"))
        return (mask <= CAUSAL || ts_is(c, "sunk")) &&
               (!scale || scale == TS_SCALE_LARGE || scale == TS_SCALE_1);
    /* Every query sees the key that is none. */
    if (!strncmp(c->family, "nonfinite_", 10) &&
        (mask > CAUSAL || (mask == CAUSAL && c->dim[1] < c->dim[0]) || scale == TS_SCALE_LARGE ||
         scale == TS_SCALE_150))
        return false;
    if (!strncmp(c->family, "nonfinite", 9))
        return scale != TS_SCALE_0 && scale != TS_SCALE_NEGATIVE;
    return true;
}

#define FAMILIES                                                                                   \
    { "normal", ALL }, { "late", ALL }, { "falling", ALL }, { "sink", ALL }, { "last", ALL },      \
        { "saturated", ALL }, { "early", ALL }, { "offset", ALL }, { "flat", ALL },                \
        { "ragged", ALL }, { "padding", ALL }, { "empty", ALL },                                   \
    {                                                                                              \
        "deep", ALL                                                                                \
    }
/* q, k, batch, heads that share, kv_heads, head_dim, mask */
#define EXTENTS                                                                                    \
    TS_COUNTS(1, 300, 0, 1, 2, 9, 17, 33, 65, 129, 257),                                           \
        TS_COUNTS(2, 4300, 0, 1, 2, 9, 17, 33, 65, 129, 257, 1025, 4200),                          \
        TS_COUNTS(1, 1100, 0, 1, 2, 9, 65, 1025), TS_RATIOS(0, 80, 1, 2, 3, 5, 9, 17),             \
        TS_COUNTS(0, 300, 1, 2, 3, 9, 17, 129),                                                    \
        TS_COUNTS(1, 256, 1, 2, 9, 17, 33, 65, 129, 193, 256),                                     \
        TS_COUNTS(0, LONGEST, 0, 1, 2, 3, 10, 18, 66, 258, 4098, 4151, LONGEST)
#define SCALES TS_RANGE(0, TS_SCALE_1, 0, 1, 2, 3, 4, 5)

const ts_cover ts_flash_attention_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { FAMILIES,
                { "hot", ALL },
                { "floor", WIDE },
                { "masked", ALL },
                { "nonfinite", ALL } },
    .empties = 1u << 0 | 1u << 1 | 1u << 2 /* q, k, batch */,
    .dim = { EXTENTS, TS_NUMBERS(0, 0, 1, 2, 3, 10, 11, 160, 161, 371, 640, 642, 971, 1280, 5120),
             SCALES },
    .allows = affordable,
    .make = ts_multiply_heads,
    .read = ts_divide_heads,
};

const ts_cover ts_flash_attention_backward_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { FAMILIES, { "hot", WIDE }, { "sunk", WIDE } },
    .empties = 1u << 0 | 1u << 1 | 1u << 2 /* q, k, batch */,
    .dim = { EXTENTS, TS_NUMBERS(0, 0, 1, 10, 11, 160, 161, 371, 640, 971, 1280, 5120, 5121),
             SCALES },
    .allows = affordable,
    .make = ts_multiply_heads,
    .read = ts_divide_heads,
};

void ts_attention_add(ts_case_list *l, unsigned use, unsigned dtypes, shape s, const char *name)
{
    ts_list_add(
        l, dtypes,
        (ts_case) { use,
                    TS_F32,
                    { s.q, s.k, s.batch, s.q_heads, s.kv_heads, s.head_dim, s.mask, s.form },
                    name });
}

void ts_attention_add_large(ts_case_list *l, const shape *of, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int64_t mask = CAUSAL; mask >= FULL; mask--) {
            shape s = of[i];
            s.mask = mask;
            ts_attention_add(l, TS_USE_TIME | TS_USE_LARGE, BF16, s, "normal");
        }
}

/* Backward has no form without lse. */
static void add(ts_case_list *l, unsigned use, unsigned dtypes, shape s, const char *name)
{
    const int64_t bits = s.form % 10 & (l->backward ? TS_FORM_BNHD : TS_FORM_BNHD | TS_FORM_NO_LSE);
    s.form = s.form / 10 * 10 + bits;
    ts_attention_add(l, use, dtypes, s, name);
}

/* Of what takes long, one wide dtype and one narrow one, others from shape to shape. */
static unsigned dtypes_of(shape s, size_t number)
{
    const int64_t work = s.q * s.k * s.batch * s.q_heads * s.head_dim;
    if (work <= MUCH) return ALL;
    return number % 2 ? F64 | F16 : F32 | BF16;
}

static void add_checked(ts_case_list *l)
{
    for (size_t i = 0; i < COUNT(plain_shapes); i++) {
        add(l, TS_USE_CHECK, dtypes_of(plain_shapes[i], i), plain_shapes[i], "normal");
        if (i) continue;
        /* early: a mutant is led through the cases in their order */
        for (size_t k = 0; k < COUNT(empty_shapes); k++)
            add(l, TS_USE_CHECK, ALL, empty_shapes[k], "normal");
        add(l, TS_USE_CHECK, F32, many_heads, "normal");
        add(l, TS_USE_CHECK, F32, many_keys, "normal");
        add(l, TS_USE_CHECK, F32, many_queries, "normal");
        for (size_t k = 0; k < COUNT(shared_rows); k++)
            add(l, TS_USE_CHECK, k % 2 ? F32 | F16 : F32 | BF16, shared_rows[k], "normal");
        for (size_t k = 0; k < COUNT(contended) && l->backward; k++)
            add(l, TS_USE_CHECK, k % 2 ? F32 | F16 : F32 | BF16, contended[k], "normal");
    }
    const int scaled = l->n;
    add(l, TS_USE_CHECK, ALL, (shape) { 17, 33, 1, 2, 1, 8, FULL, 0 }, "normal");
    for (int i = scaled; i < l->n; i++) l->c[i].dim[TS_SCALE] = TS_SCALE_150;
    for (size_t i = 0; i < COUNT(families); i++)
        for (int k = 0; k < MAX_SHAPES && families[i].shapes[k].batch; k++)
            add(l, TS_USE_CHECK,
                (l->backward ? families[i].backward : families[i].dtypes) &
                    dtypes_of(families[i].shapes[k], (size_t)k),
                families[i].shapes[k], families[i].name);
}

static void add_timed(ts_case_list *l)
{
    for (size_t i = 0; i < COUNT(judged_shapes); i++)
        add(l, TS_USE_TIME, SOME, judged_shapes[i], "normal");
    for (size_t i = 0; i < COUNT(timed_shapes); i++)
        add(l, TS_USE_TIME, SOME, timed_shapes[i], "long");
    ts_attention_add_large(l, large_shapes, COUNT(large_shapes));
    for (size_t i = 0; i < COUNT(large_judged); i++)
        add(l, TS_USE_JUDGE | TS_USE_LARGE, F32, large_judged[i], "normal");
}

static const ts_case *build(ts_case_list *l, bool backward)
{
    if (l->n) return l->c;
    l->backward = backward;
    add_checked(l);
    ts_list_cover(l, backward ? &ts_flash_attention_backward_cover : &ts_flash_attention_cover);
    for (size_t i = 0; i < COUNT(device_shapes); i++)
        add(l, TS_USE_DEVICE, FAST, device_shapes[i], "normal");
    for (size_t i = 0; i < COUNT(width_shapes); i++)
        add(l, TS_USE_DEVICE, FAST, width_shapes[i], "normal");
    for (size_t i = 0; i < COUNT(device_families); i++)
        add(l, TS_USE_DEVICE, SOME, device_families[i].s, device_families[i].name);
    add_timed(l);
    return l->c;
}

const ts_case *ts_flash_attention_cases(void)
{
    static ts_case_list l;
    return build(&l, false);
}

const ts_case *ts_flash_attention_backward_cases(void)
{
    static ts_case_list l;
    return build(&l, true);
}

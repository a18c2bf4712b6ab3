/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_cases.c - the cases of kv_cache. */
#include <string.h>

#include "case_list.h"
#include "kv_cache_inside.h"

enum { NARROW = F16 | BF16 };
#define LONGEST (INT64_MAX - 1) /* window, sinks */

typedef struct shape {
    int64_t seqs, len, layers, q_heads, kv_heads, head_dim;
} shape;

/* Invalid calls are derived from the first. Lengths around pages and tiles, every way to share
 * heads, odd head dimensions; long sequences in few heads, since the oracle works everything out
 * anew. */
static const shape plain_shapes[] = {
    { 3, 32, 2, 8, 2, 64 },   { 1, 1, 1, 1, 1, 1 },     { 2, 2, 2, 4, 4, 8 },
    { 3, 17, 2, 4, 1, 33 },   { 5, 15, 3, 6, 3, 8 },    { 4, 16, 1, 8, 2, 33 },
    { 2, 31, 2, 4, 1, 80 },   { 1, 33, 1, 32, 8, 64 },  { 3, 64, 1, 4, 4, 128 },
    { 2, 65, 2, 6, 3, 80 },   { 1, 129, 1, 8, 2, 256 }, { 5, 129, 1, 4, 1, 64 },
    { 2, 1000, 1, 4, 2, 64 }, { 1, 4099, 1, 2, 1, 33 }, { 1, 80, 1, 32, 8, 128 },
    { 3, 7, 2, 4, 2, 256 },   { 1, 48, 1, 4, 1, 1 },    { 2, 20, 1, 4, 2, 160 },
    { 2, 5, 1, 14, 2, 8 },
};
static const shape   many_tokens = { 2, 66000, 1, 2, 1, 1 };
static const int64_t pages[] = { 0, 16, 1, 7, 64 };

/* As { family, dtypes, shapes, pages, stores }; 0 ends a list, but for a first page or store. */
typedef struct family {
    const char *name;
    unsigned    dtypes;
    shape       shapes[3];
    int64_t     pages[4], stores[6];
} family;

/* clang-format off */
static const family families[] = {
    /* what the script does */
    { "chunk",    FAST, { { 4, 17, 1, 4, 2, 8 }, { 4, 65, 2, 4, 1, 33 } }, { 0, 16, 7 }, { 0 } },
    { "chunk",    F32, { { 4, 37, 1, 4, 2, 33 } }, { 0, 16, 7, 1 }, { 8, 9, 4, 5, 14, 19 } },
    { "chunk",    BF16, { { 4, 70, 1, 4, 2, 16 } }, { 0, 64 }, { 9, 5, 15, 18 } },
    { "fork",     FAST, { { 4, 17, 2, 4, 2, 8 }, { 4, 129, 1, 8, 2, 16 } }, { 0, 16, 7, 1 }, { 0 } },
    { "fork",     F32, { { 4, 43, 2, 4, 2, 33 } }, { 0, 16, 7, 64 }, { 8, 9, 5, 14 } },
    { "truncate", FAST, { { 2, 33, 2, 4, 2, 8 }, { 2, 65, 1, 6, 3, 33 } }, { 0, 16, 7, 1 }, { 0 } },
    { "truncate", F32, { { 2, 37, 1, 4, 2, 33 } }, { 0, 16, 7, 64 }, { 8, 9, 4, 5, 15, 19 } },
    { "truncate", NARROW, { { 2, 37, 1, 4, 2, 8 } }, { 0, 16 }, { 9, 15 } },
    { "full",     FAST, { { 3, 33, 2, 4, 2, 8 }, { 3, 130, 1, 4, 1, 16 } }, { 0, 16, 7, 1 }, { 0 } },
    { "full",     F32, { { 3, 129, 1, 4, 2, 8 } }, { 0, 16, 64 }, { 8, 5 } },
    { "cow",      FAST, { { 4, 17, 1, 4, 2, 8 }, { 4, 37, 3, 2, 1, 33 } }, { 16, 7, 2 }, { 0 } },
    { "cow",      F32, { { 4, 37, 2, 4, 2, 33 } }, { 16, 7, 64 }, { 8, 9, 5, 14 } },
    { "nonsense", F32, { { 2, 5, 2, 4, 2, 33 } }, { 0, 16, 1 }, { 0, 8 } },
    { "fuzz",     F32, { { 4, 24, 2, 4, 2, 8 }, { 5, 40, 1, 2, 1, 33 } }, { 16, 7, 1 }, { 0, 8, 5 } },
    { "fuzz",     BF16, { { 3, 30, 3, 4, 1, 8 } }, { 0, 7, 64 }, { 0 } },
    { "paged",    FAST, { { 4, 50, 2, 4, 2, 8 }, { 3, 41, 1, 6, 3, 64 } }, { 16, 7, 1, 64 }, { 0 } },
    { "paged",    F32, { { 4, 50, 1, 4, 2, 33 } }, { 16, 1, 64 }, { 8, 9, 4, 15 } },
    { "sized",    F32, { { 2, 16, 1, 8, 2, 64 } }, { 0, 16 }, { 0, 16, 8, 4, 15, 19 } },
    { "window",   FAST, { { 3, 33, 2, 4, 2, 8 }, { 2, 129, 1, 8, 2, 64 } }, { 0, 16, 7 }, { 0 } },
    { "window_only", F32, { { 3, 65, 1, 4, 1, 33 }, { 1, 1000, 1, 4, 1, 16 } }, { 0, 16 }, { 0, 8 } },
    /* what numbers there are */
    { "offset",   FAST, { { 3, 33, 1, 4, 2, 64 } }, { 0, 16 }, { 0 } },
    { "offset",   F32, { { 3, 33, 1, 4, 2, 33 } }, { 0, 16 }, { 8, 4, 15, 19 } },
    { "outlier",  F32 | BF16, { { 3, 33, 1, 4, 2, 64 } }, { 0, 16 }, { 0, 8, 4, 15, 19 } },
    { "ramp",     FAST, { { 1, 300, 1, 4, 1, 16 }, { 3, 129, 1, 4, 2, 64 } }, { 0, 16 }, { 0 } },
    { "masked",   FAST, { { 3, 33, 1, 4, 2, 16 }, { 2, 9, 2, 6, 3, 33 } }, { 0, 7 }, { 0 } },
    { "hot",      FAST, { { 3, 65, 1, 4, 2, 64 } }, { 0, 16 }, { 0 } },
    { "tiny",     F32, { { 3, 33, 1, 4, 2, 33 } }, { 0, 16 }, { 0, 8, 5 } },
    { "tiny",     F32, { { 3, 33, 1, 4, 2, 33 } }, { 0, 16 }, { 18, 19, 14, 15 } },
    { "constant", F32 | BF16, { { 3, 33, 1, 4, 2, 33 } }, { 0, 16 }, { 0, 8, 4, 5, 14, 19 } },
    { "zeros",    F32, { { 3, 33, 1, 4, 2, 33 } }, { 0, 16 }, { 0, 8, 4, 5, 14, 19 } },
    { "tree",     FAST, { { 5, 33, 2, 4, 2, 8 }, { 1, 70, 1, 2, 1, 16 } }, { 0, 16, 7 }, { 0 } },
    { "tree",     F32, { { 3, 20, 1, 4, 2, 33 } }, { 0, 16 }, { 8, 9, 4, 5, 14, 19 } },
    { "tree_nonsense", F32, { { 2, 5, 1, 4, 2, 33 } }, { 0, 16 }, { 0, 8 } },
    { "nonfinite",     FAST, { { 2, 33, 2, 4, 2, 8 }, { 2, 65, 1, 6, 3, 33 } }, { 0, 16, 7 }, { 0 } },
};
/* clang-format on */

/* Enough to fill a device, and to be split over its length; then many heads that share keys, of
 * sizes that kernels treat alike or apart. */
static const shape device_shapes[] = { { 5, 4099, 1, 8, 2, 128 },  { 1, 20000, 1, 4, 1, 64 },
                                       { 3, 1029, 1, 32, 1, 96 },  { 2, 700, 1, 24, 1, 200 },
                                       { 1, 2100, 1, 16, 1, 256 }, { 2, 500, 1, 128, 2, 72 } };

/* For the CPU: the judge takes f32 of three sizes; of the others no processor's caches hold all.
 * For devices, large ones. */
static const shape timed_shapes[] = {
    { 1, 512, 1, 8, 2, 64 },    { 2, 1024, 1, 8, 2, 64 },    { 4, 1024, 1, 8, 4, 64 },
    { 8, 2048, 1, 32, 8, 128 }, { 1, 32768, 1, 32, 8, 128 },
};
static const shape large_shapes[] = { { 64, 8192, 1, 32, 8, 128 },
                                      { 1, 131072, 1, 32, 8, 128 },
                                      { 256, 2048, 1, 32, 8, 128 } };
/* For the judge on a device, of any speed. */
static const shape judged_shapes[] = { { 56, 1024, 1, 32, 8, 64 },
                                       { 16, 1024, 1, 32, 8, 64 },
                                       { 16, 320, 1, 32, 8, 64 },
                                       { 4, 320, 1, 32, 8, 64 } };

/* By channel a group of keys lies within a page. */
static bool storable(const ts_case *c)
{
    const int64_t *m = c->dim;
    const bool     by_channel =
        m[STORE] % META_F16 == STORE_U8_CHANNEL || m[STORE] % META_F16 == STORE_U4_CHANNEL;
    return !(m[GROUP] && m[PAGE] && by_channel && m[PAGE] % m[GROUP]);
}

static bool affordable(const ts_case *c)
{
    const int64_t *m = c->dim;
    const int64_t  row = m[Q_HEADS] * m[HEAD_DIM] * m[LAYERS];
    if (!storable(c)) return false;
    if (ts_is(c, "cow") && m[PAGE] < 2) return false;
    if (ts_is(c, "nonfinite") && m[STORE] != STORE_IO) return false;
    return m[SEQS] * m[LEN] * row <= 60000 && m[LEN] * m[LEN] * row <= 600000;
}

/* seqs, len, layers, heads that share, kv_heads, head_dim, page, store; window, sink, scale, group
 */
#define PARAMETERS                                                                                 \
    {                                                                                              \
        TS_COUNTS(1, 80, 1, 2, 3, 5, 9, 17), TS_COUNTS(2, 300, 1, 2, 9, 16, 17, 33, 65, 129),      \
            TS_COUNTS(0, MOST_LAYERS, 1, 2, 3, 4, 5), TS_RATIOS(0, 80, 1, 2, 3, 5, 9),             \
            TS_COUNTS(0, 80, 1, 2, 3, 5, 9),                                                       \
            TS_COUNTS(1, 256, 1, 2, 9, 17, 33, 65, 129, 193, 256),                                 \
            TS_COUNTS(0, 300, 0, 1, 2, 3, 8, 9, 16, 17, 64, 65),                                   \
            TS_NUMBERS(0, STORE_IO, STORE_U4, STORE_U4_CHANNEL, STORE_U8, STORE_U8_CHANNEL,        \
                       STORE_U4 + META_F16, STORE_U4_CHANNEL + META_F16, STORE_F16, STORE_BF16,    \
                       STORE_U8 + META_F16, STORE_U8_CHANNEL + META_F16, STORE_F32),               \
            TS_RANGE(0, LONGEST, 0, 1, 2, 9, 33, 129, 4097, LONGEST),                              \
            TS_RANGE(0, LONGEST, 0, 1, 2, 3, 5, 17, 65, 129, LONGEST),                             \
            TS_RANGE(0, SCALE_NEGATIVE, 0, 1, 2, 3, 4), TS_NUMBERS(0, 0, 1, 3, 16, 48, 64)         \
    }

const ts_cover ts_kv_cache_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { { "normal", ALL },
                { "chunk", ALL },
                { "fork", ALL },
                { "truncate", ALL },
                { "full", ALL },
                { "cow", ALL },
                { "fuzz", ALL },
                { "paged", ALL },
                { "nonsense", ALL },
                { "offset", ALL },
                { "ramp", ALL },
                { "hot", ALL },
                { "constant", ALL },
                { "zeros", ALL },
                { "nonfinite", ALL } },
    .dim = PARAMETERS,
    .allows = affordable,
    .make = ts_multiply_heads,
    .read = ts_divide_heads,
};

static bool has_trees(const ts_case *c)
{
    const int64_t *m = c->dim;
    const int64_t  row = m[Q_HEADS] * m[HEAD_DIM];
    return storable(c) && m[SEQS] * m[LEN] * row * m[LAYERS] <= 40000 &&
           m[LEN] * m[LEN] * row <= 150000;
}

/* A sequence's length is about that of its tree. */
const ts_cover ts_kv_tree_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { { "tree", ALL }, { "tree_nonsense", ALL } },
    .dim = PARAMETERS,
    .allows = has_trees,
    .make = ts_multiply_heads,
    .read = ts_divide_heads,
};

static void add(ts_case_list *l, unsigned use, unsigned dtypes, shape s, int64_t page,
                int64_t store, const char *name)
{
    ts_list_add(
        l, dtypes,
        (ts_case) { use,
                    TS_F32,
                    { s.seqs, s.len, s.layers, s.q_heads, s.kv_heads, s.head_dim, page, store },
                    name });
}

static void add_plain(ts_case_list *l)
{
    static const int64_t stores[] = { STORE_U8,   STORE_U4_CHANNEL,
                                      STORE_BF16, STORE_U8_CHANNEL + META_F16,
                                      STORE_F16,  STORE_U4 + META_F16,
                                      STORE_U4,   STORE_U8_CHANNEL };
    const size_t         n = COUNT(plain_shapes);
    const size_t         n_pages = COUNT(pages), n_stores = COUNT(stores);
    for (size_t i = 0; i < n; i++) {
        const shape s = plain_shapes[i];
        add(l, TS_USE_CHECK, FAST, s, pages[i % n_pages], STORE_IO, "normal");
        add(l, TS_USE_CHECK, F32, s, pages[(i + 1) % n_pages], stores[i % n_stores], "normal");
        if (s.len <= 129)
            add(l, TS_USE_CHECK, F32, s, pages[(i + 2) % n_pages], stores[(i + 3) % n_stores],
                "normal");
    }
    /* Other dtypes for what is stored, and one past every page. */
    add(l, TS_USE_CHECK, F64, plain_shapes[0], 16, STORE_IO, "normal");
    add(l, TS_USE_CHECK, F64, plain_shapes[3], 0, STORE_IO, "normal");
    add(l, TS_USE_CHECK, NARROW, plain_shapes[4], 7, STORE_F32, "normal");
    add(l, TS_USE_CHECK, NARROW, plain_shapes[3], 16, STORE_U8, "normal");
    add(l, TS_USE_CHECK, NARROW, plain_shapes[3], 0, STORE_U4_CHANNEL, "normal");
    /* More layers than small models have. */
    add(l, TS_USE_CHECK, FAST, (shape) { 2, 9, 9, 2, 1, 8 }, 0, STORE_IO, "normal");
    add(l, TS_USE_CHECK, FAST, (shape) { 2, 9, 9, 2, 1, 8 }, 7, STORE_IO, "normal");
    /* Groups of keys that are as long as they are, and one that is short. */
    static const int64_t groups[][2] = {
        { STORE_U8, 64 }, { STORE_U4, 48 }, { STORE_U8_CHANNEL, 16 }, { STORE_U4_CHANNEL, 3 }
    };
    for (size_t i = 0; i < COUNT(groups); i++) {
        add(l, TS_USE_CHECK, F32, (shape) { 2, 37, 1, 2, 1, 80 }, 0, groups[i][0], "normal");
        l->c[l->n - 1].dim[GROUP] = groups[i][1];
    }
    add(l, TS_USE_CHECK, F32, (shape) { 18, 5, 1, 2, 1, 8 }, 0, STORE_IO, "normal");
    /* Positions, and numbers of pages, past 16 bits. */
    add(l, TS_USE_CHECK, F32 | BF16, many_tokens, 1, STORE_IO, "crowd");
    add(l, TS_USE_CHECK, F32 | F16, many_tokens, 0, STORE_IO, "crowd");
    add(l, TS_USE_CHECK, F32, many_tokens, 16, STORE_U8, "crowd");
    for (size_t i = 1; i < n_pages; i++)
        add(l, TS_USE_CHECK, FAST, (shape) { 2, pages[i] + 1, 2, 4, 2, 16 }, pages[i], STORE_IO,
            "normal");
}

static void add_families(ts_case_list *l)
{
    for (size_t i = 0; i < COUNT(families); i++) {
        const family *f = &families[i];
        for (int s = 0; s < 3 && f->shapes[s].seqs; s++)
            for (int p = 0; p < 4 && (!p || f->pages[p]); p++)
                for (int k = 0; k < 6 && (!k || f->stores[k]); k++)
                    add(l, TS_USE_CHECK, f->dtypes, f->shapes[s], f->pages[p], f->stores[k],
                        f->name);
    }
}

static void add_timed(ts_case_list *l)
{
    for (size_t i = 0; i < COUNT(timed_shapes); i++) {
        add(l, TS_USE_TIME, F32 | BF16, timed_shapes[i], 0, STORE_IO, "normal");
        if (i < 3) continue;
        add(l, TS_USE_TIME, F32 | BF16, timed_shapes[i], 16, STORE_IO, "normal");
        add(l, TS_USE_TIME, F32, timed_shapes[i], 16, STORE_U8, "normal");
        add(l, TS_USE_TIME, F32, timed_shapes[i], 16, STORE_U4, "normal");
    }
    static const int64_t stores[] = { STORE_IO, STORE_U8, STORE_U4 }, layouts[] = { 0, 16, 64 };
    for (size_t i = 0; i < COUNT(large_shapes); i++)
        for (int k = 0; k < 3; k++)
            for (int p = 0; p < 3; p++)
                add(l, TS_USE_TIME | TS_USE_LARGE, BF16, large_shapes[i], layouts[p], stores[k],
                    "normal");
    for (size_t i = 0; i < COUNT(judged_shapes); i++)
        for (int k = 0; k < 2; k++)
            add(l, TS_USE_JUDGE | TS_USE_LARGE, F32, judged_shapes[i], 16, stores[k], "normal");
}

const ts_case *ts_kv_cache_cases(void)
{
    static ts_case_list l;
    if (l.n) return l.c;
    add_plain(&l);
    add_families(&l);
    /* A window that is longer than others' are, and keys before it. */
    ts_list_add(
        &l, F32 | F64,
        (ts_case) {
            TS_USE_CHECK, TS_F32, { 1, 4200, 1, 1, 1, 3, 0, STORE_IO, 4097, 3 }, "window_long" });
    /* More sinks than a block has keys, and keys behind them that no query sees. */
    for (int64_t sinks = 65; sinks <= 130; sinks += 65)
        for (int64_t page = 0; page <= 16; page += 16)
            ts_list_add(&l, FAST,
                        (ts_case) { TS_USE_CHECK,
                                    TS_F32,
                                    { 2, 400, 1, 4, 2, 8, page, STORE_IO, 9, sinks },
                                    "window" });
    ts_list_cover(&l, &ts_kv_cache_cover);
    ts_list_cover(&l, &ts_kv_tree_cover);
    for (size_t i = 0; i < COUNT(device_shapes); i++)
        for (size_t p = 0; p < 2; p++) {
            add(&l, TS_USE_DEVICE, F32 | BF16, device_shapes[i], pages[p], STORE_IO, "normal");
            add(&l, TS_USE_DEVICE, BF16, device_shapes[i], pages[p], STORE_U8, "normal");
        }
    add_timed(&l);
    return l.c;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_cases.c - the cases of softmax_topk. */
#include "softmax_topk_cases.h"

#include <stddef.h>

#include "case_list.h"
#include "dtype.h"

enum { MAX_SHAPES = 6 };

typedef struct shape {
    int64_t rows, vocab, k;
} shape;

/* Invalid calls are derived from the first. Vocabularies around the width of a vector, a warp and a
 * block, and around k; k around the sizes of which lists are made, and none of them; 70000 rows
 * pass a launch limit. */
static const shape plain_shapes[] = {
    { 9, 33, 5 },      { 1, 1, 1 },       { 2, 1, 5 },        { 1, 2, 1 },        { 33, 2, 2 },
    { 9, 11, 5 },      { 33, 11, 1 },     { 9, 7, 8 },        { 9, 8, 8 },        { 9, 9, 8 },
    { 33, 31, 7 },     { 33, 32, 31 },    { 33, 33, 32 },     { 9, 31, 32 },      { 9, 32, 32 },
    { 257, 33, 2 },    { 257, 31, 33 },   { 2, 49, 50 },      { 2, 50, 50 },      { 2, 51, 50 },
    { 9, 255, 255 },   { 9, 256, 256 },   { 9, 1023, 51 },    { 9, 1024, 100 },   { 9, 1025, 255 },
    { 33, 1025, 33 },  { 33, 1024, 31 },  { 257, 1023, 7 },   { 2, 999, 1000 },   { 2, 1000, 1000 },
    { 2, 1001, 1000 }, { 2, 1023, 1000 }, { 2, 1024, 1024 },  { 2, 1025, 1024 },  { 9, 4099, 50 },
    { 9, 4099, 256 },  { 2, 4099, 1024 }, { 9, 32000, 50 },   { 1, 32000, 1000 }, { 2, 50257, 255 },
    { 1, 50257, 8 },   { 1, 128256, 50 }, { 2, 151936, 100 }, { 70000, 8, 2 },
};

/* Nothing to read, nothing to write, nothing to do. */
static const shape empty_shapes[] = { { 0, 100, 5 }, { 9, 0, 5 },    { 9, 100, 0 },
                                      { 9, 0, 0 },   { 0, 0, 0 },    { 257, 1025, 0 },
                                      { 1, 0, 50 },  { 2, 32000, 0 } };

/* More than anybody keeps in registers or shared memory; the cost of sorting shows. */
static const shape large_shapes[] = { { 2, 4099, 1025 }, { 2, 4099, 2000 }, { 2, 4099, 4099 },
                                      { 1, 4099, 5000 }, { 1, 8300, 8250 }, { 1, 128256, 1024 },
                                      { 1, 151936, 256 } };

/* Just past a number of blocks whose width is no power of two, 1000, 1536, 3000 or 3072;
 * vocabularies of models, some of which take more than 17 bits, or 18; and more winners than 4096
 * in a longer row. */
static const shape model_shapes[] = {
    { 3, 1001, 5 },   { 3, 1537, 33 },   { 3, 3001, 50 },   { 2, 3002, 8 },    { 3, 3073, 8 },
    { 2, 3075, 50 },  { 2, 16001, 100 }, { 3, 32001, 20 },  { 2, 50265, 50 },  { 2, 128257, 10 },
    { 1, 151937, 5 }, { 1, 256000, 64 }, { 1, 262208, 40 }, { 1, 9001, 4097 }, { 1, 32001, 4200 },
};

/* Of long rows: in the last few logits an error is lost, unless they outweigh all others. */
static const shape end_shapes[] = {
    { 3, 33001, 5 },  { 2, 65539, 3 },  { 1, 100003, 7 },
    { 3, 100003, 2 }, { 1, 151937, 2 }, { 1, 262208, 3 },
};

typedef struct family {
    const char *name;
    unsigned    dtypes;
    int64_t     heat;
    shape       shapes[MAX_SHAPES];
} family;

/* The last shapes are wide single rows, which a device cuts into many pieces. */
/* clang-format off */
static const family families[] = {
    { "mod32",        FAST,         100, { { 2, 1024, 31 }, { 9, 4099, 100 }, { 1, 32000, 1000 } } },
    { "mod64",        FAST,         100, { { 2, 1025, 8 }, { 9, 4099, 50 }, { 1, 32000, 256 } } },
    { "mod256",       FAST,         100, { { 9, 4099, 8 }, { 1, 32000, 100 }, { 1, 128256, 500 } } },
    { "mod1024",      FAST,         100, { { 1, 32000, 31 }, { 1, 50257, 33 },
                                          { 2, 128256, 100 } } },
    { "mod1024x8",    FAST,         100, { { 1, 32000, 8 }, { 1, 50257, 48 }, { 2, 128256, 100 } } },
    { "chunk",        FAST,         100, { { 9, 1025, 7 }, { 9, 4099, 256 }, { 1, 50257, 51 },
                                          { 1, 151936, 256 } } },
    { "back",         FAST,         100, { { 9, 33, 7 }, { 9, 1025, 100 }, { 2, 4099, 1024 },
                                          { 1, 50257, 32 } } },
    { "disjoint",     FAST,         100, { { 9, 1025, 100 }, { 33, 1023, 31 }, { 257, 1300, 5 } } },
    { "spike",        FAST,         100, { { 9, 33, 5 }, { 9, 1025, 50 }, { 1, 32000, 256 } } },
    { "tail",         FAST,         100, { { 9, 33, 5 }, { 9, 4099, 50 }, { 2, 50257, 100 },
                                          { 1, 151936, 50 } } },
    { "ramp",         FAST,         100, { { 9, 11, 3 }, { 9, 1025, 8 }, { 9, 4099, 256 },
                                          { 2, 32000, 100 } } },
    { "ramp",         F32,         100, { { 2, 4099, 1024 }, { 1, 128256, 50 } } },
    { "descending",   FAST,         100, { { 9, 11, 3 }, { 9, 1025, 8 }, { 2, 4099, 1024 },
                                          { 1, 50257, 50 } } },
    { "sawtooth",     FAST,         100, { { 4, 1025, 33 }, { 9, 4099, 100 }, { 4, 32000, 256 } } },
    { "equal",        FAST,         100, { { 9, 33, 7 }, { 9, 1025, 255 }, { 2, 4099, 1000 },
                                          { 1, 128256, 50 } } },
    { "ties",         FAST,         100, { { 9, 33, 8 }, { 9, 1024, 51 }, { 9, 4099, 256 },
                                          { 2, 50257, 100 }, { 1, 151936, 50 },
                                          { 2, 32000, 1024 } } },
    { "zeros",        FAST,         100, { { 9, 33, 20 }, { 9, 1025, 33 }, { 2, 4099, 1024 },
                                          { 1, 50257, 50 } } },
    { "subnormal",    FAST,         100, { { 9, 33, 8 }, { 9, 1025, 50 }, { 2, 4099, 256 } } },
    { "underflow",    FAST,         100, { { 9, 11, 5 }, { 9, 1025, 50 }, { 2, 4099, 1000 },
                                          { 1, 32000, 100 } } },
    { "offset",       FAST,         100, { { 9, 33, 8 }, { 9, 1025, 100 }, { 2, 32000, 50 } } },
    { "offset",       FAST,         250, { { 9, 33, 5 }, { 2, 4099, 256 } } },
    { "offset30",     F32 | BF16,  100, { { 9, 33, 8 }, { 9, 1025, 100 }, { 2, 32000, 50 } } },
    { "flat",         FAST,         100, { { 9, 33, 1 }, { 9, 1025, 1 }, { 2, 4099, 50 },
                                          { 1, 50257, 1 } } },
    { "masked",       FAST,         100, { { 9, 33, 20 }, { 9, 1025, 100 }, { 3, 4099, 1000 },
                                          { 3, 50257, 50 }, { 1, 128256, 1024 } } },
    { "half_masked",  FAST,         100, { { 9, 33, 8 }, { 9, 1025, 50 }, { 2, 4099, 1024 },
                                          { 1, 50257, 100 } } },
    { "holes",        FAST,         100, { { 9, 33, 8 }, { 9, 4099, 50 }, { 6, 4099, 1024 },
                                          { 6, 32000, 100 } } },
    { "all_masked",   FAST,         100, { { 9, 33, 8 }, { 33, 1025, 50 }, { 2, 4099, 1024 },
                                          { 1, 31, 32 }, { 1, 50257, 100 }, { 9, 1025, 0 } } },
    { "floor",        FAST,         100, { { 9, 33, 20 }, { 9, 1025, 100 }, { 3, 4099, 1000 },
                                          { 1, 50257, 50 } } },
    { "floor",        FAST,         250, { { 9, 33, 8 }, { 9, 1025, 50 } } },
    { "nonfinite",         FAST,         100, { { 9, 7, 5 }, { 33, 33, 8 }, { 33, 1025, 50 },
                                          { 9, 4099, 1000 }, { 9, 31, 33 }, { 9, 1025, 0 } } },
    { "nonfinite_one",     FAST,         100, { { 1, 33, 8 }, { 1, 4099, 256 }, { 1, 50257, 50 },
                                          { 1, 128256, 1000 } } },
    { "nonfinite_inf",     FAST,         100, { { 1, 33, 8 }, { 1, 4099, 256 }, { 1, 50257, 50 },
                                          { 1, 128256, 1000 } } },
    { "hot",          FAST,          30, { { 9, 33, 33 }, { 9, 1025, 100 }, { 1, 32000, 50 } } },
    { "cold",         FAST,         250, { { 9, 33, 33 }, { 9, 1025, 100 }, { 1, 32000, 50 } } },
    { "cold",         FAST,        1000, { { 9, 33, 8 }, { 9, 1025, 1000 }, { 1, 50257, 256 } } },
};
/* clang-format on */

/* Rows and widths enough for every unit of a large device to take several pieces. */
static const shape device_shapes[] = {
    { 300, 50257, 50 }, { 40, 128256, 256 },  { 700, 20000, 1024 }, { 300, 50257, 1024 },
    { 5000, 1025, 10 }, { 20, 151936, 1000 }, { 150, 32000, 7 },
};

static const struct {
    const char *name;
    shape       s;
} device_families[] = {
    { "mod1024", { 40, 128256, 100 } },    { "mod1024x8", { 40, 128256, 100 } },
    { "chunk", { 40, 128256, 1024 } },     { "ramp", { 40, 128256, 256 } },
    { "descending", { 40, 128256, 256 } }, { "ties", { 40, 128256, 1024 } },
    { "equal", { 300, 50257, 50 } },       { "masked", { 40, 128256, 256 } },
    { "holes", { 300, 50257, 50 } },       { "nonfinite", { 300, 50257, 50 } },
    { "disjoint", { 600, 50257, 50 } },    { "all_masked", { 300, 50257, 1024 } },
};

static const shape timed_shapes[] = {
    { 1, 128256, 0 },   { 32, 128256, 0 },  { 64, 128256, 0 },
    { 256, 128256, 0 }, { 4096, 50257, 0 }, { 1024, 151936, 0 },
};
static const int64_t timed_k[] = { 10, 50, 256, 1024 };
/* What the judge times on a device. */
static const shape large_judged = { 512, 128256, 50 };

/* The least favourable layouts, in addition to the plain one. */
static const shape       hard_shapes[] = { { 64, 128256, 50 }, { 4096, 50257, 50 } };
static const char *const hard_families[] = { "ramp", "descending", "equal", "mod1024",
                                             "all_masked" };

/* In bytes, and for a selection that reads a row once per winner: the obvious one must end in time.
 */
static bool affordable(const ts_case *c)
{
    const double scanned = (double)c->dim[0] * (double)c->dim[1] * (double)c->dim[2];
    const double row =
        (double)c->dim[1] * (double)ts_format_of(c->dtype)->n_bytes + 8 * (double)c->dim[2];
    const bool long_one = c->dim[0] > 20000 || c->dim[1] > 131072; /* no other class is that long */
    return (double)c->dim[0] * row <= (long_one ? 4e6 : 1.2e6) && scanned <= 6e8;
}

/* rows, vocab, k, pad, heat, lse; cool. Every number of rows, of logits and of winners goes from
 * just past a power of two to the next; heat is from a hundredth to 1e15. */
const ts_cover ts_softmax_topk_cover = {
    .use = TS_USE_CHECK,
    .dtypes = FAST,
    .family = { { "normal", FAST },     { "mod32", FAST },         { "mod64", FAST },
                { "mod256", FAST },     { "mod1024", FAST },       { "mod1024x8", FAST },
                { "chunk", FAST },      { "back", FAST },          { "disjoint", FAST },
                { "spike", FAST },      { "tail", FAST },          { "ramp", FAST },
                { "descending", FAST }, { "sawtooth", FAST },      { "equal", FAST },
                { "ties", FAST },       { "zeros", FAST },         { "subnormal", FAST },
                { "underflow", FAST },  { "offset", FAST },        { "offset30", F32 | BF16 },
                { "flat", FAST },       { "masked", FAST },        { "half_masked", FAST },
                { "holes", FAST },      { "all_masked", FAST },    { "floor", FAST },
                { "nonfinite", FAST },  { "nonfinite_one", FAST }, { "nonfinite_inf", FAST } },
    .empties = 1u << 0 | 1u << 1 | 1u << 2 /* rows, vocab, k */,
    .scalars = 1u << 4 | 1u << TS_MAX_DIMS /* heat, cool */,
    .row = TS_COVER_DIMS + 1,
    .gap = TS_COVER_DIMS + 3,
    .dim = { TS_COUNTS(2, 70000, 0, 1, 2, 9, 33, 257, 1025, 20001),
             TS_COUNTS(4, 151936, 0, 1, 2, 9, 33, 65, 129, 257, 1025, 4097, 32769, 65537, 131073),
             TS_COUNTS(2, 5000, 0, 1, 2, 9, 33, 65, 129, 257, 513, 1025, 2049),
             TS_RANGE(0, 64, 0, 1, 2, 17),
             TS_RANGE(2, 100000000000000000, 1, 10, 100, 101, 251, 1001, 5001, 100001, 10000000000),
             TS_RANGE(1, 1, 0, 1),
             { 0 },
             { 0 },
             TS_RANGE(0, 1, 0, 1) },
    .allows = affordable,
};

static void add(ts_case_list *l, unsigned use, unsigned dtypes, shape s, int64_t pad, int64_t heat,
                int lse, const char *name)
{
    ts_list_add(l, dtypes,
                (ts_case) { use, TS_F32, { s.rows, s.vocab, s.k, pad, heat, lse }, name });
}

static void add_empty(ts_case_list *l)
{
    for (size_t i = 0; i < COUNT(empty_shapes); i++)
        for (int lse = 0; lse < 2; lse++)
            add(l, TS_USE_CHECK, FAST, empty_shapes[i], (int64_t)i % 3, 100, lse, "normal");
}

/* Logits over half the range of their dtype, and a temperature with which all of them have a
 * probability: none is a mask, and none is out of bounds. */
static void add_wide(ts_case_list *l)
{
    static const shape some[] = { { 9, 33, 8 }, { 9, 1025, 50 }, { 2, 4099, 256 } };
    for (size_t i = 0; i < COUNT(some); i++) {
        const int first = l->n;
        add(l, TS_USE_CHECK, F32 | BF16, some[i], (int64_t)i, 300, 1, "wide");
        for (int k = first; k < l->n; k++) l->c[k].dim[TS_MAX_DIMS] = 4; /* times 2^-125 */
        add(l, TS_USE_CHECK, F16, some[i], (int64_t)i, 1, 1, "wide");
    }
}

/* t is 2^126: of logits below the smallest normal it makes numbers of usual size, so that a kernel
 * which flushes them has other probabilities. */
static void add_cold_subnormals(ts_case_list *l)
{
    const int first = l->n;
    add(l, TS_USE_CHECK, F32 | BF16, (shape) { 9, 33, 5 }, 2, 6400, 1, "subnormal");
    add(l, TS_USE_CHECK, F32 | BF16, (shape) { 2, 1025, 50 }, 0, 6400, 0, "subnormal");
    add(l, TS_USE_CHECK, F32, (shape) { 33, 257, 33 }, 1, 6400, 1, "subnormal");
    for (int i = first; i < l->n; i++) l->c[i].dim[TS_MAX_DIMS] = 3;
}

static void add_checked(ts_case_list *l)
{
    for (size_t i = 0; i < COUNT(plain_shapes); i++) {
        add(l, TS_USE_CHECK, FAST, plain_shapes[i], (int64_t)(i + 2) % 6, 100, i % 4 != 3,
            "normal");
        if (i == 0) add_empty(l); /* early: a mutant is led through the cases in their order */
    }
    for (size_t i = 0; i < COUNT(large_shapes); i++)
        add(l, TS_USE_CHECK, i < 4 ? FAST : F32, large_shapes[i], (int64_t)i % 6, 100, 1, "normal");
    for (size_t i = 0; i < COUNT(model_shapes); i++)
        add(l, TS_USE_CHECK | TS_USE_ALWAYS, FAST, model_shapes[i], (int64_t)i % 4, 100, 1,
            "normal");
    for (size_t i = 0; i < COUNT(end_shapes); i++)
        add(l, TS_USE_CHECK | TS_USE_ALWAYS, FAST, end_shapes[i], 1 + (int64_t)i, 100, 1, "back");
    /* Every k of which anybody may have made a template. */
    for (int64_t k = 1; k <= 256; k++)
        add(l, TS_USE_CHECK, F32, (shape) { 2, (const int64_t[]) { k + 60, 1025, 4099 }[k % 3], k },
            k % 6, 100, 1, "normal");
    add_cold_subnormals(l);
    add_wide(l);
    for (size_t i = 0; i < COUNT(families); i++)
        for (size_t j = 0; j < MAX_SHAPES && families[i].shapes[j].rows; j++)
            add(l, TS_USE_CHECK, families[i].dtypes, families[i].shapes[j],
                (int64_t)(i + j + 1) % 6, families[i].heat, j % 3 != 1, families[i].name);
    add(l, TS_USE_CHECK, F32 | BF16, (shape) { 3, 40, 8 }, FAR_PAD, 100, 1, "far");
    add(l, TS_USE_CHECK | TS_USE_HOST, F32 | BF16, (shape) { 2, 40, 8 }, FARTHER_PAD, 100, 1,
        "farther");
    add(l, TS_USE_CHECK, FAST, (shape) { TALL_ROWS, TALL_COLS, 2 }, 1, 100, 1, "tall");
    add(l, TS_USE_CHECK, FAST, (shape) { TALLER_ROWS, TALL_COLS, 1 }, 0, 100, 1, "taller");
    add(l, TS_USE_CHECK, F32, (shape) { 9, 33, 5 }, 1, 1000000, 1, "normal");
    l->c[l->n - 1].dim[TS_MAX_DIMS] = 2; /* that times 2^60 */
}

const ts_case *ts_softmax_topk_cases(void)
{
    static ts_case_list l;
    if (l.n) return l.c;
    add_checked(&l);
    ts_list_cover(&l, &ts_softmax_topk_cover);
    for (size_t i = 0; i < COUNT(device_shapes); i++)
        add(&l, TS_USE_DEVICE, FAST, device_shapes[i], (int64_t)i % 6, 100, 1, "normal");
    for (size_t i = 0; i < COUNT(device_families); i++)
        add(&l, TS_USE_DEVICE, F32 | BF16, device_families[i].s, (int64_t)i % 6, 100, 1,
            device_families[i].name);
    for (size_t i = 0; i < COUNT(timed_shapes); i++)
        for (size_t j = 0; j < COUNT(timed_k); j++) {
            const shape s = { timed_shapes[i].rows, timed_shapes[i].vocab, timed_k[j] };
            add(&l, TS_USE_TIME, F32 | BF16, s, 0, 100, 1, "normal");
        }
    for (size_t i = 0; i < COUNT(hard_shapes); i++)
        for (size_t j = 0; j < COUNT(hard_families); j++)
            add(&l, TS_USE_TIME, F32, hard_shapes[i], 0, 100, 1, hard_families[j]);
    add(&l, TS_USE_JUDGE | TS_USE_LARGE, F32, large_judged, 0, 100, 1, "normal");
    return l.c;
}

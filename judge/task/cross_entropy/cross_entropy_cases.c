/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_cases.c - the cases of the two cross-entropy tasks. */
#include <string.h>

#include "case_list.h"
#include "cross_entropy_inside.h"
#include "dtype.h"

enum { BOTH = XE_DH | XE_DW };

typedef struct shape {
    int64_t rows, vocab, width;
} shape;

/* The first is the valid call from which invalid ones are made. Counts around a vector's, a warp's
 * and a tile's width; 70000 passes a launch limit, of rows and of words. */
static const shape odd_shapes[] = {
    { 5, 7, 3 },     { 0, 5, 3 },     { 1, 1, 1 },     { 1, 2, 1 },      { 3, 1, 4 },
    { 2, 3, 2 },     { 17, 31, 8 },   { 17, 33, 9 },   { 9, 65, 16 },    { 4, 127, 33 },
    { 33, 129, 17 }, { 3, 1025, 5 },  { 65, 63, 64 },  { 130, 257, 31 }, { 7, 4099, 3 },
    { 300, 41, 8 },  { 2, 513, 129 }, { 67, 515, 70 }, { 70000, 3, 2 },  { 2, 70000, 2 },
};

/* Just past a number of blocks whose width is no power of two; vocabularies of models, some of
 * which take more than 17 bits, or 18; and hidden states wider than 1024. */
static const shape model_shapes[] = {
    { 3, 1001, 3 },   { 3, 1537, 2 },  { 2, 3001, 2 },   { 2, 3073, 3 },   { 3, 3075, 2 },
    { 2, 32001, 2 },  { 2, 50265, 2 }, { 2, 128257, 1 }, { 1, 151937, 2 }, { 1, 256000, 1 },
    { 1, 262208, 1 }, { 5, 33, 1030 }, { 3, 17, 4100 },  { 2, 9, 3073 },   { 3, 5, 8195 },
};

/* Of long rows: in the last few words an error is lost, unless they outweigh all others. */
static const shape end_shapes[] = {
    { 9, 1027, 5 }, { 3, 33001, 2 }, { 2, 65539, 2 }, { 1, 100003, 2 }, { 2, 151937, 2 }
};

/* Of so many words even those that are 13 below the largest count. */
static const shape tail_shapes[] = { { 9, 4099, 5 }, { 3, 50265, 2 }, { 2, 151937, 2 } };

/* As models have them. */
static const shape even_shapes[] = {
    { 16, 48, 32 }, { 64, 1008, 64 }, { 128, 256, 128 }, { 32, 2048, 32 }, { 256, 512, 16 },
};

/* Enough for every unit of a large device to take several tiles. */
static const shape device_shapes[] = { { 1000, 3001, 72 }, { 700, 1500, 264 } };

static const shape timed_shapes[] = { { 256, 4096, 128 }, { 512, 2048, 256 }, { 128, 8192, 192 } };
static const shape judged_shapes[] = { { 128, 2048, 128 }, { 96, 1536, 96 } };
static const shape large_timed = { 1024, 8192, 512 };

typedef struct family {
    const char *name;
    unsigned    dtypes;
} family;

static const family families[] = {
    { "steep", ALL },     { "offset", ALL },
    { "rising", ALL },    { "tail", ALL },
    { "falling", ALL },   { "flat", ALL },
    { "zeros", ALL },     { "ties", ALL },
    { "sure", ALL },      { "coherent", ALL },
    { "loud", WIDE },     { "faint", WIDE },
    { "masked", ALL },    { "masked_target", ALL },
    { "nonfinite", ALL }, { "ignored_nonfinite", ALL },
    { "still", ALL },     { "capped", ALL },
};
static const shape family_shapes[] = { { 5, 7, 3 }, { 17, 129, 16 }, { 40, 700, 33 } };

/* Smoothing of all kinds where targets are masked: with 1 the target itself has no part. */
static void smooth_masked(ts_case_list *l)
{
    static const int64_t smooth[] = { 100, 0, 10 };
    for (int i = 0, n = 0; i < l->n; i++)
        if (ts_is(&l->c[i], "masked_target")) l->c[i].dim[XE_SMOOTH] = smooth[n++ % 3];
}

/* Where softcap makes numbers of infinities. */
static void cap_all(ts_case_list *l, int first)
{
    for (; first < l->n; first++)
        if (ts_is(&l->c[first], "capped")) l->c[first].dim[XE_CAP] = first % 2 ? 30 : 2;
}

/* Infinities are none once they are capped. With smoothing every loss would be infinite, which
 * `masked_target` alone is about. */
static bool suits(const ts_case *c, int64_t bias)
{
    const bool masked = ts_xe_masks(c), nonfinite = ts_is(c, "nonfinite");
    if (masked && (!bias || c->dim[1] < 2)) return false;
    if (ts_is(c, "masked") && c->dim[XE_SMOOTH]) return false;
    return !((masked || nonfinite) && c->dim[XE_CAP]);
}

/* A chunk of one logit takes a tile for each: few of those. */
static bool affordable(const ts_case *c)
{
    const int64_t R = c->dim[0], V = c->dim[1], D = c->dim[XE_WIDTH], most = 200000;
    if (c->dim[XE_CHUNK] == 1 && R * V > 20000) return false;
    if (!suits(c, c->dim[XE_BIAS])) return false;
    return R * V * D <= 10 * most && R * D <= most && V * D <= most && R * V <= 2 * most;
}

static bool logits_affordable(const ts_case *c)
{
    return suits(c, 1) && c->dim[0] * c->dim[1] <= 200000;
}

#define FAMILIES                                                                                   \
    {                                                                                              \
        { "normal", ALL }, { "steep", ALL }, { "offset", ALL }, { "rising", ALL },                 \
            { "falling", ALL }, { "tail", ALL }, { "flat", ALL }, { "zeros", ALL },                \
            { "ties", ALL }, { "sure", ALL }, { "coherent", ALL }, { "loud", WIDE },               \
            { "faint", WIDE }, { "masked", ALL }, { "masked_target", ALL }, { "nonfinite", ALL },  \
        {                                                                                          \
            "ignored_nonfinite", ALL                                                               \
        }                                                                                          \
    }
#define LOGIT_FAMILIES                                                                             \
    {                                                                                              \
        { "normal", ALL }, { "steep", ALL }, { "huge", ALL }, { "offset", ALL },                   \
            { "rising", ALL }, { "falling", ALL }, { "flat", ALL }, { "zeros", ALL },              \
            { "ties", ALL }, { "sure", ALL }, { "loud", WIDE }, { "faint", WIDE },                 \
            { "masked", ALL }, { "masked_target", ALL }, { "nonfinite", ALL },                     \
        {                                                                                          \
            "ignored_nonfinite", ALL                                                               \
        }                                                                                          \
    }
#define ROWS   TS_COUNTS(3, 5000, 0, 1, 2, 9, 33, 129, 1025, 4097)
#define VOCAB  TS_COUNTS(2, 9000, 1, 2, 9, 33, 65, 129, 1025, 4097)
#define MEAN   TS_RANGE(0, 1, 0, 1)
#define SKIP   TS_NUMBERS(0, 0, 1, 2, 3, 4)
#define SMOOTH TS_NUMBERS(0, 0, 10, 100)
#define Z      TS_NUMBERS(0, 0, 1, 100)
#define CAP    TS_NUMBERS(0, 0, 1, 30)

/* rows, vocab, width, pad, grad, mean, bias, skip; smooth, z, cap, chunk */
const ts_cover ts_cross_entropy_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = FAMILIES,
    .empties = 1u << 0 /* rows */,
    .scalars = 1u << XE_SMOOTH | 1u << XE_Z | 1u << XE_CAP,
    .row = TS_COVER_DIMS + XE_WIDTH,
    .gap = TS_COVER_DIMS + XE_PAD,
    .dim = { ROWS, VOCAB, TS_COUNTS(2, 520, 1, 2, 9, 17, 65, 257), TS_RANGE(0, 24, 0, 1, 8),
             TS_NUMBERS(3, 0, 1, 2, 3, 7, 11, 15), MEAN, TS_RANGE(1, 1, 0, 1), SKIP, SMOOTH, Z, CAP,
             TS_NUMBERS(0, 0, 1, 100, 4096) },
    .allows = affordable,
};

/* rows, vocab, pad, grad, mean, skip; smooth, z, cap */
const ts_cover ts_cross_entropy_logits_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = LOGIT_FAMILIES,
    .empties = 1u << 0 /* rows */,
    .scalars = 1u << XE_SMOOTH | 1u << XE_Z | 1u << XE_CAP,
    .row = TS_COVER_DIMS + 1,
    .gap = TS_COVER_DIMS + XL_PAD,
    .dim = { ROWS,
             VOCAB,
             TS_RANGE(0, 24, 0, 1, 8),
             TS_NUMBERS(1, 0, 1, 2),
             MEAN,
             SKIP,
             { 0 },
             { 0 },
             SMOOTH,
             Z,
             CAP },
    .allows = logits_affordable,
};

/* Each option of the loss alone, and all at once, always with gradients. */
static const struct {
    int64_t smooth, z, cap;
} options[] = { { 10, 0, 0 }, { 0, 100, 0 },   { 0, 0, 30 },
                { 0, 0, 1 },  { 10, 100, 30 }, { 10, 1, 1 } };

static void take_options(ts_case *c, size_t i)
{
    c->dim[XE_SMOOTH] = options[i].smooth;
    c->dim[XE_Z] = options[i].z;
    c->dim[XE_CAP] = options[i].cap;
}

/* ---- from hidden states ---- */

/* What goes with a case changes from one to the next; the first has both gradients. */
static void add_hidden(ts_case_list *l, unsigned use, unsigned dtypes, shape s, int64_t pad,
                       size_t turn, const char *name)
{
    static const int64_t grads[] = { 3, 7, 1, 11, 2, 15, 3, 0 };
    ts_case              c = { use,
                               TS_F32,
                               { s.rows, s.vocab, s.width, pad, grads[turn % 8], (int64_t)turn % 2,
                                 1 - (int64_t)turn / 2 % 2 },
                               name };
    if (ts_xe_masks(&c) || ts_is(&c, "capped")) c.dim[XE_BIAS] = 1;
    ts_list_add(l, dtypes, c);
}

/* Rows of every matrix that far apart, and no row is ignored. In f32 the arena has room for three
 * such matrices: one gradient. */
static void add_farther(ts_case_list *l)
{
    enum { ALL_GRADS = 0, DH = 2, DW = 4 }; /* turns */
    const int first = l->n;
    for (int turn = DH; turn <= DW; turn += DW - DH)
        add_hidden(l, TS_USE_CHECK | TS_USE_HOST, F32, (shape) { 2, 2, 40 }, FARTHER_PAD,
                   (size_t)turn, "farther");
    add_hidden(l, TS_USE_CHECK | TS_USE_HOST, BF16, (shape) { 2, 2, 40 }, FARTHER_PAD, ALL_GRADS,
               "farther");
    for (int i = first; i < l->n; i++) l->c[i].dim[XE_SKIP] = 1;
}

static void add_timed(ts_case_list *l, unsigned use, unsigned dtypes, shape s)
{
    ts_list_add(
        l, dtypes,
        (ts_case) { use, TS_F32, { s.rows, s.vocab, s.width, 0, BOTH, 1, 0, 0 }, "normal" });
}

const ts_case *ts_cross_entropy_cases(void)
{
    static ts_case_list l;
    if (l.n) return l.c;
    for (size_t i = 0; i < COUNT(odd_shapes); i++)
        add_hidden(&l, TS_USE_CHECK, ALL, odd_shapes[i], 1 + (int64_t)i % 5, i, "normal");
    for (size_t i = 0; i < COUNT(even_shapes); i++)
        add_hidden(&l, TS_USE_CHECK, FAST, even_shapes[i], i % 2 ? 8 : 0, 2 * i, "normal");
    for (size_t i = 0; i < COUNT(families); i++)
        for (size_t k = 0; k < COUNT(family_shapes); k++)
            add_hidden(&l, TS_USE_CHECK, families[i].dtypes, family_shapes[k], k == 1 ? 0 : 3,
                       k == 1 ? 0 : i + k, families[i].name);
    cap_all(&l, 0);
    smooth_masked(&l);
    for (size_t i = 0; i < COUNT(model_shapes); i++)
        add_hidden(&l, TS_USE_CHECK | TS_USE_ALWAYS, model_shapes[i].vocab > 100000 ? FAST : ALL,
                   model_shapes[i], (int64_t)i % 4, i, "normal");
    for (size_t i = 0; i < COUNT(end_shapes); i++)
        add_hidden(&l, TS_USE_CHECK | TS_USE_ALWAYS, ALL, end_shapes[i], 1, 2 * i, "back");
    for (size_t i = 0; i < COUNT(tail_shapes); i++)
        add_hidden(&l, TS_USE_CHECK, FAST, tail_shapes[i], 1, 2 * i, "tail");
    for (size_t i = 0; i < COUNT(options); i++) {
        int at = l.n;
        add_hidden(&l, TS_USE_CHECK, ALL, (shape) { 21, 50, 12 }, 2, i, "normal");
        for (; at < l.n; at++) take_options(&l.c[at], i), l.c[at].dim[XE_GRAD] |= BOTH;
    }
    /* Sums that grow with every row: kept in 16 bits they stop growing. */
    add_hidden(&l, TS_USE_CHECK, ALL, (shape) { 4096, 8, 8 }, 0, 0, "coherent");
    /* Many small terms of one size added to a large one: floats added one by one are all rounded
     * alike. */
    add_hidden(&l, TS_USE_CHECK, ALL, (shape) { 128, 2048, 24 }, 0, 0, "coherent");
    add_hidden(&l, TS_USE_CHECK, FAST, (shape) { 3, 5, 40 }, FAR_PAD, 0, "far");
    add_farther(&l);
    add_hidden(&l, TS_USE_CHECK, FAST, (shape) { TALL_ROWS, TALL_COLS, 1 }, 1, 0, "tall");
    add_hidden(&l, TS_USE_CHECK, FAST, (shape) { TALLER_ROWS, 9, 1 }, 0, 0, "taller");
    ts_list_cover(&l, &ts_cross_entropy_cover);
    for (size_t i = 0; i < COUNT(device_shapes); i++)
        add_hidden(&l, TS_USE_DEVICE, FAST, device_shapes[i], 8, 3 * i, "normal");
    for (size_t i = 0; i < COUNT(timed_shapes); i++)
        add_timed(&l, TS_USE_TIME, F32 | BF16, timed_shapes[i]);
    for (size_t i = 0; i < COUNT(judged_shapes); i++)
        add_timed(&l, TS_USE_JUDGE, F32, judged_shapes[i]);
    add_timed(&l, TS_USE_TIME | TS_USE_LARGE, F32 | BF16, large_timed);
    return l.c;
}

/* ---- from logits ---- */

static void add_logits(ts_case_list *l, unsigned use, unsigned dtypes, int64_t rows, int64_t vocab,
                       int64_t pad, size_t turn, const char *name)
{
    static const int64_t grads[] = { 1, 2, 2, 0, 1 };
    ts_list_add(
        l, dtypes,
        (ts_case) { use, TS_F32, { rows, vocab, pad, grads[turn % 5], (int64_t)turn % 2 }, name });
}

const ts_case *ts_cross_entropy_logits_cases(void)
{
    static const int64_t timed[][2] = { { 2048, 8192 }, { 512, 32000 }, { 4096, 1024 } };
    static ts_case_list  l;
    if (l.n) return l.c;
    for (size_t i = 0; i < COUNT(odd_shapes); i++)
        add_logits(&l, TS_USE_CHECK, ALL, odd_shapes[i].rows, odd_shapes[i].vocab,
                   1 + (int64_t)i % 5, i, "normal");
    for (size_t i = 0; i < COUNT(even_shapes); i++)
        add_logits(&l, TS_USE_CHECK, FAST, even_shapes[i].rows, even_shapes[i].vocab, i % 2 ? 8 : 0,
                   i, "normal");
    for (size_t i = 0; i < COUNT(families); i++)
        for (size_t k = 0; k < COUNT(family_shapes); k++)
            if (strcmp(families[i].name, "coherent"))
                add_logits(&l, TS_USE_CHECK, families[i].dtypes, family_shapes[k].rows,
                           family_shapes[k].vocab, k == 1 ? 0 : 3, i + k, families[i].name);
    cap_all(&l, 0);
    smooth_masked(&l);
    for (size_t i = 0; i < COUNT(model_shapes); i++)
        if (model_shapes[i].width < 1000)
            add_logits(&l, TS_USE_CHECK | TS_USE_ALWAYS, ALL, model_shapes[i].rows,
                       model_shapes[i].vocab, (int64_t)i % 4, i, "normal");
    for (size_t i = 0; i < COUNT(end_shapes); i++)
        add_logits(&l, TS_USE_CHECK | TS_USE_ALWAYS, ALL, end_shapes[i].rows, end_shapes[i].vocab,
                   1, i, "back");
    for (size_t i = 0; i < COUNT(tail_shapes); i++)
        add_logits(&l, TS_USE_CHECK, FAST, tail_shapes[i].rows, tail_shapes[i].vocab, 1, i, "tail");
    for (size_t i = 0; i < COUNT(options); i++) {
        int at = l.n;
        add_logits(&l, TS_USE_CHECK, ALL, 21, 50, 2, 0, "normal");
        for (; at < l.n; at++) take_options(&l.c[at], i), l.c[at].dim[XL_GRAD] = 1 + (int64_t)i % 2;
    }
    add_logits(&l, TS_USE_CHECK, ALL, 9, 300, 2, 1, "huge");
    add_logits(&l, TS_USE_CHECK, ALL, 9, 301, 1, 4, "huge");
    add_logits(&l, TS_USE_CHECK, FAST, 3, 40, FAR_PAD, 0, "far");
    add_logits(&l, TS_USE_CHECK | TS_USE_HOST, F32 | BF16, 2, 40, FARTHER_PAD, 0, "farther");
    for (int i = l.n - 2; i < l.n; i++) l.c[i].dim[XL_SKIP] = 1;
    add_logits(&l, TS_USE_CHECK, FAST, TALL_ROWS, TALL_COLS, 1, 0, "tall");
    add_logits(&l, TS_USE_CHECK, FAST, TALLER_ROWS, TALL_COLS, 0, 0, "taller");
    ts_list_cover(&l, &ts_cross_entropy_logits_cover);
    add_logits(&l, TS_USE_DEVICE, FAST, 3000, 3001, 3, 0, "normal");
    add_logits(&l, TS_USE_DEVICE, FAST, 1000, 16384, 0, 1, "normal");
    for (size_t i = 0; i < COUNT(timed); i++)
        add_logits(&l, TS_USE_TIME, F32 | BF16, timed[i][0], timed[i][1], 0, 0, "normal");
    add_logits(&l, TS_USE_JUDGE, F32, 1024, 2048, 0, 0, "normal");
    add_logits(&l, TS_USE_JUDGE, F32, 256, 4096, 0, 0, "normal");
    add_logits(&l, TS_USE_TIME | TS_USE_LARGE, F32 | BF16, 2048, 32768, 0, 0, "normal");
    return l.c;
}

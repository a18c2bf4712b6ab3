/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fp8_cases.c - the cases of the task flash_attention_fp8. Their dimensions are those of
 * flash_attention; the dtype is that of o. */
#include "attention_fp8_cases.h"

#include <string.h>

enum { MAX_SHAPES = 3, MUCH = 1 << 17 };
enum { FULL = TS_FULL, CAUSAL = TS_CAUSAL, WINDOW = TS_WINDOW };

typedef ts_attention_shape_of shape;

/* Lengths around tiles of 16 to 128, every way to share heads, rows that are whole chunks of 16
 * bytes and others; windows of one key, where o is that key's value. */
static const shape plain_shapes[] = {
    { 17, 17, 2, 4, 2, 64, CAUSAL, 640 },  { 2, 2, 1, 2, 1, 8, CAUSAL, 11 },
    { 1, 1, 1, 1, 1, 1, FULL, 0 },         { 15, 15, 1, 6, 3, 33, FULL, 160 },
    { 17, 17, 2, 6, 3, 80, CAUSAL, 371 },  { 33, 33, 3, 2, 1, 16, CAUSAL, 10 },
    { 1, 64, 2, 4, 2, 64, CAUSAL, 0 },     { 5, 64, 2, 4, 2, 64, CAUSAL, 161 },
    { 64, 5, 1, 2, 1, 64, CAUSAL, 160 },   { 65, 130, 1, 2, 1, 64, CAUSAL, 641 },
    { 130, 65, 1, 1, 1, 33, FULL, 372 },   { 1, 65, 1, 8, 1, 128, FULL, 1 },
    { 63, 95, 1, 4, 1, 64, CAUSAL, 640 },  { 64, 96, 1, 2, 2, 64, FULL, 643 },
    { 65, 97, 1, 2, 2, 128, CAUSAL, 640 }, { 127, 127, 1, 2, 1, 48, CAUSAL, 0 },
    { 128, 128, 1, 2, 1, 128, FULL, 0 },   { 129, 129, 1, 2, 1, 128, CAUSAL, 1 },
    { 17, 33, 1, 2, 1, 129, CAUSAL, 0 },   { 9, 40, 1, 2, 2, 208, FULL, 161 },
    { 65, 129, 1, 1, 1, 256, FULL, 161 },  { 40, 40, 1, 2, 2, 256, CAUSAL, 2 },
    { 300, 129, 1, 1, 1, 16, FULL, 1 },    { 65, 1021, 1, 1, 1, 16, CAUSAL, 0 },
    { 3, 5, 1, 66, 2, 16, FULL, 0 },       { 70, 70, 2, 4, 2, 64, WINDOW, 0 },
    { 150, 150, 1, 2, 1, 128, WINDOW, 1 }, { 33, 70, 1, 2, 2, 256, WINDOW, 0 },
};
static const shape empty_shapes[] = { { 0, 17, 2, 2, 1, 16, FULL, 0 },
                                      { 17, 0, 2, 2, 1, 16, CAUSAL, 1 },
                                      { 5, 5, 0, 2, 1, 16, FULL, 0 } };

static const struct family {
    const char *name;
    shape       shapes[MAX_SHAPES];
} families[] = {
    { "late",
      { { 65, 65, 1, 2, 1, 64, FULL, 160 },
        { 129, 129, 1, 2, 1, 33, CAUSAL, 641 },
        { 65, 300, 1, 1, 1, 128, FULL, 640 } } },
    { "falling", { { 65, 65, 1, 1, 1, 64, CAUSAL, 161 }, { 129, 129, 1, 1, 1, 128, FULL, 640 } } },
    { "sink", { { 65, 65, 1, 2, 1, 64, CAUSAL, 640 }, { 65, 130, 1, 1, 1, 128, FULL, 0 } } },
    { "last", { { 65, 65, 1, 1, 1, 64, FULL, 641 }, { 129, 129, 1, 1, 1, 64, FULL, 0 } } },
    { "saturated", { { 65, 65, 1, 1, 1, 64, FULL, 0 }, { 129, 129, 1, 1, 1, 64, CAUSAL, 640 } } },
    { "early", { { 65, 65, 1, 1, 1, 64, CAUSAL, 160 }, { 129, 129, 1, 1, 1, 33, FULL, 641 } } },
    { "offset", { { 65, 65, 1, 1, 1, 64, CAUSAL, 0 }, { 65, 129, 1, 1, 1, 128, FULL, 1 } } },
    { "hot", { { 65, 65, 1, 2, 1, 64, CAUSAL, 640 }, { 129, 129, 1, 1, 1, 33, FULL, 161 } } },
    { "flat", { { 2, 20000, 1, 1, 1, 16, FULL, 0 }, { 129, 129, 1, 1, 1, 64, CAUSAL, 641 } } },
    { "tail", { { 3, 4000, 1, 1, 1, 16, FULL, 0 }, { 2, 5000, 1, 2, 1, 64, FULL, 1 } } },
    { "negative", { { 65, 65, 1, 1, 1, 64, CAUSAL, 0 }, { 129, 64, 1, 2, 1, 33, FULL, 641 } } },
    { "window",
      { { 65, 65, 1, 2, 1, 64, WINDOW + 4, 160 },
        { 129, 129, 1, 2, 1, 128, WINDOW + 16, 641 },
        { 64, 40, 1, 2, 1, 80, WINDOW + 7, 1 } } },
    { "ragged",
      { { 65, 65, 3, 2, 1, 64, FULL, 640 },
        { 64, 130, 3, 2, 1, 33, CAUSAL, 371 },
        { 65, 129, 3, 2, 1, 16, WINDOW + 40, 640 } } },
    { "padding",
      { { 65, 65, 3, 2, 1, 64, FULL, 160 },
        { 130, 64, 3, 2, 1, 128, CAUSAL, 1 },
        { 17, 129, 5, 2, 2, 16, FULL, 640 } } },
    { "empty", { { 17, 33, 4, 4, 2, 64, FULL, 160 }, { 65, 64, 3, 2, 1, 33, CAUSAL, 641 } } },
    { "scaled",
      { { 33, 33, 3, 6, 3, 64, FULL, 0 },
        { 65, 65, 2, 4, 2, 128, CAUSAL, 1 },
        { 9, 17, 2, 4, 4, 33, FULL, 0 } } },
    { "subnormal", { { 33, 65, 2, 4, 2, 64, CAUSAL, 0 }, { 17, 65, 1, 2, 2, 9, FULL, 1 } } },
    { "extreme", { { 33, 65, 2, 4, 2, 64, CAUSAL, 0 }, { 17, 65, 1, 2, 2, 9, FULL, 1 } } },
    { "nonfinite", { { 17, 17, 1, 2, 1, 16, FULL, 0 }, { 65, 65, 1, 2, 1, 64, CAUSAL, 641 } } },
    { "nonfinite_key",
      { { 17, 33, 4, 4, 2, 16, FULL, 0 }, { 65, 129, 2, 6, 3, 64, CAUSAL, 641 } } },
    { "nonfinite_value",
      { { 17, 33, 2, 4, 2, 16, FULL, 0 }, { 65, 129, 1, 3, 3, 64, CAUSAL, 641 } } },
};

/* Enough to fill a device, and to be cut in many ways. */
static const struct {
    const char *name;
    shape       s;
} device_shapes[] = {
    { "normal", { 1000, 1000, 2, 8, 2, 128, CAUSAL, 0 } },
    { "normal", { 2048, 2048, 1, 4, 4, 64, FULL, 1 } },
    { "normal", { 513, 1025, 2, 8, 8, 128, CAUSAL, 1 } },
    { "normal", { 4096, 4096, 2, 4, 4, 64, CAUSAL, 0 } },
    { "normal", { 2000, 2000, 1, 8, 1, 64, WINDOW + 255, 0 } },
    { "normal", { 1500, 1500, 2, 4, 4, 128, WINDOW + 99, 1 } },
    { "normal", { 700, 700, 1, 4, 2, 96, CAUSAL, 0 } },
    { "normal", { 600, 600, 2, 2, 1, 192, CAUSAL, 1 } },
    { "normal", { 2100, 2100, 1, 4, 2, 256, CAUSAL, 0 } },
    { "normal", { 300, 650, 1, 2, 2, 240, FULL, 1 } },
    { "normal", { 300, 513, 1, 4, 2, 16, CAUSAL, 0 } },
    { "normal", { 333, 333, 2, 2, 1, 40, WINDOW + 70, 0 } },
    { "normal", { 2, 1, 35000, 2, 1, 64, CAUSAL, 0 } },
    { "normal", { 900, 900, 1, 4, 2, 128, WINDOW, 0 } },
    { "normal", { 900, 900, 1, 4, 2, 64, WINDOW, 1 } },
    { "normal", { 400, 400, 1, 4, 2, 256, WINDOW, 1 } },
    { "late", { 1100, 1100, 1, 8, 8, 128, FULL, 0 } },
    { "sink", { 1100, 1100, 1, 8, 2, 64, CAUSAL, 0 } },
    { "hot", { 900, 900, 1, 4, 4, 128, CAUSAL, 1 } },
    { "flat", { 200, 9000, 1, 2, 2, 128, FULL, 0 } },
    { "flat", { 100, 9000, 1, 2, 2, 256, FULL, 0 } },
    { "tail", { 200, 5000, 1, 2, 2, 128, FULL, 0 } },
    { "scaled", { 900, 900, 2, 4, 2, 128, CAUSAL, 0 } },
    { "extreme", { 600, 900, 2, 4, 2, 128, FULL, 0 } },
    { "subnormal", { 600, 900, 2, 4, 2, 64, FULL, 0 } },
    { "ragged", { 900, 1300, 5, 4, 2, 128, CAUSAL, 0 } },
    { "padding", { 900, 1300, 5, 4, 4, 64, FULL, 1 } },
    { "padding", { 300, 700, 5, 2, 2, 128, CAUSAL, 1 } },
    { "padding", { 300, 700, 5, 2, 2, 256, CAUSAL, 0 } },
    { "empty", { 1300, 900, 4, 4, 1, 128, CAUSAL, 0 } },
    { "empty", { 700, 300, 4, 2, 1, 256, CAUSAL, 1 } },
};

static const shape timed_shapes[] = { { 1024, 1024, 1, 8, 8, 64, FULL, 0 },
                                      { 1024, 1024, 1, 8, 2, 128, CAUSAL, 0 } };
static const shape large_shapes[] = {
    { 1024, 1024, 16, 32, 32, 128, FULL, 0 },  { 4096, 4096, 4, 32, 32, 128, FULL, 0 },
    { 16384, 16384, 1, 32, 32, 128, FULL, 0 }, { 4096, 4096, 4, 32, 8, 128, FULL, 0 },
    { 4096, 4096, 8, 16, 16, 64, FULL, 0 },    { 4096, 4096, 2, 16, 16, 256, FULL, 0 }
};

static bool affordable(const ts_case *c)
{
    const int64_t scale = c->dim[TS_SCALE];
    return ts_attention_affordable(c) &&
           (!ts_is(c, "nonfinite") || (scale != TS_SCALE_0 && scale != TS_SCALE_NEGATIVE));
}

const ts_cover ts_flash_attention_fp8_cover = {
    .use = TS_USE_CHECK,
    .dtypes = FAST,
    .family = { { "normal", FAST },
                { "late", FAST },
                { "sink", FAST },
                { "offset", FAST },
                { "flat", FAST },
                { "ragged", FAST },
                { "padding", FAST },
                { "empty", FAST },
                { "scaled", FAST },
                { "subnormal", FAST },
                { "extreme", FAST },
                { "nonfinite", FAST } },
    .empties = 1u << 0 | 1u << 1 | 1u << 2 /* q, k, batch */,
    .dim = { TS_RANGE(1, 300, 0, 1, 2, 9, 17, 33, 65, 129, 257),
             TS_RANGE(2, 4300, 0, 1, 2, 9, 17, 33, 65, 129, 257, 1025),
             TS_RANGE(1, 300, 0, 1, 2, 9, 65), TS_RANGE(0, 16, 1, 2, 3, 5, 9),
             TS_RANGE(0, 16, 1, 2, 3, 9), TS_RANGE(1, 256, 1, 2, 9, 17, 33, 65, 129, 193, 256),
             TS_RANGE(0, (int64_t)1 << 40, 0, 1, 2, 3, 10, 18, 66, 258),
             TS_NUMBERS(0, 0, 1, 2, 3, 10, 161, 640, 5120),
             TS_RANGE(0, TS_SCALE_1, 0, 1, 2, 3, 4, 5) },
    .allows = affordable,
    .make = ts_multiply_heads,
    .read = ts_divide_heads,
};

/* Of what takes long, one dtype, another from shape to shape. */
static unsigned dtypes_of(shape s, size_t number)
{
    const int64_t work = s.q * s.k * s.batch * s.q_heads * s.head_dim;
    return work <= MUCH ? FAST : (const unsigned[]) { BF16, F32, F16 }[number % 3];
}

const ts_case *ts_flash_attention_fp8_cases(void)
{
    static ts_case_list l;
    if (l.n) return l.c;
    for (size_t i = 0; i < COUNT(plain_shapes); i++) {
        const unsigned dtypes = i ? dtypes_of(plain_shapes[i], i)
                                  : FAST; /* the first: invalid calls are derived from it */
        ts_attention_add(&l, TS_USE_CHECK, dtypes, plain_shapes[i], "normal");
        for (size_t k = 0; i == 0 && k < COUNT(empty_shapes); k++)
            ts_attention_add(&l, TS_USE_CHECK, FAST, empty_shapes[k], "normal");
    }
    for (size_t i = 0; i < COUNT(families); i++)
        for (size_t k = 0; k < MAX_SHAPES && families[i].shapes[k].batch; k++)
            ts_attention_add(&l, TS_USE_CHECK, dtypes_of(families[i].shapes[k], i + k),
                             families[i].shapes[k], families[i].name);
    ts_list_cover(&l, &ts_flash_attention_fp8_cover);
    for (size_t i = 0; i < COUNT(device_shapes); i++)
        ts_attention_add(&l, TS_USE_DEVICE, i % 2 ? F32 : BF16, device_shapes[i].s,
                         device_shapes[i].name);
    for (size_t i = 0; i < COUNT(timed_shapes); i++)
        ts_attention_add(&l, TS_USE_TIME, F32 | BF16, timed_shapes[i], "normal");
    ts_attention_add_large(&l, large_shapes, COUNT(large_shapes));
    return l.c;
}

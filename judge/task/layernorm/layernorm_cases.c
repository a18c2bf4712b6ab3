/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_cases.c - the cases of the layer norm tasks, and their inputs. */
#include "layernorm_cases.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cover.h"
#include "dtype.h"
#include "rng.h"

enum { F32 = 1u << TS_F32, F64 = 1u << TS_F64, F16 = 1u << TS_F16, BF16 = 1u << TS_BF16 };
enum { ALL = F32 | F64 | F16 | BF16, FAST = F32 | F16 | BF16, WIDE = F32 | F64 | BF16 };
enum { MAX_CASES = 1024 };
enum { EPS_POWER = TS_MAX_DIMS };

typedef struct shape {
    int64_t rows, cols;
} shape;

/* Every count around a vector's, a warp's and a block's width; 70000 rows pass a launch limit. */
static const shape odd_shapes[] = {
    { 0, 16 },   { 1, 1 },     { 3, 1 },     { 1, 2 },     { 2, 3 },      { 5, 7 },     { 17, 31 },
    { 17, 32 },  { 17, 33 },   { 17, 127 },  { 17, 128 },  { 17, 129 },   { 9, 1023 },  { 9, 1024 },
    { 9, 1025 }, { 257, 768 }, { 33, 5120 }, { 2, 16384 }, { 1, 131073 }, { 70000, 8 },
};

/* Widths at which a kernel may change its ways, with rows in 16-byte steps as real models have. */
static const shape even_shapes[] = {
    { 19, 64 },   { 37, 256 },  { 37, 512 }, { 37, 1024 },
    { 21, 2048 }, { 13, 4096 }, { 7, 8192 }, { 3, 16384 },
};

/* No gap between rows, as most callers have it. */
static const shape dense_shapes[] = { { 5, 7 }, { 9, 40 }, { 37, 1024 }, { 300, 768 } };

/* Rows enough for every unit of a large device to take several; also those that several units
 * share, and rows that begin at any place within 16 bytes. */
static const shape device_shapes[] = {
    { 6000, 1024 }, { 1500, 4096 }, { 800, 8192 }, { 9000, 384 }, { 250, 12288 }, { 50, 65536 },
};
static const shape shifted_shapes[] = { { 3000, 1023 }, { 20000, 60 }, { 300, 9001 } };

static const shape timed_shapes[] = {
    { 8192, 768 },
    { 32768, 1024 },
    { 8192, 4096 },
    { 16384, 8192 },
};

/* Also timed by the judge; the last on a device, where the others are over too soon. */
static const shape judged_shapes[] = { { 2048, 1024 }, { 1024, 768 } };
static const shape large_judged = { 16384, 1024 };

typedef struct family {
    const char *name;
    unsigned    dtypes;
    shape       shapes[4];
} family;

static const family families[] = {
    { "offset", ALL, { { 5, 5 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "offset8", F32 | F64, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "tiny", ALL, { { 5, 7 }, { 17, 128 }, { 9, 1025 }, { 3, 4096 } } },
    { "constant", ALL, { { 5, 7 }, { 17, 128 }, { 9, 1025 }, { 3, 4096 } } },
    { "spike", ALL, { { 5, 7 }, { 17, 129 }, { 9, 1024 }, { 3, 4096 } } },
    { "ramp", ALL, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "ties", ALL, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "denormal", ALL, { { 5, 7 }, { 17, 128 }, { 9, 1025 }, { 3, 4096 } } },
    { "small", F32 | F64 | BF16, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "huge", ALL, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "flat_huge", ALL, { { 4, 8 }, { 17, 128 }, { 9, 1024 }, { 3, 4096 } } },
    { "extreme", ALL, { { 17, 128 }, { 17, 129 }, { 9, 1025 }, { 3, 4096 } } },
    { "loud", WIDE, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "faint", WIDE, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "nonfinite", ALL, { { 9, 7 }, { 17, 128 }, { 9, 1025 }, { 6, 4096 } } },
};

/* Offsets of the third row pass 2^31 elements. */
static const int64_t FAR_PAD = ((int64_t)1 << 30) + 7 - 40;

/* With next to no eps the gradients of a flat row are no numbers of f16. */
static bool affordable(const ts_case *c)
{
    if (c->dtype == TS_F16 && c->dim[EPS_POWER] < 0) return false;
    /* The oracle scales by the larger of x and eps, and loses what is 600 powers below. */
    if (c->dtype == TS_F64 && c->dim[EPS_POWER] > 4 && !strcmp(c->family, "denormal")) return false;
    const int64_t most = c->dim[0] > 20000 ? 2500000 : 1000000; /* no other class is that long */
    return 3 * c->dim[0] * c->dim[1] * (int64_t)ts_format_of(c->dtype)->n_bytes <= most;
}

#define FAMILIES                                                                                   \
    {                                                                                              \
        { "normal", ALL }, { "offset", ALL }, { "offset8", F32 | F64 }, { "tiny", ALL },           \
            { "constant", ALL }, { "spike", ALL }, { "ramp", ALL }, { "ties", ALL },               \
            { "denormal", ALL }, { "small", F32 | F64 | BF16 }, { "huge", ALL },                   \
            { "flat_huge", ALL }, { "extreme", ALL },                                              \
        {                                                                                          \
            "nonfinite", ALL                                                                       \
        }                                                                                          \
    }
#define ROWS TS_RANGE(2, 70000, 0, 1, 2, 9, 33, 257, 1025, 20001)
#define COLS TS_RANGE(2, 65537, 1, 2, 9, 17, 33, 129, 257, 1025, 4097, 16385)
#define PADS TS_RANGE(0, 64, 0, 1, 2, 8, 17)
#define EPS  TS_NUMBERS(1, -12, 0, 1, 4, 40)

/* rows, cols, pad; eps */
const ts_cover ts_layernorm_forward_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = FAMILIES,
    .empties = 1u << 0 /* rows */,
    .dim = { ROWS, COLS, PADS, { 0 }, { 0 }, { 0 }, { 0 }, { 0 }, EPS },
    .allows = affordable,
};

/* rows, cols, pad, acc; eps */
const ts_cover ts_layernorm_backward_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = FAMILIES,
    .empties = 1u << 0 /* rows */,
    .dim = { ROWS, COLS, PADS, TS_RANGE(0, 1, 0, 1), { 0 }, { 0 }, { 0 }, { 0 }, EPS },
    .allows = affordable,
};

typedef struct list {
    ts_case c[MAX_CASES];
    int     n;
    bool    backward;
} list;

static void add_one(list *l, unsigned use, ts_dtype t, shape s, int64_t pad, int acc,
                    const char *name)
{
    if (l->n + 1 == MAX_CASES) abort();
    l->c[l->n++] = (ts_case) { use, t, { s.rows, s.cols, pad, acc }, name };
}

enum { OVERWRITE, ACCUMULATE, BOTH };

/* How backward treats dgamma and dbeta must not depend on anything else of the case. */
static void add(list *l, unsigned use, unsigned dtypes, shape s, int64_t pad, int acc,
                const char *name)
{
    for (int t = TS_F32; t <= TS_BF16; t++) {
        if (!(dtypes >> t & 1u)) continue;
        if (acc != ACCUMULATE || !l->backward) add_one(l, use, (ts_dtype)t, s, pad, 0, name);
        if (acc != OVERWRITE && l->backward) add_one(l, use, (ts_dtype)t, s, pad, 1, name);
    }
}

static const ts_case *build(list *l, bool backward)
{
    if (l->n) return l->c;
    l->backward = backward;
    for (size_t i = 0; i < sizeof odd_shapes / sizeof *odd_shapes; i++)
        add(l, TS_USE_CHECK, ALL, odd_shapes[i], 1 + (int64_t)i % 5, BOTH, "normal");
    for (size_t i = 0; i < sizeof even_shapes / sizeof *even_shapes; i++)
        add(l, TS_USE_CHECK, FAST, even_shapes[i], 8, BOTH, "normal");
    for (size_t i = 0; i < sizeof dense_shapes / sizeof *dense_shapes; i++)
        add(l, TS_USE_CHECK, ALL, dense_shapes[i], 0, BOTH, "normal");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (int k = 0; k < 4; k++)
            add(l, TS_USE_CHECK, families[i].dtypes, families[i].shapes[k], k == 3 ? 16 : 3,
                (int)(i + (size_t)k) & 1, families[i].name);
    add(l, TS_USE_CHECK, F32 | BF16, (shape) { 3, 40 }, FAR_PAD, OVERWRITE, "far");
    /* A pair may meet where there is nothing to see: rows whose variance is less than any eps. */
    int flat = l->n;
    add(l, TS_USE_CHECK, F32 | F64, (shape) { 5, 7 }, 2, OVERWRITE, "constant");
    while (flat < l->n) l->c[flat++].dim[EPS_POWER] = -12;
    /* An eps that float does not have, and a row that is exactly flat. */
    add(l, TS_USE_CHECK, WIDE, (shape) { 1, 9 }, 2, OVERWRITE, "constant");
    while (flat < l->n) l->c[flat++].dim[EPS_POWER] = -60;
    l->n += ts_cover_cases(backward ? &ts_layernorm_backward_cover : &ts_layernorm_forward_cover,
                           l->c + l->n, MAX_CASES / 4);
    for (size_t i = 0; i < sizeof device_shapes / sizeof *device_shapes; i++)
        add(l, TS_USE_DEVICE, FAST, device_shapes[i], 8, (int)i & 1, "normal");
    for (size_t i = 0; i < sizeof shifted_shapes / sizeof *shifted_shapes; i++)
        add(l, TS_USE_DEVICE, FAST, shifted_shapes[i], (int64_t)i, (int)i & 1, "normal");
    for (size_t i = 0; i < sizeof timed_shapes / sizeof *timed_shapes; i++)
        add(l, TS_USE_TIME, F32 | BF16, timed_shapes[i], 0, OVERWRITE, "normal");
    for (size_t i = 0; i < sizeof judged_shapes / sizeof *judged_shapes; i++)
        add(l, TS_USE_JUDGE, F32, judged_shapes[i], 0, OVERWRITE, "normal");
    add(l, TS_USE_JUDGE | TS_USE_LARGE, F32, large_judged, 0, OVERWRITE, "normal");
    return l->c;
}

const ts_case *ts_layernorm_forward_cases(void)
{
    static list l;
    return build(&l, false);
}

const ts_case *ts_layernorm_backward_cases(void)
{
    static list l;
    return build(&l, true);
}

int64_t ts_layernorm_stride(const ts_case *c)
{
    return c->dim[1] + c->dim[2];
}

double ts_layernorm_eps(const ts_case *c)
{
    if (c->dim[EPS_POWER]) return pow(10, (double)c->dim[EPS_POWER]);
    if (!strcmp(c->family, "constant")) return 1e-2;
    /* Small x: its squares leave the range of its dtype, and so does this eps: neither is nothing.
     */
    if (!strcmp(c->family, "small")) return c->dtype == TS_F64 ? 1e-317 : 1e-43;
    return 1e-5;
}

/* One number a dtype, in the order f32, f64, f16, bf16. */
static double by_dtype(ts_dtype t, double f32, double f64, double f16, double bf16)
{
    return (const double[]) { f32, f64, f16, bf16 }[t];
}

static double draw_extreme(ts_dtype t, double z, bool odd_one)
{
    /* With x near a quarter of the largest number and one near its negative, both the sum and a
     * difference from the mean pass it, though rstd does not. */
    return ts_format_of(t)->max * (odd_one ? -0.99 : 0.25 * (1 + 0.1 * z));
}

static double draw_nonfinite(double z, int64_t r, bool odd_one)
{
    return odd_one && r % 4 ? (const double[]) { 0, NAN, INFINITY, -INFINITY }[r % 4] : z;
}

double ts_layernorm_draw(const char *f, ts_dtype t, uint64_t seed, int64_t r, int64_t i,
                         int64_t n_cols)
{
    const double  z = ts_normal(seed, r * n_cols + i);
    const double  row = ts_normal(seed + 7, r);
    const int64_t chosen = (int64_t)(ts_bits(seed + 8, r) % (uint64_t)n_cols);
    if (!strcmp(f, "offset")) return by_dtype(t, 1e6, 1e9, 1000, 256) + z;
    if (!strcmp(f, "offset8")) return by_dtype(t, 1e8, 1e14, 0, 0) + 1000 * z;
    if (!strcmp(f, "tiny")) return 1 + by_dtype(t, 1e-3, 1e-7, 2e-3, 1e-2) * z;
    if (!strcmp(f, "constant")) return r ? 3 * row : 0;
    if (!strcmp(f, "spike")) return i == chosen ? 1000 : 1e-3 * z;
    if (!strcmp(f, "ramp")) return ((double)i - (double)n_cols / 2) * 0.01;
    if (!strcmp(f, "ties")) return (double)(ts_bits(seed, r * n_cols + i) % 3) - 1;
    if (!strcmp(f, "denormal")) return ts_format_of(t)->min_normal * 0.25 * z;
    if (!strcmp(f, "small")) return by_dtype(t, 1e-21, 1e-158, 0, 1e-21) * z;
    if (!strcmp(f, "huge")) return by_dtype(t, 1e20, 1e160, 300, 1e20) * z;
    if (!strcmp(f, "flat_huge")) return by_dtype(t, 0x1p100, 0x1p900, 0x1p15, 0x1p100);
    if (!strcmp(f, "extreme")) return draw_extreme(t, z, i == chosen);
    if (!strcmp(f, "nonfinite")) return draw_nonfinite(z, r, i == chosen);
    return z;
}

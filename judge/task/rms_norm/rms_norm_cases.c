/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_cases.c - the cases of the rms_norm tasks: shapes, families, ranges of parameters. */
#include "rms_norm_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cover.h"
#include "dtype.h"
#include "real.h"
#include "rng.h"

enum { F32 = 1u << TS_F32, F64 = 1u << TS_F64, F16 = 1u << TS_F16, BF16 = 1u << TS_BF16 };
enum { ALL = F32 | F64 | F16 | BF16, FAST = F32 | F16 | BF16, WIDE = F32 | F64 | BF16 };
enum { MAX_CASES = 1024, EPS_POWER = TS_MAX_DIMS };

typedef struct shape {
    int64_t rows, cols;
} shape;

/* Every count around the width of a vector, a warp and a block; 70000 rows pass a launch limit. */
static const shape odd_shapes[] = {
    { 0, 16 },   { 1, 1 },     { 3, 1 },     { 1, 2 },     { 2, 3 },      { 5, 7 },     { 17, 31 },
    { 17, 32 },  { 17, 33 },   { 17, 127 },  { 17, 128 },  { 17, 129 },   { 9, 1023 },  { 9, 1024 },
    { 9, 1025 }, { 257, 768 }, { 33, 5120 }, { 2, 16384 }, { 1, 131073 }, { 70000, 8 },
};

/* Widths at which a kernel may change its method, with rows in 16-byte steps as models have them.
 */
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
    { 8192, 768 }, { 32768, 1024 }, { 8192, 4096 }, { 16384, 8192 }
};

/* Also timed by the judge; the last on a device, where the others are over too soon. */
static const shape judged_shapes[] = { { 4096, 1024 }, { 2048, 1024 }, { 1024, 768 } };
static const shape large_judged = { 16384, 1024 };

typedef struct family {
    const char *name;
    unsigned    dtypes;
    shape       shapes[4];
} family;

static const family families[] = {
    { "offset", ALL, { { 5, 5 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "tiny", ALL, { { 5, 7 }, { 17, 128 }, { 9, 1025 }, { 3, 4096 } } },
    { "constant", ALL, { { 5, 7 }, { 17, 128 }, { 9, 1025 }, { 3, 4096 } } },
    { "spike", ALL, { { 5, 7 }, { 17, 129 }, { 9, 1024 }, { 3, 4096 } } },
    { "zeros", ALL, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "cancel", ALL, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "pruned", ALL, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "denormal", ALL, { { 5, 7 }, { 17, 128 }, { 9, 1025 }, { 3, 4096 } } },
    { "small", WIDE, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "huge", ALL, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "extreme", ALL, { { 17, 128 }, { 17, 129 }, { 9, 1025 }, { 3, 4096 } } },
    { "loud", WIDE, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "faint", WIDE, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "nonfinite", ALL, { { 9, 7 }, { 17, 128 }, { 9, 1025 }, { 6, 4096 } } },
};

/* Backward alone: NaN in dy and in dr. */
static const family nonfinite_gradient = { "nonfinite_dy",
                                           ALL,
                                           { { 9, 7 }, { 17, 128 }, { 9, 1025 }, { 6, 4096 } } };

/* Offsets of the third row pass 2^31 elements. */
static const int64_t FAR_PAD = ((int64_t)1 << 30) + 7 - 40;

/* With next to no eps the gradients of a row of zeros are no numbers of f16. */
static bool affordable(const ts_case *c)
{
    if (c->dtype == TS_F16 && c->dim[EPS_POWER] < 0) return false;
    /* The oracle scales by the larger of r and sqrt(eps), and loses what is 600 powers below. */
    if (c->dtype == TS_F64 && c->dim[EPS_POWER] > 4 && !strcmp(c->family, "denormal")) return false;
    const int64_t most = c->dim[0] > 20000 ? 2500000 : 1000000; /* no other class is that long */
    return 3 * c->dim[0] * c->dim[1] * (int64_t)ts_format_of(c->dtype)->n_bytes <= most;
}

static void make_forward(ts_case *c)
{
    if (c->dim[TS_RMS_RESIDUAL] == TS_RMS_IN_PLACE) c->use |= TS_USE_HOST;
}

#define FAMILIES                                                                                   \
    { "normal", ALL }, { "offset", ALL }, { "tiny", ALL }, { "constant", ALL }, { "spike", ALL },  \
        { "zeros", ALL }, { "cancel", ALL }, { "pruned", ALL }, { "denormal", ALL },               \
        { "small", WIDE }, { "huge", ALL }, { "extreme", ALL },                                    \
    {                                                                                              \
        "nonfinite", ALL                                                                           \
    }
#define ROWS TS_RANGE(2, 70000, 0, 1, 2, 9, 33, 257, 1025, 20001)
#define COLS TS_RANGE(2, 65537, 1, 2, 9, 17, 33, 129, 257, 1025, 4097, 16385)
#define PADS TS_RANGE(0, 64, 0, 1, 2, 8, 17)
#define FLAG TS_RANGE(0, 1, 0, 1)
#define EPS  TS_NUMBERS(1, -12, 0, 1, 4, 40)

/* rows, cols, pad, off, res; eps */
const ts_cover ts_rms_norm_forward_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { FAMILIES },
    .empties = 1u << TS_RMS_ROWS,
    .dim = { ROWS, COLS, PADS, FLAG, TS_RANGE(1, 2, 0, 1, 2), { 0 }, { 0 }, { 0 }, EPS },
    .allows = affordable,
    .make = make_forward,
};

/* rows, cols, pad, off, acc, dr; eps */
const ts_cover ts_rms_norm_backward_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { FAMILIES, { "nonfinite_dy", ALL } },
    .empties = 1u << TS_RMS_ROWS,
    .dim = { ROWS, COLS, PADS, FLAG, FLAG, TS_RANGE(1, 1, 0, 1), { 0 }, { 0 }, EPS },
    .allows = affordable,
};

typedef struct list {
    ts_case c[MAX_CASES];
    int     n;
    bool    backward;
} list;

static void add_one(list *l, unsigned use, ts_dtype t, shape s, int64_t pad, int flags,
                    const char *name)
{
    if (l->n + 1 == MAX_CASES) abort();
    ts_case c = { use, t, { s.rows, s.cols, pad, flags & 1 }, name };
    if (l->backward) {
        c.dim[TS_RMS_ACCUMULATE] = flags >> 1 & 1;
        c.dim[TS_RMS_DR] = flags >> 2 & 1;
    } else {
        c.dim[TS_RMS_RESIDUAL] = (flags >> 1) % 3;
        make_forward(&c);
    }
    l->c[l->n++] = c;
}

/* `flags` counts through the switches of a case: w_offset, then forward the residual, or backward
 * accumulate and dr. */
enum { FORWARD_FLAGS = 6, BACKWARD_FLAGS = 8 };

static void add(list *l, unsigned use, unsigned dtypes, shape s, int64_t pad, int flags,
                const char *name)
{
    for (int t = TS_F32; t <= TS_BF16; t++)
        if (dtypes >> t & 1u)
            add_one(l, use, (ts_dtype)t, s, pad,
                    flags % (l->backward ? BACKWARD_FLAGS : FORWARD_FLAGS), name);
}

static void add_family(list *l, const family *f, int first)
{
    for (int k = 0; k < 4; k++)
        add(l, TS_USE_CHECK, f->dtypes, f->shapes[k], k == 3 ? 16 : 3, first + 3 * k, f->name);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Each shape with two combinations of the switches; pad -1: a few elements. */
static void add_shapes(list *l, unsigned dtypes, const shape *s, size_t n, int64_t pad, int flags)
{
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            add(l, TS_USE_CHECK, dtypes, s[i], pad < 0 ? 1 + (int64_t)i % 5 : pad,
                flags + (int)i + k * (flags + 1), "normal");
}

/* In timed cases forward has a residual, and backward the gradient dr that comes with one. */
static const ts_case *build(list *l, bool backward)
{
    const int fused = backward ? 4 : 2;
    if (l->n) return l->c;
    l->backward = backward;
    add_shapes(l, ALL, odd_shapes, COUNT(odd_shapes), -1, fused);
    add_shapes(l, FAST, even_shapes, COUNT(even_shapes), 8, fused);
    add_shapes(l, ALL, dense_shapes, COUNT(dense_shapes), 0, fused);
    for (size_t i = 0; i < COUNT(families); i++) add_family(l, &families[i], (int)i);
    if (backward) add_family(l, &nonfinite_gradient, 4);
    add(l, TS_USE_CHECK, F32 | BF16, (shape) { 3, 40 }, FAR_PAD, fused, "far");
    /* An eps that float does not have, and rows of zeros: rstd shows it. */
    int first = l->n;
    add(l, TS_USE_CHECK, WIDE, (shape) { 2, 9 }, 2, fused, "zeros");
    while (first < l->n) l->c[first++].dim[EPS_POWER] = -60;
    l->n += ts_cover_cases(backward ? &ts_rms_norm_backward_cover : &ts_rms_norm_forward_cover,
                           l->c + l->n, MAX_CASES / 4);
    for (size_t i = 0; i < COUNT(device_shapes); i++)
        add(l, TS_USE_DEVICE, FAST, device_shapes[i], 8, fused + (int)i % 2, "normal");
    for (size_t i = 0; i < COUNT(shifted_shapes); i++)
        add(l, TS_USE_DEVICE, FAST, shifted_shapes[i], (int64_t)i, fused + (int)i % 2, "normal");
    for (size_t i = 0; i < COUNT(timed_shapes); i++)
        add(l, TS_USE_TIME, F32 | BF16, timed_shapes[i], 0, fused, "normal");
    for (size_t i = 0; i < COUNT(judged_shapes); i++)
        add(l, TS_USE_JUDGE, F32, judged_shapes[i], 0, fused, "normal");
    add(l, TS_USE_JUDGE | TS_USE_LARGE, F32, large_judged, 0, fused, "normal");
    return l->c;
}

const ts_case *ts_rms_norm_forward_cases(void)
{
    static list l;
    return build(&l, false);
}

const ts_case *ts_rms_norm_backward_cases(void)
{
    static list l;
    return build(&l, true);
}

int64_t ts_rms_norm_stride(const ts_case *c)
{
    return c->dim[TS_RMS_COLS] + c->dim[TS_RMS_PAD];
}

double ts_rms_norm_eps(const ts_case *c)
{
    if (c->dim[EPS_POWER]) return ts_pow64(10, (double)c->dim[EPS_POWER]);
    if (!strcmp(c->family, "constant")) return 1e-2;
    /* Small r: its squares leave the range of its dtype, and so does this eps: neither is nothing.
     */
    if (!strcmp(c->family, "small")) return c->dtype == TS_F64 ? 1e-317 : 1e-43;
    return 1e-6;
}

/* One number per dtype, in the order f32, f64, f16, bf16. */
static double by_dtype(ts_dtype t, double f32, double f64, double f16, double bf16)
{
    return (const double[]) { f32, f64, f16, bf16 }[t];
}

static double draw_one(const char *f, ts_dtype t, uint64_t seed, int64_t row, int64_t i, int64_t n)
{
    const double  z = ts_normal(seed, row * n + i);
    const int64_t chosen = (int64_t)(ts_bits(seed + 8, row) % (uint64_t)n);
    if (!strcmp(f, "offset")) return by_dtype(t, 1e4, 1e6, 500, 64) + z;
    if (!strcmp(f, "tiny")) return 1e-3 * z;
    if (!strcmp(f, "constant")) return 0.5 + 3 * fabs(ts_normal(seed + 7, row));
    if (!strcmp(f, "spike")) return i == chosen ? 1000 : 1e-3 * z;
    if (!strcmp(f, "denormal")) return ts_format_of(t)->min_normal * 0.25 * z;
    if (!strcmp(f, "small")) return by_dtype(t, 1e-21, 1e-158, 0, 1e-21) * z;
    if (!strcmp(f, "huge")) return by_dtype(t, 1e20, 1e160, 300, 1e20) * z;
    if (!strcmp(f, "extreme"))
        return ts_format_of(t)->max * (i == chosen ? -0.99 : 0.25 * (1 + 0.1 * z));
    return z;
}

/* An r that is not finite, in five rows of six; the last kind is so by rounding alone. */
static void draw_nonfinite(ts_dtype t, int64_t row, double *x, double *residual)
{
    const int kind = (int)(row % 6);
    if (kind > 0) *x = (const double[]) { 0, NAN, INFINITY, -INFINITY, INFINITY, INFINITY }[kind];
    if (kind == 4 && residual) *residual = -INFINITY;
    if (kind == 5 && residual) *x = *residual = 0.75 * ts_format_of(t)->max;
}

void ts_rms_norm_draw(const ts_case *c, uint64_t seed, int64_t row, int64_t i, double *x,
                      double *residual)
{
    const char   *f = c->family;
    const int64_t n = c->dim[TS_RMS_COLS];
    const bool    even = row % 2 == 0;
    *x = draw_one(f, c->dtype, seed, row, i, n);
    if (residual) *residual = draw_one(f, c->dtype, ts_mix(seed + 9), row, i, n);
    if (!strcmp(f, "extreme") && residual) *x /= 2, *residual = *x;
    if (!strcmp(f, "zeros") && even) {
        if (residual) *residual = -*x;
        else *x = 0;
    }
    if (!strcmp(f, "cancel") && residual) {
        const double far = by_dtype(c->dtype, 1e4, 1e6, 512, 64);
        *x += far;
        *residual -= far;
    }
    if (!strcmp(f, "nonfinite") && i == (int64_t)(ts_bits(seed + 8, row) % (uint64_t)n))
        draw_nonfinite(c->dtype, row, x, residual);
}

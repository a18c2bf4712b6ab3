/* SPDX-License-Identifier: Apache-2.0 */
/* norm_cases.c - what the cases of layer norm and of RMS norm share: shapes, ranges, numbers. */
#include "norm_cases.h"

#include <float.h>
#include <string.h>

#include "dtype.h"
#include "real.h"
#include "rng.h"

/* Every count around the width of a vector, a warp and a block; 70000 rows pass a launch limit. */
static const ts_norm_shape odd_shapes[] = {
    { 0, 16 },   { 1, 1 },     { 3, 1 },     { 1, 2 },     { 2, 3 },      { 5, 7 },     { 17, 31 },
    { 17, 32 },  { 17, 33 },   { 17, 127 },  { 17, 128 },  { 17, 129 },   { 9, 1023 },  { 9, 1024 },
    { 9, 1025 }, { 257, 768 }, { 33, 5120 }, { 2, 16384 }, { 1, 131073 }, { 70000, 8 },
};

/* Widths at which a kernel may change its method, with rows in 16-byte steps as models have them.
 */
static const ts_norm_shape even_shapes[] = {
    { 19, 64 },   { 37, 256 },  { 37, 512 }, { 37, 1024 },
    { 21, 2048 }, { 13, 4096 }, { 7, 8192 }, { 3, 16384 },
};

/* An error in the last few elements of a long row is lost among so many, unless they outweigh them.
 */
static const ts_norm_shape end_shapes[] = {
    { 17, 1027 }, { 2, 33001 }, { 1, 65539 }, { 1, 100003 }
};

/* Blocks of 1000, 1536, 3000 and 3072, whose last one has few elements. */
static const ts_norm_shape block_shapes[] = {
    { 3, 1001 }, { 3, 1002 }, { 3, 1537 }, { 3, 1539 }, { 2, 3001 },  { 2, 3002 },
    { 2, 3073 }, { 2, 3075 }, { 2, 3079 }, { 2, 6147 }, { 1, 12007 }, { 1, 12295 },
};

/* No gap between rows, as most callers have it. */
static const ts_norm_shape dense_shapes[] = { { 5, 7 }, { 9, 40 }, { 37, 1024 }, { 300, 768 } };

/* Rows enough for every unit of a large device to take several; also those that several units
 * share, and rows that begin at any place within 16 bytes. */
static const ts_norm_shape device_shapes[] = {
    { 6000, 1024 }, { 1500, 4096 }, { 800, 8192 }, { 9000, 384 }, { 250, 12288 }, { 50, 65536 },
};
static const ts_norm_shape shifted_shapes[] = { { 3000, 1023 }, { 20000, 60 }, { 300, 9001 } };

static const ts_norm_shape timed_shapes[] = {
    { 8192, 768 }, { 32768, 1024 }, { 8192, 4096 }, { 16384, 8192 }
};

/* Timed by the judge on a device, where smaller ones are over too soon. */
static const ts_norm_shape large_judged = { 16384, 1024 };

/* With next to no eps the gradients of a flat row are no numbers of f16. */
bool ts_norm_affordable(const ts_case *c)
{
    if (c->dtype == TS_F16 && c->dim[TS_NORM_EPS] < 0) return false;
    /* The oracle scales by the larger of x and sqrt(eps), and loses what is 600 powers below. */
    if (c->dtype == TS_F64 && c->dim[TS_NORM_EPS] > 4 && ts_is(c, "denormal")) return false;
    const int64_t most = c->dim[0] > 20000 ? 2500000 : 1000000; /* no other class is that long */
    return 3 * c->dim[0] * c->dim[1] * (int64_t)ts_format_of(c->dtype)->n_bytes <= most;
}

/* ---- lists ---- */

void ts_norm_add(ts_norm_list *l, unsigned use, unsigned dtypes, ts_norm_shape s, int64_t pad,
                 int flags, const char *name)
{
    for (int t = TS_F32; t <= TS_BF16; t++)
        if (dtypes >> t & 1u)
            l->one(l, (ts_case) { use, (ts_dtype)t, { s.rows, s.cols, pad }, name }, flags);
}

void ts_norm_add_shapes(ts_norm_list *l)
{
    for (int i = 0; i < (int)COUNT(odd_shapes); i++) l->shape(l, ALL, odd_shapes[i], 1 + i % 5, i);
    for (int i = 0; i < (int)COUNT(even_shapes); i++) l->shape(l, FAST, even_shapes[i], 8, i);
    for (int i = 0; i < (int)COUNT(dense_shapes); i++) l->shape(l, ALL, dense_shapes[i], 0, i);
}

void ts_norm_add_family(ts_norm_list *l, const ts_norm_family *f, int first, int step)
{
    for (int k = 0; k < 4; k++)
        ts_norm_add(l, TS_USE_CHECK, f->dtypes, f->shapes[k], k == 3 ? 16 : 3, first + step * k,
                    f->name);
}

void ts_norm_add_ends(ts_norm_list *l, int first, int step)
{
    for (int i = 0; i < (int)COUNT(end_shapes); i++)
        ts_norm_add(l, TS_USE_CHECK | TS_USE_ALWAYS, ALL, end_shapes[i], 1 + i, first + step * i,
                    "back");
}

void ts_norm_add_blocks(ts_norm_list *l, int first, int step)
{
    for (int i = 0; i < (int)COUNT(block_shapes); i++)
        ts_norm_add(l, TS_USE_CHECK | TS_USE_ALWAYS, ALL, block_shapes[i], i % 4, first + step * i,
                    "normal");
}

void ts_norm_add_far(ts_norm_list *l, int flags)
{
    const unsigned use = TS_USE_CHECK | TS_USE_HOST;
    ts_norm_add(l, TS_USE_CHECK, F32 | BF16, (ts_norm_shape) { 3, 40 }, FAR_PAD, flags, "far");
    /* In f32 the arena has room for three matrices that large. */
    ts_norm_add(l, use, F32, (ts_norm_shape) { 2, 40 }, FARTHER_PAD, 0, "farther");
    ts_norm_add(l, use, BF16, (ts_norm_shape) { 2, 40 }, FARTHER_PAD, flags, "farther");
    ts_norm_add(l, TS_USE_CHECK, FAST, (ts_norm_shape) { TALL_ROWS, TALL_COLS }, 1, flags, "tall");
    ts_norm_add(l, TS_USE_CHECK, FAST, (ts_norm_shape) { TALLER_ROWS, TALL_COLS }, 0, flags,
                "taller");
}

void ts_norm_add_large(ts_norm_list *l, int flags, const ts_norm_shape *judged)
{
    for (int i = 0; i < (int)COUNT(device_shapes); i++)
        ts_norm_add(l, TS_USE_DEVICE, FAST, device_shapes[i], 8, flags + i % 2, "normal");
    for (int i = 0; i < (int)COUNT(shifted_shapes); i++)
        ts_norm_add(l, TS_USE_DEVICE, FAST, shifted_shapes[i], i, flags + i % 2, "normal");
    for (size_t i = 0; i < COUNT(timed_shapes); i++)
        ts_norm_add(l, TS_USE_TIME, F32 | BF16, timed_shapes[i], 0, flags, "normal");
    for (; judged->rows; judged++) ts_norm_add(l, TS_USE_JUDGE, F32, *judged, 0, flags, "normal");
    ts_norm_add(l, TS_USE_JUDGE | TS_USE_LARGE, F32, large_judged, 0, flags, "normal");
}

void ts_norm_set_eps(ts_norm_list *l, int first, int power)
{
    while (first < l->all.n) l->all.c[first++].dim[TS_NORM_EPS] = power;
}

/* ---- the canon ---- */

const ts_canon *ts_norm_canon(const ts_case *c)
{
    static const char *const families[] = { "small", "huge", "extreme", "flat_huge", "peak" };
    static const ts_canon    of_x = {
           "huge", "results are correct wherever they are representable, even if squares are not",
           false
    };
    static const ts_canon of_eps = { "constant", "eps may be smaller or larger than any float",
                                     false };
    const double          eps = ts_norm_eps(c, 1e-5);
    if (!strncmp(c->family, "nonfinite", 9)) return NULL;
    for (size_t i = 0; i < COUNT(families); i++)
        if (ts_is(c, families[i]) && c->dtype != TS_F16)
            return &of_x; /* whose squares are floats */
    return c->dtype != TS_F64 && !(eps >= FLT_MIN && eps <= FLT_MAX) ? &of_eps : NULL;
}

/* ---- numbers ---- */

int64_t ts_norm_stride(const ts_case *c)
{
    return c->dim[TS_NORM_COLS] + c->dim[TS_NORM_PAD];
}

double ts_norm_eps(const ts_case *c, double usual)
{
    if (c->dim[TS_NORM_EPS]) return ts_pow64(10, (double)c->dim[TS_NORM_EPS]);
    if (ts_is(c, "constant")) return 1e-2;
    /* Small x: its squares leave the range of its dtype, and so does this eps: neither is nothing.
     */
    if (ts_is(c, "small")) return c->dtype == TS_F64 ? 1e-317 : 1e-43;
    return usual;
}

double ts_norm_size(const ts_case *c, double loud, double faint)
{
    return ts_is(c, "loud") ? loud : ts_is(c, "faint") ? faint : 1;
}

int64_t ts_norm_chosen(uint64_t seed, int64_t row, int64_t n_cols)
{
    return (int64_t)(ts_bits(seed + 8, row) % (uint64_t)n_cols);
}

double ts_norm_end(const char *f, int64_t i, int64_t n_cols, double large)
{
    return i >= n_cols - 7 && !strcmp(f, "back") ? large : 1;
}

double ts_norm_draw(const char *f, ts_dtype t, double z, bool chosen)
{
    if (!strcmp(f, "spike")) return chosen ? 1000 : 1e-3 * z;
    /* The square of one number passes the range, wherever it is in its row. */
    if (!strcmp(f, "peak")) return chosen ? ts_by_dtype(t, 0x1p70, 0x1p520, 0x1p12, 0x1p70) : z;
    if (!strcmp(f, "denormal")) return ts_format_of(t)->min_normal * 0.25 * z;
    if (!strcmp(f, "small")) return ts_by_dtype(t, 1e-21, 1e-158, 0, 1e-21) * z;
    if (!strcmp(f, "huge")) return ts_by_dtype(t, 1e20, 1e160, 300, 1e20) * z;
    /* With x near a quarter of the largest number and one near its negative, both the sum and a
     * difference from the mean pass it, though rstd does not. */
    if (!strcmp(f, "extreme"))
        return ts_format_of(t)->max * (chosen ? -0.99 : 0.25 * (1 + 0.1 * z));
    return z;
}

void ts_norm_draw_rows(const ts_case *c, void *p, uint64_t seed, double size)
{
    const int64_t n = c->dim[TS_NORM_COLS], stride = ts_norm_stride(c);
    for (int64_t r = 0; r < c->dim[TS_NORM_ROWS]; r++)
        for (int64_t i = 0; i < n; i++)
            ts_store(p, c->dtype, r * stride + i, size * ts_normal(seed, r * n + i));
}

void ts_norm_draw_gradient(const ts_case *c, void *p, uint64_t seed)
{
    const int64_t n = c->dim[TS_NORM_COLS], stride = ts_norm_stride(c);
    ts_norm_draw_rows(c, p, seed, ts_norm_size(c, 1000, 1e-9));
    for (int64_t r = 0; r < c->dim[TS_NORM_ROWS] && ts_is(c, "back"); r++)
        for (int64_t i = n > 7 ? n - 7 : 0; i < n; i++)
            ts_store(p, c->dtype, r * stride + i, 1e4 * ts_normal(seed, r * n + i));
    /* Zeros, and rows of them, whose x may be NaN. */
    for (int64_t r = 0; r < c->dim[TS_NORM_ROWS] && ts_is(c, "nonfinite_zero"); r++)
        for (int64_t i = 0; i < n; i++)
            if (r / 6 % 2 || i % 3 == 1) ts_store(p, c->dtype, r * stride + i, 0);
}

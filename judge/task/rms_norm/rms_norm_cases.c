/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_cases.c - the cases of the rms_norm tasks, and their inputs. */
#include "rms_norm_cases.h"

#include <math.h>
#include <string.h>

#include "dtype.h"
#include "norm_cases.h"
#include "rng.h"

/* Also timed by the judge. */
static const ts_norm_shape judged_shapes[] = {
    { 4096, 1024 }, { 2048, 1024 }, { 1024, 768 }, { 0, 0 }
};

static const ts_norm_family families[] = {
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
    { "peak", ALL, { { 5, 7 }, { 17, 300 }, { 9, 1025 }, { 3, 4096 } } },
    { "extreme", ALL, { { 17, 128 }, { 17, 129 }, { 9, 1025 }, { 3, 4096 } } },
    { "loud", WIDE, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "faint", WIDE, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
    { "nonfinite", ALL, { { 9, 7 }, { 17, 128 }, { 9, 1025 }, { 6, 4096 } } },
    { "overflow", F16, { { 5, 7 }, { 17, 33 }, { 9, 1025 }, { 3, 4096 } } },
};

/* Backward alone: NaN in dy and in dr; and zeros in dy where x is NaN. */
static const ts_norm_family nonfinite_gradient = {
    "nonfinite_dy", ALL, { { 9, 7 }, { 17, 128 }, { 9, 1025 }, { 6, 4096 } }
};
static const ts_norm_family nonfinite_zero = {
    "nonfinite_zero", ALL, { { 9, 7 }, { 17, 128 }, { 9, 1025 }, { 12, 4096 } }
};

static void make_forward(ts_case *c)
{
    if (c->dim[TS_RMS_RESIDUAL] == TS_RMS_IN_PLACE) c->use |= TS_USE_HOST;
}

#define FAMILIES                                                                                   \
    { "normal", ALL }, { "offset", ALL }, { "tiny", ALL }, { "constant", ALL }, { "spike", ALL },  \
        { "zeros", ALL }, { "cancel", ALL }, { "pruned", ALL }, { "denormal", ALL },               \
        { "small", WIDE }, { "huge", ALL }, { "peak", ALL }, { "extreme", ALL },                   \
    {                                                                                              \
        "nonfinite", ALL                                                                           \
    }

#define RANGES TS_NORM_ROW_RANGE, TS_NORM_COL_RANGE, TS_NORM_PAD_RANGE
#define FLAG   TS_RANGE(0, 1, 0, 1)

/* rows, cols, pad, off, res; eps */
const ts_cover ts_rms_norm_forward_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { FAMILIES },
    .empties = 1u << TS_RMS_ROWS,
    TS_NORM_TAILS,
    .dim = { RANGES, FLAG, TS_RANGE(1, 2, 0, 1, 2), { 0 }, { 0 }, { 0 }, TS_NORM_EPS_POWER },
    .allows = ts_norm_affordable,
    .make = make_forward,
};

/* rows, cols, pad, off, acc, dr; eps */
const ts_cover ts_rms_norm_backward_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { FAMILIES, { "nonfinite_dy", ALL }, { "nonfinite_zero", ALL } },
    .empties = 1u << TS_RMS_ROWS,
    TS_NORM_TAILS,
    .dim = { RANGES, FLAG, FLAG, TS_RANGE(1, 1, 0, 1), { 0 }, { 0 }, TS_NORM_EPS_POWER },
    .allows = ts_norm_affordable,
};

/* `flags` counts through the switches of a case: w_offset, then forward the residual, or backward
 * accumulate and dr. */
enum { FORWARD_FLAGS = 6, BACKWARD_FLAGS = 8 };

static void add_one(ts_norm_list *l, ts_case c, int flags)
{
    flags %= l->all.backward ? BACKWARD_FLAGS : FORWARD_FLAGS;
    c.dim[TS_RMS_OFFSET] = flags & 1;
    if (l->all.backward) {
        c.dim[TS_RMS_ACCUMULATE] = flags >> 1 & 1;
        c.dim[TS_RMS_DR] = flags >> 2 & 1;
    } else {
        c.dim[TS_RMS_RESIDUAL] = (flags >> 1) % 3;
        make_forward(&c);
    }
    ts_list_append(&l->all, &c, 1);
}

/* Flags with which forward has a residual, and backward the gradient dr that comes with one. */
static int fused_flags(bool backward)
{
    return backward ? 4 : 2;
}

/* Each shape with two combinations of the switches. */
static void add_shape(ts_norm_list *l, unsigned dtypes, ts_norm_shape s, int64_t pad, int i)
{
    const int flags = fused_flags(l->all.backward);
    for (int k = 0; k < 2; k++)
        ts_norm_add(l, TS_USE_CHECK, dtypes, s, pad, flags + i + k * (flags + 1), "normal");
}

static const ts_case *build(ts_norm_list *l, const ts_cover *cover)
{
    const int fused = fused_flags(l->all.backward);
    if (l->all.n) return l->all.c;
    ts_norm_add_shapes(l);
    for (int i = 0; i < (int)COUNT(families); i++) ts_norm_add_family(l, &families[i], i, 3);
    if (l->all.backward) ts_norm_add_family(l, &nonfinite_gradient, 4, 3);
    if (l->all.backward) ts_norm_add_family(l, &nonfinite_zero, 4, 3);
    ts_norm_add_ends(l, fused, 3);
    ts_norm_add_blocks(l, fused, 1);
    ts_norm_add_far(l, fused);
    /* An eps that float does not have, and rows of zeros: rstd shows it. */
    int first = l->all.n;
    ts_norm_add(l, TS_USE_CHECK, WIDE, (ts_norm_shape) { 2, 9 }, 2, fused, "zeros");
    ts_norm_set_eps(l, first, -60);
    /* An eps that is 0 in f16, above the mean of squares. */
    first = l->all.n;
    if (!l->all.backward)
        ts_norm_add(l, TS_USE_CHECK, F16, (ts_norm_shape) { 9, 33 }, 2, 0, "denormal");
    ts_norm_set_eps(l, first, -8);
    ts_list_cover(&l->all, cover);
    ts_norm_add_large(l, fused, judged_shapes);
    return l->all.c;
}

const ts_case *ts_rms_norm_forward_cases(void)
{
    static ts_norm_list l = { .one = add_one, .shape = add_shape };
    return build(&l, &ts_rms_norm_forward_cover);
}

const ts_case *ts_rms_norm_backward_cases(void)
{
    static ts_norm_list l = { .one = add_one, .shape = add_shape, .all.backward = true };
    return build(&l, &ts_rms_norm_backward_cover);
}

static double draw_one(const char *f, ts_dtype t, uint64_t seed, int64_t row, int64_t i, int64_t n)
{
    const double z = ts_normal(seed, row * n + i);
    if (!strcmp(f, "offset")) return ts_by_dtype(t, 1e4, 1e6, 500, 64) + z;
    if (!strcmp(f, "tiny")) return 1e-3 * z;
    if (!strcmp(f, "constant")) return 0.5 + 3 * fabs(ts_normal(seed + 7, row));
    return ts_norm_draw(f, t, z, i == ts_norm_chosen(seed, row, n)) * ts_norm_end(f, i, n, 1000);
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
        const double far = ts_by_dtype(c->dtype, 1e4, 1e6, 512, 64);
        *x += far;
        *residual -= far;
    }
    if ((!strcmp(f, "nonfinite") || !strcmp(f, "nonfinite_zero")) &&
        i == ts_norm_chosen(seed, row, n))
        draw_nonfinite(c->dtype, row, x, residual);
}

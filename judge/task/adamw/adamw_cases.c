/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_cases.c - the cases of the adamw task: shapes, families, ranges of parameters. */
#include "adamw_cases.h"

#include <math.h>
#include <string.h>

#include "case_list.h"
#include "dtype.h"
#include "real.h"
#include "rng.h"

enum { ALL_DECAY = 16 };

/* Every count around the width of a vector, a block, and what a thread takes. */
static const int64_t counts[] = { 0,   1,   2,    3,    7,     15,    16,    17,    33,   255,
                                  256, 257, 1000, 4096, 16383, 16384, 16385, 33001, 70000 };

static const struct family {
    const char *name;
    unsigned    dtypes;
} families[] = {
    { "first", ALL },  { "zeros", ALL },     { "huge", ALL },      { "small", WIDE },
    { "cancel", ALL }, { "denormal", FAST }, { "nonfinite", ALL }, { "skip", ALL },
    { "quiet", ALL },  { "scale_inf", ALL },
};

static const double betas[][2] = { { 0.9, 0.95 }, { 0.9, 0.999 }, { 0, 0 }, { 0.5, 0.999999 } };

/* Only a w of 16 bits has a master, and gradients of another dtype. */
static void make(ts_case *c)
{
    if (c->dtype == TS_F32 || c->dtype == TS_F64) c->dim[TS_ADAM_MASTER] = c->dim[TS_ADAM_WIDE] = 0;
}

static bool allowed(const ts_case *c)
{
    ts_case made = *c;
    make(&made);
    return !memcmp(made.dim, c->dim, sizeof made.dim) && c->dim[TS_ADAM_N] <= 70000;
}

#define FLAG TS_RANGE(0, 1, 0, 1)

/* n, decay, step, master, wide, clip; beta, eps */
const ts_cover ts_adamw_step_cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { { "normal", ALL },
                { "first", ALL },
                { "zeros", ALL },
                { "huge", ALL },
                { "small", WIDE },
                { "cancel", ALL },
                { "denormal", FAST },
                { "nonfinite", ALL },
                { "skip", ALL },
                { "scale_inf", ALL },
                { "quiet", ALL } },
    .empties = 1u << TS_ADAM_N,
    .dim = { TS_COUNTS(2, 40000, 0, 1, 2, 17, 257, 1025, 16385),
             TS_RANGE(2, 16, 0, 1, 9, 16),
             TS_RANGE(1, 2000000, 1, 2, 11, 1001, 1000001),
             FLAG,
             FLAG,
             FLAG,
             { 0 },
             { 0 },
             TS_NUMBERS(0, 0, 1, 2, 3),
             TS_NUMBERS(2, -60, -30, 0, 3) },
    .allows = allowed,
};

/* `number` counts through the switches of a case. */
static void add(ts_case_list *l, unsigned use, unsigned dtypes, int64_t n, int64_t decay,
                int64_t step, int number, const char *name)
{
    ts_case c = { use, TS_F32, { n, decay, step }, name };
    c.dim[TS_ADAM_MASTER] = number & 1;
    c.dim[TS_ADAM_WIDE] = number >> 1 & 1;
    c.dim[TS_ADAM_CLIP] = number >> 2 & 1;
    c.dim[TS_ADAM_BETA] = use & TS_USE_TIME ? 0 : number % 4;
    ts_case plain = c;
    make(&plain);
    ts_list_add(l, dtypes & (F32 | F64), plain);
    ts_list_add(l, dtypes & (F16 | BF16), c);
}

const ts_case *ts_adamw_step_cases(void)
{
    static const int64_t steps[] = { 1, 2, 10, 1000, 100000 };
    static ts_case_list  l;
    if (l.n) return l.c;
    for (size_t i = 0; i < COUNT(counts); i++)
        for (int k = 0; k < 2; k++)
            add(&l, TS_USE_CHECK, ALL, counts[i], k ? (int64_t)(7 * i % 17) : ALL_DECAY,
                steps[(i + (size_t)k) % COUNT(steps)], (int)i + 5 * k, "normal");
    for (size_t i = 0; i < COUNT(families); i++)
        for (int k = 0; k < 4; k++)
            add(&l, TS_USE_CHECK, families[i].dtypes, (const int64_t[]) { 9, 64, 300, 1025 }[k],
                4 * k + 4, steps[((int)i + k) % 4], (int)i + 3 * k, families[i].name);
    ts_list_cover(&l, &ts_adamw_step_cover);
    add(&l, TS_USE_DEVICE, FAST, 4000000, 9, 10, 5, "normal");
    add(&l, TS_USE_DEVICE, FAST, 3000001, 9, 10, 3, "normal");
    add(&l, TS_USE_TIME, F32 | BF16, 1 << 18, ALL_DECAY, 10, 7, "normal");
    add(&l, TS_USE_TIME, F32 | BF16, 1 << 22, ALL_DECAY, 10, 7, "normal");
    add(&l, TS_USE_TIME | TS_USE_LARGE, F32 | BF16, 1 << 26, ALL_DECAY, 10, 7, "normal");
    return l.c;
}

ts_adam_rates ts_adam_rates_of(const ts_case *c)
{
    const int64_t power = c->dim[TS_ADAM_EPS];
    return (ts_adam_rates) {
        .lr = 0.01,
        .beta1 = betas[c->dim[TS_ADAM_BETA]][0],
        .beta2 = betas[c->dim[TS_ADAM_BETA]][1],
        .eps = ts_pow64(10, (double)(power ? power : -8)),
        .weight_decay = 0.1,
        .scale = ts_is(c, "skip")        ? (double)NAN
                 : ts_is(c, "scale_inf") ? (c->dim[TS_ADAM_STEP] % 2 ? 1 : -1) * (double)INFINITY
                 : c->dim[TS_ADAM_CLIP]  ? 0.37
                                         : 1,
    };
}

/* One parameter in three has a gradient, or a moment, that is not finite. */
static void make_nonfinite(ts_adam_drawn *d, int64_t i)
{
    if (i % 12 == 1) d->grad = NAN;
    if (i % 12 == 4) d->grad = i % 24 < 12 ? INFINITY : -INFINITY;
    if (i % 12 == 7) d->v = INFINITY;
    if (i % 12 == 10) d->m = NAN;
}

ts_adam_drawn ts_adam_draw(const ts_case *c, uint64_t seed, int64_t i)
{
    const ts_dtype t = c->dtype;
    const double   z = ts_normal(seed, i), y = ts_normal(seed + 1, i), x = ts_normal(seed + 2, i);
    ts_adam_drawn  d = { z, ts_normal(seed + 3, i), 0.3 * y, 0.1 * x * x + 0.01 };
    if (ts_is(c, "normal")) return d; /* large cases are */
    if (ts_is(c, "first")) d.m = d.v = 0;
    if (ts_is(c, "zeros")) {
        d.m = 0;
        if (i % 3) d.grad = d.v = 0;
        if (i % 4 == 3) d.w = 0;
    }
    if (ts_is(c, "quiet") && i % 5) d.grad = 0; /* moments fade */
    if (ts_is(c, "huge")) {
        const double size = ts_by_dtype(t, 1e25, 1e200, 3e4, 1e25);
        d.grad *= size, d.m *= size;
        if (i % 2) d.v = ts_by_dtype(t, 1e37, 1e300, 1e9, 1e37);
    }
    if (ts_is(c, "small")) {
        const double size = ts_by_dtype(t, 1e-25, 1e-200, 0, 1e-25);
        d.grad *= size, d.m *= size, d.v = i % 2 ? 0 : ts_by_dtype(t, 1e-37, 1e-300, 0, 1e-37);
    }
    if (ts_is(c, "denormal")) {
        const double least = ts_format_of(t)->min_normal,
                     wide = ts_format_of(ts_wide(t))->min_normal;
        d.grad *= 0.25 * least, d.m *= 0.25 * wide, d.v *= 0.25 * wide;
        if (i % 2) d.w *= 0.25 * least;
    }
    if (ts_is(c, "cancel")) { /* the moment is all but gone after the step */
        const ts_adam_rates r = ts_adam_rates_of(c);
        d.m = r.beta1 > 0 ? -(1 - r.beta1) / r.beta1 * r.scale * d.grad * (1 + 1e-3 * y) : d.m;
    }
    if (ts_is(c, "scale_inf") && i % 3 == 1) d.grad = 0;
    if (ts_is(c, "nonfinite")) make_nonfinite(&d, i);
    return d;
}

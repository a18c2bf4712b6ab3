/* SPDX-License-Identifier: Apache-2.0 */
/* rope.c - task: rope. Inputs, oracle with bounds, least cost, invalid calls. The cases are in
 * rope_cases.c.
 *
 * The oracle makes frequency and angle in pairs of doubles. An angle may be off by what a double's
 * frequency, rounded with its exponent, and the product are: (4 + |ln frequency|) 2^-53 of it, or
 * without the logarithm where the frequency is given. Its cosine and sine may be off by as much and
 * by two units of roundoff, and the two products by kappa(2) u of their magnitudes. */
#include "touchstone/rope.h"

#include <math.h>
#include <string.h>

#include "bound.h"
#include "dtype.h"
#include "real.h"
#include "rng.h"
#include "rope_cases.h"
#include "spoil.h"

typedef ts_rope_args args_t;

/* ---- inputs ---- */

/* Both signs and 31 bits where the text is long; else a few thousand tokens, the first at 0. */
static int32_t position_of(const ts_case *c, uint64_t seed, int64_t row)
{
    const uint64_t bits = ts_bits(seed, row);
    if (ts_is(c, "long")) return (int32_t)(uint32_t)bits;
    return row ? (int32_t)(bits % 4096) : 0;
}

/* One: a single channel of each head is not 0, so that whatever reaches another pair is seen. */
static double draw(const ts_case *c, uint64_t seed, int64_t row, int64_t i)
{
    const int64_t n = ts_rope_width(c), dim = ts_rope_head_dim(c);
    const double  z = ts_normal(seed, row * n + i);
    if (ts_is(c, "one"))
        return (uint64_t)(i % dim) == ts_bits(seed + 8, row * n + i / dim) % (uint64_t)dim
                   ? 1 + z * z
                   : 0;
    if (ts_is(c, "huge"))
        return ts_format_of(c->dtype)->max * (ts_uniform(seed, row * n + i) < 0 ? -0.6 : 0.6);
    if (ts_is(c, "denormal")) return ts_format_of(c->dtype)->min_normal * 0.5 * z;
    if (ts_is(c, "nonfinite") && ts_bits(seed + 8, row * n + i) % 5 == 0)
        return (const double[]) { NAN, INFINITY, -INFINITY }[ts_bits(seed + 9, row * n + i) % 3];
    return z;
}

static double theta_of(const ts_case *c)
{
    return c->dim[TS_ROPE_THETA] ? ts_pow64(10, (double)c->dim[TS_ROPE_THETA]) : 10000;
}

static ts_real frequency_of(const args_t *a, int64_t pair)
{
    if (a->frequency) return ts_real_of(a->frequency[pair]);
    const ts_real by =
        ts_real_div(ts_real_of(-2.0 * (double)pair), ts_real_of((double)a->rotary_dim));
    return ts_real_exp(ts_real_mul(by, ts_real_log(ts_real_of(a->theta))));
}

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    args_t        *a = args;
    const ts_dtype t = c->dtype;
    const int64_t  R = c->dim[TS_ROPE_ROWS], W = ts_rope_width(c), pad = c->dim[TS_ROPE_PAD];
    const int64_t  P = c->dim[TS_ROPE_PAIRS];
    const bool     in_place = c->dim[TS_ROPE_PLACE];
    *a = (args_t) { .dtype = t, .n_rows = R, .n_heads = c->dim[TS_ROPE_HEADS] };
    a->pairing = (int)c->dim[TS_ROPE_PAIRING];
    a->inverse = (int)c->dim[TS_ROPE_INVERSE];
    a->head_dim = ts_rope_head_dim(c);
    a->rotary_dim = 2 * P;
    a->x_stride = W + pad;
    a->y_stride = in_place ? a->x_stride : W + (pad ? pad + 1 : 0); /* its own */
    a->theta = theta_of(c);
    ts_scalar(m, "theta", a->theta);
    ts_scalar(m, "pairing", a->pairing);
    ts_scalar(m, "inverse", a->inverse);
    ts_scalar(m, "rotary_dim", (double)a->rotary_dim);
    int32_t *position = ts_take(m, &a->position, (ts_buf) { "position", TS_IN, TS_I32, 1, R, R });
    double  *frequency = NULL;
    if (c->dim[TS_ROPE_TABLE])
        frequency = ts_take(m, &a->frequency, (ts_buf) { "frequency", TS_IN, TS_F64, 1, P, P });
    void *x;
    if (in_place) {
        x = ts_take(m, &a->y, (ts_buf) { "y", TS_INOUT, t, R, W, a->y_stride });
        a->x = x;
    } else {
        x = ts_take(m, &a->x, (ts_buf) { "x", TS_IN, t, R, W, a->x_stride });
        ts_take(m, &a->y, (ts_buf) { "y", TS_OUT, t, R, W, a->y_stride });
    }
    for (int64_t i = 0; frequency && i < P; i++) /* like none that theta makes */
        frequency[i] = ts_pow64(a->theta, -2.0 * (double)i / (double)a->rotary_dim) *
                       (0.6 + 0.3 * ts_uniform(seed + 3, i));
    for (int64_t r = 0; r < R; r++) position[r] = position_of(c, ts_mix(seed + 1), r);
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = 0; i < W; i++)
            ts_store(x, t, r * a->x_stride + i, draw(c, ts_mix(seed), r, i));
}

static void shape(const ts_case *c, const char *buffer, int64_t extent[TS_MAX_RANK])
{
    (void)buffer; /* x or y */
    extent[0] = c->dim[TS_ROPE_ROWS];
    extent[1] = c->dim[TS_ROPE_HEADS];
    extent[2] = ts_rope_head_dim(c);
}

/* ---- oracle ---- */

static size_t n_want(const ts_case *c)
{
    return (size_t)(c->dim[TS_ROPE_ROWS] * ts_rope_width(c));
}

typedef struct turn {
    double cosine, sine, error; /* of each of the two */
} turn;

static turn turn_of(const args_t *a, ts_real frequency, int32_t position)
{
    const ts_real angle =
        ts_real_mul(frequency, ts_real_of(a->inverse ? -(double)position : position));
    const double ln = a->frequency ? 0 : fabs(ts_log64(frequency.hi));
    const double u = ts_format_of(ts_wide(a->dtype))->u;
    return (turn) { ts_real_cos(angle), ts_real_sin(angle),
                    (4 + ln) * 0x1p-53 * fabs(angle.hi) + 2 * u + 0x1p-52 };
}

/* p m + q n, with m and n those of a turn. */
static ts_want sum_of(double p, double m, double q, double n, double error, ts_dtype t)
{
    const double  u = ts_format_of(ts_wide(t))->u;
    const ts_real v = ts_real_add(ts_real_product(p, m), ts_real_product(q, n));
    if (isnan(p) || isnan(q)) return (ts_want) { NAN, 0 };
    if (isinf(p) || isinf(q)) return (ts_want) { 0, INFINITY };
    return ts_stored(
        v.hi, ts_kappa(2) * u * (fabs(p * m) + fabs(q * n)) + error * (fabs(p) + fabs(q)), t);
}

static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const args_t  *a = args;
    const ts_dtype t = a->dtype;
    const int64_t  half = a->rotary_dim / 2, width = a->n_heads * a->head_dim;
    (void)c;
    for (int64_t i = 0; i < half; i++) {
        const bool    adjacent = a->pairing == TS_ROPE_ADJACENT;
        const int64_t first = adjacent ? 2 * i : i, second = adjacent ? 2 * i + 1 : i + half;
        const ts_real f = frequency_of(a, i);
        for (int64_t r = 0; r < a->n_rows; r++) {
            const turn by = turn_of(a, f, a->position[r]);
            for (int64_t h = 0; h < a->n_heads; h++) {
                const int64_t at = h * a->head_dim;
                const double  p = ts_load(a->x, t, r * a->x_stride + at + first);
                const double  q = ts_load(a->x, t, r * a->x_stride + at + second);
                want[r * width + at + first] = sum_of(p, by.cosine, -q, by.sine, by.error, t);
                want[r * width + at + second] = sum_of(q, by.cosine, p, by.sine, by.error, t);
            }
        }
    }
    for (int64_t r = 0; r < a->n_rows; r++) /* and what is copied */
        for (int64_t i = 0; i < width; i++)
            if (i % a->head_dim >= a->rotary_dim)
                want[r * width + i] = (ts_want) { ts_load(a->x, t, r * a->x_stride + i), 0 };
}

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const args_t *a = args;
    const ts_buf  y = { "y", TS_OUT, a->dtype, a->n_rows, a->n_heads * a->head_dim, a->y_stride };
    (void)c;
    return ts_check_buf(y, a->y, want, f, e);
}

/* x is read and y written once; a pair takes 6 operations, and its angle some for all heads. */
static ts_cost cost(const ts_case *c)
{
    const double n = (double)(c->dim[TS_ROPE_ROWS] * ts_rope_width(c));
    const double pairs =
        (double)(c->dim[TS_ROPE_ROWS] * c->dim[TS_ROPE_HEADS] * c->dim[TS_ROPE_PAIRS]);
    return (ts_cost) { .bytes = 2 * n * (double)ts_format_of(c->dtype)->n_bytes +
                                4 * (double)c->dim[TS_ROPE_ROWS],
                       .flops = 6 * pairs };
}

/* ---- invalid calls ---- */

#define AT(member)     offsetof(args_t, member)
#define BAD(must, ...) TS_BAD(args_t, must, __VA_ARGS__)
#define OF(must, ...)  TS_BAD_OF(args_t, must, __VA_ARGS__)

static int64_t more_than_all(void *args)
{
    const args_t *a = args;
    return a->head_dim + 2 - a->head_dim % 2;
}

static int64_t less_than_row(void *args)
{
    const args_t *a = args;
    return a->n_heads * a->head_dim - 1;
}

static int64_t longest(void *args)
{
    (void)args;
    return INT64_MAX / 8;
}

static const ts_bad bad[] = {
    BAD(TS_E_ARG, pairing, 2, -1),
    BAD(TS_E_ARG, inverse, 2, -1),
    BAD(TS_E_ARG, theta, 0, -1, NAN, INFINITY),
    BAD(TS_ALSO, frequency, 0),
    OF(TS_E_SHAPE, rotary_dim, more_than_all),
    BAD(TS_E_SHAPE, rotary_dim, 1),
    OF(TS_E_SHAPE, x_stride, less_than_row),
    OF(TS_E_SHAPE, y_stride, less_than_row),
    BAD(TS_E_DTYPE, dtype, TS_U8, 99),
    BAD(TS_OK, n_rows, 0), /* nothing to do, in rows as long as can be */
    BAD(TS_ALSO, n_heads, 1),
    OF(TS_ALSO, head_dim, longest),
    OF(TS_ALSO, x_stride, longest),
    OF(TS_ALSO, y_stride, longest),
    BAD(TS_E_SHAPE, n_rows, 0), /* and in longer ones than the strides, past 32 bits */
    TS_BAD_LIKE(args_t, TS_ALSO, head_dim, head_dim, 0x1p32),
    { 0 },
};

static const ts_invalid invalid = {
    .pointer = { AT(position) + 1, AT(x) + 1, AT(y) + 1 },
    .extent = { { AT(n_rows), 0, 0, 0, true, false },
                { AT(n_heads), 1, 0, 0, false, false },
                { AT(head_dim), 1, 0, 0, false, false },
                { AT(rotary_dim), 0, 0, 0, false, true },
                { AT(x_stride), 1, 0, 0, false, true },
                { AT(y_stride), 1, 0, 0, false, true } },
    .n_extent = 6,
    .product = { { { 1, 5 } }, { { 1, 6 } }, { { 2, 3 } } },
    .bad = bad,
};

const ts_task ts_task_rope = {
    .name = "rope",
    .dim_name = { "rows", "heads", "pairs", "rest", "pad", "adj", "inv", "place" },
    .more_name = { "theta", "table" },
    .kind = TS_PLAIN,
    .no_challenge = true,
    .devices = TS_ON_CPU | TS_ON_CUDA,
    .buffer = { { "position", TS_IN, 1, true },
                { "frequency", TS_IN, 1, false },
                { "x", TS_IN, 3, false },
                { "y", TS_OUT, 3, false } },
    .number = { { "theta", false },
                { "pairing", true },
                { "inverse", true },
                { "rotary_dim", true } },
    .args_bytes = sizeof(args_t),
    .cases = ts_rope_cases,
    .cover = &ts_rope_cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .shape = shape,
    .invalid = &invalid,
};

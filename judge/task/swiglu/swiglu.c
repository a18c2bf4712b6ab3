/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu.c - tasks: swiglu forward and backward. Inputs, oracle with bounds, least cost, invalid
 * calls. The cases are in swiglu_cases.c.
 *
 * The oracle works in pairs of doubles with an exponent apart, since exp of a gate may be past the
 * range of double and its product with up not. y and dup are products, and so is dgate but for
 * 1 + gate (1 - s), whose terms may cancel: they err by kappa(2) u, or for dgate kappa(4) u, of the
 * product of magnitudes. */
#include "touchstone/swiglu.h"

#include <math.h>

#include "bound.h"
#include "dtype.h"
#include "real.h"
#include "rng.h"
#include "spoil.h"
#include "swiglu_cases.h"

typedef ts_swiglu_forward_args  forward_args;
typedef ts_swiglu_backward_args backward_args;

/* ---- inputs ---- */

static ts_buf matrix(const ts_case *c, const char *name, ts_role role, int64_t stride)
{
    return (
        ts_buf) { name, role, c->dtype, c->dim[TS_SWIGLU_ROWS], c->dim[TS_SWIGLU_COLS], stride };
}

static void draw(const ts_case *c, uint64_t seed, void *gate, void *up, void *dy)
{
    const int64_t R = c->dim[TS_SWIGLU_ROWS], D = c->dim[TS_SWIGLU_COLS];
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = 0; i < D; i++) {
            const ts_swiglu_point p = ts_swiglu_draw(c, seed, r * D + i);
            ts_store(gate, c->dtype, r * ts_swiglu_x_stride(c) + i, p.gate);
            ts_store(up, c->dtype, r * ts_swiglu_x_stride(c) + i, p.up);
            if (dy) ts_store(dy, c->dtype, r * ts_swiglu_y_stride(c) + i, p.dy);
        }
}

static void setup_forward(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    forward_args *a = args;
    const int64_t xs = ts_swiglu_x_stride(c), ys = ts_swiglu_y_stride(c);
    const int     place = (int)c->dim[TS_SWIGLU_PLACE];
    void         *gate = NULL, *up = NULL;
    *a = (forward_args) {
        c->dtype, c->dim[TS_SWIGLU_ROWS], c->dim[TS_SWIGLU_COLS], xs, ys, NULL, NULL, NULL
    };
    if (place != TS_SWIGLU_Y_IS_GATE) gate = ts_take(m, &a->gate, matrix(c, "gate", TS_IN, xs));
    if (place != TS_SWIGLU_Y_IS_UP) up = ts_take(m, &a->up, matrix(c, "up", TS_IN, xs));
    void *y = ts_take(m, &a->y, matrix(c, "y", place ? TS_INOUT : TS_OUT, ys));
    if (place == TS_SWIGLU_Y_IS_GATE) a->gate = gate = y;
    if (place == TS_SWIGLU_Y_IS_UP) a->up = up = y;
    draw(c, ts_mix(seed), gate, up, NULL);
}

static void setup_backward(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    backward_args *a = args;
    const int64_t  xs = ts_swiglu_x_stride(c), ys = ts_swiglu_y_stride(c);
    const int      place = (int)c->dim[TS_SWIGLU_PLACE];
    *a = (backward_args) { .dtype = c->dtype, .x_stride = xs, .y_stride = ys };
    a->n_rows = c->dim[TS_SWIGLU_ROWS];
    a->n_cols = c->dim[TS_SWIGLU_COLS];
    void *dgate = ts_take(m, &a->dgate, matrix(c, "dgate", place ? TS_INOUT : TS_OUT, xs));
    void *dup = ts_take(m, &a->dup, matrix(c, "dup", place ? TS_INOUT : TS_OUT, xs));
    void *gate = place == TS_SWIGLU_CROSSED ? dup : dgate;
    void *up = place == TS_SWIGLU_CROSSED ? dgate : dup;
    void *dy = dup;
    if (!place) gate = ts_take(m, &a->gate, matrix(c, "gate", TS_IN, xs));
    if (!place || place == TS_SWIGLU_DUP_IS_DY) up = ts_take(m, &a->up, matrix(c, "up", TS_IN, xs));
    if (place != TS_SWIGLU_DUP_IS_DY) dy = ts_take(m, &a->dy, matrix(c, "dy", TS_IN, ys));
    a->gate = gate;
    a->up = up;
    a->dy = dy;
    draw(c, ts_mix(seed), gate, up, dy); /* never all ones */
}

/* ---- oracle ---- */

/* v 2^e */
typedef struct number {
    ts_real v;
    int     e;
} number;

static number number_of(ts_real v)
{
    number n = { v, 0 };
    if (v.hi != 0 && isfinite(v.hi)) {
        frexp(v.hi, &n.e);
        n.v = ts_real_scale(v, -n.e);
    }
    return n;
}

static number times(number a, number b)
{
    return (number) { ts_real_mul(a.v, b.v), a.e + b.e };
}

static number times_double(number a, double b)
{
    return times(a, number_of(ts_real_of(b)));
}

static double value_of(number n)
{
    return ldexp(n.v.hi, n.e);
}

/* s and 1 - s. */
typedef struct sigmoid {
    number s, rest;
} sigmoid;

/* Of a fourth of the gate exp is a double's; where it is not, nothing is left of s. */
static sigmoid sigmoid_of(double gate)
{
    const number  root = number_of(ts_real_exp(ts_real_of(-fabs(gate) / 4)));
    const number  square = times(root, root), e = times(square, square);
    const ts_real sum = ts_real_add(ts_real_of(1), ts_real_scale(e.v, e.e));
    const number  large = number_of(ts_real_div(ts_real_of(1), sum)), small = times(e, large);
    return gate < 0 ? (sigmoid) { small, large } : (sigmoid) { large, small };
}

static number silu(double gate, const sigmoid *g)
{
    return gate == -INFINITY ? number_of(ts_real_of(0)) : times_double(g->s, gate);
}

/* v, which errs by `error`; it may be past the range of t. */
static ts_want want_of(number v, double error, ts_dtype t)
{
    const ts_format *f = ts_format_of(t);
    const double     value = value_of(v), size = fabs(value);
    if (isinf(v.v.hi)) return (ts_want) { v.v.hi, 0 };
    if (size - error > f->max * (1 + 2 * f->u)) return (ts_want) { copysign(INFINITY, value), 0 };
    if (size + error > f->max) return (ts_want) { 0, INFINITY };
    return ts_stored(value, error, t);
}

/* Whether an infinity meets a factor that may as well be taken for 0, or for its opposite. */
static bool is_vague(number factor, double error, bool infinite, ts_dtype t)
{
    const double size = fabs(value_of(factor));
    return infinite && factor.v.hi != 0 &&
           (size < ts_format_of(ts_wide(t))->min_normal || size <= 2 * error);
}

/* silu(gate) w: y, or dup */
static ts_want product(number factor, double w, ts_dtype t)
{
    const number v = times_double(factor, w);
    if (is_vague(factor, 0, isinf(w), t)) return (ts_want) { 0, INFINITY };
    return want_of(v, ts_kappa(2) * ts_format_of(ts_wide(t))->u * fabs(value_of(v)), t);
}

static ts_want gate_slope(double gate, const sigmoid *g, double up, double dy, ts_dtype t)
{
    const double  ku = ts_kappa(4) * ts_format_of(ts_wide(t))->u;
    const number  none = { { 0, 0 }, 0 }, pull = isinf(gate) ? none : times_double(g->rest, gate);
    const ts_real more = ts_real_add(ts_real_of(1), ts_real_scale(pull.v, pull.e));
    const number  slope = times(g->s, number_of(more));
    const number  size = times_double(g->s, 1 + fabs(value_of(pull)));
    const number  all = times_double(times_double(size, up), dy);
    if (is_vague(slope, ku * value_of(size), isinf(up) || isinf(dy), t))
        return (ts_want) { 0, INFINITY };
    return want_of(times_double(times_double(slope, up), dy), ku * fabs(value_of(all)), t);
}

static size_t n_want_forward(const ts_case *c)
{
    return (size_t)(c->dim[TS_SWIGLU_ROWS] * c->dim[TS_SWIGLU_COLS]);
}

static void oracle_forward(const ts_case *c, const void *args, ts_want *want)
{
    const forward_args *a = args;
    (void)c;
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int64_t i = 0; i < a->n_cols; i++) {
            const int64_t at = r * a->x_stride + i;
            const double  gate = ts_load(a->gate, a->dtype, at);
            const sigmoid g = sigmoid_of(gate);
            *want++ = product(silu(gate, &g), ts_load(a->up, a->dtype, at), a->dtype);
        }
}

static size_t n_want_backward(const ts_case *c)
{
    return 2 * n_want_forward(c);
}

/* want: dgate row by row, then dup */
static void oracle_backward(const ts_case *c, const void *args, ts_want *want)
{
    const backward_args *a = args;
    const ts_dtype       t = a->dtype;
    ts_want             *dup = want + n_want_forward(c);
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int64_t i = 0; i < a->n_cols; i++) {
            const int64_t at = r * a->x_stride + i;
            const double  gate = ts_load(a->gate, t, at),
                         dy = ts_load(a->dy, t, r * a->y_stride + i);
            const sigmoid g = sigmoid_of(gate);
            *want++ = gate_slope(gate, &g, ts_load(a->up, t, at), dy, t);
            *dup++ = product(silu(gate, &g), dy, t);
        }
}

/* ---- check, cost ---- */

static bool check_forward(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    const forward_args *a = args;
    return ts_check_buf(matrix(c, "y", TS_OUT, a->y_stride), a->y, want, f, e);
}

static bool check_backward(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                           ts_errors *e)
{
    const backward_args *a = args;
    return ts_check_buf(matrix(c, "dgate", TS_OUT, a->x_stride), a->dgate, want, f, e) &&
           ts_check_buf(matrix(c, "dup", TS_OUT, a->x_stride), a->dup, want + n_want_forward(c), f,
                        e);
}

/* Each tensor once; an exp counts as 10. */
static ts_cost cost_of(const ts_case *c, double tensors, double flops)
{
    const double n = (double)n_want_forward(c);
    return (ts_cost) { .bytes = tensors * n * (double)ts_format_of(c->dtype)->n_bytes,
                       .flops = flops * n };
}

static ts_cost cost_forward(const ts_case *c)
{
    return cost_of(c, 3, 14);
}

static ts_cost cost_backward(const ts_case *c)
{
    return cost_of(c, 5, 20);
}

/* ---- invalid calls ---- */

#define AT(type, member)      offsetof(type##_args, member)
#define P(type, member)       (AT(type, member) + 1)
#define BAD(type, must, ...)  TS_BAD(type##_args, must, __VA_ARGS__)
#define LIKE(type, must, ...) TS_BAD_LIKE(type##_args, must, __VA_ARGS__)

static int64_t longest(void *args)
{
    (void)args;
    return INT64_MAX / 8;
}

#define SHORT(type)                                                                                \
    LIKE(type, TS_E_SHAPE, x_stride, n_cols, -1), LIKE(type, TS_E_SHAPE, y_stride, n_cols, -1)

/* Nothing to do, in rows as long as can be. */
#define LONGEST(type)                                                                              \
    BAD(type, TS_OK, n_rows, 0), TS_BAD_OF(type##_args, TS_ALSO, n_cols, longest),                 \
        TS_BAD_OF(type##_args, TS_ALSO, x_stride, longest),                                        \
        TS_BAD_OF(type##_args, TS_ALSO, y_stride, longest)

/* In place by two strides. */
#define ASKEW(type, out, in)                                                                       \
    LIKE(type, TS_E_ARG, out, in, 0), LIKE(type, TS_ALSO, y_stride, x_stride, 1)

static const ts_bad bad_forward[] = {
    SHORT(forward),        BAD(forward, TS_E_DTYPE, dtype, TS_U8, 99),
    LONGEST(forward),      ASKEW(forward, y, gate),
    ASKEW(forward, y, up), { 0 },
};

static const ts_bad bad_backward[] = {
    SHORT(backward),
    LIKE(backward, TS_E_ARG, dup, dgate, 0),
    BAD(backward, TS_E_DTYPE, dtype, TS_U8, 99),
    LONGEST(backward),
    ASKEW(backward, dgate, dy),
    ASKEW(backward, dup, dy),
    { 0 },
};

/* n_rows, n_cols, and the strides */
#define SHAPE(type)                                                                                \
    .extent = { { AT(type, n_rows), 0, 0, 0, true, false },                                        \
                { AT(type, n_cols), 1, 0, 0, false, false },                                       \
                { AT(type, x_stride), 1, 0, 0, false, true },                                      \
                { AT(type, y_stride), 1, 0, 0, false, true } },                                    \
    .n_extent = 4, .product = { { { 1, 3 } }, { { 1, 4 } } }

static const ts_invalid invalid_forward = {
    .pointer = { P(forward, gate), P(forward, up), P(forward, y) },
    SHAPE(forward),
    .bad = bad_forward,
};

static const ts_invalid invalid_backward = {
    .pointer = { P(backward, gate), P(backward, up), P(backward, dy), P(backward, dgate),
                 P(backward, dup) },
    SHAPE(backward),
    .bad = bad_backward,
};

const ts_task ts_task_swiglu_forward = {
    .name = "swiglu_forward",
    .dim_name = { "rows", "cols", "pad", "place" },
    .kind = TS_PLAIN,
    .no_challenge = true,
    .devices = TS_ON_CPU | TS_ON_CUDA,
    .buffer = { { "gate", TS_IN, 2, false }, { "up", TS_IN, 2, false }, { "y", TS_OUT, 2, false } },
    .args_bytes = sizeof(forward_args),
    .cases = ts_swiglu_forward_cases,
    .cover = &ts_swiglu_forward_cover,
    .setup = setup_forward,
    .n_want = n_want_forward,
    .oracle = oracle_forward,
    .check = check_forward,
    .cost = cost_forward,
    .invalid = &invalid_forward,
};

const ts_task ts_task_swiglu_backward = {
    .name = "swiglu_backward",
    .dim_name = { "rows", "cols", "pad", "place" },
    .kind = TS_PLAIN,
    .no_challenge = true,
    .devices = TS_ON_CPU | TS_ON_CUDA,
    .buffer = { { "gate", TS_IN, 2, false },
                { "up", TS_IN, 2, false },
                { "dy", TS_IN, 2, false },
                { "dgate", TS_OUT, 2, false },
                { "dup", TS_OUT, 2, false } },
    .args_bytes = sizeof(backward_args),
    .cases = ts_swiglu_backward_cases,
    .cover = &ts_swiglu_backward_cover,
    .setup = setup_backward,
    .n_want = n_want_backward,
    .oracle = oracle_backward,
    .check = check_backward,
    .cost = cost_backward,
    .invalid = &invalid_backward,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu_ref.c - the definition of swiglu, for every dtype, shape and magnitude. Arithmetic is
 * double throughout; one thread; no workspace. */
#include <math.h>

#include "dtype.h"
#include "swiglu_impl.h"

/* m 2^e: products whose range is past double's. */
typedef struct scaled {
    double m;
    int    e;
} scaled;

static scaled scaled_of(double v)
{
    scaled s = { v, 0 };
    if (isfinite(v)) s.m = frexp(v, &s.e);
    return s;
}

static scaled times(scaled a, double v)
{
    const scaled b = scaled_of(v);
    return (scaled) { a.m * b.m, a.e + b.e };
}

static double value_of(scaled a)
{
    return ldexp(a.m, a.e);
}

/* exp(v) for v <= 0. A quarter of v has an exp that a double holds down to 2^-4100, and below that
 * no factors bring it back. */
static scaled exp_of(double v)
{
    const scaled s = scaled_of(exp(v / 4));
    const double square = s.m * s.m;
    return (scaled) { square * square, 4 * s.e };
}

/* s = 1 / (1 + exp(-gate)), and 1 - s: neither by subtraction. */
typedef struct sigmoid {
    scaled s, rest;
} sigmoid;

static sigmoid sigmoid_of(double gate)
{
    const scaled e = exp_of(-fabs(gate));
    const scaled large = scaled_of(1 / (1 + value_of(e)));
    const scaled small = { e.m * large.m, e.e + large.e };
    return gate < 0 ? (sigmoid) { small, large } : (sigmoid) { large, small };
}

static scaled silu(double gate, const sigmoid *g)
{
    return gate == -INFINITY ? (scaled) { 0, 0 } : times(g->s, gate);
}

double ts_swiglu_value(double gate, double up)
{
    const sigmoid g = sigmoid_of(gate);
    return value_of(times(silu(gate, &g), up));
}

ts_swiglu_slopes ts_swiglu_gradient(double gate, double up, double dy)
{
    const sigmoid g = sigmoid_of(gate);
    const double  more = isinf(gate) ? 1 : 1 + value_of(times(g.rest, gate));
    return (ts_swiglu_slopes) { value_of(times(times(times(g.s, more), up), dy)),
                                value_of(times(silu(gate, &g), dy)) };
}

ts_status ts_swiglu_forward_ref(const void *args, const ts_exec *x)
{
    const ts_swiglu_forward_args *a = args;
    const ts_dtype                t = a->dtype;
    (void)x;
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int64_t c = 0; c < a->n_cols; c++) {
            const int64_t at = r * a->x_stride + c;
            ts_store(a->y, t, r * a->y_stride + c,
                     ts_swiglu_value(ts_load(a->gate, t, at), ts_load(a->up, t, at)));
        }
    return TS_OK;
}

ts_status ts_swiglu_backward_ref(const void *args, const ts_exec *x)
{
    const ts_swiglu_backward_args *a = args;
    const ts_dtype                 t = a->dtype;
    (void)x;
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int64_t c = 0; c < a->n_cols; c++) {
            const int64_t          at = r * a->x_stride + c;
            const double           dy = ts_load(a->dy, t, r * a->y_stride + c);
            const ts_swiglu_slopes d =
                ts_swiglu_gradient(ts_load(a->gate, t, at), ts_load(a->up, t, at), dy);
            ts_store(a->dgate, t, at, d.dgate);
            ts_store(a->dup, t, at, d.dup);
        }
    return TS_OK;
}

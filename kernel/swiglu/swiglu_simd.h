/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu_simd.h - elements of swiglu, written once for any width of vector. Private to the files
 * that include it, each behind its vec_*.h and, for its own instruction set:
 *
 *     exponent      2^n from t = n + big
 *     where_above   v where x > y, else w
 *     all_below     whether all of v are below a number; a NaN is not
 *
 * Gates of a magnitude from FAR on, and NaN, go through double, one at a time: below it
 * exp(-|gate|) and every product of it with a gate is a normal number. */
#ifndef TS_SWIGLU_SIMD_H
#define TS_SWIGLU_SIMD_H

#include <math.h>
#include <string.h>

#include "exp_simd.h"
#include "vec_simd.h"

static const float FAR = 80;

INLINE vec magnitude(vec v)
{
    return larger(v, sub(splat(0), v));
}

/* s, and 1 - s: neither by subtraction. */
typedef struct sigmoid {
    vec s, rest;
} sigmoid;

INLINE sigmoid sigmoid_of(vec gate, vec size)
{
    const vec e = exp_near(sub(splat(0), size));
    const vec large = divide(splat(1), add(splat(1), e)), small = mul(e, large);
    return (sigmoid) { where_above(gate, splat(0), large, small),
                       where_above(gate, splat(0), small, large) };
}

/* ---- a vec ---- */

static vec y_far(vec gate, vec up)
{
    float one[LANES], other[LANES];
    put(one, gate);
    put(other, up);
    for (int i = 0; i < LANES; i++) one[i] = (float)ts_swiglu_value(one[i], other[i]);
    return get(one);
}

INLINE vec y_of(vec gate, vec up)
{
    const vec size = magnitude(gate);
    if (!all_below(size, FAR)) return y_far(gate, up);
    return mul(mul(gate, sigmoid_of(gate, size).s), up);
}

typedef struct slopes {
    vec dgate, dup;
} slopes;

static slopes slopes_far(vec gate, vec up, vec dy)
{
    float one[LANES], other[LANES], third[LANES];
    put(one, gate);
    put(other, up);
    put(third, dy);
    for (int i = 0; i < LANES; i++) {
        const ts_swiglu_slopes d = ts_swiglu_gradient(one[i], other[i], third[i]);
        one[i] = (float)d.dgate;
        other[i] = (float)d.dup;
    }
    return (slopes) { get(one), get(other) };
}

/* dy up may be past the range of float, or vanish, where the slope brings it back: so the larger
 * meets the slope first. */
INLINE slopes slopes_of(vec gate, vec up, vec dy)
{
    const vec size = magnitude(gate);
    if (!all_below(size, FAR)) return slopes_far(gate, up, dy);
    const sigmoid g = sigmoid_of(gate, size);
    const vec     slope = mul(g.s, madd(gate, g.rest, splat(1)));
    const vec     of_dy = magnitude(dy), of_up = magnitude(up);
    const vec     most = where_above(of_dy, of_up, dy, up);
    const vec     least = where_above(of_dy, of_up, up, dy);
    return (slopes) { mul(mul(slope, most), least), mul(mul(gate, g.s), dy) };
}

/* ---- a run ---- */

INLINE void forward_vec(ts_dtype t, const char *gate, const char *up, char *y, int64_t at, int n)
{
    leave(y + at, t, n, y_of(fetch(gate + at, t, n), fetch(up + at, t, n)));
}

INLINE void forward_run(ts_dtype t, const char *gate, const char *up, char *y, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) forward_vec(t, gate, up, y, i * size_of(t), LANES);
    if (i < n) forward_vec(t, gate, up, y, i * size_of(t), (int)(n - i));
}

INLINE void backward_vec(ts_dtype t, const char *gate, const char *up, const char *dy, char *dgate,
                         char *dup, int64_t at, int n)
{
    const slopes d = slopes_of(fetch(gate + at, t, n), fetch(up + at, t, n), fetch(dy + at, t, n));
    leave(dgate + at, t, n, d.dgate);
    leave(dup + at, t, n, d.dup);
}

INLINE void backward_run(ts_dtype t, const char *gate, const char *up, const char *dy, char *dgate,
                         char *dup, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        backward_vec(t, gate, up, dy, dgate, dup, i * size_of(t), LANES);
    if (i < n) backward_vec(t, gate, up, dy, dgate, dup, i * size_of(t), (int)(n - i));
}

/* ---- by dtype ---- */

static void forward_any(ts_dtype t, const char *gate, const char *up, char *y, int64_t n)
{
    if (t == TS_BF16) forward_run(TS_BF16, gate, up, y, n);
    else if (t == TS_F16) forward_run(TS_F16, gate, up, y, n);
    else forward_run(TS_F32, gate, up, y, n);
}

static void backward_any(ts_dtype t, const char *gate, const char *up, const char *dy, char *dgate,
                         char *dup, int64_t n)
{
    if (t == TS_BF16) backward_run(TS_BF16, gate, up, dy, dgate, dup, n);
    else if (t == TS_F16) backward_run(TS_F16, gate, up, dy, dgate, dup, n);
    else backward_run(TS_F32, gate, up, dy, dgate, dup, n);
}

ts_status SIMD(ts_swiglu_forward)(const void *args, const ts_exec *x)
{
    return ts_swiglu_forward_threads(args, x, forward_any);
}

ts_status SIMD(ts_swiglu_backward)(const void *args, const ts_exec *x)
{
    return ts_swiglu_backward_threads(args, x, backward_any);
}

#endif

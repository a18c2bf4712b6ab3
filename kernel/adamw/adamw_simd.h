/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_simd.h - the parameters of a step, written once for any width of vector. Private to the
 * files that include it.
 *
 * Each of them first includes its vectors (see row_simd.h) and defines a function `take_roots`.
 * Arithmetic is double, in which the square of any float is representable, and is rounded once into
 * each float that is stored. A block is processed in short loops that the compiler turns into
 * vector code. */
#ifndef TS_ADAMW_SIMD_H
#define TS_ADAMW_SIMD_H

#include <stdbool.h>

#include "row_simd.h"

#include "row_convert.h"

enum { BLOCK = 256 };

/* w - (move m / (sqrt(v) + eps) + decay w): `move` and `eps` contain the biases, since
 *     m / bias1 / (sqrt(v / bias2) + eps) = (sqrt(bias2) / bias1) m / (sqrt(v) + sqrt(bias2) eps).
 */
typedef struct rates {
    double scale, beta1, beta2, rest1, rest2, move, eps, decay;
} rates;

static rates rates_of(const ts_adamw_step_args *a, double scale)
{
    const double root = sqrt(ts_adamw_bias(a->beta2, a->step));
    return (rates) { scale,         a->beta1,
                     a->beta2,      1 - a->beta1,
                     1 - a->beta2,  a->lr * root / ts_adamw_bias(a->beta1, a->step),
                     a->eps * root, a->lr * a->weight_decay };
}

/* Any NaN becomes the plain one: row_simd.h's rounding to bf16 relies on its low half being 0. */
INLINE float kept(double v)
{
    return v == v ? (float)v : NAN;
}

INLINE void step_block(const rates *r, const float *grad, float *w, float *m, float *v, int n,
                       double decay)
{
    double first[BLOCK], root[BLOCK];
    for (int i = 0; i < n; i++) {
        const double g = r->scale * (double)grad[i];
        first[i] = r->beta1 * (double)m[i] + r->rest1 * g;
        root[i] = r->beta2 * (double)v[i] + r->rest2 * g * g;
    }
    for (int i = 0; i < n; i++) {
        m[i] = kept(first[i]);
        v[i] = kept(root[i]);
    }
    take_roots(root, n);
    for (int i = 0; i < n; i++) {
        const double was = (double)w[i];
        w[i] = kept(was - (r->move * (first[i] / (root[i] + r->eps)) + decay * was));
    }
}

/* n <= BLOCK parameters from `at` on: floats are worked on where they are. */
INLINE void step_range(const ts_adamw_step_args *a, const rates *r, int64_t at, int n, double decay,
                       ts_dtype t)
{
    float        wide_grad[BLOCK], wide_w[BLOCK];
    float *const m = (float *)a->m + at, *const v = (float *)a->v + at;
    const float *grad = wide_grad;
    float       *w = wide_w;
    if (a->grad_dtype == TS_F32) grad = (const float *)a->grad + at;
    else widen_row(wide_grad, (const char *)a->grad + at * size_of(t), t, n);
    if (t == TS_F32) w = (float *)a->w + at;
    else if (a->master) w = (float *)a->master + at;
    else widen_row(wide_w, (const char *)a->w + at * size_of(t), t, n);
    step_block(r, grad, w, m, v, n, decay);
    if (t != TS_F32) narrow_row((char *)a->w + at * size_of(t), w, t, n);
}

INLINE void step_all(const ts_adamw_step_args *a, double scale, int64_t begin, int64_t end,
                     ts_dtype t)
{
    const rates r = rates_of(a, scale);
    for (int64_t i = begin; i < end;) {
        const bool    decays = i < a->n_decay;
        const int64_t last = ts_lesser(end, decays ? a->n_decay : end);
        const int     n = (int)ts_lesser(BLOCK, last - i);
        step_range(a, &r, i, n, decays ? r.decay : 0, t);
        i += n;
    }
}

/* ---- by dtype ---- */

static void step_any(const ts_adamw_step_args *a, double scale, int64_t begin, int64_t end)
{
    if (a->dtype == TS_BF16) step_all(a, scale, begin, end, TS_BF16);
    else if (a->dtype == TS_F16) step_all(a, scale, begin, end, TS_F16);
    else step_all(a, scale, begin, end, TS_F32);
}

ts_status SIMD(ts_adamw_step)(const void *args, const ts_exec *x)
{
    return ts_adamw_step_threads(args, x, step_any);
}

#endif

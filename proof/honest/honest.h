/* SPDX-License-Identifier: Apache-2.0 */
/* honest.h - shared by the correct entrants, so that each contains only its own algorithm: elements
 * of any dtype, validation, and the loop over rows. */
#ifndef HONEST_H
#define HONEST_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "touchstone/layernorm.h"
#include "touchstone/softmax_topk.h"

/* ---- numbers ---- */

static inline double load(const void *p, ts_dtype t, int64_t i)
{
    if (t == TS_F32) return ((const float *)p)[i];
    if (t == TS_F64) return ((const double *)p)[i];
    const uint32_t h = ((const uint16_t *)p)[i];
    if (t == TS_BF16) {
        const uint32_t b = h << 16;
        float          f;
        memcpy(&f, &b, 4);
        return f;
    }
    const int    e = h >> 10 & 31, m = h & 1023;
    const double v = e == 31  ? (m ? NAN : INFINITY)
                     : e == 0 ? ldexp(m, -24)
                              : ldexp(m + 1024, e - 25);
    return h >> 15 ? -v : v;
}

/* To a 16-bit format: units of the last place, rounded to even, carry into the exponent. */
static inline uint16_t round16(double v, int n_mantissa, int e_min, uint32_t inf)
{
    const uint32_t sign = signbit(v) ? 0x8000 : 0;
    int            e;
    if (isnan(v)) return (uint16_t)(inf | 1u << (n_mantissa - 1));
    if (isinf(v)) return (uint16_t)(sign | inf);
    v = fabs(v);
    frexp(v, &e);
    e = v == 0 || e - 1 < e_min ? e_min : e - 1;
    const double   units = rint(ldexp(v, n_mantissa - e));
    const uint32_t bits =
        ((uint32_t)(e - e_min) << n_mantissa) + (uint32_t)fmin(units, 4.0 * (1 << n_mantissa));
    return (uint16_t)(sign | (bits < inf ? bits : inf));
}

static inline void store(void *p, ts_dtype t, int64_t i, double v)
{
    if (t == TS_F32) ((float *)p)[i] = (float)v;
    else if (t == TS_F64) ((double *)p)[i] = v;
    else
        ((uint16_t *)p)[i] =
            t == TS_BF16 ? round16(v, 7, -126, 0x7f80) : round16(v, 10, -14, 0x7c00);
}

static inline ts_status dtype_ok(ts_dtype t)
{
    return t == TS_F32 || t == TS_BF16 || t == TS_F16 ? TS_OK : TS_E_DTYPE;
}

static inline int fits(int64_t n_rows, int64_t stride)
{
    return stride <= INT64_MAX / 8 / (n_rows > 0 ? n_rows : 1);
}

/* The dtype of statistics, and of sums. */
static inline ts_dtype dtype_of_sums(ts_dtype t)
{
    return t == TS_F64 ? TS_F64 : TS_F32;
}

/* Unlike dtype_ok, with f64. */
static inline ts_status with_f64(ts_status s, ts_dtype t)
{
    return s == TS_E_DTYPE && t == TS_F64 ? TS_OK : s;
}

/* ---- sums, in float or of f64 in double ---- */

/* Rounds a double's result as if the operation were one of float. */
static inline double keep(ts_dtype t, double v)
{
    return t == TS_F64 ? v : (double)(float)v;
}

typedef double term_of(const void *a, int64_t row, int64_t i);
enum order { BY_LOOP, BY_LANES, BY_PAIRS, BY_KAHAN, BY_DOUBLE };

static inline double sum_pairs(ts_dtype t, term_of *term, const void *a, int64_t row, int64_t begin,
                               int64_t n)
{
    double sum = 0;
    if (n > 8)
        return keep(t, sum_pairs(t, term, a, row, begin, n / 2) +
                           sum_pairs(t, term, a, row, begin + n / 2, n - n / 2));
    for (int64_t i = begin; i < begin + n; i++) sum = keep(t, sum + keep(t, term(a, row, i)));
    return sum;
}

/* Of n terms in that order. */
static inline double sum_in_order(enum order o, ts_dtype t, term_of *term, const void *a,
                                  int64_t row, int64_t n)
{
    double lane[16] = { 0 }, lost = 0, sum = 0;
    if (o == BY_PAIRS) return sum_pairs(t, term, a, row, 0, n);
    if (o == BY_DOUBLE) t = TS_F64;
    for (int64_t i = 0; i < n; i++) {
        const double v = keep(t, term(a, row, i));
        if (o == BY_LANES) lane[i % 16] = keep(t, lane[i % 16] + v);
        else if (o == BY_KAHAN) {
            const double y = keep(t, v - lost), s = keep(t, sum + y);
            lost = keep(t, keep(t, s - sum) - y);
            sum = s;
        } else sum = keep(t, sum + v);
    }
    for (int i = 0; i < 16 && o == BY_LANES; i++) sum = keep(t, sum + lane[i]);
    return sum;
}

/* ---- layernorm ---- */

typedef ts_layernorm_forward_args  forward;
typedef ts_layernorm_backward_args backward;

static inline ts_status refuse_forward(const forward *a, const ts_exec *x)
{
    if (!a || !x || !(a->eps > 0) || !isfinite(a->eps) || !a->gamma || !a->beta) return TS_E_ARG;
    if (a->n_rows && (!a->x || !a->y || !a->mean || !a->rstd)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_cols < 1 || a->row_stride < a->n_cols) return TS_E_SHAPE;
    return fits(a->n_rows, a->row_stride) ? dtype_ok(a->dtype) : TS_E_SHAPE;
}

static inline ts_status refuse_backward(const backward *a, const ts_exec *x)
{
    if (!a || !x || (a->accumulate != 0 && a->accumulate != 1)) return TS_E_ARG;
    if (!a->gamma || !a->dgamma || !a->dbeta) return TS_E_ARG;
    if (a->n_rows && (!a->x || !a->dy || !a->mean || !a->rstd || !a->dx)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_cols < 1 || a->row_stride < a->n_cols) return TS_E_SHAPE;
    return fits(a->n_rows, a->row_stride) ? dtype_ok(a->dtype) : TS_E_SHAPE;
}

/* x[r][c] */
static inline double x_at(const forward *a, int64_t r, int64_t c)
{
    return load(a->x, a->dtype, r * a->row_stride + c);
}

/* Row r of forward, once its variance is known. An invalid row comes with one that is not finite.
 */
static inline void write_row(const forward *a, int64_t r, double mean, double variance)
{
    const double rstd = isfinite(variance) ? 1 / sqrt(variance + a->eps) : (double)NAN;
    ((float *)a->mean)[r] = (float)mean;
    ((float *)a->rstd)[r] = (float)rstd;
    for (int64_t c = 0; c < a->n_cols; c++)
        store(a->y, a->dtype, r * a->row_stride + c,
              (x_at(a, r, c) - mean) * rstd * load(a->gamma, a->dtype, c) +
                  load(a->beta, a->dtype, c));
}

/* dy[r][c], and xhat[r][c] */
static inline double dy_at(const backward *a, int64_t r, int64_t c)
{
    return load(a->dy, a->dtype, r * a->row_stride + c);
}

static inline double xhat_at(const backward *a, int64_t r, int64_t c)
{
    const double mean = ((const float *)a->mean)[r], rstd = ((const float *)a->rstd)[r];
    return (load(a->x, a->dtype, r * a->row_stride + c) - mean) * rstd;
}

static inline double g_at(const backward *a, int64_t r, int64_t c)
{
    return load(a->gamma, a->dtype, c) * dy_at(a, r, c);
}

/* Row r of dx, once the averages of g and g * xhat are known. */
static inline void write_dx(const backward *a, int64_t r, double g, double gx)
{
    for (int64_t c = 0; c < a->n_cols; c++)
        store(a->dx, a->dtype, r * a->row_stride + c,
              ((const float *)a->rstd)[r] * (g_at(a, r, c) - g - xhat_at(a, r, c) * gx));
}

static inline void dx_row(const backward *a, int64_t r)
{
    double g = 0, gx = 0;
    for (int64_t c = 0; c < a->n_cols; c++) {
        g += g_at(a, r, c);
        gx += g_at(a, r, c) * xhat_at(a, r, c);
    }
    write_dx(a, r, g / (double)a->n_cols, gx / (double)a->n_cols);
}

static inline void write_sums(const backward *a, int64_t c, double dgamma, double dbeta)
{
    float *const g = (float *)a->dgamma + c, *const b = (float *)a->dbeta + c;
    *g = (float)(dgamma + (a->accumulate ? *g : 0));
    *b = (float)(dbeta + (a->accumulate ? *b : 0));
}

/* ---- softmax_topk ---- */

typedef ts_softmax_topk_args topk;

static inline ts_status refuse_topk(const topk *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    if (!(a->inv_temperature >= FLT_MIN && a->inv_temperature <= FLT_MAX)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_vocab < 0 || a->n_vocab > INT32_MAX || a->row_stride < a->n_vocab ||
        a->k < 0 || a->k > INT32_MAX)
        return TS_E_SHAPE;
    if (!fits(a->n_rows, a->row_stride > a->k ? a->row_stride : a->k)) return TS_E_SHAPE;
    if (a->n_rows && a->n_vocab && !a->logits) return TS_E_ARG;
    if (a->n_rows && a->k && (!a->index || !a->prob)) return TS_E_ARG;
    return dtype_ok(a->dtype);
}

static inline float logit(const topk *a, int64_t r, int64_t i)
{
    return (float)load(a->logits, a->dtype, r * a->row_stride + i);
}

/* One number that ranks: larger logits are larger, and of equal ones the earlier. */
static inline uint64_t rank_of(float v, int64_t i)
{
    uint32_t b;
    v += 0.0f; /* -0 is +0 */
    memcpy(&b, &v, 4);
    b = b >> 31 ? ~b : b | 0x80000000u;
    return (uint64_t)b << 32 | (0xffffffffu - (uint32_t)i);
}

static inline int32_t index_of(uint64_t rank)
{
    return (int32_t)(0xffffffffu - (uint32_t)rank);
}

typedef struct row_sum {
    double max, sum; /* of exp(t (x - max)); 0 where nothing is finite */
    int    nonfinite;
} row_sum;

static inline row_sum sum_row(const topk *a, int64_t r)
{
    row_sum s = { -INFINITY, 0, 0 };
    for (int64_t i = 0; i < a->n_vocab; i++) {
        const double v = logit(a, r, i);
        s.nonfinite |= isnan(v) || v == INFINITY;
        if (v > s.max) s.max = v;
    }
    for (int64_t i = 0; i < a->n_vocab && s.max > -INFINITY && !s.nonfinite; i++)
        s.sum += exp((logit(a, r, i) - s.max) * a->inv_temperature);
    return s;
}

/* A row, with the sum and the chosen indices known; `chosen` may be the row's own index. */
static inline void write_topk(const topk *a, int64_t r, row_sum s, const int32_t *chosen)
{
    const int64_t n = s.nonfinite ? 0 : a->k < a->n_vocab ? a->k : a->n_vocab;
    if (a->lse)
        a->lse[r] = s.nonfinite ? NAN
                    : s.sum > 0 ? (float)(s.max * a->inv_temperature + log(s.sum))
                                : -INFINITY;
    for (int64_t j = 0; j < a->k; j++) {
        int32_t *const index = a->index + r * a->k + j;
        float *const   prob = a->prob + r * a->k + j;
        *index = j < n ? chosen[j] : -1;
        *prob = s.nonfinite ? NAN : 0;
        if (j < n && s.sum > 0)
            *prob = (float)(exp((logit(a, r, *index) - s.max) * a->inv_temperature) / s.sum);
    }
}

#endif

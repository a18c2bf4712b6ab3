/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_forward.c - the obvious solution: two passes in double, which floats and their squares
 * cannot overflow. */
#include "touchstone/layernorm.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double load(const void *p, ts_dtype t, int64_t i)
{
    if (t == TS_F32) return ((const float *)p)[i];
    if (t == TS_F64) return ((const double *)p)[i];
    const uint16_t h = ((const uint16_t *)p)[i];
    if (t == TS_BF16) {
        const uint32_t b = (uint32_t)h << 16;
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

/* To a 16-bit format of n_mantissa bits and least exponent e_min: the value in units of its last
 * place is rounded to even by rint, and carries into the exponent by itself. */
static inline uint16_t round16(double v, int n_mantissa, int e_min, uint16_t inf)
{
    const uint16_t sign = signbit(v) ? 0x8000 : 0;
    int            e;
    if (isnan(v)) return (uint16_t)(inf | 1 << (n_mantissa - 1));
    if (isinf(v)) return sign | inf;
    v = fabs(v);
    frexp(v, &e);
    e = v == 0 || e - 1 < e_min ? e_min : e - 1;
    const double   units = rint(ldexp(v, n_mantissa - e));
    const uint32_t bits =
        ((uint32_t)(e - e_min) << n_mantissa) + (uint32_t)fmin(units, 4.0 * (1 << n_mantissa));
    return sign | (uint16_t)(bits < inf ? bits : inf);
}

static inline void store(void *p, ts_dtype t, int64_t i, double v)
{
    if (t == TS_F32) ((float *)p)[i] = (float)v;
    else if (t == TS_F64) ((double *)p)[i] = v;
    else
        ((uint16_t *)p)[i] =
            t == TS_BF16 ? round16(v, 7, -126, 0x7f80) : round16(v, 10, -14, 0x7c00);
}

static ts_status refuse(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    if (!a || !x || !(a->eps > 0) || !isfinite(a->eps) || !a->gamma || !a->beta) return TS_E_ARG;
    if (a->n_rows && (!a->x || !a->y || !a->mean || !a->rstd)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_cols < 1 || a->row_stride < a->n_cols) return TS_E_SHAPE;
    if (a->row_stride > INT64_MAX / 8 / (a->n_rows > 0 ? a->n_rows : 1)) return TS_E_SHAPE;
    return a->dtype == TS_F32 || a->dtype == TS_BF16 || a->dtype == TS_F16 ? TS_OK : TS_E_DTYPE;
}

static void row(const ts_layernorm_forward_args *a, int64_t r)
{
    const int64_t begin = r * a->row_stride;
    double        sum = 0, squares = 0;
    for (int64_t c = 0; c < a->n_cols; c++) sum += load(a->x, a->dtype, begin + c);
    const double mean = sum / (double)a->n_cols; /* float and narrower: double has room enough */
    for (int64_t c = 0; c < a->n_cols; c++) {
        const double d = load(a->x, a->dtype, begin + c) - mean;
        squares += d * d;
    }
    const double rstd = 1 / sqrt(squares / (double)a->n_cols + a->eps);
    ((float *)a->mean)[r] = (float)mean;
    ((float *)a->rstd)[r] = isfinite(sum) ? (float)rstd : NAN;
    for (int64_t c = 0; c < a->n_cols; c++)
        store(a->y, a->dtype, begin + c,
              (load(a->x, a->dtype, begin + c) - mean) * rstd * load(a->gamma, a->dtype, c) +
                  load(a->beta, a->dtype, c));
}

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = refuse(a, x);
    for (int64_t r = 0; !s && r < a->n_rows; r++) row(a, r);
    return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk.c - the obvious solution: three passes over the row, then a list kept sorted by
 * insertion. */
#include "touchstone/softmax_topk.h"

#include <float.h>

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

static ts_status refuse(const ts_softmax_topk_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    if (!(a->inv_temperature >= FLT_MIN && a->inv_temperature <= FLT_MAX)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_vocab < 0 || a->n_vocab > INT32_MAX || a->row_stride < a->n_vocab ||
        a->k < 0 || a->k > INT32_MAX)
        return TS_E_SHAPE;
    const int64_t widest = a->row_stride > a->k ? a->row_stride : a->k;
    if (widest > INT64_MAX / 8 / (a->n_rows > 0 ? a->n_rows : 1)) return TS_E_SHAPE;
    if (a->n_rows && a->n_vocab && !a->logits) return TS_E_ARG;
    if (a->n_rows && a->k && (!a->index || !a->prob)) return TS_E_ARG;
    return a->dtype == TS_F32 || a->dtype == TS_BF16 || a->dtype == TS_F16 ? TS_OK : TS_E_DTYPE;
}

static void row(const ts_softmax_topk_args *a, int64_t r)
{
    const int64_t begin = r * a->row_stride;
    double        largest = -INFINITY, sum = 0;
    int           nonfinite = 0;
    for (int64_t i = 0; i < a->n_vocab; i++) {
        const double v = load(a->logits, a->dtype, begin + i);
        nonfinite |= isnan(v) || v == INFINITY;
        if (v > largest) largest = v;
    }
    for (int64_t i = 0; i < a->n_vocab && largest > -INFINITY; i++)
        sum += exp((load(a->logits, a->dtype, begin + i) - largest) * a->inv_temperature);
    if (a->lse)
        a->lse[r] = nonfinite ? NAN
                    : sum > 0 ? (float)(largest * a->inv_temperature + log(sum))
                              : -INFINITY;
    if (!a->k) return;
    int32_t *index = a->index + r * a->k;
    float   *prob = a->prob + r * a->k;
    int64_t  n = 0;
    for (int64_t i = 0; i < a->n_vocab && !nonfinite; i++) {
        const double v = load(a->logits, a->dtype, begin + i);
        int64_t      j = n < a->k ? n++ : a->k;
        for (; j > 0 && v > load(a->logits, a->dtype, begin + index[j - 1]); j--)
            if (j < a->k) index[j] = index[j - 1];
        if (j < a->k) index[j] = (int32_t)i;
    }
    for (int64_t j = 0; j < n; j++) {
        const double v = load(a->logits, a->dtype, begin + index[j]);
        prob[j] = sum > 0 ? (float)(exp((v - largest) * a->inv_temperature) / sum) : 0;
    }
    for (int64_t j = n; j < a->k; j++) {
        index[j] = -1;
        prob[j] = nonfinite ? NAN : 0;
    }
}

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    const ts_status s = refuse(a, x);
    for (int64_t r = 0; !s && r < a->n_rows; r++) row(a, r);
    return s;
}

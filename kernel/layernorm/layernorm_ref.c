/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_ref.c - the definition, in the order a reader expects it: every dtype, every shape, any
 * magnitude. Arithmetic is double throughout; one thread; no workspace. */
#include <math.h>

#include "dtype.h"
#include "layernorm_impl.h"
#include "total.h"

/* The power of two that brings the row's largest magnitude below 1, so that no square overflows.
 * frexp leaves the exponent of NaN and infinity unspecified; those rows end as NaN at any scale. */
static int row_exponent(const void *x, ts_dtype t, int64_t begin, int64_t n)
{
    double largest = 0;
    int    e;
    for (int64_t i = begin; i < begin + n; i++) largest = fmax(largest, fabs(ts_load(x, t, i)));
    frexp(largest, &e);
    return largest > 0 && isfinite(largest) ? e : 0;
}

static void row_statistics(const ts_layernorm_forward_args *a, int64_t begin, double *mean,
                           double *rstd)
{
    const int64_t end = begin + a->n_cols;
    const int     e = row_exponent(a->x, a->dtype, begin, a->n_cols);
    const double  n = (double)a->n_cols;
    ts_total      x = { 0, 0 }, rest = { 0, 0 }, squares = { 0, 0 };
    for (int64_t i = begin; i < end; i++) ts_total_add(&x, ldexp(ts_load(a->x, a->dtype, i), -e));
    const double m = x.sum / n;
    for (int64_t i = begin; i < end; i++) {
        const double d = ldexp(ts_load(a->x, a->dtype, i), -e) - m;
        ts_total_add(&rest, d);
        ts_total_add(&squares, d * d);
    }
    /* The mean is rounded. What that is off by, squared, is in the squares, and taken out again. */
    double v = squares.sum / n - rest.sum / n * (rest.sum / n);
    if (v < 0) v = 0; /* and a NaN stays one */
    /* eps in the same scale. It may overflow (then eps is all there is) or vanish (then it matters
     * only to a row without variance): both are eps alone. */
    const double scaled_eps = ldexp(a->eps, -2 * e);
    *mean = ldexp(m, e);
    *rstd = v == 0 || isinf(scaled_eps) ? 1 / sqrt(a->eps) : ldexp(1 / sqrt(v + scaled_eps), -e);
}

/* (x - mean) * rstd. Far values are halved first, twice: their difference may not be representable.
 */
static double xhat(double x, double mean, double rstd)
{
    return rstd < 1 ? (x * 0.25 - mean * 0.25) * (rstd * 4) : (x - mean) * rstd;
}

ts_status ts_layernorm_forward_ref(const void *args, const ts_exec *x)
{
    const ts_layernorm_forward_args *a = args;
    const ts_dtype                   t = a->dtype, wide = ts_wide(t);
    (void)x;
    for (int64_t r = 0; r < a->n_rows; r++) {
        const int64_t row = r * a->row_stride;
        double        mean, rstd;
        row_statistics(a, row, &mean, &rstd);
        ts_store(a->mean, wide, r, mean);
        ts_store(a->rstd, wide, r, rstd);
        for (int64_t c = 0; c < a->n_cols; c++)
            ts_store(a->y, t, row + c,
                     ts_load(a->gamma, t, c) * xhat(ts_load(a->x, t, row + c), mean, rstd) +
                         ts_load(a->beta, t, c));
    }
    return TS_OK;
}

static void row_dx(const ts_layernorm_backward_args *a, int64_t r)
{
    const ts_dtype t = a->dtype, wide = ts_wide(t);
    const int64_t  row = r * a->row_stride;
    const double   mean = ts_load(a->mean, wide, r), rstd = ts_load(a->rstd, wide, r);
    ts_total       g_total = { 0, 0 }, gx_total = { 0, 0 };
    for (int64_t c = 0; c < a->n_cols; c++) {
        const double g = ts_load(a->gamma, t, c) * ts_load(a->dy, t, row + c);
        ts_total_add(&g_total, g);
        ts_total_add(&gx_total, g * xhat(ts_load(a->x, t, row + c), mean, rstd));
    }
    const double avg_g = g_total.sum / (double)a->n_cols;
    const double avg_gx = gx_total.sum / (double)a->n_cols;
    for (int64_t c = 0; c < a->n_cols; c++) {
        const double g = ts_load(a->gamma, t, c) * ts_load(a->dy, t, row + c);
        const double xh = xhat(ts_load(a->x, t, row + c), mean, rstd);
        ts_store(a->dx, t, row + c, rstd * (g - avg_g - xh * avg_gx));
    }
}

/* Columns are summed a few at a time, so that each row is visited in short contiguous runs. */
static void columns_dgamma_dbeta(const ts_layernorm_backward_args *a, int64_t begin, int64_t n)
{
    const ts_dtype t = a->dtype, wide = ts_wide(t);
    double         dgamma[64] = { 0 }, dbeta[64] = { 0 };
    for (int64_t r = 0; r < a->n_rows; r++) {
        const int64_t row = r * a->row_stride + begin;
        const double  mean = ts_load(a->mean, wide, r), rstd = ts_load(a->rstd, wide, r);
        for (int64_t c = 0; c < n; c++) {
            const double dy = ts_load(a->dy, t, row + c);
            dgamma[c] += dy * xhat(ts_load(a->x, t, row + c), mean, rstd);
            dbeta[c] += dy;
        }
    }
    for (int64_t c = 0; c < n; c++) {
        const double g0 = a->accumulate ? ts_load(a->dgamma, wide, begin + c) : 0;
        const double b0 = a->accumulate ? ts_load(a->dbeta, wide, begin + c) : 0;
        ts_store(a->dgamma, wide, begin + c, g0 + dgamma[c]);
        ts_store(a->dbeta, wide, begin + c, b0 + dbeta[c]);
    }
}

ts_status ts_layernorm_backward_ref(const void *args, const ts_exec *x)
{
    const ts_layernorm_backward_args *a = args;
    (void)x;
    for (int64_t r = 0; r < a->n_rows; r++) row_dx(a, r);
    for (int64_t c = 0; c < a->n_cols; c += 64)
        columns_dgamma_dbeta(a, c, a->n_cols - c < 64 ? a->n_cols - c : 64);
    return TS_OK;
}

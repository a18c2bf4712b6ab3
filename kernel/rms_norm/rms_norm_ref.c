/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_ref.c - the definition of rms_norm, for every dtype, shape and magnitude. Arithmetic is
 * double throughout; one thread; no workspace. */
#include <math.h>

#include "dtype.h"
#include "rms_norm_impl.h"
#include "total.h"

/* rstd = root * 2^-exponent. */
typedef struct row_scale {
    double root;
    int    exponent;
} row_scale;

/* The row and eps are divided by a power of two above both, so that no square overflows; what
 * vanishes then is too small to matter. fmax passes NaN over, and the sum does not. */
static row_scale scale_of(const void *r, ts_dtype t, int64_t begin, int64_t n, double eps)
{
    row_scale s = { 0, 0 };
    double    largest = sqrt(eps);
    ts_total  squares = { 0, 0 };
    for (int64_t i = begin; i < begin + n; i++) largest = fmax(largest, fabs(ts_load(r, t, i)));
    if (isinf(largest)) return (row_scale) { NAN, 0 };
    frexp(largest, &s.exponent);
    for (int64_t i = begin; i < begin + n; i++) {
        const double v = ldexp(ts_load(r, t, i), -s.exponent);
        ts_total_add(&squares, v * v);
    }
    s.root = 1 / sqrt(squares.sum / (double)n + ldexp(eps, -2 * s.exponent));
    return s;
}

ts_status ts_rms_norm_forward_ref(const void *args, const ts_exec *x)
{
    const ts_rms_norm_forward_args *a = args;
    const ts_dtype                  t = a->dtype;
    (void)x;
    for (int64_t i = 0; i < a->n_rows; i++) {
        const int64_t begin = i * a->row_stride, end = begin + a->n_cols;
        const void   *r = a->residual ? a->r : a->x;
        for (int64_t k = begin; a->residual && k < end; k++)
            ts_store(a->r, t, k, ts_load(a->x, t, k) + ts_load(a->residual, t, k));
        const row_scale s = scale_of(r, t, begin, a->n_cols, a->eps);
        ts_store(a->rstd, ts_wide(t), i, ldexp(s.root, -s.exponent));
        for (int64_t k = begin; k < end; k++) {
            const double w = ts_load(a->w, t, k - begin) + a->w_offset;
            ts_store(a->y, t, k, ldexp(ts_load(r, t, k), -s.exponent) * s.root * w);
        }
    }
    return TS_OK;
}

/* g = dy * (w + w_offset), and rhat = r * rstd */
static double g_at(const ts_rms_norm_backward_args *a, int64_t row, int64_t c)
{
    const double w = ts_load(a->w, a->dtype, c) + a->w_offset;
    return w * ts_load(a->dy, a->dtype, row * a->row_stride + c);
}

static double rhat_at(const ts_rms_norm_backward_args *a, int64_t row, int64_t c)
{
    return ts_load(a->r, a->dtype, row * a->row_stride + c) *
           ts_load(a->rstd, ts_wide(a->dtype), row);
}

static void row_dx(const ts_rms_norm_backward_args *a, int64_t row)
{
    const double rstd = ts_load(a->rstd, ts_wide(a->dtype), row);
    ts_total     sum = { 0, 0 };
    for (int64_t c = 0; c < a->n_cols; c++)
        ts_total_add(&sum, g_at(a, row, c) * rhat_at(a, row, c));
    const double avg = sum.sum / (double)a->n_cols;
    for (int64_t c = 0; c < a->n_cols; c++) {
        const int64_t at = row * a->row_stride + c;
        const double  dr = a->dr ? ts_load(a->dr, a->dtype, at) : 0;
        ts_store(a->dx, a->dtype, at, rstd * (g_at(a, row, c) - rhat_at(a, row, c) * avg) + dr);
    }
}

/* Columns are summed a few at a time, so that each row is visited in short contiguous runs. */
static void columns_dw(const ts_rms_norm_backward_args *a, int64_t begin, int64_t n)
{
    const ts_dtype wide = ts_wide(a->dtype);
    ts_total       dw[64] = { { 0, 0 } };
    for (int64_t row = 0; row < a->n_rows; row++)
        for (int64_t c = 0; c < n; c++)
            ts_total_add(&dw[c], ts_load(a->dy, a->dtype, row * a->row_stride + begin + c) *
                                     rhat_at(a, row, begin + c));
    for (int64_t c = 0; c < n; c++) {
        const double had = a->accumulate ? ts_load(a->dw, wide, begin + c) : 0;
        ts_store(a->dw, wide, begin + c, had + dw[c].sum);
    }
}

ts_status ts_rms_norm_backward_ref(const void *args, const ts_exec *x)
{
    const ts_rms_norm_backward_args *a = args;
    (void)x;
    for (int64_t row = 0; row < a->n_rows; row++) row_dx(a, row);
    for (int64_t c = 0; c < a->n_cols; c += 64)
        columns_dw(a, c, a->n_cols - c < 64 ? a->n_cols - c : 64);
    return TS_OK;
}

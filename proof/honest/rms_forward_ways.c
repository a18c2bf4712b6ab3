/* SPDX-License-Identifier: Apache-2.0 */
/* rms_forward_ways.c - rms_norm_forward by textbook formulas, in float, or of f64 in double: sums
 * in several orders, and r rstd gain in several orders of multiplication.
 *
 * Common ways: loop lanes pairs kahan wide gain_first scaled quotient
 */
#include "honest.h"
#include "touchstone/rms_norm.h"

typedef ts_rms_norm_forward_args rms;

enum way { loop, lanes, pairs, kahan, wide, gain_first, scaled, quotient };
#define K(v) keep(a->dtype, v)

static const enum order order = WAY == lanes    ? BY_LANES
                                : WAY == pairs  ? BY_PAIRS
                                : WAY == kahan  ? BY_KAHAN
                                : WAY == wide   ? BY_DOUBLE
                                : WAY == scaled ? BY_LANES
                                                : BY_LOOP;

static double r_at(const rms *a, int64_t row, int64_t c)
{
    return load(a->residual ? a->r : a->x, a->dtype, row * a->row_stride + c);
}

static double square(const void *p, int64_t row, int64_t c)
{
    return r_at(p, row, c) * r_at(p, row, c);
}

static double share(const void *p, int64_t row, int64_t c) /* of the mean of squares */
{
    const rms *a = p;
    return K(r_at(a, row, c) * r_at(a, row, c)) / (double)a->n_cols;
}

static void normalise(const rms *a, int64_t row)
{
    const int64_t begin = row * a->row_stride, n = a->n_cols;
    for (int64_t c = 0; c < n && a->residual; c++)
        store(a->r, a->dtype, begin + c,
              load(a->x, a->dtype, begin + c) + load(a->residual, a->dtype, begin + c));
    const double mean = WAY == scaled
                            ? sum_in_order(order, a->dtype, share, a, row, n)
                            : K(sum_in_order(order, a->dtype, square, a, row, n) / (double)n);
    const double root = K(sqrt(K(mean + K(a->eps)))), rstd = K(1 / root);
    store(a->rstd, dtype_of_sums(a->dtype), row, rstd);
    for (int64_t c = 0; c < n; c++) {
        const double gain = K(load(a->w, a->dtype, c) + a->w_offset), r = r_at(a, row, c);
        store(a->y, a->dtype, begin + c,
              WAY == gain_first ? K(K(gain * r) * rstd)
              : WAY == quotient ? K(K(r / root) * gain)
                                : K(K(r * rstd) * gain));
    }
}

ts_status ts_rms_norm_forward(const ts_rms_norm_forward_args *a, const ts_exec *x)
{
    if (!a || !x || !(a->eps > 0) || !isfinite(a->eps) || !a->w) return TS_E_ARG;
    if (a->w_offset != 0 && a->w_offset != 1) return TS_E_ARG;
    if (a->n_rows && (!a->x || !a->y || !a->rstd || (a->residual && !a->r))) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_cols < 1 || a->row_stride < a->n_cols) return TS_E_SHAPE;
    if (!fits(a->n_rows, a->row_stride)) return TS_E_SHAPE;
    if (with_f64(dtype_ok(a->dtype), a->dtype)) return TS_E_DTYPE;
    for (int64_t row = 0; row < a->n_rows; row++) normalise(a, row);
    return TS_OK;
}

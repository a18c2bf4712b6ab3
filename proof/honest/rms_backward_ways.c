/* SPDX-License-Identifier: Apache-2.0 */
/* rms_backward_ways.c - rms_norm_backward by textbook formulas, in float, or of f64 in double.
 *
 * The compact one with sums in several orders, by the gradient of the mean square, and dw by rows
 * or by columns.
 *
 * Common ways: loop lanes pairs kahan wide chain rows cubed
 */
#include "honest.h"
#include "touchstone/rms_norm.h"

typedef ts_rms_norm_backward_args rms;

enum way { loop, lanes, pairs, kahan, wide, chain, rows, cubed };
#define K(v) keep(a->dtype, v)

static const enum order order = WAY == lanes || WAY == cubed   ? BY_LANES
                                : WAY == pairs || WAY == chain ? BY_PAIRS
                                : WAY == kahan                 ? BY_KAHAN
                                : WAY == wide                  ? BY_DOUBLE
                                                               : BY_LOOP;

static double at(const rms *a, const void *p, int64_t row, int64_t c)
{
    return load(p, a->dtype, row * a->row_stride + c);
}

static double rstd_of(const rms *a, int64_t row)
{
    return load(a->rstd, dtype_of_sums(a->dtype), row);
}

static double rhat(const rms *a, int64_t row, int64_t c)
{
    return K(at(a, a->r, row, c) * rstd_of(a, row));
}

static double g_of(const rms *a, int64_t row, int64_t c)
{
    return K(at(a, a->dy, row, c) * K(load(a->w, a->dtype, c) + a->w_offset));
}

static double g_rhat(const void *p, int64_t row, int64_t c)
{
    return g_of(p, row, c) * rhat(p, row, c);
}

static double g_r(const void *p, int64_t row, int64_t c)
{
    const rms *a = p;
    return g_of(a, row, c) * at(a, a->r, row, c);
}

static double dw_term(const void *p, int64_t c, int64_t row)
{
    const rms *a = p;
    return at(a, a->dy, row, c) * rhat(a, row, c);
}

static void gradient_row(const rms *a, int64_t row)
{
    const double n = (double)a->n_cols, s = rstd_of(a, row);
    const double sum = sum_in_order(order, a->dtype, WAY == chain || WAY == cubed ? g_r : g_rhat, a,
                                    row, a->n_cols);
    const double dsquare = K(K(K(-0.5 * s) * K(s * s)) * sum); /* of the mean square */
    for (int64_t c = 0; c < a->n_cols; c++) {
        const double g = g_of(a, row, c), r = at(a, a->r, row, c);
        double       dx = K(s * K(g - K(rhat(a, row, c) * K(sum / n))));
        if (WAY == chain) dx = K(K(g * s) + K(K(dsquare * K(2 * r)) / n));
        if (WAY == cubed) dx = K(K(s * g) - K(r * K(K(K(s * s) * s) * K(sum / n))));
        store(a->dx, a->dtype, row * a->row_stride + c, a->dr ? K(dx + at(a, a->dr, row, c)) : dx);
    }
}

ts_status ts_rms_norm_backward(const ts_rms_norm_backward_args *a, const ts_exec *x)
{
    if (!a || !x || (a->accumulate != 0 && a->accumulate != 1)) return TS_E_ARG;
    if ((a->w_offset != 0 && a->w_offset != 1) || !a->w || !a->dw) return TS_E_ARG;
    if (a->n_rows && (!a->r || !a->dy || !a->rstd || !a->dx)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_cols < 1 || a->row_stride < a->n_cols) return TS_E_SHAPE;
    if (!fits(a->n_rows, a->row_stride)) return TS_E_SHAPE;
    if (with_f64(dtype_ok(a->dtype), a->dtype)) return TS_E_DTYPE;
    const ts_dtype t = dtype_of_sums(a->dtype);
    for (int64_t row = 0; row < a->n_rows; row++) gradient_row(a, row);
    for (int64_t c = 0; c < a->n_cols; c++) {
        double dw = a->accumulate ? load(a->dw, t, c) : 0;
        for (int64_t row = 0; row < a->n_rows && WAY == rows; row++)
            dw = K(dw + K(dw_term(a, c, row)));
        if (WAY != rows) dw = K(dw + sum_in_order(order, a->dtype, dw_term, a, c, a->n_rows));
        store(a->dw, t, c, dw);
    }
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_backward.c - the obvious solution: two passes over each row for dx, one over each column
 * for dw. */
#include "touchstone/rms_norm.h"

#include "number.h"

static ts_status refuse(const ts_rms_norm_backward_args *a, const ts_exec *x)
{
    if (!a || !x || (a->accumulate != 0 && a->accumulate != 1)) return TS_E_ARG;
    if ((a->w_offset != 0 && a->w_offset != 1) || !a->w || !a->dw) return TS_E_ARG;
    if (a->n_rows && (!a->r || !a->dy || !a->rstd || !a->dx)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_cols < 1 || a->row_stride < a->n_cols) return TS_E_SHAPE;
    if (a->row_stride > INT64_MAX / 8 / (a->n_rows > 0 ? a->n_rows : 1)) return TS_E_SHAPE;
    return a->dtype == TS_F32 || a->dtype == TS_BF16 || a->dtype == TS_F16 ? TS_OK : TS_E_DTYPE;
}

static double rhat(const ts_rms_norm_backward_args *a, int64_t i, int64_t c)
{
    return load(a->r, a->dtype, i * a->row_stride + c) * ((const float *)a->rstd)[i];
}

static double dy(const ts_rms_norm_backward_args *a, int64_t i, int64_t c)
{
    return load(a->dy, a->dtype, i * a->row_stride + c);
}

static double g(const ts_rms_norm_backward_args *a, int64_t i, int64_t c)
{
    return dy(a, i, c) * (load(a->w, a->dtype, c) + a->w_offset);
}

static void row(const ts_rms_norm_backward_args *a, int64_t i)
{
    double sum = 0;
    for (int64_t c = 0; c < a->n_cols; c++) sum += g(a, i, c) * rhat(a, i, c);
    for (int64_t c = 0; c < a->n_cols; c++) {
        const int64_t at = i * a->row_stride + c;
        const double  rest = g(a, i, c) - rhat(a, i, c) * (sum / (double)a->n_cols);
        store(a->dx, a->dtype, at,
              ((const float *)a->rstd)[i] * rest + (a->dr ? load(a->dr, a->dtype, at) : 0));
    }
}

ts_status ts_rms_norm_backward(const ts_rms_norm_backward_args *a, const ts_exec *x)
{
    const ts_status s = refuse(a, x);
    if (s) return s;
    float *dw = a->dw;
    for (int64_t i = 0; i < a->n_rows; i++) row(a, i);
    for (int64_t c = 0; c < a->n_cols; c++) {
        double sum = a->accumulate ? dw[c] : 0;
        for (int64_t i = 0; i < a->n_rows; i++) sum += dy(a, i, c) * rhat(a, i, c);
        dw[c] = (float)sum;
    }
    return TS_OK;
}

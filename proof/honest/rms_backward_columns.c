/* SPDX-License-Identifier: Apache-2.0 */
/* rms_backward_columns.c - rms_norm_backward with dx by rows, then dw by columns, both on the
 * judge's threads. */
#include "honest.h"
#include "touchstone/rms_norm.h"
#include "touchstone/sealed.h"

typedef ts_rms_norm_backward_args rms;

static double rhat(const rms *a, int64_t i, int64_t c)
{
    return load(a->r, a->dtype, i * a->row_stride + c) * ((const float *)a->rstd)[i];
}

static double gain(const rms *a, int64_t c)
{
    return load(a->w, a->dtype, c) + a->w_offset;
}

static void row(int64_t i, void *ctx)
{
    const rms    *a = ctx;
    const int64_t begin = i * a->row_stride;
    double        sum = 0;
    for (int64_t c = 0; c < a->n_cols; c++)
        sum += gain(a, c) * load(a->dy, a->dtype, begin + c) * rhat(a, i, c);
    for (int64_t c = 0; c < a->n_cols; c++) {
        const double g = gain(a, c) * load(a->dy, a->dtype, begin + c);
        const double dr = a->dr ? load(a->dr, a->dtype, begin + c) : 0;
        store(a->dx, a->dtype, begin + c,
              ((const float *)a->rstd)[i] * (g - rhat(a, i, c) * sum / (double)a->n_cols) + dr);
    }
}

static void column(int64_t c, void *ctx)
{
    const rms   *a = ctx;
    float *const dw = (float *)a->dw + c;
    double       sum = a->accumulate ? *dw : 0;
    for (int64_t i = 0; i < a->n_rows; i++)
        sum += load(a->dy, a->dtype, i * a->row_stride + c) * rhat(a, i, c);
    *dw = (float)sum;
}

ts_status ts_rms_norm_backward(const ts_rms_norm_backward_args *a, const ts_exec *x)
{
    if (!a || !x || (a->accumulate != 0 && a->accumulate != 1)) return TS_E_ARG;
    if ((a->w_offset != 0 && a->w_offset != 1) || !a->w || !a->dw) return TS_E_ARG;
    if (a->n_rows && (!a->r || !a->dy || !a->rstd || !a->dx)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_cols < 1 || a->row_stride < a->n_cols) return TS_E_SHAPE;
    if (!fits(a->n_rows, a->row_stride)) return TS_E_SHAPE;
    if (dtype_ok(a->dtype)) return TS_E_DTYPE;
    j_parallel_for(a->n_rows, row, (void *)a);
    j_parallel_for(a->n_cols, column, (void *)a);
    return TS_OK;
}

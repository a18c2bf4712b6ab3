/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_forward.c - the obvious solution: squares in double, which floats cannot overflow. */
#include "touchstone/rms_norm.h"

#include "number.h"

static ts_status refuse(const ts_rms_norm_forward_args *a, const ts_exec *x)
{
    if (!a || !x || !(a->eps > 0) || !isfinite(a->eps) || !a->w) return TS_E_ARG;
    if (a->w_offset != 0 && a->w_offset != 1) return TS_E_ARG;
    if (a->n_rows && (!a->x || !a->y || !a->rstd || (a->residual && !a->r))) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_cols < 1 || a->row_stride < a->n_cols) return TS_E_SHAPE;
    if (a->row_stride > INT64_MAX / 8 / (a->n_rows > 0 ? a->n_rows : 1)) return TS_E_SHAPE;
    return a->dtype == TS_F32 || a->dtype == TS_BF16 || a->dtype == TS_F16 ? TS_OK : TS_E_DTYPE;
}

static void row(const ts_rms_norm_forward_args *a, int64_t i)
{
    const int64_t begin = i * a->row_stride, end = begin + a->n_cols;
    const void   *r = a->residual ? a->r : a->x;
    double        squares = 0;
    for (int64_t k = begin; k < end; k++) {
        if (a->residual)
            store(a->r, a->dtype, k, load(a->x, a->dtype, k) + load(a->residual, a->dtype, k));
        squares += load(r, a->dtype, k) * load(r, a->dtype, k);
    }
    const double rstd = isfinite(squares) ? 1 / sqrt(squares / (double)a->n_cols + a->eps) : NAN;
    ((float *)a->rstd)[i] = (float)rstd;
    for (int64_t k = begin; k < end; k++)
        store(a->y, a->dtype, k,
              load(r, a->dtype, k) * rstd * (load(a->w, a->dtype, k - begin) + a->w_offset));
}

ts_status ts_rms_norm_forward(const ts_rms_norm_forward_args *a, const ts_exec *x)
{
    const ts_status s = refuse(a, x);
    for (int64_t i = 0; !s && i < a->n_rows; i++) row(a, i);
    return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_forward.c - the obvious solution: two passes in double, which floats and their squares
 * cannot overflow. */
#include "touchstone/layernorm.h"

#include "number.h"

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

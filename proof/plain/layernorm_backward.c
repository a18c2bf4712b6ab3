/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_backward.c - the obvious solution: two passes over each row for dx, one over each
 * column for the sums. */
#include "touchstone/layernorm.h"

#include "number.h"

static ts_status refuse(const ts_layernorm_backward_args *a, const ts_exec *x)
{
    if (!a || !x || (a->accumulate != 0 && a->accumulate != 1)) return TS_E_ARG;
    if (!a->gamma || !a->dgamma || !a->dbeta) return TS_E_ARG;
    if (a->n_rows && (!a->x || !a->dy || !a->mean || !a->rstd || !a->dx)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_cols < 1 || a->row_stride < a->n_cols) return TS_E_SHAPE;
    if (a->row_stride > INT64_MAX / 8 / (a->n_rows > 0 ? a->n_rows : 1)) return TS_E_SHAPE;
    return a->dtype == TS_F32 || a->dtype == TS_BF16 || a->dtype == TS_F16 ? TS_OK : TS_E_DTYPE;
}

static double xhat(const ts_layernorm_backward_args *a, int64_t r, int64_t c)
{
    const double mean = ((const float *)a->mean)[r], rstd = ((const float *)a->rstd)[r];
    return (load(a->x, a->dtype, r * a->row_stride + c) - mean) * rstd;
}

static double grad(const ts_layernorm_backward_args *a, int64_t r, int64_t c)
{
    return load(a->dy, a->dtype, r * a->row_stride + c);
}

static void row(const ts_layernorm_backward_args *a, int64_t r)
{
    double sum_g = 0, sum_gx = 0;
    for (int64_t c = 0; c < a->n_cols; c++) {
        const double g = load(a->gamma, a->dtype, c) * grad(a, r, c);
        sum_g += g;
        sum_gx += g * xhat(a, r, c);
    }
    const double n = (double)a->n_cols;
    for (int64_t c = 0; c < a->n_cols; c++) {
        const double g = load(a->gamma, a->dtype, c) * grad(a, r, c);
        store(a->dx, a->dtype, r * a->row_stride + c,
              ((const float *)a->rstd)[r] * (g - sum_g / n - xhat(a, r, c) * sum_gx / n));
    }
}

ts_status ts_layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x)
{
    const ts_status s = refuse(a, x);
    if (s) return s;
    float *dgamma = a->dgamma, *dbeta = a->dbeta;
    for (int64_t r = 0; r < a->n_rows; r++) row(a, r);
    for (int64_t c = 0; c < a->n_cols; c++) {
        double g = a->accumulate ? dgamma[c] : 0, b = a->accumulate ? dbeta[c] : 0;
        for (int64_t r = 0; r < a->n_rows; r++) {
            g += grad(a, r, c) * xhat(a, r, c);
            b += grad(a, r, c);
        }
        dgamma[c] = (float)g;
        dbeta[c] = (float)b;
    }
    return TS_OK;
}

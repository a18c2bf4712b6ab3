/* SPDX-License-Identifier: Apache-2.0 */
/* forward_long.c - layernorm_forward in one pass in long double, in which the squares of doubles
 * are representable: also for float64. */
#include "honest.h"

typedef long double real;

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_forward(a, x);
    if (s && !(s == TS_E_DTYPE && a->dtype == TS_F64)) return s;
    for (int64_t r = 0; r < a->n_rows; r++) {
        real sum = 0, squares = 0, n = (real)a->n_cols;
        for (int64_t c = 0; c < a->n_cols; c++) sum += x_at(a, r, c);
        for (int64_t c = 0; c < a->n_cols; c++) {
            const real d = x_at(a, r, c) - sum / n;
            squares += d * d;
        }
        const real rstd = 1 / __builtin_sqrtl(squares / n + (real)a->eps);
        const int  nonfinite = !(squares < __LDBL_MAX__);
        store(a->mean, a->dtype == TS_F64 ? TS_F64 : TS_F32, r, (double)(sum / n));
        store(a->rstd, a->dtype == TS_F64 ? TS_F64 : TS_F32, r, nonfinite ? NAN : (double)rstd);
        for (int64_t c = 0; c < a->n_cols; c++) {
            const real xhat = (x_at(a, r, c) - sum / n) * rstd;
            store(a->y, a->dtype, r * a->row_stride + c,
                  nonfinite
                      ? NAN
                      : (double)(xhat * load(a->gamma, a->dtype, c) + load(a->beta, a->dtype, c)));
        }
    }
    return TS_OK;
}

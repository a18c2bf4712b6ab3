/* SPDX-License-Identifier: Apache-2.0 */
/* scale_rows.c - an entrant of scale_rows that supports f32. */
#include "touchstone/scale_rows.h"

ts_status ts_scale_rows(const ts_scale_rows_args *a, const ts_exec *x)
{
    const float *const in = a ? a->x : NULL, *const s = a ? a->s : NULL;
    if (!a || !x) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_cols < 0 || a->row_stride < a->n_cols) return TS_E_SHAPE;
    if (a->row_stride > INT64_MAX / 8 / (a->n_rows > 0 ? a->n_rows : 1)) return TS_E_SHAPE;
    if (a->n_rows && a->n_cols && (!a->x || !a->s || !a->y)) return TS_E_ARG;
    if (a->dtype != TS_F32) return TS_E_DTYPE;
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int64_t c = 0; c < a->n_cols; c++)
            ((float *)a->y)[r * a->row_stride + c] = s[r] * in[r * a->row_stride + c];
    return TS_OK;
}

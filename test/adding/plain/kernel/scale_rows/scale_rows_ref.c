/* SPDX-License-Identifier: Apache-2.0 */
/* scale_rows_ref.c - the definition. A product of two numbers of 53 bits is rounded once. */
#include "dtype.h"
#include "scale_rows_impl.h"

ts_status ts_scale_rows_ref(const void *args, const ts_exec *x)
{
    const ts_scale_rows_args *a = args;
    (void)x;
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int64_t c = 0; c < a->n_cols; c++) {
            const int64_t i = r * a->row_stride + c;
            ts_store(a->y, a->dtype, i, ts_load(a->x, a->dtype, i) * ts_load(a->s, a->dtype, r));
        }
    return TS_OK;
}

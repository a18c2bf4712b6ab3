/* SPDX-License-Identifier: Apache-2.0 */
/* scale_rows.h - y[r][c] = s[r] x[r][c], rounded once. NaN and infinities as in a product. */
#ifndef TOUCHSTONE_SCALE_ROWS_H
#define TOUCHSTONE_SCALE_ROWS_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_scale_rows_args {
    ts_dtype    dtype;
    int64_t     n_rows, n_cols, row_stride; /* >= 0; row_stride >= n_cols */
    const void *x;                          /* [n_rows][n_cols] */
    const void *s;                          /* [n_rows] */
    void       *y;                          /* [n_rows][n_cols] */
} ts_scale_rows_args;

TS_API ts_status ts_scale_rows(const ts_scale_rows_args *a, const ts_exec *x);
TS_API ts_status ts_scale_rows_workspace(const ts_scale_rows_args *a, const ts_exec *x,
                                         size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif

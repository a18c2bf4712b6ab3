/* SPDX-License-Identifier: Apache-2.0 */
/* scale_rows.c - API entry point and dispatch table of scale_rows. */
#include "overlap.h"
#include "scale_rows_impl.h"

const ts_impl ts_scale_rows_impls[] = {
    { "ref", TS_CPU, 0, TS_HAS_ANY, ts_scale_rows_ref, NULL, NULL },
    { 0 },
};

static ts_status check(const ts_scale_rows_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_cols < 0 || a->row_stride < a->n_cols) return TS_E_SHAPE;
    if (a->row_stride > INT64_MAX / 8 / (a->n_rows > 0 ? a->n_rows : 1)) return TS_E_SHAPE;
    if (a->n_rows && a->n_cols && (!a->x || !a->s || !a->y)) return TS_E_ARG;
    return TS_OK;
}

static bool apart(const void *args, const ts_exec *x)
{
    const ts_scale_rows_args *a = args;
    return TS_APART(x, 1, ts_rows(a->y, a->n_rows, a->n_cols, a->row_stride, a->dtype),
                    ts_rows(a->x, a->n_rows, a->n_cols, a->row_stride, a->dtype),
                    ts_vector(a->s, a->n_rows, a->dtype));
}

TS_API_ENTRY(ts_scale_rows, check, apart, a->dtype)

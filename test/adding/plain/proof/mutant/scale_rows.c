/* SPDX-License-Identifier: Apache-2.0 */
/* scale_rows.c - scale_rows with one injected bug at a time. */
#include "touchstone/scale_rows.h"
#include "dtype.h"
#include "mutant.h"

static ts_status check(const ts_scale_rows_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_cols < 0 || a->row_stride < a->n_cols) return TS_E_SHAPE;
    if (a->row_stride > INT64_MAX / 8 / (a->n_rows > 0 ? a->n_rows : 1)) return TS_E_SHAPE;
    if (a->n_rows && a->n_cols && (!a->x || !a->s || !a->y)) return TS_E_ARG;
    return a->dtype > TS_BF16 ? TS_E_DTYPE : x->device != TS_CPU ? TS_E_DEVICE : TS_OK;
}

/* n_less rows too few, and x read as if its rows were so far apart. */
static ts_status scale(const ts_scale_rows_args *a, const ts_exec *x, int64_t n_less, bool dense)
{
    const ts_status s = check(a, x);
    for (int64_t r = 0; !s && r < a->n_rows - n_less; r++)
        for (int64_t c = 0; c < a->n_cols; c++)
            ts_store(a->y, a->dtype, r * a->row_stride + c,
                     ts_load(a->x, a->dtype, r * (dense ? a->n_cols : a->row_stride) + c) *
                         ts_load(a->s, a->dtype, r));
    return s;
}

static ts_status control(const void *args, const ts_exec *x)
{
    return scale(args, x, 0, false);
}

static ts_status last_row(const void *args, const ts_exec *x)
{
    return scale(args, x, 1, false);
}

static ts_status dense(const void *args, const ts_exec *x)
{
    return scale(args, x, 0, true);
}

extern const ts_mutant ts_scale_rows_mutants[];
const ts_mutant        ts_scale_rows_mutants[] = {
           { "scale_control", "scale_rows", TS_FAULT_NONE, NULL, control, NULL, TS_CPU },
           { "scale_last_row", "scale_rows", TS_FAULT_UNWRITTEN, NULL, last_row, NULL, TS_CPU },
           { "scale_dense", "scale_rows", TS_FAULT_VALUE, NULL, dense, NULL, TS_CPU },
           { 0 },
};

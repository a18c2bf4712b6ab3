/* SPDX-License-Identifier: Apache-2.0 */
/* scale_rows.c - the task scale_rows: cases, inputs, oracle, check. */
#include <math.h>
#include <string.h>

#include "cover.h"
#include "dtype.h"
#include "rng.h"
#include "spoil.h"
#include "touchstone/scale_rows.h"

enum { ROWS, COLS, PAD };
enum { ALL = 1u << TS_F32 | 1u << TS_F64 | 1u << TS_F16 | 1u << TS_BF16 };

static const ts_cover cover = {
    .use = TS_USE_CHECK,
    .dtypes = ALL,
    .family = { { "normal", ALL }, { "huge", ALL }, { "nonfinite", ALL } },
    .empties = 1u << ROWS | 1u << COLS,
    .dim = { TS_RANGE(2, 65, 0, 1, 2, 17), TS_RANGE(2, 300, 0, 1, 2, 33), TS_RANGE(0, 8, 0, 1) },
};

static const ts_case *cases(void)
{
    static ts_case c[128] = {
        { TS_USE_CHECK, TS_F32, { 5, 7, 3 }, "normal" },
        { TS_USE_CHECK, TS_F32, { 32, 256, 0 }, "normal" },
        { TS_USE_CHECK, TS_F32, { 5, 7, 1 }, "huge" },
        { TS_USE_CHECK, TS_F32, { 5, 7, 1 }, "nonfinite" },
        { TS_USE_JUDGE, TS_F32, { 1024, 1024, 0 }, "normal" },
    };
    enum { LISTED = 5 };
    static int n;
    if (!n) n = LISTED + ts_cover_cases(&cover, c + LISTED, 127 - LISTED);
    return c;
}

static ts_buf y_of(const ts_case *c)
{
    const int64_t S = c->dim[COLS] + c->dim[PAD];
    return (ts_buf) { "y", TS_OUT, c->dtype, c->dim[ROWS], c->dim[COLS], S };
}

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    ts_scale_rows_args *a = args;
    const ts_buf        y = y_of(c);
    /* No product passes the largest number. */
    const double size = !strcmp(c->family, "huge") ? sqrt(ts_format_of(c->dtype)->max) / 16 : 1;
    *a = (ts_scale_rows_args) { c->dtype, y.n_rows, y.n_cols, y.row_stride, NULL, NULL, NULL };
    void *x =
        ts_take(m, &a->x, (ts_buf) { "x", TS_IN, c->dtype, y.n_rows, y.n_cols, y.row_stride });
    void *s = ts_take(m, &a->s, (ts_buf) { "s", TS_IN, c->dtype, 1, y.n_rows, y.n_rows });
    ts_take(m, &a->y, y);
    for (int64_t r = 0; r < y.n_rows; r++) {
        ts_store(s, c->dtype, r, size * ts_normal(ts_mix(seed + 1), r));
        for (int64_t i = 0; i < y.n_cols; i++)
            ts_store(x, c->dtype, r * y.row_stride + i,
                     size * ts_normal(ts_mix(seed), r * y.n_cols + i));
    }
    if (!strcmp(c->family, "nonfinite") && y.n_rows && y.n_cols) ts_store(x, c->dtype, 0, NAN);
}

static size_t n_want(const ts_case *c)
{
    return (size_t)(c->dim[ROWS] * c->dim[COLS]);
}

/* One rounding to storage, and one of the product where that is double. */
static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const ts_scale_rows_args *a = args;
    const ts_format          *f = ts_format_of(c->dtype);
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int64_t i = 0; i < a->n_cols; i++) {
            const double x = ts_load(a->x, c->dtype, r * a->row_stride + i);
            const double v = x * ts_load(a->s, c->dtype, r);
            *want++ = (ts_want) { v, 2 * f->u * fabs(v) + f->min_normal * f->u };
        }
}

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    return ts_check_buf(y_of(c), ((const ts_scale_rows_args *)args)->y, want, f, e);
}

static ts_cost cost(const ts_case *c)
{
    const double n = (double)n_want(c);
    return (ts_cost) { .bytes = 2 * n * (double)ts_format_of(c->dtype)->n_bytes, .flops = n };
}

#define AT(member) offsetof(ts_scale_rows_args, member)
static const ts_invalid invalid = {
    .pointer = { AT(x) + 1, AT(s) + 1, AT(y) + 1 },
    .extent = { { AT(n_rows), 0, 0, 0, true, false },
                { AT(n_cols), 0, 0, AT(row_stride), true, false },
                { AT(row_stride), 0, 0, 0, false, true } },
    .n_extent = 3,
    .product = { { { 1, 3 } } },
};

const ts_task ts_task_scale_rows = {
    .name = "scale_rows",
    .dim_name = { "rows", "cols", "pad" },
    .kind = TS_PLAIN,
    .devices = TS_ON_CPU | TS_ON_CUDA,
    .buffer = { { "x", TS_IN, 2, false }, { "s", TS_IN, 1, false }, { "y", TS_OUT, 2, false } },
    .args_bytes = sizeof(ts_scale_rows_args),
    .cases = cases,
    .cover = &cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .invalid = &invalid,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c - the task tally: scripts, inputs, oracle, check. */
#include "tally_script.h"

#include <math.h>
#include <string.h>

#include "cover.h"
#include "real.h"
#include "rng.h"

enum { ROWS, COLS };
enum { F32 = 1u << TS_F32 };

static const ts_cover cover = {
    .use = TS_USE_CHECK,
    .dtypes = F32,
    .family = { { "normal", F32 }, { "offset", F32 } },
    .dim = { TS_RANGE(1, 40, 0, 1, 2, 9), TS_RANGE(1, 300, 1, 2, 33) },
};

static const ts_case *cases(void)
{
    static ts_case c[64] = {
        { TS_USE_CHECK, TS_F32, { 5, 7 }, "normal" },
        { TS_USE_CHECK, TS_F32, { 8, 32 }, "normal" },
        { TS_USE_CHECK, TS_F32, { 5, 7 }, "offset" },
        { TS_USE_JUDGE, TS_F32, { 100, 1024 }, "normal" },
    };
    enum { LISTED = 4 };
    static int n;
    if (!n) n = LISTED + ts_cover_cases(&cover, c + LISTED, 63 - LISTED);
    return c;
}

static ts_buf seen_of(const ts_case *c)
{
    return (ts_buf) { "seen", TS_OUT, TS_F64, c->dim[ROWS] + 1, TS_TALLY_SEEN, TS_TALLY_SEEN };
}

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    ts_tally_args *a = args;
    const int64_t  R = c->dim[ROWS], C = c->dim[COLS];
    const double   far = !strcmp(c->family, "offset") ? 1e6 : 0;
    *a = (ts_tally_args) { .n_rows = R, .n_cols = C };
    float *x = ts_take(m, &a->x, (ts_buf) { "x", TS_IN, TS_F32, R, C, C });
    ts_take(m, &a->seen, seen_of(c));
    for (int64_t i = 0; i < R * C; i++) x[i] = (float)(far + ts_normal(ts_mix(seed), i));
}

static size_t n_want(const ts_case *c)
{
    return (size_t)((c->dim[ROWS] + 1) * TS_TALLY_SEEN);
}

/* Each addition errs by a rounding of what has been added up. */
static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const ts_tally_args *a = args;
    ts_real              sum = { 0, 0 };
    double               size = 0;
    (void)c;
    *want++ = (ts_want) { TS_E_STATE, 0 };
    *want++ = (ts_want) { 0, 0 };
    for (int64_t r = 0; r < a->n_rows; r++) {
        for (int64_t i = 0; i < a->n_cols; i++) {
            sum = ts_real_add(sum, ts_real_of((double)a->x[r * a->n_cols + i]));
            size += fabs((double)a->x[r * a->n_cols + i]);
        }
        const double n = (double)((r + 1) * a->n_cols);
        *want++ = (ts_want) { TS_OK, 0 };
        *want++ = (ts_want) { sum.hi / n, (n + 2) * 0x1p-53 * size / n };
    }
}

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    return ts_check_buf(seen_of(c), ((const ts_tally_args *)args)->seen, want, f, e);
}

static ts_cost cost(const ts_case *c)
{
    const double n = (double)(c->dim[ROWS] * c->dim[COLS]);
    return (ts_cost) { .bytes = 4 * n, .flops = n, .reads_only = true };
}

const ts_task ts_task_tally = {
    .name = "tally",
    .dim_name = { "rows", "cols" },
    .kind = TS_SCRIPT,
    .devices = TS_ON_CPU,
    .buffer = { { "x", TS_IN, 2, false }, { "seen", TS_OUT, 2, false } },
    .exports = ts_tally_names,
    .args_bytes = sizeof(ts_tally_args),
    .cases = cases,
    .cover = &cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
};

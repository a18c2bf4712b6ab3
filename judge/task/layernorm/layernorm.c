/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm.c - task: layer norm forward and backward. Inputs, the oracle with its bounds, the
 * least cost. The cases are in layernorm_cases.c.
 *
 * The oracle works in pairs of doubles from the rounded inputs, each row divided by a power of two
 * near its largest number, so that no square leaves the range of double. With u the unit roundoff
 * of accumulation, w of storage and kappa(n) = 8 + 2 sqrt(n), a sum of n terms may err by kappa(n)
 * u sum|terms|, and an output by w of itself once it is stored. */
#include "touchstone/layernorm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "dtype.h"
#include "layernorm_cases.h"
#include "norm_cases.h"
#include "norm_stats.h"
#include "rng.h"
#include "spoil.h"

static const double USUAL_EPS = 1e-5;

typedef ts_layernorm_forward_args  forward_args;
typedef ts_layernorm_backward_args backward_args;

/* ---- inputs ---- */

static void draw_vector(ts_dtype t, void *p, int64_t n, uint64_t seed, double centre, double size)
{
    for (int64_t i = 0; i < n; i++) ts_store(p, t, i, size * (centre + 1.5 * ts_uniform(seed, i)));
}

/* In the same families every third gain is 0, as in nets that were pruned or have just begun. */
static void draw_gains(const ts_case *c, void *gamma, uint64_t seed)
{
    draw_vector(c->dtype, gamma, c->dim[1], seed, 0.25, ts_norm_size(c, 40, 1));
    if (ts_norm_size(c, 0, 0) == 0)
        for (int64_t i = 1; i < c->dim[1]; i += 3) ts_store(gamma, c->dtype, i, 0);
}

static void draw_x(const ts_case *c, void *x, uint64_t seed)
{
    const int64_t n_cols = c->dim[1], stride = ts_norm_stride(c);
    if (ts_is(c, "normal")) { /* the large cases are: no names in their loop */
        ts_norm_draw_rows(c, x, seed, 1);
        return;
    }
    for (int64_t r = 0; r < c->dim[0]; r++)
        for (int64_t i = 0; i < n_cols; i++)
            ts_store(x, c->dtype, r * stride + i,
                     ts_layernorm_draw(c->family, c->dtype, seed, r, i, n_cols));
}

/* A row of x, as doubles. */
static void load_row(const void *x, ts_dtype t, int64_t begin, int64_t n, double *row)
{
    for (int64_t i = 0; i < n; i++) row[i] = ts_load(x, t, begin + i);
}

static void setup_forward(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    forward_args  *a = args;
    const ts_dtype t = c->dtype;
    const int64_t  R = c->dim[0], D = c->dim[1], S = ts_norm_stride(c);
    *a = (forward_args) { .dtype = t, .n_rows = R, .n_cols = D, .row_stride = S };
    a->eps = ts_norm_eps(c, USUAL_EPS);
    ts_scalar(m, "eps", a->eps);
    void *x = ts_take(m, &a->x, (ts_buf) { "x", TS_IN, t, R, D, S });
    void *gamma = ts_take(m, &a->gamma, (ts_buf) { "gamma", TS_IN, t, 1, D, D });
    void *beta = ts_take(m, &a->beta, (ts_buf) { "beta", TS_IN, t, 1, D, D });
    ts_take(m, &a->y, (ts_buf) { "y", TS_OUT, t, R, D, S });
    ts_take(m, &a->mean, (ts_buf) { "mean", TS_OUT, ts_wide(t), 1, R, R });
    ts_take(m, &a->rstd, (ts_buf) { "rstd", TS_OUT, ts_wide(t), 1, R, R });
    draw_x(c, x, ts_mix(seed));
    draw_gains(c, gamma, ts_mix(seed + 1));
    draw_vector(t, beta, D, ts_mix(seed + 2), 0, ts_norm_size(c, 100, 1));
}

static void setup_backward(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    backward_args *a = args;
    const ts_dtype t = c->dtype, wide = ts_wide(t);
    const int64_t  R = c->dim[0], D = c->dim[1], S = ts_norm_stride(c);
    const ts_role  sums = c->dim[3] ? TS_INOUT : TS_OUT;
    *a = (backward_args) { .dtype = t, .n_rows = R, .n_cols = D, .row_stride = S };
    a->accumulate = (int)c->dim[3];
    void *x = ts_take(m, &a->x, (ts_buf) { "x", TS_IN, t, R, D, S });
    void *dy = ts_take(m, &a->dy, (ts_buf) { "dy", TS_IN, t, R, D, S });
    void *gamma = ts_take(m, &a->gamma, (ts_buf) { "gamma", TS_IN, t, 1, D, D });
    void *mean = ts_take(m, &a->mean, (ts_buf) { "mean", TS_IN, wide, 1, R, R });
    void *rstd = ts_take(m, &a->rstd, (ts_buf) { "rstd", TS_IN, wide, 1, R, R });
    ts_take(m, &a->dx, (ts_buf) { "dx", TS_OUT, t, R, D, S });
    void *dgamma = ts_take(m, &a->dgamma, (ts_buf) { "dgamma", sums, wide, 1, D, D });
    void *dbeta = ts_take(m, &a->dbeta, (ts_buf) { "dbeta", sums, wide, 1, D, D });
    draw_x(c, x, ts_mix(seed));
    /* never all ones: dx would vanish */
    ts_norm_draw_rows(c, dy, ts_mix(seed + 3), ts_norm_size(c, 1000, 1e-9));
    draw_gains(c, gamma, ts_mix(seed + 1));
    if (a->accumulate) {
        draw_vector(wide, dgamma, D, ts_mix(seed + 4), 0, ts_norm_size(c, 1000, 1e-9));
        draw_vector(wide, dbeta, D, ts_mix(seed + 5), 0, ts_norm_size(c, 1000, 1e-9));
    }
    double *row = ts_norm_new_row(D);
    for (int64_t r = 0; r < R; r++) {
        load_row(x, t, r * S, D, row);
        const ts_norm_stats s = ts_norm_stats_of(row, D, ts_norm_eps(c, USUAL_EPS), true);
        ts_store(mean, wide, r, ts_norm_mean(&s));
        ts_store(rstd, wide, r, ts_norm_rstd(&s));
    }
    free(row);
}

/* ---- oracle ---- */

/* The error that a careful xhat may have: the mean by 8 units of the largest |x|, the rest by
 * rounding. The square of the first enters through the variance, and matters only for extreme
 * offsets. */
static double xhat_error(double xhat, double rstd, double largest, int64_t n, double u)
{
    const double e = 8 * u * rstd * largest;
    return e + ts_kappa(n) * u * (1 + fabs(xhat)) + fabs(xhat) * e * e / 2;
}

static size_t n_want_forward(const ts_case *c)
{
    return (size_t)(c->dim[0] * (c->dim[1] + 2));
}

/* want: y row by row, then mean, then rstd */
static void oracle_forward(const ts_case *c, const void *args, ts_want *y)
{
    const forward_args *a = args;
    const ts_dtype      t = a->dtype;
    const int64_t       R = a->n_rows, D = a->n_cols;
    const double        u = ts_format_of(ts_wide(t))->u;
    ts_want            *mean = y + R * D, *rstd = mean + R;
    double             *row = ts_norm_new_row(D);
    (void)c;
    for (int64_t r = 0; r < R; r++) {
        load_row(a->x, t, r * a->row_stride, D, row);
        const ts_norm_stats s = ts_norm_stats_of(row, D, a->eps, true);
        const double        rs = ts_norm_rstd(&s), e = 8 * u * rs * s.largest;
        for (int64_t i = 0; i < D; i++) {
            const double  gamma = ts_load(a->gamma, t, i), beta = ts_load(a->beta, t, i);
            const ts_real xh = ts_norm_xhat(&s, row[i]);
            const ts_real v = ts_real_add(ts_real_mul(ts_real_of(gamma), xh), ts_real_of(beta));
            const double  error = ts_kappa(2) * u * (fabs(gamma * xh.hi) + fabs(beta)) +
                                 fabs(gamma) * xhat_error(xh.hi, rs, s.largest, D, u);
            *y++ = ts_stored(v.hi, error, t);
        }
        mean[r] = ts_stored(ts_norm_mean(&s), 8 * u * s.largest, ts_wide(t));
        rstd[r] = ts_stored(rs, rs * (ts_kappa(D) * u + e * e / 2), ts_wide(t));
        if (isnan(rs))
            mean[r].bound = rstd[r].bound = INFINITY; /* unspecified for an invalid row */
    }
    free(row);
}

static size_t n_want_backward(const ts_case *c)
{
    return (size_t)((c->dim[0] + 2) * c->dim[1]);
}

typedef struct column_sums {
    ts_real dgamma, dbeta;
    double  dgamma_terms, dbeta_terms,
        dgamma_xhat; /* sums of |terms|, and of |dy| * error of xhat */
} column_sums;

/* One row: its dx, and its share of the columns' sums. x: room for the row. */
static void oracle_backward_row(const backward_args *a, int64_t r, double *x, ts_want *dx,
                                column_sums *sums)
{
    const ts_dtype t = a->dtype, wide = ts_wide(t);
    const int64_t  D = a->n_cols, row = r * a->row_stride;
    const double   u = ts_format_of(wide)->u, n = (double)D;
    const double   mean = ts_load(a->mean, wide, r), rstd = ts_load(a->rstd, wide, r);
    ts_real        g_sum = { 0, 0 }, gx_sum = { 0, 0 };
    double         g_abs = 0, gx_abs = 0, gx_error = 0, largest = 0;
    load_row(a->x, t, row, D, x);
    for (int64_t i = 0; i < D; i++) largest = fmax(largest, fabs(x[i]));
    const double scale = largest > 0x1p1000 ? 0x1p-64 : 1; /* or a distance would be infinite */
    const ts_norm_stats s = { .scale = scale,
                              .stretch = 1,
                              .mean = ts_real_of(mean * scale),
                              .rstd = ts_real_of(rstd / scale) };
    if (ts_norm_sums_exactly(x, D)) largest = 0;
    for (int64_t i = 0; i < D; i++) {
        const double  dy = ts_load(a->dy, t, row + i);
        const ts_real xh = ts_norm_xhat(&s, x[i]);
        const ts_real g = ts_real_product(ts_load(a->gamma, t, i), dy), gx = ts_real_mul(g, xh);
        const double  xe = xhat_error(xh.hi, rstd, largest, D, u);
        ts_real_gather(&g_sum, g), g_abs += fabs(g.hi);
        ts_real_gather(&gx_sum, gx), gx_abs += fabs(gx.hi), gx_error += fabs(g.hi) * xe;
        ts_real_gather_product(&sums[i].dgamma, xh, dy);
        ts_real_gather(&sums[i].dbeta, ts_real_of(dy));
        sums[i].dgamma_terms += fabs(dy * xh.hi), sums[i].dbeta_terms += fabs(dy);
        sums[i].dgamma_xhat += fabs(dy) * xe;
    }
    const ts_real g_mean = ts_real_div(ts_real_gathered(g_sum), ts_real_of(n));
    const ts_real gx_mean = ts_real_div(ts_real_gathered(gx_sum), ts_real_of(n));
    for (int64_t i = 0; i < D; i++) {
        const ts_real xh = ts_norm_xhat(&s, x[i]);
        const ts_real g = ts_real_product(ts_load(a->gamma, t, i), ts_load(a->dy, t, row + i));
        const ts_real means = ts_real_add(g_mean, ts_real_mul(xh, gx_mean));
        const double  axh = fabs(xh.hi), xe = xhat_error(axh, rstd, largest, D, u);
        const double  terms = fabs(g.hi) + g_abs / n + axh * gx_abs / n;
        const double  error = ts_kappa(D) * u * terms + fabs(gx_mean.hi) * xe + axh * gx_error / n;
        const ts_real v = ts_real_mul(ts_real_of(rstd), ts_real_sub(g, means));
        dx[i] = ts_stored(v.hi, rstd * error, t);
    }
}

/* want: dx row by row, then dgamma, then dbeta */
static void oracle_backward(const ts_case *c, const void *args, ts_want *want)
{
    const backward_args *a = args;
    const ts_dtype       wide = ts_wide(a->dtype);
    const int64_t        R = a->n_rows, D = a->n_cols;
    const double         u = ts_format_of(wide)->u;
    column_sums         *sums = calloc((size_t)D, sizeof *sums);
    ts_want             *dgamma = want + R * D, *dbeta = dgamma + D;
    double              *row = ts_norm_new_row(D);
    (void)c;
    if (!sums) abort();
    for (int64_t r = 0; r < R; r++) oracle_backward_row(a, r, row, want + r * D, sums);
    for (int64_t i = 0; i < D; i++) {
        const column_sums *s = &sums[i];
        const ts_real      dg = ts_real_gathered(s->dgamma), db = ts_real_gathered(s->dbeta);
        const double       g0 = a->accumulate ? ts_load(a->dgamma, wide, i) : 0;
        const double       b0 = a->accumulate ? ts_load(a->dbeta, wide, i) : 0;
        dgamma[i] =
            ts_stored(ts_real_add(dg, ts_real_of(g0)).hi,
                      ts_kappa(R) * u * (fabs(g0) + s->dgamma_terms) + s->dgamma_xhat, wide);
        dbeta[i] = ts_stored(ts_real_add(db, ts_real_of(b0)).hi,
                             ts_kappa(R) * u * (fabs(b0) + s->dbeta_terms), wide);
    }
    free(sums);
    free(row);
}

/* ---- check, cost ---- */

static bool check_forward(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    const forward_args *a = args;
    const int64_t       R = a->n_rows, D = a->n_cols;
    const ts_dtype      wide = ts_wide(a->dtype);
    const ts_buf        y = { "y", TS_OUT, a->dtype, R, D, a->row_stride };
    (void)c;
    return ts_check_buf(y, a->y, want, f, e) &&
           ts_check_buf((ts_buf) { "mean", TS_OUT, wide, 1, R, R }, a->mean, want + R * D, f, e) &&
           ts_check_buf((ts_buf) { "rstd", TS_OUT, wide, 1, R, R }, a->rstd, want + R * D + R, f,
                        e);
}

static bool check_backward(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                           ts_errors *e)
{
    const backward_args *a = args;
    const int64_t        R = a->n_rows, D = a->n_cols;
    const ts_buf         dx = { "dx", TS_OUT, a->dtype, R, D, a->row_stride };
    const ts_buf         dgamma = { "dgamma", TS_OUT, ts_wide(a->dtype), 1, D, D };
    const ts_buf         dbeta = { "dbeta", TS_OUT, ts_wide(a->dtype), 1, D, D };
    (void)c;
    return ts_check_buf(dx, a->dx, want, f, e) &&
           ts_check_buf(dgamma, a->dgamma, want + R * D, f, e) &&
           ts_check_buf(dbeta, a->dbeta, want + R * D + D, f, e);
}

static ts_cost cost_forward(const ts_case *c)
{
    const double R = (double)c->dim[0], D = (double)c->dim[1];
    const double b = (double)ts_format_of(c->dtype)->n_bytes;
    return (ts_cost) { .bytes = b * (2 * R * D + 2 * D) + 8 * R, .flops = 7 * R * D };
}

static ts_cost cost_backward(const ts_case *c)
{
    const double R = (double)c->dim[0], D = (double)c->dim[1];
    const double b = (double)ts_format_of(c->dtype)->n_bytes;
    return (ts_cost) { .bytes = b * (3 * R * D + D) + 8 * R + 8 * D, .flops = 13 * R * D };
}

/* ---- invalid calls ---- */

#define BAD(type, must, ...) TS_BAD(type##_args, TS_E_##must, __VA_ARGS__)

static const ts_bad bad_forward[] = {
    BAD(forward, ARG, eps, 0, -1, NAN, INFINITY),
    TS_NORM_BAD(forward_args),
    { 0 },
};

static const ts_bad bad_backward[] = {
    BAD(backward, ARG, accumulate, 2),
    TS_NORM_BAD(backward_args),
    { 0 },
};

#define P(type, member) TS_POINTER(type##_args, member)

static const ts_invalid invalid_forward = {
    .pointer = { P(forward, x), P(forward, gamma), P(forward, beta), P(forward, y),
                 P(forward, mean), P(forward, rstd) },
    TS_NORM_EXTENTS(forward_args),
    .bad = bad_forward,
};

static const ts_invalid invalid_backward = {
    .pointer = { P(backward, x), P(backward, dy), P(backward, gamma), P(backward, mean),
                 P(backward, rstd), P(backward, dx), P(backward, dgamma), P(backward, dbeta) },
    TS_NORM_EXTENTS(backward_args),
    .bad = bad_backward,
};

const ts_task ts_task_layernorm_forward = {
    .name = "layernorm_forward",
    .dim_name = { "rows", "cols", "pad" },
    .dim_says = { "n_rows", "n_cols", "row_stride - n_cols" },
    TS_NORM_TASK,
    .buffer = { { "x", TS_IN, 2, false },
                { "gamma", TS_IN, 1, false },
                { "beta", TS_IN, 1, false },
                { "y", TS_OUT, 2, false },
                { "mean", TS_OUT, 1, false },
                { "rstd", TS_OUT, 1, false } },
    .number = { { "eps", false } },
    .args_bytes = sizeof(forward_args),
    .cases = ts_layernorm_forward_cases,
    .cover = &ts_layernorm_forward_cover,
    .setup = setup_forward,
    .n_want = n_want_forward,
    .oracle = oracle_forward,
    .check = check_forward,
    .cost = cost_forward,
    .invalid = &invalid_forward,
    .canon = { TS_NORM_NONFINITE },
};

const ts_task ts_task_layernorm_backward = {
    .name = "layernorm_backward",
    .dim_name = { "rows", "cols", "pad", "acc" },
    .dim_says = { "n_rows", "n_cols", "row_stride - n_cols", "accumulate" },
    TS_NORM_TASK,
    .buffer = { { "x", TS_IN, 2, false },
                { "dy", TS_IN, 2, false },
                { "gamma", TS_IN, 1, false },
                { "mean", TS_IN, 1, false },
                { "rstd", TS_IN, 1, false },
                { "dx", TS_OUT, 2, false },
                { "dgamma", TS_OUT, 1, false },
                { "dbeta", TS_OUT, 1, false } },
    .number = { { "eps", false } },
    .args_bytes = sizeof(backward_args),
    .cases = ts_layernorm_backward_cases,
    .cover = &ts_layernorm_backward_cover,
    .setup = setup_backward,
    .n_want = n_want_backward,
    .oracle = oracle_backward,
    .check = check_backward,
    .cost = cost_backward,
    .invalid = &invalid_backward,
    .canon = { TS_NORM_NONFINITE },
};

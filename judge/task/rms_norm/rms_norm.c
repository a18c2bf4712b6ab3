/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm.c - task: rms_norm forward and backward. Inputs, oracle with bounds, least cost, invalid
 * calls. The cases are in rms_norm_cases.c.
 *
 * The oracle works in pairs of doubles from the rounded inputs, each row divided by a power of two
 * near its largest number, so that no square leaves the range of double. Bounds are as in bound.h;
 * r has none, since float holds the sum of two 16-bit numbers closely enough to round it right.
 * By the common contract (`any`) sums may be plain loops, that of dw over rows too, and an r below
 * the smallest normal of accumulation may be taken for 0. What it says nothing about is as in
 * layernorm.c. */
#include "touchstone/rms_norm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "dtype.h"
#include "norm_stats.h"
#include "rms_norm_cases.h"
#include "rng.h"
#include "spoil.h"

static const char NONFINITE_DY[] = "a NaN of dy or dr stays in its row and its column";

static const char NONFINITE_ZERO[] = "a row whose rstd is NaN is NaN even where dy is 0";

static const double USUAL_EPS = 1e-6;

typedef ts_rms_norm_forward_args  forward_args;
typedef ts_rms_norm_backward_args backward_args;

/* ---- inputs ---- */

/* Pruned: gains of exactly 0, which w_offset 1 makes of -1, and weights of 0. */
static void draw_weights(const ts_case *c, void *w, uint64_t seed)
{
    const double size = ts_is(c, "overflow") ? 2e4 : ts_norm_size(c, 40, 1);
    for (int64_t i = 0; i < c->dim[TS_RMS_COLS]; i++) {
        const double drawn = size * (0.25 + 1.5 * ts_uniform(seed, i));
        const bool   pruned = ts_is(c, "pruned") && i % 3;
        ts_store(w, c->dtype, i,
                 pruned ? (i % 3 == 1 ? -(double)c->dim[TS_RMS_OFFSET] : 0) : drawn);
    }
}

static void draw_rows(const ts_case *c, void *x, void *residual, uint64_t seed)
{
    const int64_t n = c->dim[TS_RMS_COLS], stride = ts_norm_stride(c);
    double        one, other;
    if (ts_is(c, "normal")) { /* large cases are: no names in their loop */
        ts_norm_draw_rows(c, x, seed, 1);
        if (residual) ts_norm_draw_rows(c, residual, seed + 9, 1);
        return;
    }
    for (int64_t r = 0; r < c->dim[TS_RMS_ROWS]; r++)
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = r * stride + i;
            ts_rms_norm_draw(c, seed, r, i, &one, residual ? &other : NULL);
            ts_store(x, c->dtype, at, one);
            if (residual) ts_store(residual, c->dtype, at, other);
        }
}

/* Of every third row, the first + 3k-th, one element is NaN where gradients are nonfinite. */
static void draw_gradient(const ts_case *c, void *p, uint64_t seed, int64_t first)
{
    const int64_t n = c->dim[TS_RMS_COLS], stride = ts_norm_stride(c);
    ts_norm_draw_gradient(c, p, seed);
    for (int64_t r = first; r < c->dim[TS_RMS_ROWS] && ts_is(c, "nonfinite_dy"); r += 3)
        ts_store(p, c->dtype, r * stride + ts_norm_chosen(seed, r, n), NAN);
}

static void setup_forward(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    forward_args  *a = args;
    const ts_dtype t = c->dtype;
    const int64_t  R = c->dim[TS_RMS_ROWS], D = c->dim[TS_RMS_COLS], S = ts_norm_stride(c);
    const int      how = (int)c->dim[TS_RMS_RESIDUAL];
    void          *x, *residual = NULL;
    *a = (forward_args) { .dtype = t, .n_rows = R, .n_cols = D, .row_stride = S };
    a->eps = ts_norm_eps(c, USUAL_EPS);
    a->w_offset = (int)c->dim[TS_RMS_OFFSET];
    ts_scalar(m, "eps", a->eps);
    ts_scalar(m, "w_offset", a->w_offset);
    if (how == TS_RMS_IN_PLACE) {
        x = ts_take(m, &a->r, (ts_buf) { "r", TS_INOUT, t, R, D, S });
        a->x = x;
    } else {
        x = ts_take(m, &a->x, (ts_buf) { "x", TS_IN, t, R, D, S });
    }
    if (how != TS_RMS_NONE)
        residual = ts_take(m, &a->residual, (ts_buf) { "residual", TS_IN, t, R, D, S });
    void *w = ts_take(m, &a->w, (ts_buf) { "w", TS_IN, t, 1, D, D });
    ts_take(m, &a->y, (ts_buf) { "y", TS_OUT, t, R, D, S });
    ts_take(m, &a->rstd, (ts_buf) { "rstd", TS_OUT, ts_wide(t), 1, R, R });
    if (how == TS_RMS_APART) ts_take(m, &a->r, (ts_buf) { "r", TS_OUT, t, R, D, S });
    draw_rows(c, x, residual, ts_mix(seed));
    draw_weights(c, w, ts_mix(seed + 1));
}

static void setup_backward(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    backward_args *a = args;
    const ts_dtype t = c->dtype, wide = ts_wide(t);
    const int64_t  R = c->dim[TS_RMS_ROWS], D = c->dim[TS_RMS_COLS], S = ts_norm_stride(c);
    *a = (backward_args) { .dtype = t, .n_rows = R, .n_cols = D, .row_stride = S };
    a->w_offset = (int)c->dim[TS_RMS_OFFSET];
    a->accumulate = (int)c->dim[TS_RMS_ACCUMULATE];
    ts_scalar(m, "w_offset", a->w_offset);
    void *r = ts_take(m, &a->r, (ts_buf) { "r", TS_IN, t, R, D, S });
    void *dy = ts_take(m, &a->dy, (ts_buf) { "dy", TS_IN, t, R, D, S });
    void *w = ts_take(m, &a->w, (ts_buf) { "w", TS_IN, t, 1, D, D });
    void *rstd = ts_take(m, &a->rstd, (ts_buf) { "rstd", TS_IN, wide, 1, R, R });
    void *dr = c->dim[TS_RMS_DR] ? ts_take(m, &a->dr, (ts_buf) { "dr", TS_IN, t, R, D, S }) : NULL;
    ts_take(m, &a->dx, (ts_buf) { "dx", TS_OUT, t, R, D, S });
    void *dw =
        ts_take(m, &a->dw, (ts_buf) { "dw", a->accumulate ? TS_INOUT : TS_OUT, wide, 1, D, D });
    draw_rows(c, r, NULL, ts_mix(seed));
    draw_gradient(c, dy, ts_mix(seed + 3), 1); /* never all ones: dx might vanish */
    if (dr) draw_gradient(c, dr, ts_mix(seed + 4), 2);
    draw_weights(c, w, ts_mix(seed + 1));
    for (int64_t i = 0; i < D && a->accumulate; i++)
        ts_store(dw, wide, i, ts_norm_size(c, 1000, 1e-9) * 1.5 * ts_uniform(ts_mix(seed + 5), i));
    double *row = ts_norm_new_row(D);
    for (int64_t i = 0; i < R; i++) {
        for (int64_t k = 0; k < D; k++) row[k] = ts_load(r, t, i * S + k);
        const ts_norm_stats s = ts_norm_stats_of(row, D, ts_norm_eps(c, USUAL_EPS), false);
        ts_store(rstd, wide, i, ts_norm_rstd(&s));
    }
    free(row);
}

/* ---- oracle ---- */

static double rounded(ts_dtype t, double v)
{
    double room;
    ts_store(&room, t, 0, v);
    return ts_load(&room, t, 0);
}

/* w + w_offset, and the magnitudes that add up in it. */
static ts_real gain_of(const void *w, ts_dtype t, int64_t i, int w_offset)
{
    return ts_real_sum(ts_load(w, t, i), w_offset);
}

static double gain_size(const void *w, ts_dtype t, int64_t i, int w_offset)
{
    return fabs(ts_load(w, t, i)) + w_offset;
}

static double kappa(int64_t n, bool any)
{
    return any ? ts_kappa_any(n) : ts_kappa(n);
}

/* How far r rstd may be off if r is flushed. */
static double flushed_part(ts_dtype t, double rstd, bool any)
{
    return any ? rstd * ts_format_of(ts_wide(t))->min_normal : 0;
}

static size_t n_want_forward(const ts_case *c)
{
    const int64_t R = c->dim[TS_RMS_ROWS], D = c->dim[TS_RMS_COLS];
    return (size_t)(R * (D + 1) + (c->dim[TS_RMS_RESIDUAL] ? R * D : 0));
}

/* want: y row by row, then rstd, then r row by row where there is a residual */
static void oracle_forward_by(const void *args, ts_want *y, bool any)
{
    const forward_args *a = args;
    const ts_dtype      t = a->dtype;
    const int64_t       R = a->n_rows, D = a->n_cols;
    const double        u = ts_format_of(ts_wide(t))->u;
    ts_want            *rstd = y + R * D, *r = rstd + R;
    double             *row = ts_norm_new_row(D);
    for (int64_t k = 0; k < R; k++) {
        for (int64_t i = 0; i < D; i++) {
            const int64_t at = k * a->row_stride + i;
            row[i] = ts_load(a->x, t, at);
            if (!a->residual) continue;
            /* After the call x may have been overwritten. */
            row[i] = any ? r->value : rounded(t, row[i] + ts_load(a->residual, t, at));
            *r++ = (ts_want) { row[i], 0 };
        }
        const ts_norm_stats s = ts_norm_stats_of(row, D, a->eps, false);
        const double        rs = ts_norm_rstd(&s), flushed = flushed_part(t, rs, any);
        for (int64_t i = 0; i < D; i++) {
            const ts_real rhat = ts_norm_xhat(&s, row[i]);
            const ts_real v = ts_real_mul(rhat, gain_of(a->w, t, i, a->w_offset));
            const double  gain = gain_size(a->w, t, i, a->w_offset), size = fabs(rhat.hi) * gain;
            *y++ = ts_stored(v.hi, (kappa(D, any) + ts_kappa(2)) * u * size + flushed * gain, t);
        }
        rstd[k] = ts_stored(rs, rs * kappa(D, any) * u, ts_wide(t));
        if (isnan(rs)) rstd[k].bound = INFINITY; /* unspecified for an invalid row */
    }
    free(row);
}

static void oracle_forward(const ts_case *c, const void *args, ts_want *want)
{
    (void)c;
    oracle_forward_by(args, want, false);
}

static void oracle_forward_any(const ts_case *c, const void *args, ts_want *want)
{
    (void)c;
    oracle_forward_by(args, want, true);
}

static size_t n_want_backward(const ts_case *c)
{
    return (size_t)((c->dim[TS_RMS_ROWS] + 1) * c->dim[TS_RMS_COLS]);
}

typedef struct column_sum {
    ts_real dw;
    double  terms, flushed; /* sums of their magnitudes, and of what flushing takes from them */
    ts_span span;
} column_sum;

/* One row: its dx, and its share of the columns' sums. */
static void oracle_backward_row(const backward_args *a, int64_t r, ts_want *dx, column_sum *sums,
                                bool any)
{
    const ts_dtype t = a->dtype, wide = ts_wide(t);
    const int64_t  D = a->n_cols, row = r * a->row_stride;
    const double   u = ts_format_of(wide)->u, n = (double)D, rstd = ts_load(a->rstd, wide, r);
    const double   flushed = flushed_part(t, rstd, any);
    ts_real        sum = { 0, 0 };
    double         size = 0, g_size = 0; /* of the average, and of g's */
    for (int64_t i = 0; i < D; i++) {
        const double  dy = ts_load(a->dy, t, row + i);
        const ts_real rhat = ts_real_product(ts_load(a->r, t, row + i), rstd);
        const ts_real g = ts_real_mul(gain_of(a->w, t, i, a->w_offset), ts_real_of(dy));
        ts_real_gather(&sum, ts_real_mul(g, rhat));
        size += gain_size(a->w, t, i, a->w_offset) * fabs(dy * rhat.hi) / n;
        g_size += gain_size(a->w, t, i, a->w_offset) * fabs(dy) / n;
        ts_real_gather_product(&sums[i].dw, rhat, dy);
        sums[i].terms += fabs(dy * rhat.hi), sums[i].flushed += fabs(dy) * flushed;
        if (any) ts_span_add(&sums[i].span, dy * rhat.hi);
    }
    const ts_real avg = ts_real_div(ts_real_gathered(sum), ts_real_of(n));
    for (int64_t i = 0; i < D; i++) {
        const double  dy = ts_load(a->dy, t, row + i);
        const double  dr = a->dr ? ts_load(a->dr, t, row + i) : 0;
        const ts_real rhat = ts_real_product(ts_load(a->r, t, row + i), rstd);
        const ts_real g = ts_real_mul(gain_of(a->w, t, i, a->w_offset), ts_real_of(dy));
        const ts_real rest = ts_real_sub(g, ts_real_mul(rhat, avg));
        const ts_real v = ts_real_add(ts_real_mul(ts_real_of(rstd), rest), ts_real_of(dr));
        const double  terms = gain_size(a->w, t, i, a->w_offset) * fabs(dy) + fabs(rhat.hi) * size;
        const double  lost = rstd * flushed * (fabs(avg.hi) + fabs(rhat.hi) * g_size);
        dx[i] = ts_stored(v.hi,
                          kappa(D, any) * u * rstd * terms + ts_kappa(2) * u * fabs(dr) + lost, t);
    }
}

/* want: dx row by row, then dw */
static void oracle_backward_by(const void *args, ts_want *want, bool any)
{
    const backward_args *a = args;
    const ts_dtype       wide = ts_wide(a->dtype);
    const int64_t        R = a->n_rows, D = a->n_cols;
    const double         u = ts_format_of(wide)->u;
    column_sum          *sums = calloc((size_t)D, sizeof *sums);
    if (!sums) abort();
    for (int64_t r = 0; r < R; r++) oracle_backward_row(a, r, want + r * D, sums, any);
    for (int64_t i = 0; i < D; i++) {
        ts_want      *want_i = &want[R * D + i];
        const ts_real sum = ts_real_gathered(sums[i].dw);
        /* After the call dw is what it was, and the sum. */
        const double had = !a->accumulate ? 0
                           : any          ? want_i->value - sum.hi
                                          : ts_load(a->dw, wide, i);
        const double v = any ? want_i->value : ts_real_add(sum, ts_real_of(had)).hi;
        const double plain = any ? ts_plain_error(&sums[i].span, R, had, u) : 0;
        *want_i = ts_stored(
            v, ts_kappa(R) * u * (fabs(had) + sums[i].terms) + plain + sums[i].flushed, wide);
    }
    free(sums);
}

static void oracle_backward(const ts_case *c, const void *args, ts_want *want)
{
    (void)c;
    oracle_backward_by(args, want, false);
}

static void oracle_backward_any(const ts_case *c, const void *args, ts_want *want)
{
    (void)c;
    oracle_backward_by(args, want, true);
}

/* ---- check, cost ---- */

static bool check_forward(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    const forward_args *a = args;
    const int64_t       R = a->n_rows, D = a->n_cols, S = a->row_stride;
    const ts_buf        rstd = { "rstd", TS_OUT, ts_wide(a->dtype), 1, R, R };
    (void)c;
    return ts_check_buf((ts_buf) { "y", TS_OUT, a->dtype, R, D, S }, a->y, want, f, e) &&
           ts_check_buf(rstd, a->rstd, want + R * D, f, e) &&
           (!a->residual || ts_check_buf((ts_buf) { "r", TS_OUT, a->dtype, R, D, S }, a->r,
                                         want + R * D + R, f, e));
}

static bool check_backward(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                           ts_errors *e)
{
    const backward_args *a = args;
    const int64_t        R = a->n_rows, D = a->n_cols;
    const ts_buf         dx = { "dx", TS_OUT, a->dtype, R, D, a->row_stride };
    const ts_buf         dw = { "dw", TS_OUT, ts_wide(a->dtype), 1, D, D };
    (void)c;
    return ts_check_buf(dx, a->dx, want, f, e) && ts_check_buf(dw, a->dw, want + R * D, f, e);
}

static const char *common_forward(const ts_case *c, const void *args, const ts_want *want,
                                  ts_flaw *f, ts_errors *e)
{
    return ts_common_by(oracle_forward_any, check_forward, want, n_want_forward(c), TS_SUMS_RULE, c,
                        args, f, e);
}

static const char *common_backward(const ts_case *c, const void *args, const ts_want *want,
                                   ts_flaw *f, ts_errors *e)
{
    return ts_common_by(oracle_backward_any, check_backward, want, n_want_backward(c), TS_SUMS_RULE,
                        c, args, f, e);
}

static void excuse_forward(const ts_case *c, const void *args, ts_want *want)
{
    const forward_args *a = args;
    const int64_t       R = a->n_rows, D = a->n_cols;
    ts_want            *rstd = want + R * D, *r = rstd + R;
    (void)c;
    ts_excuse_nan(want, R * (D + 1));
    for (int64_t k = 0; k < R; k++) {
        double largest = 0;
        for (int64_t i = 0; i < D; i++)
            largest =
                fmax(largest, fabs(a->residual ? r[k * D + i].value
                                               : ts_load(a->x, a->dtype, k * a->row_stride + i)));
        if (ts_norm_leaves_range(a->dtype, D, largest, rstd[k].value) ||
            ts_norm_sum_leaves_range(a->dtype, 1, a->eps))
            ts_excuse(want + k * D, D), ts_excuse(&rstd[k], 1);
    }
}

static void excuse_backward(const ts_case *c, const void *args, ts_want *want)
{
    const backward_args *a = args;
    const int64_t        R = a->n_rows, D = a->n_cols;
    (void)c;
    ts_excuse_nan(want, (R + 1) * D);
    for (int64_t k = 0; k < R; k++) {
        double largest = 0;
        for (int64_t i = 0; i < D; i++)
            largest = fmax(largest, fabs(ts_load(a->r, a->dtype, k * a->row_stride + i)));
        if (ts_norm_gradient_leaves_range(a->dtype, D, largest,
                                          ts_load(a->rstd, ts_wide(a->dtype), k)))
            ts_excuse(want + k * D, D);
        if (ts_norm_sum_leaves_range(a->dtype, 1, largest)) ts_excuse(want + R * D, D);
    }
}

/* x, and the residual, are read; y, and r, are written. */
static ts_cost cost_forward(const ts_case *c)
{
    const double R = (double)c->dim[TS_RMS_ROWS], D = (double)c->dim[TS_RMS_COLS];
    const double b = (double)ts_format_of(c->dtype)->n_bytes, fused = c->dim[TS_RMS_RESIDUAL] != 0;
    const double wide = (double)ts_format_of(ts_wide(c->dtype))->n_bytes;
    return (ts_cost) { .bytes = b * ((2 + 2 * fused) * R * D + D) + wide * R,
                       .flops = (4 + fused) * R * D };
}

/* r, dy, and dr, are read; dx is written, and dw once. */
static ts_cost cost_backward(const ts_case *c)
{
    const double R = (double)c->dim[TS_RMS_ROWS], D = (double)c->dim[TS_RMS_COLS];
    const double b = (double)ts_format_of(c->dtype)->n_bytes, dr = c->dim[TS_RMS_DR] != 0;
    const double wide = (double)ts_format_of(ts_wide(c->dtype))->n_bytes;
    return (ts_cost) { .bytes = b * ((3 + dr) * R * D + D) + wide * (R + D),
                       .flops = (9 + dr) * R * D };
}

/* ---- invalid calls ---- */

#define BAD(type, must, ...) TS_BAD(type##_args, TS_E_##must, __VA_ARGS__)

static const ts_bad bad_forward[] = {
    BAD(forward, ARG, eps, 0, -1, NAN, INFINITY),
    BAD(forward, ARG, w_offset, 2, -1, 256),
    TS_NORM_BAD(forward_args),
    { 0 },
};

static const ts_bad bad_backward[] = {
    BAD(backward, ARG, accumulate, 2, -1),
    BAD(backward, ARG, w_offset, 2, -1),
    TS_NORM_BAD(backward_args),
    { 0 },
};

#define P(type, member) TS_POINTER(type##_args, member)

/* The calls that are spoilt have a residual, and so need r. */
static const ts_invalid invalid_forward = {
    .pointer = { P(forward, x), P(forward, w), P(forward, y), P(forward, rstd), P(forward, r) },
    TS_NORM_EXTENTS(forward_args),
    .bad = bad_forward,
};

static const ts_invalid invalid_backward = {
    .pointer = { P(backward, r), P(backward, dy), P(backward, w), P(backward, rstd),
                 P(backward, dx), P(backward, dw) },
    TS_NORM_EXTENTS(backward_args),
    .bad = bad_backward,
};

const ts_task ts_task_rms_norm_forward = {
    .name = "rms_norm_forward",
    .dim_name = { "rows", "cols", "pad", "off", "res" },
    .dim_says = { "n_rows", "n_cols", "row_stride - n_cols", "w_offset",
                  "0: no residual, 1: residual, 2: residual, and r is x" },
    TS_NORM_TASK,
    .buffer = { { "x", TS_IN, 2, false },
                { "residual", TS_IN, 2, false },
                { "w", TS_IN, 1, false },
                { "y", TS_OUT, 2, false },
                { "rstd", TS_OUT, 1, false },
                { "r", TS_OUT, 2, false } },
    .number = { { "eps", false }, { "w_offset", true } },
    .args_bytes = sizeof(forward_args),
    .cases = ts_rms_norm_forward_cases,
    .cover = &ts_rms_norm_forward_cover,
    .setup = setup_forward,
    .n_want = n_want_forward,
    .oracle = oracle_forward,
    .check = check_forward,
    .cost = cost_forward,
    .invalid = &invalid_forward,
    .canon = { TS_NORM_NONFINITE },
    .excuse = excuse_forward,
    .common = common_forward,
};

const ts_task ts_task_rms_norm_backward = {
    .name = "rms_norm_backward",
    .dim_name = { "rows", "cols", "pad", "off", "acc", "dr" },
    .dim_says = { "n_rows", "n_cols", "row_stride - n_cols", "w_offset", "accumulate",
                  "1 if there is a dr" },
    TS_NORM_TASK,
    .buffer = { { "r", TS_IN, 2, false },
                { "dy", TS_IN, 2, false },
                { "w", TS_IN, 1, false },
                { "rstd", TS_IN, 1, false },
                { "dr", TS_IN, 2, false },
                { "dx", TS_OUT, 2, false },
                { "dw", TS_OUT, 1, false } },
    .number = { { "w_offset", true } },
    .args_bytes = sizeof(backward_args),
    .cases = ts_rms_norm_backward_cases,
    .cover = &ts_rms_norm_backward_cover,
    .setup = setup_backward,
    .n_want = n_want_backward,
    .oracle = oracle_backward,
    .check = check_backward,
    .cost = cost_backward,
    .invalid = &invalid_backward,
    .canon = { TS_NORM_NONFINITE,
               { "nonfinite_dy", NONFINITE_DY, true },
               { "nonfinite_zero", NONFINITE_ZERO, true } },
    .excuse = excuse_backward,
    .common = common_backward,
};

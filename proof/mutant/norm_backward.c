/* SPDX-License-Identifier: Apache-2.0 */
/* norm_backward.c - mutants of layer norm and RMS norm, backward: one correct implementation of
 * both with one injected bug at a time. */
#include <time.h>

#include "layernorm_list.h"
#include "norm_trap.h"
#include "rms_norm_list.h"
#include "touchstone/layernorm.h"
#include "touchstone/rms_norm.h"

/* mean and dbeta, sum[1]: where centred. dr: elsewhere. */
typedef struct bwd_args {
    bool        centred;
    ts_dtype    dtype;
    int         w_offset, accumulate;
    int64_t     n_rows, n_cols, row_stride;
    const void *x, *dy, *dr, *gamma, *mean, *rstd;
    void       *dx, *sum[2];
} bwd_args;

static real dy_at(const bwd_args *a, int64_t i, trap t)
{
    const real dy = ts_load(a->dy, a->dtype, i);
    if (t == DY_MOST) return within(dy, 100);
    if (t == NONFINITE_DY && isnan(dy)) return 0;
    return t == DY_LEAST && fabsl(dy) < 6e-8L ? 0 : dy; /* as f16 would */
}

static real rstd_at(const bwd_args *a, int64_t k, trap t)
{
    real sum = 0;
    if (t != OWN_RSTD) return ts_load(a->rstd, ts_wide(a->dtype), k);
    for (int64_t c = 0; c < a->n_cols; c++) {
        const real x = ts_load(a->x, a->dtype, k * a->row_stride + c);
        sum += x * x;
    }
    return 1 / sqrtl(sum / (real)a->n_cols + 1e-6L);
}

static real xhat_at(const bwd_args *a, int64_t k, int64_t c, real rstd, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const int64_t  row = row_at(a->x, a->dtype, k, a->n_cols, a->row_stride, t);
    const real     mean = a->centred ? ts_load(a->mean, wide, k) : 0;
    const real     d = ts_load(a->x, a->dtype, row + c) - mean;
    const real     xhat = (t == DIFFERENCE ? rounded(wide, d) : d) * rstd;
    if (t == NONFINITE_ZEROED && isnan(xhat)) return 0;
    if (t != XHAT_BY_GAIN) return xhat;
    const real gain = gain_at(a->gamma, a->dtype, c, a->w_offset, t);
    return xhat * gain / gain;
}

/* What is subtracted from g: xhat * avg(g * xhat), or what the mutant takes for it. */
static real pulled(const bwd_args *a, real x, real xhat, real rstd, real avg, real avg_gx, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    if (t == NO_RSTD2) return x * avg_gx;
    if (t == ONE_RSTD) return xhat * avg_gx;
    if (t == RSTD2_FIRST)
        return rounded(wide, rounded(wide, rounded(wide, rstd * rstd) * x) * rounded(wide, avg_gx));
    return t == PULL_TWICE ? 2 * xhat * avg : xhat * avg;
}

static real with_dr(const bwd_args *a, int64_t at, real v, real rstd, trap t)
{
    const ts_dtype d = a->dtype;
    const real     dr = a->dr ? ts_load(a->dr, d, at) : 0;
    if (t == NO_DR || !a->dr) return v;
    if (t == NONFINITE_DY && isnan(dr)) return v;
    if (t == DR_TWICE) return v + 2 * dr;
    if (t == DR_INSIDE) return v + rstd * dr;
    return t == ROUNDED_EARLY ? rounded(d, v) + dr : v + dr;
}

static bool is_zero(const bwd_args *a, int64_t row)
{
    int64_t c = 0;
    while (c < a->n_cols && ts_load(a->dy, a->dtype, row + c) == 0) c++;
    return c == a->n_cols;
}

static void backward_row(const bwd_args *a, int64_t k, trap t)
{
    const ts_dtype d = a->dtype;
    const int64_t  row = k * a->row_stride, n = a->n_cols;
    const real     rstd = rstd_at(a, k, t), by = divisor(n, a->row_stride, t);
    real           avg_g = 0, avg = 0, avg_gx = 0, avg_xx = 0;
    for (int64_t c = 0; c < n_summed(n, t); c++) {
        const real gain = t == GAIN_OUTSIDE ? 1 : gain_at(a->gamma, d, c, a->w_offset, t);
        const real g = gain * dy_at(a, row + c, t), xhat = xhat_at(a, k, c, rstd, t);
        avg_g += g / by;
        avg += g * xhat / by;
        avg_gx += g * ts_load(a->x, d, row + c) / by;
        avg_xx += xhat * xhat / by;
    }
    if (t == EPS_FORGOTTEN) avg /= avg_xx;
    if (t == SUMS_FOR_MEANS || t == NO_MEAN_G) avg_g *= t == NO_MEAN_G ? 0 : by;
    if (t == SUMS_FOR_MEANS || t == SUM_FOR_PULL) avg *= by;
    if (t == NO_PULL_XHAT) avg = 0;
    for (int64_t c = 0; c < n_written(n, t); c++) {
        const real gain = gain_at(a->gamma, d, c, a->w_offset, t);
        const real g = gain * dy_at(a, row + c, t), xhat = xhat_at(a, k, c, rstd, t);
        real       means = pulled(a, ts_load(a->x, d, row + c), xhat, rstd, avg, avg_gx, t);
        if (a->centred) means += avg_g;
        if (t == GAIN_OUTSIDE) means *= gain;
        real v = rstd * (t == NO_PULL ? g : g - means);
        if (t == NO_OUTER_RSTD) v /= rstd;
        if (t == GAIN_0 && gain == 0) v = 0;
        if (t == ZERO_ROW && is_zero(a, row)) v = 0;
        if (t == ADDS_TO_DX && a->accumulate) v += ts_load(a->dx, d, row + c);
        put(a->dx, d, row + c, with_dr(a, row + c, v, rstd, t));
    }
}

static int64_t first_row(int64_t n_rows, trap t)
{
    struct timespec now = { 0 };
    if (t == DRIFTS) timespec_get(&now, TIME_UTC);
    return now.tv_nsec % (n_rows ? n_rows : 1);
}

static real kept(ts_dtype wide, real sum, trap t)
{
    if (t == HALF_SUMS) return rounded(TS_BF16, sum);
    return t == BY_THREADS || t == DRIFTS ? rounded(wide, sum) : sum;
}

/* Adds the rows' terms to dgamma and dbeta of column c, which hold what they start from. */
static void column_sums(const bwd_args *a, const ts_exec *x, int64_t c, real sum[2], trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const int64_t  n = a->n_rows, first = first_row(n, t);
    const real     gain = gain_at(a->gamma, a->dtype, c, a->w_offset, t);
    real           earlier[2] = { 0, 0 }; /* the other threads' shares */
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = (first + i) % n, at = k * a->row_stride + c;
        const real    dy = dy_at(a, at, t), xhat = xhat_at(a, k, c, rstd_at(a, k, t), t);
        real          term = dy * xhat;
        if (t == SUM_WITH_GAIN) term *= gain;
        if (t == SUM_NO_RSTD) term = dy * (real)ts_load(a->x, a->dtype, at);
        if (t == BY_ROW && k % a->n_cols != c) continue;
        if (t == SUM_NONFINITE_ROWS && isnan(term)) continue;
        if (t == ZERO_SKIPPED && dy == 0) continue;
        if (t == ONE_ROW) sum[0] = 0;
        for (int j = 0; j < 2 && t == BY_THREADS && share_begins(i, n, x); j++)
            earlier[j] += sum[j], sum[j] = 0;
        sum[0] = kept(wide, sum[0] + term, t);
        sum[1] = kept(wide, sum[1] + dy * (t == DBETA_WITH_GAIN ? gain : 1), t);
        if (t == NAN_DBETA && isnan(xhat)) sum[1] = xhat;
    }
    sum[0] = (sum[0] + earlier[0]) / (t == SUM_MEAN && n ? (real)n : 1);
    sum[1] += earlier[1];
}

static void backward_column(const bwd_args *a, const ts_exec *x, int64_t c, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const int      n = a->centred ? 2 : 1;
    const bool     adds = (a->accumulate && t != OVERWRITES) || t == ADDS_STALE;
    /* Adds what dgamma held once for every 64 rows. */
    const bool by_block = t == ADDS_BY_BLOCK && a->dtype == TS_F32 && a->n_rows > 64;
    real       sum[2] = { 0, 0 };
    for (int k = 0; k < n && t == DIRTY_WS; k++) sum[k] = ts_load(x->workspace, wide, 2 * c + k);
    column_sums(a, x, c, sum, t);
    for (int k = 0; k < n; k++) {
        if (t >= HONEST_WS) {
            put(x->workspace, wide, 2 * c + k, sum[k]);
            sum[k] = ts_load(x->workspace, wide, 2 * c + k);
        }
        const real had = adds ? ts_load(a->sum[k], wide, c) : 0;
        if (t != SUMS_MOST || fabsl(had) < 100)
            sum[k] += (t == ADDS_TWICE || by_block ? 2 : 1) * had;
        put(a->sum[k], wide, c, sum[k]);
    }
}

static ts_status check_backward(const bwd_args *a, const ts_exec *x, trap t)
{
    if (!a || !x || !is_flag(a->w_offset) || !a->gamma || !a->sum[0]) return TS_E_ARG;
    if (a->centred && !a->sum[1]) return TS_E_ARG;
    if (t != TAKES_ACCUMULATE && !is_flag(a->accumulate)) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->x || !a->dy || !a->rstd || !a->dx)) return TS_E_ARG;
    if (a->n_rows != 0 && a->centred && !a->mean) return TS_E_ARG;
    if (a->n_rows != 0 && !a->dr && t == NEEDS_DR) return TS_E_ARG;
    return check_shape(a->n_rows, a->n_cols, a->row_stride, a->dtype);
}

static size_t workspace_bytes(const bwd_args *a)
{
    return 2 * (size_t)a->n_cols * ts_format_of(ts_wide(a->dtype))->n_bytes;
}

static ts_status backward(const bwd_args *a, const ts_exec *x, trap t)
{
    ts_status    s = check_backward(a, x, t);
    const size_t n = s ? 0 : workspace_bytes(a);
    if (!s && t >= HONEST_WS && (!x->workspace || x->workspace_bytes < n)) s = TS_E_WORKSPACE;
    if (s && t == WRITES_FIRST && a && a->n_rows && a->dx) *(char *)a->dx = 0;
    if (s) return refusal(s, t);
    if (!is_flag(a->accumulate)) return TS_OK;
    for (int64_t k = 0; k < a->n_rows; k++) backward_row(a, k, t);
    if (a->n_rows == 0 && (t == ZERO_ROWS || (t == ZERO_ROWS_BF16 && a->dtype == TS_BF16)))
        return TS_OK;
    for (int64_t c = 0; c < a->n_cols; c++) backward_column(a, x, c, t);
    scribble((ts_buf) { "sum", TS_OUT, ts_wide(a->dtype), 1, a->n_cols, a->n_cols }, a->sum[0], t);
    if (t == PAST_WS) ((char *)x->workspace)[n] = 0;
    /* Odd only: if whole pages are requested, the byte before may be unmapped. */
    if (t == BEFORE_WS && a->n_cols % 2) ((char *)x->workspace)[-1] = 0;
    return TS_OK;
}

/* ---- the two norms ---- */

static bwd_args of_layernorm(const ts_layernorm_backward_args *a)
{
    return (bwd_args) { SHAPE(a),
                        .centred = true,
                        .accumulate = a->accumulate,
                        .x = a->x,
                        .dy = a->dy,
                        .gamma = a->gamma,
                        .mean = a->mean,
                        .rstd = a->rstd,
                        .dx = a->dx,
                        .sum = { a->dgamma, a->dbeta } };
}

static ts_status layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x, trap t)
{
    if (!a) return backward(NULL, x, t);
    const bwd_args b = of_layernorm(a);
    return backward(&b, x, t);
}

static ts_status workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    if (!args || !n_bytes) return TS_E_ARG;
    const bwd_args  b = of_layernorm(args);
    const ts_status s = check_backward(&b, x, HONEST);
    if (!s) *n_bytes = workspace_bytes(&b);
    return s;
}

static ts_status rms_norm_backward(const ts_rms_norm_backward_args *a, const ts_exec *x, trap t)
{
    if (!a) return backward(NULL, x, t);
    const bwd_args b = { SHAPE(a),
                         .w_offset = a->w_offset,
                         .accumulate = a->accumulate,
                         .x = a->r,
                         .dy = a->dy,
                         .dr = a->dr,
                         .gamma = a->w,
                         .rstd = a->rstd,
                         .dx = a->dx,
                         .sum = { a->dw, NULL } };
    return backward(&b, x, t);
}

#define TASK    layernorm_backward
#define MUTANTS LAYERNORM_BACKWARD
#define CALL    layernorm_backward
#include "called.h"

#define TASK    rms_norm_backward
#define MUTANTS RMS_NORM_BACKWARD
#define CALL    rms_norm_backward
#include "called.h"

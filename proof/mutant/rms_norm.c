/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm.c - mutants of rms_norm: one correct forward and one correct backward, each with one
 * injected bug at a time. rms_norm_list.h lists them.
 *
 * Correct sums are long double, whose digits and range need no rescaling. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dtype.h"
#include "mutant.h"
#include "rms_norm_list.h"
#include "touchstone/rms_norm.h"

typedef long double               real;
typedef ts_rms_norm_forward_args  fwd_args;
typedef ts_rms_norm_backward_args bwd_args;

#define TRAP(trap, name, fault, family) trap,
/* Both passes share the first ones. */
typedef enum trap { HONEST, FORWARD(TRAP) BACKWARD(TRAP) N_TRAPS } trap;

/* ---- what both passes need ---- */

/* Any NaN is stored as the plain one: a poison carried through a sum would look unwritten. */
static void put(void *p, ts_dtype t, int64_t i, real v)
{
    ts_store(p, t, i, isnan(v) ? (double)NAN : (double)v);
}

static real rounded(ts_dtype t, real v)
{
    double room;
    put(&room, t, 0, v);
    return ts_load(&room, t, 0);
}

/* The 16-bit number towards zero; others as they are. */
static real cut(ts_dtype t, real v)
{
    real r = rounded(t, v);
    if (t != TS_BF16 || isnan(v) || isinf(v) || fabsl(r) <= fabsl(v)) return r;
    const uint16_t up = ts_narrow_bf16((double)v);
    return ts_widen_bf16((uint16_t)(up - 1));
}

static ts_status check_shape(int64_t n_rows, int64_t n_cols, int64_t row_stride, ts_dtype t)
{
    if (n_rows < 0 || n_cols < 1 || row_stride < n_cols) return TS_E_SHAPE;
    if (n_rows > 0 && row_stride > INT64_MAX / 8 / n_rows) return TS_E_SHAPE;
    return (unsigned)t > TS_BF16 ? TS_E_DTYPE : TS_OK;
}

static bool is_flag(int v)
{
    return v == 0 || v == 1;
}

/* Where row k of x, or of r, is taken to begin. */
static int64_t row_at(const void *x, ts_dtype dtype, int64_t k, int64_t n_cols, int64_t stride,
                      trap t)
{
    const size_t  n_bytes = ts_format_of(dtype)->n_bytes;
    const int64_t begin = k * (t == F_DENSE || t == B_DENSE ? n_cols : stride);
    if (t == F_INT32 || t == B_INT32) return begin & INT32_MAX;
    if (t != F_ALIGNED) return begin;
    return begin - (int64_t)(((uintptr_t)x + (size_t)begin * n_bytes) % 16 / n_bytes);
}

/* How many of n elements enter a row's sum, and what the sum is divided by. */
static int64_t n_summed(int64_t n, trap t)
{
    const int64_t most = t == F_FIRST_32 || t == B_FIRST_32 ? 32
                         : t == F_FIRST_1024                ? 1024
                         : t == F_FIRST_16384               ? 16384
                         : t == F_FIRST_70000               ? 70000
                                                            : n;
    return n < most ? n : most;
}

static real divisor(int64_t n_cols, int64_t stride, trap t)
{
    if (t == F_PADDED || t == B_PADDED) return (real)stride;
    if (t == F_POWER_OF_2) {
        int64_t p = 1;
        while (p < n_cols) p *= 2;
        return (real)p;
    }
    return (real)(t == F_SAMPLE ? n_cols - 1 : n_cols);
}

/* Whether the i-th of n is the first of another thread's share. */
static bool share_begins(int64_t i, int64_t n, const ts_exec *x)
{
    return i > 0 && i * x->n_threads / n != (i - 1) * x->n_threads / n;
}

static real gain_at(const void *w, ts_dtype dtype, int64_t c, int w_offset, trap t)
{
    const int offset = t == F_NO_OFFSET || t == B_NO_OFFSET ? 0 : t == F_OFFSET_1 ? 1 : w_offset;
    real      v = ts_load(w, dtype, c) + (real)offset;
    if (t == F_NO_GAIN || t == B_NO_GAIN) v = 1;
    if (t == F_GAIN_ROUNDED || t == B_GAIN_ROUNDED) v = rounded(dtype, v);
    if (t == F_GAIN_MOST) v = fminl(fmaxl(v, -8), 8);
    return v;
}

static void scribble(ts_buf b, void *p, trap t)
{
    const int64_t end = (b.n_rows - 1) * b.row_stride + b.n_cols;
    if (t == F_WRITE_PAST || t == B_WRITE_PAST) ts_store(p, b.dtype, end, 0);
    if (t == F_WRITE_BEFORE) ts_store(p, b.dtype, -1, 0);
    if (t == F_WRITE_GAP && b.n_rows > 1) ts_store(p, b.dtype, b.row_stride - 1, 0);
}

/* ---- forward ---- */

/* The sum of x and the residual at a place, as the mutant rounds it. */
static real r_at(const fwd_args *a, int64_t at, trap t)
{
    const ts_dtype d = a->dtype;
    const real x = ts_load(a->x, d, at), residual = a->residual ? ts_load(a->residual, d, at) : 0;
    real       r = x + residual;
    if (!a->residual || t == F_NO_RESIDUAL) return x;
    if (t == F_RESIDUAL_TWICE) r += residual;
    if (t == F_RESIDUAL_MINUS) r = x - residual;
    if (t == F_FLUSHED && fabsl(r) < ts_format_of(d)->min_normal) r = 0;
    return t == F_UNROUNDED ? r : t == F_CUT ? cut(d, r) : rounded(d, r);
}

static real square_of(const fwd_args *a, real r, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    if (t == F_NONFINITE_ZEROED && !isfinite(r)) return 0;
    if (t == F_OVERFLOW || t == F_UNDERFLOW) return rounded(wide, r * r);
    return t == F_HALF_SQUARES && a->dtype == TS_F16 ? rounded(TS_F16, r * r) : r * r;
}

static real row_square(const fwd_args *a, const ts_exec *x, const real *r, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const int64_t  n = n_summed(a->n_cols, t);
    real           sum = 0, earlier = 0, mean = 0;
    if (t == F_CENTRED)
        for (int64_t c = 0; c < n; c++) mean += r[c] / (real)n;
    for (int64_t c = 0; c < n; c++) {
        if (t == F_BY_THREADS && share_begins(c, n, x)) earlier += rounded(wide, sum), sum = 0;
        sum += square_of(a, r[c] - mean, t);
        if (t == F_OVERFLOW || t == F_UNDERFLOW) sum = rounded(wide, sum);
        if (t == F_16_BIT_SUM && a->dtype != TS_F64) sum = rounded(TS_BF16, sum);
    }
    sum = earlier + (t == F_BY_THREADS ? rounded(wide, sum) : sum);
    return sum / divisor(a->n_cols, a->row_stride, t);
}

static real rstd_of(const fwd_args *a, real square, trap t)
{
    const real eps = a->eps;
    if (!isfinite(square)) return t == F_INF_IS_0 && isinf(square) ? 0 : (real)NAN;
    if (t == F_EPS_OUTSIDE) return 1 / (sqrtl(square) + eps);
    if (t == F_EPS_IGNORED) return 1 / sqrtl(square);
    if (t == F_EPS_OF_SUM) return 1 / sqrtl(square + eps / (real)a->n_cols);
    if (t == F_EPS_SQUARED) return 1 / sqrtl(square + eps * eps);
    if (t == F_EPS_MAXIMUM) return 1 / sqrtl(fmaxl(square, eps));
    if (t == F_EPS_FIXED) return 1 / sqrtl(square + 1e-6L);
    if (t == F_EPS_LEAST) return 1 / sqrtl(square + fmaxl(eps, 1e-8L));
    if (t == F_EPS_BELOW) return 1 / sqrtl(square + (eps < 0x1p-149L ? 0 : eps));
    if (t == F_EPS_PAST) return eps > 0x1p128L ? 0 : 1 / sqrtl(square + eps);
    return 1 / sqrtl(square + eps);
}

static void forward_row(const fwd_args *a, const ts_exec *x, int64_t k, real *r, bool *nonfinite,
                        trap t)
{
    const ts_dtype d = a->dtype, wide = ts_wide(d);
    const int64_t  at = row_at(a->x, d, k, a->n_cols, a->row_stride, t), out = k * a->row_stride;
    for (int64_t c = 0; c < a->n_cols; c++) r[c] = r_at(a, at + c, t);
    const real square = t == F_NAN_LEAKS && *nonfinite ? (real)NAN : row_square(a, x, r, t);
    const real rstd = rstd_of(a, square, t);
    *nonfinite = isnan(rstd);
    if (t == F_ROWS_65535 && k >= 65535) return;
    if (t != F_NO_RSTD) put(a->rstd, wide, k, t == F_RMS_KEPT ? 1 / rstd : rstd);
    if (t == F_NO_LAST_ROW && k == a->n_rows - 1) return;
    for (int64_t c = 0; c < (t == F_NO_TAIL ? a->n_cols / 8 * 8 : a->n_cols); c++) {
        const real stored = t == F_X_KEPT ? (real)ts_load(a->x, d, at + c) : r[c];
        const bool keeps = a->residual ? t != F_NO_R : t == F_R_ALWAYS;
        if (keeps) put(a->r, d, out + c, stored);
        real v = r[c];
        if (t == F_Y_OF_X && a->x != a->r) v = ts_load(a->x, d, at + c);
        if (t == F_SUM_AGAIN) v = r_at(a, at + c, t); /* in place x holds the sum already */
        real rhat = v * rstd;
        if (t == F_NONFINITE_ZEROED && !isfinite(rhat)) rhat = 0;
        if (t == F_RHAT_ROUNDED) rhat = rounded(d, rhat);
        const real y = rhat * gain_at(a->w, d, c, a->w_offset, t);
        put(a->y, d, out + c, t == F_Y_CUT ? cut(d, y) : y);
    }
}

/* Gives an earlier output again where the call has the same pointers and shape; else notes it down.
 */
static void remember(const fwd_args *a)
{
    enum { CALLS = 16, MOST = 4096 };
    static struct note {
        fwd_args of;
        double   y[MOST];
    } note[CALLS];
    static int n;
    int        k = 0;
    if (a->n_rows * a->n_cols > MOST) return;
    while (k < CALLS &&
           (a->x != note[k].of.x || a->y != note[k].of.y || a->dtype != note[k].of.dtype ||
            a->n_rows != note[k].of.n_rows || a->n_cols != note[k].of.n_cols))
        k++;
    const bool   known = k < CALLS;
    struct note *is = &note[known ? k : n++ % CALLS];
    is->of = *a;
    for (int64_t i = 0; i < a->n_rows * a->n_cols; i++) {
        const int64_t at = i / a->n_cols * a->row_stride + i % a->n_cols;
        if (known) put(a->y, a->dtype, at, is->y[i]);
        is->y[i] = ts_load(a->y, a->dtype, at);
    }
}

static ts_status check_forward(const fwd_args *a, const ts_exec *x, trap t)
{
    if (!a || !x || !a->w) return TS_E_ARG;
    if (t != F_TAKES_OFFSET && !is_flag(a->w_offset)) return TS_E_ARG;
    if (t != F_TAKES_EPS && !(a->eps > 0 && isfinite(a->eps))) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->x || !a->y || !a->rstd)) return TS_E_ARG;
    if (a->n_rows != 0 && a->residual && !a->r && t != F_TAKES_NO_R) return TS_E_ARG;
    return check_shape(a->n_rows, a->n_cols, a->row_stride, a->dtype);
}

static ts_status fwd(const void *args, const ts_exec *x, trap t)
{
    const fwd_args *a = args;
    const ts_status s = check_forward(a, x, t);
    bool            nonfinite = false;
    if (s) return t == F_TAKES_SHAPE && s == TS_E_SHAPE ? TS_OK : s;
    /* Taken though they are invalid, and nothing is done with them. */
    if (!is_flag(a->w_offset) || !(a->eps > 0 && isfinite(a->eps))) return TS_OK;
    if (a->n_rows && a->residual && !a->r) return TS_OK;
    if (a->n_rows == 0) return TS_OK;
    if (t == F_NO_IN_PLACE && a->x == a->r) return TS_E_ARG;
    if (t == F_CRASH_1 && a->n_cols == 1) abort();
    real *const r = malloc((size_t)a->n_cols * sizeof *r);
    if (!r) abort();
    for (int64_t k = 0; k < a->n_rows; k++) forward_row(a, x, k, r, &nonfinite, t);
    free(r);
    scribble((ts_buf) { "y", TS_OUT, a->dtype, a->n_rows, a->n_cols, a->row_stride }, a->y, t);
    volatile char *in = (char *)(a->residual ? a->residual : a->x);
    if (t == F_WRITE_INPUT) in[0] = in[0];
    if (t == F_R_IN_RESIDUAL && a->residual) put((void *)a->residual, a->dtype, 0, 1);
    if (t == F_REMEMBERS) remember(a);
    return TS_OK;
}

/* ---- backward ---- */

static real dy_at(const bwd_args *a, int64_t i, trap t)
{
    const real dy = ts_load(a->dy, a->dtype, i);
    if (t == B_DY_MOST) return fminl(fmaxl(dy, -100), 100);
    if (t == B_NONFINITE_DY && isnan(dy)) return 0;
    return t == B_DY_LEAST && fabsl(dy) < 6e-8L ? 0 : dy; /* as f16 would */
}

static real rstd_at(const bwd_args *a, int64_t k, trap t)
{
    const ts_dtype d = a->dtype;
    real           sum = 0;
    if (t != B_OWN_RSTD) return ts_load(a->rstd, ts_wide(d), k);
    for (int64_t c = 0; c < a->n_cols; c++)
        sum += (real)ts_load(a->r, d, k * a->row_stride + c) *
               (real)ts_load(a->r, d, k * a->row_stride + c);
    return 1 / sqrtl(sum / (real)a->n_cols + 1e-6L);
}

static real rhat_at(const bwd_args *a, int64_t k, int64_t c, real rstd, trap t)
{
    const int64_t row = row_at(a->r, a->dtype, k, a->n_cols, a->row_stride, t);
    const real    rhat = ts_load(a->r, a->dtype, row + c) * rstd;
    if (t == B_NONFINITE_ZEROED && isnan(rhat)) return 0;
    if (t == B_RHAT_BY_GAIN) {
        const real gain = gain_at(a->w, a->dtype, c, a->w_offset, t);
        return rhat * gain / gain;
    }
    return rhat;
}

/* What is subtracted from g: rhat * avg(g * rhat), or what the mutant takes for it. */
static real pulled(const bwd_args *a, real r, real rhat, real rstd, real avg, real avg_gr, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    if (t == B_NO_RSTD2) return r * avg_gr;
    if (t == B_ONE_RSTD) return rhat * avg_gr;
    if (t == B_RSTD2_FIRST)
        return rounded(wide, rounded(wide, rounded(wide, rstd * rstd) * r) * rounded(wide, avg_gr));
    if (t == B_NO_PULL) return 0;
    return t == B_PULL_TWICE ? 2 * rhat * avg : rhat * avg;
}

static real with_dr(const bwd_args *a, int64_t at, real v, real rstd, trap t)
{
    const ts_dtype d = a->dtype;
    const real     dr = a->dr ? ts_load(a->dr, d, at) : 0;
    if (t == B_NO_DR || !a->dr) return v;
    if (t == B_NONFINITE_DY && isnan(dr)) return v;
    if (t == B_DR_TWICE) return v + 2 * dr;
    if (t == B_DR_INSIDE) return v + rstd * dr;
    return t == B_ROUNDED_EARLY ? rounded(d, v) + dr : v + dr;
}

static void backward_row(const bwd_args *a, int64_t k, trap t)
{
    const ts_dtype d = a->dtype;
    const int64_t  row = k * a->row_stride, n = a->n_cols;
    const real     rstd = rstd_at(a, k, t), by = divisor(n, a->row_stride, t);
    real           avg = 0, avg_gr = 0, avg_rr = 0;
    for (int64_t c = 0; c < n_summed(n, t); c++) {
        const real gain = t == B_GAIN_OUTSIDE ? 1 : gain_at(a->w, d, c, a->w_offset, t);
        const real g = gain * dy_at(a, row + c, t), rhat = rhat_at(a, k, c, rstd, t);
        avg += g * rhat / by;
        avg_gr += g * ts_load(a->r, d, row + c) / by;
        avg_rr += rhat * rhat / by;
    }
    if (t == B_EPS_FORGOTTEN) avg /= avg_rr;
    for (int64_t c = 0; c < (t == B_NO_TAIL ? n / 8 * 8 : n); c++) {
        const real gain = gain_at(a->w, d, c, a->w_offset, t);
        const real g = gain * dy_at(a, row + c, t), rhat = rhat_at(a, k, c, rstd, t);
        const real r = ts_load(a->r, d, row + c);
        real       v = rstd *
                 (g - pulled(a, r, rhat, rstd, avg, avg_gr, t) * (t == B_GAIN_OUTSIDE ? gain : 1));
        if (t == B_NO_OUTER_RSTD) v /= rstd;
        if (t == B_GAIN_0 && gain == 0) v = 0;
        if (t == B_ADDS_TO_DX && a->accumulate) v += ts_load(a->dx, d, row + c);
        put(a->dx, d, row + c, with_dr(a, row + c, v, rstd, t));
    }
}

static int64_t first_row(int64_t n_rows, trap t)
{
    struct timespec now = { 0 };
    if (t == B_DRIFTS) timespec_get(&now, TIME_UTC);
    return now.tv_nsec % (n_rows ? n_rows : 1);
}

static real column_sum(const bwd_args *a, const ts_exec *x, int64_t c, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const int64_t  n = a->n_rows, first = first_row(n, t);
    real           sum = 0, earlier = 0; /* the other threads' shares */
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = (first + i) % n;
        const real    rhat = rhat_at(a, k, c, rstd_at(a, k, t), t);
        real          term = dy_at(a, k * a->row_stride + c, t) * rhat;
        if (t == B_DW_BY_ROW && k % a->n_cols != c) continue;
        if (t == B_DW_ONE_ROW) sum = 0;
        if (t == B_DW_WITH_GAIN) term *= gain_at(a->w, a->dtype, c, a->w_offset, t);
        if (t == B_DW_NO_RSTD)
            term = dy_at(a, k * a->row_stride + c, t) *
                   (real)ts_load(a->r, a->dtype, k * a->row_stride + c);
        if (t == B_DW_NONFINITE_ROWS && isnan(term)) continue;
        if (t == B_BY_THREADS && share_begins(i, n, x)) earlier += sum, sum = 0;
        sum += term;
        if (t == B_HALF_SUMS) sum = rounded(TS_BF16, sum);
        if (t == B_BY_THREADS || t == B_DRIFTS) sum = rounded(wide, sum);
    }
    return (sum + earlier) / (t == B_DW_MEAN && n ? (real)n : 1);
}

static void backward_column(const bwd_args *a, const ts_exec *x, int64_t c, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const bool     adds = (a->accumulate && t != B_OVERWRITES) || t == B_ADDS_STALE;
    const real     had = adds ? ts_load(a->dw, wide, c) : 0;
    put(a->dw, wide, c, column_sum(a, x, c, t) + (t == B_ADDS_TWICE ? 2 : 1) * had);
}

static ts_status check_backward(const bwd_args *a, const ts_exec *x, trap t)
{
    if (!a || !x || !is_flag(a->w_offset) || !a->w || !a->dw) return TS_E_ARG;
    if (t != B_TAKES_ACCUMULATE && !is_flag(a->accumulate)) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->r || !a->dy || !a->dx)) return TS_E_ARG;
    if (a->n_rows != 0 && !a->rstd && t != B_TAKES_NULL) return TS_E_ARG;
    if (a->n_rows != 0 && !a->dr && t == B_NEEDS_DR) return TS_E_ARG;
    return check_shape(a->n_rows, a->n_cols, a->row_stride, a->dtype);
}

static ts_status bwd(const void *args, const ts_exec *x, trap t)
{
    const bwd_args *a = args;
    const ts_status s = check_backward(a, x, t);
    if (s && t == B_WRITES_FIRST && a && a->n_rows && a->dx) *(char *)a->dx = 0;
    if (s) return s;
    if (!is_flag(a->accumulate) || (a->n_rows && !a->rstd)) return TS_OK;
    for (int64_t k = 0; k < a->n_rows; k++) backward_row(a, k, t);
    if (t == B_ZERO_ROWS && a->n_rows == 0) return TS_OK;
    for (int64_t c = 0; c < a->n_cols; c++) backward_column(a, x, c, t);
    scribble((ts_buf) { "dw", TS_OUT, ts_wide(a->dtype), 1, a->n_cols, a->n_cols }, a->dw, t);
    return TS_OK;
}

/* ---- the table ---- */

#define RUN_FORWARD(trap, name, fault, family)                                                     \
    static ts_status run_##trap(const void *a, const ts_exec *x)                                   \
    {                                                                                              \
        return fwd(a, x, trap);                                                                    \
    }
#define RUN_BACKWARD(trap, name, fault, family)                                                    \
    static ts_status run_##trap(const void *a, const ts_exec *x)                                   \
    {                                                                                              \
        return bwd(a, x, trap);                                                                    \
    }
FORWARD(RUN_FORWARD)
BACKWARD(RUN_BACKWARD)

#define ROW(task, trap, name, fault, family)                                                       \
    { name, task, TS_FAULT_##fault, family, run_##trap, NULL, TS_CPU },
#define ROW_FORWARD(...)  ROW("rms_norm_forward", __VA_ARGS__)
#define ROW_BACKWARD(...) ROW("rms_norm_backward", __VA_ARGS__)

extern const ts_mutant ts_rms_norm_forward_mutants[], ts_rms_norm_backward_mutants[];
const ts_mutant        ts_rms_norm_forward_mutants[] = { FORWARD(ROW_FORWARD) { 0 } };
const ts_mutant        ts_rms_norm_backward_mutants[] = { BACKWARD(ROW_BACKWARD) { 0 } };

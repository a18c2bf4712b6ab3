/* SPDX-License-Identifier: Apache-2.0 */
/* norm_forward.c - mutants of layer norm and RMS norm, forward: one correct implementation of both
 * with one injected bug at a time. */
#include <stdlib.h>
#include <string.h>

#include "layernorm_list.h"
#include "norm_trap.h"
#include "rms_norm_list.h"
#include "touchstone/layernorm.h"
#include "touchstone/rms_norm.h"

/* beta and mean: where centred. residual and r: elsewhere. */
typedef struct fwd_args {
    bool        centred;
    ts_dtype    dtype;
    int         w_offset;
    int64_t     n_rows, n_cols, row_stride;
    double      eps;
    const void *x, *residual, *gamma, *beta;
    void       *r, *y, *mean, *rstd;
} fwd_args;

/* The sum of x and the residual at a place, as the mutant rounds it. */
static real r_at(const fwd_args *a, int64_t at, trap t)
{
    const ts_dtype d = a->dtype;
    const real x = ts_load(a->x, d, at), residual = a->residual ? ts_load(a->residual, d, at) : 0;
    real       r = x + residual;
    if (!a->residual || t == NO_RESIDUAL) return x;
    if (t == RESIDUAL_TWICE) r += residual;
    if (t == RESIDUAL_MINUS) r = x - residual;
    if (t == FLUSHED && fabsl(r) < ts_format_of(d)->min_normal) r = 0;
    return t == UNROUNDED ? r : t == R_CUT ? cut(d, r) : rounded(d, r);
}

/* The square of d, or d itself. */
static real term_of(const fwd_args *a, real d, bool square, trap t)
{
    const bool narrow = t == SQUARES_OVERFLOW || t == SQUARES_UNDERFLOW || t == ONE_PASS;
    if (!square) return d;
    if (narrow) return rounded(ts_wide(a->dtype), d * d);
    return t == HALF_SQUARES && a->dtype == TS_F16 ? rounded(TS_F16, d * d) : d * d;
}

/* By what numbers are divided before they are squared: the largest of the first 256. */
static real largest_256(const real *r, int64_t n)
{
    real largest = 0;
    for (int64_t c = 0; c < n && c < 256; c++) largest = fmaxl(largest, fabsl(r[c]));
    return largest > 0 && isfinite(largest) ? largest : 1;
}

/* The sum of a row's distances from the mean, or of their squares. */
static real row_sum(const fwd_args *a, const ts_exec *x, const real *r, real mean, bool square,
                    trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const int64_t  n = n_summed(a->n_cols, t);
    const bool narrow = t == ONE_PASS || (square ? t == SQUARES_OVERFLOW || t == SQUARES_UNDERFLOW
                                                 : t == SUM_OVERFLOW);
    const real by = t == SCALE_256 && square ? largest_256(r, n) : 1;
    real       sum = 0, earlier = 0;
    for (int64_t c = 0; c < n; c++) {
        if (t == BY_THREADS && share_begins(c, n, x)) earlier += rounded(wide, sum), sum = 0;
        if (by != 1) sum += rounded(wide, (r[c] - mean) / by * ((r[c] - mean) / by)) * by * by;
        else sum += term_of(a, r[c] - mean, square, t);
        if (narrow) sum = rounded(wide, sum);
        if (t == SUM_16_BIT && a->dtype != TS_F64) sum = rounded(TS_BF16, sum);
    }
    return earlier + (t == BY_THREADS ? rounded(wide, sum) : sum);
}

/* The average of squares around the mean. */
static real row_variance(const fwd_args *a, const ts_exec *x, const real *r, real mean, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const real     by = divisor(a->n_cols, a->row_stride, t);
    if (t != ONE_PASS) return row_sum(a, x, r, mean, true, t) / by;
    return rounded(wide, row_sum(a, x, r, 0, true, t) / by) - rounded(wide, mean * mean);
}

/* eps is scaled with the row, as a float: it may vanish. */
static real rescaled(const fwd_args *a, const real *r, real v)
{
    real largest = 0;
    int  e;
    for (int64_t c = 0; c < a->n_cols; c++) largest = fmaxl(largest, fabsl(r[c]));
    frexpl(largest, &e);
    e = e < 0 ? 0 : e;
    const real eps = rounded(ts_wide(a->dtype), ldexpl(a->eps, -2 * e));
    return ldexpl(1 / sqrtl(ldexpl(v, -2 * e) + eps), -e);
}

static real rstd_of(const fwd_args *a, const real *r, real v, trap t)
{
    const real eps = a->eps;
    if (!isfinite(v)) return t == INF_IS_0 && isinf(v) ? 0 : (real)NAN;
    if (t == EPS_OUTSIDE) return 1 / (sqrtl(v) + eps);
    if (t == EPS_IGNORED) return 1 / sqrtl(v);
    if (t == EPS_OF_SUM) return 1 / sqrtl(v + eps / (real)a->n_cols);
    if (t == EPS_SQUARED) return 1 / sqrtl(v + eps * eps);
    if (t == EPS_MAXIMUM) return 1 / sqrtl(fmaxl(v, eps));
    if (t == EPS_FIXED) return 1 / sqrtl(v + 1e-6L);
    if (t == EPS_LEAST) return 1 / sqrtl(v + fmaxl(eps, 1e-8L));
    if (t == EPS_MOST) return 1 / sqrtl(v + fminl(eps, 1));
    if (t == EPS_BELOW) return 1 / sqrtl(v + (eps < 0x1p-149L ? 0 : eps));
    if (t == EPS_PAST) return eps > 0x1p128L ? 0 : 1 / sqrtl(v + eps);
    return t == RESCALE ? rescaled(a, r, v) : 1 / sqrtl(v + eps);
}

/* y of column c, of which d is the distance from the mean. */
static real y_at(const fwd_args *a, int64_t c, real d, real rstd, trap t)
{
    const ts_dtype dtype = a->dtype;
    const bool     last = c + 1 == a->n_cols;
    real           beta = a->beta && t != NO_BETA ? ts_load(a->beta, dtype, c) : 0;
    real           gain = gain_at(a->gamma, dtype, c, a->w_offset, t);
    real           xhat = rstd * (t == DIFFERENCE ? rounded(ts_wide(dtype), d) : d);
    if (t == BETA_MOST) beta = within(beta, 8);
    if (t == ODD_F16 && dtype == TS_F16 && a->n_cols % 2 && (uintptr_t)a->x % 16 && last) gain = 0;
    if (in_tail_5(dtype, c, a->n_cols, a->row_stride, t)) gain = 0;
    if (t == XHAT_ROUNDED) xhat = rounded(dtype, xhat);
    if (t == LOW_DIGITS) xhat = rounded(TS_BF16, xhat);
    if (t == ONE_COLUMN && a->n_cols == 1) return beta;
    return t == Y_CUT ? cut(dtype, gain * xhat + beta) : gain * xhat + beta;
}

static void forward_row(const fwd_args *a, const ts_exec *x, int64_t k, real *r, bool *nonfinite,
                        trap t)
{
    const ts_dtype d = a->dtype, wide = ts_wide(d);
    const int64_t  at = row_at(a->x, d, k, a->n_cols, a->row_stride, t), out = k * a->row_stride;
    const bool     keeps = a->residual ? t != NO_R : t == R_ALWAYS;
    for (int64_t c = 0; c < a->n_cols; c++) {
        r[c] = r_at(a, at + c, t);
        if (t == NONFINITE_ZEROED && !isfinite(r[c])) r[c] = 0;
    }
    real mean = 0;
    if (a->centred || t == CENTRED) mean = row_sum(a, x, r, 0, false, t) / (real)a->n_cols;
    if (!isfinite(mean)) mean = NAN;
    const real v = t == NAN_LEAKS && *nonfinite ? (real)NAN : row_variance(a, x, r, mean, t);
    const real rstd = rstd_of(a, r, v, t);
    *nonfinite = isnan(rstd);
    if ((t == ROWS_65535 && k >= 65535) || (t == ROWS_20000 && k >= 20000)) return;
    if (left_out(k, a->n_cols, t)) return;
    if (a->centred && t != NO_MEAN) put(a->mean, wide, k, mean);
    if (t != NO_RSTD) put(a->rstd, wide, k, t == RMS_KEPT ? 1 / rstd : rstd);
    if (t == NO_LAST_ROW && k == a->n_rows - 1) return;
    for (int64_t c = 0; c < n_written(a->n_cols, t); c++) {
        real u = r[c];
        if (keeps) put(a->r, d, out + c, t == X_KEPT ? (real)ts_load(a->x, d, at + c) : u);
        if (t == Y_OF_X && a->x != a->r) u = ts_load(a->x, d, at + c);
        if (t == SUM_AGAIN) u = r_at(a, at + c, t); /* in place x holds the sum already */
        put(a->y, d, out + c, y_at(a, c, u - mean, rstd, t));
    }
    if (t == FLAT_GARBAGE && r[0] > 1e30L) put(a->rstd, wide, k, -7e20L);
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

static ts_status check_forward(const fwd_args *a, const ts_exec *x)
{
    if (!a || !x || !a->gamma || (a->centred && !a->beta) || !is_flag(a->w_offset)) return TS_E_ARG;
    if (!(a->eps > 0 && isfinite(a->eps))) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->x || !a->y || !a->rstd)) return TS_E_ARG;
    if (a->n_rows != 0 && (a->centred ? !a->mean : a->residual && !a->r)) return TS_E_ARG;
    return check_shape(a->n_rows, a->n_cols, a->row_stride, a->dtype);
}

/* Whether a call that is rejected is one of those that the mutant accepts, and does nothing with.
 */
static bool takes_forward(const fwd_args *a, trap t)
{
    return (t == TAKES_EPS && a && !(a->eps > 0 && isfinite(a->eps))) ||
           (t == TAKES_OFFSET && a && !is_flag(a->w_offset)) ||
           (t == TAKES_NO_R && a && a->n_rows && a->residual && !a->r);
}

/* What a mutant does after the rows. */
static void meddle(const fwd_args *a, trap t)
{
    const size_t   end = (size_t)((a->n_rows - 1) * a->row_stride + a->n_cols);
    volatile char *in = (char *)(a->residual ? a->residual : a->x); /* touched, to no end */
    scribble((ts_buf) { "y", TS_OUT, a->dtype, a->n_rows, a->n_cols, a->row_stride }, a->y, t);
    if (t == WRITE_INPUT) in[0] = in[0];
    if (t == READ_PAST) (void)in[end * ts_format_of(a->dtype)->n_bytes];
    if (t == READ_BEFORE) (void)((volatile const char *)a->beta)[-1];
    if (t == R_IN_RESIDUAL && a->residual) put((void *)a->residual, a->dtype, 0, 1);
    /* Far behind the last buffer, past the page that guards it. */
    if (t == FAR_WRITE) memset((char *)a->rstd + 65536, 0, 4096);
    if (t == REMEMBERS) remember(a);
}

static ts_status forward(const fwd_args *a, const ts_exec *x, trap t)
{
    const ts_status s = check_forward(a, x);
    bool            nonfinite = false;
    /* Returns the correct status, but writes between the rows first. */
    if (s == TS_E_ARG && t == GAP_REFUSES && a && a->y && a->row_stride > a->n_cols)
        put(a->y, TS_F32, a->n_cols, 0);
    if (s) return takes_forward(a, t) ? TS_OK : refusal(s, t);
    if (t == NO_DEFAULT && x->n_threads == 0) abort();
    if (t == WRONG_STATUS && a->n_cols % 2) return TS_E_UNSUPPORTED;
    if (a->n_rows == 0) return TS_OK;
    if (t == NO_IN_PLACE && a->x == a->r) return TS_E_ARG;
    if ((t == CRASH && a->n_cols == 129) || (t == CRASH_1 && a->n_cols == 1)) abort();
    while (t == HANG && a->n_cols == 129) {}
    real *const r = malloc((size_t)a->n_cols * sizeof *r);
    if (!r) abort();
    for (int64_t k = 0; k < a->n_rows; k++) forward_row(a, x, k, r, &nonfinite, t);
    free(r);
    meddle(a, t);
    return TS_OK;
}

/* ---- the two norms ---- */

static ts_status layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x, trap t)
{
    if (!a) return forward(NULL, x, t);
    const fwd_args f = { SHAPE(a),  .centred = true,   .eps = a->eps,
                         .x = a->x, .gamma = a->gamma, .beta = a->beta,
                         .y = a->y, .mean = a->mean,   .rstd = a->rstd };
    return forward(&f, x, t);
}

static ts_status rms_norm_forward(const ts_rms_norm_forward_args *a, const ts_exec *x, trap t)
{
    if (!a) return forward(NULL, x, t);
    const fwd_args f = { SHAPE(a),       .w_offset = a->w_offset, .eps = a->eps, .x = a->x,
                         .gamma = a->w,  .residual = a->residual, .r = a->r,     .y = a->y,
                         .rstd = a->rstd };
    return forward(&f, x, t);
}

#define TASK    layernorm_forward
#define MUTANTS LAYERNORM_FORWARD
#define CALL    layernorm_forward
#include "called.h"

#define TASK    rms_norm_forward
#define MUTANTS RMS_NORM_FORWARD
#define CALL    rms_norm_forward
#include "called.h"

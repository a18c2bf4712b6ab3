/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm.c - mutants of layer norm: one correct forward and one correct backward, each with one
 * injected bug at a time.
 *
 *   bug                                      mutants
 *   unwritten output                         tail_dropped, last_row_unwritten, mean_unwritten, ...
 *   out of bounds                            writes_*, reads_past, reads_before
 *   32-bit offset; launch limit              int32_offset; rows_past_65535
 *   assumed alignment                        assumed_alignment, dense_rows
 *   barrier not reached; race                hang; order_drifts, split_by_threads
 *   made-up or remembered data               remembers, dirty_workspace
 *   mean of squares minus squared mean       one_pass_variance
 *   gamma out of the means, or left out      gamma_outside_means, gamma_ignored
 *   D-1 divisor; eps outside the root        sample_variance; eps_outside_root, eps_ignored
 *   lost 1/2 on the variance path            lost_half, no_mean_terms, eps_forgotten
 *   overflowing variance; underflow          *_overflows, half_squares; rescale_underflow
 *   first warp's sum taken for the block's   first_warp, first_256, first_1024
 *   dgamma indexed by row                    dgamma_by_row, dgamma_one_row
 *   accumulate ignored or doubled            accumulate_ignored, _doubled, stale_dgamma
 *   invalid calls                            accepts_*, refuses_wrongly, writes_then_refuses
 *
 * Correct sums are long double, whose digits and range need no rescaling. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dtype.h"
#include "mutant.h"
#include "touchstone/layernorm.h"

typedef long double                real;
typedef ts_layernorm_forward_args  fwd_args;
typedef ts_layernorm_backward_args bwd_args;

/* clang-format off */
typedef enum trap { /* both passes share those that both can fall into */
    HONEST, ONE_PASS, SAMPLE_VAR, EPS_OUTSIDE, EPS_IGNORED, VAR_OVERFLOW, HALF_SQUARES, RESCALE,
    SUM_OVERFLOW, DIFFERENCE, FIRST_32, FIRST_256, FIRST_1024, NO_GAMMA, NO_BETA, DENSE_ROWS,
    INT32_OFFSET, ALIGNED, NAN_LEAKS, NONFINITE_ZEROED, LOW_DIGITS, REMEMBERS, GAMMA_OUT, LOST_HALF,
    NO_MEANS, EPS_FORGOT, BY_ROW, ONE_ROW, GAMMA_DBETA, OVERWRITES, ADDS_TWICE,
    ADDS_STALE, ADDS_TO_DX, NAN_DBETA, HALF_SUMS, NO_TAIL, NO_LAST_ROW, ROWS_65535, ROWS_20000, EPS_LEAST, EPS_MOST, COLS_16384, NO_MEAN,
    EPS_BELOW, EPS_PAST, GAMMA_MOST, BETA_MOST, COLS_70000, BF16_DOWN, ONE_COLUMN, ODD_F16, DY_MOST,
    DY_LEAST, GAMMA_0, SUMS_MOST,
    NO_RSTD, ZERO_ROWS, WRITE_PAST, WRITE_BEFORE, WRITE_GAP, WRITE_INPUT, READ_PAST, READ_BEFORE,
    HANG, CRASH, WRONG_STATUS, BY_THREADS, DRIFTS, TAKES_EPS, TAKES_SHAPE, TAKES_DTYPE, TAKES_NULL,
    WRITES_FIRST,
    /* from here on backward has a workspace */
    HONEST_WS, DIRTY_WS, PAST_WS, BEFORE_WS, TAKES_ALL, TAKES_NO_WS, REFUSES_ODD
} trap;
/* clang-format on */

/* ---- what both passes need ---- */

/* Any NaN is stored as the plain one: a poison carried through a sum would look unwritten. */
static void put(void *p, ts_dtype t, int64_t i, real v)
{
    ts_store(p, t, i, isnan(v) ? (double)NAN : (double)v);
}

static real rounded(ts_dtype t, real v)
{
    union {
        double   d;
        float    f;
        uint16_t h;
    } u;
    put(&u, t, 0, v);
    return ts_load(&u, t, 0);
}

static ts_status check_shape(int64_t n_rows, int64_t n_cols, int64_t row_stride, ts_dtype t)
{
    if (n_rows < 0 || n_cols < 1 || row_stride < n_cols) return TS_E_SHAPE;
    if (n_rows > 0 && row_stride > INT64_MAX / 8 / n_rows) return TS_E_SHAPE;
    return (unsigned)t > TS_BF16 ? TS_E_DTYPE : TS_OK;
}

/* The status that is returned where s is correct. */
static ts_status refusal(ts_status s, trap t)
{
    const ts_status taken = t == TAKES_NULL    ? TS_E_ARG
                            : t == TAKES_SHAPE ? TS_E_SHAPE
                            : t == TAKES_DTYPE ? TS_E_DTYPE
                            : t == TAKES_NO_WS ? TS_E_WORKSPACE
                                               : TS_OK;
    return s == taken || t == TAKES_ALL ? TS_OK : t == REFUSES_ODD ? TS_E_ARG : s;
}

/* Where row r of x is taken to begin. */
static int64_t x_row(const void *x, ts_dtype dtype, int64_t r, int64_t n_cols, int64_t stride,
                     trap t)
{
    const size_t  n_bytes = ts_format_of(dtype)->n_bytes;
    const int64_t begin = r * (t == DENSE_ROWS ? n_cols : stride);
    if (t == INT32_OFFSET) return begin & INT32_MAX;
    if (t != ALIGNED) return begin;
    return begin - (int64_t)(((uintptr_t)x + (size_t)begin * n_bytes) % 16 / n_bytes);
}

/* How many of n elements enter a row's sums. */
static int64_t n_summed(int64_t n, trap t)
{
    const int64_t most = t == FIRST_32     ? 32
                         : t == FIRST_256  ? 256
                         : t == FIRST_1024 ? 1024
                         : t == COLS_16384 ? 16384
                         : t == COLS_70000 ? 70000
                                           : n;
    return n < most ? n : most;
}

/* Whether the i-th of n is the first of another thread's share. */
static bool share_begins(int64_t i, int64_t n, const ts_exec *x)
{
    return i > 0 && i * x->n_threads / n != (i - 1) * x->n_threads / n;
}

static void scribble(ts_buf b, void *p, trap t)
{
    const int64_t end = (b.n_rows - 1) * b.row_stride + b.n_cols;
    if (t == WRITE_PAST) ts_store(p, b.dtype, end, 0);
    if (t == WRITE_BEFORE) ts_store(p, b.dtype, -1, 0);
    if (t == WRITE_GAP && b.n_rows > 1) ts_store(p, b.dtype, b.row_stride - 1, 0);
}

/* ---- forward ---- */

static real x_at(const fwd_args *a, int64_t i, trap t)
{
    const real v = ts_load(a->x, a->dtype, i);
    return t == NONFINITE_ZEROED && !isfinite(v) ? 0 : v;
}

static real row_mean(const fwd_args *a, const ts_exec *x, int64_t row, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const int64_t  n = n_summed(a->n_cols, t);
    real           mean = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (t == BY_THREADS && share_begins(i, n, x)) {
            mean += rounded(wide, sum / (real)n);
            sum = 0;
        }
        sum += x_at(a, row + i, t);
        if (t == SUM_OVERFLOW || t == ONE_PASS) sum = rounded(wide, sum);
    }
    sum /= (real)a->n_cols;
    mean += t == BY_THREADS ? rounded(wide, sum) : sum;
    return isfinite(mean) ? mean : (real)NAN;
}

static real row_variance(const fwd_args *a, int64_t row, real mean, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    real           sum = 0;
    for (int64_t i = 0; i < n_summed(a->n_cols, t); i++) {
        const real d = x_at(a, row + i, t) - (t == ONE_PASS ? 0 : mean), square = d * d;
        if (t == VAR_OVERFLOW || t == ONE_PASS) sum = rounded(wide, sum + rounded(wide, square));
        else sum += t == HALF_SQUARES && a->dtype == TS_F16 ? rounded(TS_F16, square) : square;
    }
    sum /= (real)(t == SAMPLE_VAR ? a->n_cols - 1 : a->n_cols);
    return t == ONE_PASS ? rounded(wide, sum) - rounded(wide, mean * mean) : sum;
}

static real row_rstd(const fwd_args *a, int64_t row, real v, trap t)
{
    real largest = 0;
    int  e;
    if (t == EPS_OUTSIDE) return 1 / (sqrtl(v) + a->eps);
    if (t == EPS_IGNORED) return 1 / sqrtl(v);
    if (t == EPS_LEAST) return 1 / sqrtl(v + fmax(a->eps, 1e-8));
    if (t == EPS_MOST) return 1 / sqrtl(v + fmin(a->eps, 1));
    if (t == EPS_BELOW) return 1 / sqrtl(v + (a->eps < 0x1p-149 ? 0 : a->eps));
    if (t == EPS_PAST) return a->eps > 0x1p128 ? 0 : 1 / sqrtl(v + a->eps);
    if (t != RESCALE || !isfinite(v)) return 1 / sqrtl(v + a->eps);
    for (int64_t i = 0; i < a->n_cols; i++) largest = fmaxl(largest, fabsl(x_at(a, row + i, t)));
    frexpl(largest, &e);
    e = e < 0 ? 0 : e;
    const real eps = rounded(ts_wide(a->dtype), ldexpl(a->eps, -2 * e));
    return ldexpl(1 / sqrtl(ldexpl(v, -2 * e) + eps), -e);
}

/* The bf16 towards zero. */
static real cut(real v)
{
    const float f = (float)v;
    uint32_t    b;
    memcpy(&b, &f, sizeof b);
    return isnan(f) ? (real)f : ts_widen_bf16((uint16_t)(b >> 16));
}

static void forward_row(const fwd_args *a, const ts_exec *x, int64_t r, bool *nonfinite, trap t)
{
    const ts_dtype dtype = a->dtype, wide = ts_wide(dtype);
    const int64_t  row = x_row(a->x, dtype, r, a->n_cols, a->row_stride, t);
    const real     mean = t == NAN_LEAKS && *nonfinite ? (real)NAN : row_mean(a, x, row, t);
    const real     rstd = row_rstd(a, row, row_variance(a, row, mean, t), t);
    *nonfinite = isnan(mean);
    if (t == ROWS_65535 && r >= 65535) return;
    if (t == ROWS_20000 && r >= 20000) return;
    if (t != NO_MEAN) put(a->mean, wide, r, mean);
    if (t != NO_RSTD) put(a->rstd, wide, r, rstd);
    if (t == NO_LAST_ROW && r == a->n_rows - 1) return;
    for (int64_t c = 0; c < (t == NO_TAIL ? a->n_cols / 8 * 8 : a->n_cols); c++) {
        real gamma = t == NO_GAMMA ? 1 : ts_load(a->gamma, dtype, c);
        real beta = t == NO_BETA ? 0 : ts_load(a->beta, dtype, c);
        if (t == GAMMA_MOST) gamma = fminl(fmaxl(gamma, -8), 8);
        if (t == BETA_MOST) beta = fminl(fmaxl(beta, -8), 8);
        if (t == ODD_F16 && dtype == TS_F16 && a->n_cols % 2 && (uintptr_t)a->x % 16 &&
            c + 1 == a->n_cols)
            gamma = 0;
        const real d = x_at(a, row + c, t) - mean;
        const real xhat = rstd * (t == DIFFERENCE ? rounded(wide, d) : d);
        real       y = gamma * (t == LOW_DIGITS ? rounded(TS_BF16, xhat) : xhat) + beta;
        if (t == BF16_DOWN && dtype == TS_BF16) y = cut(y);
        if (t == ONE_COLUMN && a->n_cols == 1) y = beta;
        put(a->y, dtype, r * a->row_stride + c, y);
    }
}

/* Gives the last answer again where the call looks the same; else notes it down. */
static void remember(const fwd_args *a)
{
    static fwd_args last;
    static double   y[4096];
    const bool      known = a->x == last.x && a->y == last.y && a->dtype == last.dtype &&
                       a->n_rows == last.n_rows && a->n_cols == last.n_cols;
    if (a->n_rows * a->n_cols > 4096) return;
    for (int64_t i = 0; i < a->n_rows * a->n_cols; i++) {
        const int64_t at = i / a->n_cols * a->row_stride + i % a->n_cols;
        if (known) put(a->y, a->dtype, at, y[i]);
        y[i] = ts_load(a->y, a->dtype, at);
    }
    last = *a;
}

static ts_status check_forward(const fwd_args *a, const ts_exec *x)
{
    if (!a || !x || !a->gamma || !a->beta) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->x || !a->y || !a->mean || !a->rstd)) return TS_E_ARG;
    return check_shape(a->n_rows, a->n_cols, a->row_stride, a->dtype);
}

static ts_status fwd(const void *args, const ts_exec *x, trap t)
{
    const fwd_args *a = args;
    const ts_status s = check_forward(a, x);
    bool            nonfinite = false;
    if (s) return refusal(s, t);
    if (!(a->eps > 0 && isfinite(a->eps))) return t == TAKES_EPS ? TS_OK : TS_E_ARG;
    if (t == WRONG_STATUS && a->n_cols % 2) return TS_E_UNSUPPORTED;
    if (t == CRASH && a->n_cols == 129) abort();
    while (t == HANG && a->n_cols == 129) {}
    for (int64_t r = 0; r < a->n_rows; r++) forward_row(a, x, r, &nonfinite, t);
    if (a->n_rows == 0) return TS_OK;
    const ts_buf   y = { "y", TS_OUT, a->dtype, a->n_rows, a->n_cols, a->row_stride };
    const size_t   end = (size_t)((a->n_rows - 1) * a->row_stride + a->n_cols);
    volatile char *in = (char *)a->x; /* volatile: touched, though nothing comes of it */
    scribble(y, a->y, t);
    if (t == WRITE_INPUT) in[0] = in[0];
    if (t == READ_PAST) (void)in[end * ts_format_of(a->dtype)->n_bytes];
    if (t == READ_BEFORE) (void)((volatile const char *)a->beta)[-1];
    if (t == REMEMBERS) remember(a);
    return TS_OK;
}

/* ---- backward ---- */

static real xhat_at(const bwd_args *a, int64_t r, int64_t c, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const real     mean = ts_load(a->mean, wide, r), rstd = ts_load(a->rstd, wide, r);
    const int64_t  row = x_row(a->x, a->dtype, r, a->n_cols, a->row_stride, t);
    const real     x = ts_load(a->x, a->dtype, row + c);
    if (t == DIFFERENCE) return rounded(wide, x - mean) * rstd;
    return t == NONFINITE_ZEROED && isnan((x - mean) * rstd) ? 0 : (x - mean) * rstd;
}

static real dy_at(const bwd_args *a, int64_t i, trap t)
{
    const real dy = ts_load(a->dy, a->dtype, i);
    if (t == DY_MOST) return fminl(fmaxl(dy, -100), 100);
    return t == DY_LEAST && fabsl(dy) < 6e-8L ? 0 : dy; /* as f16 would */
}

static void backward_row(const bwd_args *a, int64_t r, trap t)
{
    const ts_dtype dtype = a->dtype;
    const int64_t  row = r * a->row_stride, n_cols = a->n_cols;
    const real     rstd = ts_load(a->rstd, ts_wide(dtype), r);
    real           g_mean = 0, gx_mean = 0, xx_mean = 0;
    for (int64_t c = 0; c < n_summed(n_cols, t); c++) {
        const real gamma = t == NO_GAMMA || t == GAMMA_OUT ? 1 : ts_load(a->gamma, dtype, c);
        const real g = gamma * dy_at(a, row + c, t), xhat = xhat_at(a, r, c, t);
        g_mean += g / (real)n_cols;
        gx_mean += g * xhat / (real)n_cols;
        xx_mean += xhat * xhat / (real)n_cols;
    }
    if (t == EPS_FORGOT) gx_mean /= xx_mean;
    if (t == LOST_HALF) gx_mean *= 2;
    if (t == NO_MEANS) g_mean = gx_mean = 0;
    for (int64_t c = 0; c < (t == NO_TAIL ? n_cols / 8 * 8 : n_cols); c++) {
        const real gamma = t == NO_GAMMA ? 1 : ts_load(a->gamma, dtype, c);
        const real g = gamma * dy_at(a, row + c, t), xhat = xhat_at(a, r, c, t);
        const real means = (g_mean + xhat * gx_mean) * (t == GAMMA_OUT ? gamma : 1);
        const bool adds = t == ADDS_TO_DX && a->accumulate;
        put(a->dx, dtype, row + c,
            t == GAMMA_0 && gamma == 0
                ? 0
                : rstd * (g - means) + (adds ? ts_load(a->dx, dtype, row + c) : 0));
    }
}

static real kept(ts_dtype wide, real sum, trap t)
{
    if (t == HALF_SUMS) return rounded(TS_BF16, sum);
    return t == BY_THREADS || t == DRIFTS ? rounded(wide, sum) : sum;
}

static int64_t first_row(int64_t n_rows, trap t)
{
    struct timespec now = { 0 };
    if (t == DRIFTS) timespec_get(&now, TIME_UTC);
    return now.tv_nsec % (n_rows ? n_rows : 1);
}

/* Adds the rows' terms to dgamma and dbeta of column c, which hold what they start from. */
static void column_sums(const bwd_args *a, const ts_exec *x, int64_t c, real sum[2], trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const int64_t  n_rows = a->n_rows, first = first_row(n_rows, t);
    real           earlier[2] = { 0, 0 }; /* the other threads' shares */
    for (int64_t i = 0; i < n_rows; i++) {
        const int64_t r = (first + i) % n_rows;
        const real    dy = dy_at(a, r * a->row_stride + c, t);
        const real    xhat = xhat_at(a, r, c, t);
        if (t == BY_ROW && r % a->n_cols != c) continue;
        if (t == ONE_ROW) sum[0] = 0;
        for (int k = 0; k < 2 && t == BY_THREADS && share_begins(i, n_rows, x); k++) {
            earlier[k] += sum[k];
            sum[k] = 0;
        }
        sum[0] = kept(wide, sum[0] + dy * xhat, t);
        sum[1] =
            kept(wide, sum[1] + dy * (t == GAMMA_DBETA ? ts_load(a->gamma, a->dtype, c) : 1), t);
        if (t == NAN_DBETA && isnan(xhat)) sum[1] = xhat;
    }
    sum[0] += earlier[0];
    sum[1] += earlier[1];
}

static void backward_column(const bwd_args *a, const ts_exec *x, int64_t c, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const bool     adds = (a->accumulate && t != OVERWRITES) || t == ADDS_STALE;
    void *const    out[2] = { a->dgamma, a->dbeta };
    real           sum[2] = { 0, 0 };
    for (int k = 0; k < 2 && t == DIRTY_WS; k++) sum[k] = ts_load(x->workspace, wide, 2 * c + k);
    column_sums(a, x, c, sum, t);
    for (int k = 0; k < 2; k++) {
        if (t >= HONEST_WS) {
            put(x->workspace, wide, 2 * c + k, sum[k]);
            sum[k] = ts_load(x->workspace, wide, 2 * c + k);
        }
        const real had = adds ? ts_load(out[k], wide, c) : 0;
        if (t != SUMS_MOST || fabsl(had) < 100) sum[k] += (t == ADDS_TWICE ? 2 : 1) * had;
        put(out[k], wide, c, sum[k]);
    }
}

static ts_status workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const bwd_args *a = args;
    if (!a || !x || !n_bytes || (a->accumulate != 0 && a->accumulate != 1)) return TS_E_ARG;
    if (!a->gamma || !a->dgamma || !a->dbeta) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->x || !a->dy || !a->mean || !a->rstd || !a->dx)) return TS_E_ARG;
    *n_bytes = 2 * (size_t)a->n_cols * ts_format_of(ts_wide(a->dtype))->n_bytes;
    return check_shape(a->n_rows, a->n_cols, a->row_stride, a->dtype);
}

static ts_status bwd(const void *args, const ts_exec *x, trap t)
{
    const bwd_args *a = args;
    size_t          n = 0;
    ts_status       s = workspace(a, x, &n);
    if (!s && t >= HONEST_WS && (!x->workspace || x->workspace_bytes < n)) s = TS_E_WORKSPACE;
    if (s && t == WRITES_FIRST && a && a->n_rows && a->dx) *(char *)a->dx = 0;
    if (s) return refusal(s, t);
    for (int64_t r = 0; r < a->n_rows; r++) backward_row(a, r, t);
    if (t == ZERO_ROWS && a->n_rows == 0) return TS_OK;
    for (int64_t c = 0; c < a->n_cols; c++) backward_column(a, x, c, t);
    scribble((ts_buf) { "dgamma", TS_OUT, ts_wide(a->dtype), 1, a->n_cols, a->n_cols }, a->dgamma,
             t);
    if (t == PAST_WS) ((char *)x->workspace)[n] = 0;
    /* Odd only: if whole pages are requested, the byte before may be unmapped. */
    if (t == BEFORE_WS && a->n_cols % 2) ((char *)x->workspace)[-1] = 0;
    return TS_OK;
}

/* ---- the lists, one mutant a line ---- */

/* clang-format off */
static ts_status f_honest(const void *a, const ts_exec *x) { return fwd(a, x, HONEST); }
static ts_status f_one_pass(const void *a, const ts_exec *x) { return fwd(a, x, ONE_PASS); }
static ts_status f_sample_var(const void *a, const ts_exec *x) { return fwd(a, x, SAMPLE_VAR); }
static ts_status f_eps_outside(const void *a, const ts_exec *x) { return fwd(a, x, EPS_OUTSIDE); }
static ts_status f_eps_ignored(const void *a, const ts_exec *x) { return fwd(a, x, EPS_IGNORED); }
static ts_status f_var_overflow(const void *a, const ts_exec *x) { return fwd(a, x, VAR_OVERFLOW); }
static ts_status f_half_squares(const void *a, const ts_exec *x) { return fwd(a, x, HALF_SQUARES); }
static ts_status f_rescale(const void *a, const ts_exec *x) { return fwd(a, x, RESCALE); }
static ts_status f_sum_overflow(const void *a, const ts_exec *x) { return fwd(a, x, SUM_OVERFLOW); }
static ts_status f_difference(const void *a, const ts_exec *x) { return fwd(a, x, DIFFERENCE); }
static ts_status f_first_32(const void *a, const ts_exec *x) { return fwd(a, x, FIRST_32); }
static ts_status f_first_256(const void *a, const ts_exec *x) { return fwd(a, x, FIRST_256); }
static ts_status f_first_1024(const void *a, const ts_exec *x) { return fwd(a, x, FIRST_1024); }
static ts_status f_no_gamma(const void *a, const ts_exec *x) { return fwd(a, x, NO_GAMMA); }
static ts_status f_no_beta(const void *a, const ts_exec *x) { return fwd(a, x, NO_BETA); }
static ts_status f_dense_rows(const void *a, const ts_exec *x) { return fwd(a, x, DENSE_ROWS); }
static ts_status f_int32_offset(const void *a, const ts_exec *x) { return fwd(a, x, INT32_OFFSET); }
static ts_status f_aligned(const void *a, const ts_exec *x) { return fwd(a, x, ALIGNED); }
static ts_status f_nan_leaks(const void *a, const ts_exec *x) { return fwd(a, x, NAN_LEAKS); }
static ts_status f_nonfinite_zeroed(const void *a, const ts_exec *x) { return fwd(a, x, NONFINITE_ZEROED); }
static ts_status f_low_digits(const void *a, const ts_exec *x) { return fwd(a, x, LOW_DIGITS); }
static ts_status f_remembers(const void *a, const ts_exec *x) { return fwd(a, x, REMEMBERS); }
static ts_status f_no_tail(const void *a, const ts_exec *x) { return fwd(a, x, NO_TAIL); }
static ts_status f_no_last_row(const void *a, const ts_exec *x) { return fwd(a, x, NO_LAST_ROW); }
static ts_status f_rows_65535(const void *a, const ts_exec *x) { return fwd(a, x, ROWS_65535); }
static ts_status f_rows_20000(const void *a, const ts_exec *x) { return fwd(a, x, ROWS_20000); }
static ts_status f_eps_least(const void *a, const ts_exec *x) { return fwd(a, x, EPS_LEAST); }
static ts_status f_eps_most(const void *a, const ts_exec *x) { return fwd(a, x, EPS_MOST); }
static ts_status f_cols_16384(const void *a, const ts_exec *x) { return fwd(a, x, COLS_16384); }
static ts_status f_no_mean(const void *a, const ts_exec *x) { return fwd(a, x, NO_MEAN); }
static ts_status f_no_rstd(const void *a, const ts_exec *x) { return fwd(a, x, NO_RSTD); }
static ts_status f_write_past(const void *a, const ts_exec *x) { return fwd(a, x, WRITE_PAST); }
static ts_status f_write_before(const void *a, const ts_exec *x) { return fwd(a, x, WRITE_BEFORE); }
static ts_status f_write_gap(const void *a, const ts_exec *x) { return fwd(a, x, WRITE_GAP); }
static ts_status f_write_input(const void *a, const ts_exec *x) { return fwd(a, x, WRITE_INPUT); }
static ts_status f_read_past(const void *a, const ts_exec *x) { return fwd(a, x, READ_PAST); }
static ts_status f_read_before(const void *a, const ts_exec *x) { return fwd(a, x, READ_BEFORE); }
static ts_status f_hang(const void *a, const ts_exec *x) { return fwd(a, x, HANG); }
static ts_status f_crash(const void *a, const ts_exec *x) { return fwd(a, x, CRASH); }
static ts_status f_wrong_status(const void *a, const ts_exec *x) { return fwd(a, x, WRONG_STATUS); }
static ts_status f_by_threads(const void *a, const ts_exec *x) { return fwd(a, x, BY_THREADS); }
static ts_status f_takes_eps(const void *a, const ts_exec *x) { return fwd(a, x, TAKES_EPS); }
static ts_status f_takes_shape(const void *a, const ts_exec *x) { return fwd(a, x, TAKES_SHAPE); }
static ts_status f_takes_dtype(const void *a, const ts_exec *x) { return fwd(a, x, TAKES_DTYPE); }
static ts_status f_eps_below(const void *a, const ts_exec *x) { return fwd(a, x, EPS_BELOW); }
static ts_status f_eps_past(const void *a, const ts_exec *x) { return fwd(a, x, EPS_PAST); }
static ts_status f_gamma_most(const void *a, const ts_exec *x) { return fwd(a, x, GAMMA_MOST); }
static ts_status f_beta_most(const void *a, const ts_exec *x) { return fwd(a, x, BETA_MOST); }
static ts_status f_cols_70000(const void *a, const ts_exec *x) { return fwd(a, x, COLS_70000); }
static ts_status f_bf16_down(const void *a, const ts_exec *x) { return fwd(a, x, BF16_DOWN); }
static ts_status f_one_column(const void *a, const ts_exec *x) { return fwd(a, x, ONE_COLUMN); }
static ts_status f_odd_f16(const void *a, const ts_exec *x) { return fwd(a, x, ODD_F16); }
static ts_status b_dy_most(const void *a, const ts_exec *x) { return bwd(a, x, DY_MOST); }
static ts_status b_dy_least(const void *a, const ts_exec *x) { return bwd(a, x, DY_LEAST); }
static ts_status b_gamma_0(const void *a, const ts_exec *x) { return bwd(a, x, GAMMA_0); }
static ts_status b_sums_most(const void *a, const ts_exec *x) { return bwd(a, x, SUMS_MOST); }
static ts_status b_honest(const void *a, const ts_exec *x) { return bwd(a, x, HONEST); }
static ts_status b_honest_ws(const void *a, const ts_exec *x) { return bwd(a, x, HONEST_WS); }
static ts_status b_gamma_out(const void *a, const ts_exec *x) { return bwd(a, x, GAMMA_OUT); }
static ts_status b_no_gamma(const void *a, const ts_exec *x) { return bwd(a, x, NO_GAMMA); }
static ts_status b_lost_half(const void *a, const ts_exec *x) { return bwd(a, x, LOST_HALF); }
static ts_status b_no_means(const void *a, const ts_exec *x) { return bwd(a, x, NO_MEANS); }
static ts_status b_eps_forgot(const void *a, const ts_exec *x) { return bwd(a, x, EPS_FORGOT); }
static ts_status b_first_32(const void *a, const ts_exec *x) { return bwd(a, x, FIRST_32); }
static ts_status b_by_row(const void *a, const ts_exec *x) { return bwd(a, x, BY_ROW); }
static ts_status b_one_row(const void *a, const ts_exec *x) { return bwd(a, x, ONE_ROW); }
static ts_status b_gamma_dbeta(const void *a, const ts_exec *x) { return bwd(a, x, GAMMA_DBETA); }
static ts_status b_difference(const void *a, const ts_exec *x) { return bwd(a, x, DIFFERENCE); }
static ts_status b_overwrites(const void *a, const ts_exec *x) { return bwd(a, x, OVERWRITES); }
static ts_status b_adds_twice(const void *a, const ts_exec *x) { return bwd(a, x, ADDS_TWICE); }
static ts_status b_adds_stale(const void *a, const ts_exec *x) { return bwd(a, x, ADDS_STALE); }
static ts_status b_adds_to_dx(const void *a, const ts_exec *x) { return bwd(a, x, ADDS_TO_DX); }
static ts_status b_half_sums(const void *a, const ts_exec *x) { return bwd(a, x, HALF_SUMS); }
static ts_status b_dense_rows(const void *a, const ts_exec *x) { return bwd(a, x, DENSE_ROWS); }
static ts_status b_int32_offset(const void *a, const ts_exec *x) { return bwd(a, x, INT32_OFFSET); }
static ts_status b_nonfinite_zeroed(const void *a, const ts_exec *x) { return bwd(a, x, NONFINITE_ZEROED); }
static ts_status b_nan_dbeta(const void *a, const ts_exec *x) { return bwd(a, x, NAN_DBETA); }
static ts_status b_dirty_ws(const void *a, const ts_exec *x) { return bwd(a, x, DIRTY_WS); }
static ts_status b_no_tail(const void *a, const ts_exec *x) { return bwd(a, x, NO_TAIL); }
static ts_status b_zero_rows(const void *a, const ts_exec *x) { return bwd(a, x, ZERO_ROWS); }
static ts_status b_write_past(const void *a, const ts_exec *x) { return bwd(a, x, WRITE_PAST); }
static ts_status b_past_ws(const void *a, const ts_exec *x) { return bwd(a, x, PAST_WS); }
static ts_status b_before_ws(const void *a, const ts_exec *x) { return bwd(a, x, BEFORE_WS); }
static ts_status b_by_threads(const void *a, const ts_exec *x) { return bwd(a, x, BY_THREADS); }
static ts_status b_drifts(const void *a, const ts_exec *x) { return bwd(a, x, DRIFTS); }
static ts_status b_takes_all(const void *a, const ts_exec *x) { return bwd(a, x, TAKES_ALL); }
static ts_status b_takes_null(const void *a, const ts_exec *x) { return bwd(a, x, TAKES_NULL); }
static ts_status b_takes_no_ws(const void *a, const ts_exec *x) { return bwd(a, x, TAKES_NO_WS); }
static ts_status b_refuses_odd(const void *a, const ts_exec *x) { return bwd(a, x, REFUSES_ODD); }
static ts_status b_writes_first(const void *a, const ts_exec *x) { return bwd(a, x, WRITES_FIRST); }

static const char forward[] = "layernorm_forward", backward[] = "layernorm_backward";

/* ---- right but for one corner ---- */

static ts_status f_no_default(const void *a, const ts_exec *x)
{
    if (x->n_threads == 0) abort();
    return fwd(a, x, HONEST);
}

static ts_status f_dense_wrong(const void *args, const ts_exec *x)
{
    const fwd_args *a = args;
    return fwd(a, x, a->row_stride == a->n_cols && a->n_cols > 1 ? SAMPLE_VAR : HONEST);
}

/* Far behind the last buffer, past the page that guards it. */
static ts_status f_far_write(const void *args, const ts_exec *x)
{
    const fwd_args *a = args;
    const ts_status s = fwd(a, x, HONEST);
    if (!s && a->n_rows) memset((char *)a->rstd + 65536, 0, 4096);
    return s;
}

static ts_status f_flat_garbage(const void *args, const ts_exec *x)
{
    const fwd_args *a = args;
    const ts_status s = fwd(a, x, HONEST);
    for (int64_t r = 0; !s && r < a->n_rows; r++)
        if (ts_load(a->x, a->dtype, r * a->row_stride) > 1e30)
            put(a->rstd, ts_wide(a->dtype), r, -7e20L);
    return s;
}

/* Returns the correct status, but writes between the rows first. */
static ts_status f_gap_refuses(const void *args, const ts_exec *x)
{
    const fwd_args *a = args;
    const ts_status s = fwd(a, x, HONEST);
    if (s == TS_E_ARG && a->y && a->row_stride > a->n_cols) put(a->y, TS_F32, a->n_cols, 0);
    return s;
}

/* Adds what dgamma held once for every 64 rows. */
static ts_status b_adds_by_block(const void *args, const ts_exec *x)
{
    const bwd_args *a = args;
    return bwd(a, x, a->accumulate && a->dtype == TS_F32 && a->n_rows > 64 ? ADDS_TWICE : HONEST);
}

static ts_status b_zero_rows_bf16(const void *args, const ts_exec *x)
{
    const bwd_args *a = args;
    return bwd(a, x, a->dtype == TS_BF16 ? ZERO_ROWS : HONEST);
}


extern const ts_mutant ts_layernorm_forward_mutants[];
const ts_mutant ts_layernorm_forward_mutants[] = {
    { "control", forward, TS_FAULT_NONE, NULL, f_honest, NULL, TS_CPU },
    { "one_pass_variance", forward, TS_FAULT_VALUE, "offset", f_one_pass, NULL, TS_CPU },
    { "sample_variance", forward, TS_FAULT_VALUE, NULL, f_sample_var, NULL, TS_CPU },
    { "eps_outside_root", forward, TS_FAULT_VALUE, "constant", f_eps_outside, NULL, TS_CPU },
    { "eps_ignored", forward, TS_FAULT_VALUE, "tiny", f_eps_ignored, NULL, TS_CPU },
    { "variance_overflows", forward, TS_FAULT_VALUE, "huge", f_var_overflow, NULL, TS_CPU },
    { "variance_underflows", forward, TS_FAULT_VALUE, "small", f_var_overflow, NULL, TS_CPU },
    { "half_squares", forward, TS_FAULT_VALUE, "huge", f_half_squares, NULL, TS_CPU },
    { "rescale_underflow", forward, TS_FAULT_VALUE, "flat_huge", f_rescale, NULL, TS_CPU },
    { "sum_overflows", forward, TS_FAULT_VALUE, "extreme", f_sum_overflow, NULL, TS_CPU },
    { "difference_overflows", forward, TS_FAULT_VALUE, "extreme", f_difference, NULL, TS_CPU },
    { "first_warp", forward, TS_FAULT_VALUE, NULL, f_first_32, NULL, TS_CPU },
    { "first_256", forward, TS_FAULT_VALUE, NULL, f_first_256, NULL, TS_CPU },
    { "first_1024", forward, TS_FAULT_VALUE, NULL, f_first_1024, NULL, TS_CPU },
    { "gamma_ignored", forward, TS_FAULT_VALUE, NULL, f_no_gamma, NULL, TS_CPU },
    { "beta_ignored", forward, TS_FAULT_VALUE, NULL, f_no_beta, NULL, TS_CPU },
    { "dense_rows", forward, TS_FAULT_VALUE, NULL, f_dense_rows, NULL, TS_CPU },
    { "int32_offset", forward, TS_FAULT_VALUE, "far", f_int32_offset, NULL, TS_CPU },
    { "assumed_alignment", forward, TS_FAULT_VALUE, NULL, f_aligned, NULL, TS_CPU },
    { "nan_row_leaks", forward, TS_FAULT_VALUE, "nonfinite", f_nan_leaks, NULL, TS_CPU },
    { "nonfinite_row_zeroed", forward, TS_FAULT_VALUE, "nonfinite", f_nonfinite_zeroed, NULL, TS_CPU },
    { "low_precision", forward, TS_FAULT_VALUE, NULL, f_low_digits, NULL, TS_CPU },
    { "remembers", forward, TS_FAULT_VALUE, NULL, f_remembers, NULL, TS_CPU },
    { "tail_dropped", forward, TS_FAULT_UNWRITTEN, NULL, f_no_tail, NULL, TS_CPU },
    { "last_row_unwritten", forward, TS_FAULT_UNWRITTEN, NULL, f_no_last_row, NULL, TS_CPU },
    { "rows_past_65535", forward, TS_FAULT_UNWRITTEN, NULL, f_rows_65535, NULL, TS_CPU },
    { "rows_past_20000", forward, TS_FAULT_UNWRITTEN, "ramp", f_rows_20000, NULL, TS_CPU },
    { "eps_no_less_than_1e_8", forward, TS_FAULT_VALUE, "constant", f_eps_least, NULL, TS_CPU },
    { "eps_no_more_than_1", forward, TS_FAULT_VALUE, NULL, f_eps_most, NULL, TS_CPU },
    { "sums_of_first_16384", forward, TS_FAULT_VALUE, NULL, f_cols_16384, NULL, TS_CPU },
    { "mean_unwritten", forward, TS_FAULT_UNWRITTEN, NULL, f_no_mean, NULL, TS_CPU },
    { "rstd_unwritten", forward, TS_FAULT_UNWRITTEN, NULL, f_no_rstd, NULL, TS_CPU },
    { "writes_past", forward, TS_FAULT_PAST, NULL, f_write_past, NULL, TS_CPU },
    { "writes_before", forward, TS_FAULT_BEFORE, NULL, f_write_before, NULL, TS_CPU },
    { "writes_gap", forward, TS_FAULT_GAP, NULL, f_write_gap, NULL, TS_CPU },
    { "writes_input", forward, TS_FAULT_INPUT, NULL, f_write_input, NULL, TS_CPU },
    { "reads_past", forward, TS_FAULT_PAST, NULL, f_read_past, NULL, TS_CPU },
    { "reads_before", forward, TS_FAULT_BEFORE, NULL, f_read_before, NULL, TS_CPU },
    { "hang", forward, TS_FAULT_HANG, NULL, f_hang, NULL, TS_CPU },
    { "crash", forward, TS_FAULT_CRASH, NULL, f_crash, NULL, TS_CPU },
    { "wrong_status", forward, TS_FAULT_STATUS, NULL, f_wrong_status, NULL, TS_CPU },
    { "split_by_threads", forward, TS_FAULT_REPEAT, NULL, f_by_threads, NULL, TS_CPU },
    { "accepts_bad_eps", forward, TS_FAULT_REFUSAL, NULL, f_takes_eps, NULL, TS_CPU },
    { "accepts_bad_shape", forward, TS_FAULT_REFUSAL, NULL, f_takes_shape, NULL, TS_CPU },
    { "accepts_bad_dtype", forward, TS_FAULT_REFUSAL, NULL, f_takes_dtype, NULL, TS_CPU },
    { "no_default_threads", forward, TS_FAULT_CRASH, NULL, f_no_default, NULL, TS_CPU },
    { "dense_rows_wrong", forward, TS_FAULT_VALUE, NULL, f_dense_wrong, NULL, TS_CPU },
    { "writes_far_past", forward, TS_FAULT_CRASH, NULL, f_far_write, NULL, TS_CPU },
    { "flat_garbage", forward, TS_FAULT_VALUE, "flat_huge", f_flat_garbage, NULL, TS_CPU },
    { "scribbles_then_refuses", forward, TS_FAULT_REFUSAL, NULL, f_gap_refuses, NULL, TS_CPU },
    { "eps_below_float_is_0", forward, TS_FAULT_VALUE, "constant", f_eps_below, NULL, TS_CPU },
    { "eps_past_float_is_infinite", forward, TS_FAULT_VALUE, NULL, f_eps_past, NULL, TS_CPU },
    { "gamma_no_more_than_8", forward, TS_FAULT_VALUE, "loud", f_gamma_most, NULL, TS_CPU },
    { "beta_no_more_than_8", forward, TS_FAULT_VALUE, "loud", f_beta_most, NULL, TS_CPU },
    { "sums_of_first_70000", forward, TS_FAULT_VALUE, NULL, f_cols_70000, NULL, TS_CPU },
    { "bf16_rounded_towards_zero", forward, TS_FAULT_VALUE, NULL, f_bf16_down, NULL, TS_CPU },
    { "one_column_is_never_nonfinite", forward, TS_FAULT_VALUE, "nonfinite", f_one_column, NULL, TS_CPU },
    { "last_of_odd_unaligned_f16", forward, TS_FAULT_VALUE, NULL, f_odd_f16, NULL, TS_CPU },
    { 0 },
};

extern const ts_mutant ts_layernorm_backward_mutants[];
const ts_mutant ts_layernorm_backward_mutants[] = {
    { "dy_no_more_than_100", backward, TS_FAULT_VALUE, "loud", b_dy_most, NULL, TS_CPU },
    { "dy_below_f16_is_0", backward, TS_FAULT_VALUE, "faint", b_dy_least, NULL, TS_CPU },
    { "gamma_0_has_no_dx", backward, TS_FAULT_VALUE, "faint", b_gamma_0, NULL, TS_CPU },
    { "accumulate_drops_past_100", backward, TS_FAULT_VALUE, "loud", b_sums_most, NULL, TS_CPU },
    { "adds_by_block", backward, TS_FAULT_VALUE, NULL, b_adds_by_block, NULL, TS_CPU },
    { "zero_rows_bf16", backward, TS_FAULT_UNWRITTEN, NULL, b_zero_rows_bf16, NULL, TS_CPU },
    { "control", backward, TS_FAULT_NONE, NULL, b_honest, NULL, TS_CPU },
    { "control_workspace", backward, TS_FAULT_NONE, NULL, b_honest_ws, workspace, TS_CPU },
    { "gamma_outside_means", backward, TS_FAULT_VALUE, NULL, b_gamma_out, NULL, TS_CPU },
    { "gamma_ignored", backward, TS_FAULT_VALUE, NULL, b_no_gamma, NULL, TS_CPU },
    { "lost_half", backward, TS_FAULT_VALUE, NULL, b_lost_half, NULL, TS_CPU },
    { "no_mean_terms", backward, TS_FAULT_VALUE, NULL, b_no_means, NULL, TS_CPU },
    { "eps_forgotten", backward, TS_FAULT_VALUE, "tiny", b_eps_forgot, NULL, TS_CPU },
    { "first_warp", backward, TS_FAULT_VALUE, NULL, b_first_32, NULL, TS_CPU },
    { "dgamma_by_row", backward, TS_FAULT_VALUE, NULL, b_by_row, NULL, TS_CPU },
    { "dgamma_one_row", backward, TS_FAULT_VALUE, NULL, b_one_row, NULL, TS_CPU },
    { "dbeta_with_gamma", backward, TS_FAULT_VALUE, NULL, b_gamma_dbeta, NULL, TS_CPU },
    { "difference_overflows", backward, TS_FAULT_VALUE, "extreme", b_difference, NULL, TS_CPU },
    { "accumulate_ignored", backward, TS_FAULT_VALUE, NULL, b_overwrites, NULL, TS_CPU },
    { "accumulate_doubled", backward, TS_FAULT_VALUE, NULL, b_adds_twice, NULL, TS_CPU },
    { "stale_dgamma", backward, TS_FAULT_VALUE, NULL, b_adds_stale, NULL, TS_CPU },
    { "dx_accumulates", backward, TS_FAULT_VALUE, NULL, b_adds_to_dx, NULL, TS_CPU },
    { "half_sums", backward, TS_FAULT_VALUE, NULL, b_half_sums, NULL, TS_CPU },
    { "dense_rows", backward, TS_FAULT_VALUE, NULL, b_dense_rows, NULL, TS_CPU },
    { "int32_offset", backward, TS_FAULT_VALUE, "far", b_int32_offset, NULL, TS_CPU },
    { "nonfinite_row_zeroed", backward, TS_FAULT_VALUE, "nonfinite", b_nonfinite_zeroed, NULL, TS_CPU },
    { "nan_in_dbeta", backward, TS_FAULT_VALUE, "nonfinite", b_nan_dbeta, NULL, TS_CPU },
    { "dirty_workspace", backward, TS_FAULT_VALUE, NULL, b_dirty_ws, workspace, TS_CPU },
    { "tail_dropped", backward, TS_FAULT_UNWRITTEN, NULL, b_no_tail, NULL, TS_CPU },
    { "zero_rows_untouched", backward, TS_FAULT_UNWRITTEN, NULL, b_zero_rows, NULL, TS_CPU },
    { "writes_past", backward, TS_FAULT_PAST, NULL, b_write_past, NULL, TS_CPU },
    { "writes_workspace_past", backward, TS_FAULT_PAST, NULL, b_past_ws, workspace, TS_CPU },
    { "writes_workspace_before", backward, TS_FAULT_BEFORE, NULL, b_before_ws, workspace, TS_CPU },
    { "split_by_threads", backward, TS_FAULT_REPEAT, NULL, b_by_threads, NULL, TS_CPU },
    { "order_drifts", backward, TS_FAULT_REPEAT, NULL, b_drifts, NULL, TS_CPU },
    { "accepts_anything", backward, TS_FAULT_REFUSAL, NULL, b_takes_all, workspace, TS_CPU },
    { "accepts_null", backward, TS_FAULT_REFUSAL, NULL, b_takes_null, NULL, TS_CPU },
    { "accepts_short_workspace", backward, TS_FAULT_REFUSAL, NULL, b_takes_no_ws, workspace, TS_CPU },
    { "refuses_wrongly", backward, TS_FAULT_REFUSAL, NULL, b_refuses_odd, workspace, TS_CPU },
    { "writes_then_refuses", backward, TS_FAULT_REFUSAL, NULL, b_writes_first, NULL, TS_CPU },
    { 0 },
};
/* clang-format on */

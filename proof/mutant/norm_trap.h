/* SPDX-License-Identifier: Apache-2.0 */
/* norm_trap.h - the bugs of the mutants of layer norm and of RMS norm, and what their two passes
 * share. layernorm_list.h and rms_norm_list.h list the mutants.
 *
 * RMS norm is the norm that is not centred: mean 0, no beta, and a residual. Correct sums are long
 * double, whose digits and range need no rescaling. */
#ifndef TS_MUTANT_NORM_TRAP_H
#define TS_MUTANT_NORM_TRAP_H

#include "mutant.h"
#include "values.h"

/* clang-format off */
typedef enum trap { /* both norms and both passes share those that they can fall into */
    HONEST,
    /* the residual */
    UNROUNDED, R_CUT, FLUSHED, NO_RESIDUAL, RESIDUAL_TWICE, RESIDUAL_MINUS, NO_R, X_KEPT, Y_OF_X,
    SUM_AGAIN, NO_IN_PLACE, R_ALWAYS, R_IN_RESIDUAL,
    /* mean and variance */
    ONE_PASS, SAMPLE, PADDED, POWER_OF_2, CENTRED, SQUARES_OVERFLOW, SQUARES_UNDERFLOW, SCALE_256,
    HALF_SQUARES, SUM_16_BIT, SUM_OVERFLOW, DIFFERENCE, FIRST_32, FIRST_256, FIRST_1024,
    FIRST_16384, FIRST_70000, DENSE_WRONG, FLAT_GARBAGE, RMS_KEPT,
    /* eps */
    EPS_OUTSIDE, EPS_IGNORED, EPS_OF_SUM, EPS_SQUARED, EPS_MAXIMUM, EPS_FIXED, EPS_LEAST, EPS_MOST,
    EPS_BELOW, EPS_PAST, RESCALE,
    /* gamma and beta, or w */
    NO_GAIN, NO_BETA, NO_OFFSET, OFFSET_1, GAIN_ROUNDED, GAIN_MOST, BETA_MOST, XHAT_ROUNDED,
    LOW_DIGITS, Y_CUT, ODD_F16,
    /* gradients */
    GAIN_OUTSIDE, GAIN_0, NO_RSTD2, ONE_RSTD, RSTD2_FIRST, NO_PULL, PULL_TWICE, NO_OUTER_RSTD,
    SUMS_FOR_MEANS, SUM_FOR_PULL, NO_MEAN_G, NO_PULL_XHAT, EPS_FORGOTTEN, OWN_RSTD, DY_MOST, DY_LEAST, ADDS_TO_DX, NO_DR, DR_TWICE, DR_INSIDE,
    ROUNDED_EARLY, NEEDS_DR, XHAT_BY_GAIN, SUM_WITH_GAIN, DBETA_WITH_GAIN, SUM_NO_RSTD, SUM_MEAN,
    BY_ROW, ONE_ROW, HALF_SUMS, SUMS_MOST, OVERWRITES, ADDS_TWICE, ADDS_BY_BLOCK, ADDS_STALE,
    /* NaN and infinity */
    NAN_LEAKS, NONFINITE_ZEROED, INF_IS_0, ONE_COLUMN, NAN_DBETA, SUM_NONFINITE_ROWS, NONFINITE_DY,
    ZERO_SKIPPED, ZERO_ROW,
    /* shapes, memory, threads */
    DENSE_ROWS, INT32_OFFSET, UINT32_OFFSET, STRIDE_32, ALIGNED, NO_TAIL, NO_LAST_ROW, ROWS_65535,
    ROWS_20000, WIDE_65535, WIDE_2_17, TAIL_5, PAST_BLOCK, NO_MEAN,
    NO_RSTD, ZERO_ROWS, ZERO_ROWS_BF16, WRITE_PAST, WRITE_BEFORE, WRITE_GAP, WRITE_INPUT, FAR_WRITE,
    READ_PAST, READ_BEFORE, HANG, CRASH, CRASH_1, REMEMBERS, BY_THREADS, NO_DEFAULT, DRIFTS,
    /* refusals */
    WRONG_STATUS, TAKES_EPS, TAKES_OFFSET, TAKES_NO_R, TAKES_SHAPE, TAKES_DTYPE, TAKES_NULL,
    TAKES_ACCUMULATE, WRITES_FIRST, GAP_REFUSES,
    /* from here on backward has a workspace */
    HONEST_WS, DIRTY_WS, PAST_WS, BEFORE_WS, TAKES_ALL, TAKES_NO_WS, REFUSES_ODD
} trap;
/* clang-format on */

/* ---- what both passes need ---- */

static inline real within(real v, real most)
{
    return fminl(fmaxl(v, -most), most);
}

static inline bool is_flag(int v)
{
    return v == 0 || v == 1;
}

static inline ts_status check_shape(int64_t n_rows, int64_t n_cols, int64_t row_stride, ts_dtype t)
{
    if (n_rows < 0 || n_cols < 1 || row_stride < n_cols) return TS_E_SHAPE;
    if (n_rows > 0 && row_stride > INT64_MAX / 8 / n_rows) return TS_E_SHAPE;
    return (unsigned)t > TS_BF16 ? TS_E_DTYPE : TS_OK;
}

/* The status that is returned where s is correct. */
static inline ts_status refusal(ts_status s, trap t)
{
    const ts_status taken = t == TAKES_NULL    ? TS_E_ARG
                            : t == TAKES_SHAPE ? TS_E_SHAPE
                            : t == TAKES_DTYPE ? TS_E_DTYPE
                            : t == TAKES_NO_WS ? TS_E_WORKSPACE
                                               : TS_OK;
    return s == taken || t == TAKES_ALL ? TS_OK : t == REFUSES_ODD ? TS_E_ARG : s;
}

/* Where row k of x is taken to begin. */
static inline int64_t row_at(const void *x, ts_dtype dtype, int64_t k, int64_t n_cols,
                             int64_t stride, trap t)
{
    const size_t  n_bytes = ts_format_of(dtype)->n_bytes;
    const int64_t begin = k * (t == DENSE_ROWS  ? n_cols
                               : t == STRIDE_32 ? (int64_t)(uint32_t)stride
                                                : stride);
    if (t == INT32_OFFSET) return begin & INT32_MAX;
    if (t == UINT32_OFFSET) return begin & UINT32_MAX;
    if (t != ALIGNED) return begin;
    return begin - (int64_t)(((uintptr_t)x + (size_t)begin * n_bytes) % 16 / n_bytes);
}

/* How many of n elements enter a row's sums, and how many columns are written. */
static inline int64_t n_summed(int64_t n, trap t)
{
    const int64_t most = t == FIRST_32                                  ? 32
                         : t == FIRST_256                               ? 256
                         : t == FIRST_1024                              ? 1024
                         : t == FIRST_16384                             ? 16384
                         : t == FIRST_70000                             ? 70000
                         : t == PAST_BLOCK && n > 1024 && n % 1024 == 2 ? n - 1
                                                                        : n;
    return n < most ? n : most;
}

static inline int64_t n_written(int64_t n, trap t)
{
    return t == NO_TAIL ? n / 8 * 8 : n;
}

/* What the sum of squares, or of g * xhat, is divided by. */
static inline real divisor(int64_t n, int64_t stride, trap t)
{
    int64_t p = 1;
    while (p < n) p *= 2;
    if (t == PADDED) return (real)stride;
    if (t == POWER_OF_2) return (real)p;
    return (real)(t == SAMPLE || (t == DENSE_WRONG && stride == n && n > 1) ? n - 1 : n);
}

/* gamma, or w + w_offset */
static inline real gain_at(const void *w, ts_dtype dtype, int64_t c, int w_offset, trap t)
{
    const real v = (real)ts_load(w, dtype, c) + (real)(t == NO_OFFSET  ? 0
                                                       : t == OFFSET_1 ? 1
                                                                       : w_offset);
    if (t == NO_GAIN) return 1;
    if (t == GAIN_ROUNDED) return rounded(dtype, v);
    return t == GAIN_MOST ? within(v, 8) : v;
}

/* Rows that a launch with too few blocks leaves out; narrow rows have a path of their own. */
static inline bool left_out(int64_t k, int64_t n_cols, trap t)
{
    return n_cols > 64 && ((t == WIDE_65535 && k >= 65535) || (t == WIDE_2_17 && k >= 1 << 17));
}

/* The last element of rows of 8 n + 5 that have a gap behind them. */
static inline bool in_tail_5(ts_dtype dtype, int64_t c, int64_t n_cols, int64_t stride, trap t)
{
    return t == TAIL_5 && dtype == TS_F16 && n_cols % 8 == 5 && stride > n_cols && c == n_cols - 1;
}

static inline void scribble(ts_buf b, void *p, trap t)
{
    const int64_t end = (b.n_rows - 1) * b.row_stride + b.n_cols;
    if (t == WRITE_PAST) ts_store(p, b.dtype, end, 0);
    if (t == WRITE_BEFORE) ts_store(p, b.dtype, -1, 0);
    if (t == WRITE_GAP && b.n_rows > 1) ts_store(p, b.dtype, b.row_stride - 1, 0);
}

#define SHAPE(a)                                                                                   \
    .dtype = (a)->dtype, .n_rows = (a)->n_rows, .n_cols = (a)->n_cols, .row_stride = (a)->row_stride

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu.c - mutants of swiglu: one correct forward and one correct backward, each with one
 * injected bug at a time. swiglu_list.h lists them.
 *
 * Correct values are long double, in which every product of doubles is representable. */
#include "touchstone/swiglu.h"
#include "mutant.h"
#include "swiglu_list.h"
#include "values.h"

typedef ts_swiglu_forward_args  fwd_args;
typedef ts_swiglu_backward_args bwd_args;

typedef enum trap { FORWARD(TRAP) BACKWARD(TRAP) N_TRAPS } trap;

/* ---- what both passes need ---- */

static real sigmoid(real x)
{
    const real e = expl(-fabsl(x));
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

static int64_t row_at(int64_t r, int64_t n_cols, int64_t stride, trap t)
{
    const int64_t at = r * (t == F_DENSE || t == B_DENSE ? n_cols : stride);
    return t == F_INT32 || t == B_INT32 ? at & INT32_MAX : at;
}

static ts_status check_shape(int64_t n_rows, int64_t n_cols, int64_t x_stride, int64_t y_stride,
                             ts_dtype dtype, trap t)
{
    const int64_t most = INT64_MAX / 8 / (n_rows > 0 ? n_rows : 1);
    if (n_rows < 0 || n_cols < 1 || (x_stride < n_cols && t != F_TAKES_STRIDE)) return TS_E_SHAPE;
    if (x_stride < 0 || y_stride < n_cols || x_stride > most || y_stride > most) return TS_E_SHAPE;
    return (unsigned)dtype > TS_BF16 ? TS_E_DTYPE : TS_OK;
}

/* ---- forward ---- */

static real silu(real gate, ts_dtype d, trap t)
{
    const ts_dtype wide = ts_wide(d);
    real           s = sigmoid(gate);
    if (t == F_SIGMOID) return s;
    if (t == F_RELU) return gate > 0 ? gate : 0;
    if (t == F_GELU) return gate * sigmoid(1.702L * gate);
    if (t == F_SIGN) s = sigmoid(-gate);
    if (t == F_EXP_RATIO) s = rounded(wide, expl(gate)) / (1 + rounded(wide, expl(gate)));
    if (t == F_ONE_MINUS) s = 1 - rounded(wide, sigmoid(-gate));
    if (t == F_TAYLOR && fabsl(gate) < 1e-2L) s = 0.5L - gate / 2;
    if (t == F_CLAMPED && gate < -20) return -20 * sigmoid(-20);
    if (t == F_UNDERFLOW) s = rounded(wide, s);
    if (t == F_UNDERFLOW && fabsl(s) < ts_format_of(wide)->min_normal) s = 0;
    if (t == F_16_BIT_EXP && d != TS_F64) s = 1 / (1 + rounded(TS_BF16, expl(-gate)));
    if (gate == -INFINITY && t != F_MINUS_INF) return 0;
    return t == F_ROUNDED && d != TS_F64 ? rounded(TS_BF16, gate * s) : gate * s;
}

static real y_of(const fwd_args *a, real gate, real up, trap t)
{
    const ts_dtype d = a->dtype, wide = ts_wide(d);
    real           y = t == F_SWAPPED ? silu(up, d, t) * gate : silu(gate, d, t) * up;
    if (t == F_NO_UP) y = silu(gate, d, t);
    if (t == F_BOTH) y = silu(gate, d, t) * silu(up, d, t);
    if (t == F_OVERFLOW) y = rounded(wide, gate * up) * sigmoid(gate);
    if (t == F_NAN_0 && isnan(y)) y = 0;
    if (t == F_INF && isinf(y)) y = copysignl(ts_format_of(d)->max, y);
    return t == F_CUT ? cut(d, y) : y;
}

static ts_status check_forward(const fwd_args *a, const ts_exec *x, trap t)
{
    if (!a || !x) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->gate || !a->y || (!a->up && t != F_TAKES_NULL))) return TS_E_ARG;
    if (t == F_NO_IN_PLACE && a->n_rows && (a->y == a->gate || a->y == a->up)) return TS_E_ARG;
    const ts_status s = check_shape(a->n_rows, a->n_cols, a->x_stride, a->y_stride, a->dtype, t);
    const bool      in_place = a->n_rows && (a->y == a->gate || a->y == a->up);
    return !s && in_place && a->x_stride != a->y_stride ? TS_E_ARG : s;
}

static ts_status fwd(const void *args, const ts_exec *x, trap t)
{
    const fwd_args *a = args;
    const ts_status s = check_forward(a, x, t);
    if (s || (a->n_rows && !a->up) || a->x_stride < a->n_cols) return s; /* taken by mistake */
    int64_t n = t == F_NO_TAIL ? a->n_cols / 4 * 4 : a->n_cols;
    if (t == F_COLS_8192 && n > 8192) n = 8192;
    for (int64_t r = 0; r < a->n_rows && !(t == F_ROWS_65535 && r >= 65535); r++)
        for (int64_t c = 0; c < n; c++) {
            const int64_t at = row_at(r, a->n_cols, a->x_stride, t) + c;
            const int64_t to = r * (t == F_Y_AS_X ? a->x_stride : a->y_stride) + c;
            if (t == F_CLEARS) put(a->y, a->dtype, to, 0);
            const real gate = ts_load(a->gate, a->dtype, at), up = ts_load(a->up, a->dtype, at);
            real       y = y_of(a, gate, up, t);
            if (t == F_BY_THREADS && x->n_threads > 1) y *= 1 + 0x1p-22L;
            put(a->y, a->dtype, to, y);
            if (t == F_WRITES_INPUT && a->y != a->gate && a->y != a->up)
                put((void *)a->gate, a->dtype, at, y);
        }
    if (t == F_WRITES_PAST && a->n_rows)
        put(a->y, a->dtype, (a->n_rows - 1) * a->y_stride + a->n_cols, 0);
    return TS_OK;
}

/* ---- backward ---- */

static real slope_of(real gate, ts_dtype d, trap t)
{
    const ts_dtype wide = ts_wide(d);
    const real     s = sigmoid(gate);
    real           rest = sigmoid(-gate);
    if (t == B_SIGMOID) return s;
    if (t == B_SLOPE_OF_S) return s * rest;
    if (t == B_PLUS_S) return s * (1 + gate * s);
    if (t == B_NO_PULL) return s * (1 + rest);
    if (t == B_RELU) return gate > 0;
    if (t == B_ONE_MINUS) return (1 - rounded(wide, rest)) * (1 + gate * rest);
    if (isinf(gate) && t != B_INF_0) return s;
    real slope = s * (1 + gate * rest);
    if (t == B_UNDERFLOW && fabsl(slope) < ts_format_of(wide)->min_normal) slope = 0;
    if (t == B_ROUNDED && d != TS_F64) slope = rounded(TS_BF16, slope);
    return t == B_ABOVE_0 && slope < 0 ? 0 : slope;
}

static void slopes(const bwd_args *a, real gate, real up, real dy, real *dgate, real *dup, trap t)
{
    const ts_dtype d = a->dtype, wide = ts_wide(d);
    if (t == B_DY_LEAST && fabsl(dy) < ts_format_of(d)->min_normal) dy = 0;
    *dgate = slope_of(gate, d, t) * up * dy;
    *dup = (gate == -INFINITY ? 0 : gate * sigmoid(gate)) * dy;
    if (t == B_NO_UP) *dgate = slope_of(gate, d, t) * dy;
    if (t == B_NO_DY) *dgate = slope_of(gate, d, t) * up;
    if (t == B_DUP_S) *dup = sigmoid(gate) * dy;
    if (t == B_DUP_UP) *dup *= up;
    if (t == B_DY_UP_FIRST) *dgate = slope_of(gate, d, t) * rounded(wide, up * dy);
    if (t == B_NAN_0) *dgate = isnan(*dgate) ? 0 : *dgate;
    if (t == B_CUT) *dgate = cut(d, *dgate);
    if (t == B_SWAPPED) {
        const real was = *dgate;
        *dgate = *dup;
        *dup = was;
    }
}

static bool is_in_place(const bwd_args *a)
{
    return a->n_rows && (a->dgate == a->gate || a->dgate == a->up || a->dup == a->dy);
}

static ts_status check_backward(const bwd_args *a, const ts_exec *x, trap t)
{
    if (!a || !x) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->gate || !a->up || !a->dgate || !a->dup)) return TS_E_ARG;
    if (a->n_rows != 0 && !a->dy && t != B_TAKES_NULL) return TS_E_ARG;
    if (a->n_rows != 0 && a->dgate == a->dup && t != B_TAKES_ONE) return TS_E_ARG;
    if (t == B_NO_IN_PLACE && is_in_place(a)) return TS_E_ARG;
    const ts_status s = check_shape(a->n_rows, a->n_cols, a->x_stride, a->y_stride, a->dtype, t);
    const bool      in_place = a->n_rows && (a->dgate == a->dy || a->dup == a->dy);
    return !s && in_place && a->x_stride != a->y_stride ? TS_E_ARG : s;
}

static ts_status bwd(const void *args, const ts_exec *x, trap t)
{
    const bwd_args *a = args;
    const ts_dtype  d = a ? a->dtype : TS_F32;
    const ts_status s = check_backward(a, x, t);
    if (s || (a->n_rows && (!a->dy || a->dgate == a->dup))) return s;
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int64_t c = 0; c < (t == B_NO_TAIL ? a->n_cols / 4 * 4 : a->n_cols); c++) {
            const int64_t at = row_at(r, a->n_cols, a->x_stride, t) + c, to = r * a->x_stride + c;
            const int64_t of_dy = t == B_DY_AS_X ? to : r * a->y_stride + c;
            const real    gate = ts_load(a->gate, d, at);
            real          up = ts_load(a->up, d, at), dgate, dup;
            slopes(a, gate, up, ts_load(a->dy, d, of_dy), &dgate, &dup, t);
            if (t == B_ADDS && a->dgate == a->gate) dgate += gate;
            put(a->dgate, d, to, dgate);
            if (t == B_OVERWRITES)
                slopes(a, ts_load(a->gate, d, at), up, ts_load(a->dy, d, of_dy), &dgate, &dup, t);
            if (t != B_NO_DUP) put(a->dup, d, to, dup);
            if (t == B_WRITES_DY && a->dup != a->dy) put((void *)a->dy, d, of_dy, 0);
        }
    if (t == B_WRITES_PAST && a->n_rows)
        put(a->dup, d, (a->n_rows - 1) * a->x_stride + a->n_cols, 0);
    return TS_OK;
}

#define TASK    swiglu_forward
#define MUTANTS FORWARD
#define CALL    fwd
#include "called.h"

#define TASK    swiglu_backward
#define MUTANTS BACKWARD
#define CALL    bwd
#include "called.h"

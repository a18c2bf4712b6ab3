/* SPDX-License-Identifier: Apache-2.0 */
/* rope.c - mutants of rope: one correct implementation with one injected bug at a time.
 * rope_list.h lists them. */
#include "touchstone/rope.h"
#include "mutant.h"
#include "rope_list.h"
#include "values.h"

typedef ts_rope_args args_t;

typedef enum trap { ROPE(TRAP) N_TRAPS } trap;

/* ---- angles ---- */

static double frequency_of(const args_t *a, int64_t i, trap t)
{
    const double dim = (double)(t == BY_HEAD_DIM ? a->head_dim : a->rotary_dim);
    const double pair = (double)(t == FROM_SECOND ? i + 1 : i);
    const double theta = t == THETA_FIXED ? 10000 : a->theta;
    if (a->frequency && t != NO_TABLE) return a->frequency[i];
    const double f = pow(theta, (t == BY_PAIR ? -1 : -2) * pair / dim);
    return t == FLOAT_FREQUENCY ? (float)f : f;
}

static double position_of(const args_t *a, int64_t row, trap t)
{
    const int32_t p = a->position[t == FIRST_POSITION ? 0 : row];
    if (t == FLOAT_POSITION) return (float)p;
    if (t == UNSIGNED) return (double)(uint32_t)p;
    if (t == NO_MINUS) return p < 0 ? 0 : p;
    if (t == FROM_1) return p + 1.0;
    return t == BY_ROW ? (double)row : p;
}

/* The angle less whole turns, with some flaw. */
static double reduced(double angle, trap t)
{
    const double pi_2 = 1.57079632679489662, k = rint(angle / pi_2);
    if (t == FLOAT_ANGLE) return (float)angle;
    if (t == FLOAT_QUARTER) return angle - k * (double)(float)pi_2 + fmod(k, 4) * pi_2;
    if (t == QUARTER_16) return angle - k * pi_2 + fmin(fmax(k, INT16_MIN), INT16_MAX) * pi_2;
    return angle;
}

/* ---- pairs ---- */

static void turn(const args_t *a, const ts_exec *x, int64_t row, int64_t first, int64_t second,
                 double angle, trap t)
{
    const ts_dtype d = a->dtype;
    double         c = cos(reduced(angle, t)), s = sin(reduced(angle, t));
    if (t == ALL_INVERSE || (a->inverse && t != NO_INVERSE)) s = -s;
    if (t == NO_SINE) s = 0;
    if (t == NARROW_TURN && d != TS_F64)
        c = (double)rounded(TS_BF16, c), s = (double)rounded(TS_BF16, s);
    if (t == BY_THREADS) c *= 1 + 0x1p-22 * (x->n_threads > 1);
    for (int64_t h = 0; h < a->n_heads - (t == NO_LAST_HEAD); h++) {
        int64_t from =
            row * (t == DENSE_X ? a->n_heads * a->head_dim : a->x_stride) + h * a->head_dim;
        int64_t to = row * (t == Y_AS_X ? a->x_stride : a->y_stride) + h * a->head_dim;
        if (t == INT32) from &= INT32_MAX;
        double p = ts_load(a->x, d, from + first), q = ts_load(a->x, d, from + second);
        if (t == NAN_0) p = isnan(p) ? 0 : p, q = isnan(q) ? 0 : q;
        if (t == OVERFLOWS && fabs(p) > ts_format_of(d)->max / 2) p = INFINITY;
        double v = p * c - q * s;
        if (t == TWICE_ROUNDED && d != TS_F64)
            v = (double)(rounded(TS_BF16, p * c) - rounded(TS_BF16, q * s));
        if (t == ONE_HEAD_TURNED && h) v = p;
        if (t == CUT) v = (double)cut(d, v);
        put(a->y, d, to + first, v);
        if (t == IN_PLACE) p = ts_load(a->x, d, from + first);
        double w = t == REFLECTS ? p * s - q * c : q * c + p * s;
        if (t == ONE_HEAD_TURNED && h) w = q;
        put(a->y, d, to + second, w);
        if (t == NAN_HEAD && isnan(v) && first > 1) put(a->y, d, to + first - 1, v);
        if (t == WRITES_X && a->x != a->y) put((void *)a->x, d, from + first, v);
    }
}

static void copy_rest(const args_t *a, int64_t row, trap t)
{
    const ts_dtype d = a->dtype;
    for (int64_t h = 0; h < a->n_heads - (t == NO_LAST_HEAD); h++)
        for (int64_t i = a->rotary_dim; i < a->head_dim; i++) {
            const int64_t at = h * a->head_dim + i;
            double        v = ts_load(a->x, d, row * a->x_stride + at);
            if (t == REST_0) v = 0;
            if (t == REST_TURNED) v *= cos(a->position[row]);
            if (t == REST_FLUSHED && fabs(v) < ts_format_of(d)->min_normal) v = 0;
            if (t != NO_REST) put(a->y, d, row * a->y_stride + at, v);
        }
}

/* ---- the call ---- */

static ts_status check_shape(const args_t *a, trap t)
{
    const int64_t rows = a->n_rows > 0 ? a->n_rows : 1;
    if (a->n_rows < 0 || a->n_heads < 1 || a->head_dim < 1 || a->rotary_dim < 0) return TS_E_SHAPE;
    if (a->rotary_dim > a->head_dim && t != TAKES_WIDE) return TS_E_SHAPE;
    if (a->rotary_dim % 2 && t != TAKES_ODD) return TS_E_SHAPE;
    if (a->head_dim > INT64_MAX / 8 / a->n_heads) return TS_E_SHAPE;
    const int64_t width = a->n_heads * a->head_dim;
    if ((a->x_stride < width && t != TAKES_STRIDE) || a->x_stride < 1) return TS_E_SHAPE;
    if (a->y_stride < width || a->x_stride > INT64_MAX / 8 / rows) return TS_E_SHAPE;
    if (a->y_stride > INT64_MAX / 8 / rows) return TS_E_SHAPE;
    return (unsigned)a->dtype > TS_BF16 ? TS_E_DTYPE : TS_OK;
}

static ts_status check(const args_t *a, const ts_exec *x, trap t)
{
    if (!a || !x) return TS_E_ARG;
    if ((unsigned)a->pairing > 1 && t != TAKES_PAIRING) return TS_E_ARG;
    if (a->inverse != 0 && a->inverse != 1) return TS_E_ARG;
    if (!a->frequency && !(a->theta > 0 && isfinite(a->theta)) && t != TAKES_THETA) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->position || !a->x || !a->y)) return TS_E_ARG;
    if (t == NEEDS_TABLE && !a->frequency) return TS_E_ARG;
    if (t == NO_IN_PLACE && a->n_rows && a->x == a->y) return TS_E_ARG;
    const ts_status s = check_shape(a, t);
    return !s && a->n_rows != 0 && a->x == a->y && a->x_stride != a->y_stride ? TS_E_ARG : s;
}

/* Of what a mutant takes though it should not, nothing is touched. */
static bool is_sound(const args_t *a)
{
    return (unsigned)a->pairing <= 1 && a->rotary_dim <= a->head_dim && a->rotary_dim % 2 == 0 &&
           a->x_stride >= a->n_heads * a->head_dim &&
           (a->frequency || (a->theta > 0 && isfinite(a->theta)));
}

static ts_status run(const void *args, const ts_exec *x, trap t)
{
    const args_t   *a = args;
    const ts_status s = check(a, x, t);
    if (s || !is_sound(a)) return s;
    const int64_t half = a->rotary_dim / 2, n = t == PAIRS_128 && half > 128 ? 128 : half;
    const bool    adjacent = t == ADJACENT || (a->pairing == TS_ROPE_ADJACENT && t != HALVES);
    /* Halves of the head run over into what is not turned. */
    const int64_t apart = t == HALF_OF_HEAD && !adjacent ? a->head_dim / 2 : half;
    const int64_t rows = t == ROWS_65535 && a->n_rows > 65535 ? 65535 : a->n_rows;
    for (int64_t r = 0; r < rows; r++) {
        copy_rest(a, r, t);
        for (int64_t i = 0; i < (t == NO_TAIL ? n / 4 * 4 : n); i++)
            turn(a, x, r, adjacent ? 2 * i : i, adjacent ? 2 * i + 1 : i + apart,
                 position_of(a, r, t) * frequency_of(a, i, t), t);
    }
    if (t == WRITES_PAST && a->n_rows)
        put(a->y, a->dtype, (a->n_rows - 1) * a->y_stride + a->n_heads * a->head_dim, 0);
    return TS_OK;
}

#define TASK    rope
#define MUTANTS ROPE
#define CALL    run
#include "called.h"

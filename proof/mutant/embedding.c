/* SPDX-License-Identifier: Apache-2.0 */
/* embedding.c - mutants of embedding: one correct forward and one correct backward, each with one
 * injected bug at a time. embedding_list.h lists them.
 *
 * Correct sums are long double, whose digits and range need no care. */
#include <stdlib.h>
#include <time.h>

#include "embedding_list.h"
#include "mutant.h"
#include "touchstone/embedding.h"
#include "values.h"

typedef ts_embedding_forward_args  fwd_args;
typedef ts_embedding_backward_args bwd_args;

typedef enum trap { HONEST, FORWARD(TRAP) BACKWARD(TRAP) N_TRAPS } trap;

static ts_status check_shape(int64_t n_rows, int64_t n_cols, int64_t n_vocab, int64_t row_stride,
                             int64_t table_stride, ts_dtype t)
{
    if (n_rows < 0 || n_cols < 1 || n_vocab < 1) return TS_E_SHAPE;
    if (row_stride < n_cols || table_stride < n_cols) return TS_E_SHAPE;
    if (n_rows > 0 && row_stride > INT64_MAX / 8 / n_rows) return TS_E_SHAPE;
    if (table_stride > INT64_MAX / 8 / n_vocab) return TS_E_SHAPE;
    return (unsigned)t > TS_BF16 ? TS_E_DTYPE : TS_OK;
}

/* The first row whose token is none; n_rows: there is none. */
static int64_t first_stray(const int32_t *token, int64_t n_rows, int64_t n_vocab)
{
    int64_t i = 0;
    while (i < n_rows && token[i] >= 0 && token[i] < n_vocab) i++;
    return i;
}

static bool is_first(const int32_t *token, int64_t i)
{
    int64_t k = 0;
    while (k < i && token[k] != token[i]) k++;
    return k == i;
}

/* ---- forward ---- */

static int64_t table_at(const fwd_args *a, int64_t row, int64_t c, trap t)
{
    int64_t token = a->token[row];
    if (t == F_BY_ROW) token = row % a->n_vocab;
    if (t == F_TOKEN_NEXT) token = (token + 1) % a->n_vocab;
    if (t == F_TOKEN_16) token &= 0x7fff;
    if (t == F_LAST_TOKEN && token == a->n_vocab - 1) token = 0;
    const int64_t stride = t == F_DENSE_TABLE ? a->n_cols
                           : t == F_SWAPPED   ? a->y_stride
                                              : a->table_stride;
    const int64_t at = token * stride + c;
    return t == F_INT32 ? at & INT32_MAX : at;
}

static real scale_of(const fwd_args *a, trap t)
{
    if (t == F_NO_SCALE) return 1;
    if (t == F_SCALE_TWICE) return (real)a->scale * a->scale;
    if (t == F_SCALE_16) return rounded(TS_BF16, a->scale);
    if (t == F_SCALE_FLOAT) return (float)a->scale;
    return t == F_SCALE_SIZE ? fabs(a->scale) : a->scale;
}

static real element(const fwd_args *a, int64_t row, int64_t c, trap t)
{
    real v = ts_load(a->table, a->dtype, table_at(a, row, c, t));
    if (t == F_FLUSHED && fabsl(v) < ts_format_of(a->dtype)->min_normal) v = 0;
    if (t == F_BY_BF16) v = rounded(TS_BF16, v);
    if (t == F_MOST) v = fminl(fmaxl(v, -65504), 65504);
    if (t == F_NAN_0 && isnan(v)) return 0;
    if (t == F_INF_MAX && isinf(v)) v = copysignl(ts_format_of(a->dtype)->max, v);
    if (t == F_NAN_LEAKS && row > 0 &&
        isnan(ts_load(a->table, a->dtype, table_at(a, row - 1, c, t))))
        v = NAN;
    v *= scale_of(a, t);
    return t == F_CUT ? cut(a->y_dtype, v) : v;
}

static void forward_row(const fwd_args *a, int64_t row, trap t)
{
    const ts_dtype y = t == F_NARROW_Y ? a->dtype : a->y_dtype;
    const int64_t  n = t == F_NO_TAIL ? a->n_cols / 8 * 8 : a->n_cols;
    const int64_t  at = row * (t == F_DENSE_Y ? a->n_cols : a->y_stride);
    if (t == F_ROWS_65535 && row >= 65535) return;
    if (t == F_NO_LAST_ROW && row == a->n_rows - 1) return;
    if (t == F_TOKEN_BEFORE && !is_first(a->token, row)) return;
    for (int64_t c = 0; c < n; c++) put(a->y, y, at + c, element(a, row, c, t));
}

static ts_status check_forward(const fwd_args *a, const ts_exec *x, trap t)
{
    if (!a || !x || !a->table) return TS_E_ARG;
    if (!isfinite(a->scale) && t != F_TAKES_SCALE) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->token || !a->y)) return TS_E_ARG;
    const ts_status s =
        check_shape(a->n_rows, a->n_cols, a->n_vocab, a->y_stride, a->table_stride, a->dtype);
    if (s) return s;
    const bool widens = a->y_dtype == TS_F32 && a->dtype != TS_F64;
    if (a->y_dtype != a->dtype && !widens && t != F_TAKES_Y_DTYPE) return TS_E_DTYPE;
    return TS_OK;
}

static ts_status fwd(const void *args, const ts_exec *x, trap t)
{
    const fwd_args *a = args;
    const ts_status s = check_forward(a, x, t);
    if (s) return s;
    if (!isfinite(a->scale) || (unsigned)a->y_dtype > TS_BF16) return TS_OK;
    const int64_t stray = first_stray(a->token, a->n_rows, a->n_vocab);
    if (stray < a->n_rows) {
        if (t == F_TAKES_TOKEN) return TS_OK;
        if (t == F_TAKES_NEGATIVE && a->token[stray] < 0) return TS_OK;
        if (t == F_WRITES_FIRST) put(a->y, a->y_dtype, 0, 0);
        return TS_E_ARG;
    }
    for (int64_t i = 0; i < a->n_rows; i++) forward_row(a, i, t);
    if (t == F_WRITE_PAST && a->n_rows)
        put(a->y, a->y_dtype, (a->n_rows - 1) * a->y_stride + a->n_cols, 0);
    return TS_OK;
}

/* ---- backward ---- */

static int64_t token_of(const bwd_args *a, int64_t row, trap t)
{
    if (t == B_BY_ROW) return row % a->n_vocab;
    return t == B_TOKEN_16 ? a->token[row] & 0x7fff : a->token[row];
}

static real dy_at(const bwd_args *a, int64_t row, int64_t c, trap t)
{
    int64_t at = row * (t == B_DENSE_DY ? a->n_cols : a->dy_stride) + c;
    if (t == B_INT32) at &= INT32_MAX;
    const real v = ts_load(a->dy, a->dtype, at);
    if (t == B_FLUSHED && fabsl(v) < ts_format_of(a->dtype)->min_normal) return 0;
    return t == B_NAN_0 && isnan(v) ? 0 : v;
}

/* The rows of dy by token: those of token k are row[begin[k]] .. row[begin[k + 1] - 1]. */
typedef struct order {
    int64_t *begin, *row;
} order;

static order sort_rows(const bwd_args *a, trap t)
{
    const int64_t n = a->n_rows;
    order         o = { calloc((size_t)a->n_vocab + 2, sizeof *o.begin),
                        calloc((size_t)n + 1, sizeof *o.row) };
    if (!o.begin || !o.row) abort();
    for (int64_t i = 0; i < n; i++) o.begin[token_of(a, i, t) + 2]++;
    for (int64_t k = 2; k <= a->n_vocab + 1; k++) o.begin[k] += o.begin[k - 1];
    for (int64_t i = 0; i < n; i++) o.row[o.begin[token_of(a, i, t) + 1]++] = i;
    return o;
}

static int64_t first_of(int64_t n, trap t)
{
    struct timespec now = { 0 };
    if (t == B_DRIFTS) timespec_get(&now, TIME_UTC);
    return now.tv_nsec % n;
}

static bool is_left_out(int64_t i, int64_t n, int64_t row, trap t)
{
    if (t == B_LAST_WINS) return i < n - 1;
    if (t == B_FIRST_WINS) return i > 0;
    if (t == B_LOST_RACE) return i > 0 && i % 32 == 0;
    return t == B_ROWS_65535 && row >= 65535;
}

/* The sum of n rows at a column. */
static real column_sum(const bwd_args *a, const ts_exec *x, const int64_t *row, int64_t n,
                       int64_t c, trap t)
{
    const int64_t first = n ? first_of(n, t) : 0;
    real          sum = 0, earlier = 0; /* the other threads' shares */
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = row[(first + i) % n];
        if (is_left_out(i, n, k, t)) continue;
        if (t == B_BY_THREADS && share_begins(k, a->n_rows, x))
            earlier = rounded(ts_wide(a->dtype), earlier + sum), sum = 0;
        sum += dy_at(a, k, c, t);
        if (t == B_HALF_SUMS) sum = rounded(TS_BF16, sum);
        if (t == B_OVERFLOW || t == B_FLOAT_SUMS || t == B_BY_THREADS || t == B_DRIFTS)
            sum = rounded(ts_wide(a->dtype), sum);
    }
    return (sum + earlier) / (t == B_MEAN && n ? (real)n : 1);
}

static bool has_nan(const bwd_args *a, const int64_t *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < a->n_cols; c++)
            if (isnan(dy_at(a, row[i], c, B_HONEST))) return true;
    return false;
}

static void backward_token(const bwd_args *a, const ts_exec *x, int64_t token, const int64_t *row,
                           int64_t n, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const bool     adds = (a->accumulate && t != B_OVERWRITES) || t == B_ADDS_STALE;
    const bool     nonfinite = t == B_NAN_ROW && has_nan(a, row, n);
    const real     scale = t == B_NO_SCALE ? 1 : a->scale;
    if (!n && (a->accumulate ? t != B_OTHERS_ZERO : t == B_OTHERS_KEPT)) return;
    for (int64_t c = 0; c < (t == B_NO_TAIL ? a->n_cols / 8 * 8 : a->n_cols); c++) {
        const int64_t at = token * (t == B_DENSE_TABLE ? a->n_cols : a->table_stride) + c;
        real          had = adds && n ? ts_load(a->dtable, wide, at) : 0;
        if (t == B_ADDS_TWICE) had *= 2;
        if (t == B_SCALES_ALL) had *= scale;
        put(a->dtable, wide, at,
            nonfinite ? (real)NAN : had + scale * column_sum(a, x, row, n, c, t));
    }
}

static ts_status check_backward(const bwd_args *a, const ts_exec *x, trap t)
{
    if (!a || !x || !isfinite(a->scale) || !a->dtable) return TS_E_ARG;
    if (a->accumulate != 0 && a->accumulate != 1 && t != B_TAKES_ACCUMULATE) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->token || (!a->dy && t != B_TAKES_NULL))) return TS_E_ARG;
    return check_shape(a->n_rows, a->n_cols, a->n_vocab, a->dy_stride, a->table_stride, a->dtype);
}

static ts_status bwd(const void *args, const ts_exec *x, trap t)
{
    const bwd_args *a = args;
    const ts_status s = check_backward(a, x, t);
    if (s) return s;
    if (a->accumulate < 0 || a->accumulate > 1 || (a->n_rows && !a->dy)) return TS_OK;
    if (first_stray(a->token, a->n_rows, a->n_vocab) < a->n_rows) {
        if (t == B_WRITES_FIRST) put(a->dtable, ts_wide(a->dtype), 0, 0);
        return t == B_TAKES_TOKEN ? TS_OK : TS_E_ARG;
    }
    if (t == B_ZERO_ROWS && a->n_rows == 0) return TS_OK;
    const order o = sort_rows(a, t);
    for (int64_t k = 0; k < a->n_vocab; k++)
        backward_token(a, x, k, o.row + o.begin[k], o.begin[k + 1] - o.begin[k], t);
    if (t == B_WRITE_PAST)
        put(a->dtable, ts_wide(a->dtype), (a->n_vocab - 1) * a->table_stride + a->n_cols, 0);
    free(o.begin);
    free(o.row);
    return TS_OK;
}

#define TASK    embedding_forward
#define MUTANTS FORWARD
#define CALL    fwd
#include "called.h"

#define TASK    embedding_backward
#define MUTANTS BACKWARD
#define CALL    bwd
#include "called.h"

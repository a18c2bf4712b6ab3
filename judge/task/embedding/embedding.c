/* SPDX-License-Identifier: Apache-2.0 */
/* embedding.c - task: embedding forward and backward. Inputs, oracle with bounds, least cost,
 * invalid calls. The cases are in embedding_cases.c.
 *
 * The oracle works in pairs of doubles. Copies have no bound; a product errs by the roundings of
 * the scale and of itself; a sum as in bound.h says. Rows of dtable whose token does not occur are
 * exactly what they were, or 0. */
#include "touchstone/embedding.h"

#include <math.h>
#include <stdlib.h>

#include "bound.h"
#include "dtype.h"
#include "embedding_cases.h"
#include "real.h"
#include "rng.h"
#include "spoil.h"

typedef ts_embedding_forward_args  forward_args;
typedef ts_embedding_backward_args backward_args;

/* ---- inputs ---- */

static void draw_tokens(const ts_case *c, int32_t *token, uint64_t seed)
{
    for (int64_t i = 0; i < c->dim[TS_EMB_ROWS]; i++)
        token[i] = ts_embedding_draw_token(c, seed, i);
}

static void draw_matrix(const ts_case *c, void *p, int64_t n_rows, int64_t stride, uint64_t seed)
{
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t i = 0; i < c->dim[TS_EMB_COLS]; i++)
            ts_store(p, c->dtype, r * stride + i, ts_embedding_draw(c, seed, r, i));
}

static void setup_forward(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    forward_args  *a = args;
    const ts_dtype t = c->dtype, y = c->dim[TS_EMB_FLAG] ? TS_F32 : t;
    const int64_t  R = c->dim[TS_EMB_ROWS], D = c->dim[TS_EMB_COLS], V = c->dim[TS_EMB_VOCAB];
    const int64_t  S = ts_embedding_row_stride(c), T = ts_embedding_table_stride(c);
    *a = (forward_args) { .dtype = t, .y_dtype = y, .n_rows = R, .n_cols = D, .n_vocab = V };
    a->table_stride = T;
    a->y_stride = S;
    a->scale = ts_embedding_scale(c);
    ts_scalar(m, "scale", a->scale);
    void    *table = ts_take(m, &a->table, (ts_buf) { "table", TS_IN, t, V, D, T });
    int32_t *token = ts_take(m, &a->token, (ts_buf) { "token", TS_IN, TS_I32, 1, R, R });
    ts_take(m, &a->y, (ts_buf) { "y", TS_OUT, y, R, D, S });
    draw_matrix(c, table, V, T, ts_mix(seed));
    draw_tokens(c, token, ts_mix(seed + 1));
}

static void setup_backward(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    backward_args *a = args;
    const ts_dtype t = c->dtype, wide = ts_wide(t);
    const int64_t  R = c->dim[TS_EMB_ROWS], D = c->dim[TS_EMB_COLS], V = c->dim[TS_EMB_VOCAB];
    const int64_t  S = ts_embedding_row_stride(c), T = ts_embedding_table_stride(c);
    *a = (backward_args) { .dtype = t, .n_rows = R, .n_cols = D, .n_vocab = V };
    a->accumulate = (int)c->dim[TS_EMB_FLAG];
    a->table_stride = T;
    a->dy_stride = S;
    a->scale = ts_embedding_scale(c);
    ts_scalar(m, "scale", a->scale);
    int32_t *token = ts_take(m, &a->token, (ts_buf) { "token", TS_IN, TS_I32, 1, R, R });
    void    *dy = ts_take(m, &a->dy, (ts_buf) { "dy", TS_IN, t, R, D, S });
    void    *had = ts_take(m, &a->dtable,
                           (ts_buf) { "dtable", a->accumulate ? TS_INOUT : TS_OUT, wide, V, D, T });
    draw_matrix(c, dy, R, S, ts_mix(seed));
    draw_tokens(c, token, ts_mix(seed + 1));
    for (int64_t i = 0; i < V * D && a->accumulate; i++)
        ts_store(had, wide, i / D * T + i % D, ts_normal(ts_mix(seed + 5), i));
}

/* ---- oracle ---- */

static bool is_known(int32_t token, int64_t n_vocab)
{
    return token >= 0 && token < n_vocab;
}

/* Infinity is exact. */
static ts_want want_of(double v, double error, ts_dtype t)
{
    return isinf(v) ? (ts_want) { v, 0 } : ts_stored(v, error, t);
}

static size_t n_want_forward(const ts_case *c)
{
    return (size_t)(c->dim[TS_EMB_ROWS] * c->dim[TS_EMB_COLS]);
}

static void oracle_forward(const ts_case *c, const void *args, ts_want *want)
{
    const forward_args *a = args;
    const double        u = ts_format_of(ts_wide(a->dtype))->u;
    (void)c;
    for (int64_t i = 0; i < a->n_rows; i++)
        for (int64_t k = 0; k < a->n_cols; k++, want++) {
            const bool   known = is_known(a->token[i], a->n_vocab);
            const double v = known ? ts_load(a->table, a->dtype, a->token[i] * a->table_stride + k)
                                   : (double)NAN;
            if (a->scale == 1) *want = (ts_want) { v, 0 };
            else *want = want_of(a->scale * v, ts_kappa(2) * u * fabs(a->scale * v), a->y_dtype);
        }
}

static size_t n_want_backward(const ts_case *c)
{
    return (size_t)(c->dim[TS_EMB_VOCAB] * c->dim[TS_EMB_COLS]);
}

typedef struct cell {
    ts_real sum;
    double  terms; /* the sum of their magnitudes */
} cell;

/* How often each token occurs. */
static int64_t *count_tokens(const backward_args *a)
{
    int64_t *n = calloc((size_t)a->n_vocab, sizeof *n);
    if (!n) abort();
    for (int64_t i = 0; i < a->n_rows; i++)
        if (is_known(a->token[i], a->n_vocab)) n[a->token[i]]++;
    return n;
}

static void oracle_backward(const ts_case *c, const void *args, ts_want *want)
{
    const backward_args *a = args;
    const int64_t        D = a->n_cols;
    const ts_dtype       wide = ts_wide(a->dtype);
    const double         u = ts_format_of(wide)->u;
    cell                *cells = calloc((size_t)(a->n_vocab * D), sizeof *cells);
    int64_t             *n = count_tokens(a);
    (void)c;
    if (!cells) abort();
    for (int64_t i = 0; i < a->n_rows; i++)
        for (int64_t k = 0; k < D && is_known(a->token[i], a->n_vocab); k++) {
            const double dy = ts_load(a->dy, a->dtype, i * a->dy_stride + k);
            cell        *of = &cells[a->token[i] * D + k];
            ts_real_gather(&of->sum, ts_real_of(dy));
            of->terms += fabs(dy);
        }
    for (int64_t i = 0; i < a->n_vocab * D; i++) {
        const int64_t at = i / D * a->table_stride + i % D;
        const double  had = a->accumulate ? ts_load(a->dtable, wide, at) : 0;
        const ts_real v = ts_real_mul(ts_real_gathered(cells[i].sum), ts_real_of(a->scale));
        const double  size = fabs(had) + fabs(a->scale) * cells[i].terms;
        if (!n[i / D]) want[i] = (ts_want) { had, 0 };
        else
            want[i] =
                want_of(ts_real_add(v, ts_real_of(had)).hi, ts_kappa(n[i / D]) * u * size, wide);
    }
    free(cells);
    free(n);
}

/* ---- check, cost ---- */

static bool check_forward(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    const forward_args *a = args;
    const ts_buf        y = { "y", TS_OUT, a->y_dtype, a->n_rows, a->n_cols, a->y_stride };
    (void)c;
    return ts_check_buf(y, a->y, want, f, e);
}

static bool check_backward(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                           ts_errors *e)
{
    const backward_args *a = args;
    const ts_dtype       wide = ts_wide(a->dtype);
    const ts_buf dtable = { "dtable", TS_OUT, wide, a->n_vocab, a->n_cols, a->table_stride };
    (void)c;
    return ts_check_buf(dtable, a->dtable, want, f, e);
}

/* Rows of the table that a call touches at most. */
static double touched(const ts_case *c)
{
    return fmin((double)c->dim[TS_EMB_ROWS], (double)c->dim[TS_EMB_VOCAB]);
}

static ts_cost cost_forward(const ts_case *c)
{
    const double R = (double)c->dim[TS_EMB_ROWS], D = (double)c->dim[TS_EMB_COLS];
    const double b = (double)ts_format_of(c->dtype)->n_bytes, y = c->dim[TS_EMB_FLAG] ? 4 : b;
    return (ts_cost) { .bytes = b * touched(c) * D + y * R * D + 4 * R, .flops = R * D };
}

static ts_cost cost_backward(const ts_case *c)
{
    const double R = (double)c->dim[TS_EMB_ROWS], D = (double)c->dim[TS_EMB_COLS];
    const double V = (double)c->dim[TS_EMB_VOCAB], b = (double)ts_format_of(c->dtype)->n_bytes;
    const double wide = (double)ts_format_of(ts_wide(c->dtype))->n_bytes;
    const double out = c->dim[TS_EMB_FLAG] ? 2 * touched(c) : V;
    return (ts_cost) { .bytes = b * R * D + wide * out * D + 4 * R, .flops = R * D };
}

/* ---- invalid calls ---- */

static const int32_t negative[] = { 0, -1 };

#define AT(type, member)     offsetof(type##_args, member)
#define P(type, member)      (AT(type, member) + 1)
#define BAD(type, must, ...) TS_BAD(type##_args, TS_E_##must, __VA_ARGS__)
#define SHORT(type, stride)  TS_BAD_LIKE(type##_args, TS_E_SHAPE, stride, n_cols, -1)

/* A shorter vocabulary makes the first token invalid, which only calls on the CPU see. */
#define TOKENS(type)                                                                               \
    TS_BAD_LIKE(type##_args, TS_E_ARG | TS_HOST, n_vocab, n_vocab, -1),                            \
        TS_BAD_TO(type##_args, TS_E_ARG | TS_HOST, token, negative),                               \
        TS_BAD(type##_args, TS_ALSO, n_rows, 2)

static const ts_bad bad_forward[] = {
    BAD(forward, ARG, scale, NAN, INFINITY, -INFINITY),
    SHORT(forward, y_stride),
    SHORT(forward, table_stride),
    BAD(forward, DTYPE, dtype, TS_U8, TS_I32, 99),
    BAD(forward, DTYPE, y_dtype, TS_F64, TS_BF16, 99),
    TOKENS(forward),
    { 0 },
};

static const ts_bad bad_backward[] = {
    BAD(backward, ARG, scale, NAN, INFINITY, -INFINITY),
    BAD(backward, ARG, accumulate, 2, -1),
    SHORT(backward, dy_stride),
    SHORT(backward, table_stride),
    BAD(backward, DTYPE, dtype, TS_U8, TS_I32, 99),
    TOKENS(backward),
    { 0 },
};

/* n_rows, n_vocab, n_cols, and the strides of rows and table */
#define SHAPE(type, stride)                                                                        \
    .extent = { { AT(type, n_rows), 0, 0, 0, true, false },                                        \
                { AT(type, n_vocab), 1, 0, 0, false, false },                                      \
                { AT(type, n_cols), 1, 0, AT(type, stride), false, false },                        \
                { AT(type, stride), 1, 0, 0, false, true },                                        \
                { AT(type, table_stride), 1, 0, 0, false, true } },                                \
    .n_extent = 5, .product = { { { 1, 3 } }, { { 1, 4 } }, { { 2, 3 } }, { { 2, 5 } } }

static const ts_invalid invalid_forward = {
    .pointer = { P(forward, table), P(forward, token), P(forward, y) },
    SHAPE(forward, y_stride),
    .bad = bad_forward,
};

static const ts_invalid invalid_backward = {
    .pointer = { P(backward, token), P(backward, dy), P(backward, dtable) },
    SHAPE(backward, dy_stride),
    .bad = bad_backward,
};

const ts_task ts_task_embedding_forward = {
    .name = "embedding_forward",
    .dim_name = { "rows", "cols", "vocab", "pad", "wide" },
    .more_name = { "scale" },
    .kind = TS_PLAIN,
    .no_challenge = true,
    .devices = TS_ON_CPU | TS_ON_CUDA,
    .buffer = { { "table", TS_IN, 2, false },
                { "token", TS_IN, 1, true },
                { "y", TS_OUT, 2, false } },
    .number = { { "scale", false } },
    .args_bytes = sizeof(forward_args),
    .cases = ts_embedding_forward_cases,
    .cover = &ts_embedding_forward_cover,
    .setup = setup_forward,
    .n_want = n_want_forward,
    .oracle = oracle_forward,
    .check = check_forward,
    .cost = cost_forward,
    .invalid = &invalid_forward,
};

const ts_task ts_task_embedding_backward = {
    .name = "embedding_backward",
    .dim_name = { "rows", "cols", "vocab", "pad", "acc" },
    .more_name = { "scale" },
    .kind = TS_PLAIN,
    .no_challenge = true,
    .devices = TS_ON_CPU | TS_ON_CUDA,
    .buffer = { { "token", TS_IN, 1, true },
                { "dy", TS_IN, 2, false },
                { "dtable", TS_OUT, 2, false } },
    .number = { { "scale", false } },
    .args_bytes = sizeof(backward_args),
    .cases = ts_embedding_backward_cases,
    .cover = &ts_embedding_backward_cover,
    .setup = setup_backward,
    .n_want = n_want_backward,
    .oracle = oracle_backward,
    .check = check_backward,
    .cost = cost_backward,
    .invalid = &invalid_backward,
};

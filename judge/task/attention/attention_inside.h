/* SPDX-License-Identifier: Apache-2.0 */
/* attention_inside.h - what the two attention tasks share. Private to task/attention*.c. */
#ifndef TS_TASK_ATTENTION_INSIDE_H
#define TS_TASK_ATTENTION_INSIDE_H

#include <assert.h>
#include <float.h>
#include <math.h>

#include "attention_cases.h"
#include "dtype.h"
#include "real.h"
#include "spoil.h"

/* If double is judged, the oracle computes in pairs of doubles; double itself has twice the digits
 * of float. */
static inline ts_real ts_attention_dot(ts_dtype t, const double *a, const double *b, int64_t n)
{
    double sum = 0;
    if (t == TS_F64) return ts_real_dot(a, 1, b, 1, n);
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return ts_real_of(sum);
}

/* sum[i] += factor x[i], to be tidied at the end. */
static inline void ts_attention_gather(ts_dtype t, ts_real *sum, ts_real factor, const double *x,
                                       int64_t n)
{
    if (t == TS_F64)
        for (int64_t i = 0; i < n; i++) ts_real_gather_product(&sum[i], factor, x[i]);
    else
        for (int64_t i = 0; i < n; i++) sum[i].hi += factor.hi * x[i];
}

static inline ts_real ts_attention_exp(ts_dtype t, ts_real x)
{
    return t == TS_F64 ? ts_real_exp(x) : ts_real_of(ts_exp64(x.hi));
}

static inline double ts_attention_kappa(int64_t n)
{
    return 8 + 2 * sqrt((double)n);
}

/* Unit roundoffs: of accumulation, and of storage. */
static inline double ts_attention_u(ts_dtype t)
{
    return ts_format_of(ts_wide(t))->u;
}

static inline double ts_attention_w(ts_dtype t)
{
    return ts_format_of(t)->u;
}

/* By the usual contract an exponential in float may err by 20 units in the last place, 40 u, as the
 * vectorised ones of PyTorch do. */
static inline double ts_attention_fast_exp(ts_dtype t)
{
    return t == TS_F64 ? 0 : 40 * ts_attention_u(t);
}
#define TS_ATTENTION_EXACT "exponentials are exact to a few units in the last place"

/* Rows of a tensor with n_head heads of n rows each. */
static inline int64_t ts_attention_row(const ts_attention_dims *d, int64_t n_head, int64_t n,
                                       int64_t b, int64_t h, int64_t i)
{
    return d->layout == TS_BHND ? (b * n_head + h) * n + i : (b * n + i) * n_head + h;
}

/* Keys [begin, end) are seen by query i of batch b; none: begin >= end. */
typedef struct ts_span {
    int64_t begin, end;
} ts_span;

ts_span ts_attention_keys(const ts_attention_dims *d, const int32_t *kv_len, int64_t b, int64_t i);
/* The queries that see key j, which are neighbours too. */
ts_span ts_attention_queries(const ts_attention_dims *d, const int32_t *kv_len, int64_t b,
                             int64_t j);

/* Half the spacing of numbers that are not normal. Of double that is no double: the spacing. */
static inline double ts_attention_step(ts_dtype t)
{
    const ts_format *f = ts_format_of(t);
    return fmax(f->min_normal * f->u, DBL_TRUE_MIN);
}

/* What becomes of a weight p where numbers are no longer normal: at accumulation it may be flushed,
 * and rounded to storage it errs by half the spacing there. */
static inline double ts_attention_lost(double p, ts_dtype t)
{
    return (p < 2 * ts_format_of(ts_wide(t))->min_normal ? p : 0) + ts_attention_step(t);
}

/* A want for a result that is stored as t; `error` is what may go wrong before that. */
ts_want ts_attention_stored(double value, double error, ts_dtype t);

/* Pairs that are seen, over all batches and query heads, with full key lengths. */
double ts_attention_pairs(const ts_attention_dims *d);

/* one(of, i) for every i < n, by as many threads as there are cores where that is much work. */
void ts_attention_each(bool much, int64_t n, void (*one)(void *of, int64_t i), void *of);

/* A tensor as doubles [batch][head][row][head_dim], whatever its layout; lse with head_dim 1. */
double *ts_attention_wide(const ts_attention_dims *d, const void *p, ts_dtype t, int64_t n_head,
                          int64_t n, int64_t head_dim);

/* Draws q, k, v or dout, of n_head heads with n rows. */
void ts_attention_fill(const ts_case *c, const ts_attention_dims *d, const int32_t *kv_len,
                       uint64_t seed, void *to, int64_t n_head, int64_t n, ts_attention_draw draw);

/* Takes and draws the key lengths, where the case has some. */
void ts_attention_take_lengths(const ts_case *c, uint64_t seed, ts_arena *m, const int32_t **slot);

/* The shape of a tensor in its layout, or of lse: ts_task.shape. */
void ts_attention_shape(const ts_case *c, const char *buffer, int64_t extent[TS_MAX_RANK]);

/* The numbers of a call that are not in its tensors' shapes. */
void ts_attention_scalars(ts_arena *m, const ts_attention_dims *d);

/* ---- large cases: some rows are computed; the others are only checked to be written ---- */

/* How many of n rows, each of which costs so many operations, are computed. */
int64_t ts_attention_n_picked(int64_t n, double cost);

/* Which rows they are, in ascending order, into want[0 .. n_picked).value: drawn anew each time, so
 * that no entrant can know them. */
void ts_attention_pick(int64_t n, int64_t n_picked, ts_want *want);

/* A tensor with a row for every query, or key, of each head. A row that no query sees, or that sees
 * nothing, is all `none`; or, if it is not computed and `skip` returns true for it, anything that
 * was written. */
typedef struct ts_attention_rows {
    ts_buf      b;
    const void *p;
    int64_t     n_head, n;
    ts_span (*seen)(const ts_attention_dims *d, const int32_t *kv_len, int64_t b, int64_t i);
    double none;
    bool (*skip)(const ts_attention_dims *d, const int32_t *kv_len, int64_t b,
                 int64_t i); /* or NULL */
} ts_attention_rows;

/* By the usual contract, which defines no output for a query that sees no key: that query, and the
 * keys of a batch that has one. */
bool ts_attention_sees_none(const ts_attention_dims *d, const int32_t *kv_len, int64_t b,
                            int64_t i);
bool ts_attention_beside_none(const ts_attention_dims *d, const int32_t *kv_len, int64_t b,
                              int64_t j);

/* Excuses what the usual contract does not define in the n computed rows of a tensor of queries:
 * those that see no key. */
void ts_attention_excuse_none(const ts_attention_dims *d, const int32_t *kv_len,
                              const ts_want *picked, int64_t n, int64_t n_cols, ts_want *want);
/* Of a query and the keys that it sees: how many scores leave the range of accumulation, or are no
 * numbers. q is the query, k all keys of its head; both wide. */
int64_t ts_attention_beyond(const ts_attention_dims *d, ts_span keys, const double *q,
                            const double *k);
/* Excuses the elements of row r of a tensor with n_head heads of n rows that are no numbers. */
void ts_attention_excuse_row(const ts_attention_dims *d, const ts_attention_rows *t, int64_t r,
                             ts_want *want);

/* Compares it: `picked` are row numbers in the order batch, head, row, and `want` n_cols for each
 * of them; of the others those that see or are seen hold finite numbers. */
bool ts_attention_check(const ts_attention_dims *d, const int32_t *kv_len,
                        const ts_attention_rows *t, const ts_want *picked, int64_t n_picked,
                        const ts_want *want, ts_flaw *f, ts_errors *e);

/* ---- forward ---- */

/* One row: what it must be, and the bounds. */
typedef struct ts_attention_answer {
    ts_real value[256], lse; /* lse: -inf if no key is seen, NaN if a score is NaN or +inf */
    double  error[256], lse_error, size[256]; /* size: the magnitudes that are summed */
} ts_attention_answer;

/* Of a key: its score, the exponential of that, and the magnitudes that cancel in the score. */
typedef struct ts_attention_scored {
    ts_real s, p;
    double  size;
} ts_attention_scored;

/* q, k and v are wide and of one batch and head; scratch has room for n_k keys. */
void ts_attention_forward_row(const ts_attention_dims *d, ts_span keys, const double *q,
                              const double *k, const double *v, ts_attention_scored *scratch,
                              ts_attention_answer *a);

/* o and lse of the whole case, in double, fast; o is [batch][q_head][n_q][head_dim]. */
void ts_attention_forward_all(const ts_attention_dims *d, const int32_t *kv_len, const double *q,
                              const double *k, const double *v, double *o, double *lse);

/* Of both forward tasks: rows of q, and how many of them are computed; then what check compares. */
int64_t ts_attention_rows_q(const ts_attention_dims *d);
int64_t ts_attention_picked_q(const ts_attention_dims *d);
size_t  ts_attention_forward_n_want(const ts_case *c);
/* want: the numbers of the rows that are computed, their o, their lse. all: also of the queries
 * that see no key. */
bool ts_attention_forward_check(const ts_attention_dims *d, const int32_t *kv_len, const void *o,
                                const void *lse, bool all, const ts_want *want, ts_flaw *f,
                                ts_errors *e);
/* bytes: of an element of q and o together, and of k and v. */
ts_cost ts_attention_forward_cost(const ts_case *c, double bytes_q, double bytes_k);

/* What the case has in one number, `mask` or `form`, each by its own name. */
int ts_attention_scope(const ts_case *c, ts_parameter p[TS_MAX_PARAMETERS]);

/* Invalid calls of all three tasks, whose args begin with the dims: n_batch, n_q, n_k, n_q_head,
 * n_kv_head, head_dim, and hints. */
#define TS_ATTENTION_DIM_(member, ...)                                                             \
    {                                                                                              \
        offsetof(ts_attention_dims, member), __VA_ARGS__                                           \
    }
#define TS_ATTENTION_EXTENTS                                                                       \
    .extent = { TS_ATTENTION_DIM_(n_batch, 0, 0, 0, true, false),                                  \
                TS_ATTENTION_DIM_(n_q, 0, 0, 0, false, false),                                     \
                TS_ATTENTION_DIM_(n_k, 0, 0, 0, false, false),                                     \
                TS_ATTENTION_DIM_(n_q_head, 1, 0, 0, false, false),                                \
                TS_ATTENTION_DIM_(n_kv_head, 1, 0, offsetof(ts_attention_dims, n_q_head), false,   \
                                  false),                                                          \
                TS_ATTENTION_DIM_(head_dim, 1, 256, 0, false, false),                              \
                TS_ATTENTION_DIM_(window, 0, 0, 0, false, true),                                   \
                TS_ATTENTION_DIM_(tile_q, 0, 0, 0, false, true),                                   \
                TS_ATTENTION_DIM_(tile_k, 0, 0, 0, false, true) },                                 \
    .n_extent = 9, .product = { { { 1, 2, 4, 6 } }, { { 1, 3, 5, 6 } } }

/* Numbers; then, on the CPU, lengths that cannot be: an input of floats. */
#define TS_ATTENTION_BAD(type, floats)                                                             \
    TS_BAD(ts_attention_dims, TS_E_ARG, scale, NAN, -INFINITY),                                    \
        TS_BAD(ts_attention_dims, TS_E_ARG, causal, 2),                                            \
        TS_BAD(ts_attention_dims, TS_E_ARG, layout, 2),                                            \
        TS_BAD(ts_attention_dims, TS_E_ARG, window, 3),                                            \
        TS_BAD(ts_attention_dims, TS_ALSO, causal, 0),                                             \
        TS_BAD_LIKE(ts_attention_dims, TS_E_SHAPE, n_kv_head, n_q_head, 1),                        \
        TS_BAD_OF(ts_attention_dims, TS_E_SHAPE, n_q_head, ts_attention_uneven),                   \
        TS_BAD(ts_attention_dims, TS_E_DTYPE, dtype, TS_U8, TS_U4, TS_I32, 99),                    \
        TS_BAD_LIKE(type, TS_E_ARG | TS_HOST, kv_len, floats, 0)
int64_t ts_attention_uneven(void *dims); /* 2 n_kv_head + 1 */

/* What the descriptors of all three tasks share. */
#define TS_ATTENTION_TASK                                                                          \
    .dim_name = { "q", "k", "batch", "q_heads", "kv_heads", "head_dim", "mask", "form" },          \
    .more_name = { "scale" }, .kind = TS_PLAIN, .devices = TS_ON_CPU | TS_ON_CUDA,                 \
    .shape = ts_attention_shape,                                                                   \
    .number = { { "layout", true }, { "causal", true }, { "window", true },                        \
                { "scale", false }, { "tile_q", true }, { "tile_k", true } }
/* And those that take entrants. */
#define TS_ATTENTION_CHALLENGE                                                                     \
    TS_ATTENTION_TASK,                                                                             \
        .dim_says = { "n_q",                                                                       \
                      "n_k",                                                                       \
                      "n_batch",                                                                   \
                      "n_q_head",                                                                  \
                      "n_kv_head",                                                                 \
                      "head_dim",                                                                  \
                      "0: none, 1: causal, 1 + w: causal with a window of w",                      \
                      "10 t + s: t is both tile hints, s is 1 if the middle axes are swapped, "    \
                      "plus 2 "                                                                    \
                      "without lse" },                                                             \
        .more_says = { "0: scale is 1.25 / sqrt(head_dim); other numbers stand for other "         \
                       "scales" },                                                                 \
        .scope = ts_attention_scope,                                                               \
        .scope_says = "`causal`, `window`, `layout`, `tile_q` and `tile_k` have names of their "   \
                      "own, and `kv_len` and `lse` are 1 where there is one"

#endif

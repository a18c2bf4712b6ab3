/* SPDX-License-Identifier: Apache-2.0 */
/* unit_attention.h - tensors in memory of exactly their size, and attention over the full matrix,
 * in double and with an error bound for every element. For the tests of attention. */
#ifndef TS_UNIT_ATTENTION_H
#define TS_UNIT_ATTENTION_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "dtype.h"
#include "isa_impls.h"
#include "rng.h"
#include "touchstone/attention.h"
#include "unit.h"

static const unsigned masks[] = TS_CPU_MASKS_MATRIX;

enum { N_MASKS = sizeof masks / sizeof *masks };

typedef enum tensor { Q, K, V, DOUT, O, LSE, DQ, DK, DV, N_TENSORS } tensor;

typedef struct world {
    ts_attention_dims d;
    const int32_t    *kv_len;
    int64_t           n[N_TENSORS];
    char             *memory[N_TENSORS];
    void             *at[N_TENSORS]; /* one element into its memory: aligned to that, not more */
    double           *want[N_TENSORS], *bound[N_TENSORS]; /* of O .. DV */
} world;

static inline ts_dtype dtype_of(const world *w, tensor t)
{
    return t == LSE ? ts_wide(w->d.dtype) : w->d.dtype;
}

static inline double value(const world *w, tensor t, int64_t i)
{
    return ts_load(w->at[t], dtype_of(w, t), i);
}

static inline void set(world *w, tensor t, int64_t i, double v)
{
    ts_store(w->at[t], dtype_of(w, t), i, v);
}

/* Where row i of a head begins. */
static inline int64_t row_at(const world *w, tensor t, int64_t b, int64_t h, int64_t i)
{
    const int     keys = t == K || t == V || t == DK || t == DV;
    const int64_t heads = keys ? w->d.n_kv_head : w->d.n_q_head, n = keys ? w->d.n_k : w->d.n_q;
    const int64_t row = w->d.layout == TS_BHND ? (b * heads + h) * n + i : (b * n + i) * heads + h;
    return row * w->d.head_dim;
}

static inline void poison(world *w, tensor t)
{
    const ts_dtype type = dtype_of(w, t);
    ts_poison(type, w->at[t], (size_t)w->n[t] * ts_format_of(type)->n_bytes);
}

/* Inputs are normal. */
static inline world make(ts_attention_dims d, const int32_t *kv_len, uint64_t seed)
{
    world         w = { .d = d, .kv_len = kv_len };
    const int64_t rows = d.n_batch * d.n_q_head * d.n_q, keys = d.n_batch * d.n_kv_head * d.n_k;
    for (tensor t = Q; t < N_TENSORS; t++) {
        const int is_key = t == K || t == V || t == DK || t == DV;
        w.n[t] = t == LSE ? rows : (is_key ? keys : rows) * d.head_dim;
        const size_t each = ts_format_of(dtype_of(&w, t))->n_bytes;
        w.memory[t] = malloc((size_t)(w.n[t] + 1) * each);
        w.want[t] = calloc((size_t)w.n[t] + 1, sizeof(double));
        w.bound[t] = calloc((size_t)w.n[t] + 1, sizeof(double));
        assert_true(w.memory[t] && w.want[t] && w.bound[t]);
        w.at[t] = w.memory[t] + each;
        poison(&w, t);
        for (int64_t i = 0; t <= DOUT && i < w.n[t]; i++)
            set(&w, t, i, ts_normal(seed + (uint64_t)t, i));
    }
    return w;
}

static inline void drop(world *w)
{
    for (tensor t = Q; t < N_TENSORS; t++) free(w->memory[t]), free(w->want[t]), free(w->bound[t]);
}

static inline int sees(const world *w, int64_t b, int64_t i, int64_t j)
{
    const int64_t last = i + w->d.n_k - w->d.n_q;
    if (w->kv_len && j >= w->kv_len[b]) return 0;
    if (!w->d.causal) return 1;
    return j <= last && (w->d.window == 0 || last - j < w->d.window);
}

/* ---- the oracle ---- */

static inline double kappa(int64_t n)
{
    return 8 + 2 * sqrt((double)n);
}

/* A sum, and that of the magnitudes. */
typedef struct both {
    double sum, size;
} both;

static inline both dot(const world *w, tensor x, int64_t x_at, tensor y, int64_t y_at)
{
    both s = { 0, 0 };
    for (int64_t c = 0; c < w->d.head_dim; c++) {
        const double term = value(w, x, x_at + c) * value(w, y, y_at + c);
        s.sum += term;
        s.size += fabs(term);
    }
    return s;
}

static inline void give(world *w, tensor t, int64_t at, double weight, double error, tensor from,
                        int64_t from_at)
{
    for (int64_t c = 0; c < w->d.head_dim; c++) {
        const double x = value(w, from, from_at + c);
        w->want[t][at + c] += weight * x;
        w->bound[t][at + c] += error * fabs(x);
    }
}

/* One query: want and bound of its o and lse, which are also stored, rounded, for backward; then
 * what it gives to dq, dk and dv. A score errs by `err`, and so, relatively, does its weight. */
static inline void expect_query(world *w, int64_t b, int64_t h, int64_t i)
{
    const ts_attention_dims *d = &w->d;
    const int64_t            g = h / (d->n_q_head / d->n_kv_head), at = row_at(w, Q, b, h, i);
    const int64_t stat = (b * d->n_q_head + h) * d->n_q + i, n = d->n_k + d->n_q * d->n_q_head;
    const double  u = ts_format_of(ts_wide(d->dtype))->u, store = ts_format_of(d->dtype)->u;
    double       *s = calloc((size_t)d->n_k + 1, sizeof *s),
           *err = calloc((size_t)d->n_k + 1, sizeof *err);
    double max = -INFINITY, sum = 0, err_max = 0;
    assert_true(s && err);
    for (int64_t j = 0; j < d->n_k; j++) {
        if (!sees(w, b, i, j)) continue;
        const both qk = dot(w, Q, at, K, row_at(w, K, b, g, j));
        s[j] = d->scale * qk.sum;
        err[j] = kappa(d->head_dim) * u * fabs(d->scale) * qk.size;
        max = fmax(max, s[j]);
    }
    for (int64_t j = 0; j < d->n_k; j++) {
        if (!sees(w, b, i, j) || s[j] == -INFINITY) continue;
        sum += exp(s[j] - max);
        err[j] += u * (max - s[j]);
        if (s[j] > max - 100 && err[j] > err_max) err_max = err[j];
    }
    const double lse = sum > 0 ? max + log(sum) : -INFINITY;
    const double wrong = 2 * err_max + kappa(n) * u;
    for (int64_t j = 0; sum > 0 && j < d->n_k; j++)
        if (sees(w, b, i, j) && s[j] > -INFINITY)
            give(w, O, at, exp(s[j] - lse), exp(s[j] - lse) * (wrong + 2 * store), V,
                 row_at(w, V, b, g, j));
    for (int64_t c = 0; c < d->head_dim; c++) {
        w->bound[O][at + c] += store * fabs(w->want[O][at + c]) + 1e-40;
        set(w, O, at + c, w->want[O][at + c]);
    }
    w->want[LSE][stat] = lse;
    w->bound[LSE][stat] = sum > 0 ? wrong + 2 * u * fabs(lse) : 0;
    set(w, LSE, stat, lse);
    const both delta = dot(w, DOUT, at, O, at);
    for (int64_t j = 0; sum > 0 && j < d->n_k; j++) {
        if (!sees(w, b, i, j) || s[j] == -INFINITY) continue;
        const int64_t to = row_at(w, K, b, g, j);
        const both    dp = dot(w, DOUT, at, V, to);
        const double  p = exp(s[j] - lse), off = wrong + 2 * u * fabs(lse) + 2 * store;
        const double  tiny =
            ts_format_of(ts_wide(d->dtype))->min_normal; /* a weight that vanished */
        const double ds = d->scale * p * (dp.sum - delta.sum);
        const double ds_off =
            fabs(d->scale) * ((p * off + tiny) * (fabs(dp.sum) + fabs(delta.sum)) +
                              p * (kappa(n) * u * (dp.size + delta.size) + store * delta.size));
        give(w, DV, to, p, p * off + tiny, DOUT, at);
        give(w, DQ, at, ds, ds_off + kappa(n) * u * fabs(ds), K, to);
        give(w, DK, to, ds, ds_off + kappa(n) * u * fabs(ds), Q, at);
    }
    free(s), free(err);
}

static inline void expect(world *w)
{
    for (int64_t b = 0; b < w->d.n_batch; b++)
        for (int64_t h = 0; h < w->d.n_q_head; h++)
            for (int64_t i = 0; i < w->d.n_q; i++) expect_query(w, b, h, i);
    for (tensor t = DQ; t < N_TENSORS; t++)
        for (int64_t i = 0; i < w->n[t]; i++)
            w->bound[t][i] += ts_format_of(w->d.dtype)->u * fabs(w->want[t][i]) + 1e-38;
}

/* One head of one sequence. */
static inline ts_attention_dims one_head(ts_dtype dtype, int64_t n_q, int64_t n_k, int64_t head_dim)
{
    return (ts_attention_dims) {
        .dtype = dtype,
        .n_batch = 1,
        .n_q = n_q,
        .n_k = n_k,
        .n_q_head = 1,
        .n_kv_head = 1,
        .head_dim = head_dim,
        .scale = 0.37 / sqrt((double)head_dim),
    };
}

/* ---- calls ---- */

/* A workspace of exactly the requested size, full of NaN and unaligned. */
static inline char *workspace_of(ts_exec *x, size_t n_bytes)
{
    char *const memory = malloc(n_bytes + 4);
    assert_non_null(memory);
    memset(memory, 0xff, n_bytes + 4);
    x->workspace = memory + 4;
    x->workspace_bytes = n_bytes;
    return memory;
}

static inline void run_forward(world *w, int n_threads)
{
    const ts_flash_attention_args a = { w->d,      w->at[Q], w->at[K],  w->at[V],
                                        w->kv_len, w->at[O], w->at[LSE] };
    ts_exec                       x = { .n_threads = n_threads, .deterministic = 1 };
    size_t                        n_bytes;
    poison(w, O);
    poison(w, LSE);
    assert_int_equal(ts_flash_attention_workspace(&a, &x, &n_bytes), TS_OK);
    char *const memory = workspace_of(&x, n_bytes);
    assert_int_equal(ts_flash_attention(&a, &x), TS_OK);
    free(memory);
}

static inline void run_backward(world *w, int n_threads)
{
    const ts_flash_attention_backward_args a = {
        .d = w->d,
        .q = w->at[Q],
        .k = w->at[K],
        .v = w->at[V],
        .o = w->at[O],
        .dout = w->at[DOUT],
        .lse = w->at[LSE],
        .kv_len = w->kv_len,
        .dq = w->at[DQ],
        .dk = w->at[DK],
        .dv = w->at[DV],
    };
    ts_exec x = { .n_threads = n_threads, .deterministic = 1 };
    size_t  n_bytes;
    for (tensor t = DQ; t <= DV; t++) poison(w, t);
    assert_int_equal(ts_flash_attention_backward_workspace(&a, &x, &n_bytes), TS_OK);
    char *const memory = workspace_of(&x, n_bytes);
    assert_int_equal(ts_flash_attention_backward(&a, &x), TS_OK);
    free(memory);
}

static inline void compare(const world *w, tensor t, const char *what)
{
    static const char *const names[] = { "q", "k", "v", "dout", "o", "lse", "dq", "dk", "dv" };
    for (int64_t i = 0; i < w->n[t]; i++) {
        const double got = value(w, t, i), want = w->want[t][i];
        if (got == want || fabs(got - want) <= w->bound[t][i]) continue;
        fail_msg("%s: %s[%lld] is %.9g, not %.9g +- %.2g", what, names[t], (long long)i, got, want,
                 w->bound[t][i]);
    }
}

/* Both passes under every mask, against the oracle. */
static inline void examine(world *w, const char *what)
{
    expect(w);
    for (int m = 0; m < N_MASKS; m++) {
        ts_cpu_set_mask(masks[m]);
        run_forward(w, 2);
        compare(w, O, what);
        compare(w, LSE, what);
        for (int64_t i = 0; i < w->n[O]; i++) set(w, O, i, w->want[O][i]);
        for (int64_t i = 0; i < w->n[LSE]; i++) set(w, LSE, i, w->want[LSE][i]);
        run_backward(w, 2);
        for (tensor t = DQ; t <= DV; t++) compare(w, t, what);
    }
    ts_cpu_set_mask(~0u);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* tree_more.c - the other functions of tree_verify: masks, biases and residual sampling, of one
 * tree or one row after the other; and their invalid calls. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "rng.h"
#include "tree_verify_inside.h"

enum { SHAPES = 5, KINDS = 12, ATTEMPTS = 256, MOST_WAYS = 64 };

static const struct {
    const char *family;
    int64_t     function;
    bool        refused;
} families[] = {
    { "mask", TS_TREE_MASK, false },         { "mask_refused", TS_TREE_MASK, true },
    { "bias", TS_TREE_BIAS, false },         { "bias_refused", TS_TREE_BIAS, true },
    { "residual", TS_TREE_RESIDUAL, false }, { "residual_refused", TS_TREE_RESIDUAL, true }
};

int64_t ts_tree_function(const ts_case *c, bool *refused)
{
    const size_t n = sizeof families / sizeof *families;
    size_t       i = 0;
    while (i < n && strcmp(c->family, families[i].family)) i++;
    if (refused) *refused = i < n && families[i].refused;
    return i < n ? families[i].function : TS_TREE_VERIFY;
}

/* Calls: of every shape of a tree, or kind of distribution, one or more. */
static int64_t n_calls(const ts_case *c)
{
    bool          refused;
    const int64_t f = ts_tree_function(c, &refused);
    if (refused) return 1;
    return f == TS_TREE_RESIDUAL ? KINDS * c->dim[CYCLES] : SHAPES - 1 + c->dim[CYCLES];
}

/* ---- what is drawn ---- */

/* A forest as it comes, a chain, a star, level after level, and two paths that take turns. */
static int32_t parent_of(int64_t shape, uint64_t seed, int64_t i)
{
    if (shape == 1) return (int32_t)i - 1;
    if (shape == 2) return -1;
    if (shape == 3) return (int32_t)(i < 2 ? -1 : (i - 2) / 2);
    if (shape == 4) return (int32_t)(i < 2 ? -1 : i - 2);
    return (int32_t)(ts_bits(seed, i) % (uint64_t)(i + 1)) - 1;
}

/* A row's distribution, that of its children, and these; u behind them. */
typedef struct row {
    double        *p, *q, *u;
    int32_t       *child;
    int64_t        n_vocab, n_child;
    const ts_case *c;
} row;

static int32_t drawn_from(const double *q, int64_t n, double u)
{
    double  total = 0, sum = 0;
    int64_t i = 0, last = 0;
    for (int64_t k = 0; k < n; k++) total += q[k];
    for (; i < n; i++) {
        if (q[i] > 0) last = i;
        if ((sum += q[i]) > u * total) break;
    }
    return (int32_t)last;
}

/* A first draw that nearly says the opposite. */
static void draw_near(row *r, bool accepts)
{
    double p = 0, q = 0;
    for (int64_t i = 0; i < r->n_vocab; i++) p += r->p[i], q += r->q[i];
    if (!r->n_child) return;
    const double ratio = r->p[r->child[0]] / p / (r->q[r->child[0]] / q);
    if (ratio < 0.99) r->u[0] = ratio * (accepts ? 1 - 1e-8 : 1 + 1e-8);
}

/* Kinds: 0 as drawn, 1 equal children, 2 equal distributions, 3 disjoint ones and draws of
 * probability 0, 4 sums far from 1, 5 disjoint, 6 one against the other, 7 all children the most
 * probable, from 8 on similar distributions. */
static void draw_row(row *r, int64_t kind, uint64_t seed)
{
    const int64_t V = r->n_vocab, N = r->n_child;
    const bool    apart = (kind == 3 || kind == 5) && V > 1;
    for (int64_t i = 0; i < V; i++) {
        const double x = ts_normal(seed, i), y = ts_normal(seed + 1, i);
        r->q[i] = 0.01 + x * x;
        r->p[i] = kind == 2 ? r->q[i] * (1 + 0.1 * y) : kind == 6 ? 1 / r->q[i] : 0.01 + y * y;
        if (kind > 7) r->p[i] = r->q[i] * (1 + 0.45 * y);
        if (r->p[i] < 0) r->p[i] = 0;
        if (apart) r->p[i] *= i >= V / 2, r->q[i] *= i < V / 2;
        if (kind == 4) r->p[i] *= 3e-200, r->q[i] *= 7e199;
        if (kind == 1 && i % 3 == 0) r->p[i] = 0; /* and it may be, of what no child is */
    }
    if (kind == 1) r->p[V - 1] = 1;
    for (int64_t j = 0; j < N; j++) {
        r->child[j] = drawn_from(r->q, V, 0.5 + 0.5 * ts_uniform(seed + 2, j));
        if (kind == 1) r->child[j] = r->child[0];
    }
    for (int64_t i = 0; kind == 7 && i < V; i++)
        for (int64_t j = 0; j < N; j++)
            if (r->q[i] > r->q[r->child[j]]) r->child[j] = (int32_t)i;
    for (int64_t j = 0; j <= N; j++) {
        const double u = 0.5 + 0.5 * ts_uniform(seed + 3, j);
        r->u[j] = apart && kind == 3 ? 0 : kind == 6 || kind == 7 ? 1 - 0.1 * u : u;
    }
    /* The first is more likely to be rejected than the others. */
    for (int64_t j = 0; kind > 7 && j < N; j++) r->u[j] = j ? r->u[j] / 2 : 1 - r->u[j] / 20;
    if (kind == 2) draw_near(r, seed & 1);
}

/* ---- what is expected of a row ---- */

static double normalise(double *p, int64_t n)
{
    double total = 0;
    for (int64_t i = 0; i < n; i++) total += p[i];
    for (int64_t i = 0; i < n; i++) p[i] /= total;
    return total;
}

static double *copy_of(const double *p, int64_t n)
{
    double *const own = malloc(((size_t)n + 1) * sizeof *own);
    if (!own) abort();
    memcpy(own, p, (size_t)n * sizeof *own);
    return own;
}

/* By the definition, the distribution computed again after each rejection. Returns how clear the
 * nearest choice was, over what roundings may have moved it. */
static double solve(const row *r, int32_t *token, int64_t *accepted)
{
    const int64_t V = r->n_vocab;
    double       *p = copy_of(r->p, V), *q = copy_of(r->q, V), *next = copy_of(r->p, V);
    double        error = 1e-13, clear = INFINITY, sum = 0, left;
    *accepted = *token = -1;
    normalise(p, V), normalise(q, V);
    for (int64_t j = 0; j < r->n_child && *accepted < 0; j++) {
        const int32_t c = r->child[j];
        const double  beyond = p[c] - r->u[j] * q[c];
        if (r->p[c] > 0) clear = fmin(clear, fabs(beyond) / error);
        if (beyond > 0) *token = c, *accepted = j;
        left = 0;
        for (int64_t i = 0; i < V; i++) left += next[i] = fmax(p[i] - q[i], 0);
        if (*accepted >= 0 || !(left > 0x1p-100)) continue;
        memcpy(p, next, (size_t)V * sizeof *p);
        normalise(p, V);
        error /= left;
    }
    for (int64_t i = 0; i < V && *accepted < 0; i++) {
        const double beyond = (sum += p[i]) - r->u[r->n_child];
        if (r->u[r->n_child] > 0) clear = fmin(clear, fabs(beyond) / error / (double)V);
        if (beyond > 0 && *token < 0) *token = (int32_t)i;
    }
    free(p), free(q), free(next);
    return *token < 0 ? 0 : clear;
}

static row row_at(const ts_case *c, const ts_tree_play_args *a, int64_t i)
{
    const int64_t V = c->dim[VOCAB], N = c->dim[NODES];
    return (row) { (double *)a->p + i * V,
                   (double *)a->q + i * V,
                   (double *)a->u + i * (N + 1),
                   (int32_t *)a->script + i * N,
                   V,
                   N,
                   c };
}

/* ---- the task ---- */

enum { MOST_OUTPUTS = 2 };

/* The outputs, in the order of their wants: what is seen is the last. */
static int outputs(const ts_case *c, ts_buf b[MOST_OUTPUTS])
{
    bool          refused;
    const int64_t f = ts_tree_function(c, &refused), n = n_calls(c);
    const int64_t R = c->dim[PROMPT] + c->dim[NODES];
    const int64_t seen = refused ? MOST_WAYS : TS_MORE_SEEN + (f == TS_TREE_MASK ? R : 0);
    b[0] = f == TS_TREE_MASK   ? (ts_buf) { "visible", TS_OUT, TS_U8, n * R, R, R }
           : f == TS_TREE_BIAS ? (ts_buf) { "bias", TS_OUT, TS_F32, n * R, R, R }
                               : (ts_buf) { "out", TS_OUT, TS_I32, n, 1, 1 };
    b[1] = (ts_buf) { "seen", TS_OUT, TS_F64, n, seen, seen };
    return MOST_OUTPUTS;
}

static const void *const *slot_of(const ts_tree_play_args *a)
{
    return a->function == TS_TREE_MASK   ? (const void *const *)&a->visible
           : a->function == TS_TREE_BIAS ? (const void *const *)&a->bias
                                         : (const void *const *)&a->out;
}

void ts_tree_more_setup(const ts_case *c, uint64_t seed, ts_arena *m, ts_tree_play_args *a)
{
    const int64_t n = n_calls(c), N = c->dim[NODES], V = c->dim[VOCAB];
    bool          refused;
    ts_buf        b[MOST_OUTPUTS];
    *a = (ts_tree_play_args) { .n_cycle = n, .n_node = N, .n_vocab = V };
    a->function = ts_tree_function(c, &refused);
    a->refused = refused;
    a->d = (ts_tree_dims) { c->dim[PROMPT], N, c->dim[MAX_NEW], (double)c->dim[TEMPERATURE] / 100 };
    int32_t *const script = ts_take(m, &a->script, (ts_buf) { "script", TS_IN, TS_I32, n, N, N });
    for (int64_t i = 0; i < n * N; i++)
        script[i] = parent_of(i / N % SHAPES, ts_mix(seed + (uint64_t)(i / N)), i % N);
    if (a->function == TS_TREE_RESIDUAL) {
        row r = { .p = ts_take(m, &a->p, (ts_buf) { "p", TS_IN, TS_F64, n, V, V }),
                  .q = ts_take(m, &a->q, (ts_buf) { "q", TS_IN, TS_F64, n, V, V }),
                  .u = ts_take(m, &a->u, (ts_buf) { "u", TS_IN, TS_F64, n, N + 1, N + 1 }),
                  .child = script,
                  .n_vocab = V,
                  .n_child = N,
                  .c = c };
        for (int64_t i = 0; i < n; i++, r.p += V, r.q += V, r.u += N + 1, r.child += N) {
            int32_t token;
            int64_t accepted;
            int     k = 0;
            do draw_row(&r, i % KINDS, ts_mix(ts_mix(seed + (uint64_t)i) + (uint64_t)k));
            while (solve(&r, &token, &accepted) < 4 && ++k < ATTEMPTS);
            if (k == ATTEMPTS) abort(); /* such a case can hardly be drawn */
        }
    }
    outputs(c, b);
    ts_take(m, (void *)slot_of(a), b[0]);
    ts_take(m, &a->seen, b[1]);
}

size_t ts_tree_more_n_want(const ts_case *c)
{
    ts_buf b[MOST_OUTPUTS];
    return ts_bufs_elements(b, outputs(c, b));
}

/* Row r of a tree, column by column, and its position. */
static void want_row(const ts_case *c, const int32_t *parent, int64_t r, bool bias, ts_want *w,
                     ts_want *position)
{
    const int64_t P = c->dim[PROMPT], R = P + c->dim[NODES];
    int64_t       depth = 0;
    for (int64_t k = 0; k < R; k++) {
        bool    sees = k < P && k <= r;
        int64_t up = r - P;
        while (k >= P && up > k - P) up = parent[up]; /* an ancestor has a smaller number */
        if (k >= P && up == k - P && r >= k) sees = true;
        w[k] = (ts_want) { bias ? (sees ? 0 : -INFINITY) : sees, 0 };
    }
    for (int64_t up = r - P; up >= 0; up = parent[up]) depth++;
    if (position) *position = (ts_want) { (double)(r < P ? r : P - 1 + depth), 0 };
}

static void want_refused(const ts_case *c, ts_want *w)
{
    ts_buf    b[MOST_OUTPUTS];
    ts_status must;
    int       i = 0;
    outputs(c, b);
    for (int64_t k = 0; k < b[0].n_rows * b[0].n_cols; k++) *w++ = (ts_want) { 0, INFINITY };
    for (; ts_tree_more_must(ts_tree_function(c, NULL), i, &must); i++) {
        if (i == MOST_WAYS - 2) abort(); /* no room for the totals */
        w[i] = (ts_want) { must, 0 };
    }
    w[i++] = (ts_want) { 0, 0 };
    w[i++] = (ts_want) { 0, 0 };
    for (; i < MOST_WAYS; i++) w[i] = (ts_want) { 0, INFINITY };
}

void ts_tree_more_oracle(const ts_case *c, const ts_tree_play_args *a, ts_want *want)
{
    const int64_t R = c->dim[PROMPT] + c->dim[NODES], f = a->function;
    const int64_t each = f == TS_TREE_RESIDUAL ? 1 : R * R;
    ts_want      *seen = want + a->n_cycle * each;
    if (a->refused) {
        want_refused(c, want);
        return;
    }
    for (int64_t i = 0; i < a->n_cycle; i++, want += each) {
        int64_t accepted = 0;
        int32_t token = 0;
        row     r = row_at(c, a, i);
        if (f == TS_TREE_RESIDUAL) {
            solve(&r, &token, &accepted);
            *want = (ts_want) { token, 0 };
        }
        for (int k = 0; k < TS_MORE_SEEN; k++) seen[k] = (ts_want) { 0, 0 };
        seen[TS_MORE_ACCEPTED].value = (double)accepted;
        seen += TS_MORE_SEEN;
        for (int64_t k = 0; f != TS_TREE_RESIDUAL && k < R; k++)
            want_row(c, a->script + i * c->dim[NODES], k, f == TS_TREE_BIAS, want + k * R,
                     f == TS_TREE_MASK ? seen++ : NULL);
    }
}

static int64_t n_ways(const ts_tree_play_args *a)
{
    ts_status must;
    int64_t   n = 0;
    while (ts_tree_more_must(a->function, (int)n, &must)) n++;
    return n;
}

bool ts_tree_more_spares(const ts_tree_play_args *a, ts_flaw *f)
{
    const int64_t at = n_ways(a) + 1;
    *f = (ts_flaw) { TS_FAULT_VALUE, "seen", 0, at, a->seen[at], 0, 0 };
    return a->seen[at] == 0;
}

bool ts_tree_more_check(const ts_case *c, const ts_tree_play_args *a, const ts_want *want,
                        ts_flaw *f, ts_errors *e)
{
    const void *const out = *slot_of(a);
    ts_buf            b[MOST_OUTPUTS];
    outputs(c, b);
    /* Of spoilt calls as many are seen as there are ways. */
    if (a->refused) b[1].n_cols = b[1].row_stride = n_ways(a) + 2;
    if (!ts_check_buf(b[1], a->seen, want + b[0].n_rows * b[0].n_cols, f, e)) return false;
    return a->refused ? ts_check_untouched(b[0], out, f) : ts_check_buf(b[0], out, want, f, e);
}

double ts_tree_more_bytes(const ts_case *c)
{
    const double R = (double)(c->dim[PROMPT] + c->dim[NODES]), n = (double)n_calls(c);
    return ts_tree_function(c, NULL) == TS_TREE_RESIDUAL ? n * 16 * (double)c->dim[VOCAB]
                                                         : n * R * R;
}

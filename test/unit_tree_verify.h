/* SPDX-License-Identifier: Apache-2.0 */
/* unit_tree_verify.h - a tree, plain decoding to hold against it, and a verification with memory of
 * exactly its size. For the tests of tree verification. */
#ifndef TS_UNIT_TREE_VERIFY_H
#define TS_UNIT_TREE_VERIFY_H

#include "touchstone/tree_verify.h"
#include "unit_toy_model.h"

enum { MOST_NODES = 64, MOST_TEXT = 64, MOST_OUT = 80 };

typedef struct tree {
    int64_t n;
    int32_t token[MOST_NODES], parent[MOST_NODES];
} tree;

typedef struct verified {
    int32_t out[MOST_OUT], path[MOST_NODES];
    int64_t n_out, n_path;
    uint8_t status[MOST_NODES];
} verified;

typedef struct text {
    int64_t n;
    int32_t token[MOST_TEXT + MOST_OUT];
} text;

static inline ts_tree_verify_args verify_args(const toy *t, const text *prompt, const tree *g,
                                              int64_t max_new, double temperature, const double *u,
                                              verified *v)
{
    return (ts_tree_verify_args) {
        .d = { prompt->n, g->n, max_new, temperature },
        .model = &t->m,
        .prompt = prompt->token,
        .token = g->token,
        .parent = g->parent,
        .u = u,
        .out = v->out,
        .n_out = &v->n_out,
        .path = v->path,
        .n_path = &v->n_path,
        .status = v->status,
    };
}

static inline ts_status run_args(const ts_tree_verify_args *args, int n_threads)
{
    ts_tree_verify_args a = *args;
    ts_exec             x = { .device = where, .n_threads = n_threads };
    size_t              n = 0, n_host = 0;
    ts_status           s = ts_tree_verify_workspace(&a, &x, &n);
    assert_int_equal(ts_tree_verify_host(&a, &x, &n_host), s);
    if (s) {
        assert_int_equal(ts_tree_verify(&a, &x), s);
        return s;
    }
    const scratch memory = scratch_take(&x, n, n_host, &a.host);
    if (n_host) { /* a byte less will not do */
        a.host_bytes = n_host - 1;
        assert_int_equal(ts_tree_verify(&a, &x), TS_E_WORKSPACE);
    }
    a.host_bytes = n_host;
    s = ts_tree_verify(&a, &x);
    scratch_give(&memory);
    return s;
}

static inline verified verify(const toy *t, const text *prompt, const tree *g, int64_t max_new,
                              double temperature, const double *u)
{
    verified v;
    memset(&v, 0x80, sizeof v);
    const ts_tree_verify_args a = verify_args(t, prompt, g, max_new, temperature, u, &v);
    assert_int_equal(run_args(&a, 2), TS_OK);
    return v;
}

/* ---- plain decoding, one token at a time ---- */

static inline int32_t choice(const float *x, int64_t n, double temperature, double u)
{
    int32_t first = 0;
    double  total = 0, sum = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[first]) first = i;
    if (temperature == 0) return first;
    for (int64_t i = 0; i < n; i++) total += exp(((double)x[i] - (double)x[first]) / temperature);
    for (int32_t i = 0; i < n; i++) {
        sum += exp(((double)x[i] - (double)x[first]) / temperature) / total;
        if (sum > u) return i;
    }
    return first;
}

static inline int32_t decode_one(const toy *t, const text *s, double temperature, double u)
{
    float       *logits = malloc((size_t)t->m.n_vocab * sizeof *logits);
    const float *x = logits;
    toy_after(t, s->n, s->token, logits);
    const int32_t token = choice(x, t->m.n_vocab, temperature, u);
    free(logits);
    return token;
}

/* The next n tokens after s. */
static inline void decode(const toy *t, const text *s, int64_t n, double temperature,
                          const double *u, int32_t *out)
{
    text all = *s;
    for (int64_t i = 0; i < n; i++)
        all.token[all.n++] = out[i] = decode_one(t, &all, temperature, u ? u[i] : 0);
}

/* ---- what a verification must be, given what plain decoding says ---- */

static inline int64_t depth_of(const tree *g, int64_t i)
{
    int64_t depth = 0;
    for (; i >= 0; i = g->parent[i]) depth++;
    return depth;
}

static inline int is_ancestor(const tree *g, int64_t above, int64_t i)
{
    for (; i >= 0; i = g->parent[i])
        if (i == above) return 1;
    return 0;
}

static inline void is_right(const verified *v, const tree *g, int64_t max_new, const int32_t *plain)
{
    int64_t node = -1, n_path = 0, n_out = 0;
    uint8_t status[MOST_NODES] = { 0 };
    for (int stop = 0; n_out < max_new && !stop; n_out++) {
        int64_t taken = -1;
        for (int64_t i = 0; i < g->n; i++) {
            if (g->parent[i] != node) continue;
            const int fits = taken < 0 && g->token[i] == plain[n_out];
            status[i] = fits ? TS_NODE_ACCEPTED : TS_NODE_REJECTED;
            if (fits) taken = i;
        }
        stop = taken < 0;
        if (stop) continue;
        assert_int_equal(v->path[n_path++], taken);
        node = taken;
    }
    assert_int_equal(v->n_out, n_out);
    assert_int_equal(v->n_path, n_path);
    assert_memory_equal(v->out, plain, (size_t)n_out * sizeof *plain);
    if (g->n > 0) assert_memory_equal(v->status, status, (size_t)g->n);
    for (int64_t i = n_out; i < max_new; i++) assert_int_equal(v->out[i], -1);
    for (int64_t i = n_path; i < g->n; i++) assert_int_equal(v->path[i], -1);
}

/* What forward was given, by the rules of the contract. */
static inline void was_asked_well(const toy *t, const text *prompt, const tree *g)
{
    const int64_t n_prompt = prompt->n, n = n_prompt + g->n;
    assert_int_equal(t->n_row, n);
    assert_int_equal(t->n_want, g->n + 1);
    for (int64_t i = 0; i <= g->n; i++) assert_int_equal(t->want[i], n_prompt - 1 + i);
    for (int64_t r = 0; r < n; r++) {
        const int64_t node = r - n_prompt;
        assert_int_equal(t->token[r], node < 0 ? prompt->token[r] : g->token[node]);
        assert_int_equal(t->position[r], node < 0 ? r : n_prompt + depth_of(g, node) - 1);
        for (int64_t c = 0; c < n; c++) {
            const int sees =
                c < n_prompt ? c <= r : node >= 0 && is_ancestor(g, c - n_prompt, node);
            assert_int_equal(t->visible[r * n + c], sees);
        }
    }
}

#endif

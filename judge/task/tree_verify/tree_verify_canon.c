/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_canon.c - what holds of a cycle in which the model gave rows that are no
 * distribution.
 *
 * Up to the first such row that is visited, tokens and path are those of any other cycle. A walk
 * that goes on may then choose any tokens, but they are tokens, its path follows them through the
 * tree, and the nodes' statuses follow from the path. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tree_verify_inside.h"

/* One cycle of an output. */
typedef struct told {
    int64_t        i, n_node, max_new, n_vocab;
    const int32_t *token, *parent; /* of the tree */
    const int32_t *out, *path;
    const double  *seen, *status;
    int64_t        n_out, n_path;
} told;

static bool flaw(ts_flaw *f, const char *what, int64_t row, int64_t col, double got, double want)
{
    *f = (ts_flaw) { TS_FAULT_VALUE, what, row, col, got, want, 0 };
    return false;
}

static bool is_whole(double x, int64_t least, int64_t most)
{
    return x >= (double)least && x <= (double)most && x == floor(x);
}

/* The logits after some requested row are none: the prompt's, or a node's. */
static bool has_none(const ts_tree_play_args *a, const int32_t *cycle)
{
    const int64_t  n_prompt = *cycle, least = a->word[TS_TOY_NONFINITE];
    const int32_t *parent = cycle + 1 + n_prompt + a->n_node;
    if (!least || !a->max_new) return false;
    if (n_prompt >= least) return true;
    for (int64_t i = 0; i < a->n_node; i++) {
        int64_t depth = 0;
        for (int64_t up = i; up >= 0; up = parent[up]) depth++;
        if (n_prompt + depth >= least) return true;
    }
    return false;
}

static bool on_path(const told *o, int64_t node)
{
    for (int64_t k = 0; k < o->n_path; k++)
        if (o->path[k] == node) return true;
    return node < 0;
}

/* Tokens as far as they are known, then any; the path has nodes of these tokens, each the child of
 * the last, and stops where the tokens do, or one before. */
static bool is_walk(const told *o, const ts_tree_walk *t, ts_flaw *f)
{
    for (int64_t k = 0; k < o->max_new; k++) {
        const int32_t x = o->out[k];
        if (k < t->n_out ? x == t->out[k] : k < o->n_out ? x >= 0 && x < o->n_vocab : x == -1)
            continue;
        return flaw(f, "out", o->i, k, x, k < t->n_out ? t->out[k] : k < o->n_out ? NAN : -1);
    }
    for (int64_t k = 0; k < o->n_node; k++) {
        const int32_t x = o->path[k], last = k ? o->path[k - 1] : -1;
        if (k < t->n_path ? x == t->path[k]
            : k < o->n_path
                ? x >= 0 && x < o->n_node && o->parent[x] == last && o->token[x] == o->out[k]
                : x == -1)
            continue;
        return flaw(f, "path", o->i, k, x, k < t->n_path ? t->path[k] : k < o->n_path ? NAN : -1);
    }
    return true;
}

static bool has_statuses(const told *o, const ts_tree_walk *t, ts_flaw *f)
{
    for (int64_t k = 0; k < o->n_node; k++) {
        const double got = o->status[k];
        const bool   path = on_path(o, k), free = t->status[k] == TS_NODE_UNREACHED;
        if (path ? got == TS_NODE_ACCEPTED
            : !free
                ? got == t->status[k]
                : got == TS_NODE_UNREACHED || (got == TS_NODE_REJECTED && on_path(o, o->parent[k])))
            continue;
        return flaw(f, "seen", o->i, TS_TREE_SEEN + k, got, path ? TS_NODE_ACCEPTED : t->status[k]);
    }
    return true;
}

static bool goes_on(told *o, const ts_tree_walk *t, ts_flaw *f)
{
    const double n_out = o->seen[TS_TREE_N_OUT], n_path = o->seen[TS_TREE_N_PATH];
    if (!is_whole(n_out, t->n_out, o->max_new))
        return flaw(f, "seen", o->i, TS_TREE_N_OUT, n_out, (double)t->n_out);
    o->n_out = (int64_t)n_out;
    if (!is_whole(n_path, o->n_out > t->n_path ? o->n_out - 1 : t->n_path,
                  o->n_out < o->n_node ? o->n_out : o->n_node))
        return flaw(f, "seen", o->i, TS_TREE_N_PATH, n_path, (double)t->n_path);
    o->n_path = (int64_t)n_path;
    return is_walk(o, t, f) && has_statuses(o, t, f);
}

static void lift(ts_want *w, int64_t n)
{
    for (int64_t i = 0; i < n; i++) w[i].bound = INFINITY;
}

bool ts_tree_excuse(const ts_tree_play_args *a, int64_t i, const int32_t *cycle,
                    const ts_tree_walk *t, ts_want *out, ts_want *path, ts_want *seen, ts_flaw *f)
{
    const int64_t       N = a->n_node, M = a->max_new;
    const double *const got = a->seen + i * (TS_TREE_SEEN + N);
    const int32_t      *token = cycle + 1 + *cycle;
    const bool          ends = got[TS_TREE_STATUS] == TS_E_MODEL;
    told                o = { .i = i,
                              .n_node = N,
                              .max_new = M,
                              .n_vocab = a->n_vocab,
                              .token = token,
                              .parent = token + N,
                              .out = a->out + i * M,
                              .path = a->path + i * N,
                              .seen = got,
                              .status = got + TS_TREE_SEEN };
    if (ends ? !has_none(a, cycle) : !t->nonfinite) return true; /* as any other */
    if (!ends && !goes_on(&o, t, f)) return false;
    lift(out, M), lift(path, N);
    lift(&seen[TS_TREE_STATUS], 1), lift(&seen[TS_TREE_N_OUT], 1), lift(&seen[TS_TREE_N_PATH], 1);
    lift(&seen[TS_TREE_WROTE], 1), lift(seen + TS_TREE_SEEN, N);
    return true;
}

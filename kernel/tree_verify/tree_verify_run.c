/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_run.c - one pass of the model, then the walk. Nothing is written before the walk is
 * over: any row on it may turn out to be sick. */
#include <string.h>

#include "scratch.h"
#include "tree_verify_impl.h"

typedef struct walk {
    int64_t        *position, *want; /* [rows], [n_node + 1] */
    int32_t        *token;           /* [rows] */
    uint8_t        *visible;         /* [rows][rows] */
    float          *logits;          /* [n_node + 1][n_vocab]: after the prompt, after each node */
    int32_t        *path;            /* [n_node] */
    uint8_t        *visited;         /* [n_node + 1], in the order of logits */
    ts_tree_chooser c;
    int64_t         n_path, n_out;
    int32_t         last; /* the token that left the path, or was the max_new-th */
} walk;

/* Lays the walk out from base on, or, where that is NULL, says how much it takes. */
static ts_status lay_out(walk *w, const ts_tree_verify_args *a, const ts_exec *x, char *base,
                         size_t *n_bytes)
{
    const int64_t n_vocab = a->model->n_vocab, n_row = a->d.prompt_len + a->d.n_node;
    const int64_t n_want = a->d.n_node + 1;
    size_t        used = 0, inner;
    *n_bytes = 0;
    if (a->d.max_new == 0) return TS_OK;
    const ts_status s = ts_tree_choose_workspace(n_vocab, x, &inner);
    if (s) return s;
    w->position = ts_cut(base, &used, n_row, sizeof *w->position);
    w->want = ts_cut(base, &used, n_want, sizeof *w->want);
    w->token = ts_cut(base, &used, n_row, sizeof *w->token);
    w->visible = ts_cut(base, &used, n_row * n_row, 1);
    w->logits = ts_cut(base, &used, n_want * n_vocab, sizeof *w->logits);
    w->path = ts_cut(base, &used, a->d.n_node, sizeof *w->path);
    w->visited = ts_cut(base, &used, n_want, 1);
    w->c = (ts_tree_chooser) { n_vocab, a->d.temperature, NULL, *x };
    w->c.sum = ts_cut(base, &used, (n_vocab + TS_TREE_PIECE - 1) / TS_TREE_PIECE, sizeof *w->c.sum);
    w->c.inner.workspace = ts_cut(base, &used, (int64_t)inner, 1);
    w->c.inner.workspace_bytes = inner;
    *n_bytes = used + TS_LINE;
    return TS_OK;
}

ts_status ts_tree_verify_any_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    walk w;
    return lay_out(&w, args, x, NULL, n_bytes);
}

/* Logits are wanted of the last prompt token and of every node: what follows a node is said at its
 * own row, and what it should have been at its parent's. */
static ts_status pass(walk *w, const ts_tree_verify_args *a)
{
    const int64_t n_prompt = a->d.prompt_len, n_node = a->d.n_node;
    memcpy(w->token, a->prompt, (size_t)n_prompt * sizeof *w->token);
    if (n_node > 0) memcpy(w->token + n_prompt, a->token, (size_t)n_node * sizeof *w->token);
    for (int64_t i = 0; i <= n_node; i++) w->want[i] = n_prompt - 1 + i;
    ts_tree_fill(&a->d, a->parent, w->visible, w->position);
    return a->model->forward(a->model->self, n_prompt + n_node, w->token, w->position, w->visible,
                             n_node + 1, w->want, w->logits)
               ? TS_E_MODEL
               : TS_OK;
}

/* The first child of `node` (-1: the prompt) that carries `token`, or -1. */
static int64_t find_child(const ts_tree_verify_args *a, int64_t node, int32_t token)
{
    for (int64_t i = node + 1; i < a->d.n_node; i++)
        if (a->parent[i] == node && a->token[i] == token) return i;
    return -1;
}

static ts_status go(walk *w, const ts_tree_verify_args *a, ts_tree_choose_fn choose)
{
    memset(w->visited, 0, (size_t)a->d.n_node + 1);
    for (int64_t node = -1; w->n_out < a->d.max_new;) {
        const double    u = a->d.temperature > 0 ? a->u[w->n_out] : 0;
        const ts_status s = choose(&w->c, w->logits + (node + 1) * w->c.n_vocab, u, &w->last);
        if (s) return s;
        w->visited[node + 1] = 1;
        w->n_out++;
        node = find_child(a, node, w->last);
        if (node < 0) break;
        w->path[w->n_path++] = (int32_t)node;
    }
    return TS_OK;
}

static void write_out(const walk *w, const ts_tree_verify_args *a)
{
    for (int64_t i = 0; i < a->d.max_new; i++)
        a->out[i] = i < w->n_path ? a->token[w->path[i]] : i < w->n_out ? w->last : -1;
    for (int64_t i = 0; i < a->d.n_node; i++) {
        a->path[i] = i < w->n_path ? w->path[i] : -1;
        a->status[i] =
            w->n_out > 0 && w->visited[a->parent[i] + 1] ? TS_NODE_REJECTED : TS_NODE_UNREACHED;
    }
    for (int64_t i = 0; i < w->n_path; i++) a->status[w->path[i]] = TS_NODE_ACCEPTED;
    *a->n_out = w->n_out;
    *a->n_path = w->n_path;
}

ts_status ts_tree_run(const ts_tree_verify_args *a, const ts_exec *x, ts_tree_choose_fn choose)
{
    walk      w = { 0 };
    size_t    n_bytes;
    ts_status s = TS_OK;
    if (a->d.max_new > 0) {
        s = lay_out(&w, a, x, ts_scratch(x), &n_bytes);
        if (!s) s = pass(&w, a);
        if (!s) s = go(&w, a, choose);
    }
    if (!s) write_out(&w, a);
    return s;
}

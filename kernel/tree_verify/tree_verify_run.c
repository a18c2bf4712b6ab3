/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_run.c - one pass of the model, then the walk. Nothing is written before the walk has
 * ended: any row on it may turn out to be invalid (NaN or +inf). */
#include <string.h>

#include "scratch.h"
#include "tree_verify_impl.h"

typedef struct walk {
    int64_t        *position, *want; /* [rows], [n_node + 1] */
    int32_t        *token;           /* [rows] */
    uint8_t        *visible;         /* [rows][rows] */
    int32_t        *path;            /* [n_node] */
    uint8_t        *visited;         /* [n_node + 1], in the order of logits */
    ts_tree_chooser c;               /* its rows: after the prompt, after each node */
    int64_t         n_path, n_out;
    int32_t         last; /* the token that left the path, or was the max_new-th */
} walk;

/* Contiguous: one copy transfers all of it from a device. */
static size_t take_found(ts_room *m, const ts_tree_chooser *c, ts_tree_found *f)
{
    const size_t  from = m->used;
    const int64_t n_drawn = c->temperature > 0 ? c->n_rows : 0;
    f->first = ts_take(m, c->n_rows, sizeof *f->first);
    f->prob = ts_take(m, c->n_rows, sizeof *f->prob);
    f->value = ts_take(m, 2 * n_drawn, sizeof *f->value);
    f->sum = ts_take(m, n_drawn * ts_tree_pieces(c->n_vocab), sizeof *f->sum);
    return m->used - from;
}

/* Lays the walk out. On the CPU `host` and `work` are one. */
static ts_status lay_out(walk *w, const ts_tree_verify_args *a, const ts_exec *x, ts_room *host,
                         ts_room *work)
{
    const int64_t n_vocab = a->model->n_vocab, n_row = a->d.prompt_len + a->d.n_node;
    const int64_t n_want = a->d.n_node + 1;
    size_t        inner;
    if (a->d.max_new == 0) return TS_OK;
    const ts_status s = ts_tree_choose_workspace(n_vocab, x, &inner);
    if (s) return s;
    w->position = ts_take(host, n_row, sizeof *w->position);
    w->want = ts_take(host, n_want, sizeof *w->want);
    w->token = ts_take(host, n_row, sizeof *w->token);
    w->visible = ts_take(host, n_row * n_row, 1);
    w->path = ts_take(host, a->d.n_node, sizeof *w->path);
    w->visited = ts_take(host, n_want, 1);
    w->c = (ts_tree_chooser) {
        .n_rows = n_want, .n_vocab = n_vocab, .temperature = a->d.temperature, .inner = *x
    };
    w->c.logits = ts_take(work, n_want * n_vocab, sizeof *w->c.logits);
    w->c.sum = ts_take(work, host == work ? ts_tree_pieces(n_vocab) : n_want, sizeof *w->c.sum);
    w->c.inner.workspace = ts_take(work, (int64_t)inner, 1);
    w->c.inner.workspace_bytes = inner;
    if (host == work) return TS_OK;
    w->c.n_found = take_found(host, &w->c, &w->c.found);
    (void)take_found(work, &w->c, &w->c.device);
    w->c.piece = ts_take(host, TS_TREE_PIECE, sizeof *w->c.piece);
    return TS_OK;
}

/* The memory that a walk needs, in the workspace and in addition to it. */
static ts_status count(const ts_tree_verify_args *a, const ts_exec *x, size_t *n_work,
                       size_t *n_host)
{
    walk            w;
    ts_room         host = { 0 }, work = { 0 };
    const ts_status s = lay_out(&w, a, x, x->device == TS_CPU ? &work : &host, &work);
    *n_work = work.used ? work.used + TS_LINE : 0;
    *n_host = host.used ? host.used + TS_LINE : 0;
    return s;
}

ts_status ts_tree_verify_any_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    size_t n_host;
    return count(args, x, n_bytes, &n_host);
}

ts_status ts_tree_host_bytes(const ts_tree_verify_args *a, const ts_exec *x, size_t *n_bytes)
{
    size_t n_work;
    return count(a, x, &n_work, n_bytes);
}

/* With the memory that there is. */
static ts_status begin(walk *w, const ts_tree_verify_args *a, const ts_exec *x)
{
    ts_room work = { ts_scratch(x), 0 };
    size_t  n_bytes;
    if (x->device == TS_CPU) return lay_out(w, a, x, &work, &work);
    const ts_status s = ts_tree_host_bytes(a, x, &n_bytes);
    if (s) return s;
    if (!a->host || a->host_bytes < n_bytes) return TS_E_WORKSPACE;
    ts_room host = { ts_line(a->host), 0 };
    return lay_out(w, a, x, &host, &work);
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
                             n_node + 1, w->want, w->c.logits)
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

static ts_status go(walk *w, const ts_tree_verify_args *a, const ts_tree_steps *steps)
{
    ts_status s = steps->look ? steps->look(&w->c) : TS_OK;
    memset(w->visited, 0, (size_t)a->d.n_node + 1);
    for (int64_t node = -1; !s && w->n_out < a->d.max_new;) {
        const double u = a->d.temperature > 0 ? a->u[w->n_out] : 0;
        s = steps->choose(&w->c, node + 1, u, &w->last);
        if (s) return s;
        w->visited[node + 1] = 1;
        w->n_out++;
        node = find_child(a, node, w->last);
        if (node < 0) break;
        w->path[w->n_path++] = (int32_t)node;
    }
    return s;
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

ts_status ts_tree_run(const ts_tree_verify_args *a, const ts_exec *x, const ts_tree_steps *steps)
{
    walk      w = { 0 };
    ts_status s = TS_OK;
    if (a->d.max_new > 0) {
        s = begin(&w, a, x);
        if (!s) s = pass(&w, a);
        if (!s) s = go(&w, a, steps);
    }
    if (!s) write_out(&w, a);
    return s;
}

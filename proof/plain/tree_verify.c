/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify.c - the obvious solution: the mask by walking up from every node, one pass, and one
 * walk down. */
#include "touchstone/tree_verify.h"

#include "number.h"

typedef struct state {
    float   *logits; /* [n_node + 1][n_vocab] */
    int64_t *position, *want;
    int32_t *token, *path;
    uint8_t *visible, *visited;
    int64_t  n_out, n_path;
    int32_t  last;
} state;

static size_t lay_out(const ts_tree_verify_args *a, char *base, state *s)
{
    const int64_t N = a->d.n_node, R = a->d.prompt_len + N, n_want = HOOK(n_want, N + 1);
    size_t        used = 0;
    s->logits = place(base, &used, n_want * a->model->n_vocab, sizeof *s->logits);
    s->position = place(base, &used, R, sizeof *s->position);
    s->want = place(base, &used, n_want, sizeof *s->want);
    s->token = place(base, &used, R, sizeof *s->token);
    s->path = place(base, &used, N, sizeof *s->path);
    s->visible = place(base, &used, R * R, 1);
    s->visited = place(base, &used, N + 1, 1);
    return used + ALIGN;
}

static int in_vocab(const int32_t *t, int64_t n, int64_t n_vocab)
{
    for (int64_t i = 0; i < HOOK(n_tokens, n); i++)
        if (t[i] < 0 || t[i] >= n_vocab) return 0;
    return 1;
}

static ts_status check(const ts_tree_verify_args *a)
{
    if (!a || !a->model || !a->model->forward) return TS_E_ARG;
    const ts_tree_dims *d = &a->d;
    const int64_t       V = a->model->n_vocab;
    if (!(d->temperature >= 0) || isinf(d->temperature)) return TS_E_ARG;
    if (d->prompt_len < 1 || d->n_node < 0 || d->max_new < 0 || V < 1) return TS_E_SHAPE;
    if (d->prompt_len > INT32_MAX || d->n_node > INT32_MAX - d->prompt_len) return TS_E_SHAPE;
    if (d->max_new > INT64_MAX / 1024) /* no machine has that much memory */
        return HOOK(huge, TS_E_SHAPE);
    if (V > INT32_MAX || V > INT64_MAX / 64 / (d->n_node + 1)) return TS_E_SHAPE;
    if (!a->prompt || !a->n_out || !a->n_path || (d->max_new && !a->out)) return TS_E_ARG;
    if (d->n_node && (!a->token || !a->parent || !a->path || !a->status)) return TS_E_ARG;
    if (d->temperature > 0 && d->max_new && !a->u) return TS_E_ARG;
    for (int64_t i = 0; i < HOOK(n_parents, d->n_node); i++)
        if (a->parent[i] < -1 || a->parent[i] >= i) return TS_E_ARG;
    for (int64_t i = 0; i < HOOK(n_draws, d->max_new) && d->temperature > 0; i++)
        if (!(a->u[i] >= 0 && a->u[i] < 1)) return TS_E_ARG;
    return in_vocab(a->prompt, d->prompt_len, V) && in_vocab(a->token, d->n_node, V) ? TS_OK
                                                                                     : TS_E_ARG;
}

ts_status ts_tree_verify_workspace(const ts_tree_verify_args *a, const ts_exec *x, size_t *n_bytes)
{
    state           s;
    const ts_status status = check(a);
    (void)x;
    if (!status) *n_bytes = lay_out(a, NULL, &s);
    return status;
}

static ts_status pass(const ts_tree_verify_args *a, state *s)
{
    const int64_t P = a->d.prompt_len, N = a->d.n_node, R = P + N;
    memset(s->visible, 0, (size_t)(R * R));
    for (int64_t r = 0; r < R; r++) {
        int64_t depth = 0;
        for (int64_t c = 0; c < P && c <= r; c++) s->visible[r * R + c] = 1;
        for (int64_t i = r - P; HOOK(is_node, i >= 0); i = a->parent[i], depth++)
            s->visible[r * R + P + i] = 1;
        s->token[r] = r < P ? a->prompt[r] : a->token[r - P];
        s->position[r] = r < P ? r : P + depth - 1;
    }
    for (int64_t i = 0; i <= N; i++) s->want[i] = P - 1 + i;
    HERE(pass);
    return HOOK(failed, a->model->forward(a->model->self, R, s->token, s->position, s->visible,
                                          HOOK(n_want, N + 1), s->want, s->logits))
               ? TS_E_MODEL
               : TS_OK;
}

/* -1: the row is none. */
static int32_t choose(const float *x, int64_t n, double temperature, double u)
{
    const double tau = HOOK(tau, temperature);
    int64_t      top = -1, last = 0;
    double       total = 0, sum = 0;
    for (int64_t t = 0; t < n; t++) {
        if (HOOK(nonfinite, isnan(x[t]) || x[t] == INFINITY)) return -1;
        if (x[t] != -INFINITY && (top < 0 || HOOK(above, x[t] > x[top]))) top = t;
    }
    const int64_t best = HOOK(best, top);
    if (best < 0 || HOOK(greedy, temperature == 0)) return (int32_t)best;
    HERE(draw);
    const double max = HOOK(max, (double)x[best]);
    for (int64_t t = 0; t < n; t++) total = HOOK(sum, total + exp((x[t] - max) / tau));
    for (int64_t t = 0; t < n; t++) {
        const double w = exp((x[t] - max) / tau);
        sum = HOOK(sum, sum + w);
        if (w > 0) last = t;
        if (HOOK(reached, sum > u * total)) return (int32_t)t;
    }
    return (int32_t)last;
}

static ts_status walk(const ts_tree_verify_args *a, state *s)
{
    const double tau = a->d.temperature;
    HERE(walk);
    for (int64_t node = -1, next; s->n_out < HOOK(max_new, a->d.max_new); node = next) {
        const float *x = s->logits + HOOK(row, node + 1) * a->model->n_vocab;
        const double u = tau > 0 ? a->u[HOOK(draw, s->n_out)] : 0;
        s->last = HOOK(choice, choose(x, a->model->n_vocab, tau, u));
        if (s->last < 0) return TS_E_MODEL;
        s->visited[node + 1] = 1;
        s->n_out++;
        next = -1;
        for (int64_t i = a->d.n_node - 1; i > node; i--)
            if (HOOK(child, a->parent[i] == node && a->token[i] == s->last)) next = HOOK(next, i);
        if (HOOK(ends, next < 0)) break;
        s->path[s->n_path++] = (int32_t)next;
    }
    return TS_OK;
}

ts_status ts_tree_verify(const ts_tree_verify_args *a, const ts_exec *x)
{
    state     s;
    ts_status status = check(a);
    if (status) return status;
    if (!x->workspace || x->workspace_bytes < lay_out(a, NULL, &s)) return TS_E_WORKSPACE;
    HERE(verify);
    lay_out(a, aligned(x->workspace), &s);
    s.n_out = s.n_path = 0;
    memset(s.visited, 0, (size_t)a->d.n_node + 1);
    if (HOOK(asks, a->d.max_new > 0)) status = pass(a, &s);
    if (!status) status = HOOK(walked, walk(a, &s));
    if (status) return status;
    for (int64_t i = 0; i < a->d.max_new; i++)
        a->out[i] = HOOK(out, i < s.n_path ? a->token[s.path[i]] : i < s.n_out ? s.last : -1);
    for (int64_t i = 0; i < a->d.n_node; i++) {
        a->path[i] = HOOK(path, i < s.n_path ? s.path[i] : -1);
        a->status[i] =
            HOOK(visited, s.visited[a->parent[i] + 1]) ? TS_NODE_REJECTED : TS_NODE_UNREACHED;
    }
    for (int64_t i = 0; i < s.n_path; i++) a->status[s.path[i]] = TS_NODE_ACCEPTED;
    *a->n_out = s.n_out;
    *a->n_path = s.n_path;
    HERE(answered);
    return TS_OK;
}

// SPDX-License-Identifier: Apache-2.0
// tree_verify.cu - the obvious solution on a device: the host builds the mask and walks down the
// tree, and one thread chooses a token from the row that the walk is at.
#include "number.cuh"
#include "touchstone/tree_verify.h"

// In host memory; and the logits, followed by the chosen token, in the workspace.
struct state {
    int64_t *position, *want;
    int32_t *token, *path;
    uint8_t *visible, *visited;
    float   *logits; // [n_node + 1][n_vocab]
    int32_t *chosen;
    int64_t  n_out, n_path;
    int32_t  last;
};

struct choice {
    const float *row;
    int64_t      n;
    double       temperature, u;
    int32_t     *token;
};

// -1: the row is none.
static __global__ void choose(choice c)
{
    int64_t top = -1, last = 0, t = 0;
    double  total = 0, sum = 0;
    if (item()) return;
    *c.token = -1;
    for (; t < c.n; t++) {
        const float x = c.row[t];
        if (isnan(x) || x == INFINITY) return;
        if (x != -INFINITY && (top < 0 || x > c.row[top])) top = t;
    }
    *c.token = (int32_t)top;
    if (top < 0 || c.temperature == 0) return;
    const double most = c.row[top];
    for (t = 0; t < c.n; t++) total += exp((c.row[t] - most) / c.temperature);
    for (t = 0; t < c.n; t++) {
        const double w = exp((c.row[t] - most) / c.temperature);
        sum += w;
        if (w > 0) last = t;
        if (sum > c.u * total) break;
    }
    *c.token = (int32_t)(t < c.n ? t : last);
}

static size_t lay_out(const ts_tree_verify_args *a, void *base, state *s)
{
    const int64_t N = a->d.n_node, R = a->d.prompt_len + N;
    size_t        used = 0;
    s->position = (int64_t *)place(base, &used, R, sizeof *s->position);
    s->want = (int64_t *)place(base, &used, N + 1, sizeof *s->want);
    s->token = (int32_t *)place(base, &used, R, sizeof *s->token);
    s->path = (int32_t *)place(base, &used, N, sizeof *s->path);
    s->visible = (uint8_t *)place(base, &used, R * R, 1);
    s->visited = (uint8_t *)place(base, &used, N + 1, 1);
    return used + ALIGN;
}

static size_t workspace_of(const ts_tree_verify_args *a)
{
    return ((size_t)((a->d.n_node + 1) * a->model->n_vocab) + 1) * sizeof(float);
}

static bool in_vocab(const int32_t *t, int64_t n, int64_t n_vocab)
{
    for (int64_t i = 0; i < n; i++)
        if (t[i] < 0 || t[i] >= n_vocab) return false;
    return true;
}

static ts_status check(const ts_tree_verify_args *a, const ts_exec *x)
{
    if (!a || !x || x->device != TS_CUDA || !a->model || !a->model->forward) return TS_E_ARG;
    const ts_tree_dims *d = &a->d;
    const int64_t       V = a->model->n_vocab;
    if (!(d->temperature >= 0) || isinf(d->temperature)) return TS_E_ARG;
    if (d->prompt_len < 1 || d->n_node < 0 || d->max_new < 0 || V < 1) return TS_E_SHAPE;
    if (d->prompt_len > INT32_MAX || d->n_node > INT32_MAX - d->prompt_len) return TS_E_SHAPE;
    if (d->max_new > INT64_MAX / 1024) return TS_E_SHAPE;
    if (V > INT32_MAX || V > INT64_MAX / 64 / (d->n_node + 1)) return TS_E_SHAPE;
    if (!a->prompt || !a->n_out || !a->n_path || (d->max_new && !a->out)) return TS_E_ARG;
    if (d->n_node && (!a->token || !a->parent || !a->path || !a->status)) return TS_E_ARG;
    if (d->temperature > 0 && d->max_new && !a->u) return TS_E_ARG;
    for (int64_t i = 0; i < d->n_node; i++)
        if (a->parent[i] < -1 || a->parent[i] >= i) return TS_E_ARG;
    for (int64_t i = 0; i < d->max_new && d->temperature > 0; i++)
        if (!(a->u[i] >= 0 && a->u[i] < 1)) return TS_E_ARG;
    return in_vocab(a->prompt, d->prompt_len, V) && in_vocab(a->token, d->n_node, V) ? TS_OK
                                                                                     : TS_E_ARG;
}

TS_API ts_status ts_tree_verify_workspace(const ts_tree_verify_args *a, const ts_exec *x, size_t *n)
{
    const ts_status s = n ? check(a, x) : TS_E_ARG;
    if (!s) *n = workspace_of(a);
    return s;
}

TS_API ts_status ts_tree_verify_host(const ts_tree_verify_args *a, const ts_exec *x, size_t *n)
{
    state           none;
    const ts_status s = n ? check(a, x) : TS_E_ARG;
    if (!s) *n = lay_out(a, NULL, &none);
    return s;
}

static ts_status pass(const ts_tree_verify_args *a, state *s)
{
    const int64_t P = a->d.prompt_len, N = a->d.n_node, R = P + N;
    memset(s->visible, 0, (size_t)(R * R));
    for (int64_t r = 0; r < R; r++) {
        int64_t depth = 0;
        for (int64_t c = 0; c < P && c <= r; c++) s->visible[r * R + c] = 1;
        for (int64_t i = r - P; i >= 0; i = a->parent[i], depth++) s->visible[r * R + P + i] = 1;
        s->token[r] = r < P ? a->prompt[r] : a->token[r - P];
        s->position[r] = r < P ? r : P + depth - 1;
    }
    for (int64_t i = 0; i <= N; i++) s->want[i] = P - 1 + i;
    return a->model->forward(a->model->self, R, s->token, s->position, s->visible, N + 1, s->want,
                             s->logits)
               ? TS_E_MODEL
               : TS_OK;
}

static ts_status choose_from(const ts_tree_verify_args *a, state *s, int64_t row, const ts_exec *x)
{
    const int64_t      V = a->model->n_vocab;
    const cudaStream_t stream = (cudaStream_t)x->stream;
    const choice       c = { s->logits + row * V, V, a->d.temperature,
                       a->d.temperature > 0 ? a->u[s->n_out] : 0, s->chosen };
    const ts_status    status = launch(choose, c, 1, x);
    if (status) return status;
    if (cudaMemcpyAsync(&s->last, s->chosen, sizeof s->last, cudaMemcpyDeviceToHost, stream) ||
        cudaStreamSynchronize(stream))
        return TS_E_DEVICE;
    return s->last < 0 ? TS_E_MODEL : TS_OK;
}

static ts_status walk(const ts_tree_verify_args *a, state *s, const ts_exec *x)
{
    for (int64_t row = 0; s->n_out < a->d.max_new;) {
        const ts_status status = choose_from(a, s, row, x);
        int64_t         i = 0;
        if (status) return status;
        s->visited[row] = 1;
        s->n_out++;
        while (i < a->d.n_node && !(a->parent[i] == row - 1 && a->token[i] == s->last)) i++;
        if (i == a->d.n_node) break;
        s->path[s->n_path++] = (int32_t)i;
        row = i + 1;
    }
    return TS_OK;
}

TS_API ts_status ts_tree_verify(const ts_tree_verify_args *a, const ts_exec *x)
{
    state     s = {};
    ts_status status = check(a, x);
    if (status) return status;
    if (!x->workspace || x->workspace_bytes < workspace_of(a)) return TS_E_WORKSPACE;
    if (!a->host || a->host_bytes < lay_out(a, NULL, &s)) return TS_E_WORKSPACE;
    lay_out(a, aligned(a->host), &s);
    s.logits = (float *)x->workspace;
    s.chosen = (int32_t *)(s.logits + (a->d.n_node + 1) * a->model->n_vocab);
    memset(s.visited, 0, (size_t)a->d.n_node + 1);
    if (a->d.max_new > 0) status = pass(a, &s);
    if (!status) status = walk(a, &s, x);
    if (status) return status;
    for (int64_t i = 0; i < a->d.max_new; i++)
        a->out[i] = i < s.n_path ? a->token[s.path[i]] : i < s.n_out ? s.last : -1;
    for (int64_t i = 0; i < a->d.n_node; i++) {
        a->path[i] = i < s.n_path ? s.path[i] : -1;
        a->status[i] = s.visited[a->parent[i] + 1] ? TS_NODE_REJECTED : TS_NODE_UNREACHED;
    }
    for (int64_t i = 0; i < s.n_path; i++) a->status[s.path[i]] = TS_NODE_ACCEPTED;
    *a->n_out = s.n_out;
    *a->n_path = s.n_path;
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify.c - one honest verification with one trap to fall into; tree_verify_list.h has the
 * mutants. */
#include "tree_verify.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "mutant.h"
#include "tree_verify_list.h"

#define NAME(trap, name, fault, family) trap,
typedef enum trap { MUTANTS(NAME) N_TRAPS } trap;
static trap now;

typedef struct state {
    const ts_tree_verify_args *a;
    int64_t                    P, N, R, V, n_want;
    int32_t                   *token, *path, *out;
    int64_t                   *position, *want, *depth;
    uint8_t                   *visible, *visited, *accepted;
    float                     *logits;
    int64_t                    n_path, n_out;
} state;

/* ---- memory and the door ---- */

static void *take(char *base, size_t *used, int64_t n, size_t each)
{
    void *const p = base ? base + *used : NULL;
    *used += ((size_t)n * each + 15) / 16 * 16;
    return p;
}

static size_t lay_out(state *s, const ts_tree_verify_args *a, char *base)
{
    size_t used = 0;
    *s = (state) { .a = a, .P = a->d.prompt_len, .N = a->d.n_node, .V = a->model->n_vocab };
    s->R = s->P + s->N;
    s->token = take(base, &used, s->R + 1, sizeof *s->token);
    s->path = take(base, &used, s->N, sizeof *s->path);
    s->out = take(base, &used, 2 * (s->N + 2), sizeof *s->out);
    s->position = take(base, &used, s->R, sizeof *s->position);
    s->want = take(base, &used, s->R, sizeof *s->want);
    s->depth = take(base, &used, s->N, sizeof *s->depth);
    s->visible = take(base, &used, s->R * s->R, 1);
    s->visited = take(base, &used, s->N + 1, 1);
    s->accepted = take(base, &used, s->N + 1, 1);
    const int64_t rows = now == ALL_ROWS ? s->R : s->N + 1;
    s->logits = take(base, &used, rows * s->V, sizeof *s->logits);
    return used + 16;
}

static bool are_tokens(const int32_t *t, int64_t n, int64_t n_vocab)
{
    for (int64_t i = 0; i < n && now != ANY_TOKEN; i++)
        if (t[i] < 0 || t[i] >= n_vocab) return false;
    return true;
}

static ts_status check(const ts_tree_verify_args *a)
{
    if (!a->model || !a->model->forward) return TS_E_ARG;
    const ts_tree_dims *d = &a->d;
    const int64_t       V = a->model->n_vocab;
    if (!(d->temperature >= 0) || isinf(d->temperature)) return TS_E_ARG;
    if (d->prompt_len < 1 || d->n_node < 0 || d->max_new < 0 || V < 1) return TS_E_SHAPE;
    if (d->prompt_len > INT32_MAX || d->n_node > INT32_MAX - d->prompt_len || V > INT32_MAX)
        return TS_E_SHAPE;
    if (d->max_new > INT64_MAX / 8) return now == HUGE_MAX_NEW ? TS_OK : TS_E_SHAPE;
    if (!a->prompt || !a->n_out || !a->n_path || (d->max_new && !a->out)) return TS_E_ARG;
    if (d->n_node && (!a->token || !a->parent || !a->path || !a->status)) return TS_E_ARG;
    if (d->temperature > 0 && d->max_new && !a->u) return TS_E_ARG;
    for (int64_t i = 0; i < d->n_node && now != ANY_ORDER; i++)
        if (a->parent[i] < -1 || a->parent[i] >= i) return TS_E_ARG;
    for (int64_t i = 0; i < d->max_new && d->temperature > 0 && now != ANY_DRAW; i++)
        if (!(a->u[i] >= 0 && a->u[i] < 1)) return TS_E_ARG;
    if (!are_tokens(a->prompt, d->prompt_len, V)) return TS_E_ARG;
    return are_tokens(a->token, d->n_node, V) ? TS_OK : TS_E_ARG;
}

/* ---- the pass ---- */

static bool sees(const state *s, int64_t r, int64_t c)
{
    const int64_t node = r - s->P;
    if (now == CAUSAL) return c <= r;
    if (node < 0) return c <= r || (now == PROMPT_SEES && c >= s->P && r < s->P - 1);
    if (c < s->P) return now != NO_PROMPT;
    int64_t left = s->N; /* a tree that is none has no end */
    for (int64_t i = node; i >= 0 && left-- > 0; i = s->a->parent[i]) {
        if (i == c - s->P) return i != node || now != NOT_ITSELF;
        if (now == PARENT_ONLY && i != node) return false;
    }
    return false;
}

static void fill(state *s)
{
    const ts_tree_verify_args *a = s->a;
    for (int64_t i = 0; i < s->N; i++)
        s->depth[i] = a->parent[i] < 0 ? 1 : s->depth[a->parent[i]] + 1;
    for (int64_t r = 0; r < s->R; r++) {
        const int64_t node = r - s->P;
        s->token[r] = node < 0 ? a->prompt[r] : a->token[node];
        s->position[r] =
            node < 0 || now == BY_INDEX ? r : s->P + s->depth[node] - 1 - (now == DEPTH_FROM_0);
        for (int64_t c = 0; c < s->R; c++)
            s->visible[r * s->R + c] = now == TRANSPOSED ? sees(s, c, r) : sees(s, r, c);
    }
    s->n_want = s->N + 1;
    for (int64_t i = 0; i <= s->N; i++) s->want[i] = s->P - 1 + i;
    if (now == NO_ROOT_ROW && s->N) s->want[0] = s->P;
    if (now == ALL_ROWS)
        for (int64_t i = s->N + 1; i < s->R; i++) s->want[s->n_want++] = i - s->N - 1;
}

static int ask(state *s)
{
    const ts_model *m = s->a->model;
    return m->forward(m->self, s->R, s->token, s->position, s->visible, s->n_want, s->want,
                      s->logits);
}

/* ---- the choice ---- */

static bool is_row(const state *s, const float *x)
{
    float max = -INFINITY;
    for (int64_t t = 0; t < s->V; t++) {
        if (isnan(x[t]) && now != NAN_PASSES) return false;
        if (x[t] == INFINITY && now != INF_PASSES) return false;
        if (x[t] > max) max = x[t];
    }
    return max != -INFINITY || now == NONE_PASSES;
}

static int32_t choose(const state *s, const float *x)
{
    const double u = s->a->d.temperature > 0 ? s->a->u[now == ONE_DRAW ? 0 : s->n_out] : 0;
    const double tau = now == HOT_TWICE ? 1 / s->a->d.temperature : s->a->d.temperature;
    int64_t      best = 0;
    double       total = 0, sum = 0;
    for (int64_t t = 0; t < s->V; t++)
        if (x[t] > x[best] || (now == LAST_OF_EQUALS && x[t] == x[best])) best = t;
    if (s->a->d.temperature == 0 || now == COLD) return (int32_t)best;
    if (now == TAU_LEAST && s->a->d.temperature < 0.05) return (int32_t)best;
    for (int64_t t = 0; t < s->V; t++) {
        total += exp(((double)x[t] - x[best]) / tau);
        if (now == COARSE) total = ldexp(rint(ldexp(total, 10)), -10);
    }
    for (int64_t t = 0; t < s->V; t++) {
        sum += exp(((double)x[t] - x[best]) / tau);
        if (now == COARSE) sum = ldexp(rint(ldexp(sum, 10)), -10);
        if (sum > u * total || (now == FIRST_AT_0 && sum >= u * total)) return (int32_t)t;
    }
    return (int32_t)s->V - 1;
}

/* Which row of logits speaks for what follows `node`. */
static const float *row_after(const state *s, int64_t node)
{
    int64_t row = node + 1;
    if (now == BY_DEPTH) row = s->n_out < s->N ? s->n_out : s->N;
    return s->logits + row * s->V;
}

/* Asks the model about the string that stands here, and no tree. */
static bool choose_plain(state *s, int64_t node, int32_t *t)
{
    const ts_model *m = s->a->model;
    int64_t         len = s->P + (node < 0 ? 0 : s->depth[node]);
    const int32_t  *string = s->token;
    int32_t        *at = s->token + len;
    for (int64_t i = node; i >= 0; i = s->a->parent[i]) *--at = s->a->token[i];
    if (m->next(m->self, 1, &len, &string, s->logits)) return false;
    *t = choose(s, s->logits);
    return true;
}

/* ---- the walk ---- */

static int64_t find_child(const state *s, int64_t node, int32_t t)
{
    const ts_tree_verify_args *a = s->a;
    int64_t                    found = -1;
    for (int64_t i = 0; i < s->N; i++) {
        const bool under = now == ANY_NODE && s->n_out > 1 ? i > node : a->parent[i] == node;
        if (!under || (now == NODES_64 && i >= 64)) continue;
        if (now == AT_NODE) t = choose(s, s->logits + (i + 1) * s->V);
        if (a->token[i] == t && (found < 0 || now == LAST_TWIN)) found = i;
        if (now == FIRST_SIBLING) return found;
    }
    return found;
}

/* BY_CHAIN: node after node in the order of numbers, each against the row before it. */
static void walk_chain(state *s)
{
    for (int64_t i = 0; i <= s->N && s->n_out < s->a->d.max_new; i++) {
        const int32_t t = choose(s, s->logits + i * s->V);
        s->visited[i] = 1;
        s->out[s->n_out++] = t;
        if (i == s->N || s->a->token[i] != t) return;
        s->path[s->n_path++] = (int32_t)i;
        s->accepted[i] = 1;
    }
}

static ts_status walk(state *s)
{
    const int64_t most = s->a->d.max_new + (now == OVERSHOOT ? s->N : 0);
    for (int64_t node = -1, next; s->n_out < most && s->n_out <= s->N; node = next) {
        const float *x = row_after(s, node);
        int32_t      t = 0;
        if (now != PLAIN_INSIDE && now != SICK_PASSES && !is_row(s, x)) return TS_E_MODEL;
        if (now != PLAIN_INSIDE) t = choose(s, x);
        else if (!choose_plain(s, node, &t)) return TS_E_MODEL;
        s->visited[node + 1] = 1;
        next = find_child(s, node, t);
        if (next < 0 && now == NO_BONUS && s->n_out) break;
        s->out[s->n_out++] = t;
        if (next < 0) break;
        if (now == RE_EMITS && find_child(s, node, t) > 0 && s->a->parent[next - 1] == node &&
            s->n_out < s->a->d.max_new)
            s->out[s->n_out++] = t; /* once for the refused sibling before it */
        s->accepted[next] = 1;
        s->path[s->n_path++] = (int32_t)next;
        for (int64_t i = next + 1; i < s->N && now == BOTH_TWINS; i++)
            if (s->a->parent[i] == node && s->a->token[i] == t) s->accepted[i] = 1;
    }
    if (now == TWICE && s->n_out > 0 && s->n_out < s->a->d.max_new && s->n_out <= s->N) {
        s->out[s->n_out] = s->out[s->n_out - 1];
        s->n_out++;
    }
    return TS_OK;
}

/* ---- the answer ---- */

static void answer(const state *s)
{
    const ts_tree_verify_args *a = s->a;
    for (int64_t i = 0; i < a->d.max_new; i++) a->out[i] = i < s->n_out ? s->out[i] : -1;
    for (int64_t i = 0; i < s->N; i++) {
        const bool twin = now == TWIN_STATUS && s->n_path && !s->accepted[i];
        uint8_t    status = TS_NODE_UNREACHED;
        if (s->visited[a->parent[i] + 1] || now == ALL_REJECTED) status = TS_NODE_REJECTED;
        for (int64_t k = 0; k < i && twin; k++)
            if (s->accepted[k] && a->parent[k] == a->parent[i] && a->token[k] == a->token[i])
                status = TS_NODE_UNREACHED;
        a->status[i] = s->accepted[i] ? TS_NODE_ACCEPTED : status;
        if (i < s->n_path) a->path[i] = s->path[i];
        else if (now != PATH_TAIL) a->path[i] = -1;
    }
    *a->n_out = s->n_out;
    *a->n_path = s->n_path;
}

static ts_status verify(const void *args, const ts_exec *x)
{
    const ts_tree_verify_args *a = args;
    state                      s;
    ts_status                  status = check(a);
    if (status) return status;
    if (x->device != TS_CPU) return TS_E_UNSUPPORTED;
    if (now == EMPTY_TREE && !a->d.n_node) return TS_E_SHAPE;
    if (!x->workspace || x->workspace_bytes < lay_out(&s, a, NULL)) return TS_E_WORKSPACE;
    lay_out(&s, a, (char *)x->workspace + (16 - (uintptr_t)x->workspace % 16));
    memset(s.visited, 0, (size_t)s.N + 1);
    memset(s.accepted, 0, (size_t)s.N + 1);
    if (a->d.max_new > 0 || now == ASKS_FOR_NOTHING) {
        fill(&s);
        if (now == WRITES_FIRST) answer(&s);
        if (now != PLAIN_INSIDE && ask(&s) && now != FAILURE_PASSES) return TS_E_MODEL;
        if (now == TWO_PASSES && ask(&s)) return TS_E_MODEL;
        for (int64_t i = 0; i <= s.N && now == SICK_ANYWHERE; i++)
            if (!is_row(&s, s.logits + i * s.V)) return TS_E_MODEL;
        if (now == BY_CHAIN) walk_chain(&s);
        else status = walk(&s);
    }
    if (status) return status;
    if (now == BY_THREADS && x->n_threads != 1 && s.N) s.visited[a->parent[s.N - 1] + 1] ^= 1;
    answer(&s);
    return TS_OK;
}

#define STEM  tree_verify
#define PLAY  ts_tree_play
#define ENTRY verify
#include "played.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify.c - mutants of tree_verify: one correct verification with one injected bug at a time.
 * tree_verify_list.h lists them. */
#include "tree_verify_script.h"

#include <float.h>
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

/* ---- memory and API entry point ---- */

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
    if (c < s->P) return now == PROMPT_128 ? c < 128 : now != NO_PROMPT;
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
        if (x[t] > x[best] || (now == LAST_OF_EQUALS && x[t] == x[best]) ||
            (now == MINUS_ZERO && x[t] == 0 && x[best] == 0 && !signbit(x[t]) && signbit(x[best])))
            best = t;
    if (now == FROM_MINUS_1E9 && x[best] < -1e9F) best = 0;
    if (s->a->d.temperature == 0 || now == COLD) return (int32_t)best;
    if (now == TAU_LEAST && s->a->d.temperature < 0.05) return (int32_t)best;
    if (now == TAU_1E_3 && s->a->d.temperature < 1e-3) return (int32_t)best;
    if (now == LAST_AT_1 && u > 0.9999) return (int32_t)s->V - 1;
    const double top = now == NO_MAX ? 0 : x[best];
    for (int64_t t = 0; t < s->V; t++) {
        total += exp((x[t] - top) / tau);
        if (now == COARSE) total = ldexp(rint(ldexp(total, 10)), -10);
    }
    for (int64_t t = 0; t < s->V; t++) {
        sum += exp((x[t] - top) / tau);
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

/* Calls the model with this string, without a tree. */
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
        if (now == SIBLINGS_128 && i - node > 128) continue;
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
        if (now != PLAIN_INSIDE && now != NONFINITE_PASSES && !is_row(s, x)) return TS_E_MODEL;
        if (now != PLAIN_INSIDE) t = choose(s, x);
        else if (!choose_plain(s, node, &t)) return TS_E_MODEL;
        s->visited[node + 1] = 1;
        next = find_child(s, node, t);
        if (next < 0 && now == NO_BONUS && s->n_out) break;
        s->out[s->n_out++] = now == TOKENS_16 ? (uint16_t)t : t;
        if (next < 0 || (now == DEEP_32 && s->n_path == 32)) break;
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
        for (int64_t i = 0; i <= s.N && now == NONFINITE_ANYWHERE; i++)
            if (!is_row(&s, s.logits + i * s.V)) return TS_E_MODEL;
        if (now == BY_CHAIN) walk_chain(&s);
        else status = walk(&s);
    }
    if (status) return status;
    if (now == BY_THREADS && x->n_threads != 1 && s.N) s.visited[a->parent[s.N - 1] + 1] ^= 1;
    answer(&s);
    return TS_OK;
}

static ts_status workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    state           s;
    const ts_status status = check(args);
    (void)x;
    if (!status) *n_bytes = lay_out(&s, args, NULL);
    return status;
}

/* ---- masks and biases ---- */

static ts_status check_tree(const ts_tree_dims *d, const int32_t *parent)
{
    const bool any = now == MASK_ORDER || now == BIAS_ORDER;
    if (!(d->temperature >= 0) || isinf(d->temperature)) return TS_E_ARG;
    if (d->prompt_len < 1 || d->n_node < 0 || d->max_new < 0) return TS_E_SHAPE;
    if (d->max_new > INT64_MAX / 8 && now != MASK_HUGE) return TS_E_SHAPE;
    if (d->prompt_len + d->n_node > INT32_MAX) return TS_E_SHAPE;
    if (d->n_node && !parent) return TS_E_ARG;
    for (int64_t i = 0; i < d->n_node; i++)
        if (parent[i] < -1 || (parent[i] >= i && !any)) return TS_E_ARG;
    return TS_OK;
}

/* How far below node i, or 0: it is it, its ancestor k is; -1: k is none. */
static int64_t below(const int32_t *parent, int64_t i, int64_t k)
{
    int64_t n = 0;
    while (i > k && n < TS_TREE_MOST) i = parent[i], n++; /* what is no tree has no end */
    return i == k ? n : -1;
}

static bool sees_row(const ts_tree_dims *d, const int32_t *parent, int64_t r, int64_t c)
{
    const int64_t node = r - d->prompt_len, k = c - d->prompt_len;
    const bool    last = now == MASK_LAST_PROMPT && k == -1 && node >= 0;
    if (now == BIAS_CAUSAL) return c <= r;
    if (node < 0 || k < 0) return c <= r && k < 0 && !last;
    const int64_t n = below(parent, node, k);
    if ((now == MASK_64 || now == BIAS_64) && k >= 64) return false;
    if ((now == MASK_SIBLINGS || now == BIAS_SIBLINGS) && k < node && parent[k] == parent[node])
        return true;
    if (now == MASK_ONE_SHORT && n > 0 && parent[k] < 0) return false;
    if (now == BIAS_PARENT && n > 1) return false;
    return n >= (now == MASK_NOT_ITSELF);
}

static ts_status mask(const void *args, const ts_exec *x)
{
    const ts_tree_mask_args *a = args;
    if (!a || !x || !a->visible || !a->position) return TS_E_ARG;
    if (now == MASK_FIRST) a->visible[0] = 1;
    const ts_status s = check_tree(&a->d, a->parent);
    if (s) return s;
    const int64_t P = a->d.prompt_len, R = P + a->d.n_node;
    for (int64_t r = 0; r < R; r++) {
        a->position[r] = r < P || now == MASK_INDEX ? r : P - (now == MASK_DEPTH_0);
        for (int64_t i = r - P; now != MASK_INDEX && i >= 0 && a->parent[i] >= 0; i = a->parent[i])
            if (++a->position[r] > R) break;
        for (int64_t c = 0; c < (now == MASK_LOWER ? r + 1 : R); c++)
            a->visible[r * R + c] = now == MASK_TRANSPOSED ? sees_row(&a->d, a->parent, c, r)
                                                           : sees_row(&a->d, a->parent, r, c);
    }
    return TS_OK;
}

static ts_status bias(const void *args, const ts_exec *x)
{
    const ts_tree_bias_args *a = args;
    if (!a || !x || !a->bias) return TS_E_ARG;
    const ts_status s = check_tree(&a->d, a->parent);
    if (s) return s;
    const int64_t R = a->d.prompt_len + a->d.n_node;
    const float   hidden = now == BIAS_FINITE ? -1e9F : now == BIAS_MAX ? -FLT_MAX : -INFINITY;
    for (int64_t r = 0; r < R; r++)
        for (int64_t c = 0; c < R; c++) {
            const bool seen = sees_row(&a->d, a->parent, r, c) != (now == BIAS_INVERTED);
            a->bias[r * R + c] = seen ? now == BIAS_ONE : hidden;
        }
    return TS_OK;
}

/* ---- residuals ---- */

static ts_status check_law(const double *p, int64_t n, double *sum)
{
    *sum = 0;
    for (int64_t i = 0; p && i < n; i++) {
        if (!(p[i] >= 0) && now != RES_ANY_LAW) return TS_E_ARG;
        *sum += p[i];
    }
    return p && (now == RES_ANY_LAW || (*sum > 0 && !isinf(*sum))) ? TS_OK : TS_E_ARG;
}

static ts_status check_residual(const ts_tree_residual_args *a, double *p_sum, double *q_sum)
{
    if (a->n_vocab < 1 || a->n_vocab > INT32_MAX || a->n_child < 0) return TS_E_SHAPE;
    if (a->n_child > INT64_MAX / 16 && now != RES_HUGE) return TS_E_SHAPE;
    if (!a->u || !a->token || !a->accepted || (a->n_child && !a->child)) return TS_E_ARG;
    ts_status s = check_law(a->p, a->n_vocab, p_sum);
    if (!s && (a->n_child || now == RES_NULL_Q)) s = check_law(a->q, a->n_vocab, q_sum);
    for (int64_t j = 0; !s && j <= a->n_child; j++)
        if (!(a->u[j] >= 0 && a->u[j] < 1)) s = TS_E_ARG;
    for (int64_t j = 0; !s && j < a->n_child; j++)
        if (a->child[j] < 0 || a->child[j] >= a->n_vocab || !(a->q[a->child[j]] > 0)) s = TS_E_ARG;
    if (now == RES_SUMS) *p_sum = *q_sum = 1;
    return s;
}

/* p as it is after `refused` children; its sum is *sum. */
static double weight(const ts_tree_residual_args *a, const double *factor, const double *less,
                     int64_t refused, int64_t i)
{
    double p = a->p[i] * factor[0];
    if (now == RES_FLOAT) p = (float)p;
    for (int64_t j = 0; j < refused; j++) {
        p -= a->q[i] * less[0];
        if (p < 0 && now != RES_SIGNED) p = 0;
        p *= factor[1 + j];
    }
    return p;
}

static ts_status residual(const void *args, const ts_exec *x)
{
    static double                factor[TS_TREE_MOST + 2];
    const ts_tree_residual_args *a = args;
    double                       p_sum = 1, q_sum = 1, total = 0, sum = 0;
    int64_t                      refused = 0, i = 0;
    if (!a || !x) return TS_E_ARG;
    const ts_status s = check_residual(a, &p_sum, &q_sum);
    if (s) return s;
    const double less = 1 / q_sum;
    factor[0] = 1 / p_sum;
    for (int64_t j = 0; j < a->n_child; j++) {
        const int32_t c = a->child[j];
        const double  p = weight(a, factor, &less, refused, c), q = a->q[c] / q_sum;
        const double  u = a->u[now == RES_SAME_U ? 0 : j];
        const bool    again = now == RES_TWINS && j && c == a->child[j - 1];
        const bool yes = now == RES_RATIO ? u * p < q : now == RES_AT_MOST ? u * q <= p : u * q < p;
        if (again) continue;
        if (yes) {
            *a->token = c;
            *a->accepted = now == RES_TOKEN ? c : j;
            return TS_OK;
        }
        if (now == RES_KEPT || (now == RES_ONCE && refused)) continue;
        if (now == RES_FIRST_P) refused = 0;
        factor[1 + refused] = 1;
        total = 0;
        for (int64_t k = 0; k < a->n_vocab; k++) total += weight(a, factor, &less, refused + 1, k);
        if (!(total > 0x1p-100)) continue;
        if (now != RES_PLAIN) factor[1 + refused] = 1 / total;
        refused++;
    }
    total = 0;
    for (int64_t k = 0; k < a->n_vocab; k++) total += weight(a, factor, &less, refused, k);
    const double u = a->u[now == RES_LAST_U ? 0 : a->n_child] * total;
    for (; i < a->n_vocab - 1; i++) {
        sum += weight(a, factor, &less, refused, i);
        if (sum > u || (now == RES_ZERO && sum >= u)) break;
    }
    *a->token = (int32_t)i;
    *a->accepted = -1;
    return TS_OK;
}

static const ts_tree_table table = { verify, mask, bias, residual, workspace };

#define STEM  tree_verify
#define TABLE ts_tree_table
#include "played.h"

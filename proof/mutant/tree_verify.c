/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify.c - mutants of tree_verify: the solution of proof/plain/, and masks, biases and
 * residuals, which it lacks, with one injected bug at a time. tree_verify_list.h lists them. */
#include "tree_verify_script.h"

#include <float.h>
#include <stdbool.h>

#include "mutant.h"
#include "tree_verify_list.h"

typedef enum trap { MUTANTS(TRAP) N_TRAPS } trap;
static trap now;

#include "plain/number.h"

/* ---- the pass ---- */

struct state;
static void      spoil_pass(const ts_tree_verify_args *a, struct state *s);
static ts_status other_walk(const ts_tree_verify_args *a, struct state *s, const ts_exec *x);
static ts_status walk_chain(const ts_tree_verify_args *a, struct state *s);
static int32_t choose_plain(const ts_tree_verify_args *a, struct state *s, int64_t node, double u);
static bool is_child(const ts_tree_verify_args *a, const struct state *s, int64_t node, int64_t i,
                     double u);
static bool ends(bool ok, struct state *s);
static void spoil_answer(const ts_tree_verify_args *a, struct state *s);

#define HOOK_n_want(ok)    (now == ALL_ROWS ? R : (ok))
#define HOOK_n_tokens(ok)  (now == ANY_TOKEN ? 0 : (ok))
#define HOOK_huge(ok)      (now == HUGE_MAX_NEW ? TS_OK : (ok))
#define HOOK_n_parents(ok) (now == ANY_ORDER ? 0 : (ok))
#define HOOK_n_draws(ok)   (now == ANY_DRAW ? 0 : (ok))
#define HOOK_is_node(ok)   ((ok) && depth < N) /* an invalid tree has no end */
#define HERE_pass          spoil_pass(a, s)
#define HOOK_failed(ok)    (now != PLAIN_INSIDE && (ok) && now != FAILURE_PASSES)

/* ---- the choice ---- */

static bool is_above(float x, float best)
{
    if (now == LAST_OF_EQUALS && x == best) return true;
    return x > best || (now == MINUS_ZERO && x == 0 && best == 0 && !signbit(x) && signbit(best));
}

#define HOOK_tau(ok) (now == HOT_TWICE ? 1 / (ok) : now == TAU_50 && (ok) > 50 ? 50 : (ok))
#define HOOK_nonfinite(ok)                                                                         \
    (now != NONFINITE_PASSES && (ok) && !(isnan(x[t]) ? now == NAN_PASSES : now == INF_PASSES))
#define HOOK_above(ok) is_above(x[t], x[top])
#define HOOK_best(ok)                                                                              \
    ((ok) < 0 && (now == NONE_PASSES || now == NONFINITE_PASSES) ? 0                               \
     : (ok) >= 0 && now == FROM_MINUS_1E9 && x[top] < -1e9F      ? 0                               \
                                                                 : (ok))
#define HOOK_greedy(ok)                                                                            \
    ((ok) || now == COLD || (now == TAU_LEAST && temperature < 0.05) ||                            \
     (now == TAU_1E_3 && temperature < 1e-3) || (now == TAU_1E_5 && temperature < 1e-5))
#define HERE_draw                                                                                  \
    if (now == LAST_AT_1 && u > 0.9999) return (int32_t)n - 1
#define HOOK_max(ok) (now == NO_MAX ? 0 : (ok))
#define HOOK_sum(ok)                                                                               \
    (now == COARSE                                 ? ldexp(rint(ldexp(ok, 10)), -10)               \
     : now == DROPS_20 && (x[t] - max) / tau < -20 ? (ok)-exp((x[t] - max) / tau)                  \
                                                   : (ok))
#define HOOK_reached(ok) ((ok) || (now == FIRST_AT_0 && sum >= u * total))

/* ---- the walk and the answer ---- */

#define HERE_walk                                                                                  \
    if (now == BY_CHAIN) return walk_chain(a, s)
#define HOOK_max_new(ok) ((ok) + (now == OVERSHOOT ? a->d.n_node : 0))

#define HOOK_row(ok) (now == BY_DEPTH ? (s->n_out < a->d.n_node ? s->n_out : a->d.n_node) : (ok))

#define HOOK_draw(ok)   (now == ONE_DRAW ? 0 : (ok))
#define HOOK_choice(ok) (now == PLAIN_INSIDE ? choose_plain(a, s, node, u) : (ok))
#define HOOK_child(ok)  is_child(a, s, node, i, u)
#define HOOK_next(ok)   (now == LAST_TWIN && next >= 0 ? next : (ok))
#define HOOK_ends(ok)   ends(ok, s)
#define HERE_verify                                                                                \
    if (now == EMPTY_TREE && !a->d.n_node) return TS_E_SHAPE;                                      \
    for (int64_t i = 0; i < a->d.max_new && now == WRITES_FIRST; i++) a->out[i] = -1
#define HOOK_asks(ok)    ((ok) || now == ASKS_FOR_NOTHING)
#define HOOK_walked(ok)  other_walk(a, &s, x)
#define HOOK_out(ok)     (now == TOKENS_16 && i < s.n_out ? (uint16_t)(ok) : (ok))
#define HOOK_path(ok)    (now == PATH_TAIL && i >= s.n_path ? a->path[i] : (ok))
#define HOOK_visited(ok) ((ok) || now == ALL_REJECTED)
#define HERE_answered    spoil_answer(a, &s)

static __typeof__(ts_tree_verify)           verify_tree;
static __typeof__(ts_tree_verify_workspace) verify_tree_workspace;
#define ts_tree_verify           verify_tree
#define ts_tree_verify_workspace verify_tree_workspace
#include "plain/tree_verify.c"

static bool is_shown(const ts_tree_verify_args *a, int64_t r, int64_t c, bool ok)
{
    const int64_t P = a->d.prompt_len, node = r - P;
    if (now == CAUSAL) return c <= r;
    if (now == PROMPT_SEES && r < P - 1 && c >= P) return true;
    if (node < 0) return ok;
    if (now == PARENT_ONLY && c >= P) return c == r || c - P == a->parent[node];
    if (now == NOT_ITSELF && c == r) return false;
    if (now == NO_PROMPT && c < P) return false;
    return ok && !(now == PROMPT_128 && c >= 128 && c < P);
}

static void spoil_pass(const ts_tree_verify_args *a, state *s)
{
    const int64_t P = a->d.prompt_len, N = a->d.n_node, R = P + N;
    for (int64_t r = 0; r < R; r++) {
        if (now == BY_INDEX) s->position[r] = r;
        if (now == DEPTH_FROM_0 && r >= P) s->position[r]--;
        for (int64_t c = 0; c < R; c++) {
            uint8_t *const one = &s->visible[r * R + c], *const other = &s->visible[c * R + r];
            const uint8_t kept = *one;
            *one = is_shown(a, r, c, kept);
            if (now == TRANSPOSED && c < r) *one = *other, *other = kept;
        }
    }
    if (now == NO_ROOT_ROW && N) s->want[0] = P;
    for (int64_t i = N + 1; i < R && now == ALL_ROWS; i++) s->want[i] = i - N - 1;
}

/* Calls the model with the string that ends at this node, without a tree. */
static int32_t choose_plain(const ts_tree_verify_args *a, state *s, int64_t node, double u)
{
    const ts_model *m = a->model;
    int64_t         len = a->d.prompt_len + s->n_path;
    const int32_t  *string = s->token;
    if (node >= 0) s->token[len - 1] = a->token[node];
    if (m->next(m->self, 1, &len, &string, s->logits)) return -1;
    return choose(s->logits, m->n_vocab, a->d.temperature, u);
}

static bool is_child(const ts_tree_verify_args *a, const state *s, int64_t node, int64_t i,
                     double u)
{
    const int64_t V = a->model->n_vocab;
    int32_t       t = s->last;
    if (now != ANY_NODE || s->n_out < 3)
        if (a->parent[i] != node) return false;
    if ((now == NODES_64 && i >= 64) || (now == SIBLINGS_128 && i - node > 128)) return false;
    for (int64_t k = 0; k < i && now == FIRST_SIBLING; k++)
        if (a->parent[k] == node) return false;
    if (now == AT_NODE) t = choose(s->logits + (i + 1) * V, V, a->d.temperature, u);
    return a->token[i] == t;
}

static bool ends(bool ok, state *s)
{
    if (now == NO_BONUS && ok && s->n_out > 1) s->n_out--;
    return ok || (now == DEEP_32 && s->n_path == 32);
}

/* Node after node in the order of numbers, each against the row before it. */
static ts_status walk_chain(const ts_tree_verify_args *a, state *s)
{
    const int64_t V = a->model->n_vocab, N = a->d.n_node;
    for (int64_t i = 0; i <= N && s->n_out < a->d.max_new; i++) {
        const double u = a->d.temperature > 0 ? a->u[s->n_out] : 0;
        s->last = choose(s->logits + i * V, V, a->d.temperature, u);
        s->visited[i] = 1;
        s->n_out++;
        if (i == N || a->token[i] != s->last) break;
        s->path[s->n_path++] = (int32_t)i;
    }
    return TS_OK;
}

static ts_status other_walk(const ts_tree_verify_args *a, state *s, const ts_exec *x)
{
    const int64_t V = a->model->n_vocab, N = a->d.n_node;
    ts_status     status = now == TWO_PASSES && a->d.max_new > 0 ? pass(a, s) : TS_OK;
    for (int64_t i = 0; i <= N && now == NONFINITE_ANYWHERE && a->d.max_new > 0; i++)
        if (choose(s->logits + i * V, V, 0, 0) < 0) status = TS_E_MODEL;
    if (!status) status = walk(a, s);
    if (now == TWICE && s->n_out > 0 && s->n_out < a->d.max_new && s->n_out <= N) s->n_out++;
    if (now == BY_THREADS && x->n_threads != 1 && N) s->visited[a->parent[N - 1] + 1] ^= 1;
    return status;
}

static void spoil_answer(const ts_tree_verify_args *a, state *s)
{
    int64_t n = 0;
    for (int64_t k = 0; k < s->n_path; k++) {
        const int64_t node = s->path[k];
        for (int64_t i = node + 1; i < a->d.n_node; i++) {
            if (a->parent[i] != a->parent[node] || a->token[i] != a->token[node]) continue;
            if (now == BOTH_TWINS) a->status[i] = TS_NODE_ACCEPTED;
            if (now == TWIN_STATUS) a->status[i] = TS_NODE_UNREACHED;
        }
        if (now != RE_EMITS) continue;
        a->out[n++] = a->token[node]; /* and again for the rejected sibling before it */
        if (node > 0 && a->parent[node - 1] == a->parent[node] && n < a->d.max_new)
            a->out[n++] = a->token[node];
        if (n >= a->d.max_new) break;
    }
    if (now != RE_EMITS) return;
    if (s->n_out > s->n_path && n < a->d.max_new) a->out[n++] = s->last;
    *a->n_out = n;
}

static ts_status verify(const void *a, const ts_exec *x)
{
    return verify_tree(a, x);
}

static ts_status workspace(const void *a, const ts_exec *x, size_t *n_bytes)
{
    return verify_tree_workspace(a, x, n_bytes);
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

static const ts_tree_table table = { verify, mask, bias, residual, workspace, NULL };

#define STEM  tree_verify
#define TABLE ts_tree_table
#include "played.h"

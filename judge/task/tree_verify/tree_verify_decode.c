/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_decode.c - what must be emitted, found without any pass over a tree: token by token,
 * from whole strings. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "real.h"
#include "tree_verify_inside.h"

static bool is_row(const float *x, int64_t n, float *max)
{
    *max = -INFINITY;
    for (int64_t t = 0; t < n; t++) {
        if (isnan(x[t]) || x[t] == INFINITY) return false;
        if (x[t] > *max) *max = x[t];
    }
    return *max != -INFINITY;
}

static int32_t choose_best(const float *x, int64_t n, double *margin)
{
    int64_t best = -1;
    float   second = -INFINITY;
    for (int64_t t = 0; t < n; t++) {
        if (best >= 0 && !(x[t] > x[best])) {
            if (x[t] > second) second = x[t];
            continue;
        }
        if (best >= 0) second = x[best];
        best = t;
    }
    *margin = fmin(*margin, (double)x[best] - (double)second);
    return (int32_t)best;
}

static double weight(float x, float max, double temperature)
{
    return ts_exp64(((double)x - (double)max) / temperature);
}

static int32_t choose_drawn(const float *x, int64_t n, float max, double temperature, double u,
                            double *margin)
{
    ts_real total = { 0, 0 }, sum = { 0, 0 };
    int32_t chosen = -1;
    for (int64_t t = 0; t < n; t++)
        ts_real_gather(&total, ts_real_of(weight(x[t], max, temperature)));
    total = ts_real_gathered(total);
    for (int64_t t = 0; t < n; t++) {
        ts_real_gather(&sum, ts_real_of(weight(x[t], max, temperature)));
        const ts_real part = ts_real_div(ts_real_gathered(sum), total);
        const double  beyond = ts_real_sub(part, ts_real_of(u)).hi;
        *margin = fmin(*margin, fabs(beyond));
        if (beyond > 0 && chosen < 0) chosen = (int32_t)t;
    }
    return chosen;
}

double ts_tree_beside(const float *x, int64_t n, double temperature, double u, bool side)
{
    ts_real total = { 0, 0 }, sum = { 0, 0 };
    float   max;
    double  nearest = 0;
    if (!is_row(x, n, &max) || temperature == 0) return u;
    for (int64_t t = 0; t < n; t++)
        ts_real_gather(&total, ts_real_of(weight(x[t], max, temperature)));
    total = ts_real_gathered(total);
    for (int64_t t = 0; t + 1 < n; t++) {
        ts_real_gather(&sum, ts_real_of(weight(x[t], max, temperature)));
        const double part = ts_real_div(ts_real_gathered(sum), total).hi;
        if (fabs(part - u) < fabs(nearest - u)) nearest = part;
    }
    nearest += side ? TS_TREE_BESIDE : -TS_TREE_BESIDE;
    return nearest > 0 && nearest < 1 ? nearest : u;
}

int32_t ts_tree_pick(const float *logits, int64_t n_vocab, double temperature, double u,
                     double *margin)
{
    float max;
    if (!is_row(logits, n_vocab, &max)) return -1;
    if (temperature == 0) return choose_best(logits, n_vocab, margin);
    return choose_drawn(logits, n_vocab, max, temperature, u, margin);
}

static void *get(int64_t n, size_t each)
{
    void *p = calloc((size_t)n + 1, each);
    if (!p) abort();
    return p;
}

/* Whether a sum of probabilities in float may choose the token: with u = 2^-24, exponentials err by
 * u |x - max| / temperature and a few u of themselves, which is at most u log(n) on average, and
 * the sum by kappa(n) u. */
static bool is_near(const float *x, int64_t n, double temperature, double u, int32_t token)
{
    const double error = 0x1p-24 * (ts_kappa(n) + 16 + 2 * ts_log64((double)n + 1));
    double       total = 0, below = 0;
    float        max;
    if (!is_row(x, n, &max) || x[token] == -INFINITY) return false;
    for (int64_t t = 0; t < n; t++) total += weight(x[t], max, temperature);
    for (int64_t t = 0; t < token; t++) below += weight(x[t], max, temperature);
    const double above = below + weight(x[token], max, temperature);
    return u >= below / total - error && u < above / total + error;
}

/* The token of an output, if the rules allow it instead of t. */
static int32_t choose_told(const ts_tree_told *told, const float *x, int64_t n, double temperature,
                           double u, int64_t at, int32_t t)
{
    if (!told || told->out[at] < 0 || told->out[at] >= n) return t;
    const int32_t other = told->out[at];
    const bool    may = temperature > 0
                            ? told->rules & TS_TREE_BY_FLOAT && is_near(x, n, temperature, u, other)
                            : told->rules & TS_TREE_BY_TIES && x[other] == x[t];
    return may ? other : t;
}

/* The child of node `cur` that the walk goes to, -1: none. All children before it were examined,
 * and rejected; those after it, too, unless the rules leave them out. */
static int64_t descend(const int32_t *token, const int32_t *parent, int64_t n_node, int64_t cur,
                       int32_t t, unsigned rules, uint8_t *status)
{
    int64_t next = -1;
    bool    ends = false;
    for (int64_t i = cur + 1; i < n_node; i++) {
        if (parent[i] != cur) continue;
        const bool left = next >= 0 ? rules & TS_TREE_PASSES : ends && rules & TS_TREE_LEAVES;
        if (next < 0 && !ends && token[i] == t) next = i;
        else if (!left) status[i] = TS_NODE_REJECTED;
        if (next < 0 && rules & TS_TREE_STOPS) ends = true;
    }
    return next;
}

void ts_tree_decode(const ts_toy *m, const int32_t *cycle, int64_t n_node, int64_t max_new,
                    double temperature, const double *u, const ts_tree_told *told, ts_tree_walk *w)
{
    const int64_t  n_prompt = *cycle++, V = m->word[TS_TOY_VOCAB];
    const int32_t *token = cycle + n_prompt, *parent = token + n_node;
    int32_t       *text = get(n_prompt + n_node + 1, sizeof *text);
    float         *logits = get(V, sizeof *logits);
    double         margin = INFINITY;
    memcpy(text, cycle, (size_t)n_prompt * sizeof *text);
    *w = (ts_tree_walk) { .out = get(max_new, sizeof *w->out),
                          .path = get(n_node, sizeof *w->path),
                          .status = get(n_node, sizeof *w->status) };
    for (int64_t cur = -1, next; w->n_out < max_new; cur = next) {
        const double draw = temperature > 0 ? u[w->n_out] : 0;
        if (ts_toy_next(m, n_prompt + w->n_path, text, logits)) logits[0] = NAN;
        int32_t t = ts_tree_pick(logits, V, temperature, draw, &margin);
        w->nonfinite = t < 0;
        if (w->nonfinite) break;
        t = choose_told(told, logits, V, temperature, draw, w->n_out, t);
        w->out[w->n_out++] = t;
        next = descend(token, parent, n_node, cur, t, told ? told->rules : 0, w->status);
        if (next < 0) break;
        w->status[next] = TS_NODE_ACCEPTED;
        text[n_prompt + w->n_path] = t;
        w->path[w->n_path++] = (int32_t)next;
    }
    free(text), free(logits);
}

void ts_tree_walk_free(ts_tree_walk *w)
{
    free(w->out), free(w->path), free(w->status);
    *w = (ts_tree_walk) { 0 };
}

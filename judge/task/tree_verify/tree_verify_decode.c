/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_decode.c - what must be emitted, found without any pass over a tree: token by token,
 * from whole strings. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    if (!is_row(x, n, &max)) return u;
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

void ts_tree_decode(const ts_toy *m, const int32_t *cycle, int64_t n_node, int64_t max_new,
                    double temperature, const double *u, const int32_t *told, ts_tree_walk *w)
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
        if (ts_toy_next(m, n_prompt + w->n_path, text, logits)) logits[0] = NAN;
        int32_t t =
            ts_tree_pick(logits, V, temperature, temperature > 0 ? u[w->n_out] : 0, &margin);
        w->nonfinite = t < 0;
        if (w->nonfinite) break;
        if (told && temperature == 0 && told[w->n_out] >= 0 && told[w->n_out] < V &&
            logits[told[w->n_out]] == logits[t])
            t = told[w->n_out];
        w->out[w->n_out++] = t;
        next = -1;
        for (int64_t i = n_node - 1; i >= 0; i--) {
            if (parent[i] != cur) continue;
            w->status[i] = TS_NODE_REJECTED;
            if (token[i] == t) next = i;
        }
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

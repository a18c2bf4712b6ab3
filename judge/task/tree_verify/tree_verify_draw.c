/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_draw.c - draws models, prompts and trees, by family. A tree is built around the
 * tokens that will be emitted: otherwise no draft would ever match, and a wrong walk would pass. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"
#include "tree_verify_inside.h"

enum { DEEPEST = 160 }; /* tokens of the right continuation that are known */
enum { LONG = 40 };     /* a longer chain is right but for its last nodes */
enum { LATE = 4 };      /* nodes at the end which are right, behind many that are wrong */

typedef struct grower {
    const ts_case *c;
    ts_toy         m;
    uint64_t       seed;
    int64_t        at;             /* draws so far */
    int32_t        right[DEEPEST]; /* what will be emitted */
    int64_t        n_node;         /* so far */
    const int32_t *prompt;
    int64_t        n_prompt;
    int32_t       *token, *parent;
    int            good[TS_TREE_MOST]; /* of the right continuation so many tokens; -1: wrong */
    double         margin;
    float         *logits;
    int32_t       *text;
} grower;

/* How rows are none in this family; -1: they are as they should be. */
static int nonfinite_how(const ts_case *c)
{
    static const char *const family[] = { "nonfinite", "nonfinite_inf", "nonfinite_none", "fails" };
    for (int i = 0; i < 4; i++)
        if (ts_is(c, family[i])) return i;
    return -1;
}

static uint64_t draw(grower *g, uint64_t n)
{
    return ts_bits(g->seed, g->at++) % n;
}

/* In hundredths; of a case that is cold, in smaller units. */
double ts_tree_temperature(const ts_case *c)
{
    const double unit = ts_is(c, "cold") ? 1e-5 : ts_is(c, "colder") ? 1e-9 : 0.01;
    return (double)c->dim[TEMPERATURE] * unit;
}

/* ---- sizes ---- */

static int64_t most_out(const ts_case *c)
{
    return c->dim[MAX_NEW] < c->dim[NODES] + 1 ? c->dim[MAX_NEW] : c->dim[NODES] + 1;
}

static int64_t most_prompt(const ts_case *c)
{
    return c->dim[PROMPT] + (c->dim[CYCLES] - 1) * most_out(c);
}

int64_t ts_tree_most_rows(const ts_case *c)
{
    return most_prompt(c) + c->dim[NODES];
}

int64_t ts_tree_script_words(const ts_case *c)
{
    return c->dim[CYCLES] * (1 + most_prompt(c) + 2 * c->dim[NODES]);
}

int64_t ts_tree_model_states(const ts_case *c)
{
    if (ts_is(c, "ties") || ts_is(c, "zero_u") || ts_is(c, "one_u") || ts_is(c, "cold") ||
        ts_is(c, "colder") || ts_is(c, "extreme"))
        return 1;
    return c->dim[MODEL] == TS_TOY_TABLE ? ts_tree_states(c->dim[VOCAB], ts_tree_most_rows(c)) : 0;
}

bool ts_tree_means_ties(const ts_case *c)
{
    return ts_is(c, "ties") || ts_is(c, "zero_u") ||
           ts_is(c, "one_u"); /* of that a sum is u, or nearly */
}

/* ---- a tree ---- */

static int good_of(const grower *g, int64_t node)
{
    return node < 0 ? 0 : g->good[node];
}

static bool has_right_child(const grower *g, int64_t node)
{
    for (int64_t i = 0; i < g->n_node; i++)
        if (g->parent[i] == node && g->good[i] >= 0) return true;
    return false;
}

static int64_t deepest_right(const grower *g)
{
    int64_t best = -1;
    for (int64_t i = 0; i < g->n_node; i++)
        if (g->good[i] > good_of(g, best)) best = i;
    return best;
}

static int64_t pick_parent(grower *g)
{
    const int64_t i = g->n_node;
    if (ts_is(g->c, "chain")) return i - 1;
    if (ts_is(g->c, "star")) return -1;
    if (ts_is(g->c, "breadth")) return i < 2 ? -1 : (i - 2) / 2;
    /* Behind a wrong root the right one, whose right child comes late: who takes the first and not
     * the second has lost it, and does not end at every wrong sibling. */
    if (ts_is(g->c, "late")) return i < 2 ? -1 : i <= g->c->dim[NODES] - LATE ? 1 : i - 1;
    if (ts_is(g->c, "depth")) return i % 4 ? i - 1 : deepest_right(g);
    if (draw(g, 2)) return deepest_right(g);
    return (int64_t)draw(g, (uint64_t)i + 1) - 1;
}

/* The most probable token after a node's own string: a verification that judges a node by itself,
 * or accepts the child of a rejected one, takes it. */
static int32_t after(grower *g, int64_t node)
{
    int32_t way[TS_TREE_MOST];
    int64_t n = 0;
    double  margin = INFINITY;
    for (; node >= 0; node = g->parent[node]) way[n++] = g->token[node];
    memcpy(g->text, g->prompt, (size_t)g->n_prompt * sizeof *g->text);
    for (int64_t i = 0; i < n; i++) g->text[g->n_prompt + i] = way[n - 1 - i];
    ts_toy_next(&g->m, g->n_prompt + n, g->text, g->logits);
    return ts_tree_pick(g->logits, g->c->dim[VOCAB], 0, 0, &margin);
}

static int32_t wrong_token(grower *g, int64_t parent)
{
    const uint64_t V = (uint64_t)g->c->dim[VOCAB];
    const int      depth = good_of(g, parent);
    if (ts_is(g->c, "late")) return (int32_t)(((uint64_t)g->right[depth] + 1 + draw(g, V - 1)) % V);
    const uint64_t way = ts_is(g->c, "twins") ? 0 : draw(g, 4);
    if (way == 0 && g->n_node > 0) return g->token[draw(g, (uint64_t)g->n_node)]; /* a duplicate */
    if (way == 1) return g->right[draw(g, DEEPEST)]; /* right, but somewhere else */
    if (way == 2 && depth < 0 && V <= 1000 && nonfinite_how(g->c) < 0) {
        const int32_t t = after(g, parent);
        if (t >= 0) return t;
    }
    return (int32_t)draw(g, V);
}

/* Does the next node go on with the right continuation? The right one often comes second. */
static bool goes_right(grower *g, int64_t parent)
{
    const int64_t i = g->n_node, n = g->c->dim[NODES];
    if (good_of(g, parent) < 0 || good_of(g, parent) >= DEEPEST) return false;
    if (ts_is(g->c, "late")) return i == 1 || i >= n - LATE;
    if (has_right_child(g, parent)) return ts_is(g->c, "twins") && draw(g, 2);
    if (ts_is(g->c, "chain") && n > LONG) return i < n - LATE;
    if (ts_is(g->c, "chain") || ts_is(g->c, "depth")) return i == 0 || draw(g, 8) > 0;
    if (ts_is(g->c, "breadth")) return i % 2;
    if (ts_is(g->c, "star")) return i == n / 2;
    return draw(g, 2);
}

static void grow(grower *g)
{
    const bool last_hope = g->n_node + 1 == g->c->dim[NODES] && !has_right_child(g, -1) &&
                           !ts_is(g->c, "chain") && !ts_is(g->c, "breadth");
    const int64_t parent = last_hope ? -1 : pick_parent(g);
    const bool    right = last_hope || goes_right(g, parent);
    const int     depth = good_of(g, parent);
    const int32_t t = right ? g->right[depth] : wrong_token(g, parent);
    const bool    is_right = depth >= 0 && depth < DEEPEST && t == g->right[depth];
    g->good[g->n_node] = is_right && !has_right_child(g, parent) ? depth + 1 : -1;
    g->parent[g->n_node] = (int32_t)parent;
    g->token[g->n_node++] = t;
}

/* ---- cycles ---- */

/* What will be emitted if the tree goes along; behind max_new with draws of its own. */
static void look_ahead(grower *g, double *u)
{
    const int64_t V = g->c->dim[VOCAB], most = g->c->dim[MAX_NEW];
    const bool    nonfinite = nonfinite_how(g->c) >= 0;
    memcpy(g->text, g->prompt, (size_t)g->n_prompt * sizeof *g->text);
    for (int64_t i = 0; i < DEEPEST; i++) {
        double  draw_u = i < most ? u[i] : 0.5 + 0.5 * ts_uniform(g->seed + 1, i);
        double  margin = INFINITY;
        int32_t t = -1;
        if (i <= g->c->dim[NODES]) {
            if (ts_toy_next(&g->m, g->n_prompt + i, g->text, g->logits)) g->logits[0] = NAN;
            if (ts_is(g->c, "beside") && i < most)
                draw_u = u[i] =
                    ts_tree_beside(g->logits, V, ts_tree_temperature(g->c), u[i], i % 2);
            t = ts_tree_pick(g->logits, V, ts_tree_temperature(g->c), draw_u, &margin);
            if (i < most && t >= 0) g->margin = fmin(g->margin, margin);
        }
        if (t < 0) t = (int32_t)draw(g, (uint64_t)V); /* never reached */
        g->right[i] = t;
        g->text[g->n_prompt + i] = t;
        if (t < 0 && !nonfinite) abort();
    }
}

/* Far from 0 on either side. */
static float far_away(int64_t state, double z)
{
    return (float)((state % 2 ? 2000 : -20000) + 2 * z);
}

static void draw_model(const ts_case *c, uint64_t seed, ts_drawn *m)
{
    static const float tied[] = { -1, -0.0F, 0 };
    const int64_t      n = ts_tree_model_states(c);
    ts_model_draw(m, (int)c->dim[MODEL], seed, c->dim[VOCAB], n);
    for (int64_t i = 0; c->dim[MODEL] == TS_TOY_TABLE && i < n * c->dim[VOCAB]; i++)
        ts_model_row(m, 0)[i] = ts_is(c, "ties")   ? tied[i % 3]
                                : ts_is(c, "cold") ? (float)(2e-5 * ts_normal(seed, i))
                                : ts_is(c, "extreme") || ts_is(c, "colder")
                                    ? (float)(2 * ts_tree_temperature(c) * ts_normal(seed, i))
                                : ts_is(c, "floor") ? (float)(-2e9 + 4096 * ts_normal(seed, i))
                                : ts_is(c, "offset")
                                    ? far_away(i / c->dim[VOCAB], ts_normal(seed, i))
                                    : (float)(2 * ts_normal(seed, i));
    if (ts_is(c, "masked")) m->word[TS_TOY_OPEN] = 200;
    for (int64_t i = 0; (ts_is(c, "zero_u") || ts_is(c, "one_u")) && i < n * c->dim[VOCAB]; i++)
        if ((i % c->dim[VOCAB] < c->dim[VOCAB] / 2) == ts_is(c, "zero_u"))
            ts_model_row(m, 0)[i] = -INFINITY;
    if (nonfinite_how(c) < 0) return;
    /* If few tokens are to be emitted, in rows of the tree that no walk reaches. A row that fails
     * makes the whole pass fail. */
    const int64_t depth = nonfinite_how(c) == TS_NONFINITE_FAILS ? 0
                          : c->dim[MAX_NEW] <= 2                 ? c->dim[MAX_NEW]
                                                                 : (int64_t)(seed % 4);
    m->word[TS_TOY_NONFINITE] = (int32_t)(c->dim[PROMPT] + depth);
    m->word[TS_TOY_HOW] = nonfinite_how(c);
}

static void draw_cycle(grower *g, int32_t *cycle, double *u)
{
    const int64_t n = g->c->dim[NODES];
    cycle[0] = (int32_t)g->n_prompt;
    g->prompt = cycle + 1;
    g->token = cycle + 1 + g->n_prompt;
    g->parent = g->token + n;
    g->n_node = 0;
    look_ahead(g, u);
    while (g->n_node < n) grow(g);
}

double ts_tree_draw(const ts_case *c, uint64_t seed, ts_tree_quiz *q)
{
    const int64_t n = c->dim[CYCLES], most = c->dim[MAX_NEW], V = c->dim[VOCAB];
    grower       *g = calloc(1, sizeof *g);
    q->script = calloc((size_t)ts_tree_script_words(c) + 1, sizeof *q->script);
    q->u = calloc((size_t)(n * most) + 1, sizeof *q->u);
    int32_t *text = calloc((size_t)ts_tree_most_rows(c) + 2 * DEEPEST, sizeof *text);
    float   *logits = calloc((size_t)V, sizeof *logits);
    if (!g || !q->script || !q->u || !text || !logits) abort();
    draw_model(c, ts_mix(seed), &q->model);
    for (int64_t i = 0; i < n * most; i++)
        q->u[i] = ts_is(c, "zero_u")  ? 0
                  : ts_is(c, "one_u") ? 1 - (i % 2 ? 0x1p-30 : 0x1p-53)
                                      : 0.5 + 0.5 * ts_uniform(seed + 7, i);
    *g = (grower) { .c = c, .m = ts_model_toy(&q->model), .seed = ts_mix(seed + 3) };
    g->margin = INFINITY;
    g->text = text, g->logits = logits;
    int32_t *cycle = q->script;
    g->n_prompt = c->dim[PROMPT];
    for (int64_t i = 0; i < g->n_prompt; i++) cycle[1 + i] = (int32_t)draw(g, (uint64_t)V);
    for (int64_t i = 0; i < n; i++) {
        ts_tree_walk w;
        draw_cycle(g, cycle, q->u + i * most);
        ts_tree_decode(&g->m, cycle, c->dim[NODES], most, ts_tree_temperature(c), q->u + i * most,
                       NULL, &w);
        int32_t *const next = cycle + 1 + g->n_prompt + 2 * c->dim[NODES];
        if (i + 1 < n) {
            memcpy(next + 1, cycle + 1, (size_t)g->n_prompt * sizeof *next);
            memcpy(next + 1 + g->n_prompt, w.out, (size_t)w.n_out * sizeof *next);
        }
        cycle = next;
        g->n_prompt += w.n_out;
        ts_tree_walk_free(&w);
    }
    const double margin = g->margin;
    free(g), free(text), free(logits);
    return margin;
}

void ts_tree_quiz_free(ts_tree_quiz *q)
{
    ts_model_free(&q->model);
    free(q->script), free(q->u);
}

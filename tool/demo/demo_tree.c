/* SPDX-License-Identifier: Apache-2.0 */
/* demo_tree.c - `demo tree`: trees of drafted tokens, verified in one pass after the cached text;
 * shows which nodes are accepted, and the gain. */
#include <stdlib.h>
#include <string.h>

#include "demo_graph.h"
#include "search.h"
#include "touchstone/tree_verify.h"

enum { PROMPT = 16, NEW = 64, LENGTH = PROMPT + NEW, WIDTH = 2, DEEP = 4, NODES = WIDTH * DEEP };
enum { DRAWN = 3 }; /* passes in the picture */

/* One recorded pass. */
typedef struct pass {
    int32_t last; /* the token before the tree */
    int     n_node;
    int32_t token[NODES], parent[NODES];
    uint8_t status[NODES];
    int32_t out[NODES + 1];
    int     n_out;
} pass;

typedef struct run {
    const char         *name;
    int32_t             text[LENGTH];
    ts_speculator_stats stats;
    pass                drawn[DRAWN];
    int                 n_drawn;
} run;

static void keep_pass(run *r, int32_t last, const ts_speculation *did)
{
    if (r->n_drawn == DRAWN || !did->tree.n_node) return;
    pass *p = &r->drawn[r->n_drawn++];
    *p = (pass) { .last = last, .n_node = (int)did->tree.n_node, .n_out = (int)did->n_out };
    for (int i = 0; i < p->n_node; i++) {
        p->token[i] = did->tree.token[i];
        p->parent[i] = did->tree.parent[i];
        p->status[i] = did->status[i];
    }
    for (int i = 0; i < p->n_out; i++) p->out[i] = did->out[i];
}

static bool speculate(const ts_demo_model *m, const ts_engine_options *o, const ts_drafter *d,
                      run *r)
{
    char           why[TS_MODEL_WHY];
    ts_speculator *s = NULL;
    int64_t        n = PROMPT;
    bool           ok = ts_speculator_create(m->m, o, NODES, DEEP, &s, why) &&
              ts_speculator_begin(s, r->text, PROMPT, 0, 0, why);
    if (!ok) ts_complain("tree", why);
    while (ok && n < LENGTH) {
        ts_speculation did;
        ok = ts_demo_ok("step", ts_speculator_step(s, d, LENGTH - n, &did));
        if (!ok) break;
        keep_pass(r, r->text[n - 1], &did);
        memcpy(r->text + n, did.out, (size_t)did.n_out * sizeof *r->text);
        n += did.n_out;
    }
    if (ok) r->stats = *ts_speculator_stats_of(s);
    ts_speculator_free(&s);
    return ok;
}

/* Runs without drafts, with drafts looked up in the text, and with the model's own drafts. */
static bool run_all(const ts_demo_model *m, uint64_t seed, run r[3])
{
    const int64_t           n_layer = ts_decoder_dims_of(m->m)->n_layer;
    const ts_engine_options o = { .n_seq = 1,
                                  .capacity = LENGTH,
                                  .page = 16,
                                  .n_page = WIDTH * n_layer * (LENGTH / 16 + 1),
                                  .chunk = PROMPT,
                                  .store = TS_F32,
                                  .n_threads = 1 };
    char                    why[TS_MODEL_WHY];
    ts_lookup               lookup = { WIDTH };
    ts_small               *small = NULL;
    bool                    ok = ts_demo_model_text(m, seed, r[0].text, PROMPT);
    if (ok && !ts_small_create(m->m, WIDTH, &o, &small, why)) ok = ts_complain("tree", why);
    for (int i = 1; i < 3; i++) memcpy(r[i].text, r[0].text, sizeof r[0].text);
    const ts_drafter by[2] = { ts_lookup_drafter(&lookup),
                               ok ? ts_small_drafter(small) : (ts_drafter) { 0 } };
    r[0].name = "none";
    r[1].name = "lookup";
    r[2].name = "the model itself";
    for (int i = 0; ok && i < 3; i++) ok = speculate(m, &o, i ? &by[i - 1] : NULL, &r[i]);
    ts_small_free(&small);
    return ok;
}

/* ---- output ---- */

static const char *const STATUS[] = { [TS_NODE_UNREACHED] = "unreached",
                                      [TS_NODE_ACCEPTED] = "accepted",
                                      [TS_NODE_REJECTED] = "rejected" };

static void label_node(const pass *p, const ts_tokenizer *words, int i, char label[TS_DEMO_LABEL])
{
    ts_demo_label(words, p->parent[i] < 0 ? p->last : p->token[p->parent[i]], p->token[i], label);
}

/* Prints a node and its descendants, indented. */
static void show_node(FILE *out, const pass *p, const ts_tokenizer *words, int i, int depth)
{
    char label[TS_DEMO_LABEL];
    label_node(p, words, i, label);
    fprintf(out, "    %*s%-*s %s\n", 3 * depth, "", 30 - 3 * depth, label, STATUS[p->status[i]]);
    for (int j = i + 1; j < p->n_node; j++)
        if (p->parent[j] == i) show_node(out, p, words, j, depth + 1);
}

static void show_passes(const ts_demo_args *a, const run *r, const ts_tokenizer *words)
{
    char label[TS_DEMO_LABEL];
    for (int k = 0; a->table && k < r->n_drawn; k++) {
        const pass *p = &r->drawn[k];
        ts_demo_label(words, -1, p->last, label);
        fprintf(a->table, "\nPass %d, after %s: %d nodes, %d tokens emitted:", k + 1, label,
                p->n_node, p->n_out);
        for (int i = 0; i < p->n_out; i++) {
            ts_demo_label(words, i ? p->out[i - 1] : p->last, p->out[i], label);
            fprintf(a->table, " %s", label);
        }
        fputc('\n', a->table);
        for (int i = 0; i < p->n_node; i++)
            if (p->parent[i] < 0) show_node(a->table, p, words, i, 0);
    }
}

/* Assigns rows from the top, one per leaf; returns the next free row. */
static int place(const pass *p, const ts_tokenizer *words, int i, int column, int row,
                 int at[NODES], ts_demo_node *node, int *n)
{
    static const ts_demo_look look[] = { [TS_NODE_UNREACHED] = TS_LOOK_GONE,
                                         [TS_NODE_ACCEPTED] = TS_LOOK_CHOSEN,
                                         [TS_NODE_REJECTED] = TS_LOOK_ALIVE };
    int                       free_row = row;
    at[i] = *n;
    node[*n] = (ts_demo_node) { .column = column, .row = row, .look = look[p->status[i]] };
    node[*n].from = p->parent[i] < 0 ? -2 : at[p->parent[i]];
    label_node(p, words, i, node[(*n)++].label);
    for (int j = i + 1; j < p->n_node; j++)
        if (p->parent[j] == i) free_row = place(p, words, j, column + 1, free_row, at, node, n);
    return free_row > row ? free_row : row + 1;
}

static bool plot(const ts_demo_args *a, const run *r, const ts_tokenizer *words)
{
    static const char *const looks[3] = { "accepted", "rejected", "unreached" };
    static ts_demo_node      node[DRAWN * (NODES + 1)];
    int                      n = 0, row = 0;
    for (int k = 0; k < r->n_drawn; k++) {
        const pass *p = &r->drawn[k];
        const int   root = n;
        int         at[NODES];
        node[n] = (ts_demo_node) { .row = row, .from = -1 };
        ts_demo_label(words, -1, p->last, node[n++].label);
        for (int i = 0; i < p->n_node; i++)
            if (p->parent[i] < 0) row = place(p, words, i, 1, row, at, node, &n);
        for (int i = root + 1; i < n; i++)
            if (node[i].from == -2) node[i].from = root;
        row++;
    }
    return ts_demo_graph(a->svg, "Drafted trees, each checked in one pass", looks, node, n);
}

static bool show_runs(const ts_demo_args *a, const run r[3])
{
    ts_json *rows = ts_json_array(a->json, "rows");
    bool     right = true;
    ts_print(a->table, "\n%-18s %7s %7s %10s %8s %9s  %s\n", "drafts", "passes", "tokens",
             "per pass", "nodes", "accepted", "tokens");
    for (int i = 0; i < 3; i++) {
        const ts_speculator_stats *s = &r[i].stats;
        const bool                 same = !memcmp(r[i].text, r[0].text, sizeof r[0].text);
        const double               a_pass = (double)s->n_token / (double)s->n_pass;
        ts_json                   *o = ts_json_object(rows, NULL);
        ts_json_text(o, "drafts", r[i].name);
        ts_json_int(o, "passes", s->n_pass);
        ts_json_number(o, "tokens_per_pass", a_pass);
        ts_json_int(o, "nodes", s->n_drafted);
        ts_json_int(o, "accepted", s->n_accepted);
        ts_json_bool(o, "tokens_equal", same);
        ts_print(a->table, "%-18s %7lld %7lld %10.2f %8lld %9lld  %s\n", r[i].name,
                 (long long)s->n_pass, (long long)s->n_token, a_pass, (long long)s->n_drafted,
                 (long long)s->n_accepted, same ? "equal" : "DIFFER");
        right = right && same && s->n_row == s->n_pass + s->n_drafted;
    }
    return right && r[2].stats.n_pass < r[0].stats.n_pass;
}

int ts_demo_tree(const ts_demo_args *a)
{
    static run    r[3];
    ts_demo_model m;
    bool          ok = ts_demo_model_open(a, TS_F32, &m);
    if (ok)
        ts_print(
            a->table,
            "Trees of %d tokens per depth, %d deep, checked in one pass: a node is accepted if "
            "its parent is and\nthe model predicts its token there. Siblings do not see each "
            "other; only the tree's rows are run.\n",
            WIDTH, DEEP);
    if (ok) ts_demo_model_about(a, &m);
    ok = ok && run_all(&m, a->seed, r);
    ts_tokenizer *words = ok ? ts_demo_words(&m) : NULL;
    if (ok) show_passes(a, &r[2], words);
    const bool right = ok && show_runs(a, r);
    if (ok && a->svg) ok = plot(a, &r[2], words);
    ts_tokenizer_free(&words);
    ts_demo_model_close(&m);
    if (!ok) return TS_EXIT_BROKEN;
    ts_print(a->table, "\n%s\n",
             right ? "Drafts decide how many tokens a pass yields, never which."
                   : "FAILED: other tokens, or no gain.");
    return ts_demo_end(a, right, true);
}

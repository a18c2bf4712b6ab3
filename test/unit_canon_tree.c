/* SPDX-License-Identifier: Apache-2.0 */
/* unit_canon_tree.c - tests which flaws of tree verification are excused as a rule of the canon. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "canon_script.h"
#include "tree_verify_inside.h"

/* A mutant's functions; see proof/mutant/played.h. */
const ts_tree_table *ts_tree_verify_mutant(const char *name);

static ts_status tree_sound(const void *a, const ts_exec *x)
{
    return ts_tree_verify(a, x);
}

static ts_status tree_bytes(const void *a, const ts_exec *x, size_t *n)
{
    return ts_tree_verify_workspace(a, x, n);
}

static bool pass_wrong;

static int forward_tamed(void *self, int64_t n_row, const int32_t *token, const int64_t *position,
                         const uint8_t *visible, int64_t n_want, const int64_t *want, float *out)
{
    const ts_model *m = self;
    int64_t        *other = malloc((size_t)n_row * sizeof *other);
    memcpy(other, position, (size_t)n_row * sizeof *other);
    if (pass_wrong) other[n_row - 1]++;
    const int bad = m->forward(m->self, n_row, token, other, visible, n_want, want, out);
    free(other);
    for (int64_t i = 0; i < n_want * m->n_vocab; i++)
        if (!isfinite(out[i])) out[i] = (float)(i % 7);
    return bad;
}

static ts_status tree_goes_on(const void *args, const ts_exec *x)
{
    ts_tree_verify_args a = *(const ts_tree_verify_args *)args;
    const ts_model      m = { (void *)a.model, a.model->n_vocab, NULL, forward_tamed };
    a.model = &m;
    return ts_tree_verify(&a, x);
}

enum { FIRST, AGAIN, STATUS, STEP };
static int wrong;

static ts_status tree_spoilt(const void *args, const ts_exec *x)
{
    const ts_tree_verify_args *a = args;
    const ts_status            s = tree_goes_on(args, x);
    if (s || !a->d.max_new) return s;
    if (wrong == FIRST) a->out[0] = (a->out[0] + 1) % (int32_t)a->model->n_vocab;
    if (wrong == AGAIN && *a->n_out < a->d.max_new) a->out[*a->n_out] = a->out[0], ++*a->n_out;
    for (int64_t i = 0; i < a->d.n_node && wrong == STATUS; i++)
        if (a->status[i] == TS_NODE_UNREACHED && a->parent[i] >= 0 &&
            a->status[a->parent[i]] != TS_NODE_ACCEPTED)
            a->status[i] = TS_NODE_REJECTED;
    if (wrong == STEP && *a->n_path) a->path[*a->n_path - 1] = (int32_t)a->d.n_node;
    return s;
}

/* The first row is right and the walk goes on to a node whose row is none. */
static void ask_tree(question *q, const char *family)
{
    const ts_case *c = find("tree_verify", family, "nodes", 12);
    for (uint64_t seed = SEED;; seed++) {
        ask_with(q, "tree_verify", c, seed);
        const ts_tree_play_args *a = q->args;
        play(q, &(ts_tree_table) { .verify = tree_goes_on, .verify_workspace = tree_bytes });
        if (a->word[TS_TOY_NONFINITE] == *a->script + 1 && a->seen[TS_TREE_N_PATH] > 0 &&
            q->want[a->n_cycle * (a->max_new + a->n_node)].value == TS_E_MODEL &&
            a->seen[TS_TREE_N_OUT] < (double)a->max_new)
            return;
        close_question(q);
    }
}

TEST(walks_that_go_on)
{
    static const char *const family[] = { "nonfinite", "nonfinite_inf", "nonfinite_none" };
    static const char        rule[] = "logits without a distribution end the cycle with TS_E_MODEL";
    ts_tree_table            t = { .verify_workspace = tree_bytes };
    for (int i = 0; i < 3; i++) {
        question q;
        ask_tree(&q, family[i]);
        t.verify = tree_sound;
        assert_right(&q, &t);
        t.verify = tree_goes_on;
        assert_string_equal(verdict(&q, &t), rule);
        pass_wrong = true;
        assert_null(verdict(&q, &t));
        pass_wrong = false;
        t.verify = tree_spoilt;
        for (wrong = FIRST; wrong <= STEP; wrong++) assert_null(verdict(&q, &t));
        close_question(&q);
    }
}

/* ---- where a walk ends ---- */

/* What a walk does otherwise than the canon. */
typedef struct manner {
    bool    stops;          /* at the first child that is wrong */
    bool    leaves, passes; /* children after that one, or after the accepted one, are unreached */
    bool    now_and_then;   /* all that in every other cycle alone */
    int64_t nodes, span; /* it sees the first so many nodes; or those no further from the parent */
    int64_t depth;       /* once a node was rejected, its path is no longer */
} manner;

static manner how;

/* The logits of the pass, by node + 1. */
static float *row_of[TS_TREE_MOST + 1], *all_rows;

static int forward_kept(void *self, int64_t n_row, const int32_t *token, const int64_t *position,
                        const uint8_t *visible, int64_t n_want, const int64_t *want, float *out)
{
    const ts_model *m = self;
    const int       bad = m->forward(m->self, n_row, token, position, visible, n_want, want, out);
    const size_t    bytes = (size_t)(n_want * m->n_vocab) * sizeof *out;
    all_rows = malloc(bytes);
    memcpy(all_rows, out, bytes);
    for (int64_t i = 0; i < n_want; i++) /* the last of the prompt, then the nodes */
        row_of[want[i] - (n_row - n_want)] = all_rows + i * m->n_vocab;
    return bad;
}

static bool is_seen(int64_t cur, int64_t i)
{
    return (!how.nodes || i < how.nodes) && (!how.span || i - cur <= how.span);
}

static int64_t step(const ts_tree_verify_args *a, const manner *w, int64_t cur, int32_t t)
{
    int64_t next = -1;
    bool    ends = false;
    for (int64_t i = cur + 1; i < a->d.n_node; i++) {
        if (a->parent[i] != cur) continue;
        const bool left = next >= 0 ? w->passes : ends && w->leaves;
        if (!left) a->status[i] = TS_NODE_REJECTED;
        if (next < 0 && !ends && a->token[i] == t && is_seen(cur, i)) next = i;
        else if (next < 0 && w->stops) ends = true;
    }
    return next;
}

/* The walk again, over the logits of the library's pass. */
static ts_status tree_walks(const void *args, const ts_exec *x)
{
    static int64_t      n_cycle;
    ts_tree_verify_args a = *(const ts_tree_verify_args *)args;
    const ts_model      kept = { (void *)a.model, a.model->n_vocab, NULL, forward_kept };
    const manner        canon = { 0 }, *w = how.now_and_then && n_cycle++ % 2 ? &canon : &how;
    bool                rejected = false;
    double              margin = INFINITY;
    a.model = &kept;
    const ts_status s = ts_tree_verify(&a, x);
    if (s || !a.d.max_new) return s;
    *a.n_out = *a.n_path = 0;
    memset(a.status, 0, (size_t)a.d.n_node);
    for (int64_t cur = -1; *a.n_out < a.d.max_new;) {
        const double  u = a.d.temperature > 0 ? a.u[*a.n_out] : 0;
        const int32_t t = ts_tree_pick(row_of[cur + 1], kept.n_vocab, a.d.temperature, u, &margin);
        a.out[(*a.n_out)++] = t;
        const int64_t next = step(&a, w, cur, t);
        if (next < 0) break;
        for (int64_t i = 0; i < next; i++) rejected |= a.status[i] == TS_NODE_REJECTED;
        if (w->depth && rejected && *a.n_path >= w->depth) break;
        a.status[next] = TS_NODE_ACCEPTED;
        a.path[(*a.n_path)++] = (int32_t)next;
        cur = next;
    }
    for (int64_t i = *a.n_out; i < a.d.max_new; i++) a.out[i] = -1;
    for (int64_t i = *a.n_path; i < a.d.n_node; i++) a.path[i] = -1;
    free(all_rows);
    return TS_OK;
}

static const ts_tree_table walks = { .verify = tree_walks, .verify_workspace = tree_bytes };

typedef struct counts {
    int  right, common, wrong;
    char rule[128];
} counts;

/* Judged in all cases that show where walks end. */
static counts judge(const ts_tree_table *t)
{
    static const char *const families[] = { "normal", "star",  "late", "chain", "breadth",
                                            "twins",  "depth", "hot",  "rope" };
    const ts_case           *c = ts_task_called("tree_verify")->cases();
    counts                   n = { 0 };
    for (; c->use; c++) {
        question q;
        bool     is = false;
        for (size_t i = 0; i < sizeof families / sizeof *families; i++)
            is |= !strcmp(c->family, families[i]);
        if (!is || !(c->use & TS_USE_CHECK) || c->use & TS_USE_COVER) continue;
        if (c->dim[0] * c->dim[1] > (SANITIZED ? 7000 : 100000)) continue;
        ask(&q, "tree_verify", c);
        const char *rule = verdict(&q, t);
        n.right += rule && !*rule, n.common += rule && *rule, n.wrong += !rule;
        if (rule && *rule) strcpy(n.rule, rule);
        close_question(&q);
    }
    assert_true(n.right + n.common + n.wrong > 20);
    return n;
}

/* One manner in all cycles is common. */
TEST(walks_that_end_at_a_wrong_sibling)
{
    how = (manner) { 0 };
    counts n = judge(&walks);
    assert_true(n.common == 0 && n.wrong == 0);
    for (int i = 1; i < 8; i++) {
        how = (manner) { .stops = i & 1, .leaves = i >> 1 & 1, .passes = i >> 2 & 1 };
        if (how.leaves && !how.stops) continue;
        n = judge(&walks);
        assert_true(n.common > 5);
        assert_int_equal(n.wrong, 0);
        assert_string_equal(n.rule, how.stops
                                        ? "after a rejected node the walk goes on to its siblings"
                                        : "the siblings of an accepted node are rejected, not "
                                          "unreached");
    }
    how = (manner) { .stops = true, .leaves = true, .now_and_then = true };
    assert_true(judge(&walks).wrong > 3);
    how = (manner) { .passes = true, .now_and_then = true };
    assert_true(judge(&walks).wrong > 3);
}

/* No other shorter prefix is: a mask of 64 or 128 nodes, a path that is cut. */
TEST(walks_that_lose_nodes)
{
    static const int64_t most[] = { 64, 128 };
    for (int i = 0; i < 2; i++)
        for (int passes = 0; passes < 2; passes++) {
            how = (manner) { .nodes = most[i], .passes = passes };
            assert_seen(judge(&walks).wrong > 0);
            how = (manner) { .span = most[i], .passes = passes };
            assert_seen(judge(&walks).wrong > 0);
        }
    for (int64_t depth = 1; depth < 4; depth++) {
        how = (manner) { .depth = depth };
        assert_seen(judge(&walks).wrong > 0);
        how.passes = true;
        assert_seen(judge(&walks).wrong > 0);
    }
}

/* As entrants: one wrong case is a FAIL. */
TEST(mutants_of_the_walk)
{
    static const char *const wrong[] = { "nodes_past_64_never_taken",
                                         "siblings_past_128_never_taken", "path_no_longer_than_32",
                                         "no_token_after_the_path", "unreached_is_rejected" };
    static const char        common[] = "stops_at_the_first_wrong_sibling";
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const counts n = judge(ts_tree_verify_mutant(wrong[i]));
        if (!SANITIZED && !n.wrong)
            fail_msg("%s: %d right, %d common", wrong[i], n.right, n.common);
    }
    const counts n = judge(ts_tree_verify_mutant(common));
    assert_true(n.wrong == 0 && n.common > 5);
}

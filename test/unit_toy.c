/* SPDX-License-Identifier: Apache-2.0 */
/* unit_toy.c - tests that the judge's models depend on every token: another earlier token, or two
 * swapped ones, change the greedy token in at least 95 % of trials.
 *
 * With a model that did not depend on them, wrong strings would pass. A pass over a tree is bitwise
 * identical to plain strings. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "model_draw.h"
#include "rng.h"
#include "tree_verify_inside.h"
#include "unit.h"

enum { TRIALS = SANITIZED ? 100 : 400, SEEDS = SANITIZED ? 2 : 8, MOST = 64 };

static int64_t greedy(const ts_toy *m, int64_t n, const int32_t *text, float *row)
{
    const int64_t V = m->word[TS_TOY_VOCAB];
    int64_t       best = 0;
    assert_int_equal(ts_toy_next(m, n, text, row), 0);
    for (int64_t t = 1; t < V; t++)
        if (row[t] > row[best]) best = t;
    return best;
}

typedef struct kind {
    const char *name;
    int         kind;
    int64_t     n_vocab, longest;
} kind;

/* A table of all strings of 3 tokens; the others say what follows a string of any length. */
static const kind kinds[] = {
    { "hash", TS_TOY_HASH, 97, 50 },     { "hash, many tokens", TS_TOY_HASH, 4099, 20 },
    { "rope", TS_TOY_ROPE, 97, 20 },     { "rope, longer", TS_TOY_ROPE, 257, 60 },
    { "noise", TS_TOY_NOISE, 4099, 50 }, { "table", TS_TOY_TABLE, 40, 3 },
};

static void draw(const kind *k, uint64_t seed, ts_drawn *m)
{
    const int64_t n = k->kind == TS_TOY_TABLE ? ts_tree_states(k->n_vocab, k->longest) : 0;
    ts_model_draw(m, k->kind, seed, k->n_vocab, n);
    for (int64_t i = 0; i < n * k->n_vocab; i++)
        ts_model_row(m, 0)[i] = (float)(2 * ts_normal(seed + 1, i));
}

/* Of TRIALS, in how many the greedy token was another; `swap` changes places instead of tokens. */
static double changed(const kind *k, bool swap)
{
    float   *row = calloc((size_t)k->n_vocab, sizeof *row);
    ts_drawn m;
    int      n = 0;
    draw(k, 11, &m);
    const ts_toy toy = ts_model_toy(&m);
    for (int i = 0; i < TRIALS; i++) {
        int32_t       text[MOST];
        const int64_t len = 2 + (int64_t)(ts_bits(1, i) % (uint64_t)(k->longest - 1));
        const int64_t a = (int64_t)(ts_bits(2, i) % (uint64_t)len);
        const int64_t b = (a + 1 + (int64_t)(ts_bits(3, i) % (uint64_t)(len - 1))) % len;
        for (int64_t t = 0; t < len; t++)
            text[t] = (int32_t)(ts_bits((uint64_t)i + 10, t) % (uint64_t)k->n_vocab);
        if (text[a] == text[b]) text[b] = (text[b] + 1) % (int32_t)k->n_vocab;
        const int64_t before = greedy(&toy, len, text, row);
        const int32_t other = text[a];
        text[a] = swap ? text[b] : (int32_t)((text[a] + 1) % k->n_vocab);
        if (swap) text[b] = other;
        n += greedy(&toy, len, text, row) != before;
    }
    ts_model_free(&m);
    free(row);
    return (double)n / TRIALS;
}

TEST(test_power)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int swap = 0; swap < 2; swap++) {
            const double share = changed(&kinds[i], swap);
            print_message("%s, %s: %.1f %%\n", kinds[i].name, swap ? "swapped" : "replaced",
                          100 * share);
            assert_true(share >= 0.95);
        }
}

/* A plain string as a pass: every row has the bits of next. And a tree: two branches behind a
 * prompt, numbered in turn. */
TEST(test_pass_is_plain)
{
    enum { P = 5, N = 6, R = P + N };
    const int32_t parent[N] = { -1, -1, 0, 1, 2, 3 };
    for (size_t i = 0; i < 5; i++) {
        const int64_t V = kinds[i].n_vocab;
        float  *got = calloc((size_t)(R * V), sizeof *got), *want = calloc((size_t)V, sizeof *want);
        int32_t token[R], text[R];
        int64_t position[R], rows[R];
        uint8_t visible[R * R] = { 0 };
        ts_drawn m;
        draw(&kinds[i], 5 + i, &m);
        const ts_toy toy = ts_model_toy(&m);
        for (int64_t r = 0; r < R; r++) {
            const int64_t above = r < P ? r - 1 : parent[r - P] < 0 ? P - 1 : P + parent[r - P];
            token[r] = (int32_t)(ts_bits(i, r) % (uint64_t)V);
            position[r] = above < 0 ? 0 : position[above] + 1;
            if (above >= 0) memcpy(visible + r * R, visible + above * R, R);
            visible[r * R + r] = 1;
            rows[r] = r;
        }
        assert_int_equal(ts_toy_forward(&toy, R, token, position, visible, R, rows, got), 0);
        for (int64_t r = 0; r < R; r++) {
            int64_t n = 0;
            for (int64_t c = 0; c < R; c++)
                if (visible[r * R + c]) text[n++] = token[c];
            assert_int_equal(ts_toy_next(&toy, n, text, want), 0);
            assert_memory_equal(got + r * V, want, (size_t)V * sizeof *want);
        }
        ts_model_free(&m);
        free(got), free(want);
    }
}

/* What only the rows of the prompt see reaches the nodes by way of them; and positions count. */
TEST(test_pass_has_power)
{
    enum { R = 6 };
    for (size_t i = 0; i < 4; i++) {
        const int64_t V = kinds[i].n_vocab, last = R - 1;
        float        *a = calloc((size_t)V, sizeof *a), *b = calloc((size_t)V, sizeof *b);
        int32_t       token[R] = { 1, 2, 3, 4, 5, 6 };
        int64_t       position[R] = { 0, 1, 2, 3, 4, 4 };
        uint8_t       visible[R * R] = { 0 };
        ts_drawn      m;
        draw(&kinds[i], 3 + i, &m);
        const ts_toy toy = ts_model_toy(&m);
        for (int64_t r = 0; r < R; r++)
            for (int64_t c = 0; c <= r; c++) visible[r * R + c] = r != last || c != last - 1;
        assert_int_equal(ts_toy_forward(&toy, R, token, position, visible, 1, &last, a), 0);
        visible[2 * R + 4] = 1; /* a prompt row sees the cousin */
        assert_int_equal(ts_toy_forward(&toy, R, token, position, visible, 1, &last, b), 0);
        assert_memory_not_equal(a, b, (size_t)V * sizeof *a);
        visible[2 * R + 4] = 0;
        token[4] = 7; /* unseen */
        assert_int_equal(ts_toy_forward(&toy, R, token, position, visible, 1, &last, b), 0);
        assert_memory_equal(a, b, (size_t)V * sizeof *a);
        position[last] = 5;
        assert_int_equal(ts_toy_forward(&toy, R, token, position, visible, 1, &last, b), 0);
        assert_memory_not_equal(a, b, (size_t)V * sizeof *a);
        ts_model_free(&m);
        free(a), free(b);
    }
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int64_t in_common(const float *a, const float *b, int64_t n)
{
    int64_t both = 0;
    for (int64_t i = 0, k = 0; i < n && k < n; i += a[i] <= b[k]) {
        both += a[i] == b[k];
        k += b[k] < a[i];
    }
    return both;
}

/* The timed model: strings share neither logits nor what they add up to, so that nothing of one
 * row saves work on another; logits are within what the oracle's table reaches; the largest ones
 * differ; the most probable token has a share as in a law that is worth searching. */
TEST(test_noise)
{
    enum { V = 32000, N = 24 };
    float   *row = calloc((size_t)N * V, sizeof *row);
    double   sum[N], best = 0;
    uint32_t digest[N];
    ts_drawn m;
    ts_model_draw(&m, TS_TOY_NOISE, 17, V, 0);
    const ts_toy toy = ts_model_toy(&m);
    for (int32_t i = 0; i < N; i++) { /* of two tokens, of which each is another's */
        const int32_t text[] = { i / 6, i % 6 };
        float *const  x = row + (int64_t)i * V;
        assert_int_equal(ts_toy_next(&toy, 2, text, x), 0);
        digest[i] = ts_toy_digest(&toy, x);
        qsort(x, V, sizeof *x, by_size);
        assert_true(x[0] > -4 && x[V - 1] < 11);
        for (int64_t t = V - 100; t < V; t++) assert_true(x[t] > x[t - 1]);
        sum[i] = 0;
        for (int64_t t = 0; t < V; t++) sum[i] += exp((double)x[t]);
        best += exp((double)x[V - 1]) / sum[i] / N;
        for (int32_t k = 0; k < i; k++) {
            assert_true(in_common(x, row + (int64_t)k * V, V) < V / 50);
            assert_true(fabs(sum[i] / sum[k] - 1) > 1e-9);
            assert_true(digest[i] != digest[k]);
        }
    }
    print_message("noise: the most probable has %.1f %% on average\n", 100 * best);
    assert_true(best > 0.05 && best < 0.5);
    ts_model_free(&m);
    free(row);
}

TEST(test_refuses)
{
    const int32_t text[] = { 0, 97 }, far = -1;
    float         row[97];
    ts_drawn      m;
    draw(&kinds[0], 1, &m);
    const ts_toy toy = ts_model_toy(&m);
    assert_int_not_equal(ts_toy_next(&toy, 0, text, row), 0);
    assert_int_not_equal(ts_toy_next(&toy, 2, text, row), 0);
    assert_int_not_equal(ts_toy_next(&toy, 1, &far, row), 0);
    ts_model_free(&m);
}

/* Drafts that never match would let any walk pass: every cycle accepts a node, in every case that
 * has room for one and whose rows are rows. */
TEST(test_drafts_match)
{
    for (const ts_case *c = ts_tree_verify_cases(); c->use & TS_USE_CHECK; c++) {
        const int64_t n_node = c->dim[NODES], most = c->dim[MAX_NEW];
        if (n_node < 1 || most < 1 || c->dim[VOCAB] > 1000) continue;
        if (!strncmp(c->family, "nonfinite", 9) || !strcmp(c->family, "fails")) continue;
        bool refused;
        if (ts_tree_function(c, &refused) != TS_TREE_VERIFY) continue; /* no script of cycles */
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            ts_tree_quiz q;
            ts_tree_draw(c, seed, &q);
            const ts_toy   m = ts_model_toy(&q.model);
            const int32_t *cycle = q.script;
            for (int64_t i = 0; i < c->dim[CYCLES]; i++, cycle += 1 + *cycle + 2 * n_node) {
                ts_tree_walk w;
                ts_tree_decode(&m, cycle, n_node, most, ts_tree_temperature(c), q.u + i * most,
                               NULL, &w);
                assert_true(w.n_path >= 1);
                ts_tree_walk_free(&w);
            }
            ts_tree_quiz_free(&q);
        }
    }
}

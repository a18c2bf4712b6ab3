/* SPDX-License-Identifier: Apache-2.0 */
/* unit_tree_verify_random.c [cuda] - ten thousand trees, cycle after cycle, against plain decoding;
 * and the law of what residual sampling emits. TREE_SEED in the environment replays a run. */
#include "unit_tree_verify.h"

enum { CYCLES = 4, TREES = 10000, NODES = 40 };

/* ---- trees ---- */

typedef enum shape { CHAIN, STAR, BREADTH_FIRST, DEPTH_FIRST, ANY, N_SHAPES } shape;

static int32_t parent_of(shape s, int64_t i, int64_t fan, int64_t deep)
{
    if (s == CHAIN) return (int32_t)i - 1;
    if (s == STAR) return -1;
    if (s == BREADTH_FIRST) return (int32_t)((i + fan) / fan) - 2;
    if (s == DEPTH_FIRST) return i % deep ? (int32_t)i - 1 : -1; /* one path after the other */
    return (int32_t)(below(i + 1) - 1);
}

/* Children of the true path mostly say what plain decoding will, often behind wrong siblings or
 * twice; the others say anything, and often a token that is right somewhere else. */
static tree drawn_tree(int64_t n_vocab, const int32_t *plain)
{
    const shape   s = (shape)below(N_SHAPES);
    const int64_t fan = 2 + below(3), deep = 1 + below(8);
    int           is_true[NODES + 1] = { 1 };
    tree          g = { .n = below(NODES + 1) };
    for (int64_t i = 0; i < g.n; i++) {
        g.parent[i] = parent_of(s, i, fan, deep);
        const int64_t depth = depth_of(&g, i);
        const int     right = is_true[g.parent[i] + 1] && below(10) < (s == CHAIN ? 9 : 6);
        g.token[i] = right      ? plain[depth - 1]
                     : below(2) ? plain[below(MOST_OUT - 8)]
                                : (int32_t)below(n_vocab);
        is_true[i + 1] = is_true[g.parent[i] + 1] && g.token[i] == plain[depth - 1];
    }
    return g;
}

TEST(equals_plain_decoding)
{
    int64_t n_trees = 0, n_accepted = 0, n_behind = 0, n_truncated = 0;
    for (int sequence = 0; n_trees < TREES; sequence++) {
        const int64_t n_vocab = 2 + below(sequence % 3 ? 20 : 200);
        const double  temperature = sequence % 2 ? 0.8 : 0;
        text          prompt = { .n = 1 + below(6) };
        toy           t;
        toy_make(&t, sequence % 5 ? TOY_HASH : TOY_TRANSFORMER, n_vocab, ts_bits(seed, n_drawn++));
        ts_cpu_set_mask(masks[sequence % N_MASKS]);
        for (int64_t i = 0; i < prompt.n; i++) prompt.token[i] = (int32_t)below(n_vocab);
        for (int cycle = 0; cycle < CYCLES && prompt.n < MOST_TEXT; cycle++, n_trees++) {
            double  u[MOST_OUT];
            int32_t plain[MOST_OUT];
            for (int i = 0; i < MOST_OUT; i++) u[i] = fraction();
            const int64_t most = below(4) ? NODES + 1 : below(4); /* no path is longer */
            decode(&t, &prompt, t.kind == TOY_HASH ? MOST_OUT : 12, temperature, u, plain);
            for (int i = 12; t.kind != TOY_HASH && i < MOST_OUT; i++) plain[i] = plain[i % 12];
            tree g = drawn_tree(n_vocab, plain);
            if (t.kind != TOY_HASH && g.n > 10) g.n = 10;
            const int64_t  before = t.n_forward;
            const verified v = verify(&t, &prompt, &g, most, temperature, temperature ? u : NULL);
            is_right(&v, &g, most, plain);
            assert_int_equal(t.n_forward - before, most > 0);
            assert_int_equal(t.n_next, 0);
            if (most > 0 && sequence % 10 == 0) was_asked_well(&t, &prompt, &g);
            n_accepted += v.n_path;
            n_truncated += v.n_out == most;
            for (int64_t i = 0; i < v.n_path; i++)
                for (int64_t j = 0; j < v.path[i]; j++)
                    n_behind += g.parent[j] == g.parent[v.path[i]];
            for (int64_t i = 0; i < v.n_out; i++) prompt.token[prompt.n++] = v.out[i];
        }
        toy_free(&t);
    }
    ts_cpu_set_mask(~0u);
    print_message("%" PRId64 " trees, %" PRId64 " nodes accepted, %" PRId64
                  " siblings passed over, %" PRId64 " truncated\n",
                  n_trees, n_accepted, n_behind, n_truncated);
    assert_true(n_accepted > n_trees && n_behind > 1000 && n_truncated > 500);
}

/* A vocabulary of many pieces, on any number of threads and by any instructions. */
TEST(large_vocabularies)
{
    enum { N_VOCAB = 60000 };
    for (int trial = 0; trial < 6; trial++) {
        const double temperature = trial % 2 ? 0.8 : 0;
        text         prompt = { 2, { 7, 59999 } };
        double       u[8];
        int32_t      plain[8];
        toy          t;
        toy_make(&t, TOY_HASH, N_VOCAB, ts_bits(seed, n_drawn++));
        for (int i = 0; i < 8; i++) u[i] = fraction();
        decode(&t, &prompt, 8, temperature, u, plain);
        const tree g = { 4, { plain[0], 5, plain[1], plain[2] }, { -1, -1, 0, 2 } };
        for (int i = 0; i < N_MASKS * 3; i++) {
            verified                  v;
            const ts_tree_verify_args a = verify_args(&t, &prompt, &g, 8, temperature, u, &v);
            ts_cpu_set_mask(masks[i / 3]);
            memset(&v, 0x80, sizeof v);
            assert_int_equal(run_args(&a, 1 + i % 3), TS_OK);
            is_right(&v, &g, 8, plain);
        }
        toy_free(&t);
    }
    ts_cpu_set_mask(~0u);
}

/* ---- residual sampling ---- */

enum { WORDS = 8, DRAWS = 200000, MOST_CHILDREN = 4 };

static int32_t from_law(const double *p, double u)
{
    double total = 0, sum = 0;
    for (int i = 0; i < WORDS; i++) total += p[i];
    for (int32_t i = 0; i < WORDS; i++)
        if ((sum += p[i]) > u * total) return i;
    return WORDS - 1;
}

static double chi_square(const double *p, const int64_t *count)
{
    double total = 0, chi = 0;
    for (int i = 0; i < WORDS; i++) total += p[i];
    for (int i = 0; i < WORDS; i++) {
        const double want = DRAWS * p[i] / total, d = (double)count[i] - want;
        if (want > 0) chi += d * d / want;
        else assert_int_equal(count[i], 0);
    }
    return chi;
}

/* Seven degrees of freedom exceed this once in some five million times. */
static const double limit = 46;

TEST(residual_has_the_target_law)
{
    const ts_exec x = { 0 };
    double        worst = 0;
    int64_t       n_accepted = 0;
    for (int trial = 0; trial < 10; trial++) {
        const int64_t n_child = trial % (MOST_CHILDREN + 1);
        double        p[WORDS], q[WORDS];
        int64_t       honest[WORDS] = { 0 }, naive[WORDS] = { 0 };
        for (int i = 0; i < WORDS; i++) {
            p[i] = (i == WORDS - 1 ? 0.5 : 0.05) + fraction() * fraction();
            q[i] = trial < 5 ? 3 * (0.05 + fraction() * fraction()) : i < 4 ? 7 : 0.1;
        }
        if (trial == 8) p[3] = 0; /* what cannot be is never emitted */
        for (int draw = 0; draw < DRAWS; draw++) {
            int32_t child[MOST_CHILDREN], token = -1;
            int64_t accepted = -2;
            double  u[MOST_CHILDREN + 1];
            for (int64_t j = 0; j < n_child; j++) child[j] = from_law(q, fraction());
            for (int64_t j = 0; j <= n_child; j++) u[j] = fraction();
            const ts_tree_residual_args a = { WORDS, n_child, p, q, child, u, &token, &accepted };
            assert_int_equal(ts_tree_residual(&a, &x), TS_OK);
            assert_true(accepted == -1 || token == child[accepted]);
            honest[token]++;
            n_accepted += accepted >= 0;
            naive[accepted >= 0 ? token : from_law(p, u[n_child])]++; /* p as it was */
        }
        const double chi = chi_square(p, honest);
        worst = fmax(worst, chi);
        assert_true(chi < limit);
        if (n_child > 0 && trial >= 5 && trial != 8) assert_true(chi_square(p, naive) > 10 * limit);
    }
    print_message("largest chi-square %.1f of %g, %" PRId64 " accepted\n", worst, limit,
                  n_accepted);
    assert_true(n_accepted > DRAWS);
}

/* Where both laws are one, the first child is always taken. */
TEST(residual_of_equal_laws)
{
    const ts_exec x = { 0 };
    double        p[WORDS], q[WORDS];
    for (int i = 0; i < WORDS; i++) p[i] = 1 + (double)below(7), q[i] = 4 * p[i];
    for (int draw = 0; draw < 10000; draw++) {
        int32_t      child[2] = { from_law(q, fraction()), from_law(q, fraction()) }, token;
        int64_t      accepted;
        const double u[3] = { fraction() * 0.999999, fraction(), fraction() };
        const ts_tree_residual_args a = { WORDS, 2, p, q, child, u, &token, &accepted };
        assert_int_equal(ts_tree_residual(&a, &x), TS_OK);
        assert_int_equal(accepted, 0);
        assert_int_equal(token, child[0]);
    }
}

/* A refusal that rounding alone can explain leaves p as it was, and never emits what cannot be. */
TEST(residual_of_a_hair)
{
    const ts_exec x = { 0 };
    const double  p[] = { 0, 1, 0x1p-1000, 0 }, q[] = { 0, 1, 0, 0 };
    const int32_t child[] = { 1, 1 };
    for (int i = 0; i < 2; i++) {
        const double                last = 1 - 0x1p-53, u[] = { last, last, i ? last : 0 };
        int32_t                     token = 77;
        int64_t                     accepted = 77;
        const ts_tree_residual_args a = { 4, 2, p, q, child, u, &token, &accepted };
        assert_int_equal(ts_tree_residual(&a, &x), TS_OK);
        assert_int_equal(token, 1);
    }
    const double less[] = { 0, 1 - 0x1p-53, 0x1p-1000, 0 }, one[] = { 0, 1, 0x1p-1000, 0 };
    for (int i = 0; i < 2; i++) { /* sums that are off by a rounding */
        const double                last = 1 - 0x1p-53, u[] = { last, last, last };
        int32_t                     token = 77;
        int64_t                     accepted = 77;
        const ts_tree_residual_args a = { 4,     2, i ? less : one, i ? one : less,
                                          child, u, &token,         &accepted };
        assert_int_equal(ts_tree_residual(&a, &x), TS_OK);
        assert_true(token == 1 || token == 2);
    }
}

TEST(residual_refusals)
{
    const ts_exec x = { 0 };
    const double  p[] = { 1, 2, 0 }, q[] = { 1, 0, 3 }, zero[] = { 0, 0, 0 };
    const double  minus[] = { 1, -1, 1 }, nan[] = { 1, NAN, 1 }, inf[] = { 1, INFINITY, 1 };
    const double  tiny[] = { 0x1p-1074, 0, 0 }; /* whose share cannot be said */
    const double  u[] = { 0.5, 0.5, 0.5 }, one[] = { 0.5, 0.5, 1 };
    const int32_t child[] = { 0, 2 }, high[] = { 0, 3 }, unlikely[] = { 0, 1 }, low[] = { -1, 2 };
    const double  below_0[] = { 0.5, -0.5, 0.5 }, no_number[] = { NAN, 0.5, 0.5 };
    int32_t       token = 77;
    int64_t       accepted = 77;
    ts_tree_residual_args       a;
    const ts_tree_residual_args good = { 3, 2, p, q, child, u, &token, &accepted };
    const double *const         laws[] = { zero, minus, nan, inf, tiny, NULL };
    for (int i = 0; i < 6; i++) {
        a = good, a.p = laws[i];
        assert_int_equal(ts_tree_residual(&a, &x), TS_E_ARG);
        a = good, a.q = laws[i];
        assert_int_equal(ts_tree_residual(&a, &x), TS_E_ARG);
    }
    a = good, a.child = high;
    assert_int_equal(ts_tree_residual(&a, &x), TS_E_ARG);
    a = good, a.child = unlikely;
    assert_int_equal(ts_tree_residual(&a, &x), TS_E_ARG);
    const double around[] = { 5, 1, 0, 3, 5 }; /* what lies around a law is none of it */
    a = good, a.child = high, a.q = around + 1;
    assert_int_equal(ts_tree_residual(&a, &x), TS_E_ARG);
    a = good, a.child = low, a.q = around + 1;
    assert_int_equal(ts_tree_residual(&a, &x), TS_E_ARG);
    for (int i = 0; i < 3; i++) {
        a = good, a.u = (const double *const[]) { one, below_0, no_number }[i];
        assert_int_equal(ts_tree_residual(&a, &x), TS_E_ARG);
    }
    for (int i = 0; i < 4; i++) { /* each of the pointers alone */
        a = good;
        if (i == 0) a.u = NULL;
        else if (i == 1) a.token = NULL;
        else if (i == 2) a.accepted = NULL;
        else a.child = NULL;
        assert_int_equal(ts_tree_residual(&a, &x), TS_E_ARG);
    }
    a = good, a.n_vocab = (int64_t)INT32_MAX + 1;
    assert_int_equal(ts_tree_residual(&a, &x), TS_E_SHAPE);
    a = good, a.n_child = INT64_MAX;
    assert_int_equal(ts_tree_residual(&a, &x), TS_E_SHAPE);
    a = good, a.n_vocab = 0;
    assert_int_equal(ts_tree_residual(&a, &x), TS_E_SHAPE);
    a = good, a.n_child = -1;
    assert_int_equal(ts_tree_residual(&a, &x), TS_E_SHAPE);
    assert_int_equal(ts_tree_residual(NULL, &x), TS_E_ARG);
    assert_int_equal(ts_tree_residual(&good, NULL), TS_E_ARG);
    assert_true(token == 77 && accepted == 77);
    a = good, a.n_child = 0, a.q = NULL, a.child = NULL;
    assert_int_equal(ts_tree_residual(&a, &x), TS_OK);
    assert_true(token == 1 && accepted == -1);
    a.q = nan; /* not looked at */
    assert_int_equal(ts_tree_residual(&a, &x), TS_OK);
    assert_true(token == 1 && accepted == -1);
    const double  late[] = { 0, 0, 3 }, none[] = { 0 };
    const int32_t last[] = { 2 };
    const double  nil[] = { 0, 0.5 };
    const double  even[] = { 1, 1, 1 };
    a = good, a.n_child = 1, a.child = last, a.q = even, a.u = nil; /* p has none of it */
    assert_int_equal(ts_tree_residual(&a, &x), TS_OK);
    assert_true(token != 2 && accepted == -1);
    a = good, a.n_child = 0;
    const double small[] = { 0, 0x1p-1023, 0 };
    a.p = small; /* whose inverse is the largest power of two */
    assert_int_equal(ts_tree_residual(&a, &x), TS_OK);
    assert_int_equal(token, 1);
    a.p = late, a.u = none; /* what has no weight is never chosen */
    assert_int_equal(ts_tree_residual(&a, &x), TS_OK);
    assert_int_equal(token, 2);
}

int main(int argc, char **argv)
{
    const int absent = choose_device(argc, argv);
    if (absent) return absent;
    draw_seed("TREE_SEED");
    return unit_run();
}

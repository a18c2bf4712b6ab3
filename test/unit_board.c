/* SPDX-License-Identifier: Apache-2.0 */
/* unit_board.c - tests statistics and score, on data whose result is known. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "match.h"
#include "quantile.h"
#include "rng.h"
#include "score.h"

/* ---- statistics ---- */

TEST(medians)
{
    double odd[] = { 5, 1, 3 }, even[] = { 4, 1, 3, 2 }, many[100];
    int    held = 0;
    assert_true(ts_median(odd, 3) == 3 && ts_median(even, 4) == 2.5);
    assert_true(ts_quantile(even, 4, 0) == 1 && ts_quantile(even, 4, 1) == 4);
    assert_true(isnan(ts_median(odd, 0)));
    for (int i = 0; i < 100; i++) many[i] = i + 1;
    const ts_interval m = ts_median_interval(many, 100);
    assert_true(m.mid == 50.5 && m.lo == 40 && m.hi == 61); /* the textbook's ranks for n = 100 */
    const ts_interval low = ts_quantile_interval(many, 100, 0.25);
    assert_true(low.mid == 25.75 && low.lo == 17 && low.hi == 35);
    const ts_interval few = ts_median_interval(odd, 3);
    assert_true(few.lo == 1 && few.hi == 5);
    for (uint64_t seed = 0; seed < 2000; seed++) {
        for (int i = 0; i < 41; i++) many[i] = pow(ts_normal(seed, i), 3);
        const ts_interval k = ts_median_interval(many, 41);
        held += k.lo <= 0 && k.hi >= 0;
    }
    assert_in_range(held, 1880, 1960); /* 95 %, or a little more */
}

/* A call of 1 with spread sigma, log-normal, and one in ten disturbed by up to 60 %. The pair
 * shares drift, which pairing takes out. */
static double noisy(uint64_t seed, int64_t i, double sigma)
{
    const double u = ts_uniform(seed ^ 0x7a11, i);
    return exp(sigma * ts_normal(seed, i) + (u > 0.8 ? 3 * (u - 0.8) : 0));
}

static ts_match match_of(uint64_t seed, double difference, double sigma, int workloads, int n)
{
    ts_pair *p = malloc((size_t)(workloads * n) * sizeof *p);
    ts_match m = { 0 };
    assert_non_null(p);
    for (int k = 0; k < workloads; k++)
        for (int i = 0; i < n; i++) {
            const int64_t at = k * n + i;
            const double  drift = exp(0.1 * sin(0.1 * i) + 0.03 * ts_normal(seed + 99, at));
            p[at] = (ts_pair) { k, i, drift * noisy(3 * seed, 2 * at, sigma),
                                drift * noisy(3 * seed, 2 * at + 1, sigma) * (1 + difference) };
        }
    assert_true(ts_match_pairs(p, (size_t)(workloads * n), seed, &m));
    assert_true(m.lo <= m.effect && m.effect <= m.hi);
    free(p);
    return m;
}

static ts_outcome simulate(uint64_t seed, double difference, double sigma, int workloads, int n)
{
    return match_of(seed, difference, sigma, workloads, n).outcome;
}

/* At either end, 2.5 % of the intervals miss it, or fewer. */
TEST(an_interval_holds_the_difference)
{
    enum { MATCHES = 1000 };
    int above = 0, below = 0;
    for (uint64_t s = 0; s < MATCHES; s++) {
        const ts_match m = match_of(s, 0.05, 0.02, 1, 100);
        above += m.lo > log(1.05);
        below += m.hi < log(1.05);
    }
    print_message("of %d intervals %d begin above the difference, %d end below\n", MATCHES, above,
                  below);
    assert_in_range(above, 5, 45);
    assert_in_range(below, 5, 45);
}

static void tally(const char *name, double difference, double sigma, int workloads, int matches,
                  int *count)
{
    memset(count, 0, 4 * sizeof *count);
    for (int s = 0; s < matches; s++)
        count[simulate((uint64_t)s + 1000, difference, sigma, workloads, 100)]++;
    print_message("%s: %d matches of 100 pairs: a %d, b %d, tie %d, noise %d\n", name, matches,
                  count[0], count[1], count[2], count[3]);
}

TEST(nobody_beats_himself)
{
    int c[4];
    tally("A/A, spread 2 %, 1 workload", 0, 0.02, 1, 1500, c);
    assert_int_equal(c[TS_OUTCOME_A] + c[TS_OUTCOME_B], 0);
    tally("A/A, spread 2 %, 4 workloads", 0, 0.02, 4, 500, c);
    assert_int_equal(c[TS_OUTCOME_A] + c[TS_OUTCOME_B], 0);
    tally("A/A, spread 15 %", 0, 0.15, 1, 500, c);
    assert_int_equal(c[TS_OUTCOME_A] + c[TS_OUTCOME_B], 0);
    assert_true(c[TS_OUTCOME_NOISE] > 490);
}

/* Calls that take once or ten times as long, by chance, in a judging run of normal depth: threads
 * that were woken on one core. */
static ts_outcome simulate_modes(uint64_t seed, double often, double factor)
{
    enum { WORKLOADS = 3, PAIRS = 45 };
    ts_pair  p[WORKLOADS * PAIRS];
    ts_match m = { 0 };
    for (int at = 0; at < WORKLOADS * PAIRS; at++) {
        double ns[2];
        for (int k = 0; k < 2; k++)
            ns[k] = noisy(7 * seed, 2 * at + k, 0.05) *
                    (ts_uniform(seed + 5, 2 * at + k) < 2 * often - 1 ? 10 : 1);
        p[at] = (ts_pair) { at / PAIRS, at % PAIRS, ns[0], ns[1] * factor };
    }
    assert_true(ts_match_pairs(p, WORKLOADS * PAIRS, seed, &m));
    return m.outcome;
}

TEST(modes_are_noise_and_not_a_win)
{
    enum { MATCHES = 150 };
    for (int often = 1; often <= 5; often += 2) {
        int equal[4] = { 0 }, five[4] = { 0 };
        for (uint64_t s = 0; s < MATCHES; s++) {
            equal[simulate_modes(s, 0.1 * often, 1)]++;
            five[simulate_modes(s, 0.1 * often, 14)]++;
        }
        print_message("one call in ten, %d times: of equals a %d, b %d, tie %d, noise %d; fourteen "
                      "times as fast: a %d of %d\n",
                      often, equal[0], equal[1], equal[2], equal[3], five[0], MATCHES);
        assert_int_equal(equal[TS_OUTCOME_A] + equal[TS_OUTCOME_B], 0);
        assert_int_equal(five[TS_OUTCOME_A], MATCHES);
    }
}

TEST(five_percent_is_found)
{
    int c[4];
    tally("B 5 % slower", 0.05, 0.02, 1, 500, c);
    assert_true(c[TS_OUTCOME_A] >= 475);
    assert_int_equal(c[TS_OUTCOME_B], 0);
    tally("A 5 % slower", 1 / 1.05 - 1, 0.02, 1, 500, c);
    assert_true(c[TS_OUTCOME_B] >= 475);
    assert_int_equal(c[TS_OUTCOME_A], 0);
    tally("B 2 % slower", 0.02, 0.02, 1, 500, c);
    assert_int_equal(c[TS_OUTCOME_B], 0);
    tally("B twice as slow, spread 20 %", 1, 0.2, 1, 200, c); /* wide, and beyond doubt */
    assert_int_equal(c[TS_OUTCOME_A], 200);
}

TEST(outcomes)
{
    assert_int_equal(ts_match_outcome(0.011, 0.03), TS_OUTCOME_A);
    assert_int_equal(ts_match_outcome(-0.03, -0.011), TS_OUTCOME_B);
    assert_int_equal(ts_match_outcome(0.009, 0.03), TS_OUTCOME_TIE);
    assert_int_equal(ts_match_outcome(-0.001, 0.001), TS_OUTCOME_TIE);
    assert_int_equal(ts_match_outcome(-0.03, 0.03), TS_OUTCOME_NOISE);
    assert_int_equal(ts_match_outcome(0.02, 0.08), TS_OUTCOME_NOISE);
    assert_int_equal(ts_match_outcome(0.5, 0.6), TS_OUTCOME_A);
    assert_int_equal(ts_match_outcome(-0.6, -0.5), TS_OUTCOME_B);
    assert_int_equal(ts_match_outcome(0.015, 0.055), TS_OUTCOME_TIE);
    assert_int_equal(ts_match_outcome(1.70, 3.68), TS_OUTCOME_A); /* five times as fast at least */
    assert_int_equal(ts_match_outcome(-3.68, -1.70), TS_OUTCOME_B);
    assert_int_equal(ts_match_outcome(1.5, 3.7), TS_OUTCOME_NOISE);
    assert_int_equal(ts_match_outcome((double)NAN, (double)NAN), TS_OUTCOME_NOISE);
    assert_string_equal(ts_outcome_name(TS_OUTCOME_NOISE), "noise");
}

/* The mean of medians, and pairs of one block drawn together. */
TEST(effect_of_pairs)
{
    const ts_pair p[] = { { 0, 0, 100, 110 }, { 0, 1, 100, 120 }, { 0, 2, 100, 5000 },
                          { 1, 0, 10, 10 },   { 1, 1, 10, 20 },   { 1, 2, 10, 1 } };
    ts_match      m, again;
    assert_true(ts_match_pairs(p, 6, 1, &m) && ts_match_pairs(p, 6, 1, &again));
    assert_true(fabs(m.effect - (log(1.2) + log(1)) / 2) < 1e-12);
    assert_true(m.lo == again.lo && m.hi == again.hi && m.outcome == again.outcome);
    assert_false(ts_match_pairs(p, 0, 1, &m));
}

/* Five players of known strength, Davidson's ties: the order and the distances come back, and the
 * intervals hold the truth. */
TEST(ratings_recover_strengths)
{
    enum { N = 5, ROUNDS = 120 };
    static const double truth[N] = { 1.3, 0.6, 0.6, -0.6, -1.9 };
    static ts_game      game[N * N * ROUNDS];
    ts_rating           r[N];
    size_t              n = 0;
    int                 held = 0;
    for (int k = 0; k < ROUNDS; k++)
        for (int a = 0; a < N; a++)
            for (int b = 0; b < a; b++, n++) {
                const double pa = exp(truth[a]), pb = exp(truth[b]), tie = 0.7 * sqrt(pa * pb);
                const double u = (ts_uniform(5, (int64_t)n) + 1) / 2 * (pa + pb + tie);
                game[n] = (ts_game) { a, b,
                                      u < pa        ? TS_OUTCOME_A
                                      : u < pa + pb ? TS_OUTCOME_B
                                                    : TS_OUTCOME_TIE };
            }
    assert_true(ts_rank(game, n, N, 1, r));
    for (int i = 0; i < N; i++) {
        const double want = 1500 + 400 / log(10) * truth[i];
        held += r[i].lo <= want && want <= r[i].hi;
        print_message("rating %.0f [%.0f %.0f], true %.0f\n", r[i].rating, r[i].lo, r[i].hi, want);
        assert_true(fabs(r[i].rating - want) < 60);
        assert_true(r[i].lo < r[i].rating && r[i].rating < r[i].hi && r[i].hi - r[i].lo < 120);
        assert_int_equal(r[i].rank, i == 2 ? 2 : i + 1); /* equals share a rank */
    }
    assert_true(held >= 4);
}

TEST(ratings_at_the_edges)
{
    const ts_game always[] = { { 0, 1, TS_OUTCOME_A },
                               { 0, 1, TS_OUTCOME_A },
                               { 0, 2, TS_OUTCOME_A },
                               { 1, 2, TS_OUTCOME_TIE },
                               { 1, 2, TS_OUTCOME_NOISE } };
    ts_rating     r[4];
    assert_true(ts_rank(always, 5, 4, 1, r)); /* entrants that always won, and that never played */
    assert_true(isfinite(r[0].rating) && r[0].rating > r[1].rating && r[0].rank == 1);
    assert_true(fabs(r[1].rating - r[2].rating) < 100);
    assert_true(ts_rank(always, 0, 2, 1, r)); /* no games: all equal */
    assert_true(fabs(r[0].rating - 1500) < 1e-6 && r[1].rank == 1);
    assert_true(ts_rank(always, 0, 0, 1, r));
}

/* ---- score ---- */

/* Times of a workload whose floor is 100, best known time 400 and textbook's 6400. */
static const ts_anchors USUAL = { 6400, 400 };

static double place(double ns)
{
    return ts_place(ns, 100, USUAL);
}

static void near_to(double got, double want)
{
    if (!(fabs(got - want) < 1e-9)) fail_msg("got %.12g, want %.12g", got, want);
}

TEST(places_on_the_scale)
{
    near_to(place(6400), 250);
    near_to(place(12800), 125);
    near_to(place(1600), 525); /* half of the way, in factors */
    near_to(place(400), 800);
    near_to(place(200), 900);
    near_to(place(100), 1000);
    near_to(place(50), 1000);
    near_to(place(1e12), 1); /* a PASS never has 0 */
    near_to(place(0), 1);
    near_to(place(NAN), 1);
    near_to(ts_place(400, 0, USUAL), 1);
    near_to(ts_place(100, 10, (ts_anchors) { 100, 400 }), 800); /* the textbook is the best known */
    near_to(ts_place(400, 10, (ts_anchors) { 100, 400 }), 200);
}

TEST(anchors_that_count_as_one)
{
    const ts_anchors none = { 0, 400 }, alike = { 435, 400 };
    near_to(ts_place(400, 100, none), 800);
    near_to(ts_place(800, 100, none), 400);
    near_to(ts_place(200, 100, none), 900);
    near_to(ts_place(435, 100, alike), 800 * 400 / 435.);
    near_to(ts_place(4000, 100, alike), 80);
    near_to(ts_place(110, 100, (ts_anchors) { 6400, 110 }), 800);
    near_to(ts_place(100, 100, (ts_anchors) { 6400, 100 }), 1000);
    near_to(ts_place(90, 100, (ts_anchors) { 6400, 90 }), 1000); /* a floor measured too high */
    near_to(ts_place(6400, 100, (ts_anchors) { 6400, 90 }), 250);
    near_to(ts_place(640, 100, (ts_anchors) { 640, 640 }), 800);
}

/* Falls with the time and never jumps, whatever the anchors; nor does it jump where the best known
 * version comes near the floor. */
TEST(the_scale_is_monotone_and_continuous)
{
    static const ts_anchors of[] = { { 6400, 400 }, { 0, 400 },    { 435, 400 },  { 6400, 105 },
                                     { 6400, 100 }, { 6400, 60 },  { 100, 6400 }, { 400, 400 },
                                     { 441, 400 },  { 6400, 110 }, { 104, 102 },  { 50, 50 } };
    const double            step = 1.0001;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (double ns = 20, was = 1000; ns < 1e6; ns *= step) {
            const double now = ts_place(ns, 100, of[i]);
            if (!(now <= was && was - now < 0.7 && now >= 1))
                fail_msg("anchors %zu, %g ns: %g after %g", i, ns, now, was);
            was = now;
        }
    for (double best = 90, was = 1000; best < 200; best *= step) {
        const double now = ts_place(best, 100, (ts_anchors) { 6400, best });
        if (!(now <= was && was - now < 0.7)) fail_msg("best %g: %g after %g", best, now, was);
        was = now;
    }
}

/* Ten entrants from naive to good are ordered as their times are, whatever the anchors. */
TEST(ten_are_ordered_as_their_times)
{
    static const double ns[] = { 9000, 6300, 5000, 3000, 2000, 1200, 800, 500, 410, 350 };
    double              was = 0;
    for (size_t i = 0; i < 10; i++) {
        const ts_workload w = { 100, ns[i], ns[i], ns[i] };
        const ts_score_in in = { .correct = true,
                                 .workload = &w,
                                 .anchor = &USUAL,
                                 .n_workloads = 1,
                                 .error = 0.01,
                                 .error_honest = 0.01,
                                 .io_bytes = 1 };
        const ts_score    s = ts_score_of(&in);
        if (!(s.score > was)) fail_msg("%g ns: %g after %g", ns[i], s.score, was);
        near_to(s.of_best, 400 / ns[i]);
        was = s.score;
    }
    assert_true(was > 800);
}

TEST(scores)
{
    const ts_workload w[] = { { 100, 200, 190, 210 }, { 100, 800, 790, 810 } };
    const ts_anchors  anchor[] = { USUAL, { 6400, 400 } };
    ts_score_in       in = { .correct = true,
                             .workload = w,
                             .anchor = anchor,
                             .n_workloads = 2,
                             .error = 0.04,
                             .error_honest = 0.01,
                             .cells_passed = 18,
                             .cells = 20,
                             .workspace_bytes = 3000,
                             .io_bytes = 1000 };
    ts_score          s = ts_score_of(&in);
    const double      P = log(0.02) / log(0.01), M = 1 / 1.5, speed = sqrt(900 * place(800));
    assert_true(fabs(s.S - 0.25) < 1e-12 && fabs(s.P - P) < 1e-12 && fabs(s.M - M) < 1e-12);
    assert_true(fabs(s.R - 0.9) < 1e-12 && fabs(s.S_min - 0.125) < 1e-12);
    assert_true(fabs(s.S_lo - sqrt(100. / 210 * 100 / 810)) < 1e-12);
    assert_true(fabs(s.S_hi - sqrt(100. / 190 * 100 / 790)) < 1e-12);
    near_to(s.speed, speed);
    near_to(s.of_best, 1);
    near_to(s.score, speed * pow(.9, .15) * pow(P, .1) * pow(M, .05));
    in.memory_honest = 1;
    assert_true(ts_score_of(&in).M < 0.95);
    in.memory_honest = 1.5; /* twice as much as the best known version */
    assert_true(ts_score_of(&in).M == 1);
    in.memory_honest = 9; /* less is not worth more */
    assert_true(ts_score_of(&in).M == 1);
    in.correct = false;
    assert_true(ts_score_of(&in).score == 0);
    in.correct = true;
    in.error = 0.001;
    assert_true(ts_score_of(&in).P == 1); /* better than honest code is not more than right */
    in.error = 1;                         /* right, and no more */
    assert_true(fabs(ts_score_of(&in).P - log(0.5) / log(0.01)) < 1e-12);
    in.error = 0.02; /* an error as large as twice the best known one is luck */
    assert_true(ts_score_of(&in).P == 1);
    in.error = 1;
    in.error_honest = 1; /* as everybody is, where answers are one rounding */
    assert_true(ts_score_of(&in).P == 1);
    const double above[] = { 1.000001, 1.5, 1e6, INFINITY, (double)NAN }; /* the bound */
    for (int i = 0; i < 5; i++) {
        in.error = above[i];
        assert_true(ts_score_of(&in).P == 0.01);
    }
    in.cells = 0;
    assert_true(ts_score_of(&in).R == 1);
}

/* Where a factor is as bad as can be, or no check of it was run. */
TEST(a_pass_never_scores_0)
{
    static const ts_workload slow = { 100, 1e15, 1e15, 1e15 };
    ts_score_in              in = { .correct = true,
                                    .workload = &slow,
                                    .anchor = &USUAL,
                                    .n_workloads = 1,
                                    .error = NAN,
                                    .error_honest = 0.01,
                                    .cells = 7,
                                    .workspace_bytes = 1e300,
                                    .io_bytes = 1 };
    assert_true(ts_score_of(&in).score == 1);
    const ts_workload w[] = { { 100, 400, 400, 400 },
                              { 100, 400, 400, 400 },
                              { 100, 400, 400, 400 } };
    const ts_anchors  anchor[] = { USUAL, USUAL, USUAL };
    in = (ts_score_in) { .correct = true, .workload = w, .anchor = anchor, .n_workloads = 3 };
    assert_true(ts_score_of(&in).score == 800); /* no robustness check was run */
    in.cells = 9;
    assert_true(ts_score_of(&in).score > 300);
}

TEST(no_anchors_no_score)
{
    const ts_workload w[] = { { 100, 200, 190, 210 }, { 100, 800, 790, 810 } };
    const ts_anchors  one[] = { USUAL, { 6400, 0 } };
    ts_score_in       in = { .correct = true, .workload = w, .n_workloads = 2, .io_bytes = 1 };
    for (int i = 0; i < 2; i++) {
        const ts_score s = ts_score_of(&in);
        assert_true(isnan(s.score) && isnan(s.speed) && isnan(s.of_best));
        near_to(s.S, 0.25); /* of the limit */
        assert_string_equal(ts_grade(true, false, s.score), "-");
        in.anchor = one; /* of one workload alone */
    }
    in.audit = true;
    assert_true(ts_score_of(&in).score == 0);
}

TEST(floors_and_grades)
{
    const ts_workload near = { 100, 99, 98, 100 }, clever = { 100, 50, 49, 51 };
    const ts_workload missing[] = { { 100, 100, 100, 100 }, { 100, 0, 0, 0 } };
    const ts_anchors  anchor[] = { USUAL, USUAL };
    ts_score_in       in = { .correct = true,
                             .workload = &near,
                             .anchor = anchor,
                             .n_workloads = 1,
                             .cells_passed = 1,
                             .cells = 1,
                             .error_honest = 0.01,
                             .io_bytes = 1 };
    ts_score          s = ts_score_of(&in);
    assert_true(s.S == 1 && s.score == 1000);
    in.audit = true;
    assert_true(ts_score_of(&in).score == 0);
    in.audit = false;
    in.workload = &clever; /* faster than the floor, in a way that the floor does not know */
    s = ts_score_of(&in);
    assert_true(s.S == 1 && s.score == 1000);
    in.workload = missing;
    in.n_workloads = 2;
    s = ts_score_of(&in);
    assert_true(fabs(s.S - sqrt(1e-3)) < 1e-12 && s.S_min == 1e-3);
    near_to(s.speed, sqrt(1000)); /* a workload without a time has the last place */
    in.n_workloads = 0;
    assert_true(ts_score_of(&in).S == 1e-3);
    static const struct {
        double      score;
        const char *grade;
    } table[] = {
        { 1000, "A+" }, { 900, "A+" }, { 899.9, "A" }, { 800, "A" }, { 650, "B" },
        { 450, "C" },   { 250, "D" },  { 249, "E" },   { 0, "E" },   { 800 - 1e-10, "A" }
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_string_equal(ts_grade(true, false, table[i].score), table[i].grade);
    assert_string_equal(ts_grade(false, false, 990), "F");
    assert_string_equal(ts_grade(true, true, 990), "-");
    assert_string_equal(ts_grade(true, false, (double)NAN), "-");
    assert_string_equal(ts_grade(false, false, (double)NAN), "F");
}

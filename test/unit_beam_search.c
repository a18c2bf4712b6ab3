/* SPDX-License-Identifier: Apache-2.0 */
/* unit_beam_search.c [cuda] - tests beam search: known bugs, one by one; ties; rejected calls. */
#include "unit_beam_search.h"

enum { EOS = 2, LONG = 1000 };

static const int32_t zeros[64];

static search solo(const toy *t, int64_t width, int64_t most, double alpha, int32_t eos)
{
    static const int64_t one[] = { 1 };
    return search_make((ts_beam_dims) { 1, width, most, alpha, eos }, t, zeros, one);
}

static void toy_table(toy *t, int64_t n_vocab,
                      void (*table)(const int32_t *, int64_t, float *, int64_t))
{
    toy_make(t, TOY_TABLE, n_vocab, 0);
    t->table = table;
}

/* ---- tables: generated tokens begin where the prompt's zeros end, and are never zero ---- */

static int64_t without_prompt(const int32_t **token, int64_t n)
{
    while (n > 0 && **token == 0) (*token)++, n--;
    return n;
}

/* Log-probabilities l of tokens 1 .. n; the rest of the mass is spread thin over all others. */
static void spread(float *out, int64_t n_vocab, int n, const double *l)
{
    double rest = 1;
    for (int i = 0; i < n; i++) rest -= exp(l[i]);
    for (int64_t v = 0; v < n_vocab; v++)
        out[v] = v == 0      ? (float)-INFINITY
                 : v - 1 < n ? (float)l[v - 1]
                             : (float)log(rest / (double)(n_vocab - 1 - n));
}

/* Token 1 at -4, then 1 at -1: -5 in all. EOS, token 2, at -3. */
static void table_held(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    n = without_prompt(&token, n);
    if (n == 0) spread(out, n_vocab, 2, (double[]) { -4, -3 });
    else if (n == 1 && token[0] == 1) spread(out, n_vocab, 2, (double[]) { -1, -9 });
    else spread(out, n_vocab, 0, NULL);
}

TEST(a_finished_beam_holds_its_slot)
{
    const struct {
        double alpha;
        int    longer;
    } at[] = { { 0, 0 }, { 0.6, 0 }, { 0.73, 0 }, { 0.74, 1 }, { 1, 1 } };
    toy t;
    toy_table(&t, 500, table_held);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        for (int archive = 0; archive < 2; archive++) {
            search        s = solo(&t, 2, 2, at[i].alpha, EOS);
            const int64_t ended = at[i].longer, other = !ended;
            assert_int_equal(run_with(&s, archive, 1), TS_OK);
            assert_int_equal(s.a.n_found[0], 2);
            assert_int_equal(s.a.length[ended], 1);
            assert_int_equal(s.a.finished[ended], 1);
            assert_int_equal(tokens_of(&s, 0, ended)[0], EOS);
            assert_true(fabs(s.a.logprob[ended] + 3) < 1e-6 && fabs(s.a.score[ended] + 3) < 1e-6);
            assert_int_equal(s.a.length[other], 2);
            assert_int_equal(s.a.finished[other], 0);
            assert_true(fabs(s.a.logprob[other] + 5) < 1e-6);
            assert_true(fabs(s.a.score[other] + 5 / pow(2, at[i].alpha)) < 1e-6);
            search_free(&s);
        }
}

/* EOS at -3, token 1 at -2.5, from where nothing is better than -3.5. */
static void table_evicted(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    n = without_prompt(&token, n);
    if (n == 0) spread(out, n_vocab, 2, (double[]) { -2.5, -3 });
    else spread(out, n_vocab, 2, (double[]) { -3.5, -20 });
}

TEST(an_evicted_beam_is_gone)
{
    toy t;
    toy_table(&t, 500, table_evicted);
    search s = solo(&t, 1, 2, 0, EOS);
    run_slots(&s);
    assert_int_equal(s.a.length[0], 2);
    assert_true(fabs(s.a.logprob[0] + 6) < 1e-6);
    assert_int_equal(run_with(&s, 1, 1), TS_OK); /* the other search has it aside */
    assert_int_equal(s.a.length[0], 1);
    assert_true(s.a.finished[0] && fabs(s.a.logprob[0] + 3) < 1e-6);
    search_free(&s);
}

/* The archive is full with -3 once nothing that goes on can come up to it. */
TEST(the_archive_stops_in_time)
{
    toy t;
    toy_table(&t, 500, table_evicted);
    search s = solo(&t, 1, 50, 0, EOS);
    assert_int_equal(run_with(&s, 1, 1), TS_OK);
    assert_true(fabs(s.a.logprob[0] + 3) < 1e-6);
    assert_int_equal(t.n_next, 2); /* -2.5 might have; -6 cannot */
    search_free(&s);
    s = solo(&t, 1, 50, 1, EOS); /* divided by 50, -6 may yet be better */
    assert_int_equal(run_with(&s, 1, 1), TS_OK);
    assert_true(t.n_next > 4);
    search_free(&s);
}

/* Whatever comes next is as likely as the end. */
static void table_even(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    (void)token, (void)n;
    spread(out, n_vocab, 2, (double[]) { -3, -3 });
}

/* One that has ended goes before an equal one that has not; so often that what was left in the
 * workspace comes in every kind. */
TEST(what_has_ended_goes_first)
{
    toy t;
    toy_table(&t, 500, table_even);
    for (int i = 0; i < 4; i++) {
        search s = solo(&t, 2, 1, 0, EOS);
        assert_int_equal(run_with(&s, 1, 1), TS_OK);
        assert_int_equal(s.a.n_found[0], 2);
        assert_true(s.a.score[0] == s.a.score[1] && s.a.finished[0] && !s.a.finished[1]);
        search_free(&s);
        s = solo(&t, 4, 2, 0, EOS); /* places for more than there is in the archive */
        assert_int_equal(run_with(&s, 1, 1), TS_OK);
        assert_true(s.a.finished[0] && fabs(s.a.score[0] + 3) < 1e-6);
        for (int64_t r = 1; r < s.a.n_found[0]; r++) assert_true(s.a.score[r] <= s.a.score[r - 1]);
        search_free(&s);
        s = solo(&t, 4, 2, 1, EOS); /* twice as unlikely, twice as long: in the order they ended */
        assert_int_equal(run_with(&s, 1, 1), TS_OK);
        assert_true(s.a.score[0] == s.a.score[1] && s.a.finished[0] && s.a.finished[1]);
        assert_true(s.a.length[0] == 1 && s.a.length[1] == 2);
        search_free(&s);
    }
}

/* EOS at p = 0.001, always. */
static void table_rare_eos(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    (void)token, (void)n;
    spread(out, n_vocab, 2, (double[]) { log(0.5), log(0.001) });
}

TEST(eos_is_paid_for)
{
    toy t;
    toy_table(&t, 100, table_rare_eos);
    search s = solo(&t, 3, 6, 0, EOS);
    run_slots(&s);
    for (int64_t r = 0; r < 3; r++) {
        long double want = 0;
        int32_t     string[8] = { 0 };
        for (int64_t k = 0; k < s.a.length[r]; k++) {
            want += log_prob(&t, k + 1, string, tokens_of(&s, 0, r)[k]);
            string[k + 1] = tokens_of(&s, 0, r)[k];
        }
        assert_true(fabsl(want - s.a.logprob[r]) < 1e-12L * 6);
        assert_int_equal(s.a.finished[r], 0);
    }
    assert_true(fabs(s.a.logprob[0] - 6 * log(0.5)) < 1e-5);
    search_free(&s);
}

/* -3 at once, or -4 with two tokens: the penalty decides. */
static void table_penalty(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    n = without_prompt(&token, n);
    if (n == 0) spread(out, n_vocab, 2, (double[]) { -3.5, -3 });
    else spread(out, n_vocab, 2, (double[]) { -9, -0.5 });
}

TEST(the_penalty_ranks_and_no_more)
{
    toy t;
    toy_table(&t, 500, table_penalty);
    for (int alpha = 0; alpha < 2; alpha++) {
        search s = solo(&t, 2, 2, alpha, EOS);
        run_slots(&s);
        assert_int_equal(s.a.length[alpha], 1);
        assert_int_equal(s.a.length[!alpha], 2);
        assert_true(fabs(s.a.logprob[!alpha] + 4) < 1e-6);
        assert_true(fabs(s.a.score[!alpha] + (alpha ? 2 : 4)) < 1e-6);
        search_free(&s);
    }
    t.table = table_rare_eos; /* three steps: no power of a length has got into the sum */
    search s = solo(&t, 1, 3, 2, EOS);
    run_slots(&s);
    assert_true(fabs(s.a.logprob[0] - 3 * log(0.5)) < 1e-6);
    assert_true(s.a.score[0] == s.a.logprob[0] / 9);
    search_free(&s);
}

TEST(a_prompt_counts_for_nothing)
{
    const int64_t len[] = { 1, 50 };
    toy           t;
    toy_table(&t, 500, table_held);
    search s = search_make((ts_beam_dims) { 2, 2, 4, 0.74, EOS }, &t, zeros, len);
    run_slots(&s);
    assert_true(same_bits(&s, 0, &s, 1));
    search_free(&s);
}

static void table_far_apart(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    const float at[] = { 0, -800, -900 };
    (void)token, (void)n;
    for (int64_t v = 0; v < n_vocab; v++) out[v] = at[v % 3];
}

/* No probability but one is a number above 0, yet all have a logarithm. */
TEST(logarithms_do_not_underflow)
{
    toy t;
    toy_table(&t, 3, table_far_apart);
    for (int mask = 0; mask < N_MASKS; mask++) {
        ts_cpu_set_mask(masks[mask]);
        search s = solo(&t, 4, 1, 0, -1);
        run_slots(&s);
        assert_int_equal(s.a.n_found[0], 3);
        assert_true(s.a.logprob[0] == 0 && s.a.logprob[1] == -800 && s.a.logprob[2] == -900);
        is_tidy(&s);
        search_free(&s);
    }
    ts_cpu_set_mask(~0u);
}

static void table_flat(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    (void)token, (void)n;
    for (int64_t v = 0; v < n_vocab; v++) out[v] = v % 2 ? -0.0f : 0.0f;
}

TEST(ties_go_by_slot_then_token)
{
    toy t;
    toy_table(&t, 5, table_flat);
    for (int mask = 0; mask < N_MASKS; mask++) {
        ts_cpu_set_mask(masks[mask]);
        search s = solo(&t, 7, 3, 1, -1);
        run_slots(&s);
        assert_int_equal(s.a.n_found[0], 7);
        for (int r = 0; r < 7; r++) {
            assert_int_equal(tokens_of(&s, 0, r)[0], 0);
            assert_int_equal(tokens_of(&s, 0, r)[1], r / 5);
            assert_int_equal(tokens_of(&s, 0, r)[2], r % 5);
        }
        search_free(&s);
        /* With alpha 1 a finished beam ties with all: it keeps its rank between its neighbours. */
        s = solo(&t, 7, 2, 1, 1);
        run_slots(&s);
        const int32_t want[7][2] = { { 0, 0 }, { 0, 1 },  { 0, 2 }, { 0, 3 },
                                     { 0, 4 }, { 1, -1 }, { 2, 0 } };
        for (int r = 0; r < 7; r++) assert_memory_equal(tokens_of(&s, 0, r), want[r], 8);
        search_free(&s);
    }
    ts_cpu_set_mask(~0u);
}

/* Item by the first token of its prompt: 3 ends at once, 4 after nine tokens; else never. */
static void table_ends(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    const int64_t last = token[0] == 3 ? 1 : token[0] == 4 ? 9 : 99;
    for (int64_t v = 0; v < n_vocab; v++)
        out[v] = (v == EOS) == (n == last) ? (float)v : (float)-INFINITY;
}

TEST(items_end_by_themselves)
{
    const int32_t prompts[] = { 3, 4 };
    const int64_t len[] = { 1, 1 };
    toy           t;
    toy_table(&t, 4 + EOS, table_ends);
    search s = search_make((ts_beam_dims) { 2, 2, 20, 1, EOS }, &t, prompts, len);
    run_slots(&s);
    assert_int_equal(t.n_next, 9);
    assert_int_equal(t.first_rows, 2);
    assert_int_equal(t.n_rows, 2 + 8 * 2); /* the model is called once for the first item */
    assert_int_equal(s.a.length[place_of(&s, 0, 0)], 1);
    assert_int_equal(s.a.length[place_of(&s, 1, 0)], 9);
    assert_int_equal(s.a.n_found[0], 1);
    is_tidy(&s);
    search_free(&s);
}

/* Two strings of a thousand tokens, of which the second overtakes the first half way by 1e-5. */
static void table_long(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    n = without_prompt(&token, n);
    const double lead = n == 0 ? 1e-5 : n == 500 && token[0] == 2 ? 4e-5 : 0;
    for (int64_t v = 0; v < n_vocab; v++) out[v] = v == 0 ? (float)-INFINITY : 0.0F;
    if (n == 0) out[1] = (float)lead, out[3] = -9;
    else out[1] = (float)(0.7 + lead);
}

TEST(long_sums_keep_their_order)
{
    toy t;
    toy_table(&t, 4, table_long);
    for (int mask = 0; mask < N_MASKS; mask++) {
        ts_cpu_set_mask(masks[mask]);
        search s = solo(&t, 2, LONG, 0, -1);
        run_slots(&s);
        int32_t string[LONG + 1] = { 0 };
        assert_int_equal(tokens_of(&s, 0, 0)[0], 2);
        assert_int_equal(tokens_of(&s, 0, 1)[0], 1);
        for (int r = 0; r < 2; r++) {
            long double want = 0;
            for (int k = 0; k < LONG; k++) {
                want += log_prob(&t, k + 1, string, tokens_of(&s, 0, r)[k]);
                string[k + 1] = tokens_of(&s, 0, r)[k];
            }
            assert_true(fabsl(want - s.a.logprob[r]) < 1e-12L * LONG);
        }
        const double ahead = s.a.logprob[0] - s.a.logprob[1];
        assert_true(ahead > 5e-6 && ahead < 1.5e-5);
        search_free(&s);
    }
    ts_cpu_set_mask(~0u);
}

/* Of two tokens, d apart, the likelier is at -log(1 + exp(-d)): an error of the exponential shows.
 */
static double apart;

static void table_apart(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    (void)token, (void)n;
    for (int64_t v = 0; v < n_vocab; v++) out[v] = v ? (float)-apart : 0;
}

TEST(exponentials_are_good)
{
    toy t;
    toy_table(&t, 2, table_apart);
    for (int i = 0; i < 3000; i++) {
        apart = i / 256.0; /* a float */
        ts_cpu_set_mask(masks[i % N_MASKS]);
        search            s = solo(&t, 1, 1, 0, -1);
        const long double want = -log1pl(expl(-apart));
        run_slots(&s);
        assert_true(fabsl(s.a.logprob[0] - want) < 1e-14L * expl(-apart) + 4e-16L);
        search_free(&s);
    }
    ts_cpu_set_mask(~0u);
}

/* ---- far from zero, and very close to each other ---- */

static void table_remote(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    (void)token, (void)n;
    for (int64_t v = 0; v < n_vocab; v++) out[v] = v == 3 ? 1.0e30F : v == 1 ? 1.0e30F : -1.0e30F;
}

/* Unequal logits, whose scores are equal once rounded: the larger is still the better. */
static void table_close(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    (void)token, (void)n;
    for (int64_t v = 0; v < n_vocab; v++) out[v] = v == 3 ? 1e-30F : 0;
}

/* Two tokens can be; with a penalty past all numbers every score is 0, and slots decide. */
static void table_two(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    (void)token, (void)n;
    for (int64_t v = 0; v < n_vocab; v++) out[v] = v == 1 || v == 3 ? (float)v : (float)-INFINITY;
}

TEST(corners_of_the_range)
{
    toy t;
    toy_make(&t, TOY_TABLE, 5, 0);
    for (int mask = 0; mask < N_MASKS; mask++) {
        ts_cpu_set_mask(masks[mask]);
        t.table = table_remote;
        search s = solo(&t, 3, 1, 0, -1);
        run_slots(&s);
        assert_true(fabs(s.a.logprob[0] + log(2)) < 1e-12);
        assert_int_equal(tokens_of(&s, 0, 0)[0], 1);
        assert_int_equal(tokens_of(&s, 0, 1)[0], 3);
        assert_true(isfinite(s.a.logprob[2]) && s.a.logprob[2] < -1e30);
        search_free(&s);
        t.table = table_close;
        s = solo(&t, 1, 2, 0, -1);
        run_slots(&s);
        assert_int_equal(tokens_of(&s, 0, 0)[0], 3);
        assert_int_equal(tokens_of(&s, 0, 0)[1], 3);
        search_free(&s);
        t.table = table_two;
        s = solo(&t, 6, 2, 1e300, -1);
        run_slots(&s);
        assert_int_equal(s.a.n_found[0], 4);
        const int32_t want[4][2] = { { 3, 3 }, { 3, 1 }, { 1, 3 }, { 1, 1 } };
        for (int r = 0; r < 4; r++) {
            assert_memory_equal(tokens_of(&s, 0, r), want[r], 8);
            assert_true(s.a.score[r] == 0 && isfinite(s.a.logprob[r]));
        }
        is_tidy(&s);
        search_free(&s);
    }
    ts_cpu_set_mask(~0u);
}

TEST(nothing_to_do)
{
    toy t;
    toy_make(&t, TOY_HASH, 5, 0);
    for (int archive = 0; archive < 2; archive++) {
        search s = solo(&t, 3, 0, 1, EOS);
        assert_int_equal(run_with(&s, archive, 1), TS_OK);
        assert_int_equal(s.a.n_found[0], 1);
        assert_true(s.a.logprob[0] == 0 && s.a.score[0] == 0 && s.a.length[0] == 0);
        assert_int_equal(s.a.finished[0], 0);
        is_tidy(&s);
        search_free(&s);
        s = search_make((ts_beam_dims) { 0, 3, 4, 1, EOS }, &t, NULL, NULL);
        assert_int_equal(run_with(&s, archive, 1), TS_OK);
        search_free(&s);
    }
    assert_int_equal(t.n_next, 0);
}

/* ---- refusals: the status is the promised one, and nothing has been written ---- */

static void untouched(const search *s)
{
    search fresh = search_make(s->a.d, (const toy *)s->a.model->self, NULL, NULL);
    for (int64_t i = 0; i < s->a.d.n_items; i++) assert_true(same_bits(s, i, &fresh, i));
    search_free(&fresh);
}

static float   nonfinite_value;
static int64_t nonfinite_step;

static void table_nonfinite(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    table_flat(token, n, out, n_vocab);
    if (n - 1 != nonfinite_step) return;
    for (int64_t v = 0; v < n_vocab; v++)
        if (v == 3 || nonfinite_value == -INFINITY) out[v] = nonfinite_value;
}

TEST(a_nonfinite_model_is_refused)
{
    const float values[] = { NAN, INFINITY, -INFINITY };
    toy         t;
    toy_table(&t, 5, table_nonfinite);
    for (int i = 0; i < 3 * 2 * N_MASKS; i++) {
        nonfinite_value = values[i % 3];
        ts_cpu_set_mask(masks[i / 6]);
        for (nonfinite_step = 0; nonfinite_step < 3; nonfinite_step += 2) {
            search s = solo(&t, 3, 4, 1, -1);
            assert_int_equal(run_with(&s, i / 3 % 2, 1), TS_E_MODEL);
            untouched(&s);
            search_free(&s);
        }
    }
    ts_cpu_set_mask(~0u);
    nonfinite_step = 99;
    t.n_left = 2; /* and one that fails at the third call */
    search s = solo(&t, 3, 4, 1, -1);
    assert_int_equal(run_with(&s, 0, 1), TS_E_MODEL);
    untouched(&s);
    search_free(&s);
}

static void refuse(ts_beam_search_args a, search *s, ts_status status)
{
    const ts_beam_search_args sound = s->a;
    s->a = a;
    for (int archive = 0; archive < 2; archive++) assert_int_equal(run_with(s, archive, 1), status);
    s->a = sound;
    if (status) untouched(s);
}

TEST(invalid_calls_are_refused)
{
    const int32_t       prompts[] = { 1, 4, 0 }, high[] = { 1, 5, 0 }, low[] = { 1, 4, -1 };
    const int64_t       len[] = { 2, 1 }, none[] = { 2, 0 }, vast[] = { 2, INT64_MAX / 2 };
    toy                 t;
    ts_model            m;
    ts_beam_search_args a;
    toy_make(&t, TOY_HASH, 5, 0);
    search                    s = search_make((ts_beam_dims) { 2, 3, 4, 1, 2 }, &t, prompts, len);
    const ts_beam_search_args good = s.a;
    a = good, a.d.alpha = -1, refuse(a, &s, TS_E_ARG);
    a = good, a.d.alpha = NAN, refuse(a, &s, TS_E_ARG);
    a = good, a.d.alpha = INFINITY, refuse(a, &s, TS_E_ARG);
    a = good, a.d.eos = 5, refuse(a, &s, TS_E_ARG);
    a = good, a.d.eos = -2, refuse(a, &s, TS_E_ARG);
    a = good, a.d.n_items = -1, refuse(a, &s, TS_E_SHAPE);
    a = good, a.d.beam_width = 0, refuse(a, &s, TS_E_SHAPE);
    a = good, a.d.beam_width = INT64_MAX / 2, refuse(a, &s, TS_E_SHAPE);
    a = good, a.d.max_new_tokens = -1, refuse(a, &s, TS_E_SHAPE);
    a = good, a.d.max_new_tokens = INT64_MAX - 1, refuse(a, &s, TS_E_SHAPE);
    a = good, a.d.n_items = INT64_MAX / 3, refuse(a, &s, TS_E_SHAPE);
    a = good, a.prompt_len = none, refuse(a, &s, TS_E_ARG);
    a = good, a.prompt_len = vast, refuse(a, &s, TS_E_SHAPE);
    a = good, a.prompts = high, refuse(a, &s, TS_E_ARG);
    a = good, a.prompts = low, refuse(a, &s, TS_E_ARG);
    a = good, a.prompts = NULL, refuse(a, &s, TS_E_ARG);
    a = good, a.prompt_len = NULL, refuse(a, &s, TS_E_ARG);
    a = good, a.tokens = NULL, refuse(a, &s, TS_E_ARG);
    a = good, a.length = NULL, refuse(a, &s, TS_E_ARG);
    a = good, a.logprob = NULL, refuse(a, &s, TS_E_ARG);
    a = good, a.score = NULL, refuse(a, &s, TS_E_ARG);
    a = good, a.finished = NULL, refuse(a, &s, TS_E_ARG);
    a = good, a.n_found = NULL, refuse(a, &s, TS_E_ARG);
    a = good, a.model = NULL, refuse(a, &s, TS_E_ARG);
    m = t.m, m.next = NULL, a = good, a.model = &m, refuse(a, &s, TS_E_ARG);
    m = t.m, m.n_vocab = 0, a.d.eos = -1, refuse(a, &s, TS_E_SHAPE);
    m = t.m, m.n_vocab = INT64_C(1) << 31, refuse(a, &s, TS_E_SHAPE);
    assert_int_equal(t.n_next, 0);
    search_free(&s);
}

TEST(short_workspaces_are_refused)
{
    toy t;
    toy_make(&t, TOY_HASH, 5, 0);
    search        s = solo(&t, 3, 4, 1, EOS);
    size_t        n = 0, m = 0;
    const ts_exec none = { 0 }, gpu = { .device = TS_CUDA };
    assert_int_equal(ts_beam_search_workspace(&s.a, &none, &n), TS_OK);
    assert_int_equal(ts_beam_search_archive_workspace(&s.a, &none, &m), TS_OK);
    assert_int_equal(ts_beam_search(&s.a, &none), TS_E_WORKSPACE);
    char         *memory = malloc(m);
    const ts_exec less = { .workspace = memory, .workspace_bytes = n - 1 };
    assert_int_equal(ts_beam_search(&s.a, &less), TS_E_WORKSPACE);
    const ts_exec less_still = { .workspace = memory, .workspace_bytes = m - 1 };
    assert_int_equal(ts_beam_search_archive(&s.a, &less_still), TS_E_WORKSPACE);
    const ts_status status = ts_beam_search(&s.a, &gpu);
    assert_true(status == TS_E_DEVICE || status == TS_E_WORKSPACE);
    assert_int_equal(ts_beam_search(NULL, &none), TS_E_ARG);
    assert_int_equal(ts_beam_search(&s.a, NULL), TS_E_ARG);
    assert_int_equal(ts_beam_search_workspace(&s.a, &none, NULL), TS_E_ARG);
    untouched(&s);
    free(memory);
    search_free(&s);
}

int main(int argc, char **argv)
{
    const int absent = choose_device(argc, argv);
    if (absent) return absent;
    return unit_run();
}

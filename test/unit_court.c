/* SPDX-License-Identifier: Apache-2.0 */
/* unit_court.c - parts of the judge that need no entrant: categories, errors, rulings, the overall
 * ranking. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "court.h"
#include "unit.h"

/* Of the cases that even a quick sitting asks, each task has some of every category; of special
 * inputs some have none but those of the canon. */
static void no_category_is_empty(void **state)
{
    (void)state;
    for (int t = 0; ts_tasks[t]; t++) {
        int n[TS_N_CATEGORIES] = { 0 };
        for (const ts_case *c = ts_tasks[t]->cases(); c->use; c++)
            if (c->use & TS_USE_CHECK && ts_tasks[t]->cost(c).bytes <= 4e6)
                n[ts_case_category(ts_tasks[t], c)]++;
        for (int i = 0; i < TS_N_CATEGORIES; i++)
            if (!n[i] && i != TS_SPECIAL)
                fail_msg("%s has no case of category %s", ts_tasks[t]->name,
                         ts_category_name((ts_category)i));
    }
}

/* ---- which cases are drawn ---- */

enum { KEYS = 2 };

/* How many of the n cases from `number` on, or of all that may be asked, are of one group. */
static int alike(const ts_task *t, const ts_case *of, const int *number, int n)
{
    const ts_case *all = t->cases();
    int            found = 0;
    for (int i = 0; number ? i < n : all[i].use != 0; i++) {
        const ts_case *c = &all[number ? number[i] : i];
        found += c->use & TS_USE_CHECK && !(c->use & TS_USE_COVER) && t->cost(c).bytes <= 16e6 &&
                 ts_case_category(t, c) == ts_case_category(t, of) &&
                 ts_case_group(t, c) == ts_case_group(t, of);
    }
    return found;
}

/* At normal depth no group is left out that has few cases, whatever the key. */
static void draws_what_is_rare(void **state)
{
    static int number[KEYS][TS_MOST_CASES];
    (void)state;
    for (const ts_task *const *t = ts_tasks; *t; t++) {
        int n[KEYS];
        for (int k = 0; k < KEYS; k++) {
            const ts_court c = { .depth = TS_NORMAL, .key = { (unsigned char)k } };
            n[k] = ts_court_draw(&c, *t, TS_HOST, NULL, number[k]);
        }
        assert_true(n[0] != n[1] || memcmp(number[0], number[1], sizeof(int) * (size_t)n[0]));
        for (const ts_case *c = (*t)->cases(); c->use; c++) {
            if (!(c->use & TS_USE_CHECK) || c->use & TS_USE_COVER) continue;
            if ((*t)->cost(c).bytes > 16e6) continue;
            if (alike(*t, c, NULL, 0) > 3) continue;
            for (int k = 0; k < KEYS; k++)
                if (!alike(*t, c, number[k], n[k])) {
                    char name[192];
                    ts_case_string(*t, c, 0, name, sizeof name);
                    fail_msg("none like %s is drawn", name);
                }
        }
    }
}

/* No case twice, and the same again from the same key; rows that lie far apart where they cost
 * little. */
static void draws_in_turn(void **state)
{
    static int number[2][TS_MOST_CASES];
    (void)state;
    for (const ts_task *const *t = ts_tasks; *t; t++)
        for (int depth = 0; depth < TS_N_DEPTHS; depth++) {
            const ts_court c = { .depth = (ts_depth)depth };
            const int      n = ts_court_draw(&c, *t, TS_SEALED, NULL, number[0]);
            bool           far = false, any_far = false;
            for (const ts_case *f = (*t)->cases(); f->use; f++)
                any_far |= !strcmp(f->family, "far");
            for (int i = 0; i < n; i++) {
                far |= !strcmp((*t)->cases()[number[0][i]].family, "far");
                for (int k = 0; k < i; k++) assert_int_not_equal(number[0][i], number[0][k]);
            }
            assert_int_equal(far, any_far);
            assert_int_equal(ts_court_draw(&c, *t, TS_SEALED, NULL, number[1]), n);
            assert_memory_equal(number[0], number[1], sizeof(int) * (size_t)n);
        }
}

/* 3 workloads of 15 instances: 45 pairs in a match. */
static void times_enough(void **state)
{
    const ts_court c = { .depth = TS_NORMAL };
    int            number[TS_WORKLOADS];
    (void)state;
    for (int t = 0; ts_tasks[t]; t++)
        assert_int_equal(ts_court_workloads(&c, ts_tasks[t], number), 3);
}

static void counts_errors(void **state)
{
    enum { N = 10000 };
    static float   got[N];
    static ts_want want[N];
    ts_errors      e = { 0 };
    ts_flaw        f;
    (void)state;
    assert_true(ts_errors_quantile(&e, 0.999) == 0);
    for (int i = 0; i < N; i++) {
        got[i] = (float)i / N; /* of a bound of 1: the quantile is its own name */
        want[i] = (ts_want) { 0, 1 };
    }
    got[0] = 1;
    assert_true(ts_check_buf((ts_buf) { "y", TS_OUT, TS_F32, 1, N, N }, got, want, &f, &e));
    assert_true(e.worst == 1 && e.n == N);
    for (int i = 1; i < 20; i++) {
        const double q = i / 20.0, at = ts_errors_quantile(&e, q);
        if (!(at >= q && at <= 1.13 * q)) fail_msg("quantile %g is %g", q, at);
    }
    got[0] = 8 + 3 * 0x1p-20f; /* 3 units from 8, where one is 2^-20 */
    want[0] = (ts_want) { 8, 1 };
    e.ulps = 0;
    assert_true(ts_check_buf((ts_buf) { "y", TS_OUT, TS_F32, 1, 1, 1 }, got, want, &f, &e));
    assert_true(e.ulps == 3);
    want[7].bound = 1e-4; /* now it is wrong, and nothing after it counts */
    assert_false(ts_check_buf((ts_buf) { "y", TS_OUT, TS_F32, 1, N, N }, got, want, &f, &e));
    assert_int_equal(e.n, N + 8);
}

static void rules_with_a_text(void **state)
{
    ts_contender  *e = calloc(1, sizeof *e);
    const ts_case *c = ts_tasks[0]->cases();
    const ts_call  changed = { .fp_changed = true }, refused = { .status = TS_E_RANGE },
                  died = { .end = TS_END_CRASH, .fp_changed = true, .text = "\x1b[2Jsignal" };
    (void)state;
    e->task = ts_tasks[0];
    assert_false(ts_court_fail_by_call(e, c, 1, &changed));
    assert_string_equal(e->reason, "fp");
    assert_true(strlen(e->text) > 0 && strstr(e->where, "@0x1"));
    assert_false(ts_court_fail_by_call(e, c, 1, &refused));
    assert_string_equal(e->reason, "status");
    assert_false(ts_court_fail_by_call(e, c, 1, &died));
    assert_string_equal(e->reason, "crash");
    assert_string_equal(e->text, "\\u001b[2Jsignal");
    free(e);
}

/* ---- the overall ranking ---- */

static ts_contender people[4]; /* ann and bob in the first challenge, then bob and ann */

static void open_court(ts_court *c, const char *path, ts_records *earlier)
{
    char why[TS_WHY];
    *c = (ts_court) { .log = ts_log_open(path, earlier, why) };
    if (!c->log) fail_msg("%s", why);
    for (int i = 0; i < 4; i++) {
        people[i] = (ts_contender) { .id = i, .task = ts_tasks[i / 2] };
        strcpy(people[i].entry.name, i == 0 || i == 3 ? "ann" : "bob");
        c->contender[c->n++] = &people[i];
    }
}

/* Closes the court; how many rows its overall ranking has. */
static size_t rows(ts_court *c, const ts_records *earlier, const char *path, double rating[4])
{
    ts_records r;
    char       why[TS_WHY];
    size_t     n = 0;
    assert_true(ts_court_rank_overall(c, earlier));
    free(c->played);
    ts_log_close(c->log);
    assert_true(ts_records_read(path, &r, why));
    for (size_t i = 0; i < r.n; i++) {
        const ts_jr_node *list = ts_jr_get(r.at[i].root, "rows");
        if (strcmp(ts_jr_text(r.at[i].root, "task", ""), "overall")) continue;
        n = ts_jr_len(list);
        for (size_t k = 0; k < n; k++) {
            int64_t id;
            assert_true(ts_jr_int(ts_jr_get(ts_jr_at(list, k), "entrant"), &id));
            rating[id] = ts_jr_number(ts_jr_at(list, k), "rating", 0);
        }
    }
    ts_records_free(&r);
    return n;
}

static void play(ts_court *c, int a, int b, ts_outcome o)
{
    for (int i = 0; i < 3; i++)
        assert_true(ts_court_played(c, (ts_played) { people[a].task->name, a, b, o }));
}

static void ranks_all_challenges(void **state)
{
    char       path[] = "/tmp/touchstone-unit-XXXXXX";
    double     rating[4] = { 0 };
    ts_court   c;
    ts_records earlier;
    (void)state;
    close(mkstemp(path));
    open_court(&c, path, NULL);
    play(&c, 0, 1, TS_OUTCOME_A);
    assert_int_equal(rows(&c, NULL, path, rating), 0); /* one challenge has its own ranking */

    open_court(&c, path, &earlier);
    play(&c, 0, 1, TS_OUTCOME_A);
    play(&c, 2, 3, TS_OUTCOME_B); /* bob against ann */
    assert_int_equal(rows(&c, &earlier, path, rating), 2);
    ts_records_free(&earlier);
    if (!(rating[0] > 1600 && rating[1] < 1400 && !rating[2] && !rating[3]))
        fail_msg("ratings %g %g %g %g", rating[0], rating[1], rating[2], rating[3]);
    unlink(path);
}

/* An earlier run of the log played the first challenge, and bob won; this one plays the second. */
static void ranks_what_was_resumed(void **state)
{
    char       path[] = "/tmp/touchstone-unit-XXXXXX";
    double     rating[4] = { 0 };
    ts_court   c;
    ts_records earlier;
    (void)state;
    close(mkstemp(path));
    open_court(&c, path, NULL);
    ts_jw *w = ts_log_begin(c.log, "match");
    ts_jw_text(w, "task", ts_tasks[0]->name);
    ts_jw_int(w, "a", 0);
    ts_jw_int(w, "b", 1);
    ts_jw_num(w, "effect", -1);
    ts_jw_num(w, "lo", -1);
    ts_jw_num(w, "hi", -1);
    ts_jw_text(w, "verdict", "b");
    ts_jw_int(w, "pairs", 9);
    ts_jw_open(w, "workloads", '[');
    for (int i = 0; i < 9; i++) ts_jw_text(w, NULL, "b");
    ts_jw_close(w, ']');
    assert_true(ts_log_commit(c.log));
    ts_log_close(c.log);

    open_court(&c, path, &earlier);
    play(&c, 2, 3, TS_OUTCOME_B);
    assert_int_equal(rows(&c, &earlier, path, rating), 2);
    assert_true(rating[1] > rating[0]); /* nine games to three */
    ts_records_free(&earlier);
    unlink(path);
}

/* The most of memory, arithmetic and a call; suspect is only who beats every way to do it. */
static void floors(void **state)
{
    const ts_peaks plain = { .gbs = 100, .gflops = 50, .matrix = 1, .call_ns = 1000 };
    const ts_peaks tiles = { .gbs = 100, .gflops = 50, .matrix = 16, .call_ns = 1000 };
    (void)state;
    ts_floor f = ts_floor_of(&plain, (ts_cost) { .bytes = 1e6, .flops = 1e5 }, 80);
    assert_string_equal(f.by, "memory");
    assert_true(f.ns == 1e6 / 80 && f.hard_ns == 1e6 / 100);
    f = ts_floor_of(&plain, (ts_cost) { .bytes = 1e6, .flops = 1e7 }, 80);
    assert_string_equal(f.by, "arithmetic");
    assert_true(f.ns == 1e7 / 50 && f.hard_ns == f.ns);
    f = ts_floor_of(&tiles, (ts_cost) { .bytes = 1e6, .flops = 1e7 }, 80);
    assert_true(f.ns == 1e7 / 50 && fabs(f.hard_ns - f.ns * 3 / 16) < 1e-6);
    f = ts_floor_of(&plain, (ts_cost) { .bytes = 1e6, .flops = 1e7, .least_flops = 1e6 }, 80);
    assert_true(f.ns == 1e6 / 50);
    f = ts_floor_of(&plain, (ts_cost) { .bytes = 100, .flops = 100 }, 80);
    assert_string_equal(f.by, "call");
    assert_true(f.ns == 1000 && f.hard_ns == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_category_is_empty),
        cmocka_unit_test(counts_errors),
        cmocka_unit_test(rules_with_a_text),
        cmocka_unit_test(ranks_all_challenges),
        cmocka_unit_test(ranks_what_was_resumed),
        cmocka_unit_test(draws_what_is_rare),
        cmocka_unit_test(draws_in_turn),
        cmocka_unit_test(times_enough),
        cmocka_unit_test(floors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

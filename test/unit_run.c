/* SPDX-License-Identifier: Apache-2.0 */
/* unit_run.c - parts of the judge that need no entrant: categories, errors, rulings, the overall
 * ranking. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"
#include "unit.h"
#include "words.h"

/* Among the cases of even a quick judging run, each task has some of every category; for special
 * inputs some tasks have only those of the canon. */
TEST(no_category_is_empty)
{
    for (int t = 0; ts_tasks[t]; t++) {
        int n[TS_N_CATEGORIES] = { 0 };
        if (ts_tasks[t]->no_challenge) continue;
        for (const ts_case *c = ts_tasks[t]->cases(); c->use; c++)
            if (c->use & TS_USE_CHECK && ts_tasks[t]->cost(c).bytes <= 4e6)
                n[ts_case_category(ts_tasks[t], c)]++;
        for (int i = 0; i < TS_N_CATEGORIES; i++)
            if (!n[i] && i != TS_SPECIAL && !(i == TS_CANON && ts_tasks[t]->no_challenge))
                fail_msg("%s has no case of category %s", ts_tasks[t]->name,
                         ts_category_name((ts_category)i));
    }
}

/* ---- which cases are drawn ---- */

enum { KEYS = 2 };

/* What a case may be drawn as; no category: it may not. */
typedef struct group {
    int      category;
    uint64_t number;
} group;

static group group_of(const ts_task *t, const ts_case *c)
{
    const bool tall = !strncmp(c->family, "tall", 4); /* one dtype is enough */
    if (!(c->use & TS_USE_CHECK) || c->use & TS_USE_COVER || t->cost(c).bytes > 16e6 || tall)
        return (group) { .category = -1 };
    return (group) { (int)ts_case_category(t, c), ts_case_group(t, c) };
}

/* How many of n cases, or of those that `number` lists, are of one group. */
static int alike(const group *all, group of, const int *number, int n)
{
    int found = 0;
    for (int i = 0; i < n; i++) {
        const group g = all[number ? number[i] : i];
        found += g.category == of.category && g.number == of.number;
    }
    return found;
}

/* At normal depth no group is left out that has few cases, whatever the key. */
TEST(draws_what_is_rare)
{
    for (const ts_task *const *t = ts_tasks; *t; t++) {
        const ts_case *const c = (*t)->cases();
        int                  n[KEYS], *number[KEYS], n_cases = 0;
        while (c[n_cases].use) n_cases++;
        group *const all = calloc((size_t)n_cases, sizeof *all);
        assert_non_null(all);
        for (int i = 0; i < n_cases; i++) all[i] = group_of(*t, &c[i]);
        for (int k = 0; k < KEYS; k++) {
            const ts_run r = { .depth = TS_NORMAL, .key = { (unsigned char)k } };
            number[k] = ts_run_draw(&r, *t, TS_HOST, NULL, &n[k]);
        }
        assert_true(n[0] != n[1] || memcmp(number[0], number[1], sizeof(int) * (size_t)n[0]));
        for (int i = 0; i < n_cases; i++) {
            if (all[i].category < 0 || alike(all, all[i], NULL, n_cases) > 3) continue;
            for (int k = 0; k < KEYS; k++)
                if (!alike(all, all[i], number[k], n[k])) {
                    char name[192];
                    ts_case_string(*t, &c[i], 0, name, sizeof name);
                    fail_msg("none like %s is drawn", name);
                }
        }
        for (int k = 0; k < KEYS; k++) free(number[k]);
        free(all);
    }
}

/* No case twice, and the same again from the same key; rows that lie far apart where they cost
 * little. */
TEST(draws_in_turn)
{
    for (const ts_task *const *t = ts_tasks; *t; t++)
        for (int depth = 0; depth < TS_N_DEPTHS; depth++) {
            const ts_run c = { .depth = (ts_depth)depth };
            int          n, again, *number[2];
            number[0] = ts_run_draw(&c, *t, TS_SEALED, NULL, &n);
            number[1] = ts_run_draw(&c, *t, TS_SEALED, NULL, &again);
            bool far = false, any_far = false;
            for (const ts_case *f = (*t)->cases(); f->use; f++)
                any_far |= !strcmp(f->family, "far");
            for (int i = 0; i < n; i++) {
                far |= !strcmp((*t)->cases()[number[0][i]].family, "far");
                for (int k = 0; k < i; k++) assert_int_not_equal(number[0][i], number[0][k]);
            }
            assert_int_equal(far, any_far);
            assert_int_equal(again, n);
            assert_memory_equal(number[0], number[1], sizeof(int) * (size_t)n);
            free(number[0]);
            free(number[1]);
        }
}

/* 3 workloads of 15 instances: 45 pairs in a match. */
TEST(times_enough)
{
    const ts_run c = { .depth = TS_NORMAL };
    int          number[TS_WORKLOADS];
    for (int t = 0; ts_tasks[t]; t++)
        if (!ts_tasks[t]->no_challenge)
            assert_int_equal(ts_run_workloads(&c, ts_tasks[t], number), 3);
}

TEST(counts_errors)
{
    enum { N = 10000 };
    static float   got[N];
    static ts_want want[N];
    ts_errors      e = { 0 };
    ts_flaw        f;
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

/* A task with more cases than any of ours has now: at full depth none is left out. */
enum { MANY = 5000 };
static ts_case many[MANY + 1];

static const ts_case *many_cases(void)
{
    return many;
}

/* Of a CPU class: 16 MiB, and twice the least bytes, where 16-bit numbers count as floats. */
TEST(grants_the_workspace_that_is_promised)
{
    for (int i = 0; ts_tasks[i]; i++) {
        const ts_task *t = ts_tasks[i];
        const ts_case *c = t->cases();
        for (int k = 0; !t->no_challenge && c[k].use && k < 40; k++) {
            const bool   half = c[k].dtype == TS_F16 || c[k].dtype == TS_BF16;
            const double kept = t->kept ? t->kept(&c[k]) : 0;
            const double most = 16 * 1048576.0 + (half ? 4 : 2) * t->cost(&c[k]).bytes + kept;
            ts_cage_plan plan = { .class = TS_SEALED, .task = t };
            ts_run_plan_case(&plan, &c[k], 1);
            assert_true(plan.workspace_bytes == (size_t)most);
        }
    }
}

TEST(draws_from_thousands)
{
    const ts_run c = { .depth = TS_FULL };
    ts_task      t = *ts_tasks[0];
    int          n;
    t.cases = many_cases;
    t.cover = t.further = NULL;
    for (int i = 0; i < MANY; i++) {
        many[i] = *ts_tasks[0]->cases();
        many[i].dim[0] = i % 97 + 1;
    }
    free(ts_run_draw(&c, &t, TS_SEALED, NULL, &n));
    assert_int_equal(n, MANY);
}

TEST(observes_with_a_text)
{
    const ts_case *c = ts_tasks[0]->cases();
    const ts_call  changed = { .fp_changed = true }, refused = { .status = TS_E_RANGE },
                  died = { .end = TS_END_CRASH, .fp_changed = true, .text = "\x1b[2Jsignal" },
                  broken = { .broken = true, .text = "no device" };
    const struct {
        const ts_call *call;
        const char    *reason, *text;
        bool           machine;
    } all[] = { { &changed, "fp", "changed the floating-point environment", false },
                { &refused, "status", NULL, false },
                { &died, "crash", "\\u001b[2Jsignal", false },
                { &broken, "error", "no device", true } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ts_judged *e = calloc(1, sizeof *e);
        e->task = ts_tasks[0];
        assert_false(ts_observe_call(e, c, 1, all[i].call));
        assert_string_equal(e->evidence.failure.reason, all[i].reason);
        if (all[i].text) assert_string_equal(e->evidence.failure.text, all[i].text);
        assert_non_null(strstr(e->evidence.failure.where, "@0x1"));
        assert_int_equal(e->evidence.machine, all[i].machine);
        /* The first failure stays, whatever follows. */
        assert_false(ts_observe_failure(e, c, 2, "value", "another"));
        assert_string_equal(e->evidence.failure.reason, all[i].reason);
        assert_int_equal(e->evidence.machine, all[i].machine);
        free(e);
    }
}

/* What the machine did is repeated, then an error; a failure in between is one, and a case that
 * passes starts anew. */
TEST(does_not_blame_a_busy_machine)
{
    const ts_case *c = ts_tasks[0]->cases();
    const ts_call  busy = { .end = TS_END_BUSY, .text = "too busy" };
    for (int way = 0; way < 3; way++) {
        ts_judged   *e = calloc(1, sizeof *e);
        ts_evidence *v = &e->evidence;
        e->task = ts_tasks[0];
        for (int i = 1; i < TS_ATTEMPTS; i++) {
            assert_false(ts_observe_call(e, c, 1, &busy));
            assert_true(!v->failed && ts_observe_again(v));
        }
        if (way == 0) ts_observe_call(e, c, 1, &busy);
        if (way == 1) ts_observe_failure(e, c, 1, "value", "wrong");
        if (way == 2) ts_observe_case(e, c, TS_CASE_PASSED);
        assert_false(ts_observe_again(v));
        assert_int_equal(v->failed, way < 2);
        if (way < 2)
            assert_int_equal(ts_rule(v).ruling, way == 0 ? TS_RULING_ERROR : TS_RULING_FAIL);
        if (way == 0) assert_string_equal(v->failure.reason, "busy");
        if (way == 2) assert_int_equal(v->n_busy, 0);
        free(e);
    }
    ts_judged *e = calloc(1, sizeof *e);
    e->task = ts_tasks[0];
    ts_observe_no_cage(e, "busy: too busy");
    assert_int_equal(ts_rule(&e->evidence).ruling, TS_RULING_ERROR);
    free(e);
}

/* Cases by family, and failures by kind, once per case; nothing of it changes the first failure. */
TEST(counts_cases_and_kinds)
{
    const ts_case a = { .use = TS_USE_CHECK, .family = "normal" };
    const ts_case b = { .use = TS_USE_CHECK, .family = "ties" };
    const ts_call refused = { .status = TS_E_RANGE };
    ts_judged    *e = calloc(1, sizeof *e);
    ts_evidence  *v = &e->evidence;
    assert_non_null(e);
    e->task = ts_tasks[0];
    ts_observe_case(e, &a, TS_CASE_PASSED);
    ts_observe_failure(e, &b, 1, "crash", "at 0x10");
    ts_observe_failure(e, &b, 1, "crash", "at 0x20"); /* the same kind in the same case */
    ts_observe_case(e, &b, TS_CASE_FAILED);
    ts_observe_failure(e, &a, 2, "crash", "at 0x30");
    ts_observe_call(e, &a, 2, &refused); /* two kinds in one case */
    ts_observe_case(e, &a, TS_CASE_FAILED);
    ts_observe_case(e, &a, TS_CASE_UNSUPPORTED);
    ts_observe_case(e, &a, TS_CASE_COMMON); /* passed, but a rule of the canon is broken */
    assert_true(v->n_passed == 2 && v->n_run == 4 && v->n_unsupported == 1 && v->n_common == 1);
    assert_int_equal(v->n_families, 2);
    assert_true(v->family[0].passed == 2 && v->family[0].run == 3);
    assert_true(v->family[1].passed == 0 && v->family[1].run == 1);
    assert_int_equal(v->n_kinds, 2);
    assert_true(v->kind[0].n == 2 && v->kind[1].n == 1);
    assert_string_equal(v->kind[0].family, "ties");
    assert_string_equal(v->failure.text, "at 0x10");
    for (int i = 7; i < 13; i++) { /* exceptions of two lines */
        char text[96];
        snprintf(text, sizeof text, "raised IndexError: %d of %d at answer.py:%d", i, i, 5 + i / 9);
        ts_observe_failure(e, &a, 2, "status", text);
        ts_observe_case(e, &a, TS_CASE_FAILED);
    }
    assert_true(v->n_kinds == 4 && v->kind[2].n == 2 && v->kind[3].n == 4);
    for (int i = 0; i < 2 * TS_FAILURE_KINDS; i++) { /* more kinds than are kept */
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        ts_observe_failure(e, &a, 2, "status", text);
        ts_observe_case(e, &a, TS_CASE_FAILED);
    }
    assert_int_equal(v->n_kinds, TS_FAILURE_KINDS);
    ts_observe_no_output(e);
    assert_true(!v->n_passed && !v->n_common && !v->family[0].passed && v->family[0].run > 3);
    assert_int_equal(ts_rule(v).ruling, TS_RULING_FAIL);
    free(e);
}

/* Every kind of evidence against a PASS, alone and together with weaker ones. */
TEST(rules_by_evidence)
{
    const ts_evidence good = { .n_drawn = 9, .n_examined = 9, .n_returned = 20, .n_checked = 20 };
    ts_evidence       v = good;
    assert_int_equal(ts_rule(&v).ruling, TS_RULING_PASS);
    assert_string_equal(ts_rule(&v).why.reason, "");
    v.n_canon = 2, v.rule = "ties", strcpy(v.canon.reason, "canon");
    assert_int_equal(ts_rule(&v).ruling, TS_RULING_COMMON);
    assert_string_equal(ts_rule(&v).rule, "ties");
    v.too_fast = true, strcpy(v.speed.reason, "floor");
    assert_int_equal(ts_rule(&v).ruling, TS_RULING_AUDIT);
    assert_string_equal(ts_rule(&v).why.reason, "floor");
    v = good; /* of the whole contract, too */
    v.too_fast = true, strcpy(v.speed.reason, "floor");
    assert_int_equal(ts_rule(&v).ruling, TS_RULING_AUDIT);
    for (int way = 0; way < 5; way++) { /* something was not looked at */
        v = good;
        if (way == 0) v.n_checked--;
        if (way == 1) v.n_returned--;
        if (way == 2) v.n_examined--;
        if (way == 3) v.n_drawn = v.n_examined = 0;
        if (way == 4) v.n_to_time = 1;
        assert_int_equal(ts_rule(&v).ruling, TS_RULING_ERROR);
        assert_string_equal(ts_rule(&v).why.reason, "judge");
        v.failed = true, strcpy(v.failure.reason, "value"); /* a failure is one all the same */
        assert_int_equal(ts_rule(&v).ruling, TS_RULING_FAIL);
        v.machine = true;
        assert_int_equal(ts_rule(&v).ruling, TS_RULING_ERROR);
        assert_string_equal(ts_rule(&v).why.reason, "value");
    }
}

/* ---- words ---- */

enum { RESULTS = 40 };

/* What the failures have in common: one dimension, two that differ, the dtype or the family. */
TEST(says_what_fails)
{
    const ts_task  *t = ts_task_called("flash_attention");
    ts_case         c[RESULTS];
    ts_words_result r[RESULTS];
    char            s[TS_WORDS];
    for (int way = 0; way < 8; way++) {
        static const char *const want[] = {
            "fails only with more than one of batch",
            "fails only when k is not a multiple of 8",
            "fails only when q and k differ",
            "fails only in bf16",
            "fails only where rows have no unmasked key",
            "fails in every case",
            "",
            "fails only when q >= 31",
        };
        for (int i = 0; i < RESULTS; i++) {
            const bool odd = i % 2;
            c[i] = (ts_case) { .use = TS_USE_CHECK, .dtype = TS_F32, .family = "normal" };
            c[i].dim[0] = 17, c[i].dim[1] = 17, c[i].dim[2] = 1;
            if (way == 0) c[i].dim[2] = odd ? 2 + i % 3 : 1;
            if (way == 1)
                c[i].dim[0] = 17 + i % 3, c[i].dim[1] = odd ? 33 + i % 8 / 2 : 16 + 8 * (i % 5);
            if (way == 2)
                c[i].dim[0] = 11 + i / 4, c[i].dim[1] = c[i].dim[0] + (odd ? i % 5 - 7 : 0);
            if (way == 3 && odd) c[i].dtype = TS_BF16;
            if (way == 4 && odd) c[i].family = "empty";
            if (way == 7) c[i].dim[0] = i + 1 - odd;
            r[i] = (ts_words_result) { &c[i],
                                       way == 5   ? false
                                       : way == 6 ? true
                                       : way == 7 ? i < 30
                                                  : !odd,
                                       0 };
        }
        ts_words_apart(t, r, RESULTS, true, s, sizeof s);
        if (strcmp(s, want[way])) fail_msg("way %d: got '%s', want '%s'", way, s, want[way]);
    }
}

/* Where ordinary inputs fail, others are not the reason, even if all of them fail. */
TEST(says_that_ordinary_inputs_fail)
{
    const ts_task  *t = ts_task_called("flash_attention");
    ts_case         c[RESULTS];
    ts_words_result r[RESULTS];
    char            s[TS_WORDS];
    for (int way = 0; way < 2; way++) {
        for (int i = 0; i < RESULTS; i++) {
            c[i] = (ts_case) { .use = TS_USE_CHECK, .family = i < 5 ? "ties" : "normal" };
            r[i] = (ts_words_result) { &c[i], i >= 5 && (way ? i % 5 : i % 3 == 0), 0 };
        }
        ts_words_apart(t, r, RESULTS, true, s, sizeof s);
        assert_string_equal(s, way ? "fails where values are equal"
                                   : "fails already with ordinary inputs");
    }
}

/* A property that three of ten passed cases lack, and all others have, may be chance. */
TEST(says_nothing_by_chance)
{
    const ts_task  *t = ts_task_called("flash_attention");
    ts_case         c[RESULTS];
    ts_words_result r[RESULTS];
    char            s[TS_WORDS];
    for (int i = 0; i < RESULTS; i++) {
        c[i] = (ts_case) { .use = TS_USE_CHECK, .family = "normal", .dim = { 5, i < 3 ? 256 : 9 } };
        r[i] = (ts_words_result) { &c[i], i < RESULTS / 4, 0 };
    }
    ts_words_apart(t, r, RESULTS, true, s, sizeof s);
    assert_string_equal(s, "fails already with ordinary inputs");
}

/* Every family of a challenge has words. */
TEST(families_have_words)
{
    for (int t = 0; ts_tasks[t]; t++)
        for (const ts_case *c = ts_tasks[t]->cases(); c->use && !ts_tasks[t]->no_challenge; c++)
            if (c->use & TS_USE_CHECK && !ts_family_words(ts_tasks[t], c->family))
                fail_msg("%s: family %s has no words", ts_tasks[t]->name, c->family);
}

/* The largest of memory, arithmetic and a call; only an entrant faster than all is suspect. */
TEST(floors)
{
    const ts_peaks plain = { .gbs = 100, .gflops = 50, .matrix = 1, .call_ns = 1000 };
    const ts_peaks tiles = { .gbs = 100, .gflops = 50, .matrix = 16, .call_ns = 1000 };
    ts_floor       f = ts_floor_of(&plain, (ts_cost) { .bytes = 1e6, .flops = 1e5 }, 80);
    assert_string_equal(f.by, "memory");
    assert_true(f.ns == 1e6 / 80 && f.hard_ns == 1e6 / 100);
    f = ts_floor_of(&plain, (ts_cost) { .bytes = 1e6, .flops = 1e7 }, 80);
    assert_string_equal(f.by, "arithmetic");
    assert_true(f.ns == 1e7 / 50 && f.hard_ns == f.ns);
    f = ts_floor_of(&tiles, (ts_cost) { .bytes = 1e6, .flops = 1e7 }, 80);
    assert_true(f.ns == 1e7 / 50 && fabs(f.hard_ns - f.ns * 3 / 16) < 1e-6);
    f = ts_floor_of(&plain, (ts_cost) { .bytes = 1e6, .flops = 1e7, .least_flops = 1e6 }, 80);
    assert_true(f.ns == 1e6 / 50);
    /* What an entrant may do without, or in another way, is no hard limit. */
    const ts_peaks exps = { .gbs = 100, .gexps = 2, .gdexps = 1, .model_ns = 3, .sum_ns = 0.5 };
    f = ts_floor_of(&exps, (ts_cost) { .bytes = 1e6, .exps = 1e5 }, 80);
    assert_string_equal(f.by, "exponentials");
    assert_true(f.ns == 5e4 && f.hard_ns == 1e4);
    f = ts_floor_of(&exps, (ts_cost) { .bytes = 1e6, .dexps = 1e5 }, 80);
    assert_true(f.ns == 1e5 && f.hard_ns == 1e4);
    f = ts_floor_of(&exps, (ts_cost) { .bytes = 1e6, .dexps = 1e5, .model_logits = 1e4 }, 80);
    assert_true(f.ns == 1e5 + 3e4 && f.hard_ns == 1e4);
    f = ts_floor_of(&exps, (ts_cost) { .bytes = 1e6, .model_logits = 1e4, .model_sums = 1e4 }, 80);
    assert_true(f.ns == 96e4 / 80 + 3e4 + 5e3 && f.hard_ns == 1e4);
    f = ts_floor_of(&plain, (ts_cost) { .bytes = 100, .flops = 100 }, 80);
    assert_string_equal(f.by, "call");
    assert_true(f.ns == 1000 && f.hard_ns == 2);
    f = (ts_floor) { 100, 100, "memory" };
    assert_true(!ts_floor_beaten(f, 99) && ts_floor_beaten(f, 98)); /* measured to 2 % */
    f = (ts_floor) { 100, 40, "arithmetic" }; /* in a way that the floor does not know */
    assert_true(!ts_floor_beaten(f, 50) && !ts_floor_beaten(f, 0));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* unit_hostile.c - tests the untimed calls between timed ones: their families, their buffers, which
 * are the timed ones, their expected outputs; and that no layout depends on a seed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "run.h"
#include "unit.h"

static const ts_case *smallest_timed(const ts_task *t)
{
    const ts_case *best = NULL;
    for (const ts_case *c = t->cases(); c->use; c++)
        if (c->use & (TS_USE_TIME | TS_USE_JUDGE) && !(c->use & TS_USE_LARGE) &&
            c->dtype == TS_F32 && !strcmp(c->family, "normal") && t->cost(c).bytes >= 4e5 &&
            (!best || t->cost(c).bytes < t->cost(best).bytes))
            best = c;
    return best;
}

/* How many of them have the timed case's buffers; all are set up and answered. */
static int ask(const ts_task *t, const ts_case *timed, const ts_case *all, int n)
{
    static ts_arena m[2];
    static bool     open;
    void           *args = calloc(2, t->args_bytes);
    int             n_alike = 0;
    if (!open) open = ts_arena_open(&m[0]) && ts_arena_open(&m[1]);
    if (!open || !args) abort();
    ts_arena_setup(&m[0], t, timed, 1, args);
    for (int i = 0; i < n; i++) {
        void *const mine = (char *)args + t->args_bytes;
        ts_arena_setup(&m[1], t, &all[i], 1, mine);
        ts_want *want = calloc(t->n_want(&all[i]) + 1, sizeof *want);
        if (!want) abort();
        t->oracle(&all[i], mine, want);
        n_alike += ts_alike(&m[0], &m[1]);
        free(want);
    }
    ts_arena_clear(&m[0]);
    ts_arena_clear(&m[1]);
    free(args);
    return n_alike;
}

static bool has(const ts_case *all, int n, const char *family, int64_t heat)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(all[i].family, family) && (!heat || all[i].dim[4] == heat)) return true;
    return false;
}

TEST(every_task_has_some)
{
    for (int i = 0; ts_tasks[i]; i++) {
        const ts_task *t = ts_tasks[i];
        const ts_case *timed = smallest_timed(t);
        ts_case        all[TS_HOSTILE];
        if (!timed || t->no_challenge) continue;
        const int n = ts_hostile_of(t, timed, 7, all), n_alike = ask(t, timed, all, n);
        printf("%s: %d of %d\n", t->name, n_alike, n);
        if (t->kind == TS_PLAIN) {
            assert_true(n >= 8);
            assert_int_equal(n_alike, n);
        }
    }
}

/* A search whose scores are too near to each other cannot be drawn, in any shape that is judged. */
TEST(searches_can_be_drawn)
{
    ts_case all[TS_HOSTILE];
    for (int i = 0; ts_tasks[i]; i++)
        for (const ts_case *c = ts_tasks[i]->cases(); c->use; c++)
            if (c->use & TS_USE_JUDGE && ts_tasks[i]->has_model)
                ask(ts_tasks[i], c, all, ts_hostile_of(ts_tasks[i], c, 7, all));
}

TEST(of_softmax_there_are_these)
{
    const char *const family[] = { "nonfinite", "offset",    "offset30", "spike", "masked", "ties",
                                   "underflow", "subnormal", "flat",     "cold",  "hot" };
    const ts_task    *t = ts_task_called("softmax_topk");
    ts_case           all[TS_HOSTILE], again[TS_HOSTILE];
    int               n_moved = 0;
    const ts_case    *timed = smallest_timed(t);
    const int         n = ts_hostile_of(t, timed, 7, all);
    for (size_t k = 0; k < sizeof family / sizeof *family; k++)
        assert_true(has(all, n, family[k], 0));
    assert_true(has(all, n, "offset", 100) && has(all, n, "cold", 1000) && has(all, n, "hot", 30));
    assert_int_equal(ts_hostile_of(t, timed, 7, again), n); /* the same from the same seed */
    for (int k = 0; k < n; k++) assert_string_equal(all[k].family, again[k].family);
    ts_hostile_of(t, timed, 8, again);
    for (int k = 0; k < n; k++) n_moved += strcmp(all[k].family, again[k].family) != 0;
    assert_true(n_moved > n / 2);
}

/* The same case again is laid out alike by every task: blocks are filled in place. */
static const double MOST_BYTES = 1e8; /* caches of gigabytes take seconds each */

TEST(the_layout_does_not_depend_on_the_seed)
{
    int n = 0, n_cover = 0;
    for (int t = 0; ts_tasks[t]; t++)
        for (const ts_case *c = ts_tasks[t]->cases(); c->use; c++) {
            unsigned char args[TS_CALL_ARGS], *first[TS_MAX_BUFS];
            ts_arena      m;
            if (c->use & TS_USE_COVER && n_cover++ % 8) continue; /* they are many, and alike */
            if (c->dim[0] * c->dim[1] > 20000 || c->dim[2] > 1000) continue;
            if (ts_tasks[t]->cost(c).bytes > MOST_BYTES) continue;
            assert_true(ts_tasks[t]->args_bytes <= TS_CALL_ARGS);
            assert_true(ts_arena_open(&m));
            m.aligned = true; /* else places are drawn from the seed: unit_lay.c */
            ts_arena_setup(&m, ts_tasks[t], c, 1, args);
            const int n_bufs = m.n;
            for (int i = 0; i < n_bufs; i++) first[i] = m.buf[i].p;
            ts_arena_setup(&m, ts_tasks[t], c, 0xfeedbeef, args);
            assert_int_equal(m.n, n_bufs);
            for (int i = 0; i < n_bufs; i++) assert_ptr_equal(m.buf[i].p, first[i]);
            ts_arena_close(&m);
            n++;
        }
    assert_true(n > 10);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* unit_merge.c - tests merging logs of like and unlike machines, with duplicate answers, of two
 * versions, and without an end. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "board.h"
#include "merge.h"
#include "unit.h"

/* A run to be written; the default is a machine with 100 GB/s. */
typedef struct run {
    const char *version, *machine, *depth;
    double      gbs;
    int         held; /* guarantees, of 4 */
} run;

static const run HERE = { "1", "cpu", "quick", 100, 4 };

static ts_log *the_log;
static char    path[64];

static void begin(void)
{
    char why[TS_WHY];
    strcpy(path, "/tmp/touchstone-unit-XXXXXX");
    close(mkstemp(path));
    the_log = ts_log_open(path, NULL, why);
    assert_non_null(the_log);
}

static void commit(void)
{
    assert_true(ts_log_commit(the_log));
}

static void put_run(run r)
{
    ts_jw *w = ts_log_begin(the_log, "run");
    ts_jw_text(w, "version", r.version);
    ts_jw_text(w, "machine", r.machine);
    ts_jw_text(w, "depth", r.depth);
    ts_jw_open(w, "guarantees", '[');
    for (int i = 0; i < 4; i++) {
        ts_jw_open(w, NULL, '{');
        ts_jw_bool(w, "held", i < r.held);
        ts_jw_close(w, '}');
    }
    ts_jw_close(w, ']');
    ts_jw_text(w, "badge", r.held < 4 ? "reduced" : "full");
    ts_jw_text(w, "commit", "");
    ts_jw_text(w, "started", "");
    ts_jw_open(w, "floors", '{');
    ts_jw_num(w, "memory_gbs", r.gbs);
    ts_jw_num(w, "gflops", 1000);
    ts_jw_close(w, '}');
    commit();
}

static void entrant(int id, const char *name, const char *task)
{
    static const char *const empty[] = { "author", "class", "language", "source_sha256", "family" };
    ts_jw                   *w = ts_log_begin(the_log, "entrant");
    ts_jw_int(w, "id", id);
    ts_jw_text(w, "name", name);
    ts_jw_text(w, "task", task);
    for (int i = 0; i < 5; i++) ts_jw_text(w, empty[i], "");
    commit();
}

static void verdict(int id, const char *task, const char *what)
{
    ts_jw *w = ts_log_begin(the_log, "verdict");
    ts_jw_int(w, "entrant", id);
    ts_jw_text(w, "task", task);
    ts_jw_text(w, "verdict", what);
    ts_jw_text(w, "reason", "");
    ts_jw_text(w, "text", "");
    ts_jw_num(w, "io_bytes", 1000);
    commit();
}

/* Timed calls of about `ns`, then PASS. */
static void timed(int id, const char *task, double ns)
{
    ts_jw *w = ts_log_begin(the_log, "time");
    ts_jw_int(w, "entrant", id);
    ts_jw_text(w, "task", task);
    ts_jw_text(w, "case", "");
    ts_jw_int(w, "workload", 0);
    ts_jw_int(w, "workloads", 1);
    ts_jw_num(w, "floor_ns", 100);
    ts_jw_open(w, "ns", '[');
    for (int i = 0; i < 15; i++) ts_jw_num(w, NULL, ns * (1 + 0.001 * (i % 3)));
    ts_jw_close(w, ']');
    ts_jw_num(w, "time_ns", ns);
    ts_jw_num(w, "lo_ns", ns);
    ts_jw_num(w, "hi_ns", ns);
    ts_jw_num(w, "fraction", 100 / ns);
    commit();
    verdict(id, task, "PASS");
}

static void end(void)
{
    ts_jw_int(ts_log_begin(the_log, "end"), "verdicts", 0);
    commit();
}

/* The log, read. */
static ts_records closed(void)
{
    ts_records r;
    char       why[TS_WHY];
    ts_log_close(the_log);
    if (!ts_records_read(path, &r, why)) fail_msg("%s", why);
    unlink(path);
    return r;
}

/* A whole log: two entrants of one challenge. The ids of all logs are the same. */
static ts_records log_of(run on, const char *task, const char *a, double a_ns, const char *b,
                         double b_ns)
{
    begin();
    put_run(on);
    entrant(7, a, task);
    entrant(9, b, task);
    timed(7, task, a_ns);
    timed(9, task, b_ns);
    end();
    return closed();
}

typedef struct merged {
    ts_records r;
    ts_board   b;
} merged;

/* Merges and frees the logs. */
static merged merge(ts_records *log, int n)
{
    merged    m;
    char      why[TS_WHY];
    ts_merge *all = ts_merge_begin();
    for (int i = 0; i < n; i++) {
        if (!ts_merge_add(all, &log[i], why)) fail_msg("%s", why);
        ts_records_free(&log[i]);
    }
    if (!ts_merge_end(all, &m.r, why) || !ts_board_make(&m.r, &m.b, why)) fail_msg("%s", why);
    return m;
}

static void forget(merged *m)
{
    ts_board_free(&m->b);
    ts_records_free(&m->r);
}

static int count(const merged *m, const char *type, const char *task)
{
    int n = 0;
    for (size_t i = 0; i < m->r.n; i++)
        n += !strcmp(m->r.at[i].type, type) &&
             (!task || !strcmp(ts_jr_text(m->r.at[i].root, "task", ""), task));
    return n;
}

static const ts_entrant_row *row(const merged *m, const char *name, const char *task)
{
    for (size_t i = 0; i < m->b.n_rows; i++)
        if (!strcmp(m->b.row[i].name, name) && !strcmp(m->b.row[i].task, task)) return &m->b.row[i];
    fail_msg("%s is not in %s", name, task);
    return NULL;
}

TEST(challenges_of_two_machines)
{
    const run  there = { "1", "other cpu", "quick", 300, 3 };
    ts_records log[] = { log_of(HERE, "kv_cache", "ann", 200, "bob", 400),
                         log_of(there, "softmax", "bob", 210, "ann", 105) };
    merged     m = merge(log, 2);
    assert_int_equal(m.b.n_overall, 2);
    assert_int_equal(m.b.n_rows, 4);
    assert_string_equal(m.b.note, "Challenges were timed on unlike machines (machine cpu and other "
                                  "cpu), each challenge on one of them.");
    assert_int_equal(count(&m, "score", NULL), 4);
    assert_int_equal(count(&m, "match", NULL), 2);
    assert_true(m.b.ended);
    assert_string_equal(m.b.row[m.b.overall[0].first].name, "ann");
    assert_int_equal(m.b.pair[1].won, 2);
    assert_non_null(m.b.overall[0].rank); /* over the games of both logs */
    assert_true(ts_jr_number(m.b.overall[0].rank, "rating", 0) >
                ts_jr_number(m.b.overall[1].rank, "rating", 0));
    assert_string_equal(ts_jr_text(m.b.run, "badge", ""), "reduced"); /* the weaker of two */
    forget(&m);
}

/* The same challenge: verdicts stay, times do not, and another challenge keeps its own. */
TEST(unlike_machines)
{
    static const run others[] = { { "1", "other cpu", "quick", 100, 4 },
                                  { "1", "cpu", "normal", 100, 4 },
                                  { "1", "cpu", "quick", 130, 4 } };
    for (int i = 0; i < 3; i++) {
        ts_records log[] = { log_of(HERE, "softmax", "ann", 200, "bob", 400),
                             log_of(others[i], "softmax", "cyd", 100, "dan", 110),
                             log_of(HERE, "kv_cache", "ann", 200, "bob", 400) };
        merged     m = merge(log, 3);
        assert_non_null(strstr(m.b.note, "(softmax)"));
        assert_non_null(strstr(m.b.note, "unlike machines"));
        assert_int_equal(count(&m, "verdict", "softmax"), 4);
        assert_int_equal(count(&m, "time", "softmax"), 0);
        assert_int_equal(count(&m, "score", "softmax"), 0);
        assert_int_equal(count(&m, "match", "softmax"), 0);
        assert_int_equal(count(&m, "rank", "softmax"), 0);
        assert_int_equal(count(&m, "score", "kv_cache"), 2);
        assert_true(ts_row_passed(row(&m, "dan", "softmax"), true));
        assert_true(m.b.overall[0].passed == 2 && m.b.overall[3].passed == 1);
        assert_true(fabs(m.b.overall[0].S - 0.5) < 1e-9); /* of the challenge with times */
        forget(&m);
    }
}

/* Like machines: scores are of one board. Two pairs that never met have no common rating. */
TEST(like_machines)
{
    const run  noisy = { "1", "cpu", "quick", 115, 4 };
    ts_records log[] = { log_of(HERE, "softmax", "ann", 200, "bob", 400),
                         log_of(noisy, "softmax", "cyd", 100, "dan", 110),
                         log_of(HERE, "kv_cache", "ann", 200, "bob", 400) };
    merged     m = merge(log, 3);
    assert_string_equal(m.b.note, "");
    assert_int_equal(count(&m, "score", "softmax"), 4);
    assert_int_equal(count(&m, "rank", "overall"), 0);
    assert_true(ts_jr_number(row(&m, "cyd", "softmax")->score, "S", 0) > 0.9);
    forget(&m);
}

/* A log that was resumed on another machine is treated as two. */
TEST(resumed_elsewhere)
{
    run there = HERE;
    there.machine = "other cpu";
    begin();
    put_run(HERE);
    entrant(0, "ann", "softmax");
    timed(0, "softmax", 200);
    put_run(there);
    entrant(1, "bob", "softmax");
    timed(1, "softmax", 150);
    end();
    ts_records log = closed();
    merged     m = merge(&log, 1);
    assert_non_null(strstr(m.b.note, "machine cpu and other cpu"));
    assert_int_equal(count(&m, "score", NULL), 0);
    assert_int_equal(m.b.overall[0].passed + m.b.overall[1].passed, 2);
    forget(&m);
}

/* The first log with a verdict counts; two entrants of one log are two, whatever their names. */
TEST(answers_twice)
{
    ts_records log[3];
    begin(); /* cut off before bob was judged */
    put_run(HERE);
    entrant(0, "ann", "softmax");
    entrant(1, "bob", "softmax");
    verdict(0, "softmax", "FAIL");
    log[0] = closed();
    log[1] = log_of(HERE, "softmax", "ann", 200, "bob", 400);
    log[2] = log_of(HERE, "softmax", "bob", 300, "bob", 100);
    merged m = merge(log, 3);
    assert_int_equal(m.b.n_rows, 2);
    assert_false(ts_row_passed(row(&m, "ann", "softmax"), false));
    assert_true(ts_jr_number(row(&m, "bob", "softmax")->score, "S", 0) == 0.25);
    assert_int_equal(count(&m, "match", NULL), 0); /* ann of that log is left out */
    assert_false(m.b.ended);
    forget(&m);
    log[0] = log_of(HERE, "softmax", "bob", 300, "bob", 100);
    m = merge(log, 1);
    assert_int_equal(m.b.n_rows, 2);
    forget(&m);
}

TEST(bad_logs)
{
    run  newer = HERE;
    char why[TS_WHY];
    newer.version = "2";
    ts_records a = log_of(HERE, "softmax", "ann", 200, "bob", 400);
    ts_records b = log_of(newer, "kv_cache", "ann", 200, "bob", 400);
    ts_merge  *m = ts_merge_begin();
    assert_true(ts_merge_add(m, &a, why));
    assert_false(ts_merge_add(m, &b, why));
    assert_string_equal(why, "judged by version 2, draw rule 1; the logs before by 1, draw rule 1; "
                             "report them separately");
    ts_merge_free(m);
    ts_records_free(&a);
    ts_records_free(&b);
    begin();
    put_run(HERE);
    entrant(3, "ann", "softmax");
    verdict(4, "softmax", "PASS");
    a = closed();
    m = ts_merge_begin();
    assert_false(ts_merge_add(m, &a, why));
    assert_non_null(strstr(why, "line 3: verdict of an unknown entrant"));
    ts_merge_free(m);
    ts_records_free(&a);
}

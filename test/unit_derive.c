/* SPDX-License-Identifier: Apache-2.0 */
/* unit_derive.c - scores, matches and ranks from the times and verdicts of a log: ann and bob in
 * two challenges, in one run of the log or in two. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "board.h"
#include "derive.h"
#include "unit.h"

enum { ANN, BOB, BOB_2, ANN_2 }; /* ids: ann and bob in the first challenge, then bob and ann */

static char path[] = "/tmp/touchstone-unit-XXXXXX";

static const char *task_of(int id)
{
    return id < 2 ? "softmax_topk" : "kv_cache";
}

/* Further fields that records of a type must have: s text, n number, a array, with spaces between.
 */
static void put_rest(ts_jw *w, const char *type)
{
    static const struct {
        const char *type, *fields;
    } rest[] = {
        { "run", "sversion smachine aguarantees sbadge scommit sstarted " },
        { "entrant", "sauthor slanguage ssource_sha256 sfamily " },
        { "verdict", "sreason stext " },
        { "time", "nfraction " },
        { "score", "nscore nS nS_lo nS_hi nS_min nP nR nM sgrade " },
        { "match", "neffect nlo nhi npairs " },
    };
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        for (const char *p = rest[i].fields; !strcmp(type, rest[i].type) && *p;
             p = strchr(p, ' ') + 1) {
            char key[32];
            snprintf(key, sizeof key, "%.*s", (int)strcspn(p, " ") - 1, p + 1);
            if (*p == 's') ts_jw_text(w, key, "");
            else if (*p == 'n') ts_jw_int(w, key, 0);
            else ts_jw_open(w, key, '['), ts_jw_close(w, ']');
        }
}

static ts_jw *put(ts_log *l, const char *type, int id)
{
    ts_jw *w = ts_log_begin(l, type);
    put_rest(w, type);
    if (!strcmp(type, "entrant")) {
        ts_jw_int(w, "id", id);
        ts_jw_text(w, "name", id == ANN || id == ANN_2 ? "ann" : "bob");
        ts_jw_text(w, "class", id == BOB || id == BOB_2 ? "sealed" : "host");
        ts_jw_num(w, "share", id == BOB_2 ? 0.5 : 1);
    } else if (id >= 0) ts_jw_int(w, "entrant", id);
    if (id >= 0) ts_jw_text(w, "task", task_of(id));
    return w;
}

static void simple(ts_log *l, const char *type, int id)
{
    put(l, type, id);
    assert_true(ts_log_commit(l));
}

static void verdict(ts_log *l, int id, const char *what)
{
    ts_jw *w = put(l, "verdict", id);
    ts_jw_text(w, "verdict", what);
    ts_jw_num(w, "p999", 0.01);
    ts_jw_open(w, "robustness", '{');
    ts_jw_open(w, "refusals", '[');
    ts_jw_int(w, NULL, 3);
    ts_jw_int(w, NULL, 4);
    ts_jw_close(w, ']');
    ts_jw_close(w, '}');
    ts_jw_num(w, "workspace_bytes", 0);
    ts_jw_num(w, "io_bytes", 1000);
    assert_true(ts_log_commit(l));
}

/* Two workloads of 15 calls each, about `ns` long; the floor is 100. */
static void timed(ts_log *l, int id, double ns)
{
    for (int k = 0; k < 2; k++) {
        ts_jw *w = put(l, "time", id);
        ts_jw_text(w, "case", k ? "large" : "small");
        ts_jw_int(w, "workload", k);
        ts_jw_int(w, "workloads", 2);
        ts_jw_num(w, "floor_ns", 100);
        ts_jw_open(w, "ns", '[');
        for (int i = 0; i < 15; i++) ts_jw_num(w, NULL, ns * (1 + 0.001 * (i % 3)));
        ts_jw_close(w, ']');
        ts_jw_num(w, "time_ns", ns);
        ts_jw_num(w, "lo_ns", ns);
        ts_jw_num(w, "hi_ns", 1.002 * ns);
        ts_jw_num(w, "error", k ? 0.02 : 0.01);
        assert_true(ts_log_commit(l));
    }
}

/* The textbook takes 3200 in both workloads, the best known version 200. */
static void anchors_in(ts_log *l, int id, const char *kind, const char *note,
                       const char *const workload[2], double error)
{
    for (int k = 0; k < 2; k++) {
        ts_jw *w = ts_log_begin(l, "anchor");
        ts_jw_text(w, "task", task_of(id));
        ts_jw_text(w, "kind", kind);
        ts_jw_text(w, "workload", workload[k]);
        ts_jw_num(w, "text_ns", 3200);
        if (!k || !*note) ts_jw_num(w, "best_ns", 200);
        ts_jw_num(w, "best_error", k ? error : error / 2);
        ts_jw_num(w, "best_memory", 0);
        if (k && *note) ts_jw_text(w, "note", note);
        assert_true(ts_log_commit(l));
    }
}

static void anchors(ts_log *l, int id, const char *kind, const char *note)
{
    anchors_in(l, id, kind, note, (const char *const[]) { "small", "large" }, 0.02);
}

/* A log with a run and its four entrants. */
static ts_log *begin(void)
{
    char    why[TS_WHY];
    ts_log *l = ts_log_open(path, NULL, why);
    if (!l) fail_msg("%s", why);
    simple(l, "run", -1);
    for (int i = 0; i < 4; i++) simple(l, "entrant", i);
    return l;
}

/* The times of two entrants, then their verdicts. */
static void pair(ts_log *l, int a, double a_ns, const char *of_a, int b, double b_ns,
                 const char *of_b)
{
    timed(l, a, a_ns);
    timed(l, b, b_ns);
    verdict(l, a, of_a);
    verdict(l, b, of_b);
}

static ts_records derived(void)
{
    ts_records r;
    char       why[TS_WHY];
    if (!ts_records_read(path, &r, why)) fail_msg("%s", why);
    assert_true(ts_derive_into_records(&r));
    return r;
}

static int count(const ts_records *r, const char *type)
{
    int n = 0;
    for (size_t i = 0; i < r->n; i++) n += !strcmp(r->at[i].type, type);
    return n;
}

static const ts_jr_node *find(const ts_records *r, const char *type, const char *task, int64_t id)
{
    for (size_t i = 0; i < r->n; i++) {
        int64_t of = -1;
        ts_jr_int(ts_jr_get(r->at[i].root, "entrant"), &of);
        if (!strcmp(r->at[i].type, type) && of == id &&
            !strcmp(ts_jr_text(r->at[i].root, "task", ""), task))
            return r->at[i].root;
    }
    return NULL;
}

/* Of the ranking of `task`: how many rows, and the ratings by id. */
static size_t ratings(const ts_records *r, const char *task, double rating[4])
{
    const ts_jr_node *list = ts_jr_get(find(r, "rank", task, -1), "rows");
    memset(rating, 0, 4 * sizeof *rating);
    for (size_t i = 0; i < ts_jr_len(list); i++) {
        int64_t id;
        assert_true(ts_jr_int(ts_jr_get(ts_jr_at(list, i), "entrant"), &id));
        rating[id] = ts_jr_number(ts_jr_at(list, i), "rating", 0);
    }
    return ts_jr_len(list);
}

static int start(void **state)
{
    (void)state;
    strcpy(path + strlen(path) - 6, "XXXXXX");
    close(mkstemp(path));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    return unlink(path);
}

TEST_WITH(one_challenge, start, stop)
{
    double  rating[4];
    ts_log *l = begin();
    anchors(l, ANN, "python", "");
    anchors(l, ANN, "c", "");
    pair(l, ANN, 200, "PASS", BOB, 400, "AUDIT");
    ts_log_close(l);
    ts_records        r = derived();
    const ts_jr_node *ann = find(&r, "score", task_of(ANN), ANN);
    assert_true(fabs(ts_jr_number(ann, "S", 0) - 0.5) < 1e-12);
    assert_true(ts_jr_number(ann, "R", 0) == 0.75);
    assert_true(ts_jr_number(ann, "P", 0) == 1 && ts_jr_number(ann, "M", 0) == 1);
    assert_true(fabs(ts_jr_number(ann, "speed", 0) - 800) < 1e-9);
    assert_true(fabs(ts_jr_number(ann, "of_best", 0) - 1) < 1e-12);
    assert_true(fabs(ts_jr_number(ann, "score", 0) - 800 * pow(0.75, 0.15)) < 1e-9);
    const ts_jr_node *bob = find(&r, "score", task_of(BOB), BOB);
    assert_true(ts_jr_number(bob, "score", 1) == 0);
    assert_string_equal(ts_jr_text(bob, "grade", ""), "-");
    assert_int_equal(count(&r, "match"), 1);
    assert_int_equal(ratings(&r, task_of(ANN), rating), 2);
    assert_true(rating[ANN] > rating[BOB]);
    assert_int_equal(ratings(&r, "overall", rating), 0); /* one challenge has its own ranking */
    ts_records_free(&r);
}

/* bob loses both, once as an entrant of another number; half of a share is the root of a half of a
 * score. */
TEST_WITH(all_challenges, start, stop)
{
    double  rating[4];
    ts_log *l = begin();
    anchors(l, ANN, "c", "");
    anchors(l, ANN_2, "c", "");
    pair(l, ANN, 200, "PASS", BOB, 400, "PASS (common)");
    pair(l, BOB_2, 400, "PASS", ANN_2, 200, "PASS");
    ts_log_close(l);
    ts_records r = derived();
    assert_int_equal(ratings(&r, "overall", rating), 2);
    if (!(rating[ANN] > 1600 && rating[BOB] < 1400 && !rating[BOB_2] && !rating[ANN_2]))
        fail_msg("ratings %g %g %g %g", rating[0], rating[1], rating[2], rating[3]);
    const double whole = ts_jr_number(find(&r, "score", task_of(BOB), BOB), "score", 0);
    const double half = ts_jr_number(find(&r, "score", task_of(BOB_2), BOB_2), "score", 0);
    assert_true(whole > 0 && fabs(half - whole * sqrt(0.5)) < 1e-9);
    ts_records_free(&r);
}

/* An earlier version of the judge wrote what follows into the log itself, and bob won there nine
 * games to ann's four now: that run is left alone, and its games count. */
TEST_WITH(what_was_resumed, start, stop)
{
    double  rating[4];
    ts_log *l = begin();
    simple(l, "score", ANN);
    ts_jw *w = ts_log_begin(l, "match");
    put_rest(w, "match");
    ts_jw_text(w, "task", task_of(ANN));
    ts_jw_int(w, "a", ANN);
    ts_jw_int(w, "b", BOB);
    ts_jw_text(w, "verdict", "b");
    ts_jw_open(w, "workloads", '[');
    for (int i = 0; i < 9; i++) ts_jw_text(w, NULL, "b");
    ts_jw_close(w, ']');
    assert_true(ts_log_commit(l));
    simple(l, "run", -1);
    pair(l, BOB_2, 400, "PASS", ANN_2, 200, "PASS");
    ts_log_close(l);
    ts_records r = derived();
    assert_int_equal(count(&r, "score"), 3);
    assert_int_equal(ratings(&r, "overall", rating), 2);
    assert_true(rating[BOB] > rating[ANN]);
    ts_records_free(&r);
}

/* What went into the log is not derived again, and is what memory gets. */
TEST_WITH(twice_is_once, start, stop)
{
    char    why[TS_WHY];
    ts_log *l = begin();
    anchors(l, ANN, "c", "");
    pair(l, ANN, 200, "PASS", BOB, 201, "PASS");
    ts_records held = derived(), r;
    assert_true(ts_records_read(path, &r, why));
    assert_true(ts_derive_into_log(&r, l));
    ts_records_free(&r);
    ts_log_close(l);
    r = derived();
    assert_int_equal(r.n, held.n);
    for (size_t i = 0; i < r.n; i++) {
        assert_string_equal(r.at[i].type, held.at[i].type);
        assert_true(ts_jr_number(r.at[i].root, "score", 0) ==
                    ts_jr_number(held.at[i].root, "score", 0));
    }
    ts_board b;
    assert_true(ts_board_make(&r, &b, why));
    assert_int_equal(b.n_overall, 2);
    ts_board_free(&b);
    ts_records_free(&r);
    ts_records_free(&held);
}

/* Without anchors of its kind, as in older logs, or if the best known version failed in a workload:
 * no score, though S is there, and every reader copes. */
TEST_WITH(without_anchors, start, stop)
{
    char    why[TS_WHY];
    ts_log *l = begin();
    anchors(l, ANN, "python", "");
    pair(l, ANN, 200, "PASS", BOB, 400, "PASS");
    anchors(l, ANN_2, "c", "library: crash");
    pair(l, BOB_2, 400, "PASS", ANN_2, 200, "PASS");
    ts_log_close(l);
    ts_records r = derived();
    for (int i = 0; i < 4; i++) {
        const ts_jr_node *s = find(&r, "score", task_of(i), i);
        assert_true(s && !ts_jr_get(s, "score") && !ts_jr_get(s, "speed"));
        assert_true(ts_jr_number(s, "S", 0) > 0.2 && !ts_jr_get(s, "of_best"));
        assert_string_equal(ts_jr_text(s, "grade", ""), "-");
    }
    ts_board b;
    assert_true(ts_board_make(&r, &b, why));
    assert_true(b.overall[0].scored == 0 && b.overall[0].S > 0 && b.overall[0].passed == 2);
    assert_string_equal(b.overall[0].grade, "-");
    FILE *f = tmpfile();
    char  text[8192] = "";
    ts_board_print(&b, f);
    rewind(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    assert_non_null(strstr(text, "no score for c entrants: library: crash\n"));
    fclose(f);
    ts_board_free(&b);
    ts_records_free(&r);
}

/* Of workloads adapted to scopes of others, however many there are, nothing counts here: not the
 * error of the best known version, which is a tenth of ann's in ann's own workloads. */
TEST_WITH(anchors_of_other_scopes, start, stop)
{
    ts_log *l = begin();
    for (int i = 0; i < 100; i++)
        anchors_in(l, ANN, "c", "", (const char *const[]) { "adapted", "adapted too" }, 0.5);
    anchors_in(l, ANN, "c", "", (const char *const[]) { "small", "large" }, 0.002);
    pair(l, ANN, 200, "PASS", BOB, 200, "PASS");
    ts_log_close(l);
    ts_records        r = derived();
    const ts_jr_node *ann = find(&r, "score", task_of(ANN), ANN);
    assert_true(fabs(ts_jr_number(ann, "speed", 0) - 800) < 1e-9);
    assert_true(fabs(ts_jr_number(ann, "P", 0) - log(0.02 / 2) / log(0.002)) < 1e-9);
    ts_records_free(&r);
}

/* A device has no textbook of some challenges. */
TEST_WITH(without_a_textbook, start, stop)
{
    ts_log *l = begin();
    ts_jw  *w = NULL;
    for (int k = 0; k < 2; k++) {
        w = ts_log_begin(l, "anchor");
        ts_jw_text(w, "task", task_of(ANN));
        ts_jw_text(w, "kind", "c");
        ts_jw_text(w, "workload", k ? "large" : "small");
        ts_jw_num(w, "best_ns", 200);
        assert_true(ts_log_commit(l));
    }
    pair(l, ANN, 400, "PASS", BOB, 200, "PASS");
    ts_log_close(l);
    ts_records r = derived();
    assert_true(fabs(ts_jr_number(find(&r, "score", task_of(ANN), ANN), "speed", 0) - 400) < 1e-9);
    assert_true(fabs(ts_jr_number(find(&r, "score", task_of(BOB), BOB), "speed", 0) - 800) < 1e-9);
    ts_records_free(&r);
}

/* Next to one that was timed, one that was not has no speed either, not the least one. */
TEST_WITH(one_is_not_timed, start, stop)
{
    ts_log *l = begin();
    anchors(l, ANN, "c", "");
    timed(l, ANN, 200);
    verdict(l, ANN, "PASS");
    verdict(l, BOB, "PASS");
    ts_log_close(l);
    ts_records r = derived();
    assert_non_null(find(&r, "score", task_of(ANN), ANN));
    assert_int_equal(count(&r, "score"), 1);
    ts_records_free(&r);
}

/* An entrant that failed late, or was not timed where no other was, has no score. */
TEST_WITH(gaps, start, stop)
{
    ts_log *l = begin();
    timed(l, ANN, 200);
    verdict(l, ANN, "FAIL");
    verdict(l, BOB, "PASS");
    ts_log_close(l);
    ts_records r = derived();
    assert_int_equal(count(&r, "score") + count(&r, "match") + count(&r, "rank"), 0);
    ts_records_free(&r);
}

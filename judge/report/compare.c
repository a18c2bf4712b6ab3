/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c - derives what changed between two boards. */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

#include "merge.h"

enum { MOST_FAULTS = 8 };

/* The answers of an entrant to a challenge in one log. */
typedef struct answers {
    const ts_entrant_row *best; /* NULL: none */
    int                   n, passed;
} answers;

/* The faults of an answer: what identifies each, and what is said of it. */
typedef struct faults {
    char   text[MOST_FAULTS][200];
    size_t n;
} faults;

static bool same_person(const ts_entrant_row *a, const ts_entrant_row *b)
{
    return !strcmp(a->name, b->name) && !strcmp(a->author, b->author);
}

/* The entrant of the other board with this name and author: of this class, or of any. */
static size_t counterpart(const ts_board *b, const ts_board *other, size_t overall)
{
    const ts_entrant_row *r = &b->row[b->overall[overall].first];
    size_t                found = other->n_overall;
    for (size_t i = 0; i < other->n_overall; i++) {
        if (!same_person(r, &other->row[other->overall[i].first])) continue;
        if (!strcmp(other->overall[i].klass, b->overall[overall].klass)) return i;
        if (found == other->n_overall) found = i;
    }
    return found;
}

static double points(const ts_entrant_row *r)
{
    return ts_row_scored(r) ? ts_jr_number(r->score, "score", 0) : 0;
}

static bool better(const ts_entrant_row *a, const ts_entrant_row *b)
{
    for (int whole = 0; whole < 2; whole++)
        if (ts_row_passed(a, whole) != ts_row_passed(b, whole)) return ts_row_passed(a, whole);
    return points(a) > points(b);
}

static answers answers_to(const ts_board *b, size_t overall, const char *task)
{
    answers a = { 0 };
    if (overall >= b->n_overall) return a;
    for (size_t i = b->overall[overall].first + 1; i; i = b->row[i - 1].next) {
        const ts_entrant_row *r = &b->row[i - 1];
        if (strcmp(r->task, task)) continue;
        a.n++;
        a.passed += ts_row_passed(r, false);
        if (!a.best || better(r, a.best)) a.best = r;
    }
    return a;
}

/* Of the source files; "": not in the log. */
static const char *files_of(const ts_board *b, const ts_entrant_row *r)
{
    for (size_t i = 0; i < b->records->n; i++) {
        const ts_jr_node *v = b->records->at[i].root;
        if (ts_record_is(&b->records->at[i], "entrant") && ts_jr_whole(v, "id", -1) == r->id)
            return ts_jr_text(v, "source_sha256", "");
    }
    return "";
}

/* Whether it is one answer in both logs: what changed does not come from the entrant. */
static bool same_files(const ts_board *was, const answers *x, const ts_board *now, const answers *y)
{
    if (x->n != 1 || y->n != 1) return false;
    const char *files = files_of(was, x->best);
    return *files && !strcmp(files, files_of(now, y->best));
}

/* ---- what differs ---- */

static void add_fault(faults *f, const ts_jr_node *fault)
{
    const char *reason = ts_jr_text(fault, "reason", ""), *family = ts_jr_text(fault, "family", "");
    const bool  words = *ts_jr_text(fault, "words", "");
    if (f->n == MOST_FAULTS || (!words && !*reason)) return;
    char *text = f->text[f->n++];
    if (words) ts_fault_words(fault, text, sizeof f->text[0]);
    else snprintf(text, sizeof f->text[0], "%s%s%s", reason, *family ? " in family " : "", family);
}

/* All faults, or the first alone, if the other log has no more of its answer. */
static faults faults_of(const ts_jr_node *verdict, bool all)
{
    const ts_jr_node *list = ts_jr_get(verdict, "faults");
    faults            f = { .n = 0 };
    if (!all) add_fault(&f, verdict); /* it has no family */
    for (size_t i = 0; all && i < ts_jr_len(list); i++) add_fault(&f, ts_jr_at(list, i));
    return f;
}

/* Writes the faults of `a` that `b` lacks; how many. */
static size_t put_faults(ts_jw *w, const char *key, const faults *a, const faults *b)
{
    size_t n = 0;
    if (w) ts_jw_open(w, key, '[');
    for (size_t i = 0; i < a->n; i++) {
        bool there = false;
        for (size_t k = 0; k < b->n; k++) there |= !strcmp(a->text[i], b->text[k]);
        if (there) continue;
        if (w) ts_jw_text(w, NULL, a->text[i]);
        n++;
    }
    if (w) ts_jw_close(w, ']');
    return n;
}

static int64_t cases_passed(const ts_jr_node *verdict)
{
    int64_t n = -1;
    ts_jr_int(ts_jr_at(ts_jr_get(verdict, "cases"), 0), &n);
    return n;
}

/* -1 slower, 1 faster, 0 not sure. */
static int sped(const ts_jr_node *was, const ts_jr_node *now)
{
    if (!was || !now) return 0;
    if (ts_jr_number(now, "S_lo", 0) > ts_jr_number(was, "S_hi", 0)) return 1;
    return ts_jr_number(now, "S_hi", 0) < ts_jr_number(was, "S_lo", 0) ? -1 : 0;
}

/* NULL: nothing changed. */
static const char *kind_of(const answers *was, const answers *now, const faults f[2], bool times)
{
    if (!was->best) return "new";
    if (!now->best) return "removed";
    const ts_jr_node *a = was->best->verdict, *b = now->best->verdict;
    const int         passed = now->passed * was->n - was->passed * now->n;
    if (passed) return passed > 0 ? "gained" : "lost";
    if (strcmp(ts_jr_text(a, "verdict", ""), ts_jr_text(b, "verdict", ""))) return "verdict";
    if (put_faults(NULL, "", &f[0], &f[1]) || put_faults(NULL, "", &f[1], &f[0])) return "faults";
    if (!ts_row_passed(now->best, false) && cases_passed(a) >= 0 && cases_passed(b) >= 0 &&
        cases_passed(a) != cases_passed(b))
        return "cases";
    const bool both = ts_row_passed(was->best, false) && ts_row_passed(now->best, false);
    const int  way = both && times ? sped(was->best->score, now->best->score) : 0;
    return way ? (way > 0 ? "faster" : "slower") : NULL;
}

/* ---- records ---- */

static void put_number(ts_jw *w, const ts_jr_node *v, const char *key)
{
    double x;
    if (ts_jr_num(ts_jr_get(v, key), &x)) ts_jw_num(w, key, x);
}

static void put_side(ts_jw *w, const char *key, const answers *a)
{
    const ts_jr_node *v = a->best ? a->best->verdict : NULL, *cases = ts_jr_get(v, "cases");
    int64_t           n;
    if (!a->best) return ts_jw_text(w, key, NULL);
    ts_jw_open(w, key, '{');
    ts_jw_text(w, "verdict", ts_jr_text(v, "verdict", "not judged"));
    ts_jw_int(w, "answers", a->n);
    ts_jw_int(w, "passed", a->passed);
    ts_jw_open(w, "cases", '[');
    for (size_t i = 0; i < ts_jr_len(cases); i++)
        if (ts_jr_int(ts_jr_at(cases, i), &n)) ts_jw_int(w, NULL, n);
    ts_jw_close(w, ']');
    if (ts_row_passed(a->best, false)) {
        static const char *const keys[] = { "score", "S", "of_best" };
        for (int i = !ts_row_scored(a->best); i < 3; i++) put_number(w, a->best->score, keys[i]);
    }
    ts_jw_close(w, '}');
}

static bool put_change(const ts_board *b_was, const answers *was, const ts_board *b_now,
                       const answers *now, bool times, ts_memory *to)
{
    const ts_entrant_row *r = now->best ? now->best : was->best;
    const ts_jr_node     *a = was->best ? was->best->verdict : NULL;
    const ts_jr_node     *b = now->best ? now->best->verdict : NULL;
    const bool            all = ts_jr_get(a, "faults") && ts_jr_get(b, "faults");
    const faults          f[2] = { faults_of(a, all), faults_of(b, all) };
    const char           *kind = kind_of(was, now, f, times);
    if (!kind) return true;
    ts_jw *w = ts_memory_begin(to, "change");
    ts_jw_text(w, "name", r->name);
    ts_jw_text(w, "author", r->author);
    ts_jw_text(w, "task", r->task);
    ts_jw_text(w, "kind", kind);
    if (a && b && same_files(b_was, was, b_now, now)) ts_jw_bool(w, "same_files", true);
    put_side(w, "was", was);
    put_side(w, "now", now);
    if (a && b) {
        put_faults(w, "faults_new", &f[1], &f[0]);
        put_faults(w, "faults_gone", &f[0], &f[1]);
    }
    return ts_memory_commit(to);
}

static void put_person(ts_jw *w, const ts_board *was, size_t a, const ts_board *now, size_t b)
{
    const ts_board *const board[2] = { was, now };
    const size_t          at[2] = { a, b };
    const int             side = b < now->n_overall;
    const ts_entrant_row *r = &board[side]->row[board[side]->overall[at[side]].first];
    ts_jw_open(w, NULL, '{');
    ts_jw_text(w, "name", r->name);
    ts_jw_text(w, "author", r->author);
    for (int i = 0; i < 2; i++) {
        const bool                there = at[i] < board[i]->n_overall;
        const ts_entrant_overall *c = there ? &board[i]->overall[at[i]] : NULL;
        if (!there) continue;
        ts_jw_open(w, i ? "now" : "was", '{');
        ts_jw_int(w, "passed", c->passed);
        ts_jw_int(w, "entered", c->entered);
        if (c->scored) ts_jw_num(w, "score", c->score);
        ts_jw_close(w, '}');
    }
    ts_jw_close(w, '}');
}

/* For each entrant of `now` its place in `was`, and for those of `was` whether they are in both. */
static bool match_people(const ts_board *was, const ts_board *now, size_t **to, bool **known)
{
    *to = calloc(now->n_overall + 1, sizeof **to);
    *known = calloc(was->n_overall + 1, sizeof **known);
    if (!*to || !*known) return false;
    for (size_t i = 0; i < now->n_overall; i++) {
        const size_t k = counterpart(now, was, i);
        (*to)[i] = k < was->n_overall && !(*known)[k] ? k : was->n_overall;
        (*known)[k] = true;
    }
    return true;
}

static bool has_task(const ts_board *b, const char *task)
{
    bool any = false;
    for (size_t i = 0; i < b->n_tasks; i++) any |= !strcmp(b->task[i], task);
    return any;
}

/* The changes of one entrant; counts answers in both logs. */
static bool compare_one(const ts_board *was, size_t a, const ts_board *now, size_t b, bool times,
                        int64_t *both, ts_memory *to)
{
    bool ok = true;
    for (size_t t = 0; ok && t < now->n_tasks + was->n_tasks; t++) {
        const bool  later = t < now->n_tasks;
        const char *task = later ? now->task[t] : was->task[t - now->n_tasks];
        if (!later && has_task(now, task)) continue;
        const answers x = answers_to(was, a, task), y = answers_to(now, b, task);
        *both += x.best && y.best;
        if (x.best || y.best) ok = put_change(was, &x, now, &y, times, to);
    }
    return ok;
}

bool ts_compare(const ts_board *was, const ts_board *now, const char *label, ts_memory *to)
{
    char    why[200], note[400] = "";
    size_t *at;
    bool   *known;
    int64_t both = 0;
    bool    ok = match_people(was, now, &at, &known);
    ts_merge_unlike(was->run, now->run, why, sizeof why);
    if (*why)
        snprintf(note, sizeof note,
                 "Speeds are not compared: %s. Scores may differ for that reason alone.", why);
    for (size_t i = 0; ok && i < now->n_overall; i++)
        ok = compare_one(was, at[i], now, i, !*why, &both, to);
    for (size_t i = 0; ok && i < was->n_overall; i++)
        if (!known[i]) ok = compare_one(was, i, now, now->n_overall, !*why, &both, to);
    ts_jw *w = ok ? ts_memory_begin(to, "against") : NULL;
    if (w) {
        ts_jw_text(w, "label", label);
        ts_jw_text(w, "started", ts_jr_text(was->run, "started", ""));
        ts_jw_text(w, "note", note);
        ts_jw_int(w, "both", both);
        ts_jw_open(w, "people", '[');
        for (size_t i = 0; i < now->n_overall; i++) put_person(w, was, at[i], now, i);
        for (size_t i = 0; i < was->n_overall; i++)
            if (!known[i]) put_person(w, was, i, now, now->n_overall);
        ts_jw_close(w, ']');
        ok = ts_memory_commit(to);
    }
    free(at), free(known);
    return ok;
}

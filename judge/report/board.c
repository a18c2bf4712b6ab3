/* SPDX-License-Identifier: Apache-2.0 */
/* board.c - builds the scoreboard from the records of a log. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "board.h"
#include "quantile.h"
#include "score.h"

enum { MOST = 4096, MOST_ROWS = 1 << 18 }; /* MOST: entrants that have met, with a cell per pair */

static const ts_entrant_row *index_by; /* qsort has no context */

static int by_id(const void *x, const void *y)
{
    const int64_t a = index_by[*(const size_t *)x].id, b = index_by[*(const size_t *)y].id;
    return a < b ? -1 : a > b;
}

/* False if two rows have one id. */
static bool index_rows(ts_board *b)
{
    b->by_id = calloc(b->n_rows + 1, sizeof *b->by_id);
    if (!b->by_id) return false;
    for (size_t i = 0; i < b->n_rows; i++) b->by_id[i] = i;
    index_by = b->row;
    qsort(b->by_id, b->n_rows, sizeof *b->by_id, by_id);
    for (size_t i = 1; i < b->n_rows; i++)
        if (b->row[b->by_id[i]].id == b->row[b->by_id[i - 1]].id) return false;
    return true;
}

ts_entrant_row *ts_board_row(const ts_board *b, int64_t id)
{
    size_t from = 0, to = b->n_rows;
    while (from < to) {
        const size_t    mid = from + (to - from) / 2;
        ts_entrant_row *r = &b->row[b->by_id[mid]];
        if (r->id == id) return r;
        if (r->id < id) from = mid + 1;
        else to = mid;
    }
    return NULL;
}

static void add_task(ts_board *b, const char *task)
{
    for (size_t i = 0; i < b->n_tasks; i++)
        if (!strcmp(b->task[i], task)) return;
    b->task[b->n_tasks++] = task;
}

ts_board_device ts_device_of(const char *task)
{
    const size_t n = strlen(task), k = strlen("/cuda");
    return n > k && !strcmp(task + n - k, "/cuda") ? TS_BOARD_CUDA : TS_BOARD_CPU;
}

/* Whether the row is of this entrant: one that answers on a CPU and on a GPU has two classes. */
static bool same(const ts_board *b, const ts_entrant_overall *c, const ts_entrant_row *r)
{
    const ts_entrant_row *first = &b->row[c->first];
    const char           *klass = c->class_on[ts_device_of(r->task)];
    return !strcmp(first->name, r->name) && !strcmp(first->author, r->author) &&
           !first->sample == !r->sample && (r->sample || !klass || !strcmp(klass, r->klass));
}

/* `last` has the last row of each entrant. */
static bool add_row(ts_board *b, const ts_jr_node *v, size_t *last)
{
    if (b->n_rows == MOST_ROWS) return false;
    ts_entrant_row *r = &b->row[b->n_rows];
    *r = (ts_entrant_row) { .id = ts_jr_whole(v, "id", -1),
                            .name = ts_jr_text(v, "name", ""),
                            .author = ts_jr_text(v, "author", ""),
                            .klass = ts_jr_text(v, "class", ""),
                            .language = ts_jr_text(v, "language", ""),
                            .task = ts_jr_text(v, "task", ""),
                            .offers = ts_jr_text(v, "offers", ""),
                            .share = ts_jr_number(v, "share", 1),
                            .sample = ts_jr_text(v, "sample", NULL),
                            .block = ts_jr_text(v, "block", "") };
    add_task(b, r->task);
    size_t c = 0;
    while (c < b->n_overall && !same(b, &b->overall[c], r)) c++;
    if (c == b->n_overall) b->overall[b->n_overall++].first = b->n_rows;
    else b->row[last[c]].next = b->n_rows + 1;
    b->overall[c].class_on[ts_device_of(r->task)] = r->sample ? "" : r->klass;
    last[c] = b->n_rows;
    r->overall = c;
    b->n_rows++;
    return true;
}

/* Attaches a record to its entrant; false if the log has no such entrant in this task. */
static bool attach(ts_board *b, const ts_record *r)
{
    ts_entrant_row *row = ts_board_row(b, ts_jr_whole(r->root, "entrant", -1));
    if (!row || strcmp(row->task, ts_jr_text(r->root, "task", ""))) return false;
    if (ts_record_is(r, "verdict")) {
        if (row->verdict) return false;
        row->verdict = r->root;
    }
    if (ts_record_is(r, "score")) row->score = r->root;
    return true;
}

static bool attach_rank(ts_board *b, const ts_jr_node *v)
{
    const ts_jr_node *rows = ts_jr_get(v, "rows");
    const bool        overall = !strcmp(ts_jr_text(v, "task", ""), "overall");
    for (size_t i = 0; i < ts_jr_len(rows); i++) {
        const ts_jr_node *at = ts_jr_at(rows, i);
        ts_entrant_row   *row = ts_board_row(b, ts_jr_whole(at, "entrant", -1));
        if (!row) return false;
        if (overall) b->overall[row->overall].rank = at;
        else row->rank = at;
    }
    return true;
}

/* Sums up margins; they are divided once all matches are in. */
static bool attach_match(ts_board *b, const ts_jr_node *v)
{
    const ts_entrant_row *a = ts_board_row(b, ts_jr_whole(v, "a", -1)),
                         *c = ts_board_row(b, ts_jr_whole(v, "b", -1));
    if (!a || !c || a->overall == c->overall) return a && c;
    const char      *won = ts_jr_text(v, "verdict", "");
    const double     effect = ts_jr_number(v, "effect", 0);
    ts_head_to_head *ac = &b->pair[a->overall * b->n_overall + c->overall];
    ts_head_to_head *ca = &b->pair[c->overall * b->n_overall + a->overall];
    const bool       a_won = !strcmp(won, "a"), c_won = !strcmp(won, "b");
    ac->won += a_won, ca->lost += a_won;
    ac->lost += c_won, ca->won += c_won;
    ac->tied += !a_won && !c_won, ca->tied += !a_won && !c_won;
    ac->margin += effect, ca->margin -= effect;
    return true;
}

const ts_jr_node *ts_board_time(const ts_board *b, const ts_entrant_row *r, size_t *at)
{
    while (*at < b->records->n) {
        const ts_record *one = &b->records->at[(*at)++];
        if (ts_record_is(one, "time") && ts_jr_whole(one->root, "entrant", -1) == r->id)
            return one->root;
    }
    return NULL;
}

bool ts_row_passed(const ts_entrant_row *r, bool whole)
{
    const char *verdict = ts_jr_text(r->verdict, "verdict", "");
    return !strcmp(verdict, "PASS") || (!whole && !strcmp(verdict, "PASS (common)"));
}

ts_row_cases ts_row_cases_of(const ts_entrant_row *r)
{
    const ts_jr_node *list = ts_jr_get(r->verdict, "cases");
    int64_t           n[3] = { 0 };
    for (size_t i = 0; i < 3; i++)
        if (!ts_jr_int(ts_jr_at(list, i), &n[i]) || n[i] < 0 || n[i] > 1 << 20) n[i] = 0;
    return (ts_row_cases) { (int)n[0], (int)n[1], (int)n[2],
                            n[2] > 0 ? (double)n[0] / (double)n[2] : 0 };
}

void ts_fault_words(const ts_jr_node *fault, char *text, size_t n)
{
    static const char fails[] = "fails only ";
    const char *const words = ts_jr_text(fault, "words", ""),
                      *reason = ts_jr_text(fault, "reason", "");
    const char *const verb = !strcmp(reason, "crash")  ? "crashes"
                             : !strcmp(reason, "hang") ? "hangs"
                                                       : NULL;
    const bool        some = verb && !strncmp(words, fails, strlen(fails));
    snprintf(text, n, "%s%s", some ? verb : "", some ? words + strlen("fails") : words);
}

bool ts_row_scored(const ts_entrant_row *r)
{
    return ts_row_passed(r, false) && ts_jr_get(r->score, "speed");
}

/* ---- several answers to a task ---- */

/* That one of k of n answers is among the c right ones: 1 - C(n - c, k) / C(n, k). */
static double pass_at(int n, int c, int k)
{
    double none = 1;
    for (int i = 0; i < k; i++) none *= n - c - i > 0 ? (double)(n - c - i) / (n - i) : 0;
    return 1 - none;
}

/* Answers of an entrant to a task: how many, how many passed, their scores, and the sum of their
 * shares of cases. */
static int answers_to(const ts_board *b, size_t at, const char *task, int *passed, double *score,
                      double *cases)
{
    int n = 0;
    *passed = 0, *cases = 0;
    for (size_t i = b->overall[at].first + 1; i; i = b->row[i - 1].next) {
        const ts_entrant_row *r = &b->row[i - 1];
        if (strcmp(r->task, task)) continue;
        const bool pass = ts_row_passed(r, false);
        *passed += pass;
        *cases += ts_row_cases_of(r).share;
        score[n++] = ts_row_scored(r) ? ts_jr_number(r->score, "score", 0) : 0;
    }
    return n;
}

static void sum_samples(const ts_board *b, size_t at, double *score)
{
    ts_entrant_overall *c = &b->overall[at];
    ts_samples         *s = &c->samples;
    const double        all = (double)b->n_challenges;
    double              cases;
    int                 passed;
    for (size_t t = 0; t < b->n_tasks; t++) {
        const int n = answers_to(b, at, b->task[t], &passed, score, &cases);
        if (!n) continue;
        if (n > s->n) s->n = n;
        if (!s->k || n < s->k) s->k = n;
        c->entered++;
        c->passed += passed > 0;
        s->pass_1 += pass_at(n, passed, 1) / all;
        s->median += ts_median(score, (size_t)n) / all;
        s->best += score[n - 1] / all; /* now sorted */
        double sum = 0;
        for (int i = 0; i < n; i++) sum += score[i];
        c->score += sum / n / all;
        c->cases += cases / n / all;
    }
    for (size_t t = 0; t < b->n_tasks; t++) {
        const int n = answers_to(b, at, b->task[t], &passed, score, &cases);
        if (n) s->pass_k += pass_at(n, passed, s->k) / all;
    }
}

static void sum_up(ts_board *b, size_t at, double *room)
{
    ts_entrant_overall *c = &b->overall[at];
    double              S = 0, lo = 0, hi = 0, of_best = 0;
    bool                open = false;
    int                 timed = 0;
    sum_samples(b, at, room);
    for (size_t i = c->first + 1; i; i = b->row[i - 1].next) {
        const ts_entrant_row *r = &b->row[i - 1];
        const char           *verdict = ts_jr_text(r->verdict, "verdict", "");
        if (!c->klass || !strcmp(c->klass, "-")) c->klass = r->klass;
        else if (strcmp(r->klass, "-") && strcmp(c->klass, r->klass)) c->klass = "mixed";
        open |= !r->verdict || !strcmp(verdict, "AUDIT") || !strcmp(verdict, "ERROR");
        if (!ts_row_passed(r, false) || !r->score) continue; /* not timed */
        timed++;
        S += log(fmax(1e-3, ts_jr_number(r->score, "S", 0)));
        lo += log(fmax(1e-3, ts_jr_number(r->score, "S_lo", 0)));
        hi += log(fmax(1e-3, ts_jr_number(r->score, "S_hi", 0)));
        if (!ts_row_scored(r)) continue;
        c->scored++;
        of_best += log(fmax(1e-6, ts_jr_number(r->score, "of_best", 0)));
    }
    if (timed) {
        c->S = exp(S / timed);
        c->S_lo = exp(lo / timed);
        c->S_hi = exp(hi / timed);
    }
    if (c->scored) c->of_best = exp(of_best / c->scored);
    c->grade = ts_grade(c->passed > 0, c->passed ? !c->scored : open, c->score);
}

static const ts_entrant_overall *order_by; /* qsort has no context */

static int better(const void *x, const void *y)
{
    const ts_entrant_overall *a = order_by + *(const size_t *)x, *b = order_by + *(const size_t *)y;
    const double              p = a->samples.pass_1 - b->samples.pass_1;
    if (fabs(p) > 1e-9) return p > 0 ? -1 : 1; /* challenges passed, by an answer on average */
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    if (a->cases != b->cases) return a->cases > b->cases ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Sorts best first, and permutes pairs and rows accordingly. */
static bool sort(ts_board *b)
{
    const size_t        n = b->n_overall;
    size_t             *order = calloc(n + 1, sizeof *order), *place = calloc(n + 1, sizeof *place);
    ts_entrant_overall *c = calloc(n + 1, sizeof *c);
    ts_head_to_head    *pair = b->pair ? calloc(n * n + 1, sizeof *pair) : NULL;
    const bool          ok = order && place && c && (pair || !b->pair);
    for (size_t i = 0; ok && i < n; i++) order[i] = i;
    order_by = b->overall;
    if (ok) qsort(order, n, sizeof *order, better);
    for (size_t i = 0; ok && i < n; i++) place[order[i]] = i;
    for (size_t i = 0; ok && i < n; i++) {
        c[i] = b->overall[order[i]];
        for (size_t j = 0; j < n && pair; j++) pair[i * n + j] = b->pair[order[i] * n + order[j]];
    }
    for (size_t i = 0; ok && i < b->n_rows; i++) b->row[i].overall = place[b->row[i].overall];
    free(order), free(place);
    free(ok ? (void *)b->overall : (void *)c), free(ok ? (void *)b->pair : (void *)pair);
    if (ok) b->overall = c, b->pair = pair;
    return ok;
}

static bool fill(const ts_records *r, ts_board *b, char *why)
{
    static const char *const about_one[] = { "verdict", "score", "time" };
    for (size_t i = 0; i < r->n; i++) {
        const ts_record *at = &r->at[i];
        bool             ok = true;
        if (ts_record_is(at, "run") && !b->run) b->run = at->root;
        if (ts_record_is(at, "end")) b->ended = true;
        if (ts_record_is(at, "merge")) {
            b->note = ts_jr_text(at->root, "note", "");
            b->signatures = ts_jr_get(at->root, "signed");
        }
        if (ts_record_is(at, "rank")) ok = attach_rank(b, at->root);
        if (ts_record_is(at, "match")) ok = attach_match(b, at->root);
        for (int k = 0; k < 3; k++)
            if (ts_record_is(at, about_one[k])) ok = attach(b, at);
        if (!ok)
            return snprintf(why, TS_WHY, "line %zu: %s of an unknown entrant, or a duplicate",
                            i + 1, at->type),
                   false;
    }
    return true;
}

/* Cells for matches, if there are any. */
static bool make_pairs(const ts_records *r, ts_board *b, char *why)
{
    const size_t n = b->n_overall;
    bool         any = false;
    for (size_t i = 0; i < r->n && !any; i++) any = ts_record_is(&r->at[i], "match");
    if (any && n > MOST)
        return snprintf(why, TS_WHY, "more than %d entrants that have met", MOST), false;
    b->pair = any ? calloc(n * n + 1, sizeof *b->pair) : NULL;
    return b->pair || !any;
}

static bool make_rows(const ts_records *r, ts_board *b, char *why)
{
    size_t *last = calloc(r->n + 1, sizeof *last);
    bool    ok = last;
    for (size_t i = 0; ok && i < r->n; i++)
        if (ts_record_is(&r->at[i], "entrant") && !(ok = add_row(b, r->at[i].root, last)))
            snprintf(why, TS_WHY, "line %zu: more than %d entrants", i + 1, MOST_ROWS);
    free(last);
    if (!ok || index_rows(b)) return ok;
    if (b->by_id) snprintf(why, TS_WHY, "duplicate entrant");
    return false;
}

bool ts_board_make(const ts_records *r, ts_board *b, char why[TS_WHY])
{
    *b = (ts_board) { .records = r,
                      .note = "",
                      .task = calloc(r->n + 1, sizeof *b->task),
                      .row = calloc(r->n + 1, sizeof *b->row),
                      .overall = calloc(r->n + 1, sizeof *b->overall) };
    snprintf(why, TS_WHY, "out of memory");
    bool ok = b->task && b->row && b->overall && make_rows(r, b, why) && make_pairs(r, b, why) &&
              fill(r, b, why);
    const size_t n = b->n_overall;
    double      *room = calloc(b->n_rows + 1, sizeof *room);
    for (size_t i = 0; i < b->n_tasks; i++) b->n_challenges += strcmp(b->task[i], TS_UNREAD) != 0;
    if (!b->n_challenges) b->n_challenges = 1;
    ok = ok && room;
    for (size_t i = 0; ok && i < n; i++) sum_up(b, i, room);
    free(room);
    for (size_t i = 0; ok && b->pair && i < n * n; i++) {
        const int all = b->pair[i].won + b->pair[i].lost + b->pair[i].tied;
        if (all) b->pair[i].margin /= all;
    }
    ok = ok && sort(b);
    if (!ok) ts_board_free(b);
    return ok;
}

void ts_board_free(ts_board *b)
{
    free(b->task);
    free(b->row);
    free(b->by_id);
    free(b->overall);
    free(b->pair);
    *b = (ts_board) { 0 };
}

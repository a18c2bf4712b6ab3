/* SPDX-License-Identifier: Apache-2.0 */
/* derive.c - derives scores, matches and ranks from the times and verdicts of a log. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "derive.h"
#include "match.h"
#include "score.h"

enum { MEMBERS = 1024, WORKLOADS = 16, CALLS = 256 };

static bool is(const ts_record *r, const char *type)
{
    return !strcmp(r->type, type);
}

static int64_t integer(const ts_jr_node *object, const char *key)
{
    int64_t i = -1;
    ts_jr_int(ts_jr_get(object, key), &i);
    return i;
}

/* ---- one challenge of one run ---- */

typedef struct member {
    int64_t           id;
    const ts_jr_node *verdict, *time[WORKLOADS];
} member;

typedef struct sitting {
    const char *task;
    int         n, n_workloads;
    member      m[MEMBERS];
} sitting;

static bool says(const ts_jr_node *verdict, const char *what)
{
    return !strcmp(ts_jr_text(verdict, "verdict", ""), what);
}

static member *member_of(sitting *s, int64_t id)
{
    for (int i = 0; i < s->n; i++)
        if (s->m[i].id == id) return &s->m[i];
    return NULL;
}

/* Collects the entrants that passed or are under audit in records [first, end); false if none was
 * timed. */
static bool collect(const ts_records *r, size_t first, size_t end, const char *task, sitting *s)
{
    *s = (sitting) { .task = task };
    for (size_t i = first; i < end; i++) {
        const ts_jr_node *v = r->at[i].root;
        if (!is(&r->at[i], "verdict") || strcmp(ts_jr_text(v, "task", ""), task)) continue;
        if (!says(v, "PASS") && !says(v, "PASS (common)") && !says(v, "AUDIT")) continue;
        if (s->n < MEMBERS && !member_of(s, integer(v, "entrant")))
            s->m[s->n++] = (member) { .id = integer(v, "entrant"), .verdict = v };
    }
    for (size_t i = first; i < end; i++) {
        const ts_jr_node *v = r->at[i].root;
        if (!is(&r->at[i], "time") || strcmp(ts_jr_text(v, "task", ""), task)) continue;
        const int64_t w = integer(v, "workload"), n = integer(v, "workloads");
        member *const m = member_of(s, integer(v, "entrant"));
        if (!m || w < 0 || w >= n || n > WORKLOADS) continue;
        m->time[w] = v;
        s->n_workloads = (int)n;
    }
    return s->n_workloads > 0;
}

static int calls_of(const ts_jr_node *time)
{
    const size_t n = ts_jr_len(ts_jr_get(time, "ns"));
    return n <= CALLS ? (int)n : CALLS;
}

static double call_of(const ts_jr_node *time, int i)
{
    double ns = 0;
    ts_jr_num(ts_jr_at(ts_jr_get(time, "ns"), (size_t)i), &ns);
    return ns;
}

/* ---- scores ---- */

/* The worst error counts, of correctness stage and timed workloads: precision in some of them only
 * is worth nothing. */
static double error_of(const sitting *s, const member *m)
{
    double error = ts_jr_number(m->verdict, "p999", 0);
    for (int w = 0; w < s->n_workloads; w++)
        error = fmax(error, ts_jr_number(m->time[w], "error", 0));
    return error;
}

/* An entrant under audit may be implausibly precise: it does not set the reference for others. */
static double honest_error(const sitting *s)
{
    double honest = 1;
    for (int i = 0; i < s->n; i++)
        if (!says(s->m[i].verdict, "AUDIT"))
            honest = fmin(honest, fmax(error_of(s, &s->m[i]), 1e-6));
    return honest;
}

/* Sums up robustness: the verdict lists [passed, all] per kind. */
static void count_cells(const ts_jr_node *verdict, ts_score_in *in)
{
    const ts_jr_node *kinds = ts_jr_get(verdict, "robustness");
    for (size_t i = 0; i < ts_jr_len(kinds); i++) {
        int64_t           passed = 0, all = 0;
        const ts_jr_node *cells = ts_jr_at(kinds, i);
        ts_jr_int(ts_jr_at(cells, 0), &passed);
        ts_jr_int(ts_jr_at(cells, 1), &all);
        in->cells_passed += passed;
        in->cells += all;
    }
}

static double share_of(const ts_records *r, int64_t id)
{
    for (size_t i = 0; i < r->n; i++)
        if (is(&r->at[i], "entrant") && integer(r->at[i].root, "id") == id)
            return ts_jr_number(r->at[i].root, "share", 1);
    return 1;
}

static bool put_score(const ts_records *r, const sitting *s, const member *m, double honest,
                      ts_sink to)
{
    ts_workload w[WORKLOADS] = { 0 };
    for (int i = 0; i < s->n_workloads; i++)
        if (m->time[i])
            w[i] = (ts_workload) { ts_jr_number(m->time[i], "floor_ns", 0),
                                   ts_jr_number(m->time[i], "time_ns", 0),
                                   ts_jr_number(m->time[i], "lo_ns", 0),
                                   ts_jr_number(m->time[i], "hi_ns", 0) };
    ts_score_in in = { .gate = true,
                       .audit = says(m->verdict, "AUDIT"),
                       .workload = w,
                       .n_workloads = (size_t)s->n_workloads,
                       .error = error_of(s, m),
                       .error_honest = honest,
                       .workspace_bytes = ts_jr_number(m->verdict, "workspace_bytes", 0),
                       .io_bytes = ts_jr_number(m->verdict, "io_bytes", 0) };
    count_cells(m->verdict, &in);
    ts_score v = ts_score_of(&in);
    v.score *= share_of(r, m->id);
    ts_jw *j = to.begin(to.to, "score");
    ts_jw_int(j, "entrant", m->id);
    ts_jw_text(j, "task", s->task);
    ts_jw_num(j, "score", v.score);
    ts_jw_num(j, "S", v.S);
    ts_jw_num(j, "S_lo", v.S_lo);
    ts_jw_num(j, "S_hi", v.S_hi);
    ts_jw_num(j, "S_min", v.S_min);
    ts_jw_num(j, "P", v.P);
    ts_jw_num(j, "R", v.R);
    ts_jw_num(j, "M", v.M);
    ts_jw_text(j, "grade", ts_grade(in.gate, in.audit, v.score));
    return to.commit(to.to);
}

/* ---- games: one for each workload of a match ---- */

typedef struct game {
    const char *task;
    int64_t     a, b;
    ts_outcome  outcome;
} game;

typedef struct games {
    game  *at;
    size_t n, room;
} games;

static bool add_game(games *g, game one)
{
    if (g->n == g->room) {
        const size_t room = 2 * g->room + 64;
        game        *more = realloc(g->at, room * sizeof *more);
        if (!more) return false;
        g->at = more;
        g->room = room;
    }
    g->at[g->n++] = one;
    return true;
}

/* Pairs of a and b in those of the workloads [first, end) in which both were timed; false if there
 * are none. */
static bool meet(const member *a, const member *b, int first, int end, int *n_pairs, ts_match *m)
{
    static ts_pair pair[WORKLOADS * CALLS];
    size_t         n = 0;
    for (int w = first; w < end; w++) {
        if (!a->time[w] || !b->time[w]) continue;
        const int calls = (int)fmin(calls_of(a->time[w]), calls_of(b->time[w]));
        for (int i = 0; i < calls; i++)
            pair[n++] = (ts_pair) { w - first, i, call_of(a->time[w], i), call_of(b->time[w], i) };
    }
    *n_pairs = (int)n;
    return n && ts_match_pairs(pair, n, 1, m);
}

static bool put_match(const sitting *s, const member *a, const member *b, games *g, ts_sink to)
{
    ts_match m, one;
    int      n_pairs, n;
    if (!meet(a, b, 0, s->n_workloads, &n_pairs, &m)) return true;
    const size_t first = g->n;
    for (int w = 0; w < s->n_workloads; w++)
        if (meet(a, b, w, w + 1, &n, &one) &&
            !add_game(g, (game) { s->task, a->id, b->id, one.outcome }))
            return false;
    ts_jw *j = to.begin(to.to, "match");
    ts_jw_text(j, "task", s->task);
    ts_jw_int(j, "a", a->id);
    ts_jw_int(j, "b", b->id);
    ts_jw_num(j, "effect", m.effect);
    ts_jw_num(j, "lo", m.lo);
    ts_jw_num(j, "hi", m.hi);
    ts_jw_text(j, "verdict", ts_outcome_name(m.outcome));
    ts_jw_open(j, "workloads", '[');
    for (size_t i = first; i < g->n; i++) ts_jw_text(j, NULL, ts_outcome_name(g->at[i].outcome));
    ts_jw_close(j, ']');
    ts_jw_int(j, "pairs", n_pairs);
    return to.commit(to.to);
}

/* ---- ranks ---- */

static int place(int64_t *id, int *n, int64_t wanted)
{
    int i = 0;
    while (i < *n && id[i] != wanted) i++;
    if (i == *n) id[(*n)++] = wanted;
    return i;
}

static void write_rows(ts_jw *w, const int64_t *id, const ts_rating *rating, int n)
{
    ts_jw_open(w, "rows", '[');
    for (int i = 0; i < n; i++) {
        ts_jw_open(w, NULL, '{');
        ts_jw_int(w, "entrant", id[i]);
        ts_jw_num(w, "rating", rating[i].rating);
        ts_jw_num(w, "lo", rating[i].lo);
        ts_jw_num(w, "hi", rating[i].hi);
        ts_jw_int(w, "rank", rating[i].rank);
        ts_jw_close(w, '}');
    }
    ts_jw_close(w, ']');
}

static bool put_rank(const char *task, const game *of, size_t n_games, ts_sink to)
{
    ts_game *list = calloc(n_games + 1, sizeof *list);
    int64_t *id = calloc(2 * n_games + 1, sizeof *id);
    int      n = 0;
    for (size_t i = 0; i < n_games && list && id; i++) {
        const int a = place(id, &n, of[i].a), b = place(id, &n, of[i].b);
        list[i] = (ts_game) { a, b, of[i].outcome };
    }
    ts_rating *rating = calloc((size_t)n + 1, sizeof *rating);
    bool       ok = list && id && rating && ts_rank(list, n_games, n, 1, rating);
    if (ok) {
        ts_jw *w = to.begin(to.to, "rank");
        ts_jw_text(w, "task", task);
        write_rows(w, id, rating, n);
        ok = to.commit(to.to);
    }
    free(list);
    free(id);
    free(rating);
    return ok;
}

/* Entrants of equal name, author and class (a model's answers: of any class) are represented by the
 * first. */
static int64_t stands_for(const ts_records *r, int64_t id)
{
    const ts_jr_node *mine = NULL;
    for (size_t i = 0; i < r->n && !mine; i++)
        if (is(&r->at[i], "entrant") && integer(r->at[i].root, "id") == id) mine = r->at[i].root;
    for (size_t i = 0; i < r->n && mine; i++) {
        const ts_jr_node *v = r->at[i].root;
        bool              same = is(&r->at[i], "entrant");
        const bool        model = ts_jr_get(v, "sample") && ts_jr_get(mine, "sample");
        for (int k = 0; k < (model ? 2 : 3) && same; k++) {
            static const char *const key[] = { "name", "author", "class" };
            same = !strcmp(ts_jr_text(v, key[k], ""), ts_jr_text(mine, key[k], ""));
        }
        if (same) return integer(v, "id");
    }
    return id;
}

/* Whether the two met again later, which voids this match. */
static bool met(const games *g, const char *task, int64_t a, int64_t b)
{
    for (size_t i = 0; i < g->n; i++) {
        const game *p = &g->at[i];
        if (((p->a == a && p->b == b) || (p->a == b && p->b == a)) && !strcmp(p->task, task))
            return true;
    }
    return false;
}

/* The log's matches, latest first. */
static bool recall_games(const ts_records *r, games *g)
{
    for (size_t i = r->n; i-- > 0;) {
        const ts_jr_node *v = r->at[i].root, *each = ts_jr_get(v, "workloads");
        const char       *task = ts_jr_text(v, "task", "");
        const int64_t     a = integer(v, "a"), b = integer(v, "b");
        if (!is(&r->at[i], "match") || met(g, task, a, b)) continue;
        for (size_t k = 0; k < ts_jr_len(each); k++) {
            const char      *won = ts_jr_str(ts_jr_at(each, k));
            const ts_outcome o = !won                ? TS_OUTCOME_NOISE
                                 : !strcmp(won, "a") ? TS_OUTCOME_A
                                 : !strcmp(won, "b") ? TS_OUTCOME_B
                                                     : TS_OUTCOME_TIE;
            if (!add_game(g, (game) { task, a, b, o })) return false;
        }
    }
    return true;
}

/* Ranks over all games of the log, if they are of more than one challenge. */
static bool put_overall(const ts_records *r, games *g, ts_sink to)
{
    bool   several = false;
    size_t kept = 0;
    if (!recall_games(r, g)) return false;
    for (size_t i = 0; i < g->n; i++) {
        game one = g->at[i];
        several = several || strcmp(one.task, g->at[0].task);
        one.a = stands_for(r, one.a);
        one.b = stands_for(r, one.b);
        if (one.a != one.b) g->at[kept++] = one; /* no game against itself */
    }
    return !several || !kept || put_rank("overall", g->at, kept, to);
}

/* ---- all runs ---- */

static bool put_sitting(const ts_records *r, const sitting *s, games *g, ts_sink to)
{
    const double honest = honest_error(s);
    const size_t first = g->n;
    bool         ok = true;
    for (int i = 0; i < s->n && ok; i++) ok = put_score(r, s, &s->m[i], honest, to);
    for (int a = 0; a < s->n && ok; a++)
        for (int b = a + 1; b < s->n && ok; b++) ok = put_match(s, &s->m[a], &s->m[b], g, to);
    return ok && (g->n == first || put_rank(s->task, g->at + first, g->n - first, to));
}

/* The end of the run that begins with record `first`; *scored: it already has scores. */
static size_t end_of_run(const ts_records *r, size_t first, bool *scored)
{
    size_t end = first + 1;
    *scored = false;
    for (; end < r->n && !is(&r->at[end], "run"); end++) *scored |= is(&r->at[end], "score");
    return end;
}

/* Whether record i is the first of `task` in the run. */
static bool is_first_of_task(const ts_records *r, size_t first, size_t i, const char *task)
{
    for (size_t k = first; k < i; k++)
        if (is(&r->at[k], "time") && !strcmp(ts_jr_text(r->at[k].root, "task", ""), task))
            return false;
    return true;
}

bool ts_derive(const ts_records *r, ts_sink to)
{
    sitting *s = malloc(sizeof *s);
    games    g = { 0 };
    bool     ok = s != NULL, any = false, scored;
    size_t   end;
    for (size_t first = 0; first < r->n && ok; first = end) {
        end = end_of_run(r, first, &scored);
        for (size_t i = first; i < end && ok && !scored; i++) {
            const char *task = ts_jr_text(r->at[i].root, "task", "");
            if (!is(&r->at[i], "time") || !is_first_of_task(r, first, i, task)) continue;
            if (!collect(r, first, end, task, s)) continue;
            any = true;
            ok = put_sitting(r, s, &g, to);
        }
    }
    if (ok && any) ok = put_overall(r, &g, to);
    free(g.at);
    free(s);
    return ok;
}

/* ---- the two sinks ---- */

static ts_jw *begin_in_log(void *to, const char *type)
{
    return ts_log_begin(to, type);
}

static bool commit_in_log(void *to)
{
    return ts_log_commit(to);
}

bool ts_derive_into_log(const ts_records *r, ts_log *l)
{
    return ts_derive(r, (ts_sink) { begin_in_log, commit_in_log, l });
}

typedef struct memory {
    ts_jw      w;
    ts_record *at;
    size_t     n, room;
} memory;

static ts_jw *begin_in_memory(void *to, const char *type)
{
    memory *m = to;
    m->w = (ts_jw) { 0 };
    ts_jw_open(&m->w, NULL, '{');
    ts_jw_text(&m->w, "type", type);
    return &m->w;
}

static bool commit_in_memory(void *to)
{
    memory *m = to;
    char    why[64];
    ts_jw_close(&m->w, '}');
    if (m->n == m->room) {
        const size_t room = 2 * m->room + 64;
        ts_record   *more = realloc(m->at, room * sizeof *more);
        if (!more) return ts_jw_free(&m->w), false;
        m->at = more;
        m->room = room;
    }
    ts_jr_doc *doc = m->w.failed ? NULL : ts_jr_parse(m->w.text, m->w.n, why, sizeof why);
    if (!doc) return ts_jw_free(&m->w), false;
    m->at[m->n++] = (ts_record) { .line = m->w.text,
                                  .n = m->w.n,
                                  .type = ts_jr_text(ts_jr_root(doc), "type", ""),
                                  .root = ts_jr_root(doc),
                                  .doc = doc,
                                  .own = m->w.text };
    return true;
}

bool ts_derive_into_records(ts_records *r)
{
    memory     m = { 0 };
    const bool ok = ts_derive(r, (ts_sink) { begin_in_memory, commit_in_memory, &m });
    ts_record *all = realloc(r->at, (r->n + m.n + 1) * sizeof *all);
    if (all) r->at = all;
    for (size_t i = 0; i < m.n; i++)
        if (all) r->at[r->n++] = m.at[i];
        else ts_jr_free(m.at[i].doc), free(m.at[i].own);
    free(m.at);
    return ok && all;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* derive.c - derives scores, matches and ranks from the times and verdicts of a log. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "derive.h"
#include "match.h"
#include "memory.h"
#include "timed.h"

enum { CALLS = 256 };

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

/* Whether both were timed in workload w, on the same case: a scope may have one of its own. */
static bool both_timed(const ts_member *a, const ts_member *b, int w)
{
    return a->time[w] && b->time[w] &&
           !strcmp(ts_jr_text(a->time[w], "case", ""), ts_jr_text(b->time[w], "case", ""));
}

/* Pairs of a and b in those of the workloads [first, end) in which both were timed; false if there
 * are none. */
static bool meet(const ts_member *a, const ts_member *b, int first, int end, int *n_pairs,
                 ts_match *m)
{
    static ts_pair pair[TS_TIMED * CALLS];
    size_t         n = 0;
    for (int w = first; w < end; w++) {
        if (!both_timed(a, b, w)) continue;
        const int calls = (int)fmin(calls_of(a->time[w]), calls_of(b->time[w]));
        for (int i = 0; i < calls; i++)
            pair[n++] = (ts_pair) { w - first, i, call_of(a->time[w], i), call_of(b->time[w], i) };
    }
    *n_pairs = (int)n;
    return n && ts_match_pairs(pair, n, 1, m);
}

static bool put_match(const ts_timed *s, const ts_member *a, const ts_member *b, games *g,
                      ts_sink to)
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

/* ---- the ranking over all challenges ---- */

/* Entrants of equal name, author and class (a model's answers: of any class) are one player, whose
 * number is the id of the first. */
typedef struct player {
    int64_t     id, player;
    const char *name, *author, *klass;
    size_t      at;
} player;

static int by_person(const void *x, const void *y)
{
    const player *a = x, *b = y;
    int           d = strcmp(a->name, b->name);
    if (!d) d = strcmp(a->author, b->author);
    if (!d) d = strcmp(a->klass, b->klass);
    return d ? d : a->at < b->at ? -1 : a->at > b->at;
}

static int by_id(const void *x, const void *y)
{
    const player *a = x, *b = y;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Sorted by id; NULL if out of memory. */
static player *players_of(const ts_records *r, size_t *n)
{
    player *list = calloc(r->n + 1, sizeof *list);
    *n = 0;
    for (size_t i = 0; i < r->n && list; i++) {
        const ts_jr_node *v = r->at[i].root;
        if (!ts_record_is(&r->at[i], "entrant")) continue;
        list[*n] = (player) { .id = ts_jr_whole(v, "id", -1),
                              .name = ts_jr_text(v, "name", ""),
                              .author = ts_jr_text(v, "author", ""),
                              .klass = ts_jr_get(v, "sample") ? "" : ts_jr_text(v, "class", ""),
                              .at = i };
        ++*n;
    }
    if (!list) return NULL;
    qsort(list, *n, sizeof *list, by_person);
    for (size_t i = 0, first = 0; i < *n; i++) {
        if (strcmp(list[i].name, list[first].name) || strcmp(list[i].author, list[first].author) ||
            strcmp(list[i].klass, list[first].klass))
            first = i;
        list[i].player = list[first].id;
    }
    qsort(list, *n, sizeof *list, by_id);
    return list;
}

static int64_t player_of(const player *list, size_t n, int64_t id)
{
    const player  key = { .id = id };
    const player *p = bsearch(&key, list, n, sizeof *list, by_id);
    return p ? p->player : id;
}

/* A match of the log; of those of the same two in a challenge the last one counts. */
typedef struct meeting {
    const char *task;
    int64_t     a, b; /* a < b */
    size_t      at;   /* its record; after all records, if it is a new one */
    bool        void_;
} meeting;

static int by_pair(const void *x, const void *y)
{
    const meeting *a = x, *b = y;
    const int      d = strcmp(a->task, b->task);
    if (d) return d;
    if (a->a != b->a) return a->a < b->a ? -1 : 1;
    if (a->b != b->b) return a->b < b->b ? -1 : 1;
    return a->at > b->at ? -1 : a->at < b->at; /* the last first */
}

static int by_record(const void *x, const void *y)
{
    const meeting *a = x, *b = y;
    return a->at > b->at ? -1 : a->at < b->at;
}

static meeting meeting_of(const char *task, int64_t a, int64_t b, size_t at)
{
    return (meeting) { .task = task, .a = a < b ? a : b, .b = a < b ? b : a, .at = at };
}

static bool add_games_of(games *g, const ts_jr_node *v)
{
    const ts_jr_node *each = ts_jr_get(v, "workloads");
    for (size_t k = 0; k < ts_jr_len(each); k++) {
        const char      *won = ts_jr_str(ts_jr_at(each, k));
        const ts_outcome o = !won                ? TS_OUTCOME_NOISE
                             : !strcmp(won, "a") ? TS_OUTCOME_A
                             : !strcmp(won, "b") ? TS_OUTCOME_B
                                                 : TS_OUTCOME_TIE;
        if (!add_game(g, (game) { ts_jr_text(v, "task", ""), ts_jr_whole(v, "a", -1),
                                  ts_jr_whole(v, "b", -1), o }))
            return false;
    }
    return true;
}

/* Adds the games of the log's matches, latest first, unless the two met again later. */
static bool recall_games(const ts_records *r, games *g)
{
    meeting *list = calloc(r->n + g->n + 1, sizeof *list);
    size_t   n = 0;
    bool     ok = list;
    for (size_t i = 0; i < g->n && ok; i++)
        list[n++] = meeting_of(g->at[i].task, g->at[i].a, g->at[i].b, r->n + i);
    for (size_t i = 0; i < r->n && ok; i++)
        if (ts_record_is(&r->at[i], "match"))
            list[n++] = meeting_of(ts_jr_text(r->at[i].root, "task", ""),
                                   ts_jr_whole(r->at[i].root, "a", -1),
                                   ts_jr_whole(r->at[i].root, "b", -1), i);
    if (ok) qsort(list, n, sizeof *list, by_pair);
    for (size_t i = 1; i < n && ok; i++)
        list[i].void_ = list[i].a == list[i - 1].a && list[i].b == list[i - 1].b &&
                        !strcmp(list[i].task, list[i - 1].task);
    if (ok) qsort(list, n, sizeof *list, by_record);
    for (size_t i = 0; i < n && ok; i++)
        if (list[i].at < r->n && !list[i].void_) ok = add_games_of(g, r->at[list[i].at].root);
    free(list);
    return ok;
}

/* Whether games connect all players. If not, ratings of two of them may have nothing in common. */
static bool connected(const game *of, size_t n_games)
{
    int64_t *id = calloc(2 * n_games + 1, sizeof *id);
    int     *group = calloc(2 * n_games + 1, sizeof *group);
    int      n = 0, groups = 0;
    for (size_t i = 0; i < n_games && id && group; i++) {
        const int before = n, a = place(id, &n, of[i].a), b = place(id, &n, of[i].b);
        for (int k = before; k < n; k++) group[k] = k, groups++;
        const int from = group[a], to = group[b];
        groups -= from != to;
        for (int k = 0; k < n && from != to; k++)
            if (group[k] == from) group[k] = to;
    }
    free(id);
    free(group);
    return groups == 1;
}

/* Ranks over all games, if they are of more than one challenge. */
static bool put_overall(const ts_records *r, games *g, ts_sink to)
{
    bool   several = false;
    size_t kept = 0, n;
    if (!recall_games(r, g)) return false;
    player *list = players_of(r, &n);
    for (size_t i = 0; i < g->n && list; i++) {
        game one = g->at[i];
        several = several || strcmp(one.task, g->at[0].task);
        one.a = player_of(list, n, one.a);
        one.b = player_of(list, n, one.b);
        if (one.a != one.b) g->at[kept++] = one; /* no game against itself */
    }
    free(list);
    if (!list) return false;
    return !several || !connected(g->at, kept) || put_rank("overall", g->at, kept, to);
}

bool ts_derive_overall(const ts_records *r, ts_sink to)
{
    games      g = { 0 };
    const bool ok = put_overall(r, &g, to);
    free(g.at);
    return ok;
}

/* ---- all runs ---- */

static bool put_timing(const ts_records *r, const ts_timed *s, games *g, ts_sink to)
{
    const size_t first = g->n;
    bool         ok = ts_timed_put_scores(r, s, to);
    for (int a = 0; a < s->n && ok && s->n <= TS_CROWD; a++)
        for (int b = a + 1; b < s->n && ok; b++) ok = put_match(s, &s->m[a], &s->m[b], g, to);
    return ok && (g->n == first || put_rank(s->task, g->at + first, g->n - first, to));
}

/* The end of the run that begins with record `first`; *scored: it already has scores. */
static size_t end_of_run(const ts_records *r, size_t first, bool *scored)
{
    size_t end = first + 1;
    *scored = false;
    for (; end < r->n && !ts_record_is(&r->at[end], "run"); end++)
        *scored |= ts_record_is(&r->at[end], "score");
    return end;
}

/* The timed challenges of records [first, end), and how many. */
enum { TASKS = 64 };

static int timed_tasks(const ts_records *r, size_t first, size_t end, const char *task[TASKS])
{
    int n = 0;
    for (size_t i = first; i < end; i++) {
        const char *of =
            ts_record_is(&r->at[i], "time") ? ts_jr_text(r->at[i].root, "task", "") : NULL;
        int k = 0;
        while (of && k < n && strcmp(task[k], of)) k++;
        if (of && k == n && n < TASKS) task[n++] = of;
    }
    return n;
}

bool ts_derive(const ts_records *r, ts_sink to)
{
    ts_timed   *s = malloc(sizeof *s);
    games       g = { 0 };
    bool        ok = s != NULL, any = false, scored;
    size_t      end;
    const char *task[TASKS];
    for (size_t first = 0; first < r->n && ok; first = end) {
        end = end_of_run(r, first, &scored);
        const int n = scored ? 0 : timed_tasks(r, first, end, task);
        for (int i = 0; i < n && ok; i++) {
            if (!ts_timed_collect(r, first, end, task[i], s)) continue;
            any = true;
            ok = put_timing(r, s, &g, to);
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

bool ts_derive_into_records(ts_records *r)
{
    ts_memory  m = { 0 };
    const bool ok = ts_derive(r, (ts_sink) { ts_memory_begin, ts_memory_commit, &m });
    ts_record *all = realloc(r->at, (r->n + m.n + 1) * sizeof *all);
    if (all) {
        r->at = all;
        if (m.n) memcpy(r->at + r->n, m.at, m.n * sizeof *all);
        r->n += m.n;
        m.n = 0; /* now the log's */
    }
    ts_memory_free(&m);
    return ok && all;
}

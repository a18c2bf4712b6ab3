/* SPDX-License-Identifier: Apache-2.0 */
/* ranking.c - who is first? Games become ratings: of one challenge, and of all of them together. */
#include <stdlib.h>
#include <string.h>

#include "court.h"

bool ts_court_played(ts_court *c, ts_played game)
{
    if (c->n_played == c->room_played) {
        const size_t room = 2 * c->room_played + 64;
        ts_played   *more = realloc(c->played, room * sizeof *more);
        if (!more) return false;
        c->played = more;
        c->room_played = room;
    }
    c->played[c->n_played++] = game;
    return true;
}

static void write_rows(ts_jw *w, const char *task, const int *id, const ts_rating *rating, int n)
{
    ts_jw_text(w, "task", task);
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

static int place(int *id, int *n, int wanted)
{
    int i = 0;
    while (i < *n && id[i] != wanted) i++;
    if (i == *n) id[(*n)++] = wanted;
    return i;
}

bool ts_court_rank(ts_court *c, const char *task, size_t first)
{
    const size_t n_games = c->n_played - first;
    ts_game     *game = calloc(n_games + 1, sizeof *game);
    int         *id = calloc(2 * n_games + 1, sizeof *id), n = 0;
    for (size_t i = 0; i < n_games && game && id; i++) {
        const ts_played *p = &c->played[first + i];
        game[i].a = place(id, &n, p->a);
        game[i].b = place(id, &n, p->b);
        game[i].outcome = p->outcome;
    }
    ts_rating *rating = calloc((size_t)n + 1, sizeof *rating);
    bool       ok = game && id && rating && ts_rank(game, n_games, n, 1, rating);
    if (ok) {
        write_rows(ts_log_begin(c->log, "rank"), task, id, rating, n);
        ok = ts_log_commit(c->log);
    }
    free(game);
    free(id);
    free(rating);
    return ok;
}

/* ---- all challenges ---- */

/* Who an entrant is: the same name, author and class are the same contestant. */
typedef struct person {
    int64_t     id;
    const char *name, *author, *cls;
} person;

/* In the order of the log, so that the first of a contestant's entrants stands for it. */
static size_t list_people(const ts_court *c, const ts_records *earlier, person *p)
{
    size_t n = 0;
    for (size_t i = 0; earlier && i < earlier->n; i++) {
        const ts_jr_node *r = earlier->at[i].root;
        if (strcmp(earlier->at[i].type, "entrant") || !ts_jr_int(ts_jr_get(r, "id"), &p[n].id))
            continue;
        p[n].name = ts_jr_text(r, "name", "");
        p[n].author = ts_jr_text(r, "author", "");
        p[n++].cls = ts_jr_text(r, "class", "");
    }
    for (int i = 0; i < c->n; i++) {
        const ts_contender *e = c->contender[i];
        p[n++] = (person) { e->id, e->entry.name, e->entry.author,
                            e->task ? ts_class_name(e->entry.cls) : "-" };
    }
    return n;
}

static int stands_for(const person *p, size_t n, int id)
{
    size_t i = 0, k = 0;
    while (i < n && p[i].id != id) i++;
    if (i == n) return id;
    while (strcmp(p[k].name, p[i].name) || strcmp(p[k].author, p[i].author) ||
           strcmp(p[k].cls, p[i].cls))
        k++;
    return (int)p[k].id;
}

/* Did they meet in this sitting, so that an earlier match of theirs is void? */
static bool met(const ts_court *c, size_t n, const char *task, int64_t a, int64_t b)
{
    for (size_t i = 0; i < n; i++) {
        const ts_played *p = &c->played[i];
        if (((p->a == a && p->b == b) || (p->a == b && p->b == a)) && !strcmp(p->task, task))
            return true;
    }
    return false;
}

/* What an earlier run of this log played. */
static bool recall_games(ts_court *c, const ts_records *earlier)
{
    const size_t n_now = c->n_played;
    for (size_t i = 0; earlier && i < earlier->n; i++) {
        const ts_jr_node *r = earlier->at[i].root, *each = ts_jr_get(r, "workloads");
        const char       *task = ts_jr_text(r, "task", "");
        int64_t           a, b;
        if (strcmp(earlier->at[i].type, "match") || !ts_jr_int(ts_jr_get(r, "a"), &a) ||
            !ts_jr_int(ts_jr_get(r, "b"), &b) || met(c, n_now, task, a, b))
            continue;
        for (size_t k = 0; k < ts_jr_len(each); k++) {
            const char      *won = ts_jr_str(ts_jr_at(each, k));
            const ts_outcome o = !won                ? TS_OUTCOME_NOISE
                                 : !strcmp(won, "a") ? TS_OUTCOME_A
                                 : !strcmp(won, "b") ? TS_OUTCOME_B
                                                     : TS_OUTCOME_TIE;
            if (!ts_court_played(c, (ts_played) { task, (int)a, (int)b, o })) return false;
        }
    }
    return true;
}

bool ts_court_rank_overall(ts_court *c, const ts_records *earlier)
{
    person *p = calloc((earlier ? earlier->n : 0) + (size_t)c->n + 1, sizeof *p);
    bool    ok = p && recall_games(c, earlier), several = false;
    size_t  n = ok ? list_people(c, earlier, p) : 0, kept = 0;
    for (size_t i = 0; i < c->n_played && ok; i++) {
        ts_played g = c->played[i];
        several = several || strcmp(g.task, c->played[0].task);
        g.a = stands_for(p, n, g.a);
        g.b = stands_for(p, n, g.b);
        if (g.a != g.b) c->played[kept++] = g; /* nobody plays against himself */
    }
    if (ok) c->n_played = kept;
    free(p);
    return ok && (!several || !kept || ts_court_rank(c, "overall", 0));
}

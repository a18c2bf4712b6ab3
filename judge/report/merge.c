/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c - merges logs: renumbers their entrants, then leaves out what cannot be compared. */
#define _GNU_SOURCE
#include "merge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "derive.h"
#include "memory.h"

/* Peak rates of two runs on one machine differ by less, those of other machines often by more. */
static const double APART = 1.25;

/* Where a record comes from. */
typedef struct origin {
    int    log;
    size_t machine; /* the first run on a machine like that of the record's run */
} origin;

struct ts_merge {
    ts_memory all, runs; /* `runs` has the run records */
    origin   *from;      /* of each record of `all` */
    size_t    from_room, weakest, n_entrants;
    int       n_logs, n_ended, n_awaited;
    char     *last;    /* hashes, 65 bytes each */
    char    **signed_; /* a line per log; NULL: not asked for */
};

/* Old and new id of an entrant of the log that is being added. */
typedef struct number {
    int64_t was, is;
} number;

typedef struct numbers {
    number *at;
    size_t  n;
} numbers;

ts_merge *ts_merge_begin(void)
{
    return calloc(1, sizeof(ts_merge));
}

void ts_merge_free(ts_merge *m)
{
    if (!m) return;
    ts_memory_free(&m->all);
    ts_memory_free(&m->runs);
    free(m->from);
    free(m->last);
    for (int i = 0; i < m->n_logs; i++) free(m->signed_[i]);
    free(m->signed_);
    free(m);
}

bool ts_merge_signed(ts_merge *m, const char *text)
{
    return (m->signed_[m->n_logs - 1] = strdup(text));
}

void ts_merge_await(ts_merge *m)
{
    m->n_awaited++;
}

/* ---- like machines ---- */

static bool near(double a, double b)
{
    return fmax(a, b) <= APART * fmin(a, b) || (!(a > 0) && !(b > 0));
}

static double peak(const ts_jr_node *run, const char *key)
{
    return ts_jr_number(ts_jr_get(run, "floors"), key, 0);
}

void ts_merge_unlike(const ts_jr_node *a, const ts_jr_node *b, char *text, size_t n)
{
    static const char *const words[] = { "machine", "device", "version", "depth" };
    static const char *const counts[] = { "draw", "threads" };
    static const char *const peaks[][3] = { { "memory_gbs", "bandwidth", "GB/s" },
                                            { "gflops", "arithmetic rate", "GFLOP/s" } };
    *text = 0;
    for (int i = 0; i < 4 && !*text; i++) {
        const char *x = ts_jr_text(a, words[i], ""), *y = ts_jr_text(b, words[i], "");
        if (strcmp(x, y)) /* a run without a device is one on the CPU */
            snprintf(text, n, "%s %s and %s", words[i], *x ? x : "CPU", *y ? y : "CPU");
    }
    for (int i = 0; i < 2 && !*text; i++) {
        const double x = ts_jr_number(a, counts[i], 0), y = ts_jr_number(b, counts[i], 0);
        if (x < y || x > y) snprintf(text, n, "%s %.0f and %.0f", counts[i], x, y);
    }
    for (int i = 0; i < 2 && !*text; i++) {
        const double x = peak(a, peaks[i][0]), y = peak(b, peaks[i][0]);
        if (!near(x, y))
            snprintf(text, n, "measured %s %.3g and %.3g %s", peaks[i][1], x, y, peaks[i][2]);
    }
}

static int held(const ts_jr_node *run)
{
    const ts_jr_node *all = ts_jr_get(run, "guarantees");
    int               n = 0;
    for (size_t i = 0; i < ts_jr_len(all); i++)
        n += ts_jr_bool(ts_jr_get(ts_jr_at(all, i), "held"));
    return n;
}

/* The machine of the run that was copied last. */
static size_t machine_of(ts_merge *m)
{
    const size_t      at = m->runs.n - 1;
    const ts_jr_node *run = m->runs.at[at].root;
    char              why[64];
    size_t            i = 0;
    if (held(run) < held(m->runs.at[m->weakest].root)) m->weakest = at;
    for (; i < at; i++) {
        ts_merge_unlike(run, m->runs.at[i].root, why, sizeof why);
        if (!*why) break;
    }
    return i;
}

/* ---- a log is added ---- */

static int by_old(const void *x, const void *y)
{
    const number *a = x, *b = y;
    return a->was < b->was ? -1 : a->was > b->was;
}

static int64_t renumbered(const numbers *ids, int64_t was)
{
    const number  key = { .was = was };
    const number *p = bsearch(&key, ids->at, ids->n, sizeof key, by_old);
    return p ? p->is : -1;
}

/* Numbers the log's entrants in their order; false if two have one id. */
static bool number_entrants(const ts_records *r, size_t next, numbers *ids, char *why)
{
    *ids = (numbers) { .at = calloc(r->n + 1, sizeof *ids->at) };
    if (!ids->at) return snprintf(why, TS_WHY, "out of memory"), false;
    for (size_t i = 0; i < r->n; i++)
        if (ts_record_is(&r->at[i], "entrant")) {
            ids->at[ids->n] =
                (number) { ts_jr_whole(r->at[i].root, "id", -1), (int64_t)(next + ids->n) };
            ids->n++;
        }
    qsort(ids->at, ids->n, sizeof *ids->at, by_old);
    for (size_t i = 1; i < ids->n; i++)
        if (ids->at[i].was == ids->at[i - 1].was)
            return snprintf(why, TS_WHY, "two entrants have the id %lld",
                            (long long)ids->at[i].was),
                   false;
    return true;
}

/* Whether the member is an entrant's id. */
static bool is_id(const char *type, const char *key)
{
    return !strcmp(key, "entrant") || (!strcmp(type, "entrant") && !strcmp(key, "id")) ||
           (!strcmp(type, "match") && (!strcmp(key, "a") || !strcmp(key, "b")));
}

/* Copies a value, with new ids; false if an id has no entrant. */
static bool copy(ts_jw *w, const char *type, const char *key, const ts_jr_node *v,
                 const numbers *ids)
{
    const ts_jr_type t = ts_jr_is(v);
    int64_t          i;
    double           x;
    bool             ok = true;
    if (key && is_id(type, key)) {
        const int64_t id = ts_jr_int(v, &i) ? renumbered(ids, i) : -1;
        ts_jw_int(w, key, id);
        return id >= 0;
    }
    if (t == TS_JR_OBJ || t == TS_JR_ARR) {
        ts_jw_open(w, key, t == TS_JR_OBJ ? '{' : '[');
        for (size_t k = 0; k < ts_jr_len(v) && ok; k++) {
            const char *name = ts_jr_key(v, k);
            if (t == TS_JR_OBJ && name[strcspn(name, "\"\\")]) continue; /* no key of ours */
            ok = copy(w, type, t == TS_JR_OBJ ? name : NULL, ts_jr_at(v, k), ids);
        }
        ts_jw_close(w, t == TS_JR_OBJ ? '}' : ']');
    } else if (t == TS_JR_STR) ts_jw_text(w, key, ts_jr_str(v));
    else if (t == TS_JR_BOOL) ts_jw_bool(w, key, ts_jr_bool(v));
    else if (ts_jr_int(v, &i)) ts_jw_int(w, key, i);
    else if (ts_jr_num(v, &x)) ts_jw_num(w, key, x);
    else ts_jw_text(w, key, NULL);
    return ok;
}

/* Copies a record without its place in the chain. */
static bool copy_record(ts_memory *to, const ts_record *r, const numbers *ids)
{
    static const char *const chain[] = { "type", "seq", "prev", "self" };
    ts_jw                   *w = ts_memory_begin(to, r->type);
    bool                     ok = true;
    for (size_t i = 0; i < ts_jr_len(r->root) && ok; i++) {
        const char *key = ts_jr_key(r->root, i);
        bool        skip = key[strcspn(key, "\"\\")];
        for (int k = 0; k < 4 && !skip; k++) skip = !strcmp(key, chain[k]);
        if (!skip) ok = copy(w, r->type, key, ts_jr_at(r->root, i), ids);
    }
    return ok && ts_memory_commit(to);
}

static bool add(ts_merge *m, const ts_record *r, const numbers *ids, size_t machine)
{
    if (!copy_record(&m->all, r, ids)) return false;
    if (m->all.n > m->from_room) {
        origin *more = realloc(m->from, m->all.room * sizeof *more);
        if (!more) return false;
        m->from = more;
        m->from_room = m->all.room;
    }
    m->from[m->all.n - 1] = (origin) { m->n_logs, machine };
    return true;
}

/* Boards of two versions of the judge are not one board. */
static bool same_version(const ts_merge *m, const ts_records *r, char *why)
{
    for (size_t i = 0; i < r->n && m->runs.n; i++) {
        const ts_jr_node *a = m->runs.at[0].root, *b = r->at[i].root;
        if (!ts_record_is(&r->at[i], "run")) continue;
        const char  *x = ts_jr_text(a, "version", ""), *y = ts_jr_text(b, "version", "");
        const double u = ts_jr_number(a, "draw", 1), v = ts_jr_number(b, "draw", 1);
        if (strcmp(x, y) || u < v || u > v)
            return snprintf(why, TS_WHY,
                            "judged by version %.40s, draw rule %.0f; the logs before by %.40s, "
                            "draw rule %.0f; report them separately",
                            y, v, x, u),
                   false;
        return true; /* what follows in a log is a matter of like machines */
    }
    return true;
}

static bool keep_hash(ts_merge *m, const ts_records *r)
{
    char *more = realloc(m->last, (size_t)(m->n_logs + 1) * sizeof r->last);
    if (more) m->last = more;
    char **lines = realloc(m->signed_, (size_t)(m->n_logs + 1) * sizeof *lines);
    if (lines) m->signed_ = lines;
    if (!more || !lines) return false;
    lines[m->n_logs] = NULL;
    memcpy(m->last + (size_t)m->n_logs++ * sizeof r->last, r->last, sizeof r->last);
    return true;
}

/* Whether a log was given before. */
static bool is_again(const ts_merge *m, int i)
{
    const size_t n = sizeof((ts_records *)NULL)->last;
    bool         again = false;
    for (int k = 0; k < i; k++)
        again |= !memcmp(m->last + (size_t)k * n, m->last + (size_t)i * n, n);
    return again;
}

bool ts_merge_add(ts_merge *m, ts_records *r, char why[TS_WHY])
{
    static const char *const kept[] = { "entrant", "source", "verdict", "time",
                                        "anchor",  "score",  "match",   "rank" };
    const bool               ended = ts_records_ended(r);
    numbers                  ids = { 0 };
    size_t                   machine = 0;
    bool ok = same_version(m, r, why) && number_entrants(r, m->n_entrants, &ids, why);
    if (ok) snprintf(why, TS_WHY, "out of memory");
    ok = ok && ts_derive_into_records(r) && keep_hash(m, r);
    m->n_ended += ok && ended;
    for (size_t i = 0; i < r->n && ok; i++) {
        const ts_record *at = &r->at[i];
        if (ts_record_is(at, "run")) {
            ok = copy_record(&m->runs, at, &ids);
            if (ok) machine = machine_of(m);
        }
        for (size_t k = 0; k < sizeof kept / sizeof *kept && ok; k++) {
            if (!ts_record_is(at, kept[k])) continue;
            ok = add(m, at, &ids, machine);
            if (!ok)
                snprintf(why, TS_WHY, "line %zu: %s of an unknown entrant, or out of memory", i + 1,
                         at->type);
        }
    }
    m->n_entrants += ids.n;
    free(ids.at);
    return ok;
}

/* ---- what is left out ---- */

typedef struct entrant {
    const char *name, *author, *klass, *sample, *task; /* klass "": a model's answer */
    size_t      id;
    int         log;
    bool        judged;
} entrant;

static int compare(const entrant *a, const entrant *b)
{
    int d = strcmp(a->name, b->name);
    if (!d) d = strcmp(a->task, b->task);
    if (!d) d = strcmp(a->author, b->author);
    if (!d) d = strcmp(a->klass, b->klass);
    return d ? d : strcmp(a->sample, b->sample);
}

/* Among equals, the one that counts comes first. */
static int by_answer(const void *x, const void *y)
{
    const entrant *a = x, *b = y;
    const int      d = compare(a, b);
    if (d) return d;
    if (a->judged != b->judged) return a->judged ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Marks answers that count in another log; how many, or -1 if out of memory. */
static int mark_again(const ts_merge *m, bool *left_out)
{
    entrant *list = calloc(m->n_entrants + 1, sizeof *list);
    size_t   n = 0;
    int      marked = 0;
    for (size_t i = 0; i < m->all.n && list; i++) {
        const ts_jr_node *v = m->all.at[i].root;
        if (ts_record_is(&m->all.at[i], "entrant")) {
            const char *sample = ts_jr_text(v, "sample", NULL);
            list[n] = (entrant) { .name = ts_jr_text(v, "name", ""),
                                  .author = ts_jr_text(v, "author", ""),
                                  .klass = sample ? "" : ts_jr_text(v, "class", ""),
                                  .sample = sample ? sample : "",
                                  .task = ts_jr_text(v, "task", ""),
                                  .id = n,
                                  .log = m->from[i].log };
            n++;
        }
        if (ts_record_is(&m->all.at[i], "verdict"))
            list[ts_jr_whole(v, "entrant", -1)].judged = true;
    }
    if (!list) return -1;
    qsort(list, n, sizeof *list, by_answer);
    for (size_t i = 1, first = 0; i < n; i++) {
        if (compare(&list[first], &list[i])) first = i;
        left_out[list[i].id] = list[i].log != list[first].log;
        marked += left_out[list[i].id];
    }
    free(list);
    return marked;
}

/* Whether the record is about an entrant that is left out. */
static bool is_about(const ts_record *r, const bool *left_out)
{
    const ts_jr_node *v = r->root, *rows = ts_jr_get(v, "rows");
    bool              any = false;
    for (size_t i = 0; i < ts_jr_len(rows); i++) {
        const int64_t id = ts_jr_whole(ts_jr_at(rows, i), "entrant", -1);
        any |= id >= 0 && left_out[id];
    }
    if (ts_record_is(r, "rank") || ts_record_is(r, "anchor")) return any;
    if (ts_record_is(r, "match"))
        return left_out[ts_jr_whole(v, "a", -1)] || left_out[ts_jr_whole(v, "b", -1)];
    return left_out[ts_jr_whole(v, ts_record_is(r, "entrant") ? "id" : "entrant", -1)];
}

/* A timed challenge; `other` is the machine, or an unlike one. */
typedef struct timed {
    const char *task;
    size_t      machine, other;
} timed;

static size_t find_timed(const ts_merge *m, const bool *left_out, timed *list)
{
    size_t n = 0;
    for (size_t i = 0; i < m->all.n; i++) {
        const char *task = ts_jr_text(m->all.at[i].root, "task", "");
        size_t      k = 0;
        if (!ts_record_is(&m->all.at[i], "time") || is_about(&m->all.at[i], left_out)) continue;
        while (k < n && strcmp(list[k].task, task)) k++;
        const size_t on = m->from[i].machine;
        if (k == n) list[n++] = (timed) { task, on, on };
        else if (list[k].machine != on) list[k].other = on;
    }
    return n;
}

static bool loses_times(const ts_record *r, const timed *list, size_t n)
{
    const char *task = ts_jr_text(r->root, "task", "");
    bool        lost = false;
    if (ts_record_is(r, "entrant") || ts_record_is(r, "verdict")) return false;
    for (size_t i = 0; i < n; i++)
        lost |= list[i].other != list[i].machine && !strcmp(list[i].task, task);
    return lost;
}

/* One sentence; "" if all times are from like machines. Returns how many challenges lost theirs. */
static int write_note(const ts_merge *m, const timed *list, size_t n, char *text, size_t n_text)
{
    char   why[200] = "", names[400] = "";
    size_t at = 0;
    int    lost = 0;
    for (size_t i = 0; i < n; i++) {
        if (list[i].other == list[i].machine) continue;
        if (!lost++)
            ts_merge_unlike(m->runs.at[list[i].machine].root, m->runs.at[list[i].other].root, why,
                            sizeof why);
        if (at + 80 < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%.60s", at ? ", " : "",
                                   list[i].task);
    }
    *text = 0;
    for (size_t i = 1; i < n && !lost && !*why; i++)
        if (list[i].machine != list[0].machine)
            ts_merge_unlike(m->runs.at[list[0].machine].root, m->runs.at[list[i].machine].root, why,
                            sizeof why);
    if (!lost && *why)
        snprintf(text, n_text,
                 "Challenges were timed on unlike machines (%s), each challenge on one of them.",
                 why);
    if (lost)
        snprintf(text, n_text,
                 "Times of %d challenge%s (%s) are not compared, because they were measured on "
                 "unlike machines (%s): the verdicts are merged, and %s 0 to every score.",
                 lost, lost == 1 ? "" : "s", names, why, lost == 1 ? "it adds" : "they add");
    return lost;
}

/* ---- the merged list ---- */

/* Of a challenge that was timed on another machine than the first run's. */
static void put_timed(ts_jw *w, const char *task, const ts_jr_node *run)
{
    ts_jw_open(w, task, '{');
    ts_jw_text(w, "machine", ts_jr_text(run, "machine", ""));
    ts_jw_text(w, "device", ts_jr_text(run, "device", ""));
    ts_jw_open(w, "floors", '{');
    ts_jw_num(w, "memory_gbs", peak(run, "memory_gbs"));
    ts_jw_num(w, "gflops", peak(run, "gflops"));
    ts_jw_close(w, '}');
    ts_jw_close(w, '}');
}

static bool put_merge(ts_merge *m, ts_memory *to, const char *note, const timed *list, size_t n)
{
    ts_jw *w = ts_memory_begin(to, "merge");
    ts_jw_int(w, "logs", m->n_logs);
    ts_jw_open(w, "last", '[');
    for (int i = 0; i < m->n_logs; i++) ts_jw_text(w, NULL, m->last + (size_t)i * 65);
    ts_jw_close(w, ']');
    ts_jw_text(w, "note", note);
    ts_jw_open(w, "signed", '[');
    for (int i = 0; i < m->n_logs; i++)
        if (!is_again(m, i)) ts_jw_text(w, NULL, m->signed_[i] ? m->signed_[i] : "");
    ts_jw_close(w, ']');
    ts_jw_open(w, "timed", '{');
    for (size_t i = 0; i < n && m->runs.n; i++) {
        char why[200];
        ts_merge_unlike(m->runs.at[list[i].machine].root, m->runs.at[m->weakest].root, why,
                        sizeof why);
        if (*why && !list[i].task[strcspn(list[i].task, "\"\\")])
            put_timed(w, list[i].task, m->runs.at[list[i].machine].root);
    }
    ts_jw_close(w, '}');
    return ts_memory_commit(to);
}

/* Moves a record; what is not moved is freed with its list. */
static void move(ts_records *all, ts_record *r)
{
    all->at[all->n++] = *r;
    r->doc = NULL;
    r->own = NULL;
}

/* Moves the records that stay, and derives the ranking over all challenges again if it is of other
 * matches than these. */
static bool gather(ts_merge *m, ts_records *all, ts_memory *more, bool *left_out, timed *list)
{
    char      note[1024];
    size_t    verdicts = 0;
    const int again = mark_again(m, left_out);
    if (again < 0) return false;
    const size_t n = find_timed(m, left_out, list);
    const bool   other = write_note(m, list, n, note, sizeof note) || again || m->n_logs > 1;
    if (!put_merge(m, more, note, list, n)) return false;
    if (m->runs.n) move(all, &m->runs.at[m->weakest]);
    move(all, &more->at[0]);
    more->n = 0;
    for (size_t i = 0; i < m->all.n; i++) {
        ts_record *r = &m->all.at[i];
        const bool overall =
            ts_record_is(r, "rank") && !strcmp(ts_jr_text(r->root, "task", ""), "overall");
        if (is_about(r, left_out) || loses_times(r, list, n) || (overall && other)) continue;
        verdicts += ts_record_is(r, "verdict");
        move(all, r);
    }
    if (other && !ts_derive_overall(all, (ts_sink) { ts_memory_begin, ts_memory_commit, more }))
        return false;
    if (m->n_ended == m->n_logs && !m->n_awaited) {
        ts_jw_int(ts_memory_begin(more, "end"), "verdicts", (int64_t)verdicts);
        if (!ts_memory_commit(more)) return false;
    }
    for (size_t i = 0; i < more->n; i++) move(all, &more->at[i]);
    return true;
}

bool ts_merge_end(ts_merge *m, ts_records *all, char why[TS_WHY])
{
    ts_memory more = { 0 };
    bool     *left_out = calloc(m->n_entrants + 1, sizeof *left_out);
    timed    *list = calloc(m->all.n + 1, sizeof *list);
    /* In addition to these: run, merge, rank, end. */
    *all = (ts_records) { .at = calloc(m->all.n + 4, sizeof *all->at) };
    if (m->n_logs) memcpy(all->last, m->last, sizeof all->last);
    const bool ok = left_out && list && all->at && gather(m, all, &more, left_out, list);
    if (!ok) snprintf(why, TS_WHY, "out of memory");
    if (!ok) ts_records_free(all);
    free(left_out);
    free(list);
    ts_memory_free(&more);
    ts_merge_free(m);
    return ok;
}

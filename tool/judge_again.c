/* SPDX-License-Identifier: Apache-2.0 */
/* judge_again.c - `touchstone judge --replay`: judges again from the key that a log reveals, and
 * compares the verdicts and, on request, the times. */
#define _GNU_SOURCE
#include "judge_again.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "quantile.h"
#include "tool.h"

bool ts_replay_key(ts_run *c, const ts_records *r, const char *log)
{
    const char *key = NULL, *depth = NULL;
    for (size_t i = 0; i < r->n; i++) {
        const int64_t draw = ts_jr_whole(r->at[i].root, "draw", 1); /* old logs have none */
        if (ts_record_is(&r->at[i], "run") && draw != TS_DRAW)
            return ts_fail("%s: got cases drawn by rule %d, expected rule %d; replay with the "
                           "version that judged",
                           log, (int)draw, TS_DRAW);
        if (ts_record_is(&r->at[i], "reveal")) key = ts_jr_text(r->at[i].root, "seed", NULL);
        if (!ts_record_is(&r->at[i], "run")) continue;
        const ts_jr_node *timed = ts_jr_get(r->at[i].root, "timed");
        depth = ts_jr_text(r->at[i].root, "depth", NULL);
        if (timed && !ts_jr_bool(timed)) c->untimed = true;
    }
    for (int i = 0; key && i < TS_KEY_BYTES; i++)
        if (sscanf(key + 2 * i, "%2hhx", &c->key[i]) != 1) key = NULL;
    for (int i = 0; depth && i < TS_N_DEPTHS; i++)
        if (!strcmp(depth, ts_depth_name((ts_depth)i))) c->depth = (ts_depth)i;
    c->key_given = key != NULL;
    if (!key)
        ts_fail("%s: no key revealed, because the run did not finish; finish it with --resume",
                log);
    return key != NULL;
}

static const ts_record *verdict_on(ts_run *c, const ts_records *r, const ts_judged *e)
{
    return !e->task ? NULL
                    : ts_records_verdict(r, e->entrant.source_sha256, ts_run_label(c, e->task));
}

bool ts_replay_knows(ts_run *c, const ts_records *r, const char *log)
{
    for (int i = 0; i < c->n; i++)
        if (verdict_on(c, r, c->entrant[i])) return true;
    return ts_fail("%s: has no verdict on these entrants; name what was judged", log);
}

int ts_replay_compare(ts_run *c, const ts_records *r)
{
    int n_other = 0;
    for (int i = 0; i < c->n; i++) {
        const ts_judged *e = c->entrant[i];
        const ts_record *was = verdict_on(c, r, e);
        const char      *verdict = was ? ts_jr_text(was->root, "verdict", "") : "missing",
                   *reason = was ? ts_jr_text(was->root, "reason", "") : "",
                   *where = was ? ts_jr_text(was->root, "case", "") : "";
        const bool same = !strcmp(verdict, ts_ruling_name(e->ruled->ruling)) &&
                          !strcmp(reason, e->ruled->why.reason) &&
                          !strcmp(where, e->ruled->why.where);
        n_other += !same;
        const bool sample = e->sample && *e->sample;
        printf("%-9s %s%s%s, %s: %s %s; in the log: %s %s\n", same ? "same" : "DIFFERENT",
               e->entrant.name, sample ? "/" : "", sample ? e->sample : "",
               e->task ? e->task->name : "-", ts_ruling_name(e->ruled->ruling),
               e->ruled->why.reason, verdict, reason);
    }
    return n_other ? TS_EXIT_FAILED : TS_EXIT_PASSED;
}

/* ---- times ---- */

/* A time is another one if the two intervals are apart by more than this factor, after the log's is
 * multiplied by the machine's pace. A busy machine makes lower quartiles half as long again. */
static const double APART = 1.5;

/* The entrant of a time; NULL: none. */
static const ts_record *entrant_of(const ts_records *r, const ts_record *time)
{
    const int64_t id = ts_jr_whole(time->root, "entrant", -1);
    for (size_t i = 0; i < r->n; i++)
        if (ts_record_is(&r->at[i], "entrant") && ts_jr_whole(r->at[i].root, "id", -1) == id)
            return &r->at[i];
    return NULL;
}

static bool same_text(const ts_record *a, const ts_record *b, const char *key)
{
    const char *x = ts_jr_text(a->root, key, NULL), *y = ts_jr_text(b->root, key, NULL);
    return x && y && !strcmp(x, y);
}

/* The log's time of the same source and class in the same workload; NULL: none. */
static const ts_record *time_in(const ts_records *was, const ts_record *t, const ts_record *entrant)
{
    for (size_t i = 0; i < was->n; i++) {
        const ts_record *r = &was->at[i];
        if (!ts_record_is(r, "time") || !same_text(r, t, "task") || !same_text(r, t, "case"))
            continue;
        const ts_record *its = entrant_of(was, r);
        if (its && same_text(its, entrant, "source_sha256") && same_text(its, entrant, "class"))
            return r;
    }
    return NULL;
}

/* How many times as long this machine takes as the log's: the median over the anchors, which are
 * the judge's own code; 1 if there are none. */
static double pace_of(const ts_records *now, const ts_records *was, size_t *n)
{
    static const char *const kinds[] = { "text_ns", "best_ns" };
    enum { MOST = 256 };
    double ratio[MOST];
    *n = 0;
    for (size_t i = 0; i < now->n; i++)
        for (size_t k = 0; k < was->n && ts_record_is(&now->at[i], "anchor"); k++) {
            const ts_record *a = &now->at[i], *b = &was->at[k];
            if (!ts_record_is(b, "anchor") || !same_text(a, b, "task") ||
                !same_text(a, b, "kind") || !same_text(a, b, "workload"))
                continue;
            for (int of = 0; of < 2; of++) {
                const double x = ts_jr_number(a->root, kinds[of], 0),
                             y = ts_jr_number(b->root, kinds[of], 0);
                if (x > 0 && y > 0 && *n < MOST) ratio[(*n)++] = x / y;
            }
        }
    return *n ? ts_median(ratio, *n) : 1;
}

/* Whether the two agree, and a line about it. */
static bool agree(const ts_record *t, const ts_record *was, const char *name, double pace)
{
    const double lo = ts_jr_number(t->root, "lo_ns", 0), hi = ts_jr_number(t->root, "hi_ns", 0);
    const double was_lo = ts_jr_number(was->root, "lo_ns", 0) * pace,
                 was_hi = ts_jr_number(was->root, "hi_ns", 0) * pace;
    const bool same = lo <= APART * was_hi && was_lo <= APART * hi && was_lo > 0;
    printf("%-9s %s, %s: %.4g us [%.4g, %.4g]; in the log: %.4g us [%.4g, %.4g]\n",
           same ? "same" : "DIFFERENT", name, ts_jr_text(t->root, "case", "?"),
           ts_jr_number(t->root, "time_ns", 0) / 1e3, lo / 1e3, hi / 1e3,
           ts_jr_number(was->root, "time_ns", 0) / 1e3, was_lo / pace / 1e3, was_hi / pace / 1e3);
    return same;
}

int ts_replay_times(const ts_run *c, const ts_records *now, const ts_records *was)
{
    size_t       n_anchors, n_times = 0, n_other = 0;
    const double pace = pace_of(now, was, &n_anchors);
    for (size_t i = 0; i < now->n; i++) {
        const ts_record *t = &now->at[i];
        if (!ts_record_is(t, "time")) continue;
        const int64_t    id = ts_jr_whole(t->root, "entrant", -1);
        const ts_record *entrant = entrant_of(now, t);
        const ts_record *old = entrant ? time_in(was, t, entrant) : NULL;
        const char      *name = "?";
        for (int k = 0; k < c->n; k++)
            if (c->entrant[k]->id == id) name = c->entrant[k]->entrant.name;
        if (!old) continue;
        n_times++;
        n_other += !agree(t, old, name, pace);
    }
    printf("%zu of %zu times differ; by %zu times of anchors this machine takes %.3g times as long "
           "as the "
           "log's\n",
           n_other, n_times, n_anchors, pace);
    if (!n_times)
        return ts_fail("--times: neither run has times of these entrants"), TS_EXIT_FAILED;
    return n_other ? TS_EXIT_FAILED : TS_EXIT_PASSED;
}

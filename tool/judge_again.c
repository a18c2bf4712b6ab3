/* SPDX-License-Identifier: Apache-2.0 */
/* judge_again.c - `touchstone judge --replay`: judges again from the key that a log reveals, and
 * compares the verdicts. */
#define _GNU_SOURCE
#include "judge_again.h"

#include <stdio.h>
#include <string.h>

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

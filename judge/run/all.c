/* SPDX-License-Identifier: Apache-2.0 */
/* all.c - runs the challenges one after the other, and estimates how long they take. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* ---- amount of work, for the progress line ---- */

static double work_of_correctness(const ts_run *c, const ts_judged *e)
{
    int    n;
    int   *number = ts_run_draw(c, e->task, e->entrant.cls, &e->scope, &n);
    double work = 0;
    for (int i = 0; i < n; i++)
        work += ts_work_of(e->task, &ts_scope_cases(&e->scope, e->task)[number[i]]);
    free(number);
    return work;
}

/* In the order of the run: each task's entrants, then their timing. */
static void plan_work(ts_run *c)
{
    double all = 0;
    for (int i = 0; ts_tasks[i]; i++) {
        const double before = all;
        for (int k = 0; k < c->n; k++) {
            ts_judged *e = c->entrant[k];
            if (e->task == ts_tasks[i] && !e->before) e->work = all += work_of_correctness(c, e);
        }
        if (all > before) all += ts_run_timed_work(c, ts_tasks[i]);
    }
    ts_progress_begin(&c->progress, all);
}

/* ---- all challenges ---- */

bool ts_run_all(ts_run *c, const ts_records *earlier)
{
    int id = ts_run_next_id(earlier);
    ts_run_recall(c, earlier);
    ts_run_measure_all(c);
    if (!ts_run_log_run(c)) return false;
    for (int i = 0; i < c->n; i++) {
        ts_judged *e = c->entrant[i];
        if (e->id >= 0) continue;
        e->id = id++;
        if (!ts_run_log_entrant(c, e)) return false;
    }
    for (int i = 0; i < c->n; i++) /* entrants that could not be read */
        if (!c->entrant[i]->task && !c->entrant[i]->before && !ts_rule_unread(c, c->entrant[i]))
            return false;
    plan_work(c);
    for (int i = 0; ts_tasks[i]; i++)
        if (!ts_rule_challenge(c, ts_tasks[i])) return false;
    ts_progress_clear(&c->progress);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - where questions and answers meet: each task with our answers to it and the mutants
 * that must not pass for one. All of it follows from script/challenges.h. */
#ifndef TS_REGISTRY_H
#define TS_REGISTRY_H

#include "impl.h"
#include "mutant.h"
#include "task.h"
#include "worker.h"

/* A whole implementation that no door picks, examined and timed beside those that it does: for what
 * one learns from it. It checks its arguments by itself. */
typedef struct ts_entrant {
    const char     *name;
    ts_device       device;
    unsigned        dtypes; /* TS_HAS_* */
    ts_run_fn       run;
    ts_workspace_fn workspace; /* NULL: needs none */
} ts_entrant;

typedef struct ts_offer {
    const ts_task   *task;
    const ts_impl   *impls;
    ts_run_fn        run; /* the public door */
    ts_workspace_fn  workspace;
    const ts_mutant *mutants;
} ts_offer;

extern const ts_offer ts_offers[]; /* task NULL ends */

/* The door as an entry through which only this row, and what stands below it, can be reached. */
ts_entry ts_entry_of(const ts_offer *o, const ts_impl *row);

/* The first of the offer's entrants; an end where it has none. */
const ts_entrant *ts_entrants_of(const ts_offer *o);
ts_entry          ts_entry_of_entrant(const ts_entrant *e);

/* True if `filter` is NULL, or names the task, or its stem. */
bool ts_task_matches(const ts_task *t, const char *filter);

/* The same of any task, or the whole name of a challenge; false and one line on standard error,
 * with all names, if it is of none. */
bool ts_task_known(const char *command, const char *option, const char *filter, bool challenge);

/* The seed that stands in a filter, as in a whole case name, "...@0x5eed". False and one line on
 * standard error if it is no number, or there are two. */
bool ts_case_seed(const char *filter, bool *given, uint64_t *seed);

/* True if the filter is NULL, or stands somewhere in the case's name, or is the whole of it with a
 * seed. Several may stand between '|'. */
bool ts_case_matches(const ts_task *t, const ts_case *c, const char *filter);

#endif

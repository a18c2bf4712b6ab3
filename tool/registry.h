/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - each challenge with the library's implementations of it and the mutants that must
 * be rejected. The list is that of judge/script/challenges.h. */
#ifndef TS_REGISTRY_H
#define TS_REGISTRY_H

#include "impl.h"
#include "mutant.h"
#include "task.h"
#include "worker.h"

/* A challenge: its task, the library's implementations, the API that selects one, and mutants. */
typedef struct ts_challenge {
    const ts_task   *task;
    const ts_impl   *impls;
    ts_run_fn        run; /* the public API */
    ts_workspace_fn  workspace;
    const ts_mutant *mutants;
} ts_challenge;

extern const ts_challenge ts_challenges[]; /* task NULL ends */

/* The public API, restricted to this implementation and those below it in the table. */
ts_function ts_function_of(const ts_challenge *ch, const ts_impl *row);

/* The challenge's baselines, ended by one without a name: implementations that the API never
 * selects, tested and timed next to those that it does. They validate their own arguments. */
const ts_function *ts_baselines_of(const ts_challenge *ch);

/* True if `filter` is NULL, or names the task, or its stem. */
bool ts_task_matches(const ts_task *t, const char *filter);

/* Whether this holds for any task, or is the full name of a challenge; otherwise prints one line
 * with all names on standard error. */
bool ts_task_known(const char *option, const char *filter, bool challenge);

/* The seed in a filter, as in a full case name, "...@0x5eed". False and one line on standard error
 * if it is not a number, or there are two. */
bool ts_case_seed(const char *filter, bool *given, uint64_t *seed);

/* True if the filter is NULL, or part of the case's name, or the full name with a seed. '|'
 * separates alternatives. */
bool ts_case_matches(const ts_task *t, const ts_case *c, const char *filter);

/* Of `judge --case`: whether the case, named with its seed, exists; otherwise prints one line on
 * standard error. The name is rewritten as the judge writes it: its seed may be decimal. */
bool ts_case_find(const char **only);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* mutant_entry_model.c - a mutant of beam_search or tree_verify as a stranger's shared library.
 * mutant.sh compiles it once for each, with TASK and MUTANT. */
#include <stdbool.h>
#include <stdlib.h>

#include "touchstone/beam_search.h"
#include "touchstone/tree_verify.h"

#define JOIN(a, b, c) a##b##c
#define NAME(a, b, c) JOIN(a, b, c)
#define TEXT(a)       #a
#define QUOTED(a)     TEXT(a)

typedef NAME(ts_, TASK, _args) task_args;

/* mutant/ */
bool NAME(ts_, TASK, _mutant)(const char *name, ts_run_fn *run, ts_workspace_fn *query);

static ts_run_fn       run;
static ts_workspace_fn query;

static void find(void)
{
    if (!NAME(ts_, TASK, _mutant)(QUOTED(MUTANT), &run, &query)) abort();
}

ts_status NAME(ts_, TASK, )(const task_args *a, const ts_exec *x)
{
    find();
    return run(a, x);
}

ts_status NAME(ts_, TASK, _workspace)(const task_args *a, const ts_exec *x, size_t *n)
{
    find();
    return query(a, x, n);
}

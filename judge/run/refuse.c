/* SPDX-License-Identifier: Apache-2.0 */
/* refuse.c - invalid calls of a correct entrant: they must return the right status and write
 * nothing.
 *
 * They count for the score, not for the verdict. An entrant that does not validate may crash, so
 * they run in separate cages. */
#include <string.h>

#include "run.h"

/* Most restarts after crashes: each may be a hang. */
enum { MOST_STARTS = 3 };

typedef struct asker {
    ts_run       *run;
    ts_judged    *e;
    int           number;
    ts_cage      *cage; /* NULL: not running */
    int           n_starts;
    bool          busy;               /* the last start failed for lack of CPU time */
    unsigned char args[TS_CALL_ARGS]; /* the valid call */
    ts_exec       x;
} asker;

/* Finds a valid case to start from. A scope may have none; without rows a NULL would be valid. */
static int sound_case(const ts_judged *e)
{
    const ts_case *all = ts_scope_cases(&e->scope, e->task);
    int            i = 0;
    while (all[i].use && !(all[i].dtype == TS_F32 && all[i].dim[0] > 1 &&
                           ts_scope_takes(&e->scope, e->task, &all[i])))
        i++;
    return i;
}

static void start(asker *a)
{
    const ts_task *t = a->e->task;
    ts_cage_plan   plan;
    ts_call        r;
    char           why[256];
    ts_run_plan(a->run, a->e, &plan);
    plan.n_threads = 1;
    ts_run_plan_case(&plan, &ts_scope_cases(&a->e->scope, t)[a->number],
                     ts_run_case_seed(a->run, t, a->number));
    a->n_starts++;
    a->cage = ts_cage_start_patiently(&plan, why, sizeof why);
    a->busy = !a->cage && !strncmp(why, TS_BUSY ":", 5);
    if (!a->cage) return;
    memcpy(a->args, ts_cage_fill(a->cage, 0, ts_run_seed(a->run, t, TS_FOR_INPUTS, a->number, 0)),
           t->args_bytes);
    if (!ts_cage_workspace(a->cage, 0, &r)) ts_cage_stop(&a->cage);
    else ts_cage_exec(a->cage, 0, &a->x);
}

/* Invalid calls 0 and 1 have a missing and a short workspace; the task defines the rest. False:
 * there is no such call. */
static bool spoil(const asker *a, int way, void *args, ts_exec *x, ts_status *must)
{
    *must = TS_E_WORKSPACE;
    if (way >= 2) return ts_task_spoil(a->e->task, way - 2, args, x, must);
    if (way == 0) x->workspace = NULL;
    x->workspace_bytes -= (size_t)way;
    return true;
}

/* *shown: false if the machine disturbed the call. */
static bool refused(asker *a, const void *args, const ts_exec *x, ts_status must, bool *shown)
{
    ts_call    r;
    ts_flaw    f;
    const bool well = ts_cage_call_with(a->cage, 0, args, x, &r) && r.status == must &&
                      ts_arena_outputs_untouched(ts_cage_arena(a->cage, 0), &f) &&
                      ts_arena_intact(ts_cage_arena(a->cage, 0), &f);
    if (!r.end) return well;
    ts_cage_stop(&a->cage);
    if (r.end == TS_END_BUSY) a->n_starts--, *shown = false;
    if (a->n_starts < MOST_STARTS) start(a);
    return false;
}

void ts_run_refusals(ts_run *c, ts_judged *e)
{
    asker a = { .run = c, .e = e, .number = sound_case(e) };
    /* These classes receive no arguments that could be invalid. */
    if (ts_in_python(e->entrant.cls) || e->entrant.cls == TS_GPU_SEALED) return;
    if (!ts_scope_cases(&e->scope, e->task)[a.number].use) return; /* its scope has no such case */
    start(&a);
    for (int way = a.x.workspace_bytes ? 0 : 2;; way++) {
        unsigned char args[TS_CALL_ARGS];
        ts_exec       x = a.x;
        ts_status     must;
        memcpy(args, a.args, sizeof args);
        if (!spoil(&a, way, args, &x, &must)) break;
        bool shown = false, well = false;
        for (int i = 0; i < TS_ATTEMPTS && !shown; i++) {
            shown = !a.busy;
            well = a.cage && refused(&a, args, &x, must, &shown);
        }
        e->refusals.all += shown;
        e->refusals.passed += well;
    }
    ts_cage_stop(&a.cage);
}

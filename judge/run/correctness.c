/* SPDX-License-Identifier: Apache-2.0 */
/* correctness.c - the correctness stage: runs blocks of cases in new cages and checks every output
 * of every call, until the first flaw. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ahead.h"
#include "clock.h"
#include "dtype.h"
#include "examine.h"
#include "run.h"

/* Slots of a cage: on a device, starting one takes a second. */
static const int BLOCK[] = { [TS_CPU] = 16, [TS_CUDA] = TS_MAX_SLOTS };

int ts_call_limit_s(ts_class cls)
{
    if (!ts_in_python(cls)) return TS_CALL_LIMIT_S;
    return ts_on_gpu(cls) ? TS_GPU_PYTHON_LIMIT_S : TS_PYTHON_LIMIT_S;
}

double ts_workspace_most(ts_class cls, const ts_task *t, const ts_case *c)
{
    const double wide = ts_format_of(c->dtype)->n_bytes == 2 ? 2 : 1;
    const int    least = ts_on_gpu(cls) ? TS_GPU_WORKSPACE_MIB : TS_WORKSPACE_MIB;
    return least * 1048576.0 + 2 * wide * t->cost(c).bytes;
}

void ts_run_plan(const ts_run *c, ts_judged *e, ts_cage_plan *plan)
{
    *plan = (ts_cage_plan) { .class = e->entrant.cls,
                             .task = e->task,
                             .unsafe = c->unsafe,
                             .n_threads = c->n_threads,
                             .memory_bytes = (size_t)TS_MEMORY_GIB << 30,
                             .limit_ms = 1000 * ts_call_limit_s(e->entrant.cls) };
    snprintf(e->object, sizeof e->object, "/proc/self/fd/%d", e->built.object);
    plan->object = e->object;
    if (ts_on_gpu(e->entrant.cls)) plan->memory_bytes = (size_t)TS_GPU_MEMORY_GIB << 30;
    if (e->entrant.cls == TS_GPU_SEALED) {
        snprintf(e->launch, sizeof e->launch, "/proc/self/fd/%d", e->built.launch);
        plan->runner = e->launch;
    }
    if (!ts_in_python(e->entrant.cls)) return;
    snprintf(e->folder, sizeof e->folder, "%s/src", e->built.folder);
    snprintf(e->object, sizeof e->object, "%s/%s", e->folder, ts_entrant_main(&e->entrant)->name);
    plan->folder = e->folder;
    plan->python = c->python;
    plan->runner = c->places.runner;
}

void ts_run_plan_case(ts_cage_plan *plan, const ts_case *c)
{
    const double most = ts_workspace_most(plan->class, plan->task, c);
    plan->slot[plan->n_slots++] = c;
    if (most > (double)plan->workspace_bytes) plan->workspace_bytes = (size_t)most;
}

/* ---- one case ---- */

/* Whether the case has any output. Without one, TS_OK does not show that the dtype is supported. */
static bool has_output(const ts_arena *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->buf[i].b.role == TS_OUT && m->buf[i].b.n_rows && m->buf[i].b.n_cols) return true;
    return false;
}

/* Limit for all calls together, which could take hours with each call below its own limit. */
static const double MOST_NS = TS_ALL_CALLS_LIMIT_S * 1e9;

static bool takes_too_long(ts_judged *e, const ts_case *c, uint64_t seed)
{
    char text[96];
    snprintf(text, sizeof text, "took more than %.0f s for %d calls", MOST_NS / 1e9, e->n_calls);
    return ts_observe_failure(e, c, seed, "hang", text);
}

/* False: the call itself failed. *answered is false if the entrant does not support the dtype. */
static bool call(ts_judged *e, ts_cage *cage, int slot, const ts_case *c, uint64_t seed,
                 bool *answered)
{
    ts_call r;
    *answered = false;
    if (!ts_cage_workspace(cage, slot, &r)) return ts_observe_call(e, c, seed, &r);
    if (!r.status) {
        if ((double)r.workspace_bytes > e->workspace_bytes)
            e->workspace_bytes = (double)r.workspace_bytes;
        if (!ts_cage_call(cage, slot, &r)) return ts_observe_call(e, c, seed, &r);
        e->n_calls++;
        if ((e->spent_ns += r.ns) > MOST_NS) return takes_too_long(e, c, seed);
        if (r.fp_changed) return ts_observe_call(e, c, seed, &r);
    }
    if ((r.status == TS_E_DTYPE || r.status == TS_E_UNSUPPORTED) && c->dtype != TS_F32) {
        e->unsupported |= 1u << c->dtype;
        return !(e->supported & e->unsupported) || ts_observe_mixed_support(e, c, seed);
    }
    if (r.status)
        return ts_observe_rejection(e, c, seed, r.status) || ts_observe_call(e, c, seed, &r);
    if (has_output(ts_cage_arena(cage, slot))) e->supported |= 1u << c->dtype;
    if (e->supported & e->unsupported) return ts_observe_mixed_support(e, c, seed);
    return *answered = true;
}

/* Errors of narrow dtypes are not kept: see ts_judged. */
static bool right(ts_judged *e, const ts_cage *cage, int slot, const ts_exam *x)
{
    ts_errors narrow = { 0 };
    return ts_observe_output(e, cage, slot, x,
                             ts_wide(x->c->dtype) == x->c->dtype ? &e->errors : &narrow);
}

/* Fills new inputs, calls, and checks the output. */
static bool examine(ts_judged *e, ts_cage *cage, int slot, const ts_exam *x, bool *answered)
{
    ts_cage_fill_like(cage, slot, x->c, x->arena);
    return call(e, cage, slot, x->c, x->seed, answered) && (!*answered || right(e, cage, slot, x));
}

/* Calls again with the same inputs. The output must be correct; that its bits should be identical
 * counts for the score, not the verdict. */
static bool repeat(ts_judged *e, ts_cage *cage, int slot, const ts_exam *x)
{
    const ts_arena *m = ts_cage_arena(cage, slot);
    const uint64_t  bits = ts_arena_output_hash(m);
    ts_call         r;
    e->repeat.all++;
    if (!ts_cage_call(cage, slot, &r) || r.status) return true;
    e->repeat.passed += ts_arena_output_hash(m) == bits;
    return right(e, cage, slot, x);
}

/* ---- blocks ---- */

/* Index of a slot's first prepared case: every fourth slot has two. */
static int place_of(int slot)
{
    return slot + (slot + 3) / 4;
}

static ts_ahead *questions_of(const ts_run *c, const ts_task *t, const int *number, int n)
{
    const ts_case *all = t->cases();
    ts_question    q[2 * TS_MAX_SLOTS];
    for (int i = 0; i < n; i++) {
        ts_question *at = &q[place_of(i)];
        at[0] = (ts_question) { &all[number[i]], ts_run_case_seed(c, t, number[i]) };
        if (i % 4 == 0)
            at[1] = (ts_question) { at->c, ts_run_seed(c, t, TS_FOR_SECOND, number[i], 0) };
    }
    return ts_ahead_open(t, q, place_of(n));
}

static bool examine_slot(ts_judged *e, ts_cage *cage, int slot, const ts_case *one, ts_ahead *a)
{
    ts_tally *t = &e->category[ts_case_category(e->task, one)];
    const int n_canon = e->evidence.n_canon;
    bool      answered;
    t->all++;
    if (!examine(e, cage, slot, ts_ahead_at(a, place_of(slot)), &answered)) return false;
    /* An unsupported dtype is not a failure; a call that it may reject stays not passed. */
    if (!answered) return t->all -= e->evidence.n_canon == n_canon, true;
    e->io_bytes = fmax(e->io_bytes, e->task->cost(one).bytes);
    if (slot % 4 == 0) {
        /* Other contents at the same address: an entrant that caches results by address now fails.
         */
        if (!examine(e, cage, slot, ts_ahead_at(a, place_of(slot) + 1), &answered)) return false;
    }
    /* Rarely, so that it does not outweigh the other scores. */
    if (slot == 0 && answered && !repeat(e, cage, slot, ts_ahead_at(a, place_of(slot) + 1)))
        return false;
    /* A broken rule of the canon counts in that category, not in the case's own. */
    const bool kept = e->evidence.n_canon == n_canon, canon = t == &e->category[TS_CANON];
    t->passed += kept || !canon;
    if (!kept && !canon) e->category[TS_CANON].all++;
    return true;
}

static bool examine_block(ts_run *c, ts_judged *e, const int *number, int n, bool first,
                          double *work)
{
    const ts_case *all = e->task->cases();
    ts_cage_plan   plan;
    char           why[256];
    ts_run_plan(c, e, &plan);
    plan.n_threads = first ? 1 : c->n_threads;
    plan.n_returned = &e->evidence.n_returned;
    for (int i = 0; i < n; i++) ts_run_plan_case(&plan, &all[number[i]]);
    ts_cage *cage = ts_cage_start(&plan, why, sizeof why);
    if (!cage) return ts_observe_no_cage(e, why);
    ts_ahead *a = questions_of(c, e->task, number, n);
    bool      ok = true;
    for (int i = 0; i < n && ok; i++) {
        ok = examine_slot(e, cage, i, &all[number[i]], a);
        e->evidence.n_examined += ok;
        *work += ts_work_of(e->task, &all[number[i]]);
        ts_progress_reach(&c->progress, *work);
    }
    ts_ahead_close(&a);
    ts_cage_stop(&cage);
    return ok;
}

/* The numbers of the cases to examine, to be freed, and how many; NULL, and why, if there are none.
 * *n_small: without the timed cases that follow. */
static int *cases_of(const ts_run *c, const ts_judged *e, int *n, int *n_small, ts_refusal *why)
{
    int  timed[TS_WORKLOADS];
    int *number = ts_run_draw(c, e->task, e->entrant.cls, &e->scope, n_small);
    /* Timed calls are checked; without them their shapes are checked here. */
    const int n_timed = c->untimed && !c->only ? ts_run_workloads(c, e->task, timed) : 0;
    if (!*n_small)
        ts_refuse(why, "case", "%s has no %s", e->task->name,
                  c->only ? "such case" : "case within the declared offers at this depth");
    /* --case may name a case outside the scope. */
    else if (!ts_scope_takes(&e->scope, e->task, &e->task->cases()[*number]))
        ts_refuse(why, "case", "outside the declared offers: %s", e->scope.text);
    int *const all =
        why->reason ? NULL : realloc(number, sizeof *all * (size_t)(*n_small + n_timed));
    if (!all) free(number);
    if (!all && !why->reason) abort();
    *n = *n_small;
    for (int i = 0; i < n_timed && all; i++)
        if (ts_scope_takes(&e->scope, e->task, &e->task->cases()[timed[i]])) all[(*n)++] = timed[i];
    return all;
}

static void examine_cases(ts_run *c, ts_judged *e, const int *number, int n, int n_small)
{
    const int block = BLOCK[c->device];
    double    work = c->progress.done;
    bool      ok = true;
    e->evidence.n_drawn = n;
    for (int at = 0; at < n && ok; at += block)
        ok = examine_block(c, e, number + at, n - at < block ? n - at : block, at == 0, &work);
    /* Only with --case: f32 is always drawn, and must be supported. */
    if (ok && e->unsupported && !e->io_bytes)
        ok =
            ts_observe_failure(e, &e->task->cases()[*number], ts_run_case_seed(c, e->task, *number),
                               "case", "does not support this dtype: nothing was checked");
    if (!ok) return;
    ts_run_refusals(c, e);
    ts_run_robustness(c, e, number, n_small);
}

void ts_run_examine(ts_run *c, ts_judged *e)
{
    const double begin = ts_seconds();
    int          n, n_small, *number = NULL;
    ts_refusal   why = { 0 };
    const bool   built = ts_build(&e->entrant, &c->places, NULL, &e->built, &why);
    e->scope.lacks = e->built.lacks;
    if (built) why = (ts_refusal) { 0 }; /* a first try may have crashed the compiler */
    if (built && (number = cases_of(c, e, &n, &n_small, &why)))
        examine_cases(c, e, number, n, n_small);
    else ts_observe_refusal(e, &why);
    free(number);
    e->seconds = ts_seconds() - begin;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* correctness.c - the correctness stage: runs blocks of cases in new cages and checks every output
 * of every call. The first flaw decides. */
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
#include "show.h"

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
                             .unsafe = c->unsafe != NULL,
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

bool ts_run_fail(ts_judged *e, const ts_case *c, uint64_t seed, const char *reason,
                 const char *text)
{
    e->ruling = TS_RULING_FAIL;
    snprintf(e->reason, sizeof e->reason, "%s", reason);
    ts_show(text, strlen(text), e->text, sizeof e->text);
    ts_case_string(e->task, c, seed, e->where, sizeof e->where);
    e->flaw = (ts_flaw) { 0 };
    return false;
}

/* "value: seen[0][1] got 1, want 0: operation 0 of 9, open in layer 0: number of the sequence"
 */
static void describe(const ts_judged *e, const ts_case *c, const void *args, const ts_flaw *f,
                     char *s, size_t n)
{
    const ts_verdict v = { .first = *f };
    const bool       element = f->fault == TS_FAULT_VALUE || f->fault == TS_FAULT_UNWRITTEN;
    char             words[160] = "";
    ts_flaw_text(&v, s, n);
    if (args && element && e->task->explain) e->task->explain(c, args, f, words, sizeof words);
    if (!*words) return;
    const size_t at = strlen(s), end = strlen(words);
    snprintf(s + at, n - at, ": %s", words);
    if (end < 6 || strcmp(words + end - 6, "status") || !(f->got >= 0 && f->got < 100)) return;
    snprintf(s + strlen(s), n - strlen(s), ", %s instead of %s", ts_status_text((ts_status)f->got),
             ts_status_text((ts_status)f->want));
}

bool ts_run_fail_by_flaw(ts_judged *e, const ts_case *c, uint64_t seed, const void *args, ts_flaw f)
{
    char text[512];
    describe(e, c, args, &f, text, sizeof text);
    ts_run_fail(e, c, seed, ts_fault_name(f.fault), text);
    e->flaw = f;
    return false;
}

/* Reports the first broken rule, unless a worse flaw follows. */
static void note(ts_judged *e, const ts_case *c, uint64_t seed, const void *args, const char *rule,
                 ts_flaw f)
{
    char what[512], text[640];
    if (e->n_canon++) return;
    e->rule = rule;
    describe(e, c, args, &f, what, sizeof what);
    snprintf(text, sizeof text, "%s; %s", rule, what);
    ts_run_fail(e, c, seed, "canon", text);
    e->flaw = f;
}

bool ts_run_excuse(ts_judged *e, const ts_case *c, uint64_t seed, const void *args,
                   const ts_want *want, ts_flaw f, ts_errors *errors)
{
    const ts_ruling   ruling = e->ruling;
    const char *const rule = ts_canon_broken(e->task, c, args, want, &f, errors);
    if (!rule) return ts_run_fail_by_flaw(e, c, seed, args, f);
    note(e, c, seed, args, rule, f);
    e->ruling = ruling == TS_RULING_PASS ? TS_RULING_COMMON : ruling;
    return true;
}

enum { RAISED = 255 }; /* the Python runner's code for an exception that maps to no status */

/* The last line of the output: an entrant that prints more afterwards only hides its own message.
 */
static const char *last_line(char *text)
{
    size_t n = strlen(text);
    while (n && strchr("\r\n", text[n - 1])) text[--n] = 0;
    const char *line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

static ts_flaw status_flaw(ts_status s)
{
    return (ts_flaw) { TS_FAULT_STATUS, ts_status_text(s), 0, 0, s, 0, 0 };
}

static void hint(ts_judged *e)
{
    const size_t n = strlen(e->text);
    snprintf(e->text + n, sizeof e->text - n, "; declare the supported cases with %s",
             e->entrant.json ? "\"offers\" in entry.json" : "a comment touchstone-offers: k <= 32");
}

bool ts_run_fail_by_call(ts_judged *e, const ts_case *c, uint64_t seed, const ts_call *r)
{
    char tail[sizeof r->stderr_tail + 1], text[sizeof tail + 16];
    if (r->flaw.fault == TS_FAULT_CRASH && !*r->flaw.what)
        return ts_run_fail(e, c, seed, "crash", r->text);
    if (r->flaw.fault) return ts_run_fail_by_flaw(e, c, seed, NULL, r->flaw);
    if (r->too_large) {
        snprintf(text, sizeof text,
                 "requested %.6g MiB of workspace, at most %.6g MiB are allowed in this case",
                 (double)r->workspace_bytes / 1048576,
                 ts_workspace_most(e->entrant.cls, e->task, c) / 1048576);
        return ts_run_fail(e, c, seed, ts_call_reason(r), text);
    }
    if (*ts_call_reason(r)) {
        ts_run_fail(e, c, seed, ts_call_reason(r), r->text);
        if (r->broken) e->ruling = TS_RULING_ERROR;
        return false;
    }
    if (r->fp_changed)
        return ts_run_fail(e, c, seed, "fp", "changed the floating-point environment");
    if (ts_in_python(e->entrant.cls) &&
        ((int)r->status == RAISED || r->status == TS_E_UNSUPPORTED)) {
        snprintf(tail, sizeof tail, "%.*s", (int)sizeof r->stderr_tail, r->stderr_tail);
        snprintf(text, sizeof text, "raised %s", last_line(tail));
        ts_run_fail(e, c, seed, "status", text);
    } else ts_run_fail_by_flaw(e, c, seed, NULL, status_flaw(r->status));
    if (r->status == TS_E_DTYPE || r->status == TS_E_UNSUPPORTED) hint(e);
    return false;
}

bool ts_run_may_refuse(ts_judged *e, const ts_case *c, uint64_t seed, ts_status s)
{
    const ts_canon *r = ts_canon_of(e->task, c);
    const ts_ruling ruling = e->ruling;
    if (!r || !r->open) return false;
    note(e, c, seed, NULL, r->rule, status_flaw(s));
    e->ruling = ruling == TS_RULING_PASS ? TS_RULING_COMMON : ruling;
    return true;
}

/* Whether the case has any output. Without one, TS_OK does not show that the dtype is supported. */
static bool has_output(const ts_arena *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->buf[i].b.role == TS_OUT && m->buf[i].b.n_rows && m->buf[i].b.n_cols) return true;
    return false;
}

static bool supports_some(ts_judged *e, const ts_case *c, uint64_t seed)
{
    ts_run_fail(e, c, seed, "status", "supports a dtype in some cases only");
    hint(e);
    return false;
}

/* Limit for all calls together, which could take hours with each call below its own limit. */
static const double MOST_NS = TS_ALL_CALLS_LIMIT_S * 1e9;

static bool takes_too_long(ts_judged *e, const ts_case *c, uint64_t seed)
{
    char text[96];
    snprintf(text, sizeof text, "took more than %.0f s for %d calls", MOST_NS / 1e9, e->n_calls);
    return ts_run_fail(e, c, seed, "hang", text);
}

/* False: the call itself failed. *answered is false if the entrant does not support the dtype. */
static bool call(ts_judged *e, ts_cage *cage, int slot, const ts_case *c, uint64_t seed,
                 bool *answered)
{
    ts_call r;
    *answered = false;
    if (!ts_cage_workspace(cage, slot, &r)) return ts_run_fail_by_call(e, c, seed, &r);
    if (!r.status) {
        if ((double)r.workspace_bytes > e->workspace_bytes)
            e->workspace_bytes = (double)r.workspace_bytes;
        if (!ts_cage_call(cage, slot, &r)) return ts_run_fail_by_call(e, c, seed, &r);
        e->n_calls++;
        if ((e->spent_ns += r.ns) > MOST_NS) return takes_too_long(e, c, seed);
        if (r.fp_changed) return ts_run_fail_by_call(e, c, seed, &r);
    }
    if ((r.status == TS_E_DTYPE || r.status == TS_E_UNSUPPORTED) && c->dtype != TS_F32) {
        e->unsupported |= 1u << c->dtype;
        return !(e->supported & e->unsupported) || supports_some(e, c, seed);
    }
    if (r.status)
        return ts_run_may_refuse(e, c, seed, r.status) || ts_run_fail_by_call(e, c, seed, &r);
    if (has_output(ts_cage_arena(cage, slot))) e->supported |= 1u << c->dtype;
    if (e->supported & e->unsupported) return supports_some(e, c, seed);
    return *answered = true;
}

static bool right(ts_judged *e, ts_cage *cage, int slot, const ts_case *c, uint64_t seed,
                  const void *args, const ts_want *want)
{
    ts_flaw    f = { 0 };
    ts_errors  narrow = { 0 }, *errors = ts_wide(c->dtype) == c->dtype ? &e->errors : &narrow;
    ts_errors  mine = *errors;
    bool       ok = ts_arena_intact(ts_cage_arena(cage, slot), &f);
    const bool canon = ok && e->task->check(c, args, want, &f, &mine);
    if (ok && canon) *errors = mine;
    else ok = ts_run_excuse(e, c, seed, args, want, f, errors); /* counts the errors */
    e->worst = fmax(e->worst, ok ? errors->worst : mine.worst);
    return ok;
}

/* Fills new inputs, calls, and checks the output. */
static bool examine(ts_judged *e, ts_cage *cage, int slot, const ts_exam *x, bool *answered)
{
    ts_cage_fill_like(cage, slot, x->c, x->arena);
    return call(e, cage, slot, x->c, x->seed, answered) &&
           (!*answered || right(e, cage, slot, x->c, x->seed, ts_cage_args(cage, slot), x->want));
}

/* Calls again with the same inputs: the bits should be identical. Counts for the score, not the
 * verdict. */
static void repeat(ts_judged *e, ts_cage *cage, int slot)
{
    const ts_arena *m = ts_cage_arena(cage, slot);
    const uint64_t  bits = ts_arena_output_hash(m);
    ts_call         r;
    e->repeat.all++;
    if (ts_cage_call(cage, slot, &r) && !r.status && ts_arena_output_hash(m) == bits)
        e->repeat.passed++;
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
        if (i % 4 == 0) at[1] = (ts_question) { at->c, ts_run_seed(c, t, number[i], -3) };
    }
    return ts_ahead_open(t, q, place_of(n));
}

static bool examine_slot(ts_judged *e, ts_cage *cage, int slot, const ts_case *one, ts_ahead *a)
{
    ts_tally *t = &e->category[ts_case_category(e->task, one)];
    const int n_canon = e->n_canon;
    bool      answered;
    t->all++;
    if (!examine(e, cage, slot, ts_ahead_at(a, place_of(slot)), &answered)) return false;
    /* An unsupported dtype is not a failure; a call that it may reject stays not passed. */
    if (!answered) return t->all -= e->n_canon == n_canon, true;
    e->io_bytes = fmax(e->io_bytes, e->task->cost(one).bytes);
    if (slot % 4 == 0) {
        /* Other contents at the same address: an entrant that caches results by address now fails.
         */
        if (!examine(e, cage, slot, ts_ahead_at(a, place_of(slot) + 1), &answered)) return false;
    }
    if (slot == 0)
        repeat(e, cage, slot); /* rarely, so that it does not outweigh the other scores */
    /* A broken rule of the canon counts in that category, not in the case's own. */
    const bool kept = e->n_canon == n_canon, canon = t == &e->category[TS_CANON];
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
    for (int i = 0; i < n; i++) ts_run_plan_case(&plan, &all[number[i]]);
    ts_cage *cage = ts_cage_start(&plan, why, sizeof why);
    if (!cage) {
        const size_t n_reason = strcspn(why, ":");
        e->ruling = strncmp(why, "error:", 6) ? TS_RULING_FAIL : TS_RULING_ERROR;
        snprintf(e->reason, sizeof e->reason, "%.*s", (int)n_reason, why);
        const char *text = why + n_reason + (why[n_reason] == ':' ? 2 : 0);
        ts_show(text, strlen(text), e->text, sizeof e->text);
        return false;
    }
    ts_ahead *a = questions_of(c, e->task, number, n);
    bool      ok = true;
    for (int i = 0; i < n && ok; i++) {
        ok = examine_slot(e, cage, i, &all[number[i]], a);
        *work += ts_work_of(e->task, &all[number[i]]);
        ts_progress_reach(&c->progress, *work);
    }
    ts_ahead_close(&a);
    ts_cage_stop(&cage);
    return ok;
}

void ts_run_examine(ts_run *c, ts_judged *e)
{
    const double begin = ts_seconds();
    int          number[TS_MOST_CASES + TS_WORKLOADS], timed[TS_WORKLOADS];
    ts_refusal   why = { 0 };
    bool         ok = ts_build(&e->entrant, &c->places, NULL, &e->built, &why);
    e->scope.lacks = e->built.lacks;
    const int n = ok ? ts_run_draw(c, e->task, e->entrant.cls, &e->scope, number) : 0;
    if (ok && !n)
        ok = ts_refuse(&why, "case", "%s has no %s", e->task->name,
                       c->only ? "such case" : "case within the declared offers at this depth");
    /* --case may name a case outside the scope. */
    if (ok && !ts_scope_takes(&e->scope, e->task, &e->task->cases()[*number]))
        ok = ts_refuse(&why, "case", "outside the declared offers: %s", e->scope.text);
    if (!ok) {
        snprintf(e->reason, sizeof e->reason, "%s", why.reason);
        snprintf(e->text, sizeof e->text, "%s", why.text);
        return;
    }
    /* Timed calls are checked; without them their shapes are checked here. */
    const int n_timed = c->untimed && !c->only ? ts_run_workloads(c, e->task, timed) : 0;
    const int block = BLOCK[c->device];
    double    work = c->progress.done;
    int       all = n;
    for (int i = 0; i < n_timed; i++)
        if (ts_scope_takes(&e->scope, e->task, &e->task->cases()[timed[i]]))
            number[all++] = timed[i];
    for (int at = 0; at < all && ok; at += block)
        ok = examine_block(c, e, number + at, all - at < block ? all - at : block, at == 0, &work);
    /* Only with --case: f32 is always drawn, and must be supported. */
    if (ok && e->unsupported && !e->io_bytes)
        ok = ts_run_fail(e, &e->task->cases()[*number], ts_run_case_seed(c, e->task, *number),
                         "case", "does not support this dtype: nothing was checked");
    if (ok) {
        e->ruling = e->n_canon ? TS_RULING_COMMON : TS_RULING_PASS;
        ts_run_refusals(c, e);
        ts_run_robustness(c, e, number, n);
    }
    e->seconds = ts_seconds() - begin;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* correctness.c - the correctness stage: runs blocks of cases in new cages and checks every output
 * of every call. An entrant that failed runs on for a while, so that its cases can be counted. */
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
#include "words.h"

/* Slots of a cage: on a device, starting one takes a second. Cases whose rows are far apart take
 * gigabytes there. */
static const int BLOCK[] = { [TS_CPU] = 16, [TS_CUDA] = TS_MAX_SLOTS };
enum { MOST_FAR = 2 };

int ts_call_limit_s(ts_class cls)
{
    if (!ts_in_python(cls)) return TS_CALL_LIMIT_S;
    return ts_on_gpu(cls) ? TS_GPU_PYTHON_LIMIT_S : TS_PYTHON_LIMIT_S;
}

double ts_workspace_most(ts_class cls, const ts_task *t, const ts_case *c)
{
    const double wide = ts_format_of(c->dtype)->n_bytes == 2 ? 2 : 1;
    const int    least = ts_on_gpu(cls) ? TS_GPU_WORKSPACE_MIB : TS_WORKSPACE_MIB;
    return least * 1048576.0 + 2 * wide * t->cost(c).bytes + (t->kept ? t->kept(c) : 0);
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

void ts_run_plan_case(ts_cage_plan *plan, const ts_case *c, uint64_t seed)
{
    const double most = ts_workspace_most(plan->class, plan->task, c);
    plan->seed[plan->n_slots] = seed;
    plan->slot[plan->n_slots++] = c;
    if (most > (double)plan->workspace_bytes) plan->workspace_bytes = (size_t)most;
    /* Whole arrays of intermediate results, in double if need be, are Python's workspace. */
    if (plan->class != TS_PYTHON) return;
    const double own = TS_MEMORY_GIB * 0x1p30 + TS_PYTHON_ARRAYS * plan->task->cost(c).bytes;
    if (own > (double)plan->memory_bytes) plan->memory_bytes = (size_t)own;
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

/* False: the call itself failed. *answered: it returned an output, which must then be checked. If
 * it is false without a failure, the entrant does not support the dtype. */
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
        *answered = !r.status;
        if ((e->spent_ns += r.own_ns) > MOST_NS) return takes_too_long(e, c, seed);
        if (r.fp_changed) return ts_observe_call(e, c, seed, &r);
    }
    const unsigned dtype = 1u << c->dtype;
    if ((r.status == TS_E_DTYPE || r.status == TS_E_UNSUPPORTED) && c->dtype != TS_F32) {
        e->unsupported |= dtype;
        return !(e->supported & dtype) || ts_observe_mixed_support(e, c, seed);
    }
    if (r.status) return ts_observe_rejection(e, c, seed, &r) || ts_observe_call(e, c, seed, &r);
    if (e->supported & dtype || !has_output(ts_cage_arena(cage, slot))) return true;
    e->supported |= dtype;
    return !(e->unsupported & dtype) || ts_observe_mixed_support(e, c, seed);
}

/* Errors of narrow dtypes are not kept: see ts_judged. */
static bool right(ts_judged *e, const ts_cage *cage, int slot, const ts_exam *x)
{
    ts_errors  narrow = { 0 };
    const bool ok = ts_observe_output(e, cage, slot, x,
                                      ts_wide(x->c->dtype) == x->c->dtype ? &e->errors : &narrow);
    if (!ok) ts_words_keep(e, ts_cage_arena(cage, slot), x);
    return ok;
}

/* Fills new inputs, calls, and checks the output. */
static bool examine(const ts_run *run, ts_judged *e, ts_cage *cage, int slot, const ts_exam *x,
                    bool *answered)
{
    ts_cage_fill_like(cage, slot, x->c, x->arena);
    if (run->device == TS_CPU) ts_cage_threads(cage, slot, ts_run_case_threads(run, x->seed));
    const bool called = call(e, cage, slot, x->c, x->seed, answered);
    return (!*answered || right(e, cage, slot, x)) && called;
}

/* Calls again with the same inputs. The output must be correct; that its bits should be identical
 * counts for the score, not the verdict. */
static bool repeat(ts_judged *e, ts_cage *cage, int slot, const ts_exam *x)
{
    const ts_arena *m = ts_cage_arena(cage, slot);
    const uint64_t  bits = ts_arena_output_hash(m);
    ts_call         r;
    const bool      came = ts_cage_call(cage, slot, &r);
    if (r.end == TS_END_BUSY) return ts_observe_call(e, x->c, x->seed, &r);
    e->repeat.all++;
    if (!came || r.status) return true;
    e->repeat.passed += ts_arena_output_hash(m) == bits;
    return right(e, cage, slot, x);
}

/* ---- blocks ---- */

/* Index of a slot's first prepared case: every fourth slot has two. */
static int place_of(int slot)
{
    return slot + (slot + 3) / 4;
}

static ts_ahead *questions_of(const ts_run *c, const ts_judged *e, const int *number, int n)
{
    const ts_task *t = e->task;
    const ts_case *all = ts_scope_cases(&e->scope, t);
    ts_question    q[2 * TS_MAX_SLOTS];
    for (int i = 0; i < n; i++) {
        ts_question *at = &q[place_of(i)];
        at[0] = (ts_question) { &all[number[i]], ts_run_case_seed(c, t, number[i]) };
        if (i % 4 == 0)
            at[1] = (ts_question) { at->c, ts_run_seed(c, t, TS_FOR_SECOND, number[i], 0) };
    }
    return ts_ahead_open(t, q, place_of(n));
}

/* Case i of a block, in a slot of its cage. False: it failed, or the machine disturbed it. */
static bool try_case(const ts_run *run, ts_judged *e, ts_cage *cage, int slot, int i, ts_ahead *a)
{
    const ts_exam *x = ts_ahead_at(a, place_of(i));
    const ts_case *one = x->c;
    ts_tally      *t = &e->category[ts_case_category(e->task, one)];
    const int      n_canon = e->evidence.n_canon;
    bool           answered;
    t->all++;
    if (!examine(run, e, cage, slot, x, &answered)) return false;
    const bool open = e->evidence.n_canon != n_canon;
    /* An unsupported dtype is not a failure; a call that it may reject breaks a rule. */
    if (!answered) {
        t->all -= !open;
        return ts_observe_case(e, one, open ? TS_CASE_COMMON : TS_CASE_UNSUPPORTED), true;
    }
    e->io_bytes = fmax(e->io_bytes, e->task->cost(one).bytes);
    e->evidence.n_compared += has_output(ts_cage_arena(cage, slot));
    if (i % 4 == 0) {
        /* Other contents at the same address: an entrant that caches results by address now fails.
         */
        if (!examine(run, e, cage, slot, ts_ahead_at(a, place_of(i) + 1), &answered)) return false;
    }
    /* Rarely, so that it does not outweigh the other scores. */
    if (i == 0 && answered && !repeat(e, cage, slot, ts_ahead_at(a, place_of(i) + 1))) return false;
    /* A broken rule of the canon counts in that category, not in the case's own. */
    const bool kept = e->evidence.n_canon == n_canon, canon = t == &e->category[TS_CANON];
    t->passed += kept || !canon;
    if (!kept && !canon) e->category[TS_CANON].all++;
    ts_observe_case(e, one, kept ? TS_CASE_PASSED : TS_CASE_COMMON);
    return true;
}

static bool examine_case(const ts_run *run, ts_judged *e, ts_cage *cage, int slot, int i,
                         ts_ahead *a)
{
    ts_tally  *t = &e->category[ts_case_category(e->task, ts_ahead_at(a, place_of(i))->c)];
    const int  all = t->all;
    const bool ok = try_case(run, e, cage, slot, i, a);
    if (!ok && e->evidence.n_busy) t->all = all; /* shows nothing */
    return ok;
}

/* A block of cases, and when an entrant that failed first did so. */
typedef struct block {
    ts_run    *run;
    ts_judged *e;
    const int *number;
    int        n;
    bool       first;
    ts_ahead  *ahead;
    double    *work, *failed_at;
} block;

/* How long an entrant runs on after its first failure, and how often it may hang. */
static const double RUN_ON_S[TS_N_DEPTHS] = { 30, 90, 300 };
enum { MOST_HANGS = 3 };

static bool may_go_on(const block *b)
{
    const ts_evidence *v = &b->e->evidence;
    if (!v->failed) return true;
    if (b->run->first || v->machine || b->e->spent_ns > MOST_NS) return false;
    if (!*b->failed_at) *b->failed_at = ts_seconds();
    int n_hangs = 0;
    for (int i = 0; i < v->n_kinds; i++)
        if (!strcmp(v->kind[i].first.reason, "hang")) n_hangs += v->kind[i].n;
    return n_hangs < MOST_HANGS && ts_seconds() - *b->failed_at < RUN_ON_S[b->run->depth];
}

/* After a wrong number or a status the process is as good as before. */
static bool is_whole(const ts_evidence *v)
{
    return !strcmp(v->last, "value") || !strcmp(v->last, "unwritten") || !strcmp(v->last, "status");
}

/* Runs the cases of a block from `from` on in one cage. Returns the first that needs another cage,
 * or -1 if the stage ends here. */
static int examine_in_cage(const block *b, int from)
{
    const ts_case *all = ts_scope_cases(&b->e->scope, b->e->task);
    ts_evidence   *v = &b->e->evidence;
    ts_cage_plan   plan;
    char           why[256];
    bool           whole = true, on = true;
    int            i = from;
    ts_run_plan(b->run, b->e, &plan);
    plan.n_threads = b->first ? 1 : b->run->n_threads;
    plan.n_returned = &v->n_returned;
    for (int k = from; k < b->n; k++)
        ts_run_plan_case(&plan, &all[b->number[k]],
                         ts_run_case_seed(b->run, b->e->task, b->number[k]));
    ts_cage *cage = ts_cage_start_patiently(&plan, why, sizeof why);
    if (!cage) return ts_observe_no_cage(b->e, why), -1;
    for (; i < b->n && whole && on; i++) {
        const int  n_run = v->n_run;
        const bool ok = examine_case(b->run, b->e, cage, i - from, i, b->ahead);
        if (!ok && v->n_busy) { /* this case again, in another cage, or never */
            on = ts_observe_again(v);
            break;
        }
        v->n_examined += ok;
        if (!ok) ts_observe_case(b->e, &all[b->number[i]], TS_CASE_FAILED);
        if (v->n_run > n_run) ts_words_note(b->e, &all[b->number[i]], ok);
        whole = ok || is_whole(v);
        on = may_go_on(b);
        *b->work += ts_work_of(b->e->task, &all[b->number[i]]);
        ts_progress_reach(&b->run->progress, *b->work);
    }
    ts_cage_stop(&cage);
    return on ? i : -1;
}

/* False: the stage ends here. */
static bool examine_block(block b)
{
    int at = 0;
    b.ahead = questions_of(b.run, b.e, b.number, b.n);
    while (at >= 0 && at < b.n) at = examine_in_cage(&b, at);
    ts_ahead_close(&b.ahead);
    return at >= 0;
}

/* ---- many calls of one process ---- */

/* Cases that are called often, and how often: an entrant whose buffers, counters or caches go wrong
 * with time does so within this many calls. */
enum { OFTEN = 3, OFTEN_LEAST = 200, OFTEN_MORE = 100, OFTEN_ALONE = 120 };

/* Not a case without contents, in which nothing could go wrong; nor one that takes long. */
static const double OFTEN_BYTES = 300, OFTEN_MOST_BYTES = 64e3;

/* A slow entrant, such as Python with a model, has fewer calls. */
static const double OFTEN_S = 60;

/* Whether a case of the run may be called often: the usual contract tells every output, and with
 * --case it may be any. */
static bool suits(const ts_run *c, const ts_judged *e, const ts_case *one)
{
    const double bytes = e->task->cost(one).bytes;
    const bool   fits = bytes >= OFTEN_BYTES && bytes <= OFTEN_MOST_BYTES;
    return e->supported >> one->dtype & 1u && fits && (c->only || !ts_canon_of(e->task, one));
}

/* Those cases of the run that take the least work. */
static int cheapest(const ts_run *c, const ts_judged *e, const int *number, int n, int of[OFTEN])
{
    const ts_task *t = e->task;
    const ts_case *all = ts_scope_cases(&e->scope, t);
    int            n_of = 0;
    for (; n_of < OFTEN; n_of++) {
        int best = -1;
        for (int i = 0; i < n; i++) {
            bool may = suits(c, e, &all[number[i]]);
            for (int k = 0; k < n_of; k++) may = may && of[k] != number[i];
            if (may && (best < 0 || ts_work_of(t, &all[number[i]]) < ts_work_of(t, &all[best])))
                best = number[i];
        }
        if (best < 0) break;
        of[n_of] = best;
    }
    return n_of;
}

/* Calls the cases in one process: the first one OFTEN_ALONE times, and then all of them in turn,
 * with two contents each. False: it failed, or the machine disturbed it. */
static bool call_often(const ts_run *c, ts_judged *e, ts_cage *cage, int n, ts_ahead *a)
{
    const int n_calls =
        OFTEN_LEAST + (int)(ts_run_seed(c, e->task, TS_FOR_MANY_CALLS, 0, 0) % OFTEN_MORE);
    const double end_s = ts_seconds() + OFTEN_S;
    bool         ok = true;
    for (int i = 0; i < n_calls && ok && ts_seconds() < end_s; i++) {
        const int      k = i < OFTEN_ALONE ? 0 : i % n;
        const ts_exam *x = ts_ahead_at(a, 2 * k + i / n % 2);
        bool           answered;
        e->evidence.n_before = i;
        ok = examine(c, e, cage, k, x, &answered);
        if (!ok && !e->evidence.n_busy) ts_observe_case(e, x->c, TS_CASE_FAILED);
    }
    e->evidence.n_before = 0;
    return ok;
}

/* Calls a few cheap cases a few hundred times in a process of their own, and checks every output.
 */
static void examine_often(const ts_run *c, ts_judged *e, const int *number, int n_cases)
{
    const ts_task *t = e->task;
    const ts_case *all = ts_scope_cases(&e->scope, t);
    int            of[OFTEN];
    const int      n = cheapest(c, e, number, n_cases, of);
    ts_question    q[2 * OFTEN];
    bool           ok = !n;
    ts_cage_plan   plan;
    char           why[256];
    ts_run_plan(c, e, &plan);
    plan.n_returned = &e->evidence.n_returned;
    for (int i = 0; i < n; i++) {
        q[2 * i] = (ts_question) { &all[of[i]], ts_run_case_seed(c, t, of[i]) };
        q[2 * i + 1] =
            (ts_question) { &all[of[i]], ts_run_seed(c, t, TS_FOR_MANY_CALLS, of[i], 1) };
        ts_run_plan_case(&plan, &all[of[i]], ts_run_case_seed(c, t, of[i]));
    }
    ts_ahead *a = n ? ts_ahead_open(t, q, 2 * n) : NULL;
    e->evidence.n_busy = 0;
    for (bool again = n > 0; again;) {
        ts_cage *cage = ts_cage_start_patiently(&plan, why, sizeof why);
        if (cage) ok = call_often(c, e, cage, n, a);
        else ts_observe_no_cage(e, why);
        ts_cage_stop(&cage);
        again = !ok && !e->evidence.failed && ts_observe_again(&e->evidence);
    }
    e->evidence.n_busy = 0;
    ts_ahead_close(&a);
}

/* The numbers of the cases to examine, to be freed, and how many; NULL, and why, if there are none.
 * *n_small: without the timed cases that follow. */
static int *cases_of(const ts_run *c, const ts_judged *e, int *n, int *n_small, ts_refusal *why)
{
    uint64_t seed;
    int      timed[TS_WORKLOADS];
    int     *number = ts_run_draw(c, e->task, e->entrant.cls, &e->scope, n_small);
    /* Timed calls are checked; without them their shapes are checked here. */
    const int n_timed = c->untimed && !c->only ? ts_run_workloads(c, e->task, timed) : 0;
    /* --case may name a case outside the scope, or of a function that the entrant lacks. */
    if (c->only && (*n_small ? !ts_scope_takes(&e->scope, e->task,
                                               &ts_scope_cases(&e->scope, e->task)[*number])
                             : ts_run_case_named(NULL, e->task, c->only, &seed) >= 0))
        ts_refuse(why, "case", "outside %s%s",
                  *e->scope.text ? "the declared offers: " : "the functions that it defines",
                  e->scope.text);
    else if (!*n_small)
        ts_refuse(why, "case", "%s has no %s", e->task->name,
                  c->only ? "such case" : "case within the declared offers at this depth");
    int *const all =
        why->reason ? NULL : realloc(number, sizeof *all * (size_t)(*n_small + n_timed));
    if (!all) free(number);
    if (!all && !why->reason) abort();
    *n = *n_small;
    for (int i = 0; i < n_timed && all; i++)
        if ((all[*n] = ts_scope_number(&e->scope, e->task, timed[i])) >= 0) ++*n;
    return all;
}

/* A scope, and dtypes that are rejected, leave less than was drawn. */
static void enough_compared(ts_judged *e)
{
    char text[160];
    if (e->evidence.n_compared >= TS_SCOPE_LEAST) return;
    snprintf(text, sizeof text,
             "%d cases with an output were run within the declared offers, fewer than %d",
             e->evidence.n_compared, TS_SCOPE_LEAST);
    ts_observe_failure(e, NULL, 0, "case", text);
}

/* How many of the n cases from number[0] on are one block. */
static int block_of(const ts_run *c, const ts_judged *e, const int *number, int n)
{
    const ts_case *all = ts_scope_cases(&e->scope, e->task);
    int            n_far = 0, k = 0;
    while (k < n && k < BLOCK[c->device]) {
        n_far += !strcmp(all[number[k]].family, "far");
        if (n_far > MOST_FAR && c->device == TS_CUDA) break;
        k++;
    }
    return k;
}

static void examine_cases(ts_run *c, ts_judged *e, const int *number, int n, int n_small)
{
    double work = c->progress.done, failed_at = 0;
    bool   on = true;
    e->evidence.n_drawn = n;
    for (int at = 0, k; at < n && on; at += k) {
        k = block_of(c, e, number + at, n - at);
        on = examine_block((block) { .run = c,
                                     .e = e,
                                     .number = number + at,
                                     .n = k,
                                     .first = at == 0,
                                     .work = &work,
                                     .failed_at = &failed_at });
    }
    if (on && !e->evidence.failed && c->device == TS_CPU) examine_often(c, e, number, n_small);
    if (e->evidence.failed && !e->io_bytes) ts_observe_no_output(e);
    /* Only with --case: f32 is always drawn, and must be supported. */
    if (!e->evidence.failed && e->unsupported && !e->io_bytes)
        ts_observe_failure(e, &ts_scope_cases(&e->scope, e->task)[*number],
                           ts_run_case_seed(c, e->task, *number), "case",
                           "does not support this dtype: nothing was checked");
    if (!e->evidence.failed && *e->scope.text && !c->only) enough_compared(e);
    if (e->evidence.failed) return;
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
        examine_cases(c, e, number, n, n_small), ts_words_find(e, !c->first);
    else ts_observe_refusal(e, &why);
    ts_words_free(e);
    free(number);
    e->seconds = ts_seconds() - begin;
}

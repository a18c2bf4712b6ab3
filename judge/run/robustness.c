/* SPDX-License-Identifier: Apache-2.0 */
/* robustness.c - robustness checks of a correct entrant: the same cases in a build that traps
 * undefined behaviour, and with other numbers of threads; on a device, under compute-sanitizer.
 *
 * They count for the score, not for the verdict. */
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "show.h"

enum { TRAPPED = 8, THREADED = 4, THREADS = 3 };

/* Traps need no runtime library, so the build runs in the same cage. The stack protector needs one,
 * and the vptr check cannot trap. No macro may reveal which of the two builds it is. */
#define TRAPS "-fsanitize=undefined,bounds -fsanitize-undefined-trap-on-error -fno-sanitize=vptr"

typedef struct robustness {
    ts_run    *run;
    ts_judged *e;
    int        n, number[TRAPPED];
    int        n_busy; /* attempts at a case that the machine disturbed */
} robustness;

/* Chooses cases that the plain build passed, of at most `most` bytes, but not empty ones, where
 * even adding 0 to a null pointer would trap. With `large`, the largest of them. */
static void choose(robustness *l, const int *number, int n, double most, int most_cases, bool large)
{
    const ts_task *t = l->e->task;
    const ts_case *all = ts_scope_cases(&l->e->scope, t);
    l->n = 0;
    while (l->n < most_cases) {
        int    best = -1;
        double best_bytes = 0;
        for (int i = 0; i < n && (large || best < 0); i++) {
            const ts_case *c = &all[number[i]];
            const double   bytes = t->cost(c).bytes;
            bool           fits = bytes > best_bytes && bytes <= most && c->dim[0] && c->dim[1] &&
                        l->e->supported & 1u << c->dtype;
            for (int k = 0; k < l->n && fits; k++) fits = l->number[k] != number[i];
            if (fits) best = number[i], best_bytes = bytes;
        }
        if (best < 0) return;
        l->number[l->n++] = best;
    }
}

static ts_cage *cage_from(const robustness *l, int first, int object, int n_threads, char *why,
                          size_t n)
{
    const ts_case *all = ts_scope_cases(&l->e->scope, l->e->task);
    char           path[64];
    ts_cage_plan   plan;
    ts_run_plan(l->run, l->e, &plan);
    snprintf(path, sizeof path, "/proc/self/fd/%d", object);
    plan.object = path;
    plan.n_threads = n_threads;
    for (int i = first; i < l->n; i++)
        ts_run_plan_case(&plan, &all[l->number[i]],
                         ts_run_case_seed(l->run, l->e->task, l->number[i]));
    return ts_cage_start_patiently(&plan, why, n);
}

/* Runs a case with the inputs of the correctness stage and the cage's number of threads, or
 * `n_threads`. False: the process died. */
static bool ask(const robustness *l, ts_cage *cage, int slot, int number, const int *n_threads,
                ts_call *r)
{
    ts_exec x;
    ts_cage_fill(cage, slot, ts_run_case_seed(l->run, l->e->task, number));
    ts_cage_workspace(cage, slot, r);
    if (r->end || r->status) return !r->end;
    ts_cage_exec(cage, slot, &x);
    if (n_threads) x.n_threads = *n_threads;
    ts_cage_call_with(cage, slot, NULL, &x, r);
    return !r->end;
}

static void tell(ts_judged *e, const char *where, const char *what, const char *text)
{
    char line[1024];
    if (*e->robustness_text) return;
    snprintf(line, sizeof line, "sanitizer: %s%s%s: %s", where, *where ? ": " : "", what, text);
    ts_show(line, strlen(line), e->robustness_text, sizeof e->robustness_text);
}

/* Whether to repeat what the machine disturbed. */
static bool again(robustness *l, const ts_call *r)
{
    if (r->end != TS_END_BUSY || ++l->n_busy >= TS_ATTEMPTS) l->n_busy = 0;
    return l->n_busy > 0;
}

/* Runs cases from `at` on until one traps: the next one gets a new process. What the machine
 * prevents is not counted. */
static int ask_trapped(robustness *l, int object, int at)
{
    ts_tally *t = &l->e->sanitizer;
    char      why[256], where[192];
    ts_cage  *cage = cage_from(l, at, object, 1, why, sizeof why);
    bool      lives = true;
    if (!cage) {
        tell(l->e, "", "not started", why);
        if (!strncmp(why, TS_BUSY ":", 5)) t->all -= l->n - at;
        return l->n;
    }
    for (int slot = 0; lives && at < l->n; slot++, at++) {
        ts_call r;
        lives = ask(l, cage, slot, l->number[at], NULL, &r);
        t->passed += lives;
        if (again(l, &r)) break;
        if (r.end == TS_END_BUSY) t->all--;
        if (lives || r.end == TS_END_BUSY) continue;
        ts_case_string(l->e->task, &ts_scope_cases(&l->e->scope, l->e->task)[l->number[at]],
                       ts_run_case_seed(l->run, l->e->task, l->number[at]), where, sizeof where);
        tell(l->e, where, ts_call_reason(&r), r.text);
    }
    ts_cage_stop(&cage);
    return at;
}

static void sanitize(robustness *l)
{
    ts_judged  *e = l->e;
    ts_built    b;
    ts_refusal  why;
    const char *flags =
        e->entrant.cls == TS_SEALED ? TRAPS : TRAPS " -fstack-protector-strong -U__SSP_STRONG__";
    e->sanitizer.all = l->n;
    if (ts_build(&e->entrant, &l->run->places, flags, &b, &why))
        for (int at = 0; at < l->n;) at = ask_trapped(l, b.object, at);
    else if (!strcmp(why.reason, TS_FAULT_OF_JUDGE)) ts_observe_refusal(e, &why);
    else tell(e, "", why.reason, why.text);
    ts_built_free(&b);
}

typedef struct answers {
    bool     there[TRAPPED], excused[TRAPPED];
    uint64_t bits[TRAPPED];
} answers;

/* n_threads 0 is the entrant's default. Its workspace cannot be queried in advance: if it needs
 * more than for `THREADS`, it may return TS_E_WORKSPACE. */
static void answer(robustness *l, int n_threads, answers *a)
{
    char     why[256] = "";
    ts_call  r = { 0 };
    ts_cage *cage =
        cage_from(l, 0, l->e->built.object, n_threads ? n_threads : THREADS, why, sizeof why);
    *a = (answers) { 0 };
    if (!strncmp(why, TS_BUSY ":", 5)) r.end = TS_END_BUSY;
    for (int i = 0; i < l->n && cage; i++) {
        ts_exec x;
        if (!ask(l, cage, i, l->number[i], &n_threads, &r)) break;
        ts_cage_exec(cage, i, &x);
        a->there[i] = !r.status;
        a->excused[i] = !n_threads && r.status == TS_E_WORKSPACE && x.workspace_bytes;
        a->bits[i] = ts_arena_output_hash(ts_cage_arena(cage, i));
    }
    ts_cage_stop(&cage);
    if (again(l, &r)) answer(l, n_threads, a);
    else if (r.end == TS_END_BUSY)
        for (int i = 0; i < l->n; i++) a->excused[i] |= !a->there[i];
}

/* The same inputs with one thread, with several, and with the default must give identical bits. */
static void vary_threads(robustness *l)
{
    answers one, other;
    answer(l, 1, &one);
    for (int n_threads = 0; n_threads <= THREADS; n_threads += THREADS) {
        answer(l, n_threads, &other);
        for (int i = 0; i < l->n; i++) {
            if (one.excused[i] || other.excused[i]) continue;
            l->e->threads.all++;
            l->e->threads.passed += one.there[i] && other.there[i] && one.bits[i] == other.bits[i];
        }
    }
}

void ts_run_robustness(ts_run *c, ts_judged *e, const int *number, int n)
{
    robustness l = { .run = c, .e = e };
    if (ts_on_gpu(e->entrant.cls)) {
        choose(&l, number, n, 3e5, TRAPPED, false);
        if (c->sanitize || (c->depth == TS_FULL && !c->only)) ts_run_tools(c, e, l.number, l.n);
        return;
    }
    if (ts_in_python(e->entrant.cls)) return;
    choose(&l, number, n, 4e6, THREADED, true);
    vary_threads(&l);
    if (e->entrant.language == TS_BINARY || c->only) return;
    choose(&l, number, n, 3e5, TRAPPED, false);
    sanitize(&l);
}

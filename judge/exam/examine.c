/* SPDX-License-Identifier: Apache-2.0 */
/* examine.c - runs a case in a worker and checks its outputs. */
#include "examine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ts_exam_open(ts_exam *e, const ts_task *t, const ts_case *c, uint64_t seed, ts_arena *m)
{
    *e = (ts_exam) { .task = t, .c = c, .seed = seed, .arena = m };
    e->args = calloc(1, t->args_bytes);
    e->want = calloc(t->n_want(c) + 1, sizeof *e->want);
    if (!e->args || !e->want) abort();
    ts_arena_setup(m, t, c, seed, e->args);
    t->oracle(c, e->args, e->want);
}

void ts_exam_close(ts_exam *e)
{
    ts_arena_clear(e->arena);
    free(e->args);
    free(e->want);
    *e = (ts_exam) { 0 };
}

static void found(ts_verdict *v, ts_flaw f)
{
    if (f.fault == TS_FAULT_NONE) return;
    if (!v->faults) v->first = f;
    v->faults |= 1u << f.fault;
}

/* Load, run, store, drop. False if there is no output to check. */
static bool ask(const ts_exam *e, ts_worker *w, int n_threads, int spoil, int limit_ms,
                ts_reply *reply, ts_verdict *v)
{
    const ts_verb verbs[] = { TS_LOAD, TS_RUN, TS_STORE, TS_DROP };
    ts_status     status = TS_OK;
    ts_reply      r;
    ts_arena_reset(e->arena);
    for (int i = 0; i < 4; i++) {
        const ts_order o = { verbs[i], e->task, n_threads, spoil, 0, limit_ms };
        const bool     alive = ts_worker_order(w, o, &r);
        if (r.broken || !alive) memcpy(v->text, r.text, sizeof v->text);
        found(v, r.flaw);
        if (r.broken) v->broken = true;
        if (r.broken || !alive) return false;
        if (verbs[i] == TS_RUN) *reply = r;
        if (verbs[i] == TS_LOAD) status = r.status; /* of the workspace query */
    }
    if (status) reply->status = status;
    return true;
}

void ts_examine(const ts_exam *e, ts_worker *w, int limit_ms, ts_verdict *v)
{
    const int n_threads[] = { 1, 0, 2, 7 }; /* 0: the default */
    const int n = ts_worker_function(w)->one_thread ? 2 : 4;
    uint64_t  bits = 0;
    *v = (ts_verdict) { 0 };
    for (int i = 0; i < n; i++) {
        ts_reply  r;
        ts_flaw   f = { 0 };
        ts_errors errors = { .worst = v->worst };
        if (!ask(e, w, n_threads[i], i ? TS_NO_EMPTY : TS_SOUND, limit_ms, &r, v)) return;
        v->n_calls++;
        if (r.status) {
            found(v, (ts_flaw) { TS_FAULT_STATUS, ts_status_text(r.status), 0, 0, r.status, 0, 0 });
            return;
        }
        if (!ts_arena_intact(e->arena, &f)) found(v, f);
        f = (ts_flaw) { 0 };
        const uint64_t now = ts_arena_output_hash(e->arena);
        /* Identical bits have already been checked. */
        if ((!i || now != bits) && !e->task->check(e->c, e->args, e->want, &f, &errors))
            found(v, f);
        v->worst = errors.worst;
        if (i && now != bits)
            found(v,
                  (ts_flaw) { TS_FAULT_REPEAT, "bits of the outputs", 0, 0, n_threads[i], 0, 0 });
        bits = now;
        /* A wrong output needs no more runs, unless only its bits differ. */
        if (v->faults & ~(1u << TS_FAULT_REPEAT)) return;
    }
}

void ts_examine_refusals(const ts_exam *e, ts_worker *w, bool entry, int limit_ms, ts_verdict *v)
{
    *v = (ts_verdict) { 0 };
    for (int i = entry ? TS_NO_SIZE : 0;; i += i == TS_NO_ARGS ? 2 : 1) {
        ts_reply r;
        ts_flaw  f = { 0 };
        if (!ask(e, w, 1, i, limit_ms, &r, v) || r.none) return;
        v->n_calls++;
        if (r.status != r.must)
            found(v, (ts_flaw) { TS_FAULT_REFUSAL, "status", i, 0, r.status, r.must, 0 });
        if (!ts_arena_outputs_untouched(e->arena, &f)) found(v, f);
        if (!ts_arena_intact(e->arena, &f))
            found(v, (ts_flaw) { TS_FAULT_REFUSAL, f.what, i, 0, r.status, r.must, 0 });
    }
}

/* As many digits, at least 9, as it takes to tell two numbers apart. */
static int digits(double a, double b)
{
    char s[32], t[32];
    int  n = 9;
    for (; n < 17; n++) {
        snprintf(s, sizeof s, "%.*g", n, a);
        snprintf(t, sizeof t, "%.*g", n, b);
        if (a == b || strcmp(s, t)) break;
    }
    return n;
}

/* Of an exact output integers are written in full: -2139062144, not -2.13906214e+09. */
static void number(double x, const ts_flaw *f, char s[64])
{
    if (f->bound == 0 && x == rint(x) && fabs(x) < 0x1p53) snprintf(s, 64, "%.0f", x);
    else snprintf(s, 64, "%.*g", digits(f->got, f->want), x);
}

static void element(const ts_flaw *f, char *s, size_t n)
{
    char got[80] = "was not written", want[64], bound[32] = "";
    if (f->fault != TS_FAULT_UNWRITTEN) memcpy(got, "got ", 4), number(f->got, f, got + 4);
    number(f->want, f, want);
    if (f->bound != 0) snprintf(bound, sizeof bound, " +- %.2g", f->bound);
    snprintf(s, n, "%s: %s[%lld][%lld] %s, want %s%s", ts_fault_name(f->fault), f->what,
             (long long)f->row, (long long)f->col, got, want, bound);
}

void ts_flaw_text(const ts_verdict *v, char *s, size_t n)
{
    const ts_flaw *f = &v->first;
    switch (f->fault) {
    case TS_FAULT_NONE:
        snprintf(s, n, "nothing wrong");
        break;
    case TS_FAULT_STATUS:
        snprintf(s, n, "status: returned %d (%s)", (int)f->got, f->what);
        break;
    case TS_FAULT_CRASH:
        snprintf(s, n, "crash: %s %s", v->text, f->what);
        break;
    case TS_FAULT_HANG:
        snprintf(s, n, "hang: no return within the time limit");
        break;
    case TS_FAULT_INPUT:
        snprintf(s, n, "input: wrote to %s", f->what);
        break;
    case TS_FAULT_BEFORE:
        snprintf(s, n, "before: touched memory before %s", f->what);
        break;
    case TS_FAULT_PAST:
        snprintf(s, n, "past: touched memory past %s", f->what);
        break;
    case TS_FAULT_GAP:
        snprintf(s, n, "gap: wrote between the rows, after row %lld of %s", (long long)f->row,
                 f->what);
        break;
    case TS_FAULT_REPEAT:
        snprintf(s, n, "repeat: different %s with %d threads", f->what, (int)f->got);
        break;
    case TS_FAULT_REFUSAL:
        snprintf(s, n, "refusal: invalid call %lld, %s: got status %d, want %d", (long long)f->row,
                 f->what, (int)f->got, (int)f->want);
        break;
    default:
        element(f, s, n);
    }
}

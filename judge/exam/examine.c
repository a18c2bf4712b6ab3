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

void ts_flaw_text(const ts_verdict *v, char *s, size_t n)
{
    ts_flaw_words(&v->first, v->text, s, n);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* evidence.c - records what is observed of an entrant, in words, and checks outputs. */
#define _GNU_SOURCE
#include "evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "show.h"

/* ---- words ---- */

/* The exception that Python raises where C returns this status. */
static const char *exception_of(int status)
{
    static const char *const name[] = {
        [TS_E_ARG] = "ValueError",
        [TS_E_SHAPE] = "ValueError",
        [TS_E_DTYPE] = "NotImplementedError",
        [TS_E_UNSUPPORTED] = "NotImplementedError",
        [TS_E_CAPACITY] = "MemoryError",
        [TS_E_STATE] = "KeyError",
        [TS_E_RANGE] = "ArithmeticError",
        [TS_E_FORMAT] = "ValueError",
        [TS_E_MODEL] = "ArithmeticError",
    };
    const bool known = status >= 0 && status < (int)(sizeof name / sizeof *name) && name[status];
    return known ? name[status] : "an exception";
}

/* The last line of the output: an entrant that prints more afterwards only hides its own message.
 */
static const char *last_line(char *text)
{
    size_t n = strlen(text);
    while (n && strchr("\r\n", text[n - 1])) text[--n] = 0;
    const char *line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

/* What a Python function raised: the whole line, if the call wrote only one such line of the
 * operation that `words` name; or else the exception's name. Of a derived exception, such as
 * ZeroDivisionError, the line must be the only one. "append: ValueError: full at answer.py:12" */
static void raised(const char *said, const char *words, int status, char *s, size_t n)
{
    const char *const name = exception_of(status);
    const char       *found = NULL, *any = NULL;
    int               n_found = 0, n_any = 0;
    char              tail[256], method[32], *rest = tail;
    snprintf(tail, sizeof tail, "%s", said);
    for (char *line; (line = strsep(&rest, "\r\n"));) {
        const size_t to = strcspn(line, ":");
        if (!*line) continue;
        snprintf(method, sizeof method, "%.*s", (int)to, line);
        if (!strncmp(line + to, ": ", 2) && strstr(words, method)) line += to + 2;
        any = line, n_any++;
        if (!strncmp(line, name, strlen(name))) found = line, n_found++;
    }
    snprintf(s, n, "%s", n_found == 1 ? found : !n_found && n_any == 1 ? any : name);
}

/* An operation of a script that returned another status than it should. */
static void describe_status(const ts_judged *e, const char *said, const char *words,
                            const ts_flaw *f, char *s, size_t n)
{
    const size_t at = strlen(s);
    char         got[256];
    const int    end = (int)strlen(words) - 6;
    if (!ts_in_python(e->entrant.cls)) {
        snprintf(s + at, n - at, ": %s, %s instead of %s", words, ts_status_text((ts_status)f->got),
                 ts_status_text((ts_status)f->want));
        return;
    }
    /* "operation 3 of 9, append in layer 0: raised ValueError: full at answer.py:12" */
    raised(said, words, (int)f->got, got, sizeof got);
    if (f->got == 0)
        snprintf(s, n, "%.*sreturned, expected %s", end, words, exception_of((int)f->want));
    else
        snprintf(s, n, "%.*sraised %s%s%s", end, words, got, f->want == 0 ? "" : ", expected ",
                 f->want == 0 ? "" : exception_of((int)f->want));
}

/* "value: seen[0][1] got 1, want 0: operation 0 of 9, open in layer 0: number of the sequence" */
static void describe(const ts_judged *e, const ts_case *c, const void *args, const char *said,
                     const ts_flaw *f, char *s, size_t n)
{
    const bool element = f->fault == TS_FAULT_VALUE || f->fault == TS_FAULT_UNWRITTEN;
    char       words[160] = "";
    ts_flaw_words(f, "", s, n);
    if (args && element && e->task->explain) e->task->explain(c, args, f, words, sizeof words);
    if (!*words) return;
    const size_t at = strlen(s), end = strlen(words);
    if (end >= 6 && !strcmp(words + end - 6, "status") && f->got >= 0 && f->got < 100)
        describe_status(e, said, words, f, s, n);
    else snprintf(s + at, n - at, ": %s", words);
}

/* ---- failures ---- */

static void see(const ts_judged *e, ts_seen *s, const ts_case *c, uint64_t seed, const char *reason,
                const char *text)
{
    snprintf(s->reason, sizeof s->reason, "%s", reason);
    ts_show(text, strlen(text), s->text, sizeof s->text);
    if (c) ts_case_string(e->task, c, seed, s->where, sizeof s->where);
}

/* "raised IndexError: index 5 is out of bounds at answer.py:12": the line where it was raised. */
static const char *place_in(const char *text)
{
    const char *at = strstr(text, " at "), *next;
    while (at && (next = strstr(at + 1, " at "))) at = next;
    return at ? at : "";
}

/* Whether two failures are of one kind. Texts of crashes have addresses, and those of exceptions
 * sizes, which differ. */
static bool alike(const ts_seen *a, const ts_seen *b)
{
    if (strcmp(a->reason, b->reason)) return false;
    if (a->flaw.what && b->flaw.what) return !strcmp(a->flaw.what, b->flaw.what);
    if (strcmp(a->reason, ts_fault_name(TS_FAULT_STATUS))) return true;
    const size_t n = strcspn(a->text, ":");
    return n == strcspn(b->text, ":") && !strncmp(a->text, b->text, n) &&
           !strcmp(place_in(a->text), place_in(b->text));
}

/* Adds a failure to those of its kind, once per case. */
static void count(ts_evidence *v, const ts_case *c, const ts_seen *s)
{
    ts_failures *k = v->kind;
    while (k < v->kind + v->n_kinds && !alike(&k->first, s)) k++;
    if (k == v->kind + TS_FAILURE_KINDS) return;
    if (k == v->kind + v->n_kinds) {
        *k = (ts_failures) { .first = *s, .family = c ? c->family : NULL };
        v->n_kinds++;
    }
    if (k->last == v->n_run + 1) return;
    k->last = v->n_run + 1;
    k->n++;
}

static bool fail(ts_judged *e, const ts_case *c, const ts_seen *s)
{
    if (!e->evidence.failed) e->evidence.failure = *s;
    if (!e->evidence.failed && e->evidence.n_before) {
        char *const  text = e->evidence.failure.text;
        const size_t at = strlen(text), n = sizeof e->evidence.failure.text;
        snprintf(text + at, n - at, ", in call %d of one process", e->evidence.n_before + 1);
    }
    e->evidence.failed = true;
    if (strcmp(s->reason, TS_BUSY)) e->evidence.n_busy = 0; /* this attempt showed something */
    memcpy(e->evidence.last, s->reason, sizeof s->reason);
    count(&e->evidence, c, s);
    return false;
}

bool ts_observe_failure(ts_judged *e, const ts_case *c, uint64_t seed, const char *reason,
                        const char *text)
{
    ts_seen s = { 0 };
    see(e, &s, c, seed, reason, text);
    return fail(e, c, &s);
}

bool ts_observe_refusal(ts_judged *e, const ts_refusal *why)
{
    if (!e->evidence.failed)
        e->evidence.machine = why->reason && !strcmp(why->reason, TS_FAULT_OF_JUDGE);
    return ts_observe_failure(e, NULL, 0, why->reason ? why->reason : "entry",
                              why->reason ? why->text : "unknown challenge");
}

bool ts_observe_no_cage(ts_judged *e, const char *why)
{
    const size_t n = strcspn(why, ":");
    char         reason[16];
    snprintf(reason, sizeof reason, "%.*s", (int)n, why);
    if (!e->evidence.failed)
        e->evidence.machine = !strcmp(reason, TS_FAULT_OF_JUDGE) || !strcmp(reason, TS_BUSY);
    return ts_observe_failure(e, NULL, 0, reason, why + n + (why[n] == ':' ? 2 : 0));
}

static bool fail_by_flaw(ts_judged *e, const ts_case *c, uint64_t seed, const void *args,
                         const char *said, ts_flaw f)
{
    char    text[512];
    ts_seen s = { .flaw = f };
    describe(e, c, args, said, &f, text, sizeof text);
    see(e, &s, c, seed, ts_fault_name(f.fault), text);
    return fail(e, c, &s);
}

static ts_flaw status_flaw(ts_status s)
{
    return (ts_flaw) { TS_FAULT_STATUS, ts_status_text(s), 0, 0, s, 0, 0 };
}

static void hint(ts_judged *e, char *text, size_t n)
{
    const size_t at = strlen(text);
    snprintf(text + at, n - at, "; declare the supported cases with %s",
             e->entrant.json ? "\"offers\" in entry.json" : "a comment touchstone-offers: k <= 32");
}

bool ts_observe_mixed_support(ts_judged *e, const ts_case *c, uint64_t seed)
{
    char text[256] = "supports a dtype in some cases only";
    hint(e, text, sizeof text);
    return ts_observe_failure(e, c, seed, "status", text);
}

enum { RAISED = 255 }; /* the Python runner's code for an exception that maps to no status */

/* A status that a valid call must not return; or an exception. */
static void status_words(const ts_judged *e, const ts_case *c, const ts_call *r, char *s, size_t n)
{
    char          tail[sizeof r->stderr_tail + 1];
    const ts_flaw f = status_flaw(r->status);
    const bool    other = (int)r->status == RAISED || r->status == TS_E_UNSUPPORTED;
    if (!ts_in_python(e->entrant.cls)) {
        describe(e, c, NULL, "", &f, s, n);
        return;
    }
    if (!other) raised(r->stderr_tail, "", (int)r->status, tail, sizeof tail);
    else snprintf(tail, sizeof tail, "%.*s", (int)sizeof r->stderr_tail, r->stderr_tail);
    snprintf(s, n, "raised %s", other ? last_line(tail) : tail);
}

static bool fail_by_status(ts_judged *e, const ts_case *c, uint64_t seed, const ts_call *r)
{
    char    text[512];
    ts_seen s = { 0 };
    if (!ts_in_python(e->entrant.cls)) s.flaw = status_flaw(r->status);
    status_words(e, c, r, text, sizeof text);
    if (r->status == TS_E_DTYPE || r->status == TS_E_UNSUPPORTED) hint(e, text, sizeof text);
    see(e, &s, c, seed, ts_fault_name(TS_FAULT_STATUS), text);
    return fail(e, c, &s);
}

bool ts_observe_busy(ts_judged *e, const ts_case *c, uint64_t seed, const char *text)
{
    if (e->evidence.failed) return false;
    e->evidence.machine = true;
    return ts_observe_failure(e, c, seed, TS_BUSY, text);
}

bool ts_observe_call(ts_judged *e, const ts_case *c, uint64_t seed, const ts_call *r)
{
    char text[160];
    if (r->end == TS_END_BUSY)
        return ++e->evidence.n_busy >= TS_ATTEMPTS && ts_observe_busy(e, c, seed, r->text);
    if (r->flaw.fault == TS_FAULT_CRASH && !*r->flaw.what)
        return ts_observe_failure(e, c, seed, "crash", r->text);
    if (r->flaw.fault) return fail_by_flaw(e, c, seed, NULL, "", r->flaw);
    if (r->too_large) {
        snprintf(text, sizeof text,
                 "requested %.6g MiB of workspace, at most %.6g MiB are allowed in this case",
                 (double)r->workspace_bytes / 1048576,
                 ts_workspace_most(e->entrant.cls, e->task, c) / 1048576);
        return ts_observe_failure(e, c, seed, ts_call_reason(r), text);
    }
    if (*ts_call_reason(r)) {
        if (!e->evidence.failed) e->evidence.machine = r->broken;
        return ts_observe_failure(e, c, seed, ts_call_reason(r), r->text);
    }
    if (r->fp_changed)
        return ts_observe_failure(e, c, seed, "fp", "changed the floating-point environment");
    return fail_by_status(e, c, seed, r);
}

void ts_observe_speed(ts_judged *e, const char *text)
{
    if (e->evidence.too_fast) return;
    e->evidence.too_fast = true;
    see(e, &e->evidence.speed, NULL, 0, "floor", text);
}

void ts_observe_case(ts_judged *e, const ts_case *c, ts_case_end end)
{
    ts_evidence     *v = &e->evidence;
    ts_family_count *f = v->family;
    v->n_busy = 0;
    v->n_unsupported += end == TS_CASE_UNSUPPORTED;
    if (end == TS_CASE_UNSUPPORTED) return;
    while (f < v->family + v->n_families && strcmp(f->name, c->family)) f++;
    if (f == v->family + TS_FAMILIES) abort();
    if (f == v->family + v->n_families) {
        *f = (ts_family_count) { .name = c->family };
        v->n_families++;
    }
    const bool passed = end != TS_CASE_FAILED;
    v->n_run++, f->run++;
    v->n_passed += passed, f->passed += passed, v->n_common += end == TS_CASE_COMMON;
}

void ts_observe_no_output(ts_judged *e)
{
    ts_evidence *v = &e->evidence;
    v->n_passed = v->n_common = 0;
    for (int i = 0; i < v->n_families; i++) v->family[i].passed = 0;
}

/* ---- outputs ---- */

static void break_rule(ts_judged *e, const ts_case *c, uint64_t seed, const char *rule,
                       const char *what, ts_flaw f)
{
    char text[640];
    if (e->evidence.n_canon++) return;
    e->evidence.rule = rule;
    snprintf(text, sizeof text, "%s; %s", rule, what);
    see(e, &e->evidence.canon, c, seed, "canon", text);
    e->evidence.canon.flaw = f;
}

bool ts_observe_rejection(ts_judged *e, const ts_case *c, uint64_t seed, const ts_call *call)
{
    const ts_canon *r = ts_canon_of(e->task, c);
    char            what[512];
    if (!r || !r->open) return false;
    status_words(e, c, call, what, sizeof what);
    break_rule(e, c, seed, r->rule, what, status_flaw(call->status));
    return true;
}

bool ts_observe_output(ts_judged *e, const ts_cage *cage, int slot, const ts_exam *x,
                       ts_errors *errors)
{
    const void *const args = ts_cage_args(cage, slot);
    ts_flaw           f = { 0 };
    ts_errors         mine = *errors;
    e->evidence.n_checked++;
    if (ts_arena_intact(ts_cage_arena(cage, slot), &f) &&
        e->task->check(x->c, args, x->want, &f, &mine)) {
        *errors = mine;
        e->worst = fmax(e->worst, mine.worst);
        return true;
    }
    const char *const rule = ts_canon_broken(e->task, x->c, args, x->want, &f, errors);
    e->worst = fmax(e->worst, rule ? errors->worst : mine.worst);
    const char *const said = ts_cage_said(cage);
    if (!rule) return fail_by_flaw(e, x->c, x->seed, args, said, f);
    char what[512] = ""; /* of the first alone: scripts are long */
    if (!e->evidence.n_canon) describe(e, x->c, args, said, &f, what, sizeof what);
    break_rule(e, x->c, x->seed, rule, what, f);
    return true;
}

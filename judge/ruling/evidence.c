/* SPDX-License-Identifier: Apache-2.0 */
/* evidence.c - records what is observed of an entrant, in words, and checks outputs. */
#define _GNU_SOURCE
#include "evidence.h"

#include <math.h>
#include <string.h>

#include "run.h"
#include "show.h"

/* ---- words ---- */

/* "value: seen[0][1] got 1, want 0: operation 0 of 9, open in layer 0: number of the sequence" */
static void describe(const ts_judged *e, const ts_case *c, const void *args, const ts_flaw *f,
                     char *s, size_t n)
{
    const bool element = f->fault == TS_FAULT_VALUE || f->fault == TS_FAULT_UNWRITTEN;
    char       words[160] = "";
    ts_flaw_words(f, "", s, n);
    if (args && element && e->task->explain) e->task->explain(c, args, f, words, sizeof words);
    if (!*words) return;
    const size_t at = strlen(s), end = strlen(words);
    snprintf(s + at, n - at, ": %s", words);
    if (end < 6 || strcmp(words + end - 6, "status") || !(f->got >= 0 && f->got < 100)) return;
    snprintf(s + strlen(s), n - strlen(s), ", %s instead of %s", ts_status_text((ts_status)f->got),
             ts_status_text((ts_status)f->want));
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

/* ---- failures ---- */

static void see(const ts_judged *e, ts_seen *s, const ts_case *c, uint64_t seed, const char *reason,
                const char *text)
{
    snprintf(s->reason, sizeof s->reason, "%s", reason);
    ts_show(text, strlen(text), s->text, sizeof s->text);
    if (c) ts_case_string(e->task, c, seed, s->where, sizeof s->where);
}

/* The failure to be filled in; what comes after the first one goes to `spare`. */
static ts_seen *fail(ts_judged *e, ts_seen *spare)
{
    const bool first = !e->evidence.failed;
    *spare = (ts_seen) { 0 };
    e->evidence.failed = true;
    return first ? &e->evidence.failure : spare;
}

bool ts_observe_failure(ts_judged *e, const ts_case *c, uint64_t seed, const char *reason,
                        const char *text)
{
    ts_seen spare;
    see(e, fail(e, &spare), c, seed, reason, text);
    return false;
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
    if (!e->evidence.failed) e->evidence.machine = !strncmp(why, "error:", 6);
    return ts_observe_failure(e, NULL, 0, reason, why + n + (why[n] == ':' ? 2 : 0));
}

static bool fail_by_flaw(ts_judged *e, const ts_case *c, uint64_t seed, const void *args, ts_flaw f)
{
    char     text[512];
    ts_seen  spare;
    ts_seen *s = fail(e, &spare);
    describe(e, c, args, &f, text, sizeof text);
    see(e, s, c, seed, ts_fault_name(f.fault), text);
    s->flaw = f;
    return false;
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
static bool fail_by_status(ts_judged *e, const ts_case *c, uint64_t seed, const ts_call *r)
{
    char          tail[sizeof r->stderr_tail + 1], text[512];
    const ts_flaw f = status_flaw(r->status);
    const bool    raised = (int)r->status == RAISED || r->status == TS_E_UNSUPPORTED;
    ts_seen       spare, *s = fail(e, &spare);
    if (ts_in_python(e->entrant.cls) && raised) {
        snprintf(tail, sizeof tail, "%.*s", (int)sizeof r->stderr_tail, r->stderr_tail);
        snprintf(text, sizeof text, "raised %s", last_line(tail));
    } else {
        describe(e, c, NULL, &f, text, sizeof text);
        s->flaw = f;
    }
    if (r->status == TS_E_DTYPE || r->status == TS_E_UNSUPPORTED) hint(e, text, sizeof text);
    see(e, s, c, seed, ts_fault_name(TS_FAULT_STATUS), text);
    return false;
}

bool ts_observe_call(ts_judged *e, const ts_case *c, uint64_t seed, const ts_call *r)
{
    char text[160];
    if (r->flaw.fault == TS_FAULT_CRASH && !*r->flaw.what)
        return ts_observe_failure(e, c, seed, "crash", r->text);
    if (r->flaw.fault) return fail_by_flaw(e, c, seed, NULL, r->flaw);
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

/* ---- outputs ---- */

static void break_rule(ts_judged *e, const ts_case *c, uint64_t seed, const void *args,
                       const char *rule, ts_flaw f)
{
    char what[512], text[640];
    if (e->evidence.n_canon++) return;
    e->evidence.rule = rule;
    describe(e, c, args, &f, what, sizeof what);
    snprintf(text, sizeof text, "%s; %s", rule, what);
    see(e, &e->evidence.canon, c, seed, "canon", text);
    e->evidence.canon.flaw = f;
}

bool ts_observe_rejection(ts_judged *e, const ts_case *c, uint64_t seed, ts_status s)
{
    const ts_canon *r = ts_canon_of(e->task, c);
    if (!r || !r->open) return false;
    break_rule(e, c, seed, NULL, r->rule, status_flaw(s));
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
    if (!rule) return fail_by_flaw(e, x->c, x->seed, args, f);
    break_rule(e, x->c, x->seed, args, rule, f);
    return true;
}

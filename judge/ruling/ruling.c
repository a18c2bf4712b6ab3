/* SPDX-License-Identifier: Apache-2.0 */
/* ruling.c - decides verdicts and writes them: the only file that does either.
 *
 * The stages that it calls return evidence. The trusted core is what this file links, as a test
 * derives with nm. */
#define _GNU_SOURCE
#include "ruling.h"

#include <stdlib.h>
#include <string.h>

#include "run.h"

const char *ts_ruling_name(ts_ruling r)
{
    static const char *const name[] = { "ERROR", "FAIL", "AUDIT", "PASS (common)", "PASS" };
    return name[r];
}

/* ---- the decision ---- */

/* Whether something that was to be examined was not. Then the judge is wrong, not the entrant. */
static bool incomplete(const ts_evidence *v, char *text, size_t n)
{
    if (v->n_examined != v->n_drawn || !v->n_drawn)
        snprintf(text, n, "%d of %d cases were examined", v->n_examined, v->n_drawn);
    else if (v->n_checked != v->n_returned)
        snprintf(text, n, "%d of %d outputs were checked", v->n_checked, v->n_returned);
    else if (v->n_timed != v->n_to_time)
        snprintf(text, n, "%d of %d instances were timed", v->n_timed, v->n_to_time);
    else return false;
    return true;
}

ts_ruled ts_rule(const ts_evidence *v)
{
    ts_ruled r = { .ruling = TS_RULING_ERROR, .why = { .reason = "judge" } };
    if (v->failed) {
        r.ruling = v->machine ? TS_RULING_ERROR : TS_RULING_FAIL;
        r.why = v->failure;
    } else if (incomplete(v, r.why.text, sizeof r.why.text)) {
        r.ruling = TS_RULING_ERROR;
    } else if (v->too_fast) { /* no score until that is explained */
        r.ruling = TS_RULING_AUDIT;
        r.why = v->speed;
    } else {
        r.ruling = v->n_canon ? TS_RULING_COMMON : TS_RULING_PASS;
        r.why = v->canon;
        r.rule = v->rule;
    }
    return r;
}

/* ---- the record ---- */

static void tally(ts_jw *w, const char *key, ts_tally t)
{
    ts_jw_open(w, key, '[');
    ts_jw_int(w, NULL, t.passed);
    ts_jw_int(w, NULL, t.all);
    ts_jw_close(w, ']');
}

static void element(ts_jw *w, const ts_flaw *f)
{
    char index[64];
    if (f->fault != TS_FAULT_VALUE && f->fault != TS_FAULT_UNWRITTEN) return;
    snprintf(index, sizeof index, "%s[%lld][%lld]", f->what, (long long)f->row, (long long)f->col);
    ts_jw_text(w, "index", index);
    ts_jw_num(w, "got", f->got);
    ts_jw_num(w, "want", f->want);
    ts_jw_num(w, "bound", f->bound);
}

static void counts(ts_jw *w, const ts_evidence *v)
{
    ts_jw_open(w, "cases", '[');
    ts_jw_int(w, NULL, v->n_passed);
    ts_jw_int(w, NULL, v->n_run);
    ts_jw_int(w, NULL, v->n_drawn - v->n_unsupported);
    ts_jw_close(w, ']');
    if (v->n_common) ts_jw_int(w, "common", v->n_common);
    ts_jw_open(w, "families", '{');
    for (int i = 0; i < v->n_families; i++)
        tally(w, v->family[i].name, (ts_tally) { v->family[i].passed, v->family[i].run });
    ts_jw_close(w, '}');
}

enum { MOST_FAULTS = 8 }; /* in the log */

/* Kinds of failure, the most frequent first; equally frequent ones as they were seen. */
static int by_frequency(const ts_evidence *v, const ts_failures *kind[TS_FAILURE_KINDS])
{
    for (int i = 0; i < v->n_kinds; i++) {
        int at = i;
        for (; at && kind[at - 1]->n < v->kind[i].n; at--) kind[at] = kind[at - 1];
        kind[at] = &v->kind[i];
    }
    return v->n_kinds < MOST_FAULTS ? v->n_kinds : MOST_FAULTS;
}

static void faults(ts_jw *w, const ts_evidence *v)
{
    const ts_failures *kind[TS_FAILURE_KINDS];
    const int          n = by_frequency(v, kind);
    ts_jw_open(w, "faults", '[');
    for (int i = 0; i < n; i++) {
        ts_jw_open(w, NULL, '{');
        ts_jw_text(w, "reason", kind[i]->first.reason);
        ts_jw_text(w, "text", kind[i]->first.text);
        ts_jw_text(w, "case", kind[i]->first.where);
        ts_jw_text(w, "family", kind[i]->family ? kind[i]->family : "");
        ts_jw_int(w, "n", kind[i]->n);
        ts_jw_text(w, "words", kind[i]->words);
        ts_jw_close(w, '}');
    }
    ts_jw_close(w, ']');
    const char *words = "";
    for (int i = n - 1; i >= 0; i--)
        if (*kind[i]->words) words = kind[i]->words;
    ts_jw_text(w, "words", words);
}

static void optional(ts_jw *w, const ts_judged *e)
{
    char names[160];
    for (int has = 1; has >= 0 && e->task && e->task->optional && *e->built.sha256; has--) {
        ts_scope_optional(&e->scope, e->task, has, names, sizeof names);
        ts_jw_text(w, has ? "optional_examined" : "optional_not_exported", names);
    }
}

static void robustness(ts_jw *w, const ts_judged *e)
{
    ts_jw_open(w, "robustness", '{');
    tally(w, "refusals", e->refusals);
    tally(w, "repeat", e->repeat);
    tally(w, "threads", e->threads);
    tally(w, "sanitizer", e->sanitizer);
    ts_jw_close(w, '}');
    ts_jw_text(w, "robustness_text", e->robustness_text);
    if (!**e->tool) return;
    ts_jw_open(w, "compute_sanitizer", '{');
    for (int i = 0; i < TS_TOOLS; i++) ts_jw_text(w, ts_tool_name[i], e->tool[i]);
    ts_jw_close(w, '}');
}

/* Workloads that no case within the declared offers stands for are missing in the score. */
static void timed_part(ts_jw *w, const ts_run *c, const ts_judged *e)
{
    int       number[TS_WORKLOADS], n = 0;
    const int all = ts_run_workloads(c, e->task, number);
    for (int i = 0; i < all; i++)
        n += ts_run_workload_within(e->task, &e->scope, number[i]) != NULL;
    if (!e->evidence.n_to_time)
        ts_jw_text(w, "not_timed",
                   all ? "no timed workload within the declared offers"
                       : "no workload is timed on this device");
    else if (n < all) tally(w, "timed_workloads", (ts_tally) { n, all });
}

static bool log_verdict(ts_run *c, const ts_judged *e)
{
    const ts_ruled *r = e->ruled;
    char            replay[9000], lacks[64];
    ts_jw          *w = ts_log_begin(c->log, "verdict");
    ts_run_replay(c, e, r->why.where, replay, sizeof replay);
    ts_jw_int(w, "entrant", e->id);
    ts_jw_text(w, "task", ts_run_task_of(c, e));
    ts_jw_text(w, "verdict", ts_ruling_name(r->ruling));
    ts_jw_text(w, "reason", r->why.reason);
    if (r->ruling == TS_RULING_COMMON) ts_jw_text(w, "rule", r->rule);
    ts_jw_text(w, "text", r->why.text);
    ts_jw_text(w, "case", r->why.where);
    element(w, &r->why.flaw);
    ts_jw_text(w, "replay", replay);
    counts(w, &e->evidence);
    faults(w, &e->evidence);
    if (ts_ruling_passes(r->ruling) && e->timed && !c->only) timed_part(w, c, e);
    optional(w, e);
    if (*ts_run_unsupported(e, lacks, sizeof lacks)) ts_jw_text(w, "unsupported", lacks);
    ts_jw_open(w, "categories", '{');
    for (int i = 0; i < TS_N_CATEGORIES; i++)
        tally(w, ts_category_name((ts_category)i), e->category[i]);
    ts_jw_close(w, '}');
    ts_jw_int(w, "calls", e->n_calls);
    ts_jw_num(w, "worst", e->worst);
    ts_jw_num(w, "ulp", e->errors.ulps);
    ts_jw_num(w, "p999", ts_errors_quantile(&e->errors, 0.999));
    robustness(w, e);
    ts_jw_num(w, "workspace_bytes", e->workspace_bytes);
    ts_jw_num(w, "io_bytes", e->io_bytes);
    ts_jw_num(w, "seconds", e->seconds);
    return ts_log_commit(c->log);
}

static bool close_case(ts_run *c, ts_judged *e)
{
    ts_ruled *r = malloc(sizeof *r);
    if (!r) abort();
    *r = ts_rule(&e->evidence);
    e->ruled = r;
    c->n_verdicts++;
    ts_progress_verdict(&c->progress, e->entrant.name, e->sample, ts_run_task_of(c, e),
                        ts_ruling_name(r->ruling), r->why.reason, &e->evidence);
    return log_verdict(c, e);
}

/* ---- a challenge ---- */

bool ts_rule_unread(ts_run *c, ts_judged *e)
{
    return close_case(c, e);
}

bool ts_rule_challenge(ts_run *c, const ts_task *t)
{
    bool ok = true;
    for (int i = 0; i < c->n && ok; i++) {
        ts_judged *e = c->entrant[i];
        if (e->before || e->task != t) continue;
        ts_progress_stage(&c->progress, "examining", e->entrant.name, t->name);
        ts_run_examine(c, e);
        ts_progress_reach(&c->progress, e->work);
        const ts_ruled r = ts_rule(&e->evidence);
        e->timed = !c->untimed && ts_ruling_passes(r.ruling);
        ok = e->timed ? ts_run_log_correctness(c, e, &r) : close_case(c, e);
    }
    ok = ok && (c->untimed || ts_run_time(c, t));
    for (int i = 0; i < c->n && ok; i++)
        if (c->entrant[i]->task == t && !c->entrant[i]->before && !c->entrant[i]->ruled)
            ok = close_case(c, c->entrant[i]);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* court.c - admits entrants, keeps the log of a sitting, and says who is examined when. */
#define _GNU_SOURCE
#include "court.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ceiling.h"
#include "examine.h"
#include "sha256.h"

const char *ts_ruling_name(ts_ruling r)
{
    static const char *const name[] = { "ERROR", "FAIL", "AUDIT", "PASS (common)", "PASS" };
    return name[r];
}

const char *ts_depth_name(ts_depth d)
{
    static const char *const name[TS_N_DEPTHS] = { "quick", "normal", "full" };
    return name[d];
}

uint64_t ts_court_seed(const ts_court *c, const ts_task *t, int number, int instance)
{
    unsigned char text[TS_KEY_BYTES + 96] = { 0 }, hash[32];
    uint64_t      seed;
    memcpy(text, c->key, TS_KEY_BYTES);
    snprintf((char *)text + TS_KEY_BYTES, 96, "%s/%d/%d", t->name, number, instance);
    ts_sha256(text, sizeof text, hash);
    memcpy(&seed, hash, sizeof seed);
    return seed;
}

const char *ts_court_label(ts_court *c, const ts_task *t)
{
    int i = 0;
    if (c->device == TS_CPU) return t->name;
    while (ts_tasks[i] != t && i < TS_LABELS - 1) i++;
    snprintf(c->label[i], sizeof c->label[i], "%s/cuda", t->name);
    return c->label[i];
}

static const ts_task *task_called(const char *name)
{
    for (int i = 0; ts_tasks[i]; i++)
        if (!strcmp(ts_tasks[i]->name, name)) return ts_tasks[i];
    return NULL;
}

void ts_court_admit(ts_court *c, ts_contender *e)
{
    ts_refusal why = { 0 };
    e->built.object = e->built.launch = -1;
    e->ruling = TS_RULING_FAIL;
    if (ts_entry_read(e->path, e->challenge, &e->entry, &why)) e->task = task_called(e->entry.task);
    if (c->device == TS_CUDA && !e->entry.json) { /* a file that does not say where it belongs */
        if (e->entry.cls == TS_HOST && e->entry.language == TS_BINARY) e->entry.cls = TS_GPU_HOST;
        if (e->entry.cls == TS_PYTHON) e->entry.cls = TS_GPU_PYTHON;
    }
    if (e->task && !ts_on_gpu(e->entry.cls) != (c->device == TS_CPU)) {
        ts_refuse(&why, "device", "class %s needs --device %s", ts_class_name(e->entry.cls),
                  ts_on_gpu(e->entry.cls) ? "cuda" : "cpu");
        e->task = NULL;
    }
    if (e->task && !(e->task->devices >> c->device & 1)) {
        ts_refuse(&why, "device", "%s is not judged on a GPU", e->task->name);
        e->task = NULL;
    }
    if (e->task && !ts_scope_read(e->entry.offers, e->task, c->device, &e->scope, &why))
        e->task = NULL;
    if (!e->task) {
        snprintf(e->reason, sizeof e->reason, "%s", why.reason ? why.reason : "entry");
        snprintf(e->text, sizeof e->text, "%s", why.reason ? why.text : "unknown challenge");
    }
    if (e->name) snprintf(e->entry.name, sizeof e->entry.name, "%s", e->name);
    if (e->author) snprintf(e->entry.author, sizeof e->entry.author, "%s", e->author);
    if (!*e->entry.name) {
        const char *base = strrchr(e->path, '/');
        snprintf(e->entry.name, sizeof e->entry.name, "%.64s", base ? base + 1 : e->path);
    }
    c->contender[c->n++] = e;
}

/* ---- the log ---- */

static bool log_run(ts_court *c)
{
    char      commit[65], machine[256], when[32];
    time_t    now = time(NULL);
    struct tm utc;
    ts_describe_cpu(machine, sizeof machine);
    ts_sha256_hex(c->key, sizeof c->key, commit);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    ts_jw *w = ts_log_begin(c->log, "run");
    ts_jw_text(w, "version", TS_VERSION);
    ts_jw_text(w, "machine", machine);
    if (c->device == TS_CUDA) ts_jw_text(w, "device", c->survey.text);
    ts_jw_open(w, "guarantees", '[');
    for (int i = 0; i < c->machine.n; i++) {
        ts_jw_open(w, NULL, '{');
        ts_jw_text(w, "name", c->machine.g[i].name);
        ts_jw_bool(w, "held", c->machine.g[i].held);
        ts_jw_text(w, "text", c->machine.g[i].text);
        ts_jw_close(w, '}');
    }
    ts_jw_close(w, ']');
    ts_jw_text(w, "badge", c->machine.badge);
    ts_jw_text(w, "commit", commit);
    ts_jw_text(w, "key", c->key_given ? "given" : "drawn");
    ts_jw_text(w, "depth", ts_depth_name(c->depth));
    ts_jw_int(w, "draw", TS_DRAW);
    ts_jw_bool(w, "timed", !c->gate);
    ts_jw_text(w, "started", when);
    ts_jw_open(w, "floors", '{');
    ts_jw_num(w, "memory_gbs", c->peaks.gbs);
    ts_jw_num(w, "gflops", c->peaks.gflops);
    ts_jw_num(w, "call_ns", c->peaks.call_ns);
    ts_jw_close(w, '}');
    return ts_log_commit(c->log);
}

static const char *task_of(ts_court *c, const ts_contender *e)
{
    return e->task ? ts_court_label(c, e->task) : e->challenge ? e->challenge : "-";
}

static bool log_entrant(ts_court *c, const ts_contender *e)
{
    ts_jw *w = ts_log_begin(c->log, "entrant");
    ts_jw_int(w, "id", e->id);
    ts_jw_text(w, "name", e->entry.name);
    ts_jw_text(w, "author", e->entry.author);
    ts_jw_text(w, "class", e->task ? ts_class_name(e->entry.cls) : "-");
    ts_jw_text(w, "language", e->task ? ts_language_name(e->entry.language) : "-");
    ts_jw_text(w, "task", task_of(c, e));
    ts_jw_text(w, "source_sha256", e->entry.source_sha256);
    ts_jw_text(w, "family", e->entry.family);
    if (e->task && *e->scope.text) {
        ts_jw_text(w, "offers", e->entry.offers);
        ts_jw_num(w, "share", e->scope.share);
    }
    return ts_log_commit(c->log);
}

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
    snprintf(index, sizeof index, "%s[%lld][%lld]", f->what, (long long)f->row, (long long)f->col);
    ts_jw_text(w, "index", index);
    ts_jw_num(w, "got", f->got);
    ts_jw_num(w, "want", f->want);
    ts_jw_num(w, "bound", f->bound);
}

/* In quotes for a shell, unless it needs none. */
static size_t quote(const char *word, char *s, size_t n)
{
    size_t at = 0;
    if (!word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-/")])
        return (size_t)snprintf(s, n, "%s", word);
    s[at++] = '\'';
    for (; *word && at + 6 < n; word++)
        at += (size_t)snprintf(s + at, n - at, *word == '\'' ? "'\\''" : "%c", *word);
    s[at++] = '\'';
    s[at] = 0;
    return at;
}

/* The command that shows the case again. */
static void write_replay(const ts_court *c, const ts_contender *e, char *s, size_t n)
{
    size_t at = (size_t)snprintf(
        s, n, "touchstone judge%s%s%s --case '%s' ", c->device == TS_CUDA ? " --device cuda" : "",
        e->challenge ? " --challenge " : "", e->challenge ? e->challenge : "", e->where);
    quote(e->path, s + at, n - at);
}

/* One of those that are asked between timed calls only cannot be asked by itself. */
static bool is_listed(const ts_contender *e)
{
    const size_t n = strcspn(e->where, "@");
    char         name[192];
    for (const ts_case *c = e->task->cases(); c->use; c++) {
        ts_case_string(e->task, c, 0, name, sizeof name);
        if (strcspn(name, "@") == n && !strncmp(name, e->where, n)) return true;
    }
    return false;
}

bool ts_court_log_verdict(ts_court *c, ts_contender *e)
{
    char   replay[9000] = "";
    ts_jw *w = ts_log_begin(c->log, "verdict");
    if (*e->where && is_listed(e)) write_replay(c, e, replay, sizeof replay);
    ts_jw_int(w, "entrant", e->id);
    ts_jw_text(w, "task", task_of(c, e));
    ts_jw_text(w, "verdict", ts_ruling_name(e->ruling));
    ts_jw_text(w, "reason", e->reason);
    if (e->ruling == TS_RULING_COMMON) ts_jw_text(w, "rule", e->rule);
    ts_jw_text(w, "text", e->text);
    ts_jw_text(w, "case", e->where);
    if (e->flaw.fault == TS_FAULT_VALUE || e->flaw.fault == TS_FAULT_UNWRITTEN)
        element(w, &e->flaw);
    ts_jw_text(w, "replay", replay);
    for (int has = 1; has >= 0 && e->task && e->task->optional && *e->built.sha256; has--) {
        char names[160];
        ts_scope_optional(&e->scope, e->task, has, names, sizeof names);
        ts_jw_text(w, has ? "optional_examined" : "optional_not_exported", names);
    }
    ts_jw_open(w, "categories", '{');
    for (int i = 0; i < TS_N_CATEGORIES; i++)
        tally(w, ts_category_name((ts_category)i), e->category[i]);
    ts_jw_close(w, '}');
    ts_jw_int(w, "calls", e->n_calls);
    ts_jw_num(w, "worst", e->worst);
    ts_jw_num(w, "ulp", e->errors.ulps);
    ts_jw_num(w, "p999", ts_errors_quantile(&e->errors, 0.999));
    ts_jw_open(w, "robustness", '{');
    tally(w, "refusals", e->refusals);
    tally(w, "repeat", e->repeat);
    tally(w, "threads", e->threads);
    tally(w, "sanitizer", e->sanitizer);
    ts_jw_close(w, '}');
    ts_jw_text(w, "robustness_text", e->lane_text);
    if (**e->tool) {
        ts_jw_open(w, "compute_sanitizer", '{');
        for (int i = 0; i < TS_TOOLS; i++) ts_jw_text(w, ts_tool_name[i], e->tool[i]);
        ts_jw_close(w, '}');
    }
    ts_jw_num(w, "workspace_bytes", e->workspace_bytes);
    ts_jw_num(w, "io_bytes", e->io_bytes);
    ts_jw_num(w, "seconds", e->seconds);
    c->n_verdicts++;
    e->ruled = true;
    ts_progress_clear(&c->progress);
    if (c->progress.to)
        fprintf(c->progress.to, "%-20.20s %-20.20s %s %s\n", e->entry.name, task_of(c, e),
                ts_ruling_name(e->ruling), e->reason);
    return ts_log_commit(c->log);
}

/* What the cases said of one that goes on to be timed, after which its verdict follows. */
static bool log_gate(ts_court *c, const ts_contender *e)
{
    ts_jw *w = ts_log_begin(c->log, "gate");
    ts_jw_int(w, "entrant", e->id);
    ts_jw_text(w, "task", task_of(c, e));
    ts_jw_text(w, "verdict", ts_ruling_name(e->ruling));
    ts_jw_text(w, "reason", e->reason);
    ts_jw_text(w, "text", e->text);
    ts_jw_text(w, "case", e->where);
    return ts_log_commit(c->log);
}

static bool log_end(ts_court *c)
{
    char   key[2 * TS_KEY_BYTES + 1];
    ts_jw *w = ts_log_begin(c->log, "reveal");
    for (int i = 0; i < TS_KEY_BYTES; i++) snprintf(key + 2 * i, 3, "%02x", c->key[i]);
    ts_jw_text(w, "seed", key);
    if (!ts_log_commit(c->log)) return false;
    w = ts_log_begin(c->log, "end");
    ts_jw_int(w, "verdicts", c->n_verdicts);
    return ts_log_commit(c->log);
}

/* ---- the sitting ---- */

/* The same on the device: the driver's own copy, and kernels of ours where they are built. */
static void measure_device(ts_court *c)
{
    const ts_entry e = { .name = "ceilings", .device = TS_CUDA, .mask = ~0u };
    ts_arena       arena;
    c->peaks.gbs = fmax(c->peaks.gbs, c->survey.copy_gbs);
    if (!ts_arena_open(&arena)) return;
    ts_worker *w = ts_worker_start(&e, &arena);
    for (int i = 0; i < 8 * TS_N_CEILINGS; i++) {
        const ts_order o = { .verb = TS_CEILING, .ceiling = i % TS_N_CEILINGS, .limit_ms = 60000 };
        ts_reply       r;
        if (!ts_worker_order(w, o, &r) || r.broken || !(r.ns > 0)) break;
        c->peaks.gbs = fmax(c->peaks.gbs, r.bytes / r.ns);
    }
    ts_worker_stop(&w);
    ts_arena_close(&arena);
}

double ts_court_measure(ts_court *c, double bytes)
{
    if (c->device == TS_CPU) return ts_floor_memory(&c->peaks, bytes, c->n_threads);
    measure_device(c);
    return c->peaks.gbs;
}

/* What does not depend on the workload, and a first look at memory. */
static void measure(ts_court *c)
{
    enum { BYTES = 64 << 20 };
    if (c->device == TS_CPU) {
        c->peaks.call_ns = c->machine.bell_ns;
        ts_floor_memory(&c->peaks, BYTES, c->n_threads);
        ts_floor_arithmetic(&c->peaks, c->n_threads);
        return;
    }
    measure_device(c);
    c->peaks.call_ns = c->survey.probe_ns;
    c->peaks.gflops = c->survey.gflops;
    c->peaks.matrix = c->survey.matrix;
}

/* What an earlier run of this log says of an entrant: its number, and whether it was judged. */
static void recall(ts_court *c, const ts_records *earlier, ts_contender *e, int *next_id)
{
    int64_t id;
    e->id = -1;
    for (size_t i = 0; earlier && i < earlier->n; i++) {
        const ts_jr_node *r = earlier->at[i].root;
        if (strcmp(earlier->at[i].type, "entrant") || !ts_jr_int(ts_jr_get(r, "id"), &id)) continue;
        if (id >= *next_id) *next_id = (int)id + 1;
        if (e->task && !strcmp(ts_jr_text(r, "source_sha256", ""), e->entry.source_sha256) &&
            !strcmp(ts_jr_text(r, "task", ""), ts_court_label(c, e->task)) &&
            !strcmp(ts_jr_text(r, "name", ""), e->entry.name) &&
            !strcmp(ts_jr_text(r, "class", ""), ts_class_name(e->entry.cls)))
            e->id = (int)id;
    }
    for (size_t i = 0; e->id >= 0 && i < earlier->n; i++)
        if (!strcmp(earlier->at[i].type, "verdict") &&
            ts_jr_int(ts_jr_get(earlier->at[i].root, "entrant"), &id) && id == e->id)
            e->before = true;
}

/* ---- how much there is to do ---- */

static double work_of_gate(const ts_court *c, const ts_contender *e)
{
    int       number[TS_MOST_CASES];
    const int n = ts_court_draw(c, e->task, e->entry.cls, &e->scope, number);
    double    work = 0;
    for (int i = 0; i < n; i++) work += ts_work_of(e->task, &e->task->cases()[number[i]]);
    return work;
}

/* In the order of the sitting: each task's contenders, and then their turns. */
static void plan_work(ts_court *c)
{
    double all = 0;
    for (int i = 0; ts_tasks[i]; i++) {
        const double before = all;
        for (int k = 0; k < c->n; k++) {
            ts_contender *e = c->contender[k];
            if (e->task == ts_tasks[i] && !e->before) e->work = all += work_of_gate(c, e);
        }
        if (all > before) all += ts_court_timed_work(c, ts_tasks[i]);
    }
    ts_progress_begin(&c->progress, all);
}

/* ---- all of it ---- */

/* One challenge, from its first entrant's build to its last verdict. */
static bool hold(ts_court *c, const ts_task *t)
{
    for (int i = 0; i < c->n; i++) {
        ts_contender *e = c->contender[i];
        if (e->before || e->task != t) continue;
        ts_progress_stage(&c->progress, "examining", e->entry.name, t->name);
        ts_court_examine(c, e);
        ts_progress_reach(&c->progress, e->work);
        const bool timed = ts_ruling_passes(e->ruling) && !c->gate;
        if (timed ? !log_gate(c, e) : !ts_court_log_verdict(c, e)) return false;
    }
    return c->gate || ts_court_time(c, t);
}

bool ts_court_sit(ts_court *c, const ts_records *earlier, char why[TS_WHY])
{
    int next_id = 0;
    snprintf(why, TS_WHY, "the log cannot be written");
    measure(c);
    if (!log_run(c)) return false;
    for (int i = 0; i < c->n; i++) {
        ts_contender *e = c->contender[i];
        recall(c, earlier, e, &next_id);
        if (e->id >= 0) continue;
        e->id = next_id++;
        if (!log_entrant(c, e)) return false;
    }
    for (int i = 0; i < c->n; i++) /* those that could not be read */
        if (!c->contender[i]->task && !ts_court_log_verdict(c, c->contender[i])) return false;
    plan_work(c);
    for (int i = 0; ts_tasks[i]; i++)
        if (!hold(c, ts_tasks[i])) return false;
    ts_progress_clear(&c->progress);
    const bool ranked = ts_court_rank_overall(c, earlier);
    free(c->played);
    c->played = NULL;
    return ranked && log_end(c);
}

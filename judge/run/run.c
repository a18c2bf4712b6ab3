/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - admits entrants, and runs the challenges one after the other. */
#define _GNU_SOURCE
#include "run.h"

#include <string.h>

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

uint64_t ts_run_seed(const ts_run *c, const ts_task *t, int number, int instance)
{
    unsigned char text[TS_KEY_BYTES + 96] = { 0 }, hash[32];
    uint64_t      seed;
    memcpy(text, c->key, TS_KEY_BYTES);
    snprintf((char *)text + TS_KEY_BYTES, 96, "%s/%d/%d", t->name, number, instance);
    ts_sha256(text, sizeof text, hash);
    memcpy(&seed, hash, sizeof seed);
    return seed;
}

const char *ts_run_label(ts_run *c, const ts_task *t)
{
    int i = 0;
    if (c->device == TS_CPU) return t->name;
    while (ts_tasks[i] != t && i < TS_LABELS - 1) i++;
    snprintf(c->label[i], sizeof c->label[i], "%s/cuda", t->name);
    return c->label[i];
}

void ts_run_admit(ts_run *c, ts_judged *e)
{
    ts_refusal why = { 0 };
    e->built.object = e->built.launch = -1;
    e->ruling = TS_RULING_FAIL;
    if (ts_entrant_read(e->path, e->challenge, &e->entrant, &why))
        e->task = ts_task_called(e->entrant.task);
    if (c->device == TS_CUDA && !e->entrant.json) { /* a single file does not name its class */
        if (e->entrant.cls == TS_HOST && e->entrant.language == TS_BINARY)
            e->entrant.cls = TS_GPU_HOST;
        if (e->entrant.cls == TS_PYTHON) e->entrant.cls = TS_GPU_PYTHON;
    }
    if (e->task && !ts_on_gpu(e->entrant.cls) != (c->device == TS_CPU)) {
        ts_refuse(&why, "device", "class %s needs --device %s", ts_class_name(e->entrant.cls),
                  ts_on_gpu(e->entrant.cls) ? "cuda" : "cpu");
        e->task = NULL;
    }
    if (e->task && !(e->task->devices >> c->device & 1)) {
        ts_refuse(&why, "device", "%s is not judged on a GPU", e->task->name);
        e->task = NULL;
    }
    if (e->task && !ts_scope_read(e->entrant.offers, e->task, c->device, &e->scope, &why))
        e->task = NULL;
    if (!e->task) {
        snprintf(e->reason, sizeof e->reason, "%s", why.reason ? why.reason : "entry");
        snprintf(e->text, sizeof e->text, "%s", why.reason ? why.text : "unknown challenge");
    }
    if (e->name) snprintf(e->entrant.name, sizeof e->entrant.name, "%s", e->name);
    if (e->author) snprintf(e->entrant.author, sizeof e->entrant.author, "%s", e->author);
    if (!*e->entrant.name) {
        const char *base = strrchr(e->path, '/');
        snprintf(e->entrant.name, sizeof e->entrant.name, "%.64s", base ? base + 1 : e->path);
    }
    c->entrant[c->n++] = e;
}

/* ---- amount of work, for the progress line ---- */

static double work_of_correctness(const ts_run *c, const ts_judged *e)
{
    int       number[TS_MOST_CASES];
    const int n = ts_run_draw(c, e->task, e->entrant.cls, &e->scope, number);
    double    work = 0;
    for (int i = 0; i < n; i++) work += ts_work_of(e->task, &e->task->cases()[number[i]]);
    return work;
}

/* In the order of the run: each task's entrants, then their timing. */
static void plan_work(ts_run *c)
{
    double all = 0;
    for (int i = 0; ts_tasks[i]; i++) {
        const double before = all;
        for (int k = 0; k < c->n; k++) {
            ts_judged *e = c->entrant[k];
            if (e->task == ts_tasks[i] && !e->before) e->work = all += work_of_correctness(c, e);
        }
        if (all > before) all += ts_run_timed_work(c, ts_tasks[i]);
    }
    ts_progress_begin(&c->progress, all);
}

/* ---- all challenges ---- */

/* One challenge, from its first entrant's build to its last verdict. */
static bool hold(ts_run *c, const ts_task *t)
{
    for (int i = 0; i < c->n; i++) {
        ts_judged *e = c->entrant[i];
        if (e->before || e->task != t) continue;
        ts_progress_stage(&c->progress, "examining", e->entrant.name, t->name);
        ts_run_examine(c, e);
        ts_progress_reach(&c->progress, e->work);
        const bool timed = ts_ruling_passes(e->ruling) && !c->untimed;
        if (timed ? !ts_run_log_correctness(c, e) : !ts_run_log_verdict(c, e)) return false;
    }
    return c->untimed || ts_run_time(c, t);
}

bool ts_run_all(ts_run *c, const ts_records *earlier, char why[TS_WHY])
{
    int id = ts_run_next_id(earlier);
    snprintf(why, TS_WHY, "the log cannot be written");
    ts_run_recall(c, earlier);
    ts_run_measure_all(c);
    if (!ts_run_log_run(c)) return false;
    for (int i = 0; i < c->n; i++) {
        ts_judged *e = c->entrant[i];
        if (e->id >= 0) continue;
        e->id = id++;
        if (!ts_run_log_entrant(c, e)) return false;
    }
    for (int i = 0; i < c->n; i++) /* entrants that could not be read */
        if (!c->entrant[i]->task && !c->entrant[i]->before && !ts_run_log_verdict(c, c->entrant[i]))
            return false;
    plan_work(c);
    for (int i = 0; ts_tasks[i]; i++)
        if (!hold(c, ts_tasks[i])) return false;
    ts_progress_clear(&c->progress);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* admit.c - reads an entrant, and decides whether this run can judge it. */
#define _GNU_SOURCE
#include <string.h>

#include "run.h"

void ts_run_admit(ts_run *c, ts_judged *e)
{
    ts_refusal why = { 0 };
    e->built.object = e->built.launch = -1;
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
    if (e->task && !ts_class_enters(e->task, e->entrant.cls)) {
        ts_refuse(&why, "class",
                  "%s is several functions that a script calls; use class %s, got %s",
                  e->task->name, ts_class_name(TS_GPU_HOST), ts_class_name(e->entrant.cls));
        e->task = NULL;
    }
    if (e->task && !(ts_scope_read(e->entrant.offers, e->task, c->device, &e->scope, &why) &&
                     ts_scope_fill(&e->scope, e->task, c->device, &why)))
        e->task = NULL;
    if (!e->task) ts_observe_refusal(e, &why);
    if (e->name) snprintf(e->entrant.name, sizeof e->entrant.name, "%s", e->name);
    if (e->author) snprintf(e->entrant.author, sizeof e->entrant.author, "%s", e->author);
    if (!*e->entrant.name) {
        size_t end = strlen(e->path); /* a shell completes a folder with a slash */
        while (end > 1 && e->path[end - 1] == '/') end--;
        size_t at = end;
        while (at && e->path[at - 1] != '/') at--;
        snprintf(e->entrant.name, sizeof e->entrant.name, "%.*s", (int)(end - at), e->path + at);
    }
    c->entrant[c->n++] = e;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* plain.c - runs a sealed GPU entrant outside the cage on some cases, so that CUDA's
 * compute-sanitizer can trace it.
 *
 *     touchstone-plain FOLDER TASK CASE...
 *
 * The entrant is FOLDER/object and FOLDER/launch. Every buffer is an allocation of exactly its
 * size, and outputs are never written in advance, so that the tool finds each access out of bounds
 * and each read of uninitialised memory. Outputs are not checked.
 *
 * Exit status: 0, or 3 and one line if this could not run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "play.h"
#include "task.h"

enum { CANNOT = 3, MOST_BYTES = 64 << 20, ARGS = 512 };

static const ts_driver *d;

_Noreturn static void stop(const char *what, const char *why)
{
    fprintf(stderr, "touchstone-plain: %s: %s\n", what, why);
    exit(CANNOT);
}

static void must(int code, const char *what)
{
    if (code) stop(what, ts_driver_text(d, code));
}

static char *read_all(const char *folder, const char *name, size_t *n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    char *bytes = malloc(MOST_BYTES + 1);
    if (!f || !bytes) stop(path, "cannot be read");
    *n = fread(bytes, 1, MOST_BYTES, f);
    bytes[*n] = 0;
    fclose(f);
    return bytes;
}

/* ---- one call ---- */

typedef struct run {
    const ts_task *task;
    const ts_case *c;
    ts_arena       arena;
    ts_device_ptr  buf[TS_MAX_BUFS], workspace;
    ts_names       names;
} run;

/* Every name that a plan may use, as judge/cage/gpu.c has them. */
static void describe(run *r)
{
    const ts_arena *m = &r->arena;
    ts_names_begin(&r->names, r->c->dtype);
    for (int i = 0; i < TS_MAX_DIMS; i++)
        if (r->task->dim_name[i]) ts_names_integer(&r->names, r->task->dim_name[i], r->c->dim[i]);
    for (int i = 0; i < m->n_scalars; i++)
        ts_names_real(&r->names, m->scalar[i].name, m->scalar[i].value);
    for (int i = 0; i < m->n; i++) {
        const ts_buf *b = &m->buf[i].b;
        ts_names_buffer(&r->names, b->name, r->buf[i], b->n_rows, b->n_cols, b->row_stride);
    }
    for (int i = 0; r->task->buffer[i].name; i++)
        ts_names_absent(&r->names, r->task->buffer[i].name);
    ts_names_pointer(&r->names, "workspace", r->workspace);
}

static void step(run *r, const ts_launch *plan, int i, ts_cu_any *module)
{
    ts_step    s;
    ts_cu_any *f;
    char       why[160];
    if (!ts_launch_step(plan, i, &r->names.env, &s, why, sizeof why)) stop("launch plan", why);
    if (!s.applies || s.empty) return;
    must(d->module_function(&f, module, s.kernel), s.kernel);
    must(ts_step_play(d, f, &s, NULL), s.kernel);
    must(d->sync(), s.kernel);
}

static void lay_out(run *r, const ts_launch *plan)
{
    char    why[160];
    int64_t n_workspace = 0;
    for (int i = 0; i < r->arena.n; i++) {
        const ts_arena_buf *b = &r->arena.buf[i];
        if (!b->n_bytes) continue;
        must(d->alloc(&r->buf[i], b->n_bytes), "memory of the device");
        if (b->b.role != TS_OUT) must(d->copy_in(r->buf[i], b->p, b->n_bytes), "an input");
    }
    describe(r);
    if (!ts_launch_workspace(plan, &r->names.env, &n_workspace, why, sizeof why))
        stop("launch plan", why);
    if (!n_workspace) return;
    must(d->alloc(&r->workspace, (size_t)n_workspace), "memory of the device");
    describe(r);
}

static void ask(run *r, const ts_launch *plan, ts_cu_any *module, uint64_t seed)
{
    static _Alignas(16) unsigned char args[ARGS];
    ts_arena_setup(&r->arena, r->task, r->c, seed, args);
    for (int i = 0; i < r->arena.n; i++)
        if (r->arena.buf[i].n_bytes > MOST_BYTES) return; /* rows that lie far apart */
    lay_out(r, plan);
    for (int i = 0; i < ts_launch_steps(plan); i++) step(r, plan, i, module);
    for (int i = 0; i < r->arena.n; i++)
        if (r->buf[i]) must(d->free_(r->buf[i]), "memory of the device");
    if (r->workspace) must(d->free_(r->workspace), "memory of the device");
    memset(r->buf, 0, sizeof r->buf);
    r->workspace = 0;
}

static const ts_task *task_called(const char *name)
{
    for (int i = 0; ts_tasks[i]; i++)
        if (!strcmp(ts_tasks[i]->name, name) && ts_tasks[i]->args_bytes <= ARGS) return ts_tasks[i];
    stop(name, "no such task");
}

int main(int argc, char **argv)
{
    static run r;
    char       why[160];
    size_t     n;
    ts_cu_any *module;
    if (argc < 3) stop("usage", "FOLDER TASK CASE...");
    r.task = task_called(argv[2]);
    char      *image = read_all(argv[1], "object", &n), *text = read_all(argv[1], "launch", &n);
    ts_launch *plan = ts_launch_read(text, n, why, sizeof why);
    if (!plan) stop("launch plan", why);
    if (!(d = ts_driver_open(why, sizeof why))) stop("the device", why);
    if (!ts_arena_open(&r.arena)) stop("the arena", "no memory");
    must(d->module_load(&module, image), "loading");
    for (int i = 3; i < argc; i++) {
        ts_case  c;
        uint64_t seed;
        r.c = &c;
        if (!ts_case_read(r.task, argv[i], &c, &seed)) stop(argv[i], "no such case");
        ask(&r, plan, module, seed);
    }
    must(d->module_unload(module), "unloading");
    ts_arena_close(&r.arena);
    ts_launch_free(plan);
    free(image);
    free(text);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* backend_cpu.c - runs a case on the CPU: the function works directly on the shared memory. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "apart.h"
#include "awake.h"
#include "backend.h"
#include "ceiling.h"
#include "clock.h"

static unsigned char *workspace_map;
static size_t         workspace_map_bytes;

static void drop_workspace(ts_session *s)
{
    if (workspace_map) munmap(workspace_map, workspace_map_bytes);
    workspace_map = NULL;
    s->exec.workspace = NULL;
}

/* Exactly as many bytes as the function requested, poisoned, ending at a guard page. For timing
 * they begin at a page boundary, as from an allocator. */
static void take_workspace(ts_session *s)
{
    /* A band of at least a page precedes it. */
    const size_t n = s->exec.workspace_bytes,
                 pages = (n + ts_page() - 1) / ts_page() * ts_page() + ts_page();
    drop_workspace(s);
    if (!n) return;
    workspace_map_bytes = pages + ts_page();
    workspace_map =
        mmap(NULL, workspace_map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (workspace_map == MAP_FAILED || mprotect(workspace_map + pages, ts_page(), PROT_NONE)) {
        s->reply->flaw = (ts_flaw) { .fault = TS_FAULT_CRASH, .what = "workspace" };
        snprintf(s->reply->text, sizeof s->reply->text, "out of memory for %zu bytes of", n);
        workspace_map = NULL;
        return;
    }
    memset(workspace_map, TS_BAND, pages - n);
    memset(workspace_map + pages - n, TS_POISON, n);
    s->exec.workspace = workspace_map + pages - (s->arena->aligned ? (n + 63) / 64 * 64 : n);
}

static void load(ts_session *s, const ts_order *o)
{
    (void)o;
    ts_arena_lock(s->arena);
    ts_session_workspace(s);
    take_workspace(s);
}

static bool workspace_intact(const ts_session *s)
{
    const unsigned char *p = workspace_map, *end = s->exec.workspace;
    for (; workspace_map && p < end; p++)
        if (*p != TS_BAND) return false;
    return true;
}

static void flush_case(const ts_arena *m)
{
    for (int i = 0; i < m->n; i++) ts_flush_lines(m->buf[i].lo, m->buf[i].hi);
}

static void run(ts_session *s, const ts_order *o)
{
    if (workspace_map)
        s->reply->workspace_end = (uintptr_t)workspace_map + workspace_map_bytes - ts_page();
    cpu_set_t was;
    bool      apart = false;
    if (o->verb == TS_TIME) {
        apart = ts_threads_apart(getpid(), &was);
        flush_case(s->arena);
    }
    if (apart) {
        ts_awake_begin(&was);
        ts_awake_go();
    }
    const double t0 = ts_now_ns();
    ts_session_call(s, o);
    s->reply->ns = ts_now_ns() - t0;
    if (apart) ts_awake_end();
    if (apart) ts_threads_free(getpid(), &was);
    if (!workspace_intact(s))
        s->reply->flaw = (ts_flaw) { TS_FAULT_BEFORE, "workspace", 0, 0, 0, 0, 0 };
}

static void store(ts_session *s)
{
    (void)s;
}

static void drop(ts_session *s)
{
    drop_workspace(s);
    ts_arena_unlock(s->arena);
}

static void probe(ts_session *s)
{
    ts_describe_cpu(s->reply->text, sizeof s->reply->text);
}

/* Copies the largest input to the largest output, so that peak rates are measured on the memory
 * that kernels use; a read covers the whole input, however small the output. */
static void ceiling(ts_session *s, const ts_order *o)
{
    const ts_arena_buf *from = NULL, *to = NULL;
    for (int i = 0; i < s->arena->n; i++) {
        const ts_arena_buf *b = &s->arena->buf[i], **best = b->b.role == TS_IN ? &from : &to;
        if (!*best || b->n_bytes > (*best)->n_bytes) *best = b;
    }
    if (!from || !to) {
        s->reply->broken = true;
        return;
    }
    const bool   whole = o->ceiling == TS_CEILING_READ || from->n_bytes < to->n_bytes;
    const size_t n = whole ? from->n_bytes : to->n_bytes;
    flush_case(s->arena);
    const ts_pass pass = ts_ceiling_pass(o->ceiling, to->p, from->p, n, o->n_threads);
    s->reply->bytes = pass.bytes;
    s->reply->ns = pass.ns;
}

const ts_backend ts_backend_cpu = { load, run, store, drop, probe, ceiling };

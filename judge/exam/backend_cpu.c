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

static unsigned char *workspace_map, *workspace_lo, *workspace_hi; /* lo .. hi: without guards */
static size_t         workspace_map_bytes;

static void drop_workspace(ts_session *s)
{
    if (workspace_map) munmap(workspace_map, workspace_map_bytes);
    workspace_map = NULL;
    s->exec.workspace = NULL;
}

/* Exactly as many bytes as the function requested, poisoned, between bands and guards: a band of at
 * least a page in front, none behind half of them. */
static void take_workspace(ts_session *s)
{
    const size_t n = s->exec.workspace_bytes, beyond = ts_arena_beyond(s->arena, n),
                 pages = (n + beyond + ts_page() - 1) / ts_page() * ts_page() + ts_page();
    drop_workspace(s);
    if (!n) return;
    workspace_map_bytes = pages + 2 * TS_GUARD_BYTES;
    workspace_map = mmap(NULL, workspace_map_bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    workspace_lo = workspace_map + TS_GUARD_BYTES;
    workspace_hi = workspace_lo + pages;
    if (workspace_map == MAP_FAILED || mprotect(workspace_lo, pages, PROT_READ | PROT_WRITE)) {
        s->reply->flaw = (ts_flaw) { .fault = TS_FAULT_CRASH, .what = "workspace" };
        snprintf(s->reply->text, sizeof s->reply->text, "out of memory for %zu bytes of", n);
        if (workspace_map != MAP_FAILED) munmap(workspace_map, workspace_map_bytes);
        workspace_map = NULL;
        return;
    }
    unsigned char *const p = workspace_hi - beyond - n;
    memset(workspace_lo, TS_BAND, pages);
    memset(p, TS_POISON, n);
    s->exec.workspace = p;
}

static void load(ts_session *s, const ts_order *o)
{
    ts_arena_lock(s->arena);
    ts_session_workspace(s, o);
    take_workspace(s);
}

static void look_at_workspace(ts_session *s)
{
    const unsigned char *p = s->exec.workspace;
    const ts_flaw        before = { .fault = TS_FAULT_BEFORE, .what = "workspace" },
                  past = { .fault = TS_FAULT_PAST, .what = "workspace" };
    if (!workspace_map) return;
    if (!ts_band_holds(workspace_lo, p)) s->reply->flaw = before;
    else if (!ts_band_holds(p + s->exec.workspace_bytes, workspace_hi)) s->reply->flaw = past;
}

static void flush_case(const ts_arena *m)
{
    for (int i = 0; i < m->n; i++) ts_flush_lines(m->buf[i].lo, m->buf[i].hi);
}

static void run(ts_session *s, const ts_order *o)
{
    if (workspace_map) {
        s->reply->workspace_begin = (uintptr_t)workspace_lo;
        s->reply->workspace_end = (uintptr_t)workspace_hi;
    }
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
    look_at_workspace(s);
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

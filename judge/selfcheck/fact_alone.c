/* SPDX-License-Identifier: Apache-2.0 */
/* fact_alone.c - trials with one process: the device's clock, its cache, and loading of cubins. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cage_inside.h"
#include "fact_inside.h"
#include "fact_ptx.h"
#include "quantile.h"

typedef struct stopwatch {
    ts_cu_any *from, *to;
} stopwatch;

static stopwatch make_stopwatch(ts_trial *t)
{
    stopwatch w;
    ts_trial_must(t, t->d->event_create(&w.from, 0), "event");
    ts_trial_must(t, t->d->event_create(&w.to, 0), "event");
    return w;
}

static void start(ts_trial *t, const stopwatch *w, ts_cu_any *stream)
{
    ts_trial_must(t, t->d->event_record(w->from, stream), "event");
}

/* Waits for the stream; returns ns by the device's clock. */
static double stop(ts_trial *t, const stopwatch *w, ts_cu_any *stream)
{
    float ms = 0;
    ts_trial_must(t, t->d->event_record(w->to, stream), "event");
    ts_trial_must(t, t->d->event_sync(w->to), "synchronising");
    ts_trial_must(t, t->d->event_elapsed(&ms, w->from, w->to), "event");
    return 1e6 * (double)ms;
}

/* ---- wall time of several calls, compared with events ---- */

enum { BATCHES = 25, SIZES = 2, COUNTS = 3 };
static const uint64_t sizes_ns[SIZES] = { 20000, 200000 };
static const int      counts[COUNTS] = { 1, 4, 16 };
static const double   most_over[SIZES] = { 5, 3 }; /* percent, at the largest count */

/* The median of wall time over device time, less 1, in percent; *call_ns: a call by events. */
static double excess(ts_trial *t, ts_device_ptr beat, uint64_t ns, int n, double *call_ns)
{
    const stopwatch w = make_stopwatch(t);
    double          over[BATCHES], call[BATCHES];
    for (int i = -1; i < BATCHES; i++) { /* the first is a warm-up */
        const double begin = ts_now_ns();
        start(t, &w, NULL);
        for (int k = 0; k < n; k++) ts_trial_must(t, ts_trial_spin(t, beat, ns, NULL), "launch");
        const double device = stop(t, &w, NULL), wall = ts_now_ns() - begin;
        if (i >= 0) over[i] = 100 * (wall / device - 1), call[i] = device / n;
    }
    *call_ns = ts_median(call, BATCHES);
    return ts_median(over, BATCHES);
}

void ts_trial_clock(ts_trial *t)
{
    ts_device_ptr beat = 0;
    double        over[SIZES][COUNTS], ns[SIZES][COUNTS];
    bool          held = true;
    ts_trial_open(t);
    ts_trial_must(t, t->d->alloc(&beat, sizeof(uint64_t)), "device memory");
    for (int s = 0; s < SIZES; s++) {
        for (int k = 0; k < COUNTS; k++)
            over[s][k] = excess(t, beat, sizes_ns[s], counts[k], &ns[s][k]);
        /* Over many calls both clocks agree, and the device's covers each call fully. */
        held &= over[s][COUNTS - 1] > -most_over[s] && over[s][COUNTS - 1] < most_over[s];
        for (int k = 0; k < COUNTS; k++) held &= ns[s][k] >= 0.95 * (double)sizes_ns[s];
    }
    ts_trial_say(t, "device-clock", held,
                 "the device's clock is correct: wall time against events, calls of %.1f us, K = "
                 "1, 4, 16: %+.1f, %+.1f, %+.1f %%; of %.1f us: %+.1f, %+.1f, %+.1f %%",
                 ns[0][COUNTS - 1] / 1e3, over[0][0], over[0][1], over[0][2],
                 ns[1][COUNTS - 1] / 1e3, over[1][0], over[1][1], over[1][2]);
}

/* ---- lines left in L2 ---- */

enum { LINES = 1 << 14, STRIDE = 256, WORDS = STRIDE / 8, FLUSHES = 5 };

typedef struct cache {
    ts_device_ptr chain, end, flushed;
    size_t        n_flush;
    ts_cu_any    *chase, *keeping; /* keeping: a stream whose lines persist; NULL: not supported */
    stopwatch     watch;
    double        cold, warm;
} cache;

/* A circular chain of pointers through all lines, in an order that no prefetcher can predict. */
static void make_chain(ts_trial *t, cache *c)
{
    uint64_t *host = calloc(LINES, STRIDE);
    uint32_t *order = calloc(LINES, sizeof *order), r = 1;
    if (!host || !order) abort();
    for (uint32_t i = 0; i < LINES; i++) order[i] = i;
    for (uint32_t i = LINES - 1; i > 0; i--) {
        r = r * 1664525u + 1013904223u;
        const uint32_t k = (uint32_t)((uint64_t)r * i >> 32), x = order[i];
        order[i] = order[k];
        order[k] = x;
    }
    for (uint32_t i = 0; i < LINES; i++)
        host[(size_t)order[i] * WORDS] = c->chain + (uint64_t)order[(i + 1) % LINES] * STRIDE;
    ts_trial_must(t, t->d->copy_in(c->chain, host, (size_t)LINES * STRIDE), "copying");
    free(order);
    free(host);
}

static double chase(ts_trial *t, cache *c, ts_cu_any *stream)
{
    uint32_t n = LINES;
    void    *params[] = { &c->chain, &n, &c->end };
    start(t, &c->watch, stream);
    ts_trial_must(t, t->d->launch(c->chase, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL), "launch");
    return stop(t, &c->watch, stream);
}

/* As the keeper does. */
static void flush(ts_trial *t, cache *c, bool reset)
{
    if (reset) ts_trial_must(t, t->d->reset_l2(), "resetting the cache");
    ts_trial_must(t, t->d->copy_within(c->flushed + c->n_flush, c->flushed, c->n_flush, NULL),
                  "flushing the cache");
    ts_trial_must(t, t->d->sync(), "flushing the cache");
}

static double after_flushes(ts_trial *t, cache *c, ts_cu_any *stream, bool reset, int n)
{
    double ns[FLUSHES];
    for (int i = 0; i < FLUSHES; i++) {
        flush(t, c, true);
        chase(t, c, stream);
        chase(t, c, stream);
        for (int k = 0; k < n; k++) flush(t, c, reset);
        ns[i] = chase(t, c, NULL);
    }
    return ts_median(ns, FLUSHES);
}

static double left(ts_trial *t, cache *c, ts_cu_any *stream, bool reset)
{
    const double ns = after_flushes(t, c, stream, reset, 1);
    return 100 * (c->cold - ns) / (c->cold - c->warm);
}

/* Creates a stream whose kernels make the chain persist in L2. */
static void keep_lines(ts_trial *t, cache *c)
{
    const size_t       n = (size_t)LINES * STRIDE;
    const ts_l2_window w = { c->chain, n, 1, 2, 0, { 0 } };
    if (t->d->limit_set(TS_CU_L2_PERSISTING, 2 * n) || t->d->stream_create(&c->keeping, 1) ||
        t->d->stream_set(c->keeping, TS_CU_L2_WINDOW, &w))
        c->keeping = NULL;
}

void ts_trial_l2(ts_trial *t)
{
    cache    c = { 0 };
    int      l2 = 0;
    uint64_t end = 0;
    ts_trial_open(t);
    ts_trial_must(t, t->d->device_attribute(&l2, TS_CU_L2_BYTES, 0), "cache size");
    c.n_flush = 4 * (size_t)l2;
    ts_trial_must(t, t->d->alloc(&c.flushed, 2 * c.n_flush), "device memory");
    ts_trial_must(t, t->d->alloc(&c.chain, (size_t)LINES * STRIDE), "device memory");
    ts_trial_must(t, t->d->alloc(&c.end, sizeof end), "device memory");
    ts_trial_must(t, t->d->fill(c.flushed, 1, 2 * c.n_flush, NULL), "filling");
    ts_trial_must(t, t->d->fill(c.end, 0, sizeof end, NULL), "filling");
    c.watch = make_stopwatch(t);
    c.chase = ts_trial_kernel(t, "ts_chase");
    make_chain(t, &c);
    c.warm = after_flushes(t, &c, NULL, true, 0);
    c.cold = after_flushes(t, &c, NULL, true, 4);
    ts_trial_must(t, t->d->copy_out(&end, c.end, sizeof end), "reading");
    if (end != c.chain || c.cold < 1.2 * c.warm) {
        ts_trial_say(t, "device-l2", false,
                     "caches are cold at the start signal: not determined, a line takes %.0f ns "
                     "cold, %.0f ns warm",
                     c.cold / LINES, c.warm / LINES);
        return;
    }
    keep_lines(t, &c);
    const double plain = left(t, &c, NULL, true);
    const double kept = c.keeping ? left(t, &c, c.keeping, false) : 0;
    const double reset = c.keeping ? left(t, &c, c.keeping, true) : 0;
    char         persisting[96] = "no line can persist here";
    if (c.keeping)
        snprintf(persisting, sizeof persisting,
                 "persisting lines %.1f %%, without the reset %.1f %%", reset, kept);
    ts_trial_say(t, "device-l2", plain < 5 && reset < 5,
                 "caches are cold at the start signal: a line takes %.0f ns cold, %.0f ns warm; "
                 "after reset and flush %.1f %% are still warm, %s",
                 c.cold / LINES, c.warm / LINES, plain, persisting);
}

/* ---- sealed cubins ---- */

enum { WHOLE, TRUNCATED, CUBINS };

/* Uses the driver's linker: no compiler is needed. */
static void *make_cubin(ts_trial *t, size_t *n)
{
    ts_cu_any *l;
    void      *image;
    ts_trial_must(t, t->d->link_begin(0, NULL, NULL, &l), "linking");
    ts_trial_must(t,
                  t->d->link_add(l, TS_CU_PTX, (void *)(uintptr_t)ts_fact_ptx,
                                 strlen(ts_fact_ptx) + 1, "fact", 0, NULL, NULL),
                  "linking");
    ts_trial_must(t, t->d->link_end(l, &image, n), "linking");
    return image;
}

/* Loads the module, calls it n times, and returns its last count. */
static int count(ts_trial *t, const void *image, ts_device_ptr p, int n)
{
    ts_cu_any *m, *f;
    uint32_t   v = 0;
    void      *params[] = { &p };
    ts_trial_must(t, t->d->module_load(&m, image), "loading a cubin");
    ts_trial_must(t, t->d->module_function(&f, m, "ts_count"), "kernel of a cubin");
    for (int i = 0; i < n; i++)
        ts_trial_must(t, t->d->launch(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), "launch");
    ts_trial_must(t, t->d->copy_out(&v, p, sizeof v), "reading");
    ts_trial_must(t, t->d->module_unload(m), "unloading");
    return (int)v;
}

/* Its first half, up to an unmapped page. */
static const void *half(const void *image, size_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (n / 2 + page - 1) / page * page;
    char *at = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + room, page, PROT_NONE)) abort();
    return memcpy(at + room - n / 2, image, n / 2);
}

static void load_cubin(ts_trial *t, int i, uint64_t handle)
{
    ts_device_ptr p = 0;
    ts_cu_any    *m;
    size_t        n = 0;
    const void   *image = make_cubin(t, &n);
    ts_trial_must(t, ts_driver_place(t->d, handle, t->granule, 1, &p), "mapping");
    t->page->worker[i].after = 1; /* it got this far */
    if (i == TRUNCATED) {
        t->page->worker[i].code = t->d->module_load(&m, half(image, n));
        return;
    }
    t->page->worker[i].value[0] = count(t, image, p, 2);
    t->page->worker[i].value[1] = count(t, image, p, 1);
    t->page->worker[i].code = 0;
}

void ts_trial_cubin(ts_trial *t)
{
    int fd;
    ts_trial_hire(t, CUBINS, load_cubin);
    ts_trial_open(t);
    const ts_device_ptr p = ts_trial_share(t, 0x5a, &fd);
    for (int i = 0; i < CUBINS; i++) ts_trial_give(t, i, fd);
    const bool  came = ts_trial_ended(t, WHOLE), answered = ts_trial_ended(t, TRUNCATED);
    const int  *v = t->page->worker[WHOLE].value, code = t->page->worker[TRUNCATED].code;
    const bool  tried = t->page->worker[TRUNCATED].after;
    const bool  whole = ts_trial_whole(t, p + 64, 0x5a, 1 << 16);
    const char *end = !tried      ? "was not tested"
                      : !answered ? "hung its process"
                      : code < 0  ? "crashed its process"
                      : code      ? "was rejected"
                                  : "was LOADED";
    ts_trial_probe(t);
    ts_trial_say(t, "device-cubin",
                 came && !t->page->worker[WHOLE].code && v[0] == 2 && v[1] == 1 && tried && code &&
                     whole,
                 "every load of a cubin resets its globals, and a broken cubin harms only its own "
                 "process: a device global counts %d after two calls, %d after one call and a "
                 "reload; half a cubin %s; the keeper's data %s",
                 v[0], v[1], end, whole ? "whole" : "CHANGED");
}

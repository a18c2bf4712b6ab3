/* SPDX-License-Identifier: Apache-2.0 */
/* guarantee.c - tests this machine's guarantees by running attacks inside a cage. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cage_inside.h"
#include "ceiling.h"
#include "probe.h"
#include "quantile.h"
#include "reading.h"
#include "rng.h"
#include "selfcheck.h"

/* ---- the probe as a task ---- */

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    ts_probe_args *a = args;
    const int64_t  n = c->dim[1];
    *a = (ts_probe_args) { .what = c->dim[0], .n = n };
    float *x = ts_take(m, &a->x, (ts_buf) { "x", TS_IN, TS_F32, 1, n, n });
    ts_take(m, &a->y, (ts_buf) { "y", TS_OUT, TS_F32, 1, n, n });
    const ts_role role = c->dim[2] ? TS_INOUT : TS_OUT;
    float        *z = ts_take(m, &a->z, (ts_buf) { "z", role, TS_F32, 1, n, n });
    for (int64_t i = 0; i < n; i++) x[i] = (float)ts_normal(seed, i);
    if (c->dim[2]) memset(z, 0, (size_t)n * sizeof *z);
}

static size_t n_want(const ts_case *c)
{
    return 2 * (size_t)c->dim[1];
}

static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const ts_probe_args *a = args;
    for (int64_t i = 0; i < c->dim[1]; i++) {
        want[i] = (ts_want) { 2 * a->x[i], 0 };
        want[c->dim[1] + i] = (ts_want) { 3 * a->x[i], 0 };
    }
}

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const ts_probe_args *a = args;
    const int64_t        n = c->dim[1];
    return ts_check_buf((ts_buf) { "y", TS_OUT, TS_F32, 1, n, n }, a->y, want, f, e) &&
           ts_check_buf((ts_buf) { "z", TS_OUT, TS_F32, 1, n, n }, a->z, want + n, f, e);
}

static ts_cost cost(const ts_case *c)
{
    return (ts_cost) { .bytes = 12.0 * (double)c->dim[1], .flops = 2.0 * (double)c->dim[1] };
}

static const ts_case *cases(void)
{
    static const ts_case none = { 0 };
    return &none;
}

const ts_task ts_task_probe = {
    .name = "probe",
    .devices = TS_ON_CPU | TS_ON_CUDA,
    .buffer = { { "x", TS_IN, 1, false }, { "y", TS_OUT, 1, false }, { "z", TS_OUT, 1, false } },
    .dim_name = { "what", "n", "inout" },
    .args_bytes = sizeof(ts_probe_args),
    .cases = cases,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
};

/* ---- attempts ---- */

typedef struct attempt {
    const char *name;
    bool        needed;
    int class, what;
    const char *reason; /* the expected reason code; NULL: anything but success */
    const char *text;
} attempt;

static const attempt attempts[] = {
    { "right", true, TS_SEALED, TS_PROBE_RIGHT, "", "a correct sealed entrant passes" },
    { "right-host", true, TS_HOST, TS_PROBE_RIGHT, "", "a correct host entrant passes" },
    { "no-files", true, TS_SEALED, TS_PROBE_OPEN, "seal",
      "sealed: opening a file ends the entrant" },
    { "no-time-call", true, TS_SEALED, TS_PROBE_TIME, "seal",
      "sealed: reading the clock ends the entrant" },
    { "no-time-counter", true, TS_SEALED, TS_PROBE_TSC, "seal",
      "sealed: reading the time stamp counter ends the entrant" },
    { "no-sleep", true, TS_SEALED, TS_PROBE_SLEEP, "seal", "sealed: sleeping ends the entrant" },
    { "no-network", true, TS_SEALED, TS_PROBE_SOCKET, "seal",
      "sealed: opening a socket ends the entrant" },
    { "no-fork", true, TS_SEALED, TS_PROBE_FORK, "seal",
      "sealed: starting a process ends the entrant" },
    { "no-thread", true, TS_SEALED, TS_PROBE_THREAD, "seal",
      "sealed: starting a thread ends the entrant" },
    { "no-kill", true, TS_SEALED, TS_PROBE_KILL, "seal", "sealed: the judge cannot be killed" },
    { "no-peek", true, TS_SEALED, TS_PROBE_PEEK, "seal",
      "sealed: the judge's memory cannot be read" },
    { "inputs", true, TS_SEALED, TS_PROBE_WRITE_INPUT, "input", "inputs cannot be written" },
    { "guard-past", true, TS_SEALED, TS_PROBE_READ_PAST, "past",
      "an access past a buffer is detected" },
    { "guard-before", true, TS_SEALED, TS_PROBE_READ_BEFORE, "before",
      "an access before a buffer is detected" },
    { "late", true, TS_SEALED, TS_PROBE_LATE, "output-late or early",
      "an output that changes after completion is detected" },
    { "lurk", true, TS_SEALED, TS_PROBE_LURK, "early", "work between calls is detected" },
    { "fp-mode", true, TS_SEALED, TS_PROBE_FLUSH, "", "a changed floating-point mode is detected" },
    { "host-files", true, TS_HOST, TS_PROBE_OPEN, NULL, "host: files cannot be read" },
    { "host-write", true, TS_HOST, TS_PROBE_WRITE_FILE, NULL, "host: files cannot be written" },
    { "host-network", true, TS_HOST, TS_PROBE_SOCKET, NULL, "host: no network" },
    { "host-fork", true, TS_HOST, TS_PROBE_FORK, NULL, "host: no process can be started" },
    { "host-exec", true, TS_HOST, TS_PROBE_EXEC, NULL, "host: no other program can be run" },
    { "host-kill", true, TS_HOST, TS_PROBE_KILL, NULL, "host: the judge cannot be killed" },
    { "host-peek", true, TS_HOST, TS_PROBE_PEEK, NULL, "host: the judge's memory cannot be read" },
    { "host-affinity", true, TS_HOST, TS_PROBE_AFFINITY, NULL,
      "host: the judge's core cannot be taken" },
    { "host-remap", true, TS_HOST, TS_PROBE_REMAP_INPUT, NULL,
      "host: inputs cannot be made writable" },
    { "host-memory", true, TS_HOST, TS_PROBE_MEMORY, "memory", "host: memory is limited" },
};

/* On a device, with its driver in the process. */
static const attempt on_device[] = {
    { "device-right", true, TS_GPU_HOST, TS_PROBE_NOTHING, NULL,
      "on a device: host code is called" },
    { "device-files", true, TS_GPU_HOST, TS_PROBE_WRITE_FILE, NULL,
      "on a device: files cannot be written" },
    { "device-fork", true, TS_GPU_HOST, TS_PROBE_FORK, "seal", "on a device: no second process" },
    { "device-exec", true, TS_GPU_HOST, TS_PROBE_EXEC, "seal", "on a device: no other program" },
    { "device-peek", true, TS_GPU_HOST, TS_PROBE_PEEK, "seal",
      "on a device: the judge cannot be read" },
    { "device-memfd", true, TS_GPU_HOST, TS_PROBE_MEMFD, NULL, "on a device: no uncounted memory" },
    { "device-affinity", true, TS_GPU_HOST, TS_PROBE_AFFINITY, NULL,
      "on a device: the judge's core cannot be taken" },
};

enum { ELEMENTS = 4096, SIGNALS = 300, LEADS = 60 };

/* A line from memory takes tens of times as long as one from the first-level cache, and one from
 * the last-level cache five times. */
static const double FLUSHED = 4;

uint64_t ts_probe_seed(const ts_case *c)
{
    uint64_t seed = 0, layout;
    do layout = ts_layout_of(c, ++seed);
    while (ts_lay_of(layout, 0) != TS_LAY_END || ts_lay_of(layout, 1) != TS_LAY_END ||
           ts_lay_of(layout, 2) != TS_LAY_FRONT);
    return seed;
}

static ts_cage *start(int class, const ts_case *c, int n_threads, bool timed, char *why, size_t n)
{
    char         object[1024];
    ts_cage_plan p = { .class = (ts_class) class,
                       .object = object,
                       .task = &ts_task_probe,
                       .n_slots = 1,
                       .slot = { c },
                       .seed = { ts_probe_seed(c) },
                       .n_threads = n_threads,
                       .aligned = timed,
                       .unsafe = true, /* the probe is trusted, and reports what is missing */
                       .memory_bytes = 64 << 20,
                       .workspace_bytes = 1 << 20,
                       .limit_ms = 5000 };
    snprintf(why, n, "error: touchstone-probe.so not found");
    return ts_beside("touchstone-probe.so", object, sizeof object)
               ? ts_cage_start_patiently(&p, why, n)
               : NULL;
}

static bool passes(const ts_case *c, const void *args, const ts_want *want, const ts_call *r)
{
    ts_flaw   f;
    ts_errors e = { 0 };
    return !r->status && check(c, args, want, &f, &e);
}

static unsigned host_held; /* in all attempts of class host */

static ts_guarantee try(const attempt *t)
{
    const ts_case c = { .dtype = TS_F32, .dim = { t->what, ELEMENTS } };
    ts_guarantee  g = { .name = t->name, .needed = t->needed };
    char          why[256];
    ts_call       r = { 0 };
    ts_cage      *k = start(t->class, &c, 2, false, why, sizeof why);
    ts_want      *want = calloc(n_want(&c), sizeof *want);
    if (!want) abort();
    /* Without a sandbox the attempt would succeed and kill the judge. */
    if (k && t->what == TS_PROBE_KILL &&
        !(ts_cage_held(k) & (TS_HELD_SECCOMP | TS_HELD_NAMESPACE))) {
        snprintf(why, sizeof why,
                 "the sandbox lacks seccomp and namespaces, so the judge might be killed");
        ts_cage_stop(&k);
    }
    if (k && t->class != TS_SEALED) host_held &= ts_cage_held(k);
    if (k) {
        const void *args = ts_cage_fill(k, 0, 0x5eed);
        oracle(&c, args, want);
        const bool  ok = ts_cage_call(k, 0, &r);
        const char *reason = ts_call_reason(&r);
        if (t->what == TS_PROBE_NOTHING) g.held = ok && !r.status;
        else if (!t->reason) g.held = !ok || r.status;
        else if (t->what == TS_PROBE_FLUSH) g.held = ok && r.fp_changed;
        else if (*t->reason) g.held = *reason && strstr(t->reason, reason);
        else g.held = ok && passes(&c, args, want, &r);
        snprintf(g.text, sizeof g.text, "%s%s%s", t->text, g.held ? "" : ": failed, got ",
                 g.held    ? ""
                 : *reason ? reason
                           : "a normal return");
    } else {
        snprintf(g.text, sizeof g.text, "%s: not tested, %.80s", t->text, why);
    }
    ts_cage_stop(&k);
    free(want);
    return g;
}

/* Times start, call and freeze of an empty entrant. */
static bool time_nothing(ts_guarantees *g, unsigned *held, bool *shares)
{
    const ts_case c = { .dtype = TS_F32, .dim = { TS_PROBE_NOTHING, 16 } };
    double        start_ns[5], signal[SIGNALS], freeze[SIGNALS], outside[SIGNALS];
    char          why[256];
    ts_cage      *k = NULL;
    for (int i = 0; i < 5; i++) {
        ts_cage_stop(&k);
        const double t = ts_now_ns();
        k = start(TS_SEALED, &c, 1, false, why, sizeof why);
        start_ns[i] = ts_now_ns() - t;
        if (!k)
            return snprintf(g->why, sizeof g->why, "the sandbox cannot be started: %.180s", why),
                   false;
    }
    for (int i = 0; i < SIGNALS; i++) {
        ts_call r;
        ts_cage_call(k, 0, &r);
        if (r.end) {
            snprintf(g->why, sizeof g->why, "an entrant that does nothing crashed: %.180s", r.text);
            ts_cage_stop(&k);
            return false;
        }
        signal[i] = r.ns;
        outside[i] = r.cpu_outside_ns;
        ts_cage_thaw(k);
        const double t = ts_now_ns();
        ts_cage_freeze(k);
        freeze[i] = ts_now_ns() - t;
    }
    g->start_ms = ts_median(start_ns, 5) * 1e-6;
    g->empty_ns = ts_median(signal, SIGNALS);
    g->empty_p95_ns = ts_quantile(signal, SIGNALS, 0.95);
    g->freeze_ns = ts_median(freeze, SIGNALS);
    g->honest.outside_ns = ts_median(outside, SIGNALS);
    *held = ts_cage_held(k);
    *shares = ts_cage_shares_core(k);
    ts_cage_stop(&k);
    return true;
}

/* CPU time of an entrant that does nothing, outside its call, at this moment. */
static double outside_now(void)
{
    enum { CALLS = 8 };
    static bool   nested; /* a strike of this entrant itself shows nothing */
    const ts_case c = { .dtype = TS_F32, .dim = { TS_PROBE_NOTHING, 16 } };
    double        ns[CALLS] = { 0 };
    char          why[256];
    if (nested) return 0;
    nested = true;
    ts_cage *k = start(TS_SEALED, &c, 1, false, why, sizeof why);
    for (int i = 0; k && i < CALLS; i++) {
        ts_call r;
        ts_cage_call(k, 0, &r);
        ns[i] = r.cpu_outside_ns;
    }
    ts_cage_stop(&k);
    nested = false;
    return ts_median(ns, CALLS);
}

/* Upper limit of the allowance per thread, for a machine too busy to measure. */
static const double LEAD_MOST_NS = 60e3;

/* The time before go that a correct entrant needs with this many bytes laid out and cold caches:
 * 1.25 times the lower quartile, which other load hardly affects. So a normal call is not charged,
 * and a cheating entrant, which has to wake up too, gains little more than that quarter. */
static double lead(size_t n_bytes, int n_threads)
{
    const int64_t n =
        (int64_t)(n_bytes / (3 * sizeof(float))) + 16; /* the probe has three buffers */
    const ts_case c = { .dtype = TS_F32, .dim = { TS_PROBE_NOTHING, n } };
    char          why[256];
    double        ns[LEADS];
    ts_cage      *k = start(TS_SEALED, &c, n_threads, true, why, sizeof why);
    for (int i = 0; i < LEADS; i++) {
        ts_call r = { 0 };
        if (k) {
            ts_cage_fill(k, 0, (uint64_t)i);
            const ts_arena *m = ts_cage_arena(k, 0);
            for (int b = 0; b < m->n; b++)
                ts_flush_lines(m->buf[b].p, m->buf[b].p + m->buf[b].n_bytes);
            ts_cage_call(k, 0, &r);
        }
        ns[i] = r.n_wakes ? r.lead_ns / r.n_wakes : 0;
    }
    ts_cage_stop(&k);
    const double usual = 1.25 * ts_quantile(ns, LEADS, 0.25), most = n_threads * LEAD_MOST_NS;
    return usual < most ? usual : most;
}

/* For one thread, and for as many as an entrant has when it is timed. */
static void learn_leads(ts_honest *h)
{
    cpu_set_t may;
    const int cores = sched_getaffinity(0, sizeof may, &may) ? 2 : CPU_COUNT(&may);
    h->outside_now = outside_now;
    h->many = cores < 3 ? 2 : cores > 64 ? 64 : cores - 1;
    for (int i = 0; i < TS_LEADS; i++) {
        h->lead_ns[i] = lead(ts_lead_bytes[i], 1);
        h->many_ns[i] = lead(ts_lead_bytes[i], h->many);
        /* More bytes never need less time: a lower value was a quiet moment. */
        if (i && h->lead_ns[i] < h->lead_ns[i - 1]) h->lead_ns[i] = h->lead_ns[i - 1];
        if (i && h->many_ns[i] < h->many_ns[i - 1]) h->many_ns[i] = h->many_ns[i - 1];
        if (h->many_ns[i] < h->lead_ns[i]) h->many_ns[i] = h->lead_ns[i];
    }
}

void ts_held_names(unsigned lacks, char *text, size_t n)
{
    static const char *const name[] = { "another user", "namespaces",
                                        "seccomp",      "a hidden clock",
                                        "landlock",     "a network of its own",
                                        "mounts",       "a count of threads" };
    *text = 0;
    for (size_t i = 0, at = 0; i < sizeof name / sizeof *name; i++)
        if (lacks >> i & 1 && at < n)
            at += (size_t)snprintf(text + at, n - at, "%s%s", at ? ", " : "", name[i]);
}

static void add(ts_guarantees *g, const char *name, bool held, const char *yes, const char *no)
{
    ts_guarantee *a = &g->g[g->n++];
    *a = (ts_guarantee) { .name = name, .held = held, .needed = true };
    snprintf(a->text, sizeof a->text, "%s", held ? yes : no);
}

/* Whether the reader runs, and whether its system calls are filtered. */
static bool try_reader(ts_guarantees *g, bool *filtered)
{
    static const ts_reader_file own = { NULL, TS_READER_SECONDS };
    const ts_question           q = { .what = TS_READ_SOURCES, .language = TS_C };
    ts_reply                    reply;
    ts_reading                  r = { 0 };
    ts_refusal                  why = { 0 };
    const bool                  ok =
        ts_ask_process(&own, &q, NULL, &reply, &why) && ts_reading_take(&reply, &q, &r, &why);
    if (!ok) snprintf(g->why, sizeof g->why, "%.250s", why.text);
    *filtered = r.filtered;
    return ok;
}

void ts_guarantee_device(ts_guarantees *g)
{
    for (size_t i = 0; i < sizeof on_device / sizeof *on_device; i++) {
        g->g[g->n++] = try(&on_device[i]);
        if (!g->g[g->n - 1].held && !strcmp(g->badge, "full")) g->badge = "reduced";
    }
}

bool ts_guarantee_all(ts_guarantees *g)
{
    unsigned held = 0;
    bool     shares = true, filtered = false;
    *g = (ts_guarantees) { .badge = "none" };
    learn_leads(&g->honest);
    ts_cage_calibrate(&g->honest);
    if (!time_nothing(g, &held, &shares) || !try_reader(g, &filtered)) return false;
    ts_cage_calibrate(&g->honest);
    host_held = ~0u;
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
        g->g[g->n++] = try(&attempts[i]);
    g->sealed_lacks = TS_NEEDED_SEALED & ~held;
    g->host_lacks = TS_NEEDED_HOST & ~host_held;
    add(g, "cold", ts_flush_effect() > FLUSHED, "data can be flushed from the caches",
        "data cannot be flushed from the caches: cold calls are warm");
    add(g, "own-core", !shares, "the judge has its own core",
        "judge and entrant share one core: times are approximate");
    add(g, "other-user", held & TS_HELD_USER,
        "an entrant runs as another user without capabilities",
        "an entrant runs as the judge's user; run the judge as root");
    const unsigned own = TS_HELD_NAMESPACE | TS_HELD_THREADS;
    add(g, "namespaces", (held & own) == own, "an entrant runs in its own namespaces",
        held & TS_HELD_NAMESPACE
            ? "no user namespace: the threads of all entrants count as one user's"
            : "an entrant shares the machine's namespaces");
    char lacks[128];
    ts_held_names(g->host_lacks, lacks, sizeof lacks);
    add(g, "confined", !g->host_lacks,
        "no entrant runs without a system-call filter, locked files and mounts", lacks);
    add(g, "reader", filtered, "the text of an entrant is parsed behind a system-call filter",
        "no system-call filter: resource limits alone confine the parser of an entrant's text");
    g->badge = g->g[0].held ? "full" : "none";
    snprintf(g->why, sizeof g->why, "%s", g->g[0].held ? "" : g->g[0].text);
    for (int i = 0; i < g->n && g->g[0].held; i++)
        if (g->g[i].needed && !g->g[i].held) g->badge = "reduced";
    return g->g[0].held;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* survey.c - measures a device, in a process of its own. */
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "keep_gate.h"
#include "nothing.h"

enum { PROBES = 16 };

static const ts_driver *d;
static ts_survey       *found;

static void must(int code, const char *what)
{
    if (!code) return;
    snprintf(found->text, sizeof found->text, "%s: %s", what, ts_driver_text(d, code));
    _exit(1);
}

int ts_keep_probe(const ts_driver *driver, ts_cu_any *nothing, double *ns)
{
    const double begin = ts_thread_cpu_ns();
    int          code = ts_nothing_launch(driver, nothing, NULL);
    if (!code) code = driver->sync();
    *ns = ts_thread_cpu_ns() - begin;
    return code;
}

int ts_keep_usual(const ts_driver *driver, ts_cu_any *nothing, double *usual_ns)
{
    double ns;
    int    code = ts_keep_probe(driver, nothing, usual_ns);
    for (int i = 0; i < PROBES && !code; i++) {
        code = ts_keep_probe(driver, nothing, &ns);
        if (ns < *usual_ns) *usual_ns = ns;
    }
    return code;
}

static double copy_rate(size_t n)
{
    ts_device_ptr a, b;
    ts_cu_any    *from, *to;
    float         ms = 0, best = 1e9f;
    must(d->alloc(&a, n), "device memory");
    must(d->alloc(&b, n), "device memory");
    must(d->event_create(&from, 0), "clock");
    must(d->event_create(&to, 0), "clock");
    for (int i = 0; i < 8; i++) {
        must(d->event_record(from, NULL), "clock");
        must(d->copy_within(b, a, n, NULL), "copying");
        must(d->event_record(to, NULL), "clock");
        must(d->event_sync(to), "copying");
        must(d->event_elapsed(&ms, from, to), "clock");
        if (ms > 0 && ms < best) best = ms;
    }
    return 2e-6 * (double)n / best;
}

/* Eight blocks of 256 threads per multiprocessor, each thread with eight sums. */
static double fma_rate(unsigned n_processors)
{
    const unsigned grid = 8 * n_processors, block = 256;
    uint32_t       n_steps = 4096;
    ts_device_ptr  out;
    ts_cu_any     *module, *f, *from, *to;
    float          ms = 0, best = 1e9f;
    void          *params[] = { &out, &n_steps };
    must(d->module_load(&module, ts_fact_ptx), "kernel");
    must(d->module_function(&f, module, "ts_fma"), "kernel");
    must(d->alloc(&out, sizeof(float)), "device memory");
    must(d->event_create(&from, 0), "clock");
    must(d->event_create(&to, 0), "clock");
    for (int i = 0; i < 8; i++) {
        must(d->event_record(from, NULL), "clock");
        must(d->launch(f, grid, 1, 1, block, 1, 1, 0, NULL, params, NULL), "launch");
        must(d->event_record(to, NULL), "clock");
        must(d->event_sync(to), "computing");
        must(d->event_elapsed(&ms, from, to), "clock");
        if (ms > 0 && ms < best) best = ms;
    }
    return best < 1e9f ? 2e-6 * 8 * n_steps * grid * block / best : 0;
}

_Noreturn void ts_keep_survey(ts_survey *s)
{
    char       name[128] = "";
    int        v[4] = { 0 }, version = 0;
    size_t     memory = 0;
    ts_cu_any *nothing;
    found = s;
    d = ts_driver_open(s->text, sizeof s->text);
    if (!d) _exit(1);
    must(d->device_name(name, sizeof name, 0), "device name");
    const int what[4] = { TS_CU_MAJOR, TS_CU_MINOR, TS_CU_SMS, TS_CU_L2_BYTES };
    for (int i = 0; i < 4; i++) must(d->device_attribute(&v[i], what[i], 0), "device");
    must(d->device_memory(&memory, 0), "device memory");
    must(d->version(&version), "driver version");
    snprintf(s->arch, sizeof s->arch, "sm_%d%d", v[0], v[1]);
    snprintf(s->text, sizeof s->text, "%s, %s, %d multiprocessors, %d MiB L2, %.0f GiB, CUDA %d.%d",
             name, s->arch, v[2], v[3] >> 20, (double)memory / 1073741824.0, version / 1000,
             version % 1000 / 10);
    must(ts_nothing_load(d, ts_nothing_ptx, &nothing), "empty kernel");
    must(ts_keep_usual(d, nothing, &s->probe_ns), "empty kernel");
    s->n_bytes = (double)memory;
    s->copy_gbs = copy_rate((size_t)16 * (size_t)v[3]);
    s->gflops = fma_rate((unsigned)v[2]);
    s->matrix = v[0] >= 8 ? 16 : 1;
    s->there = true;
    _exit(0);
}

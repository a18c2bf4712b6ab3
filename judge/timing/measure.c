/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c - measures the peak rates of this machine or its device. */
#include <math.h>

#include "examine.h"
#include "run.h"

/* On the device: the driver's copy, and the project's kernels if they are built. */
static void measure_device(ts_run *c)
{
    const ts_function e = { .name = "ceilings", .device = TS_CUDA, .mask = ~0u };
    ts_arena          arena;
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

double ts_run_measure(ts_run *c, double bytes)
{
    if (c->device == TS_CPU) return ts_floor_memory(&c->peaks, bytes, c->n_threads);
    measure_device(c);
    return c->peaks.gbs;
}

/* Peaks that do not depend on the workload, and a first measurement of memory. */
void ts_run_measure_all(ts_run *c)
{
    enum { BYTES = 64 << 20 };
    if (c->device == TS_CPU) {
        c->peaks.call_ns = c->machine.empty_ns;
        ts_floor_memory(&c->peaks, BYTES, c->n_threads);
        ts_floor_arithmetic(&c->peaks, c->exp_sums, c->n_threads);
        return;
    }
    measure_device(c);
    c->peaks.call_ns = c->survey.probe_ns;
    c->peaks.gflops = c->survey.gflops;
    c->peaks.matrix = c->survey.matrix;
}

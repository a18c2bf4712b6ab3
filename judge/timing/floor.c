/* SPDX-License-Identifier: Apache-2.0 */
/* floor.c - measures peak rates of the CPU and derives floors from them. */
#define _GNU_SOURCE
#include "floor.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "ceiling.h"
#include "model_rate.h"
#include "worker.h"

enum { MOST_BYTES = 512 << 20, LEAST_BYTES = 64 << 10 };

/* Measure until STEADY_ROUNDS rounds have not raised the peak by 1 %: where other virtual machines
 * share the memory, six rounds alone were once 25 % too low. */
enum { STEADY_ROUNDS = 6, MOST_ROUNDS = 30 };
static const double GROWTH = 1.01;

/* float32 precision from bfloat16 parts takes at least three matmuls. */
static const double PIECES = 3;

ts_floor ts_floor_of(const ts_peaks *p, ts_cost cost, double gbs)
{
    const double own_bytes = cost.bytes - (double)sizeof(float) * cost.model_sums;
    const double memory = gbs > 0 ? own_bytes / gbs : 0;
    const double flops = cost.least_flops > 0 ? cost.least_flops : cost.flops;
    const double arithmetic = p->gflops > 0 ? flops / p->gflops : 0;
    const double exps =
        (p->gexps > 0 ? cost.exps / p->gexps : 0) + (p->gdexps > 0 ? cost.dexps / p->gdexps : 0);
    ts_floor f = { memory, 0, "memory" };
    if (arithmetic > f.ns) f = (ts_floor) { arithmetic, 0, "arithmetic" };
    if (exps > f.ns) f = (ts_floor) { exps, 0, "exponentials" };
    if (p->call_ns > f.ns) f = (ts_floor) { p->call_ns, 0, "call" };
    f.ns += p->model_ns * cost.model_logits + p->sum_ns * cost.model_sums;
    f.hard_ns =
        fmax(p->gbs > 0 ? cost.bytes / p->gbs : 0, arithmetic / fmax(1, p->matrix / PIECES));
    return f;
}

/* One pass of each kind: a copy from one half of the block to the other, or a read of all of it. */
static double best_pass(unsigned char *block, size_t n, int n_threads)
{
    double best = 0;
    for (int kind = 0; kind < TS_N_CEILINGS; kind++) {
        const bool read = kind == TS_CEILING_READ;
        ts_flush_together(block, n, n_threads);
        const ts_pass p = ts_ceiling_pass(kind, block + n / 2, block, read ? n : n / 2, n_threads);
        if (p.bytes > 0) best = fmax(best, p.bytes / p.ns);
    }
    return best;
}

double ts_floor_memory(ts_peaks *p, double bytes, int n_threads)
{
    const double   most = fmin(fmax(bytes, LEAST_BYTES), MOST_BYTES);
    const size_t   n = (size_t)most / (2 << 12) * (2 << 12); /* two halves, in whole pages */
    double         best = 0;
    unsigned char *block =
        mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return p->gbs;
    memset(block, 1, n);
    for (int i = 0, grown = 0; i < grown + STEADY_ROUNDS && i < MOST_ROUNDS; i++) {
        const double was = best;
        for (int t = n_threads; t > 0; t = t > 1 ? (t + 3) / 4 : 0) /* all, a quarter, ..., one */
            best = fmax(best, best_pass(block, n, t));
        if (best > GROWTH * was) grown = i;
    }
    munmap(block, n);
    p->gbs = fmax(p->gbs, best);
    return best;
}

void ts_floor_arithmetic(ts_peaks *p, const ts_exp_sums *sums, int n_threads)
{
    p->gexps = sums ? fmax(p->gexps, ts_ceiling_exps(sums, false, n_threads)) : 0;
    p->gdexps = sums ? fmax(p->gdexps, ts_ceiling_exps(sums, true, n_threads)) : 0;
    ts_model_rates(&p->model_ns, &p->sum_ns);
    p->gflops = fmax(p->gflops, ts_ceiling_gflops(n_threads));
    p->matrix = ts_ceiling_matrix();
}

bool ts_floor_beaten(ts_floor f, double ns)
{
    return ns > 0 && f.hard_ns / ns > 1.02;
}

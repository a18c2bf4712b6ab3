/* SPDX-License-Identifier: Apache-2.0 */
/* workload.c - selects the timed cases, and how often each is run. */
#include <math.h>
#include <string.h>

#include "timing.h"

const ts_timing_rule *ts_timing_rule_of(const ts_run *c)
{
    static const ts_timing_rule of[2][TS_N_DEPTHS] = {
        /* TS_CPU, TS_CUDA */
        { { 15, 4e5, 8e7, 1, 8 }, { 45, 4e5, 8e7, 3, 12 }, { 64, 4e5, 1.1e9, 4, TS_HOSTILE } },
        { { 9, 1e8, 3e8, 1, 8 }, { 15, 1e8, 3e8, 2, 12 }, { 25, 1e8, 1.1e9, 4, TS_HOSTILE } },
    };
    return &of[c->device][c->depth];
}

/* Device workloads are sized for 4.2 TB/s, at which they take 24 to 70 us: slower devices get
 * smaller ones. */
static double scale_of(const ts_run *c)
{
    return c->device == TS_CPU ? 1 : fmax(0.1, fmin(c->peaks.gbs / 4200, 1));
}

/* A case may also qualify by its arithmetic: 14 float32 operations count as a byte. */
static bool is_workload(const ts_run *c, const ts_task *t, const ts_case *of)
{
    const ts_cost cost = t->cost(of);
    const double  size = c->device == TS_CPU ? cost.bytes : fmax(cost.bytes, cost.flops / 14);
    return of->use & (TS_USE_TIME | TS_USE_JUDGE) && of->dtype == TS_F32 &&
           !(of->use & TS_USE_LARGE && c->device == TS_CPU) && !strcmp(of->family, "normal") &&
           size >= scale_of(c) * ts_timing_rule_of(c)->least &&
           cost.bytes <= scale_of(c) * ts_timing_rule_of(c)->most;
}

/* The largest first; no two have the same size. None on a device with a model: it runs on the host,
 * and would be most of the time. */
int ts_run_workloads(const ts_run *c, const ts_task *t, int number[TS_WORKLOADS])
{
    const ts_case *all = t->cases();
    const bool     timed = c->device == TS_CPU || !t->has_model;
    int            n = 0;
    while (timed && n < ts_timing_rule_of(c)->workloads) {
        int    best = -1;
        double best_bytes = 0;
        for (int i = 0; all[i].use; i++) {
            const double bytes = t->cost(&all[i]).bytes;
            bool         fits = is_workload(c, t, &all[i]) && bytes > 1.05 * best_bytes;
            for (int k = 0; k < n && fits; k++) fits = bytes < 0.7 * t->cost(&all[number[k]]).bytes;
            if (fits) best = i, best_bytes = bytes;
        }
        if (best < 0) break;
        number[n++] = best;
    }
    return n;
}

const ts_case *ts_run_workload_within(const ts_task *t, const ts_scope *s, int number)
{
    const ts_case *common = &t->cases()[number];
    if (ts_scope_takes(s, t, common)) return common;
    const int own = ts_scope_number(s, t, number);
    return own < 0 ? NULL : &ts_scope_cases(s, t)[own];
}

double ts_run_timed_work(const ts_run *c, const ts_task *t)
{
    int       number[TS_WORKLOADS];
    const int n = c->only || c->untimed ? 0 : ts_run_workloads(c, t, number);
    const int calls = ts_timing_rule_of(c)->instances + ts_timing_rule_of(c)->hostile;
    double    work = 0;
    for (int i = 0; i < n; i++) work += calls * ts_work_of(t, &t->cases()[number[i]]);
    return work;
}

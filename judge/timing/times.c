/* SPDX-License-Identifier: Apache-2.0 */
/* times.c - evaluates the times of a challenge: floors, memory, and times below the floor. */
#include <math.h>
#include <string.h>

#include "quantile.h"
#include "timing.h"

static ts_floor floor_of(const ts_timing *s, int w)
{
    return ts_floor_of(&s->run->peaks, s->task->cost(s->workload[w]), s->gbs[w]);
}

static ts_interval time_of(const ts_timing *s, const ts_judged *e, int w)
{
    double ns[TS_INSTANCES];
    memcpy(ns, e->ns[w], sizeof ns);
    return ts_quantile_interval(ns, (size_t)s->n_instances, TS_TIME_QUANTILE);
}

static bool log_times(const ts_timing *s, const ts_judged *e, int w)
{
    char name[192];
    if (!ts_is_timed(s, e, w)) return true; /* the score treats it as missing */
    const ts_floor    f = floor_of(s, w);
    const ts_interval t = time_of(s, e, w);
    ts_case_string(s->task, s->workload[w], 0, name, sizeof name);
    name[strcspn(name, "@")] = 0;
    ts_jw *j = ts_log_begin(s->run->log, "time");
    ts_jw_int(j, "entrant", e->id);
    ts_jw_text(j, "task", ts_run_label(s->run, s->task));
    ts_jw_text(j, "case", name);
    ts_jw_int(j, "workload", w);
    ts_jw_int(j, "workloads", s->n_workloads);
    ts_jw_num(j, "floor_ns", f.ns);
    ts_jw_num(j, "hard_ns", f.hard_ns);
    ts_jw_text(j, "floor_by", f.by);
    ts_jw_num(j, "bytes", s->task->cost(s->workload[w]).bytes);
    ts_jw_num(j, "flops", s->task->cost(s->workload[w]).flops);
    if (ts_has_idle(s, e->entrant.cls)) {
        ts_jw_num(j, "idle_ns", e->idle_ns[w]);
        ts_jw_num(j, "late_ns", e->late_ns[w]);
    }
    ts_jw_num(j, "workspace_bytes", e->timed_workspace[w]);
    ts_jw_num(j, "own_bytes", e->own_bytes[w]);
    ts_jw_open(j, "ns", '[');
    for (int i = 0; i < s->n_instances; i++) ts_jw_num(j, NULL, e->ns[w][i]);
    ts_jw_close(j, ']');
    ts_jw_num(j, "time_ns", t.mid);
    ts_jw_num(j, "lo_ns", t.lo);
    ts_jw_num(j, "hi_ns", t.hi);
    ts_jw_num(j, "fraction", f.ns / t.mid);
    ts_jw_num(j, "error", ts_errors_quantile(&e->timed_errors[w], 0.999));
    return ts_log_commit(s->run->log);
}

/* Memory as a multiple of the bytes read and written; the maximum over workloads counts. */
static void count_memory(const ts_timing *s, ts_judged *e)
{
    for (int w = 0; w < s->n_workloads; w++) {
        if (!ts_is_timed(s, e, w)) continue;
        const double io = s->task->cost(s->workload[w]).bytes;
        const double bytes = e->timed_workspace[w] + e->own_bytes[w];
        if (bytes * e->io_bytes <= e->workspace_bytes * io) continue;
        e->workspace_bytes = bytes;
        e->io_bytes = io;
    }
}

/* Records an entrant that is faster than the floor. */
static void compare_with_floor(const ts_timing *s, ts_judged *e)
{
    for (int w = 0; w < s->n_workloads; w++) {
        char text[128];
        if (!ts_is_timed(s, e, w)) continue;
        const ts_floor f = floor_of(s, w);
        const double   ns = time_of(s, e, w).mid;
        if (!ts_floor_beaten(f, ns)) continue;
        snprintf(text, sizeof text,
                 "took %.2f of the least time possible on this machine, in workload %d",
                 ns / f.hard_ns, w);
        ts_observe_speed(e, text);
    }
}

bool ts_timing_log(const ts_timing *s)
{
    bool ok = true;
    for (int i = 0; i < s->n; i++) {
        for (int w = 0; w < s->n_workloads && ok; w++) ok = log_times(s, s->e[i], w);
        count_memory(s, s->e[i]);
        compare_with_floor(s, s->e[i]);
    }
    return ok;
}

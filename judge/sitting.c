/* SPDX-License-Identifier: Apache-2.0 */
/* sitting.c - who is faster? All who passed a challenge take turns on the same instances, with cold
 * caches, in an order drawn anew each time; every timed answer is checked. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ceiling.h"
#include "court.h"
#include "score.h"
#include "stats.h"

static const struct {
    int    instances;
    double least, most; /* bytes of a workload */
    int    workloads;
} DEPTH[2][TS_N_DEPTHS] = {
    { { 7, 4e5, 8e7, 1 }, { 45, 4e5, 8e7, 3 }, { 64, 4e5, 1.1e9, 4 } },  /* TS_CPU */
    { { 5, 1e7, 1.5e8, 1 }, { 9, 1e7, 3e8, 2 }, { 25, 1e7, 1.1e9, 4 } }, /* TS_CUDA */
};

typedef struct sitting {
    ts_court      *court;
    const ts_task *task;
    int            n, n_workloads, n_instances;
    ts_contender  *e[TS_CONTENDERS];
    const ts_case *workload[TS_WORKLOADS];
    int            number[TS_WORKLOADS];
} sitting;

/* No two are of one size. */
int ts_court_workloads(const ts_court *c, const ts_task *t, int number[TS_WORKLOADS])
{
    const ts_case *all = t->cases();
    int            n = 0;
    while (n < DEPTH[c->device][c->depth].workloads) {
        int    best = -1;
        double best_bytes = 0;
        for (int i = 0; all[i].use; i++) {
            const double bytes = t->cost(&all[i]).bytes;
            bool fits = all[i].use & (TS_USE_TIME | TS_USE_JUDGE) && all[i].dtype == TS_F32 &&
                        !strcmp(all[i].family, "normal") &&
                        bytes >= DEPTH[c->device][c->depth].least &&
                        bytes <= DEPTH[c->device][c->depth].most && bytes > 1.05 * best_bytes;
            for (int k = 0; k < n && fits; k++) fits = bytes < 0.7 * t->cost(&all[number[k]]).bytes;
            if (fits) best = i, best_bytes = bytes;
        }
        if (best < 0) break;
        number[n++] = best;
    }
    return n;
}

static void make_cold(const ts_arena *m)
{
    for (int i = 0; i < m->n; i++) ts_flush_lines(m->buf[i].p, m->buf[i].p + m->buf[i].n_bytes);
}

/* One timed call. False, and the entrant's ruling, if it is wrong. */
static bool timed_call(sitting *s, ts_contender *e, ts_cage *cage, int w, uint64_t seed,
                       ts_want *want, bool *known, double *ns)
{
    const ts_case *c = s->workload[w];
    const void    *args = ts_cage_fill(cage, 0, seed);
    ts_flaw        f = { 0 };
    ts_errors      errors = { 0 };
    ts_call        r;
    if (!*known) s->task->oracle(c, args, want), *known = true;
    if (s->court->device == TS_CPU) make_cold(ts_cage_arena(cage, 0)); /* else the keeper does */
    if (!ts_cage_call(cage, 0, &r) || r.status || r.fp_changed)
        return ts_court_fail_by_call(e, c, seed, &r);
    *ns = r.ns;
    e->n_calls++;
    const bool ok =
        ts_arena_intact(ts_cage_arena(cage, 0), &f) && s->task->check(c, args, want, &f, &errors);
    e->worst = fmax(e->worst, errors.worst);
    return ok || ts_court_fail_by_flaw(e, c, seed, f);
}

static ts_cage *cage_for(sitting *s, ts_contender *e, int w)
{
    ts_cage_plan plan;
    char         why[256];
    ts_call      r;
    ts_court_plan(s->court, e, &plan);
    ts_court_plan_case(&plan, s->workload[w]);
    plan.aligned = true;
    ts_cage *cage = ts_cage_start(&plan, why, sizeof why);
    if (cage) {
        ts_cage_fill(cage, 0, ts_court_seed(s->court, s->task, s->number[w], -2));
        if (!ts_cage_workspace(cage, 0, &r) || r.status) ts_cage_stop(&cage);
    }
    return cage;
}

/* A turn of each on one instance, in an order of its own. */
static void take_turns(sitting *s, ts_cage **cage, int w, int instance, ts_want *want)
{
    const uint64_t seed = ts_court_seed(s->court, s->task, s->number[w], 1 + instance);
    bool           known = false;
    int            order[TS_CONTENDERS];
    for (int i = 0; i < s->n; i++) {
        const int j = (int)(ts_court_seed(s->court, s->task, i, 100000 + instance) % (i + 1u));
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < s->n; i++) {
        ts_contender *e = s->e[order[i]];
        if (!e->timed || !cage[order[i]]) continue;
        if (!timed_call(s, e, cage[order[i]], w, seed, want, &known, &e->ns[w][instance]))
            e->timed = false;
    }
}

static void sit_workload(sitting *s, int w)
{
    ts_cage *cage[TS_CONTENDERS] = { NULL };
    ts_want *want = calloc(s->task->n_want(s->workload[w]) + 1, sizeof *want);
    if (!want) abort();
    for (int i = 0; i < s->n; i++)
        if (!(cage[i] = cage_for(s, s->e[i], w))) {
            s->e[i]->timed = false;
            ts_court_fail(s->e[i], s->workload[w], 0, "protocol",
                          "could not be started to be timed");
        }
    for (int k = 0; k < s->n_instances; k++) take_turns(s, cage, w, k, want);
    for (int i = 0; i < s->n; i++) ts_cage_stop(&cage[i]);
    free(want);
}

/* ---- what it means ---- */

static double floor_ns(const sitting *s, int w)
{
    return s->task->cost(s->workload[w]).bytes / s->court->best_gbs;
}

static bool log_times(sitting *s, const ts_contender *e, int w, ts_workload *out)
{
    char   name[192];
    double ns[TS_INSTANCES];
    memcpy(ns, e->ns[w], sizeof ns);
    const ts_interval t = ts_median_interval(ns, (size_t)s->n_instances);
    ts_case_string(s->task, s->workload[w], 0, name, sizeof name);
    name[strcspn(name, "@")] = 0;
    *out = (ts_workload) { floor_ns(s, w), t.mid, t.lo, t.hi };
    ts_jw *j = ts_log_begin(s->court->log, "time");
    ts_jw_int(j, "entrant", e->id);
    ts_jw_text(j, "task", ts_court_label(s->court, s->task));
    ts_jw_text(j, "case", name);
    ts_jw_num(j, "floor_ns", out->floor_ns);
    ts_jw_num(j, "bytes", s->task->cost(s->workload[w]).bytes);
    ts_jw_num(j, "flops", s->task->cost(s->workload[w]).flops);
    ts_jw_open(j, "ns", '[');
    for (int i = 0; i < s->n_instances; i++) ts_jw_num(j, NULL, e->ns[w][i]);
    ts_jw_close(j, ']');
    ts_jw_num(j, "median_ns", t.mid);
    ts_jw_num(j, "lo_ns", t.lo);
    ts_jw_num(j, "hi_ns", t.hi);
    ts_jw_num(j, "fraction", out->floor_ns / t.mid);
    return ts_log_commit(s->court->log);
}

static bool log_score(sitting *s, ts_contender *e, double honest)
{
    ts_workload w[TS_WORKLOADS];
    for (int i = 0; i < s->n_workloads; i++)
        if (!log_times(s, e, i, &w[i])) return false;
    const ts_tally    cells = ts_court_robustness(e);
    const ts_score_in in = { .gate = e->ruling == TS_RULING_PASS,
                             .workload = w,
                             .n_workloads = (size_t)s->n_workloads,
                             .error = ts_errors_quantile(&e->errors, 0.999),
                             .error_honest = honest,
                             .cells_passed = cells.passed,
                             .cells = cells.all,
                             .workspace_bytes = e->workspace_bytes,
                             .io_bytes = e->io_bytes };
    const ts_score    r = ts_score_of(&in);
    if (r.audit) {
        e->ruling = TS_RULING_AUDIT;
        snprintf(e->reason, sizeof e->reason, "floor");
        snprintf(e->text, sizeof e->text, "%.2f of the floor's time in workload %zu",
                 w[r.audit_workload].ns / w[r.audit_workload].floor_ns, r.audit_workload);
    }
    ts_jw *j = ts_log_begin(s->court->log, "score");
    ts_jw_int(j, "entrant", e->id);
    ts_jw_text(j, "task", ts_court_label(s->court, s->task));
    ts_jw_num(j, "score", r.score);
    ts_jw_num(j, "S", r.S);
    ts_jw_num(j, "S_lo", r.S_lo);
    ts_jw_num(j, "S_hi", r.S_hi);
    ts_jw_num(j, "S_min", r.S_min);
    ts_jw_num(j, "P", r.P);
    ts_jw_num(j, "R", r.R);
    ts_jw_num(j, "M", r.M);
    ts_jw_text(j, "grade", ts_grade(in.gate, r.audit, r.score));
    return ts_log_commit(s->court->log);
}

/* Pairs of a and b in the workloads from `first` to before `end`. */
static bool match(const sitting *s, int a, int b, int first, int end, ts_match *m)
{
    ts_pair pair[TS_WORKLOADS * TS_INSTANCES];
    size_t  n = 0;
    for (int w = first; w < end; w++)
        for (int i = 0; i < s->n_instances; i++)
            pair[n++] = (ts_pair) { w - first, i, s->e[a]->ns[w][i], s->e[b]->ns[w][i] };
    return ts_match_pairs(pair, n, 1, m);
}

/* A match is one record, and a game for each workload. */
static bool log_match(sitting *s, int a, int b)
{
    ts_match m, one[TS_WORKLOADS];
    if (!match(s, a, b, 0, s->n_workloads, &m)) return false;
    for (int w = 0; w < s->n_workloads; w++)
        if (!match(s, a, b, w, w + 1, &one[w]) ||
            !ts_court_played(s->court, (ts_played) { ts_court_label(s->court, s->task), s->e[a]->id,
                                                     s->e[b]->id, one[w].outcome }))
            return false;
    ts_jw *j = ts_log_begin(s->court->log, "match");
    ts_jw_text(j, "task", ts_court_label(s->court, s->task));
    ts_jw_int(j, "a", s->e[a]->id);
    ts_jw_int(j, "b", s->e[b]->id);
    ts_jw_num(j, "effect", m.effect);
    ts_jw_num(j, "lo", m.lo);
    ts_jw_num(j, "hi", m.hi);
    ts_jw_text(j, "verdict", ts_outcome_name(m.outcome));
    ts_jw_open(j, "workloads", '[');
    for (int w = 0; w < s->n_workloads; w++) ts_jw_text(j, NULL, ts_outcome_name(one[w].outcome));
    ts_jw_close(j, ']');
    ts_jw_int(j, "pairs", s->n_workloads * s->n_instances);
    return ts_log_commit(s->court->log);
}

bool ts_court_time(ts_court *c, const ts_task *t)
{
    sitting     *s = calloc(1, sizeof *s);
    double       honest = 1;
    bool         ok = true;
    int          kept = 0;
    const size_t first = c->n_played;
    if (!s) return false;
    *s = (sitting) { .court = c, .task = t, .n_instances = DEPTH[c->device][c->depth].instances };
    for (int i = 0; i < c->n; i++)
        if (c->contender[i]->task == t && c->contender[i]->ruling == TS_RULING_PASS) {
            s->e[s->n++] = c->contender[i];
            c->contender[i]->timed = true;
        }
    if (!c->only) s->n_workloads = ts_court_workloads(c, t, s->number);
    for (int w = 0; w < s->n_workloads; w++) s->workload[w] = &t->cases()[s->number[w]];
    for (int w = 0; w < s->n_workloads && s->n; w++) sit_workload(s, w);
    /* Once more: a ceiling that was measured in a bad moment would make the honest suspect. */
    if (s->n && s->n_workloads) ts_court_measure(c);
    for (int i = 0; i < s->n; i++)
        if (s->e[i]->timed) s->e[kept++] = s->e[i];
    s->n = s->n_workloads ? kept : 0;
    for (int i = 0; i < s->n; i++)
        honest = fmin(honest, fmax(ts_errors_quantile(&s->e[i]->errors, 0.999), 1e-6));
    for (int i = 0; i < s->n && ok; i++) ok = log_score(s, s->e[i], honest);
    for (int a = 0; a < s->n && ok; a++)
        for (int b = a + 1; b < s->n && ok; b++) ok = log_match(s, a, b);
    if (ok && s->n > 1) ok = ts_court_rank(c, ts_court_label(c, t), first);
    for (int i = 0; i < c->n && ok; i++)
        if (c->contender[i]->task == t && !c->contender[i]->before && !c->contender[i]->ruled)
            ok = ts_court_log_verdict(c, c->contender[i]);
    free(s);
    return ok;
}

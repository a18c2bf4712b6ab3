/* SPDX-License-Identifier: Apache-2.0 */
/* sitting.c - who is faster? All who passed a challenge take turns on the same instances, with cold
 * caches, in an order drawn anew each time; every timed answer is checked. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ceiling.h"
#include "quantile.h"
#include "sitting.h"

/* On an H200 honest ones are at 0.9 of it, and who leaves work behind at 2.4. */
static const double LATE = 1.2;

static void make_cold(const ts_arena *m, int n_threads)
{
    for (int i = 0; i < m->n; i++) ts_flush_together(m->buf[i].p, m->buf[i].n_bytes, n_threads);
}

/* ---- what is asked ---- */

enum { WARM_UP = -1, HOSTILE = -2 }; /* instances that are not timed */

static const ts_case *case_of(const ts_sitting *s, int instance)
{
    return instance > HOSTILE ? s->workload[s->w] : &s->other[HOSTILE - instance];
}

static uint64_t seed_of(const ts_sitting *s, int instance)
{
    int number = 1 + instance;
    if (instance == WARM_UP) number = 200000;
    if (instance <= HOSTILE) number = 300000 + HOSTILE - instance;
    return ts_court_seed(s->court, s->task, s->number[s->w], number);
}

/* Which other contents this workload is asked, and when: drawn with the key. Each workload begins
 * where the one before it ended, so that few calls of each meet every family. */
static void draw_turns(ts_sitting *s)
{
    const int most = ts_timing_of(s->court)->hostile;
    ts_case   all[TS_HOSTILE];
    s->n_others = ts_hostile_of(s->task, s->workload[s->w],
                                ts_court_seed(s->court, s->task, s->number[0], 400000), all);
    for (int i = 0; i < s->n_others; i++) s->other[i] = all[(s->w * most + i) % s->n_others];
    s->n_hostile = s->n_others < most ? s->n_others : most;
    s->n_turns = s->n_instances + s->n_hostile;
    for (int i = 0; i < s->n_turns; i++) {
        const int j = (int)(ts_court_seed(s->court, s->task, s->number[s->w], 500000 + i) %
                            (uint64_t)(i + 1));
        s->turn[i] = s->turn[j];
        s->turn[j] = i < s->n_instances ? i : HOSTILE - (i - s->n_instances);
    }
}

static ts_ahead *instances_of(const ts_sitting *s)
{
    ts_question q[1 + TS_INSTANCES + TS_HOSTILE];
    for (int k = 0; k <= s->n_turns; k++) {
        const int instance = k ? s->turn[k - 1] : WARM_UP;
        q[k] = (ts_question) { case_of(s, instance), seed_of(s, instance) };
    }
    return ts_ahead_open(s->task, q, 1 + s->n_turns);
}

/* ---- a turn ---- */

static void add_errors(ts_errors *to, const ts_errors *e)
{
    to->worst = fmax(to->worst, e->worst);
    to->n += e->n;
    for (int i = 0; i < TS_ERROR_BINS; i++) to->bin[i] += e->bin[i];
}

/* A call of one entrant, or of nobody, in turn k; 0 is to warm up. False, and the entrant's ruling,
 * if it is wrong. Always one call, on a device too: calls that are waited for together can be
 * merged by whoever owns the process. */
static bool timed_call(ts_sitting *s, ts_judged *e, ts_cage *cage, int k, ts_call *r)
{
    const int            instance = k ? s->turn[k - 1] : WARM_UP;
    const ts_exam *const x = e ? ts_ahead_at(s->ahead, k) : NULL;
    ts_flaw              flaw = { 0 };
    ts_errors            errors = { 0 };
    if (e) ts_cage_fill_like(cage, 0, x->c, x->arena); /* nobody minds what nobody looks at */
    if (s->court->device == TS_CPU)
        make_cold(ts_cage_arena(cage, 0), s->court->n_threads); /* else the keeper does */
    const bool came = ts_cage_call(cage, 0, r);
    if (!e) return came;
    if (came && !r->fp_changed && r->status && instance <= HOSTILE &&
        ts_court_may_refuse(e, x->c, x->seed, r->status))
        return true;
    if (!came || r->status || r->fp_changed) return ts_court_fail_by_call(e, x->c, x->seed, r);
    e->n_calls++;
    const bool ok = ts_arena_intact(ts_cage_arena(cage, 0), &flaw) &&
                    s->task->check(x->c, ts_cage_args(cage, 0), x->want, &flaw, &errors);
    e->worst = fmax(e->worst, errors.worst);
    if (!ok && !ts_court_excuse(e, x->c, x->seed, ts_cage_args(cage, 0), x->want, flaw, &errors))
        return false;
    if (instance >= 0) add_errors(&e->timed_errors[s->w], &errors);
    return true;
}

static ts_cage *cage_for(ts_sitting *s, ts_judged *e, bool idle)
{
    ts_cage_plan plan;
    char         why[256];
    ts_call      r;
    ts_court_plan(s->court, e, &plan);
    ts_court_plan_case(&plan, s->workload[s->w]);
    plan.aligned = true;
    plan.idle = idle;
    ts_cage *cage = ts_cage_start(&plan, why, sizeof why);
    if (cage && idle) ts_cage_weigh_from_now(cage);
    if (!cage || idle) return cage;
    if (ts_cage_workspace(cage, 0, &r) && !r.status) ts_cage_weigh_from_now(cage);
    else ts_cage_stop(&cage);
    e->timed_workspace[s->w] = (double)r.workspace_bytes;
    return cage;
}

/* Whether it is asked what turn k asks: its scope may know numbers, too. */
static bool takes(ts_sitting *s, const ts_judged *e, int k)
{
    return ts_scope_takes(&e->scope, s->task, ts_ahead_at(s->ahead, k)->c);
}

/* Whether what turn k asks has the buffers of the timed case. */
static bool fits(ts_sitting *s, const ts_arena *timed, int k)
{
    return ts_alike(timed, ts_ahead_at(s->ahead, k)->arena);
}

/* A turn of each, in an order of its own. */
static void take_turns(ts_sitting *s, ts_cage **cage, int k)
{
    const int instance = s->turn[k - 1];
    ts_call   r;
    int       order[TS_MOST_ENTRANTS];
    for (int i = 0; i < s->n; i++) {
        const int j = (int)(ts_court_seed(s->court, s->task, i, 100000 + k) % (i + 1u));
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < N_IDLE && instance >= 0; i++)
        if (s->idle[i] && timed_call(s, NULL, s->idle[i], k, &r)) {
            s->idle_ns[i][instance] = r.ns;
            s->free_ns[TS_MOST_ENTRANTS + i][instance] = r.free_ns;
        } else ts_cage_stop(&s->idle[i]);
    for (int i = 0; i < s->n; i++) {
        ts_judged *e = s->e[order[i]];
        if (!e->timed || !cage[order[i]] || !takes(s, e, k)) continue;
        e->timed = timed_call(s, e, cage[order[i]], k, &r);
        if (!e->timed) ts_cage_stop(&cage[order[i]]); /* it may hold what others need */
        if (!e->timed || instance < 0) continue;
        e->ns[s->w][instance] = r.ns;
        s->free_ns[order[i]][instance] = r.free_ns;
    }
}

/* What Python calls may compile at its first call, which is no time of a kernel's: a call of the
 * same shape goes before. It is checked like the others. */
static void warm_up(ts_sitting *s, int i, ts_cage *cage)
{
    ts_call r;
    if (ts_in_python(s->e[i]->entrant.cls) && !timed_call(s, s->e[i], cage, 0, &r))
        s->e[i]->timed = false;
}

static ts_interval middle(const ts_sitting *s, const double *of)
{
    double ns[TS_INSTANCES];
    memcpy(ns, of, sizeof ns);
    return ts_median_interval(ns, (size_t)s->n_instances);
}

/* How much longer than after a call to nobody the device needs, after done, to do the judge's
 * bidding: for those who say done before it is. Beyond doubt it is no matter of time. */
static double late_ns(ts_sitting *s, int at, int idle)
{
    ts_judged        *e = s->e[at];
    const ts_interval own = middle(s, s->free_ns[at]),
                      none = middle(s, s->free_ns[TS_MOST_ENTRANTS + idle]);
    char text[96];
    if (e->timed && own.lo > LATE * none.hi) {
        snprintf(text, sizeof text, "the device was busy for %.0f us after completion",
                 (own.mid - none.mid) / 1e3);
        ts_court_fail(e, s->workload[s->w], 0, "output-late", text);
        e->timed = false;
    }
    return fmax(own.mid - none.hi, 0);
}

/* The judge's own part goes off, what is late comes on. */
static void settle(ts_sitting *s, int at)
{
    ts_judged *e = s->e[at];
    const int  k = ts_in_python(e->entrant.cls) ? IDLE_PYTHON : IDLE_HOST;
    double     own = 0, late = 0;
    if (s->idle[k] && ts_has_idle(s, e->entrant.cls)) {
        own = middle(s, s->idle_ns[k]).mid;
        late = late_ns(s, at, k);
    }
    e->idle_ns[s->w] = own;
    e->late_ns[s->w] = late;
    for (int i = 0; i < s->n_instances; i++) e->ns[s->w][i] = fmax(e->ns[s->w][i] - own + late, 1);
}

/* ---- memory of its own ---- */

/* What a process takes of it anyway, more or less. */
static const double OWN_ANYWAY = 1 << 20;

/* What the class's process takes with nobody in it, since others may run code before they are
 * called. Sealed ones cannot, and their object is theirs. */
static double without(ts_sitting *s, ts_judged *e, const ts_cage *cage)
{
    double *const none = &s->none_bytes[e->entrant.cls];
    if (e->entrant.cls == TS_SEALED)
        return (double)ts_cage_before_bytes(cage) - (double)e->built.n_bytes;
    if (*none > 0) return *none;
    ts_cage *idle = cage_for(s, e, true);
    *none = idle ? (double)ts_cage_before_bytes(idle) : 0;
    ts_cage_stop(&idle);
    return *none;
}

static void weigh(ts_sitting *s, ts_judged *e, const ts_cage *cage)
{
    const double peak = (double)ts_cage_peak_bytes(cage);
    if (s->court->device != TS_CPU || !(peak > 0)) return;
    e->own_bytes[s->w] = fmax(0, peak - without(s, e, cage) - OWN_ANYWAY);
}

static void sit_workload(ts_sitting *s, int w)
{
    ts_cage *cage[TS_MOST_ENTRANTS] = { NULL };
    s->w = w;
    for (int i = 0; i < s->n; i++) {
        const int k = ts_in_python(s->e[i]->entrant.cls) ? IDLE_PYTHON : IDLE_HOST;
        if (ts_has_idle(s, s->e[i]->entrant.cls) && !s->idle[k])
            s->idle[k] = cage_for(s, s->e[i], true);
        if (!ts_is_timed(s, s->e[i], w) || (cage[i] = cage_for(s, s->e[i], false))) continue;
        s->e[i]->timed = false;
        ts_court_fail(s->e[i], s->workload[w], 0, "protocol", "could not be started for timing");
    }
    draw_turns(s); /* when all stand */
    s->ahead = instances_of(s);
    for (int i = 0; i < s->n; i++)
        if (cage[i]) warm_up(s, i, cage[i]);
    const double bytes = s->task->cost(s->workload[w]).bytes;
    if (s->court->device == TS_CPU) s->gbs[w] = ts_court_measure(s->court, bytes);
    for (int k = 1; k <= s->n_turns; k++) {
        for (int i = 0; i < s->n; i++)
            if (cage[i] && fits(s, ts_cage_arena(cage[i], 0), k)) {
                take_turns(s, cage, k);
                break;
            }
        s->work += ts_work_of(s->task, s->workload[w]);
        ts_progress_reach(&s->court->progress, s->work);
    }
    ts_ahead_close(&s->ahead);
    /* Once more: what is measured in a bad moment would be too good to the slow. */
    s->gbs[w] = fmax(s->gbs[w], ts_court_measure(s->court, bytes));
    for (int i = 0; i < s->n; i++) {
        if (ts_is_timed(s, s->e[i], w)) settle(s, i);
        if (cage[i]) weigh(s, s->e[i], cage[i]);
        ts_cage_stop(&cage[i]);
    }
    for (int i = 0; i < N_IDLE; i++) ts_cage_stop(&s->idle[i]);
}

bool ts_court_time(ts_court *c, const ts_task *t)
{
    ts_sitting *s = calloc(1, sizeof *s);
    int         kept = 0;
    if (!s) return false;
    *s = (ts_sitting) { .court = c, .task = t, .n_instances = ts_timing_of(c)->instances };
    for (int i = 0; i < c->n; i++)
        if (c->entrant[i]->task == t && ts_ruling_passes(c->entrant[i]->ruling)) {
            s->e[s->n++] = c->entrant[i];
            c->entrant[i]->timed = true;
            s->work = c->entrant[i]->work;
        }
    ts_progress_stage(&c->progress, "timing", "", t->name);
    if (!c->only) s->n_workloads = ts_court_workloads(c, t, s->number);
    for (int w = 0; w < s->n_workloads; w++) s->workload[w] = &t->cases()[s->number[w]];
    for (int w = 0; w < s->n_workloads && s->n; w++) sit_workload(s, w);
    for (int i = 0; i < s->n; i++)
        if (s->e[i]->timed) s->e[kept++] = s->e[i];
    s->n = s->n_workloads ? kept : 0;
    bool ok = ts_sitting_log(s);
    for (int i = 0; i < c->n && ok; i++)
        if (c->entrant[i]->task == t && !c->entrant[i]->before && !c->entrant[i]->ruled)
            ok = ts_court_log_verdict(c, c->entrant[i]);
    free(s);
    return ok;
}

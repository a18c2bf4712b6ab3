/* SPDX-License-Identifier: Apache-2.0 */
/* timing.c - times a challenge. All entrants that passed take turns on the same instances, with
 * cold caches, in a new random order each time; every timed output is checked. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ceiling.h"
#include "nothing.h"
#include "quantile.h"
#include "timing.h"

/* How long the device may be busy after done, as a multiple of that time after an empty call. On an
 * H200 correct entrants reach 1.1, entrants that return 25 us early 1.22. And LATE_NS longer: a
 * scheduler's noise is several microseconds. */
static const double LATE = 1.2, LATE_NS = 1e4;

/* On a device a timed call may use any of these sets of buffers: which, is drawn at go. */
enum { SETS = 3 };

/* While the judge is away from its core before go, an entrant that cheats computes in time that a
 * correct one is charged, too: it gains at most what the judge was away. This part of a call's time
 * makes it one that shows nothing. The lower quartile counts, so a quarter must show something. */
static const double AWAY = 0.05, AWAY_LEAST_NS = 3e3; /* reading the clocks takes up to 1 us */

static void make_cold(const ts_arena *m, int n_threads)
{
    for (int i = 0; i < m->n; i++) ts_flush_together(m->buf[i].p, m->buf[i].n_bytes, n_threads);
}

/* ---- which calls ---- */

enum { WARM_UP = -1, HOSTILE = -2 }; /* instances that are not timed */

static const ts_case *case_of(const ts_timing *s, int instance)
{
    return instance > HOSTILE ? s->workload[s->w] : &s->other[HOSTILE - instance];
}

static uint64_t seed_of(const ts_timing *s, int instance)
{
    const int number = s->number[s->w];
    if (instance == WARM_UP) return ts_run_seed(s->run, s->task, TS_FOR_WARM_UP, number, 0);
    if (instance > HOSTILE) return ts_run_seed(s->run, s->task, TS_FOR_INSTANCE, number, instance);
    return ts_run_seed(s->run, s->task, TS_FOR_OTHER, number, HOSTILE - instance);
}

/* Draws, from the key, which other contents this workload gets, and when. Each workload continues
 * where the last one ended, so that few calls per workload cover every family. */
static void draw_turns(ts_timing *s)
{
    const int most = ts_timing_rule_of(s->run)->hostile;
    ts_case   all[TS_HOSTILE];
    s->n_others =
        ts_hostile_of(s->task, s->workload[s->w],
                      ts_run_seed(s->run, s->task, TS_FOR_OTHER_CHOICE, s->number[0], 0), all);
    for (int i = 0; i < s->n_others; i++) s->other[i] = all[(s->w * most + i) % s->n_others];
    s->n_hostile = s->n_others < most ? s->n_others : most;
    s->n_turns = s->n_instances + s->n_hostile;
    for (int i = 0; i < s->n_turns; i++) {
        const uint64_t seed = ts_run_seed(s->run, s->task, TS_FOR_TURN_ORDER, s->number[s->w], i);
        const int      j = (int)(seed % (uint64_t)(i + 1));
        s->turn[i] = s->turn[j];
        s->turn[j] = i < s->n_instances ? i : HOSTILE - (i - s->n_instances);
    }
}

static ts_ahead *instances_of(const ts_timing *s)
{
    ts_question q[1 + TS_INSTANCES + TS_HOSTILE];
    for (int k = 0; k <= s->n_turns; k++) {
        const int instance = k ? s->turn[k - 1] : WARM_UP;
        q[k] = (ts_question) { case_of(s, instance), seed_of(s, instance) };
    }
    return ts_ahead_open(s->task, q, 1 + s->n_turns);
}

/* ---- a turn ---- */

/* One call of an entrant, or an empty call (e NULL), in turn k; turn 0 is a warm-up. False, with
 * evidence, if its output is wrong. Always a single call, on a device too: an entrant
 * could merge calls that are waited for together. */
static bool timed_call(ts_timing *s, ts_judged *e, ts_cage *cage, int k, ts_call *r)
{
    const int            instance = k ? s->turn[k - 1] : WARM_UP;
    const ts_exam *const x = e ? ts_ahead_at(s->ahead, k) : NULL;
    ts_errors            errors = { 0 };
    const int            slot = s->run->device == TS_CPU ? 0 : ts_cage_draw(cage, SETS);
    if (e) ts_cage_fill_like(cage, slot, x->c, x->arena); /* an empty call needs no inputs */
    if (s->run->device == TS_CPU)
        make_cold(ts_cage_arena(cage, slot), s->run->n_threads); /* on a device the keeper does */
    const bool came = ts_cage_call(cage, slot, r);
    if (!e) return came;
    if (came && !r->fp_changed && r->status && instance <= HOSTILE &&
        ts_observe_rejection(e, x->c, x->seed, r))
        return true;
    if (!came || r->status || r->fp_changed) return ts_observe_call(e, x->c, x->seed, r);
    e->n_calls++;
    if (!ts_observe_output(e, cage, slot, x, &errors)) return false;
    if (instance >= 0) ts_errors_add(&e->timed_errors[s->w], &errors);
    return true;
}

static ts_cage *cage_for(ts_timing *s, ts_judged *e, bool idle)
{
    ts_cage_plan plan;
    char         why[256];
    ts_call      r;
    ts_run_plan(s->run, e, &plan);
    for (int i = 0; i < (s->run->device == TS_CPU ? 1 : SETS); i++)
        ts_run_plan_case(&plan, s->workload[s->w], 0);
    plan.aligned = true;
    plan.idle = idle;
    plan.unsafe |= e->hidden; /* the judge's own code */
    plan.n_returned = idle ? NULL : &e->evidence.n_returned;
    for (;;) {
        ts_cage *cage = ts_cage_start_patiently(&plan, why, sizeof why);
        if (!cage && !idle) ts_observe_no_cage(e, why);
        if (cage) ts_cage_weigh_from_now(cage);
        if (!cage || idle) return cage;
        bool asked = true;
        for (int i = 0; i < plan.n_slots && asked; i++)
            asked = ts_cage_workspace(cage, i, &r) && !r.status;
        if (asked) {
            ts_cage_weigh_from_now(cage);
            e->timed_workspace[s->w] = (double)r.workspace_bytes;
            return cage;
        }
        ts_cage_stop(&cage);
        ts_observe_call(e, s->workload[s->w], 0, &r);
        if (!ts_observe_again(&e->evidence)) return NULL;
    }
}

/* A Python entrant may compile on its first call, which is not kernel time; and on a device
 * the first calls show whether its work has gaps (keep_gate.c). So these get a warm-up call of the
 * same shape, checked like the others. */
static bool is_warm(ts_timing *s, ts_judged *e, ts_cage *cage)
{
    ts_call        r;
    const ts_class cls = e->entrant.cls;
    return !(ts_in_python(cls) || ts_has_idle(s, cls)) || timed_call(s, e, cage, 0, &r);
}

/* Turn k, or 0 for the warm-up, in another cage if the machine disturbed it. False, with evidence:
 * the entrant failed, or the machine is too busy. */
static bool timed_turn(ts_timing *s, ts_judged *e, ts_cage **cage, int k, ts_call *r)
{
    bool ok = k ? timed_call(s, e, *cage, k, r) : is_warm(s, e, *cage);
    while (!ok && ts_observe_again(&e->evidence)) {
        ts_cage_stop(cage);
        *cage = cage_for(s, e, false);
        if (!*cage) return false;
        ok = is_warm(s, e, *cage) && (!k || timed_call(s, e, *cage, k, r));
    }
    if (ok) e->evidence.n_busy = 0;
    return ok;
}

/* Whether the case of turn k is in the entrant's scope, which may depend on parameters other than
 * extents. */
static bool takes(ts_timing *s, const ts_judged *e, int k)
{
    return ts_scope_takes(&e->scope, s->task, ts_ahead_at(s->ahead, k)->c);
}

/* Whether the case of turn k has the buffers of the timed case. */
static bool fits(ts_timing *s, const ts_arena *timed, int k)
{
    return ts_alike(timed, ts_ahead_at(s->ahead, k)->arena);
}

/* One turn for each entrant, in a random order. */
static void take_turns(ts_timing *s, ts_cage **cage, int k)
{
    const int instance = s->turn[k - 1];
    ts_call   r;
    int       order[TS_MOST_ENTRANTS];
    for (int i = 0; i < s->n; i++) {
        const int j = (int)(ts_run_seed(s->run, s->task, TS_FOR_ENTRANT_ORDER, i, k) % (i + 1u));
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
        if (e->hidden && ts_anchor_skips(s, e, instance)) continue;
        e->timed = timed_turn(s, e, &cage[order[i]], k, &r);
        if (!e->timed) ts_cage_stop(&cage[order[i]]); /* it may hold memory that others need */
        if (!e->timed || instance < 0) continue;
        e->ns[s->w][e->hidden ? e->n_ns[s->w]++ : instance] = r.ns;
        e->evidence.n_timed++;
        s->n_away[order[i]] += r.away_ns > fmax(AWAY * r.ns, AWAY_LEAST_NS);
        s->free_ns[order[i]][instance] = r.free_ns;
    }
}

static ts_interval middle(const ts_timing *s, const double *of)
{
    double ns[TS_INSTANCES];
    memcpy(ns, of, sizeof ns);
    return ts_median_interval(ns, (size_t)s->n_instances);
}

/* Far longer than after an empty call, the device was busy after done: that fails. Far shorter, and
 * it was idle before done: then the host worked on, which counts. */
static double late_ns(ts_timing *s, int at, int idle)
{
    ts_judged        *e = s->e[at];
    const ts_interval own = middle(s, s->free_ns[at]),
                      none = middle(s, s->free_ns[TS_MOST_ENTRANTS + idle]);
    char text[96];
    if (e->timed && own.lo > LATE * none.hi && own.lo > none.hi + LATE_NS) {
        snprintf(text, sizeof text, "the device was busy for %.0f us after completion",
                 (own.mid - none.mid) / 1e3);
        ts_observe_failure(e, s->workload[s->w], 0, "output-late", text);
        e->timed = false;
    }
    return fmax(none.lo - own.hi, 0);
}

/* Subtracts the judge's overhead, as the median of calls of known duration, and adds the host's
 * work after the device's. */
static void settle(ts_timing *s, int at)
{
    ts_judged *e = s->e[at];
    const int  k = ts_in_python(e->entrant.cls) ? IDLE_PYTHON : IDLE_HOST;
    double     own = 0, late = 0;
    if (s->idle[k] && ts_has_idle(s, e->entrant.cls)) {
        own = middle(s, s->idle_ns[k]).mid - TS_PAUSE_NS;
        if (!e->hidden) late = late_ns(s, at, k);
    }
    e->idle_ns[s->w] = own;
    e->late_ns[s->w] = late;
    for (int i = 0; i < s->n_instances; i++) e->ns[s->w][i] = fmax(e->ns[s->w][i] - own + late, 1);
}

static void look_at_weather(ts_timing *s, int at)
{
    ts_judged *e = s->e[at];
    char       text[160];
    if (!e->timed || e->hidden) return;
    if (4 * s->n_away[at] <= 3 * s->n_instances) return;
    snprintf(text, sizeof text,
             "the machine is too busy to time: it took the judge's core before %d of %d calls",
             s->n_away[at], s->n_instances);
    e->timed = ts_observe_busy(e, s->workload[s->w], 0, text);
}

/* ---- the entrant's own memory ---- */

/* What any process uses, roughly. */
static const double OWN_ANYWAY = 1 << 20;

/* Memory of a process of this class without an entrant, since other classes may run code before the
 * first call. A sealed entrant cannot, and its object counts as its own. */
static double without(ts_timing *s, ts_judged *e, const ts_cage *cage)
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

static void weigh(ts_timing *s, ts_judged *e, const ts_cage *cage)
{
    const double peak = (double)ts_cage_peak_bytes(cage);
    if (s->run->device != TS_CPU || !(peak > 0)) return;
    e->own_bytes[s->w] = fmax(0, peak - without(s, e, cage) - OWN_ANYWAY);
}

/* Anchors alone are not timed: no score would follow. */
static bool is_taken(const ts_timing *s, int w)
{
    for (int i = 0; i < s->n; i++)
        if (!s->e[i]->hidden && ts_is_timed(s, s->e[i], w)) return true;
    return false;
}

static void time_workload(ts_timing *s, int w)
{
    ts_cage *cage[TS_MOST_ENTRANTS] = { NULL };
    s->w = w;
    memset(s->n_away, 0, sizeof s->n_away);
    for (int i = 0; i < s->n; i++) {
        const int k = ts_in_python(s->e[i]->entrant.cls) ? IDLE_PYTHON : IDLE_HOST;
        if (ts_has_idle(s, s->e[i]->entrant.cls) && !s->idle[k])
            s->idle[k] = cage_for(s, s->e[i], true);
        if (!ts_is_timed(s, s->e[i], w)) continue;
        s->e[i]->evidence.n_to_time += s->n_instances;
        if ((cage[i] = cage_for(s, s->e[i], false))) continue;
        s->e[i]->timed = false;
    }
    draw_turns(s); /* when all cages are running */
    s->ahead = instances_of(s);
    for (int i = 0; i < s->n; i++)
        if (cage[i]) s->e[i]->timed &= timed_turn(s, s->e[i], &cage[i], 0, NULL);
    const double bytes = s->task->cost(s->workload[w]).bytes;
    if (s->run->device == TS_CPU) s->gbs[w] = ts_run_measure(s->run, bytes);
    for (int k = 1; k <= s->n_turns; k++) {
        for (int i = 0; i < s->n; i++)
            if (cage[i] && fits(s, ts_cage_arena(cage[i], 0), k)) {
                take_turns(s, cage, k);
                break;
            }
        s->work += ts_work_of(s->task, s->workload[w]);
        ts_progress_reach(&s->run->progress, s->work);
    }
    ts_ahead_close(&s->ahead);
    /* Measured again: a peak measured too low would flatter slow entrants. */
    s->gbs[w] = fmax(s->gbs[w], ts_run_measure(s->run, bytes));
    for (int i = 0; i < s->n; i++) {
        if (ts_is_timed(s, s->e[i], w)) settle(s, i), look_at_weather(s, i);
        if (cage[i]) weigh(s, s->e[i], cage[i]);
        ts_cage_stop(&cage[i]);
    }
    for (int i = 0; i < N_IDLE; i++) ts_cage_stop(&s->idle[i]);
}

/* ---- a challenge ---- */

/* Times these entrants together, with their anchors, and logs what is complete. */
static bool time_entrants(ts_timing *s)
{
    int kept = 0;
    if (s->n_workloads) ts_anchors_enter(s);
    for (int w = 0; w < s->n_workloads && s->n; w++)
        if (s->workload[w] && is_taken(s, w)) time_workload(s, w);
    const bool anchored = ts_anchors_log(s);
    for (int i = 0; i < s->n; i++)
        if (s->e[i]->hidden) ts_built_free(&s->e[i]->built);
        else if (s->e[i]->timed) s->e[kept++] = s->e[i];
    s->n = s->n_workloads ? kept : 0;
    return anchored && ts_timing_log(s);
}

/* Those with the same scope, on what the workloads that it excludes were adapted to. */
static bool time_within(ts_timing *s, const ts_scope *scope)
{
    bool any = false;
    s->n = 0;
    for (int i = 0; i < s->run->n; i++) {
        ts_judged *e = s->run->entrant[i];
        if (e->task == s->task && e->timed && !strcmp(e->scope.text, scope->text)) s->e[s->n++] = e;
    }
    for (int w = 0; w < s->n_workloads; w++) {
        const ts_case *own = ts_run_workload_within(s->task, scope, s->number[w]);
        s->workload[w] = own == &s->task->cases()[s->number[w]] ? NULL : own;
        any |= s->workload[w] != NULL;
    }
    return !any || time_entrants(s);
}

static bool time_scopes(ts_timing *s)
{
    bool ok = true;
    for (int i = 0; i < s->run->n && ok; i++) {
        const ts_judged *e = s->run->entrant[i];
        bool             first = e->task == s->task && e->timed && *e->scope.text;
        for (int k = 0; k < i && first; k++)
            first = s->run->entrant[k]->task != s->task || !s->run->entrant[k]->timed ||
                    strcmp(s->run->entrant[k]->scope.text, e->scope.text) != 0;
        if (first) ok = time_within(s, &e->scope);
    }
    return ok;
}

bool ts_run_time(ts_run *c, const ts_task *t)
{
    ts_timing *s = calloc(1, sizeof *s);
    if (!s) return false;
    *s = (ts_timing) { .run = c, .task = t, .n_instances = ts_timing_rule_of(c)->instances };
    for (int i = 0; i < c->n; i++)
        if (c->entrant[i]->task == t && c->entrant[i]->timed) {
            s->e[s->n++] = c->entrant[i];
            s->work = c->entrant[i]->work;
        }
    ts_progress_stage(&c->progress, "timing", "", t->name);
    if (!c->only) s->n_workloads = ts_run_workloads(c, t, s->number);
    for (int w = 0; w < s->n_workloads; w++) s->workload[w] = &t->cases()[s->number[w]];
    const bool ok = time_entrants(s) && time_scopes(s);
    free(s);
    return ok;
}

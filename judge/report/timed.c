/* SPDX-License-Identifier: Apache-2.0 */
/* timed.c - collects the timed entrants of a challenge with their anchors, and derives scores. */
#include <math.h>
#include <string.h>

#include "score.h"
#include "timed.h"

static bool says(const ts_jr_node *verdict, const char *what)
{
    return !strcmp(ts_jr_text(verdict, "verdict", ""), what);
}

static ts_member *member_of(ts_timed *s, int64_t id)
{
    for (int i = 0; i < s->n; i++)
        if (s->m[i].id == id) return &s->m[i];
    return NULL;
}

bool ts_timed_collect(const ts_records *r, size_t first, size_t end, const char *task, ts_timed *s)
{
    *s = (ts_timed) { .task = task };
    for (size_t i = first; i < end; i++) {
        const ts_jr_node *v = r->at[i].root;
        if (!ts_record_is(&r->at[i], "verdict") || strcmp(ts_jr_text(v, "task", ""), task))
            continue;
        if (!says(v, "PASS") && !says(v, "PASS (common)") && !says(v, "AUDIT")) continue;
        if (s->n < TS_MEMBERS && !member_of(s, ts_jr_whole(v, "entrant", -1)))
            s->m[s->n++] = (ts_member) { .id = ts_jr_whole(v, "entrant", -1), .verdict = v };
    }
    for (size_t i = first; i < end; i++) {
        const ts_jr_node *v = r->at[i].root;
        if (strcmp(ts_jr_text(v, "task", ""), task)) continue;
        if (ts_record_is(&r->at[i], "anchor") && s->n_anchors < TS_TIMED_ANCHORS)
            s->anchor[s->n_anchors++] = v;
        if (!ts_record_is(&r->at[i], "time")) continue;
        const int64_t    w = ts_jr_whole(v, "workload", -1), n = ts_jr_whole(v, "workloads", -1);
        ts_member *const m = member_of(s, ts_jr_whole(v, "entrant", -1));
        if (!m || w < 0 || w >= n || n > TS_TIMED) continue;
        m->time[w] = v;
        s->n_workloads = (int)n;
    }
    return s->n_workloads > 0;
}

/* ---- anchors: times of a textbook and of the best known version ---- */

/* Classes with the same anchors. */
static const char *kind_of(const char *klass)
{
    if (!strcmp(klass, "sealed") || !strcmp(klass, "host")) return "c";
    if (!strcmp(klass, "sealed-gpu") || !strcmp(klass, "host-gpu")) return "cuda";
    return klass;
}

/* The anchors of one workload; NULL: none. A note says what is missing that should be there: then
 * there are none. */
static const ts_jr_node *anchor_of(const ts_timed *s, const char *kind, const ts_jr_node *time)
{
    for (int i = 0; time && i < s->n_anchors; i++) {
        const ts_jr_node *a = s->anchor[i];
        if (!strcmp(ts_jr_text(a, "kind", ""), kind) && !*ts_jr_text(a, "note", "") &&
            !strcmp(ts_jr_text(a, "workload", ""), ts_jr_text(time, "case", "?")))
            return a;
    }
    return NULL;
}

/* What the best known version has in the entrant's workloads: its error and memory count like
 * times. */
typedef struct best {
    bool   any;
    double error, memory;
} best;

static best best_of(const ts_timed *s, const char *kind, const ts_member *m)
{
    best b = { 0 };
    for (int w = 0; w < s->n_workloads; w++) {
        const ts_jr_node *a = anchor_of(s, kind, m->time[w]);
        if (!(ts_jr_number(a, "best_ns", 0) > 0)) continue;
        b.any = true;
        b.error = fmax(b.error, ts_jr_number(a, "best_error", 0));
        b.memory = fmax(b.memory, ts_jr_number(a, "best_memory", 0));
    }
    return b;
}

/* ---- scores ---- */

/* The worst error counts: precision in some workloads only is worth nothing. It is compared with
 * that of the best known version in the same calls; without one, `all` cases count. */
static double error_of(const ts_timed *s, const ts_member *m, bool all)
{
    double error = all ? ts_jr_number(m->verdict, "p999", 0) : 0;
    for (int w = 0; w < s->n_workloads; w++)
        error = fmax(error, ts_jr_number(m->time[w], "error", 0));
    return error;
}

/* An entrant under audit may be implausibly precise: it does not set the reference for others. */
static double honest_error(const ts_timed *s)
{
    double honest = 1;
    for (int i = 0; i < s->n; i++)
        if (!says(s->m[i].verdict, "AUDIT"))
            honest = fmin(honest, fmax(error_of(s, &s->m[i], true), 1e-6));
    return honest;
}

/* Sums up robustness: the verdict lists [passed, all] per kind. */
static void count_cells(const ts_jr_node *verdict, ts_score_in *in)
{
    const ts_jr_node *kinds = ts_jr_get(verdict, "robustness");
    for (size_t i = 0; i < ts_jr_len(kinds); i++) {
        int64_t           passed = 0, all = 0;
        const ts_jr_node *cells = ts_jr_at(kinds, i);
        ts_jr_int(ts_jr_at(cells, 0), &passed);
        ts_jr_int(ts_jr_at(cells, 1), &all);
        in->cells_passed += passed;
        in->cells += all;
    }
}

/* Memory in the timed calls, as a multiple of the bytes moved; the maximum over workloads counts.
 */
static double memory_of(const ts_timed *s, const ts_member *m)
{
    double most = 0;
    for (int w = 0; w < s->n_workloads; w++)
        if (m->time[w])
            most = fmax(most, (ts_jr_number(m->time[w], "workspace_bytes", 0) +
                               ts_jr_number(m->time[w], "own_bytes", 0)) /
                                  fmax(1, ts_jr_number(m->time[w], "bytes", 0)));
    return most;
}

static const ts_jr_node *entrant_of(const ts_records *r, int64_t id)
{
    for (size_t i = 0; i < r->n; i++)
        if (ts_record_is(&r->at[i], "entrant") && ts_jr_whole(r->at[i].root, "id", -1) == id)
            return r->at[i].root;
    return NULL;
}

static ts_score score_of(const ts_timed *s, const ts_member *m, double honest,
                         const ts_jr_node *entrant)
{
    const char *kind = kind_of(ts_jr_text(entrant, "class", ""));
    const best  b = best_of(s, kind, m);
    ts_workload w[TS_TIMED] = { 0 };
    ts_anchors  anchor[TS_TIMED] = { 0 };
    for (int i = 0; i < s->n_workloads; i++) {
        if (!m->time[i]) continue;
        w[i] = (ts_workload) { ts_jr_number(m->time[i], "floor_ns", 0),
                               ts_jr_number(m->time[i], "time_ns", 0),
                               ts_jr_number(m->time[i], "lo_ns", 0),
                               ts_jr_number(m->time[i], "hi_ns", 0) };
        const ts_jr_node *a = anchor_of(s, kind, m->time[i]);
        anchor[i] = (ts_anchors) { ts_jr_number(a, "text_ns", 0), ts_jr_number(a, "best_ns", 0) };
    }
    /* A workload that it was not timed in has a place, the last one, if the others have. */
    for (int i = 0; i < s->n_workloads; i++)
        for (int k = 0; k < s->n_workloads && !m->time[i]; k++)
            if (m->time[k]) anchor[i] = anchor[k];
    ts_score_in in = { .correct = true,
                       .audit = says(m->verdict, "AUDIT"),
                       .workload = w,
                       .anchor = anchor,
                       .n_workloads = (size_t)s->n_workloads,
                       .error = error_of(s, m, !b.any),
                       .error_honest = b.any ? b.error : honest,
                       .workspace_bytes =
                           b.any ? memory_of(s, m) : ts_jr_number(m->verdict, "workspace_bytes", 0),
                       .io_bytes = b.any ? 1 : ts_jr_number(m->verdict, "io_bytes", 0),
                       .memory_honest = b.memory };
    count_cells(m->verdict, &in);
    ts_score v = ts_score_of(&in);
    if (v.score > 0) v.score = fmax(1, v.score * sqrt(ts_jr_number(entrant, "share", 1)));
    return v;
}

/* Without anchors it has no score: then speed, of_best and score are left out. */
static bool put_score(const ts_records *r, const ts_timed *s, const ts_member *m, double honest,
                      ts_sink to)
{
    const ts_score v = score_of(s, m, honest, entrant_of(r, m->id));
    ts_jw         *j = to.begin(to.to, "score");
    ts_jw_int(j, "entrant", m->id);
    ts_jw_text(j, "task", s->task);
    if (!isnan(v.score)) ts_jw_num(j, "score", v.score);
    if (!isnan(v.speed)) {
        ts_jw_num(j, "speed", v.speed);
        ts_jw_num(j, "of_best", v.of_best);
    }
    ts_jw_num(j, "S", v.S);
    ts_jw_num(j, "S_lo", v.S_lo);
    ts_jw_num(j, "S_hi", v.S_hi);
    ts_jw_num(j, "S_min", v.S_min);
    ts_jw_num(j, "P", v.P);
    ts_jw_num(j, "R", v.R);
    ts_jw_num(j, "M", v.M);
    ts_jw_text(j, "grade", ts_grade(true, says(m->verdict, "AUDIT"), v.score));
    return to.commit(to.to);
}

/* One whose scope excludes all workloads shows no speed, not the least one. */
static bool is_timed(const ts_timed *s, const ts_member *m)
{
    bool timed = false;
    for (int w = 0; w < s->n_workloads; w++) timed |= m->time[w] != NULL;
    return timed;
}

bool ts_timed_put_scores(const ts_records *r, const ts_timed *s, ts_sink to)
{
    const double honest = honest_error(s);
    bool         ok = true;
    for (int i = 0; i < s->n && ok; i++)
        if (is_timed(s, &s->m[i])) ok = put_score(r, s, &s->m[i], honest, to);
    return ok;
}

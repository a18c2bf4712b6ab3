/* SPDX-License-Identifier: Apache-2.0 */
/* score.c - computes speed, precision, robustness, memory and the score. */
#include <math.h>

#include "score.h"

#define MISSING     1e-3 /* value of a workload without a time */
#define LEAST_ERROR 1e-6 /* of the bound: smaller errors count as exact */
#define LEAST       0.01 /* value of robustness, precision and memory at worst: a PASS has a score */
#define SLACK       2    /* times the best known version's error or memory cost nothing: noise */
#define NEAR        1.1  /* anchors with at most this ratio count as one */
#define ROUNDING    1e-6 /* by which a mean of equal scores may lie below them */

const ts_grade_row ts_grades[TS_N_GRADES] = { { 900, "A+" }, { 800, "A" }, { 650, "B" },
                                              { 450, "C" },  { 250, "D" }, { 0, "E" } };

const char *ts_grade(bool correct, bool audit, double score)
{
    if (audit || (correct && isnan(score))) return "-";
    if (!correct) return "F";
    size_t i = 0;
    while (score + ROUNDING < ts_grades[i].least) i++;
    return ts_grades[i].grade;
}

static double speed(double floor_ns, double ns)
{
    return ns > 0 && floor_ns > 0 ? fmax(MISSING, fmin(1, floor_ns / ns)) : MISSING;
}

double ts_place(double ns, double floor_ns, ts_anchors a)
{
    if (!(ns > 0) || !(floor_ns > 0)) return 1;
    const double text = a.text_ns > 0 ? a.text_ns : a.best_ns, best = fmin(text, a.best_ns);
    const double least = fmin(floor_ns, best), room = log(best / least);
    const double at_best =
        TS_PLACE_FLOOR - (TS_PLACE_FLOOR - TS_PLACE_BEST) * fmin(1, room / log(NEAR));
    double place = TS_PLACE_FLOOR;
    if (ns > least && ns <= best) place -= (TS_PLACE_FLOOR - at_best) * log(ns / least) / room;
    else if (ns > best && text <= NEAR * best) place = at_best * best / ns;
    else if (ns > text) place = TS_PLACE_TEXT * text / ns;
    else if (ns > best)
        place = at_best - (at_best - TS_PLACE_TEXT) * log(ns / best) / log(text / best);
    return fmax(1, place);
}

/* One workload without anchors has no place, and so the entrant has none. */
static void places(const ts_score_in *in, ts_score *s)
{
    double place = 0, of_best = 0;
    for (size_t i = 0; i < in->n_workloads; i++) {
        const ts_workload *w = &in->workload[i];
        const ts_anchors   a = in->anchor ? in->anchor[i] : (ts_anchors) { 0 };
        const double       best = a.text_ns > 0 ? fmin(a.text_ns, a.best_ns) : a.best_ns;
        place += a.best_ns > 0 ? log(ts_place(w->ns, w->floor_ns, a)) : (double)NAN;
        of_best += w->ns > 0 ? log(best / w->ns) : log(MISSING);
    }
    const double n = (double)in->n_workloads;
    /* Rounded: a mean of equal places is that place, and its grade. */
    s->speed = n > 0 ? round(exp(place / n) * 1e9) / 1e9 : (double)NAN;
    s->of_best = isnan(s->speed) ? s->speed : exp(of_best / n);
}

/* Each end of the interval combines that end of all workloads: wider than for independent noise,
 * which it is not on one machine. */
static void speeds(const ts_score_in *in, ts_score *s)
{
    double mid = 0, lo = 0, hi = 0;
    s->S_min = in->n_workloads ? 1 : MISSING;
    for (size_t i = 0; i < in->n_workloads; i++) {
        const ts_workload *w = &in->workload[i];
        const double       v = speed(w->floor_ns, w->ns);
        mid += log(v);
        lo += log(w->ns > 0 ? speed(w->floor_ns, w->hi_ns) : v);
        hi += log(w->ns > 0 ? speed(w->floor_ns, w->lo_ns) : v);
        s->S_min = fmin(s->S_min, v);
    }
    const double n = (double)in->n_workloads;
    s->S = n > 0 ? exp(mid / n) : MISSING;
    s->S_lo = n > 0 ? fmin(s->S, exp(lo / n)) : MISSING;
    s->S_hi = n > 0 ? fmax(s->S, exp(hi / n)) : MISSING;
}

/* The fraction of correct code's digits that the entrant has, in units of the bound and counted
 * from twice the bound. An error at the bound still has one bit, since rounding alone may use the
 * whole bound. */
static double precision(double e, double e_honest)
{
    if (!(e <= 1)) return LEAST;
    const double free = fmin(1, SLACK * fmax(e_honest, LEAST_ERROR));
    return fmin(1, log(fmax(e, LEAST_ERROR) / 2) / log(free / 2));
}

static double memory(double multiple)
{
    return 1 / (1 + log2(1 + fmax(0, multiple)) / 4);
}

ts_score ts_score_of(const ts_score_in *in)
{
    ts_score s = { .R = 1, .M = 1 };
    speeds(in, &s);
    places(in, &s);
    s.P = precision(in->error, in->error_honest);
    if (in->cells > 0) s.R = fmax(LEAST, (double)in->cells_passed / (double)in->cells);
    if (in->io_bytes > 0)
        s.M = fmax(LEAST, fmin(1, memory(in->workspace_bytes / in->io_bytes) /
                                      memory(SLACK * in->memory_honest)));
    if (in->correct && !in->audit)
        s.score = s.speed * pow(s.R, TS_WEIGHT_ROBUSTNESS) * pow(s.P, TS_WEIGHT_PRECISION) *
                  pow(s.M, TS_WEIGHT_MEMORY);
    if (s.score < 1 && in->correct && !in->audit) s.score = 1;
    return s;
}

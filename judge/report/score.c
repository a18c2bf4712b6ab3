/* SPDX-License-Identifier: Apache-2.0 */
/* score.c - computes speed, precision, robustness, memory and the score. */
#include <math.h>

#include "score.h"

#define MISSING     1e-3 /* value of a workload without a time */
#define LEAST_ERROR 1e-6 /* of the bound: smaller errors count as exact */

const ts_grade_row ts_grades[TS_N_GRADES] = { { 900, "A+" }, { 800, "A" }, { 650, "B" },
                                              { 450, "C" },  { 250, "D" }, { 0, "E" } };

const char *ts_grade(bool correct, bool audit, double score)
{
    if (audit) return "-";
    if (!correct || !(score >= 0)) return "F";
    size_t i = 0;
    while (score < ts_grades[i].least) i++;
    return ts_grades[i].grade;
}

static double speed(double floor_ns, double ns)
{
    return ns > 0 && floor_ns > 0 ? fmax(MISSING, fmin(1, floor_ns / ns)) : MISSING;
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
    if (!(e <= 1)) return 0;
    return fmin(1, log(fmax(e, LEAST_ERROR) / 2) / log(fmax(e_honest, LEAST_ERROR) / 2));
}

ts_score ts_score_of(const ts_score_in *in)
{
    ts_score s = { 0 };
    speeds(in, &s);
    s.P = precision(in->error, in->error_honest);
    s.R = in->cells > 0 ? (double)in->cells_passed / (double)in->cells : 0;
    s.M =
        in->io_bytes > 0 ? 1 / (1 + log2(1 + fmax(0, in->workspace_bytes) / in->io_bytes) / 4) : 1;
    if (in->correct && !in->audit)
        s.score = 1000 * pow(s.S, TS_WEIGHT_SPEED) * pow(s.R, TS_WEIGHT_ROBUSTNESS) *
                  pow(s.P, TS_WEIGHT_PRECISION) * pow(s.M, TS_WEIGHT_MEMORY);
    return s;
}

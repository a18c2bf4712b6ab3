/* SPDX-License-Identifier: Apache-2.0 */
/* anchor.c - anchors: a textbook version and the best known one of a challenge, timed with the
 * entrants, without a verdict. The score is derived from their times in the log. */
#include <math.h>
#include <string.h>

#include "quantile.h"
#include "timing.h"

/* An anchor needs fewer calls than a match: on a logarithmic scale 5 % are 5 to 20 of 1000 points.
 * A slow one has the fewest; of less, the lower quartile is a time that a busy machine adds to. */
enum { MOST_CALLS = 15, LEAST_CALLS = 5 };
static const double SLOW_NS = 1e9; /* of all its calls */

const char *ts_kind_of(ts_class cls)
{
    if (ts_in_python(cls)) return ts_on_gpu(cls) ? "python-gpu" : "python";
    return ts_on_gpu(cls) ? "cuda" : "c";
}

bool ts_anchor_skips(const ts_timing *s, const ts_judged *e, int instance)
{
    const int n = e->n_ns[s->w], stride = (s->n_instances + MOST_CALLS - 1) / MOST_CALLS;
    double    spent = 0;
    for (int i = 0; i < n; i++) spent += e->ns[s->w][i];
    return instance < 0 || instance % stride || (n >= LEAST_CALLS && spent > SLOW_NS);
}

/* Whether an entrant of its kind is timed in workload w; -1: in any. */
static bool is_used(const ts_timing *s, const ts_anchor *a, int w)
{
    bool used = false;
    for (int i = 0; i < s->n_entrants; i++)
        used |= !strcmp(ts_kind_of(s->e[i]->entrant.cls), a->kind) &&
                (w < 0 || ts_is_timed(s, s->e[i], w));
    return used && a->task == s->task;
}

/* An entrant of the run with these sources is the anchor: timed once, it has the anchor's place. */
static ts_judged *enter(ts_timing *s, ts_judged *e)
{
    ts_refusal why = { 0 };
    if (!e || !e->task) return e;
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->e[i]->entrant.source_sha256, e->entrant.source_sha256) &&
            s->e[i]->entrant.cls == e->entrant.cls)
            return s->e[i];
    memset(e->n_ns, 0, sizeof e->n_ns); /* it may have been timed with entrants of another scope */
    memset(e->timed_errors, 0, sizeof e->timed_errors);
    e->timed =
        s->n < TS_MOST_ENTRANTS && ts_build(&e->entrant, &s->run->places, NULL, &e->built, &why);
    e->scope.lacks = e->built.lacks;
    if (e->timed) s->e[s->n++] = e;
    else ts_observe_refusal(e, &why);
    return e;
}

void ts_anchors_enter(ts_timing *s)
{
    s->n_entrants = s->n;
    for (int i = 0; i < s->run->n_anchors; i++) {
        ts_anchor *a = &s->run->anchor[i];
        if (!is_used(s, a, -1)) continue;
        a->timed_text = enter(s, a->text);
        a->timed_best = enter(s, a->best);
    }
}

/* Writes the time in a workload; false, and why in the note, if there is none. */
static bool put_time(const ts_timing *s, ts_jw *j, const ts_judged *e, int w, const char *who,
                     char *note, size_t n)
{
    double    ns[TS_INSTANCES];
    char      key[16];
    const int n_ns = e->hidden ? e->n_ns[w] : s->n_instances;
    if (!e->task || !e->timed || !ts_is_timed(s, e, w) || !n_ns) {
        snprintf(note, n, "%s: %.200s", who,
                 e->evidence.failed ? e->evidence.failure.text : "was not timed");
        return false;
    }
    memcpy(ns, e->ns[w], sizeof ns);
    snprintf(key, sizeof key, "%s_ns", !strcmp(who, "textbook") ? "text" : "best");
    ts_jw_num(j, key, ts_quantile_interval(ns, (size_t)n_ns, TS_TIME_QUANTILE).mid);
    return true;
}

static bool log_anchor(const ts_timing *s, const ts_anchor *a, int w)
{
    char note[256], name[192];
    ts_case_string(s->task, s->workload[w], 0, name, sizeof name);
    name[strcspn(name, "@")] = 0;
    snprintf(note, sizeof note, "%s", a->note);
    ts_jw *j = ts_log_begin(s->run->log, "anchor");
    ts_jw_text(j, "task", ts_run_label(s->run, s->task));
    ts_jw_text(j, "kind", a->kind);
    ts_jw_text(j, "workload", name);
    const ts_judged *text = a->timed_text, *best = a->timed_best;
    if (text) put_time(s, j, text, w, "textbook", note, sizeof note);
    if (best && put_time(s, j, best, w, "best known version", note, sizeof note)) {
        ts_jw_num(j, "best_error", ts_errors_quantile(&best->timed_errors[w], 0.999));
        ts_jw_num(j, "best_memory",
                  (best->timed_workspace[w] + best->own_bytes[w]) /
                      fmax(1, s->task->cost(s->workload[w]).bytes));
    }
    if (*note) ts_jw_text(j, "note", note);
    return ts_log_commit(s->run->log);
}

bool ts_anchors_log(ts_timing *s)
{
    bool ok = true;
    for (int i = 0; i < s->run->n_anchors; i++)
        for (int w = 0; w < s->n_workloads && ok; w++)
            if (s->workload[w] && is_used(s, &s->run->anchor[i], w))
                ok = log_anchor(s, &s->run->anchor[i], w);
    return ok;
}

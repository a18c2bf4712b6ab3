/* SPDX-License-Identifier: Apache-2.0 */
/* verdicts.c - the verdicts of `touchstone judge --json`, with scores and times. */
#include "verdicts.h"

#include <string.h>

/* What was measured of an entrant that passed: as in the log. */
static void list_times(const ts_board *b, const ts_entrant_row *r, ts_json *o)
{
    static const char *const scores[] = { "S", "S_lo", "S_hi", "speed", "of_best", "score" };
    static const char *const times[] = { "time_ns", "lo_ns", "hi_ns", "floor_ns", "bytes" };
    size_t                   at = 0;
    if (!r || !r->score) return;
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++)
        if (i < 3 || ts_row_scored(r)) /* without anchors it has no score */
            ts_json_number(o, scores[i], ts_jr_number(r->score, scores[i], 0));
    ts_json_text(o, "grade", ts_jr_text(r->score, "grade", "-"));
    ts_json *list = ts_json_array(o, "workloads");
    for (const ts_jr_node *t; (t = ts_board_time(b, r, &at));) {
        ts_json *one = ts_json_object(list, NULL);
        ts_json_text(one, "case", ts_jr_text(t, "case", ""));
        ts_json_text(one, "floor_by", ts_jr_text(t, "floor_by", ""));
        for (size_t i = 0; i < sizeof times / sizeof *times; i++)
            ts_json_number(one, times[i], ts_jr_number(t, times[i], 0));
    }
}

static void list_cases(const ts_evidence *v, const ts_entrant_row *r, ts_json *o)
{
    ts_json *cases = ts_json_object(o, "cases");
    ts_json_int(cases, "passed", v->n_passed);
    ts_json_int(cases, "run", v->n_run);
    ts_json_int(cases, "drawn", v->n_drawn - v->n_unsupported);
    if (v->n_common) ts_json_int(cases, "common", v->n_common);
    if (r) ts_json_text(o, "words", ts_jr_text(r->verdict, "words", ""));
}

void ts_verdicts_list(const ts_run *c, const ts_board *b, ts_json *root)
{
    ts_json *list = ts_json_array(root, "verdicts");
    for (int i = 0; i < c->n; i++) {
        const ts_judged *e = c->entrant[i];
        if (e->before) continue;
        ts_json *o = ts_json_object(list, NULL);
        ts_json_text(o, "name", e->entrant.name);
        if (e->sample) ts_json_text(o, "sample", e->sample);
        if (*e->entrant.block) ts_json_text(o, "block", e->entrant.block);
        ts_json_text(o, "task", e->task ? e->task->name : e->challenge ? e->challenge : "");
        ts_json_text(o, "class", e->task ? ts_class_name(e->entrant.cls) : "");
        ts_json_text(o, "verdict", ts_ruling_name(e->ruled->ruling));
        ts_json_text(o, "reason", e->ruled->why.reason);
        ts_json_text(o, "text", e->ruled->why.text);
        ts_json_text(o, "case", e->ruled->why.where);
        if (e->ruled->ruling == TS_RULING_COMMON) ts_json_text(o, "rule", e->ruled->rule);
        list_cases(&e->evidence, ts_board_row(b, e->id), o);
        if (e->task && *e->scope.text) {
            ts_json_text(o, "offers", e->scope.text);
            ts_json_number(o, "share", e->scope.share);
        }
        for (int has = 1; has >= 0 && e->task && e->task->optional && *e->built.sha256; has--) {
            char names[160];
            ts_scope_optional(&e->scope, e->task, has, names, sizeof names);
            ts_json_text(o, has ? "optional_examined" : "optional_not_exported", names);
        }
        char lacks[64];
        if (*ts_run_unsupported(e, lacks, sizeof lacks)) ts_json_text(o, "unsupported", lacks);
        ts_json_number(o, "worst", e->worst);
        list_times(b, ts_board_row(b, e->id), o);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* recall.c - what earlier runs of a log have: which entrants are in it, and which have a
 * verdict. */
#include <string.h>

#include "run.h"

/* Finds an entrant in an earlier run of this log: its number, and whether it was judged. */
static void recall(ts_run *c, const ts_records *earlier, ts_judged *e)
{
    e->id = -1;
    for (size_t i = 0; i < earlier->n; i++) {
        const ts_jr_node *r = earlier->at[i].root;
        if (!ts_record_is(&earlier->at[i], "entrant") || ts_jr_whole(r, "id", -1) < 0) continue;
        if (!strcmp(ts_jr_text(r, "source_sha256", ""), e->entrant.source_sha256) &&
            !strcmp(ts_jr_text(r, "task", ""), ts_run_task_of(c, e)) &&
            !strcmp(ts_jr_text(r, "name", ""), e->entrant.name) &&
            !strcmp(ts_jr_text(r, "sample", ""), e->sample ? e->sample : "") &&
            !strcmp(ts_jr_text(r, "class", ""), e->task ? ts_class_name(e->entrant.cls) : "-"))
            e->id = (int)ts_jr_whole(r, "id", -1);
    }
    for (size_t i = 0; e->id >= 0 && i < earlier->n; i++)
        if (ts_record_is(&earlier->at[i], "verdict") &&
            ts_jr_whole(earlier->at[i].root, "entrant", -1) == e->id)
            e->before = true;
}

int ts_run_recall(ts_run *c, const ts_records *earlier)
{
    int left = 0;
    for (int i = 0; i < c->n; i++) {
        recall(c, earlier, c->entrant[i]);
        left += !c->entrant[i]->before;
    }
    return left;
}

int ts_run_next_id(const ts_records *earlier)
{
    int64_t next = 0;
    for (size_t i = 0; i < earlier->n; i++) {
        const int64_t id = ts_jr_whole(earlier->at[i].root, "id", -1);
        if (ts_record_is(&earlier->at[i], "entrant") && id >= next) next = id + 1;
    }
    return (int)next;
}

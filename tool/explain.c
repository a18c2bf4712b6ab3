/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - what a verdict of `touchstone judge` leaves unsaid.
 *
 * A C file without entry.json has class sealed, unless it includes a header that class sealed does
 * not have or uses OpenMP: then it has class host. The loader only says which symbol it lacks. */
#include "explain.h"

#include <stdio.h>
#include <string.h>

#include "tool.h"

void ts_explain(const ts_run *c)
{
    for (int i = 0; i < c->n; i++) {
        const ts_judged  *j = c->entrant[i];
        const ts_entrant *e = &j->entrant;
        if (strcmp(j->evidence.failure.reason, "symbol") ||
            !strstr(j->evidence.failure.text, "j_parallel_for"))
            continue;
        if (e->cls != TS_HOST || e->language != TS_C) continue;
        ts_fail("%s: %s makes this entrant class host; j_parallel_for exists only in class sealed",
                e->name, *e->cause ? e->cause : "entry.json");
    }
}

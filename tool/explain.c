/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - what a verdict of `touchstone judge` leaves unsaid.
 *
 * A C file without entry.json has class sealed, unless it includes a header that class sealed does
 * not have or uses OpenMP: then it has class host. The loader only says which symbol it lacks. */
#include "explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"
#include "tool.h"

/* What in the file requires class host; "" if nothing does. */
static void find_cause(const ts_source *s, char *cause, size_t n)
{
    char *text = malloc(s->n + 1), name[256], line[300];
    bool  quoted;
    if (!text) abort();
    ts_scrub(s->bytes, s->n, false, text);
    *cause = 0;
    for (const char *p = text; !*cause && (p = ts_next_include(p, name, sizeof name, &quoted));) {
        if (quoted) continue;
        snprintf(line, sizeof line, "#include <%s>\n", name);
        if (ts_needs_host(line)) snprintf(cause, n, "#include <%s>", name);
    }
    if (!*cause && ts_needs_host(text)) snprintf(cause, n, "#pragma omp");
    free(text);
}

void ts_explain(const ts_run *c)
{
    for (int i = 0; i < c->n; i++) {
        const ts_judged  *j = c->entrant[i];
        const ts_entrant *e = &j->entrant;
        char              cause[300] = "";
        if (strcmp(j->evidence.failure.reason, "symbol") ||
            !strstr(j->evidence.failure.text, "j_parallel_for"))
            continue;
        if (e->cls != TS_HOST || e->language != TS_C) continue;
        if (!e->json && e->n_sources) find_cause(&e->source[0], cause, sizeof cause);
        ts_fail("%s: %s makes this entrant class host; j_parallel_for exists only in class sealed",
                e->name, *cause ? cause : "entry.json");
    }
}

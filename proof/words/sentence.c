/* SPDX-License-Identifier: Apache-2.0 */
/* sentence.c - what a mutant does, in words: tables of names, and rules for names without a row. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agree.h"
#include "clauses.h"
#include "clauses_scripts.h"

enum { MOST_PARTS = 2 };

/* What a '#' or a '*' stands for. */
typedef struct part {
    const char *from;
    size_t      n;
} part;

/* Whether a name is of a form: no '#' follows a '*'. */
static bool fits(const char *form, const char *name, part *at)
{
    for (; *form && *form != '*'; form++) {
        if (*form != '#' && *form != *name++) return false;
        if (*form != '#') continue;
        *at = (part) { name, strspn(name, "0123456789") };
        if (!at->n) return false;
        name += at++->n;
    }
    if (!*form) return !*name;
    const size_t n = strlen(name), end = strlen(form + 1);
    if (n < end || strcmp(name + n - end, form + 1)) return false;
    *at = (part) { name, n - end };
    return true;
}

/* The clause of a rule, with words for the parts of a name. */
static void fill(const char *clause, const part *at, char *s, size_t n)
{
    size_t used = 0;
    for (; *clause; clause++) {
        const bool   stands = *clause == '#' || *clause == '*';
        const part   p = stands ? *at++ : (part) { clause, 1 };
        const size_t from = used;
        for (; used - from < p.n && used + 1 < n; used++)
            s[used] = stands && p.from[used - from] == '_' ? ' ' : p.from[used - from];
    }
    s[used] = 0;
}

static const char *row_of(const char *task, const char *mutant)
{
    for (size_t i = 0; i < sizeof of_task / sizeof *of_task; i++)
        if (!strcmp(of_task[i].mutant, mutant) && !strcmp(of_task[i].task, task))
            return of_task[i].clause;
    for (size_t i = 0; i < sizeof of_all / sizeof *of_all; i++)
        if (!strcmp(of_all[i].mutant, mutant)) return of_all[i].clause;
    for (size_t i = 0; i < sizeof of_scripts / sizeof *of_scripts; i++)
        if (!strcmp(of_scripts[i].mutant, mutant)) return of_scripts[i].clause;
    return NULL;
}

void ts_sentence(const char *task, const char *mutant, char *s, size_t n)
{
    const char *const row = row_of(task, mutant);
    part              at[MOST_PARTS];
    size_t            i = 0;
    if (row) {
        snprintf(s, n, "%s", row);
        return;
    }
    while (!fits(rules[i].form, mutant, at)) i++; /* the last rule fits all names */
    fill(rules[i].clause, at, s, n);
}

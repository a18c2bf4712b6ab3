/* SPDX-License-Identifier: Apache-2.0 */
/* scope_cases.c - the cases of an entrant with a scope: those of the task that are within it,
 * others adapted to it, and as many that cover it as cover the whole challenge. */
#include <stdlib.h>
#include <string.h>

#include "scope_inside.h"
#include "within.h"

enum { MOST_COVER = 2048 };

/* Entrants with the same scope share their list, which is kept until the program ends. */
typedef struct known {
    struct known  *next;
    const ts_task *t;
    char           text[TS_ENTRANT_OFFERS + 1];
    ts_scope_list  list;
    int            n, room;
} known;

typedef struct condition {
    ts_scope_code  x;
    const ts_task *t;
} condition;

static int breaks(const void *of, const ts_case *c)
{
    const condition *x = of;
    return ts_scope_breaks(&x->x, x->t, c);
}

static int hints(const void *of, const ts_case *c, int64_t value[TS_MOST_HINTS])
{
    const condition *x = of;
    return ts_scope_hints(&x->x, x->t, c, value, TS_MOST_HINTS);
}

static bool same(const ts_case *a, const ts_case *b)
{
    return a->dtype == b->dtype && ts_is(a, b->family) && !memcmp(a->dim, b->dim, sizeof a->dim);
}

static void append(known *k, const ts_case *c, int from)
{
    if (k->n + 1 >= k->room) {
        k->room = 2 * k->room + 64;
        k->list.c = realloc(k->list.c, (size_t)k->room * sizeof *k->list.c);
        k->list.from = realloc(k->list.from, (size_t)k->room * sizeof *k->list.from);
        if (!k->list.c || !k->list.from) abort();
    }
    k->list.c[k->n] = *c;
    k->list.from[k->n++] = from;
    k->list.c[k->n] = (ts_case) { .use = 0 };
}

/* Whether the list has it already, for the same use. */
static bool has(const known *k, const ts_case *c)
{
    for (int i = 0; i < k->n; i++)
        if (k->list.c[i].use == c->use && same(&k->list.c[i], c)) return true;
    return false;
}

static void add_listed(known *k, const ts_task *t, const ts_within *w, const ts_case *c, int number)
{
    ts_case    mine = *c;
    const bool checks = c->use & TS_USE_CHECK;
    if (w->breaks(w->of, c)) {
        if (!checks && (c->dtype != TS_F32 || !ts_is(c, "normal"))) return;
        if (!(checks ? ts_within_adapt : ts_within_adapt_timed)(t, w, &mine)) return;
        if (checks && has(k, &mine)) return;
    }
    append(k, &mine, number);
}

/* As many as the task has cases to check, of optional functions or others, and the list lacks. */
static void add_covering(known *k, const ts_task *t, const ts_within *w, const ts_cover *v)
{
    const bool optional = v == t->further;
    ts_case   *list = malloc(MOST_COVER * sizeof *list);
    int        n = 0;
    if (!list) abort();
    for (const ts_case *c = t->cases(); c->use; c++)
        n += c->use & TS_USE_CHECK && (ts_case_about(t, c) >= 0) == optional;
    for (int i = 0; i < k->n; i++)
        n -= k->list.c[i].use & TS_USE_CHECK && (ts_case_about(t, &k->list.c[i]) >= 0) == optional;
    n = ts_within_cover(t, v, w, list, n < MOST_COVER ? n : MOST_COVER, MOST_COVER);
    for (int i = 0; i < n; i++) append(k, &list[i], -1);
    free(list);
}

static const known *cases_of(const ts_scope *s, const ts_task *t)
{
    static known *all;
    for (const known *k = all; k; k = k->next)
        if (k->t == t && !strcmp(k->text, s->text)) return k;
    static condition of;
    const ts_within  w = { breaks, hints, &of };
    known           *k = calloc(1, sizeof *k);
    if (!k || !ts_scope_parse(s->text, &of.x)) abort(); /* it was read before */
    of.t = t;
    k->t = t;
    k->next = all;
    memcpy(k->text, s->text, sizeof k->text);
    for (int i = 0; t->cases()[i].use; i++)
        if (!(t->cases()[i].use & TS_USE_COVER)) add_listed(k, t, &w, &t->cases()[i], i);
    add_covering(k, t, &w, t->cover);
    if (t->further) add_covering(k, t, &w, t->further);
    return all = k;
}

/* Cases of optional functions do not count, since the entrant need not have these, nor do those
 * without any output, which show nothing. */
static int count(const known *k, const ts_task *t, ts_device d)
{
    const ts_case *c = k->list.c;
    int            n = 0;
    for (int i = 0; i < k->n; i++) {
        bool first = ts_case_checks(&c[i], d) && ts_case_about(t, &c[i]) < 0 && t->n_want(&c[i]);
        for (int m = 0; m < i && first; m++)
            first = !ts_case_checks(&c[m], d) || !same(&c[m], &c[i]);
        n += first;
    }
    return n;
}

bool ts_scope_fill(ts_scope *s, const ts_task *t, ts_device d, ts_refusal *why)
{
    char names[320];
    if (!*s->text) return true;
    const known *k = cases_of(s, t);
    const int    n = count(k, t, d);
    s->list = &k->list;
    if (n >= TS_SCOPE_LEAST) return true;
    ts_scope_names(t, names, sizeof names);
    if (!n)
        return ts_refuse(why, "entry", "'offers': '%s' excludes every case of %s with an output",
                         s->text, t->name);
    return ts_refuse(why, "entry",
                     "'offers' leaves %d different cases of %s with an output, fewer than %d; a "
                     "wider one may use: "
                     "%s",
                     n, t->name, TS_SCOPE_LEAST, names);
}

int ts_scope_number(const ts_scope *s, const ts_task *t, int number)
{
    const ts_case *c = ts_scope_cases(s, t);
    if (!s || !s->list) return number;
    for (int i = 0; c[i].use; i++)
        if (s->list->from[i] == number) return i;
    return -1;
}

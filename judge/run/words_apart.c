/* SPDX-License-Identifier: Apache-2.0 */
/* words_apart.c - what the cases that failed have in common, and those that passed do not.
 *
 * A property is named if every case that failed has it, most cases that have it failed, and several
 * cases do not have it. Of several the one with the largest share of failures is named; of equal
 * ones the first, in the order: size, pair of dimensions, dtype, family,
 * switch. */
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "words.h"

static const double MOSTLY = 0.7; /* of the cases with the property failed */
static const double CHANCE =
    1e-3;           /* of a property that only seems to separate them: many are tried */
enum { LEAST = 3 }; /* cases with and without it */

typedef enum property {
    AT_LEAST, /* of sizes, up to here */
    AT_MOST,
    NO_MULTIPLE,
    DIFFER,
    EQUAL,
    OF_DTYPE,
    OF_FAMILY
} property;

typedef struct rule {
    property    is;
    int         a, b;
    int64_t     of;
    const char *family;
} rule;

/* Names of an entrant's scope, the task's own first, and their values in all cases. */
enum { MOST_NAMES = TS_MAX_PARAMETERS + TS_MAX_DIMS };
typedef int64_t values[MOST_NAMES];

typedef struct search {
    const ts_task         *t;
    const ts_words_result *r;
    int                    n, n_own, n_names; /* of cases, of the task's own names, of names */
    ts_parameter           name[MOST_NAMES];
    values                *v;
    bool                  *apart; /* cases without a switch that all cases that failed have */
    rule                   best;
    double                 share;
} search;

/* Whether a dimension is a code, "0: none, 1: causal", whose order says nothing. */
static bool is_code(const char *says)
{
    return says && strchr(says, ':');
}

/* The one parameter that is a dtype. */
static bool is_dtype(const search *s, int a)
{
    return a < s->n_own && !strcmp(s->name[a].name, "store");
}

static void open_names(search *s)
{
    const ts_task *t = s->t;
    s->v = calloc((size_t)s->n, sizeof *s->v);
    s->apart = calloc((size_t)s->n, sizeof *s->apart);
    if (!s->v || !s->apart) abort();
    s->n_own = s->n_names = t->scope ? t->scope(s->r[0].c, s->name) : 0;
    for (int d = 0; d < TS_MAX_DIMS && t->dim_name[d]; d++)
        if (!is_code(t->dim_says[d])) s->name[s->n_names++] = (ts_parameter) { t->dim_name[d], d };
    for (int i = 0; i < s->n; i++) {
        ts_parameter p[TS_MAX_PARAMETERS];
        if (t->scope) t->scope(s->r[i].c, p);
        for (int a = 0; a < s->n_names; a++)
            s->v[i][a] = a < s->n_own ? p[a].value : s->r[i].c->dim[s->name[a].value];
    }
}

static bool has(const search *s, const rule *u, int i)
{
    const ts_case *c = s->r[i].c;
    const int64_t  v = s->v[i][u->a];
    switch (u->is) {
    case AT_LEAST:
        return v >= u->of;
    case AT_MOST:
        return v <= u->of;
    case EQUAL:
        return v == u->of;
    case NO_MULTIPLE:
        return v % u->of != 0;
    case DIFFER:
        return v != s->v[i][u->b];
    case OF_DTYPE:
        return (int64_t)c->dtype == u->of;
    default:
        return !strcmp(c->family, u->family);
    }
}

/* The probability that all of the cases without a property passed, of n cases of which so many
 * did, if it had nothing to do with it. */
static double by_chance(int n, int passed, int without)
{
    double p = 1;
    for (int i = 0; i < without; i++) p *= (double)(passed - i) / (n - i);
    return p;
}

static void try(search *s, rule u)
{
    int with = 0, failed = 0, n = 0;
    for (int i = 0; i < s->n; i++) {
        const bool is = has(s, &u, i);
        if (s->apart[i] && u.is < EQUAL) continue;
        n++;
        if (!is && !s->r[i].passed) return;
        with += is;
        failed += !s->r[i].passed;
    }
    const double share = with ? (double)failed / with : 0;
    if (failed < LEAST || n - with < LEAST || share < MOSTLY || share <= s->share) return;
    if (by_chance(n, n - failed, n - with) > CHANCE) return;
    s->best = u;
    s->share = share;
}

static bool is_switch(const search *s, int a)
{
    bool is = true;
    for (int i = 0; i < s->n; i++) is &= s->v[i][a] == 0 || s->v[i][a] == 1;
    return is;
}

/* A function that is not called, or a buffer that is not there, says nothing of sizes. */
static void set_apart(search *s)
{
    for (int a = 0; a < s->n_own; a++) {
        bool all = is_switch(s, a);
        for (int i = 0; i < s->n; i++) all &= s->r[i].passed || s->v[i][a] == 1;
        for (int i = 0; i < s->n && all; i++) s->apart[i] |= !s->v[i][a];
    }
}

/* Switches are tried last: those that a family implies, such as lengths, are not the reason. */
static void try_name(search *s, int a, bool last)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int i = 0; i < s->n; i++) {
        const int64_t v = s->v[i][a];
        if (s->r[i].passed) continue;
        if (v < least) least = v;
        if (v > most) most = v;
    }
    const bool own = a < s->n_own;
    if (is_switch(s, a) || is_dtype(s, a)) {
        if (last && least == most) try(s, (rule) { .is = EQUAL, .a = a, .of = least });
        return;
    }
    if (last) return;
    /* What is true of all but empty cases says nothing; a window of 0 is none. */
    if (least > !own) try(s, (rule) { .is = AT_LEAST, .a = a, .of = least });
    try(s, (rule) { .is = AT_MOST, .a = a, .of = most });
    for (int64_t m = 2; m <= 256; m *= 2) try(s, (rule) { .is = NO_MULTIPLE, .a = a, .of = m });
}

static void describe(const search *s, char *text, size_t n)
{
    const rule     *u = &s->best;
    const char     *a = s->name[u->a].name, *b = s->name[u->b].name;
    const char     *of = u->is == OF_FAMILY ? ts_family_words(s->t, u->family) : NULL;
    const long long v = (long long)u->of;
    const bool      dtype = is_dtype(s, u->a);
    if (u->is == AT_LEAST && v == 2) snprintf(text, n, TS_WORDS_MANY "%s", a);
    else if (u->is == AT_LEAST) snprintf(text, n, "fails only when %s >= %lld", a, v);
    else if (u->is == AT_MOST) snprintf(text, n, "fails only when %s <= %lld", a, v);
    else if (u->is == EQUAL && dtype)
        snprintf(text, n, "fails only when %s is %s", a, ts_format_of((ts_dtype)v)->name);
    else if (u->is == EQUAL) snprintf(text, n, "fails only when %s is %lld", a, v);
    else if (u->is == NO_MULTIPLE)
        snprintf(text, n, "fails only when %s is not a multiple of %lld", a, v);
    else if (u->is == DIFFER) snprintf(text, n, "fails only when %s and %s differ", a, b);
    else if (u->is == OF_DTYPE)
        snprintf(text, n, "fails only in %s", ts_format_of((ts_dtype)v)->name);
    else if (of) snprintf(text, n, "fails only %s", of);
    else snprintf(text, n, "fails only with inputs of family %s", u->family);
}

/* The family with the largest share of failures, if most of its cases failed; "normal" if many of
 * its cases failed, since then other inputs are not the reason. */
static void worst_family(const search *s, char *text, size_t n)
{
    const char *worst = NULL;
    double      share = 0;
    for (int i = 0; i < s->n; i++) {
        int failed = 0, all = 0;
        for (int k = 0; k < s->n; k++)
            if (!strcmp(s->r[k].c->family, s->r[i].c->family)) all++, failed += !s->r[k].passed;
        if (!strcmp(s->r[i].c->family, "normal") && failed >= LEAST && 2 * failed >= all) {
            worst = "normal", share = 1;
            break;
        }
        if (failed < LEAST || (double)failed / all <= share) continue;
        worst = s->r[i].c->family;
        share = (double)failed / all;
    }
    const char *words = worst ? ts_family_words(s->t, worst) : NULL;
    if (share >= MOSTLY && words) snprintf(text, n, "fails %s", words);
}

void ts_words_apart(const ts_task *t, const ts_words_result *r, int n, bool mostly, char *text,
                    size_t n_text)
{
    search s = { .t = t, .r = r, .n = n };
    int    failed = 0;
    *text = 0;
    for (int i = 0; i < n; i++) failed += !r[i].passed;
    if (failed == n && n >= LEAST && mostly) snprintf(text, n_text, "fails in every case");
    if (!failed || failed == n) return;
    open_names(&s);
    set_apart(&s);
    for (int a = 0; a < s.n_names; a++) try_name(&s, a, false);
    for (int a = s.n_own; a < s.n_names; a++)
        for (int b = a + 1; b < s.n_names; b++) try(&s, (rule) { .is = DIFFER, .a = a, .b = b });
    for (int i = 0; i < n; i++) {
        if (r[i].passed) continue;
        try(&s, (rule) { .is = OF_DTYPE, .of = (int64_t)r[i].c->dtype });
        try(&s, (rule) { .is = OF_FAMILY, .family = r[i].c->family });
    }
    for (int a = 0; a < s.n_names; a++) try_name(&s, a, true);
    if (s.share > 0) describe(&s, text, n_text);
    else if (mostly) worst_family(&s, text, n_text);
    free(s.v);
    free(s.apart);
}

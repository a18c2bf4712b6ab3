/* SPDX-License-Identifier: Apache-2.0 */
/* scope.c - parses an entrant's declared scope, and evaluates it for a case. */
#include "scope_inside.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the covering cases in the share, whose listed cases are mostly of usual parameters. */
static const double COVER_WEIGHT = 2. / 3;

static void name(ts_launch_env *e, const char *what, int64_t value)
{
    e->v[e->n++] = (ts_env_value) { .name = what, .kind = TS_ENV_INTEGER, .i = value };
}

/* One word, so that it is the number itself that is meant. */
static bool is_name(const char *says)
{
    return says && *says && !says[strspn(says, "abcdefghijklmnopqrstuvwxyz0123456789_")];
}

/* The first definition of a name counts: the task's own names precede its dimensions. */
static void names_of(const ts_task *t, const ts_case *c, ts_launch_env *e)
{
    static const struct {
        const char *name;
        ts_dtype    dtype;
    } dtypes[] = { { "f32", TS_F32 },   { "f64", TS_F64 }, { "f16", TS_F16 },
                   { "bf16", TS_BF16 }, { "u8", TS_U8 },   { "u4", TS_U4 } };
    ts_parameter p[TS_MAX_PARAMETERS];
    const int    n = t->scope ? t->scope(c, p) : 0;
    e->n = 0;
    for (int i = 0; i < n; i++) name(e, p[i].name, p[i].value);
    for (int i = 0; i < TS_MAX_DIMS && t->dim_name[i]; i++) {
        name(e, t->dim_name[i], c->dim[i]);
        if (is_name(t->dim_says[i])) name(e, t->dim_says[i], c->dim[i]);
    }
    for (int i = 0; i < TS_MAX_MORE && t->more_name[i]; i++) {
        name(e, t->more_name[i], c->dim[TS_MAX_DIMS + i]);
        if (is_name(t->more_says[i])) name(e, t->more_says[i], c->dim[TS_MAX_DIMS + i]);
    }
    name(e, "dtype", c->dtype);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        name(e, dtypes[i].name, dtypes[i].dtype);
}

void ts_scope_names(const ts_task *t, char *names, size_t n)
{
    ts_launch_env e;
    *names = 0;
    names_of(t, t->cases(), &e);
    for (int i = 0; i < e.n; i++) {
        bool again = false;
        for (int k = 0; k < i; k++) again |= !strcmp(e.v[k].name, e.v[i].name);
        const size_t at = strlen(names);
        if (!again) snprintf(names + at, n - at, "%s%s", i ? " " : "", e.v[i].name);
    }
}

/* ---- clauses ---- */

static bool read_range(ts_scope_code *x, size_t from, size_t to, ts_expr *e)
{
    ts_reader *r = &x->r;
    const int  had = r->n_ops;
    r->at = from, r->end = to;
    if (ts_expr_read(r, e) && r->at == r->end) return true;
    r->n_ops = had;
    *e = (ts_expr) { 0 };
    return false;
}

/* Where the operator is, outside of brackets, before `to`; `to`: nowhere. */
static size_t find(const char *text, size_t from, size_t to, const char *sign)
{
    int depth = 0;
    for (; from < to; from++) {
        depth += (text[from] == '(') - (text[from] == ')');
        if (!depth && !strncmp(text + from, sign, strlen(sign))) return from;
    }
    return to;
}

/* Blanks at both ends, and brackets around all of it. */
static void strip(const char *text, size_t *from, size_t *to)
{
    while (*from < *to && text[*from] == ' ') ++*from;
    while (*from < *to && text[*to - 1] == ' ') --*to;
    if (*from == *to || text[*from] != '(' || find(text, *from, *to, ")") != *to - 1) return;
    ++*from, --*to;
    strip(text, from, to);
}

static void read_test(ts_scope_code *x, size_t from, size_t to, ts_clause *c)
{
    static const char *const signs[] = { "==", "!=", "<=", ">=", "<", ">" };
    c->kind = TS_CLAUSE_TEST;
    read_range(x, from, to, &c->whole);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const size_t at = find(x->text, from, to, signs[i]);
        if (at == to) continue;
        read_range(x, from, at, &c->side[0]);
        read_range(x, at + strlen(signs[i]), to, &c->side[1]);
        return;
    }
}

/* A valid expression, whose parts are valid too. */
static void cut(ts_scope_code *x, size_t from, size_t to)
{
    ts_clause *c = &x->clause[x->n_clauses++];
    strip(x->text, &from, &to);
    const bool  any = find(x->text, from, to, "||") < to;
    const char *sign = any ? "||" : "&&";
    *c = (ts_clause) { .kind = any ? TS_CLAUSE_ANY : TS_CLAUSE_ALL };
    if (find(x->text, from, to, sign) == to) read_test(x, from, to, c);
    else
        for (size_t at; from < to; from = at + 2) {
            at = find(x->text, from, to, sign);
            cut(x, from, at);
        }
    c->end = x->n_clauses;
}

bool ts_scope_parse(const char *text, ts_scope_code *x)
{
    x->text = text;
    x->n_clauses = 0;
    x->r = (ts_reader) { .code = { text, x->op }, .end = strlen(text) };
    if (!ts_expr_read(&x->r, &x->whole)) return false;
    if (x->r.at < x->r.end) return ts_read_wrong(&x->r, "an operator or the end of the expression");
    cut(x, 0, strlen(text));
    return true;
}

static int breaks(const ts_scope_code *x, const ts_launch_env *e, int at)
{
    const ts_clause *c = &x->clause[at];
    ts_mistake       f;
    int64_t          v = 0;
    int              sum = 0, least = INT_MAX;
    if (c->kind == TS_CLAUSE_TEST) return !(ts_expr_value(&x->r.code, c->whole, e, &v, &f) && v);
    for (int i = at + 1; i < c->end; i = x->clause[i].end) {
        const int n = breaks(x, e, i);
        sum += n;
        if (n < least) least = n;
    }
    return c->kind == TS_CLAUSE_ALL ? sum : least;
}

int ts_scope_breaks(const ts_scope_code *x, const ts_task *t, const ts_case *c)
{
    ts_launch_env e;
    names_of(t, c, &e);
    return breaks(x, &e, 0);
}

int ts_scope_hints(const ts_scope_code *x, const ts_task *t, const ts_case *c, int64_t *value,
                   int room)
{
    ts_launch_env e;
    ts_mistake    f;
    int           n = 0;
    names_of(t, c, &e);
    for (int step = 0; step < 3; step++)
        for (int i = 0; i < x->n_clauses; i++)
            for (int k = 1; k >= 0 && x->clause[i].kind == TS_CLAUSE_TEST; k--) {
                int64_t v;
                if (n == room || !x->clause[i].side[k].n) continue;
                if (!ts_expr_value(&x->r.code, x->clause[i].side[k], &e, &v, &f)) continue;
                if (v > INT64_MIN && v < INT64_MAX) value[n++] = v + (step == 1) - (step == 2);
            }
    return n;
}

/* Parsed again for each use: it is short. */
bool ts_scope_takes(const ts_scope *s, const ts_task *t, const ts_case *c)
{
    static ts_scope_code x;
    if (!s) return true;
    const int about = ts_case_about(t, c);
    if (about >= 0 && s->lacks >> about & 1u) return false;
    return !*s->text || (ts_scope_parse(s->text, &x) && !ts_scope_breaks(&x, t, c));
}

void ts_scope_optional(const ts_scope *s, const ts_task *t, bool has, char *names, size_t n)
{
    *names = 0;
    for (int i = 0; t->optional && t->optional[i]; i++) {
        const size_t at = strlen(names);
        if (!(s->lacks >> i & 1u) == has)
            snprintf(names + at, n - at, "%s%s", at ? " " : "", t->optional[i]);
    }
}

/* "unknown name 'kk'; the names are k, ..." */
static bool wrong(const ts_mistake *f, const ts_task *t, ts_refusal *why)
{
    char known[320];
    ts_scope_names(t, known, sizeof known);
    return ts_refuse(why, "entry", "'offers', column %zu: %s; known names: %s", f->at + 1, f->text,
                     known);
}

/* Cases of optional functions, and those for values within a class, do not count for the share. */
static bool is_shared(const ts_task *t, const ts_case *c, ts_device d, bool covering)
{
    return ts_case_checks(c, d) && !(c->use & TS_USE_WITHIN) &&
           covering == !!(c->use & TS_USE_COVER) && ts_case_about(t, c) < 0;
}

/* The fraction in scope. Of listed cases it is the mean over their groups, so that large groups do
 * not weigh more; a class of a parameter has about as many covering cases as any other. *n: how
 * many cases there are. */
static double fraction(const ts_scope *s, const ts_task *t, ts_device d, bool covering, double *n)
{
    const ts_case *all = t->cases();
    size_t         n_all = 0;
    double         sum = 0, groups = 0;
    while (all[n_all].use) n_all++;
    uint64_t *group = calloc(n_all + 1, sizeof *group); /* 0: does not count */
    if (!group) abort();
    *n = 0;
    for (size_t i = 0; i < n_all; i++)
        if (is_shared(t, &all[i], d, covering))
            group[i] = covering ? i + 1 : ts_case_group(t, &all[i]);
    for (size_t i = 0; i < n_all; i++) {
        double alike = 0;
        if (!group[i]) continue;
        for (size_t k = 0; k < n_all; k++) alike += group[k] == group[i];
        groups += 1 / alike, ++*n;
        if (ts_scope_takes(s, t, &all[i])) sum += 1 / alike;
    }
    free(group);
    return groups > 0 ? sum / groups : 0;
}

/* At least what one case is, since cases are made in any scope. */
static double share_of(const ts_scope *s, const ts_task *t, ts_device d)
{
    double       n_own, n_cover;
    const double own = fraction(s, t, d, false, &n_own), cover = fraction(s, t, d, true, &n_cover);
    const double weight = n_cover > 0 ? COVER_WEIGHT : 0;
    return fmax((1 - weight) * own + weight * cover, 1 / fmax(1, n_own + n_cover));
}

bool ts_scope_read(const char *text, const ts_task *t, ts_device d, ts_scope *s, ts_refusal *why)
{
    static ts_scope_code x;
    ts_launch_env        names;
    ts_mistake           f = { 0 };
    int64_t              v;
    *s = (ts_scope) { .share = 1 };
    if (!*text) return true;
    snprintf(s->text, sizeof s->text, "%s", text);
    names_of(t, t->cases(), &names);
    if (!ts_scope_parse(s->text, &x)) return wrong(&x.r.fault, t, why);
    if (!ts_expr_knows(&x.r.code, x.whole, &names, &f)) return wrong(&f, t, why);
    for (const ts_case *c = t->cases(); c->use; c++) {
        char which[192];
        names_of(t, c, &names);
        if (ts_expr_value(&x.r.code, x.whole, &names, &v, &f)) continue;
        ts_case_string(t, c, 0, which, sizeof which);
        which[strcspn(which, "@")] = 0;
        return ts_refuse(why, "entry", "'offers', column %zu: %s, in case %s", f.at + 1, f.text,
                         which);
    }
    s->share = share_of(s, t, d);
    return true;
}

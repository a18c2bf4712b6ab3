/* SPDX-License-Identifier: Apache-2.0 */
/* scope.c - parses an entrant's declared scope, and evaluates it for a case. */
#include "scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expr.h"

static void name(ts_launch_env *e, const char *what, int64_t value)
{
    e->v[e->n++] = (ts_env_value) { .name = what, .kind = TS_ENV_INTEGER, .i = value };
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
    for (int i = 0; i < TS_MAX_DIMS && t->dim_name[i]; i++) name(e, t->dim_name[i], c->dim[i]);
    name(e, "dtype", c->dtype);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        name(e, dtypes[i].name, dtypes[i].dtype);
}

/* Parsed again for each use: it is short. */
typedef struct reading {
    ts_op     op[TS_ENTRANT_OFFERS];
    ts_reader r;
    ts_expr   e;
} reading;

static bool read_all(const char *text, reading *x)
{
    x->r = (ts_reader) { .code = { text, x->op }, .end = strlen(text) };
    return ts_expr_read(&x->r, &x->e) &&
           (x->r.at == x->r.end ||
            ts_read_wrong(&x->r, "an operator or the end of the expression"));
}

static bool value_of(const ts_scope *s, const ts_task *t, const ts_case *c, int64_t *v,
                     ts_mistake *f)
{
    ts_launch_env e;
    reading       x;
    names_of(t, c, &e);
    return read_all(s->text, &x) && ts_expr_value(&x.r.code, x.e, &e, v, f);
}

bool ts_scope_takes(const ts_scope *s, const ts_task *t, const ts_case *c)
{
    int64_t    v = 0;
    ts_mistake f;
    if (!s) return true;
    const int about = ts_case_about(t, c);
    if (about >= 0 && s->lacks >> about & 1u) return false;
    if (!*s->text) return true;
    return value_of(s, t, c, &v, &f) && v != 0; /* cannot fail: evaluated on every case before */
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
static bool wrong(const ts_mistake *f, const ts_launch_env *e, ts_refusal *why)
{
    char known[256] = "";
    for (int i = 0; i < e->n; i++) {
        bool again = false;
        for (int k = 0; k < i; k++) again |= !strcmp(e->v[k].name, e->v[i].name);
        if (!again)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? " " : "",
                     e->v[i].name);
    }
    return ts_refuse(why, "entry", "'offers', column %zu: %s; known names: %s", f->at + 1, f->text,
                     known);
}

/* Cases of optional functions do not count for the share. */
static bool is_shared(const ts_task *t, const ts_case *c, ts_device d)
{
    return ts_case_checks(c, d) && !(c->use & TS_USE_COVER) && ts_case_about(t, c) < 0;
}

/* The mean over groups of the fraction in scope, so that large groups do not weigh more. */
static double share_of(const ts_scope *s, const ts_task *t, ts_device d)
{
    const ts_case *all = t->cases();
    size_t         n = 0;
    double         sum = 0, groups = 0;
    while (all[n].use) n++;
    uint64_t *group = calloc(n + 1, sizeof *group);
    if (!group) abort();
    for (size_t i = 0; i < n; i++) group[i] = ts_case_group(t, &all[i]);
    for (size_t i = 0; i < n; i++) {
        double alike = 0;
        if (!is_shared(t, &all[i], d)) continue;
        for (size_t k = 0; k < n; k++) alike += group[k] == group[i] && is_shared(t, &all[k], d);
        groups += 1 / alike;
        if (ts_scope_takes(s, t, &all[i])) sum += 1 / alike;
    }
    free(group);
    return groups > 0 ? sum / groups : 0;
}

bool ts_scope_read(const char *text, const ts_task *t, ts_device d, ts_scope *s, ts_refusal *why)
{
    ts_launch_env names;
    reading       x;
    ts_mistake    f = { 0 };
    int64_t       v;
    *s = (ts_scope) { .share = 1 };
    if (!*text) return true;
    snprintf(s->text, sizeof s->text, "%s", text);
    names_of(t, t->cases(), &names);
    if (!read_all(s->text, &x)) return wrong(&x.r.fault, &names, why);
    if (!ts_expr_knows(&x.r.code, x.e, &names, &f)) return wrong(&f, &names, why);
    for (const ts_case *c = t->cases(); c->use; c++) {
        char which[192];
        if (value_of(s, t, c, &v, &f)) continue;
        ts_case_string(t, c, 0, which, sizeof which);
        which[strcspn(which, "@")] = 0;
        return ts_refuse(why, "entry", "'offers', column %zu: %s, in case %s", f.at + 1, f.text,
                         which);
    }
    s->share = share_of(s, t, d);
    return s->share > 0 ||
           ts_refuse(why, "entry", "'offers': '%s' excludes every case of %s", s->text, t->name);
}

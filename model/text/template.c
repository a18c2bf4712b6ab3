/* SPDX-License-Identifier: Apache-2.0 */
/* template.c - runs a parsed chat template: evaluates expressions and writes its text. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template.h"

enum { MOST_STEPS = 2000000, MOST_DEPTH = 200, MOST_NESTED = 64 };

void *ts_template_fail(ts_template *t, const char *format, ...)
{
    char    what[TS_MODEL_WHY];
    va_list list;
    if (t->bad) return NULL; /* the first one counts */
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    t->bad = true;
    ts_say(t->why, "template: line %d: %.210s", t->line, what);
    return NULL;
}

static json_t *eval(ts_template *t, const ts_node *n);
static void    run(ts_template *t, const ts_node *n);

/* ---- variables ---- */

static bool enter(ts_template *t)
{
    if (t->n_scope == TS_SCOPES) return ts_template_fail(t, "more than %d scopes", (int)TS_SCOPES);
    t->scope[t->n_scope] = json_object();
    if (!t->scope[t->n_scope]) return ts_template_fail(t, "out of memory");
    t->n_scope++;
    return true;
}

static void leave(ts_template *t)
{
    json_decref(t->scope[--t->n_scope]);
}

static json_t *find(const ts_template *t, const char *name)
{
    for (int i = t->n_scope - 1; i >= t->floor; i--) {
        json_t *v = json_object_get(t->scope[i], name);
        if (v) return v;
    }
    return json_object_get(t->scope[0], name);
}

/* What is undefined is taken out. */
static void assign(ts_template *t, const char *name, json_t *v)
{
    json_t *to = t->scope[t->n_scope - 1];
    if (!v) json_object_del(to, name);
    else if (json_object_set_nocheck(to, name, v)) ts_template_fail(t, "out of memory");
}

/* ---- calls ---- */

static void free_args(ts_call_args *a)
{
    for (int i = 0; i < a->n; i++) json_decref(a->value[i]);
}

static void eval_args(ts_template *t, const ts_node *n, ts_call_args *a)
{
    *a = (ts_call_args) { 0 };
    for (; n && a->n < TS_ARGS && !t->bad; n = n->next) {
        a->name[a->n] = n->name;
        a->value[a->n++] = eval(t, n->a);
    }
}

static void bind(ts_template *t, const ts_node *macro, const ts_call_args *a)
{
    int at = 0;
    for (const ts_node *p = macro->b; p && !t->bad; p = p->next, at++) {
        json_t *v = at < a->n && !a->name[at] ? json_incref(a->value[at]) : NULL;
        for (int i = 0; i < a->n; i++)
            if (a->name[i] && !strcmp(a->name[i], p->name)) v = json_incref(a->value[i]);
        if (!v && p->a) v = eval(t, p->a);
        assign(t, p->name, v);
        json_decref(v);
    }
}

/* The text that a body writes. */
static json_t *captured(ts_template *t, const ts_node *body)
{
    ts_text  mine = { 0 }, *before = t->out;
    ts_node *jump = t->jump;
    t->out = &mine;
    t->jump = NULL;
    run(t, body);
    t->jump = jump;
    t->out = before;
    json_t *v = t->bad ? NULL : ts_value_text(mine.p ? mine.p : "", mine.n);
    free(mine.p);
    return v;
}

static json_t *call_macro(ts_template *t, const ts_node *n, const ts_call_args *a)
{
    const ts_node *m = t->macro;
    const int      floor = t->floor;
    json_t        *v = NULL;
    while (m && strcmp(m->name, n->name)) m = m->other;
    if (!m) return ts_template_fail(t, "macro %.60s: unknown", n->name);
    if (!enter(t)) return NULL;
    t->floor = t->n_scope - 1;
    bind(t, m, a);
    if (!t->bad) v = captured(t, m->body);
    leave(t);
    t->floor = floor;
    return v;
}

static json_t *call(ts_template *t, const ts_node *n)
{
    ts_call_args a;
    json_t      *of = n->a ? eval(t, n->a) : NULL, *v = NULL;
    eval_args(t, n->args, &a);
    t->line = n->line;
    if (t->bad) v = NULL;
    else if (n->kind == TS_N_FILTER) v = ts_filter_call(t, n->call, of, &a);
    else if (n->kind == TS_N_METHOD) v = ts_method_call(t, n->call, of, &a);
    else if (n->kind == TS_N_TEST) v = json_boolean(ts_test_call(t, n->call, of, &a) != n->negate);
    else v = n->call >= 0 ? ts_function_call(t, n->call, &a) : call_macro(t, n, &a);
    json_decref(of);
    free_args(&a);
    return v;
}

/* ---- expressions ---- */

static json_t *list(ts_template *t, const ts_node *n)
{
    json_t *out = json_array();
    for (n = n->a; n && !t->bad; n = n->next) {
        json_t *v = eval(t, n->a);
        json_array_append_new(out, v ? v : json_null());
    }
    return out;
}

static json_t *dict(ts_template *t, const ts_node *n)
{
    json_t *out = json_object();
    for (n = n->a; n && !t->bad; n = n->next) {
        json_t *key = eval(t, n->a), *v = eval(t, n->b);
        if (!key || !json_is_string(key)) ts_template_fail(t, "a key that is no string");
        else json_object_set_nocheck(out, json_string_value(key), v ? v : json_null());
        json_decref(key);
        json_decref(v);
    }
    return out;
}

static json_t *slice(ts_template *t, const ts_node *n)
{
    json_t *of = eval(t, n->a), *from = n->b ? eval(t, n->b) : NULL;
    json_t *to = n->c ? eval(t, n->c) : NULL, *by = n->d ? eval(t, n->d) : NULL;
    json_t *v = t->bad ? NULL : ts_value_slice(t, of, from, to, by);
    json_decref(of);
    json_decref(from);
    json_decref(to);
    json_decref(by);
    return v;
}

static json_t *attribute(ts_template *t, const ts_node *n)
{
    json_t *of = eval(t, n->a), *v = NULL;
    if (!of) ts_template_fail(t, "attribute %.60s of what is undefined", n->name);
    else if (json_is_object(of)) v = json_incref(json_object_get(of, n->name));
    json_decref(of);
    return v;
}

static json_t *two(ts_template *t, const ts_node *n)
{
    json_t *a = eval(t, n->a), *b = t->bad ? NULL : eval(t, n->b), *v = NULL;
    t->line = n->line;
    if (!t->bad)
        v = n->kind == TS_N_ITEM ? ts_value_item(t, a, b) : ts_value_binary(t, n->op, a, b);
    json_decref(a);
    json_decref(b);
    return v;
}

static json_t *negated(ts_template *t, const ts_node *n)
{
    json_t *zero = json_integer(0), *a = eval(t, n->a);
    json_t *v = t->bad ? NULL : ts_value_binary(t, TS_OP_SUB, zero, a);
    json_decref(zero);
    json_decref(a);
    return v;
}

/* and, or: one of the two values. */
static json_t *either(ts_template *t, const ts_node *n)
{
    json_t *a = eval(t, n->a);
    if (t->bad || ts_value_true(a) == (n->kind == TS_N_OR)) return a;
    json_decref(a);
    return eval(t, n->b);
}

static bool holds(ts_template *t, const ts_node *n)
{
    json_t    *v = eval(t, n);
    const bool yes = ts_value_true(v);
    json_decref(v);
    return yes;
}

static bool step(ts_template *t, const ts_node *n)
{
    if (t->bad) return false;
    t->line = n->line;
    if (++t->n_step > MOST_STEPS) return ts_template_fail(t, "more than %d steps", (int)MOST_STEPS);
    if (t->depth >= MOST_DEPTH) return ts_template_fail(t, "nested too deeply");
    return true;
}

/* A function is defined and true; more is not to be had of one without a call. */
static json_t *named(const ts_template *t, const char *name)
{
    json_t *v = find(t, name);
    return v ? json_incref(v) : ts_function_find(name) >= 0 ? json_true() : NULL;
}

static json_t *value_of(ts_template *t, const ts_node *n)
{
    switch (n->kind) {
    case TS_N_LITERAL:
        return json_incref(n->value);
    case TS_N_NAME:
        return named(t, n->name);
    case TS_N_LIST:
        return list(t, n);
    case TS_N_DICT:
        return dict(t, n);
    case TS_N_ATTR:
        return attribute(t, n);
    case TS_N_SLICE:
        return slice(t, n);
    case TS_N_CALL:
    case TS_N_METHOD:
    case TS_N_FILTER:
    case TS_N_TEST:
        return call(t, n);
    case TS_N_NOT:
        return json_boolean(!holds(t, n->a));
    case TS_N_NEGATE:
        return negated(t, n);
    case TS_N_AND:
    case TS_N_OR:
        return either(t, n);
    case TS_N_ITEM:
    case TS_N_BINARY:
        return two(t, n);
    case TS_N_CHOICE:
        if (holds(t, n->a)) return eval(t, n->b);
        return n->c ? eval(t, n->c) : NULL;
    default:
        return ts_template_fail(t, "not an expression");
    }
}

static json_t *eval(ts_template *t, const ts_node *n)
{
    if (!step(t, n)) return NULL;
    t->depth++;
    json_t *v = value_of(t, n);
    t->depth--;
    if (!t->bad) return v;
    json_decref(v);
    return NULL;
}

/* ---- statements ---- */

/* One name, or several that get the items of a list. */
static void assign_names(ts_template *t, const ts_node *names, json_t *v)
{
    size_t i = 0, n = 0;
    for (const ts_node *p = names; p; p = p->next) n++;
    if (n == 1) {
        assign(t, names->name, v);
        return;
    }
    if (!v || !json_is_array(v) || json_array_size(v) != n) {
        ts_template_fail(t, "cannot take %zu values from %s", n, ts_value_kind(v));
        return;
    }
    for (const ts_node *p = names; p; p = p->next) assign(t, p->name, json_array_get(v, i++));
}

/* Values stay shallow and without cycles, so that freeing and comparing them ends. `in_space`: the
 * value goes into a namespace, and so may contain none. */
static bool shallow(ts_template *t, const json_t *v, int depth, bool in_space)
{
    const char *key;
    json_t     *item;
    size_t      i;
    bool        ok = true;
    if (!v || !(json_is_array(v) || json_is_object(v))) return true;
    if (depth > MOST_NESTED || ++t->n_step > MOST_STEPS)
        return ts_template_fail(t, "a value is nested too deeply");
    json_array_foreach(t->spaces, i, item) if (in_space && item == v) return ts_template_fail(
        t, "a namespace inside a namespace");
    if (json_is_array(v))
        json_array_foreach(v, i, item) ok = ok && shallow(t, item, depth + 1, in_space);
    else
        json_object_foreach((json_t *)v, key, item) ok =
            ok && shallow(t, item, depth + 1, in_space);
    return ok;
}

static void set(ts_template *t, const ts_node *n)
{
    json_t *v = n->kind == TS_N_BLOCK ? captured(t, n->body) : eval(t, n->a), *of, *space;
    size_t  i;
    bool    known = false;
    shallow(t, v, 0, n->b->kind == TS_N_ATTR);
    if (!t->bad && n->b->kind == TS_N_ATTR) {
        of = find(t, n->b->a->name);
        json_array_foreach(t->spaces, i, space) known = known || space == of;
        if (!known) ts_template_fail(t, "%.60s: not a namespace", n->b->a->name);
        else json_object_set_nocheck(of, n->b->name, v ? v : json_null());
    } else if (!t->bad) assign_names(t, n->b, v);
    json_decref(v);
}

static json_t *loop_of(const json_t *items, size_t i)
{
    const size_t n = json_array_size(items);
    json_t      *o =
        json_pack("{sI sI sI sI sI sb sb}", "index", (json_int_t)i + 1, "index0", (json_int_t)i,
                  "revindex", (json_int_t)(n - i), "revindex0", (json_int_t)(n - i - 1), "length",
                  (json_int_t)n, "first", i == 0, "last", i + 1 == n);
    if (o && i) json_object_set(o, "previtem", json_array_get(items, i - 1));
    if (o && i + 1 < n) json_object_set(o, "nextitem", json_array_get(items, i + 1));
    return o;
}

/* Those that the loop's condition lets in. */
static json_t *filtered(ts_template *t, const ts_node *n, json_t *all)
{
    json_t *out = json_array(), *item;
    size_t  i;
    json_array_foreach(all, i, item)
    {
        if (!enter(t)) break;
        assign_names(t, n->b, item);
        if (!t->bad && holds(t, n->c)) json_array_append(out, item);
        leave(t);
        if (t->bad) break;
    }
    json_decref(all);
    return out;
}

static void loop(ts_template *t, const ts_node *n)
{
    json_t *of = eval(t, n->a), *items = t->bad ? NULL : ts_value_list(t, of), *item;
    size_t  i;
    json_decref(of);
    if (items && n->c) items = filtered(t, n, items);
    json_array_foreach(items, i, item)
    {
        json_t *about = loop_of(items, i);
        if (!step(t, n) || !enter(t)) {
            json_decref(about);
            break;
        }
        assign(t, "loop", about);
        json_decref(about);
        assign_names(t, n->b, item);
        run(t, n->body);
        leave(t);
        const bool ended = t->jump && t->jump->kind == TS_N_BREAK;
        t->jump = NULL;
        if (ended) break;
    }
    if (!t->bad && items && !json_array_size(items)) run(t, n->other);
    json_decref(items);
}

static void run_one(ts_template *t, const ts_node *n)
{
    json_t *v;
    switch (n->kind) {
    case TS_N_TEXT:
        ts_value_print(t, n->value, t->out);
        break;
    case TS_N_OUT:
        v = eval(t, n->a);
        if (!t->bad) ts_value_print(t, v, t->out);
        json_decref(v);
        break;
    case TS_N_IF:
        if (holds(t, n->a)) run(t, n->body);
        else if (!t->bad) run(t, n->other);
        break;
    case TS_N_FOR:
        loop(t, n);
        break;
    case TS_N_SET:
    case TS_N_BLOCK:
        set(t, n);
        break;
    case TS_N_PART:
        run(t, n->body);
        break;
    case TS_N_BREAK:
    case TS_N_CONTINUE:
        t->jump = (ts_node *)n;
        break;
    default:
        break; /* a macro runs when it is called */
    }
}

static void run(ts_template *t, const ts_node *n)
{
    for (; n && !t->jump && step(t, n); n = n->next) {
        t->depth++;
        run_one(t, n);
        t->depth--;
    }
}

bool ts_template_run(ts_template *t, const json_t *variables, time_t now, ts_text *out,
                     char why[TS_MODEL_WHY])
{
    t->why = why;
    t->bad = false;
    t->jump = NULL;
    t->n_step = t->depth = t->n_scope = t->floor = 0;
    t->out = out;
    t->now = now;
    t->spaces = json_array();
    t->scope[t->n_scope++] = json_copy((json_t *)variables);
    if (!t->spaces || !t->scope[0]) ts_template_fail(t, "out of memory");
    else run(t, t->root);
    while (t->n_scope) leave(t);
    json_decref(t->spaces);
    return !t->bad;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* template_call.c - methods, tests and functions of a chat template. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "template.h"

enum { MOST_RANGE = 100000 };

/* ---- arguments and names ---- */

int ts_name_find(const char *const *list, const char *name)
{
    for (int i = 0; list[i]; i++)
        if (!strcmp(list[i], name)) return i;
    return -1;
}

/* By name, or else by place; NULL: not given. */
json_t *ts_arg(const ts_call_args *a, int at, const char *name)
{
    for (int i = 0; i < a->n; i++)
        if (a->name[i] && !strcmp(a->name[i], name)) return a->value[i];
    return at >= 0 && at < a->n && !a->name[at] ? a->value[at] : NULL;
}

const char *ts_arg_text(ts_template *t, const ts_call_args *a, int at, const char *name,
                        const char *otherwise)
{
    const json_t *v = ts_arg(a, at, name);
    if (!v || json_is_null(v)) return otherwise;
    if (json_is_string(v)) return json_string_value(v);
    return ts_template_fail(t, "%s: got %s, expected a string", name, ts_value_kind(v));
}

bool ts_arg_count(ts_template *t, const ts_call_args *a, int at, const char *name, int64_t *n)
{
    const json_t *v = ts_arg(a, at, name);
    if (v && json_is_integer(v)) *n = json_integer_value(v);
    else if (v && !json_is_null(v))
        return ts_template_fail(t, "%s: got %s, expected an integer", name, ts_value_kind(v));
    return true;
}

/* ---- strings ---- */

json_t *ts_string_end(ts_template *t, ts_text *out)
{
    json_t *v = t->bad ? NULL : ts_value_text(out->p ? out->p : "", out->n);
    free(out->p);
    return v;
}

void ts_string_add(ts_template *t, ts_text *out, const char *p, size_t n)
{
    if (!ts_text_add(out, p, n, NULL, 0)) ts_template_fail(t, "out of memory");
}

json_t *ts_string_case(const json_t *v, ts_letters how)
{
    const size_t n = json_string_length(v);
    char        *text = malloc(n + 1);
    bool         start = true;
    for (size_t i = 0; text && i < n; i++) {
        const char c = json_string_value(v)[i];
        const bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
        const bool up = how == TS_UPPER || (how != TS_LOWER && start);
        text[i] = (char)(lower && up ? c - 32 : upper && !up ? c + 32 : c);
        const bool between = !lower && !upper && !((unsigned char)c & 0x80);
        start = how == TS_WORDS ? strchr("- \t\n({[<", c) != NULL : how == TS_TITLE && between;
    }
    json_t *out = text ? ts_value_text(text, n) : NULL;
    free(text);
    return out;
}

static bool within(const char *set, char c)
{
    return c && strchr(set, c);
}

/* `chars` of ASCII; NULL: white space. */
json_t *ts_string_strip(const json_t *v, const char *chars, bool left, bool right)
{
    const char *p = json_string_value(v), *end = p + json_string_length(v);
    const char *set = chars ? chars : " \t\n\r\v\f";
    while (left && p < end && within(set, *p)) p++;
    while (right && end > p && within(set, end[-1])) end--;
    return ts_value_text(p, (size_t)(end - p));
}

json_t *ts_string_replace(ts_template *t, const json_t *v, const char *from, const char *to,
                          int64_t most)
{
    const char  *p = json_string_value(v), *at;
    const size_t n = from ? strlen(from) : 0;
    ts_text      out = { 0 };
    if (!from || !to) return ts_template_fail(t, "replace: expected two strings");
    if (!n) return ts_template_fail(t, "replace: got an empty string");
    for (; most && (at = strstr(p, from)); p = at + n, most--) {
        ts_string_add(t, &out, p, (size_t)(at - p));
        ts_string_add(t, &out, to, strlen(to));
    }
    ts_string_add(t, &out, p, strlen(p));
    return ts_string_end(t, &out);
}

static json_t *split(ts_template *t, const json_t *v, const char *by, int64_t most)
{
    const char *p = json_string_value(v), *at;
    json_t     *out = json_array();
    if (by && !*by) return ts_template_fail(t, "split: got an empty separator");
    while (by && most && (at = strstr(p, by))) {
        json_array_append_new(out, ts_value_text(p, (size_t)(at - p)));
        p = at + strlen(by);
        most--;
    }
    if (by) json_array_append_new(out, ts_value_text(p, strlen(p)));
    while (!by) { /* words */
        p += strspn(p, " \t\n\r\v\f");
        if (!*p) break;
        const size_t n = most ? strcspn(p, " \t\n\r\v\f") : strlen(p);
        json_array_append_new(out, ts_value_text(p, n));
        p += n;
        most--;
    }
    return out;
}

json_t *ts_string_join(ts_template *t, const json_t *list, const char *by, const char *attribute)
{
    json_t *items = ts_value_list(t, list), *item;
    ts_text out = { 0 };
    size_t  i;
    json_array_foreach(items, i, item)
    {
        if (attribute) item = json_object_get(item, attribute);
        if (i) ts_string_add(t, &out, by, strlen(by));
        ts_value_print(t, item, &out);
    }
    json_decref(items);
    return ts_string_end(t, &out);
}

/* ---- lists and mappings ---- */

json_t *ts_value_pairs(ts_template *t, const json_t *v)
{
    json_t     *out = json_array(), *item;
    const char *key;
    if (v && !json_is_object(v)) {
        json_decref(out);
        return ts_template_fail(t, "items: got %s, expected a mapping", ts_value_kind(v));
    }
    json_object_foreach((json_t *)v, key, item)
    {
        json_array_append_new(out, json_pack("[so]", key, json_incref(item)));
    }
    return out;
}

/* ---- methods ---- */

enum {
    M_STRIP,
    M_LSTRIP,
    M_RSTRIP,
    M_SPLIT,
    M_STARTSWITH,
    M_ENDSWITH,
    M_UPPER,
    M_LOWER,
    M_TITLE,
    M_CAPITALIZE,
    M_REPLACE,
    M_JOIN,
    M_FIND,
    M_ITEMS,
    M_KEYS,
    M_VALUES,
    M_GET
};

static const char *const methods[] = { "strip",    "lstrip", "rstrip", "split", "startswith",
                                       "endswith", "upper",  "lower",  "title", "capitalize",
                                       "replace",  "join",   "find",   "items", "keys",
                                       "values",   "get",    NULL };

int ts_method_find(const char *name)
{
    return ts_name_find(methods, name);
}

static json_t *begins(ts_template *t, const json_t *v, const json_t *with, bool at_end)
{
    const size_t n = json_string_length(v);
    json_t      *item;
    size_t       i;
    bool         found = false;
    if (with && json_is_array(with)) { /* any of them */
        json_array_foreach(with, i, item)
        {
            json_t *one = begins(t, v, item, at_end);
            found = found || ts_value_true(one);
            json_decref(one);
        }
        return json_boolean(found);
    }
    if (!with || !json_is_string(with))
        return ts_template_fail(t, "startswith, endswith: got %s, expected a string",
                                ts_value_kind(with));
    const size_t m = json_string_length(with);
    return json_boolean(
        m <= n && !memcmp(json_string_value(v) + (at_end ? n - m : 0), json_string_value(with), m));
}

static json_t *string_method(ts_template *t, int call, const json_t *v, const ts_call_args *a)
{
    int64_t     n = -1;
    const char *s;
    switch (call) {
    case M_STRIP:
        return ts_string_strip(v, ts_arg_text(t, a, 0, "chars", NULL), true, true);
    case M_LSTRIP:
        return ts_string_strip(v, ts_arg_text(t, a, 0, "chars", NULL), true, false);
    case M_RSTRIP:
        return ts_string_strip(v, ts_arg_text(t, a, 0, "chars", NULL), false, true);
    case M_SPLIT:
        s = ts_arg_text(t, a, 0, "sep", NULL);
        return ts_arg_count(t, a, 1, "maxsplit", &n) && !t->bad ? split(t, v, s, n) : NULL;
    case M_STARTSWITH:
        return begins(t, v, ts_arg(a, 0, "prefix"), false);
    case M_ENDSWITH:
        return begins(t, v, ts_arg(a, 0, "suffix"), true);
    case M_UPPER:
        return ts_string_case(v, TS_UPPER);
    case M_LOWER:
        return ts_string_case(v, TS_LOWER);
    case M_TITLE:
        return ts_string_case(v, TS_TITLE);
    case M_CAPITALIZE:
        return ts_string_case(v, TS_CAPITAL);
    case M_REPLACE:
        if (!ts_arg_count(t, a, 2, "count", &n)) return NULL;
        return ts_string_replace(t, v, ts_arg_text(t, a, 0, "old", NULL),
                                 ts_arg_text(t, a, 1, "new", NULL), n);
    case M_JOIN:
        return ts_string_join(t, ts_arg(a, 0, "iterable"), json_string_value(v), NULL);
    case M_FIND:
        s = ts_arg_text(t, a, 0, "sub", "");
        s = s ? strstr(json_string_value(v), s) : NULL;
        n = s ? 0 : -1;
        for (const char *p = json_string_value(v); s && p < s; p++)
            n += ((unsigned char)*p & 0xc0) != 0x80;
        return json_integer(n);
    default:
        return ts_template_fail(t, "method %s of a string", methods[call]);
    }
}

json_t *ts_method_call(ts_template *t, int call, const json_t *v, const ts_call_args *a)
{
    json_t *out, *item, *key;
    size_t  i;
    if (v && json_is_string(v)) return string_method(t, call, v, a);
    if (!v || !json_is_object(v) || call < M_ITEMS)
        return ts_template_fail(t, "method %s of %s", methods[call], ts_value_kind(v));
    if (call == M_ITEMS) return ts_value_pairs(t, v);
    if (call == M_KEYS) return ts_value_list(t, v);
    if (call == M_GET) {
        key = ts_arg(a, 0, "key");
        item = key && json_is_string(key) ? json_object_get(v, json_string_value(key)) : NULL;
        if (!item) item = ts_arg(a, 1, "default");
        return item ? json_incref(item) : json_null();
    }
    json_t *all = ts_value_pairs(t, v);
    out = json_array();
    json_array_foreach(all, i, item) json_array_append(out, json_array_get(item, 1));
    json_decref(all);
    return out;
}

/* ---- tests ---- */

enum {
    T_DEFINED,
    T_UNDEFINED,
    T_NONE,
    T_STRING,
    T_MAPPING,
    T_ITERABLE,
    T_SEQUENCE,
    T_NUMBER,
    T_INTEGER,
    T_FLOAT,
    T_BOOLEAN,
    T_TRUE,
    T_FALSE,
    T_ODD,
    T_EVEN,
    T_DIVISIBLEBY,
    T_EQUALTO,
    T_EQ,
    T_NE,
    T_IN
};

static const char *const tests[] = { "defined",     "undefined", "none",   "string",  "mapping",
                                     "iterable",    "sequence",  "number", "integer", "float",
                                     "boolean",     "true",      "false",  "odd",     "even",
                                     "divisibleby", "equalto",   "eq",     "ne",      "in",
                                     NULL };

int ts_test_find(const char *name)
{
    return ts_name_find(tests, name);
}

bool ts_test_takes_one(int call)
{
    return call >= T_DIVISIBLEBY;
}

static bool divides(ts_template *t, const json_t *v, int64_t by)
{
    if (!v || !json_is_integer(v))
        return ts_template_fail(t, "divisibility of %s", ts_value_kind(v));
    if (!by) return ts_template_fail(t, "division by zero");
    return by == -1 || json_integer_value(v) % by == 0;
}

bool ts_test_call(ts_template *t, int call, const json_t *v, const ts_call_args *a)
{
    const json_t *x = ts_arg(a, 0, "other");
    json_t       *found;
    bool          yes;
    switch (call) {
    case T_DEFINED:
        return v;
    case T_UNDEFINED:
        return !v;
    case T_NONE:
        return v && json_is_null(v);
    case T_STRING:
        return v && json_is_string(v);
    case T_MAPPING:
        return v && json_is_object(v);
    case T_ITERABLE:
        return !v || ts_value_length(v) >= 0;
    case T_SEQUENCE:
        return !v || ts_value_length(v) >= 0;
    case T_NUMBER:
        return v && (json_is_number(v) || json_is_boolean(v));
    case T_INTEGER:
        return v && json_is_integer(v);
    case T_FLOAT:
        return v && json_is_real(v);
    case T_BOOLEAN:
        return v && json_is_boolean(v);
    case T_TRUE:
        return v && json_is_true(v);
    case T_FALSE:
        return v && json_is_false(v);
    case T_EVEN:
        return divides(t, v, 2);
    case T_ODD:
        return !divides(t, v, 2);
    case T_DIVISIBLEBY:
        if (!x || !json_is_integer(x))
            return ts_template_fail(t, "divisibleby: expected an integer");
        return divides(t, v, json_integer_value(x));
    case T_IN:
        found = ts_value_binary(t, TS_OP_IN, v, x);
        yes = ts_value_true(found);
        json_decref(found);
        return yes;
    default:
        return ts_value_equal(v, x) == (call != T_NE);
    }
}

/* ---- functions ---- */

enum { G_RANGE, G_NAMESPACE, G_DICT, G_RAISE, G_NOW };

static const char *const functions[] = { "range",           "namespace",    "dict",
                                         "raise_exception", "strftime_now", NULL };

int ts_function_find(const char *name)
{
    return ts_name_find(functions, name);
}

static json_t *range(ts_template *t, const ts_call_args *a)
{
    int64_t from = 0, to = 0, by = 1;
    if (!ts_arg_count(t, a, a->n > 1 ? 1 : 0, "stop", &to) ||
        (a->n > 1 && !ts_arg_count(t, a, 0, "start", &from)) || !ts_arg_count(t, a, 2, "step", &by))
        return NULL;
    if (!by) return ts_template_fail(t, "range: got a step of 0");
    json_t *out = json_array();
    for (int64_t i = from; out && (by > 0 ? i < to : i > to); i += by) {
        json_array_append_new(out, json_integer(i));
        if (json_array_size(out) <= MOST_RANGE && i < INT64_MAX / 2 && i > INT64_MIN / 2) continue;
        json_decref(out);
        return ts_template_fail(t, "range: more than %d numbers", (int)MOST_RANGE);
    }
    return out;
}

static json_t *keywords(ts_template *t, const ts_call_args *a)
{
    json_t *out = json_object();
    for (int i = 0; i < a->n; i++) {
        if (!a->name[i]) {
            json_decref(out);
            return ts_template_fail(t, "namespace, dict: expected arguments with names");
        }
        json_object_set_nocheck(out, a->name[i], a->value[i] ? a->value[i] : json_null());
    }
    return out;
}

json_t *ts_function_call(ts_template *t, int call, const ts_call_args *a)
{
    char        text[256];
    struct tm   when;
    json_t     *out;
    const char *s;
    switch (call) {
    case G_RANGE:
        return range(t, a);
    case G_NAMESPACE:
        out = keywords(t, a);
        if (out) json_array_append(t->spaces, out);
        return out;
    case G_DICT:
        return keywords(t, a);
    case G_RAISE:
        s = ts_arg_text(t, a, 0, "message", "");
        return ts_template_fail(t, "the template says: %.180s", s ? s : "");
    default:
        s = ts_arg_text(t, a, 0, "format", NULL);
        if (!s || !localtime_r(&t->now, &when))
            return ts_template_fail(t, "strftime_now: expected a format");
        return ts_value_text(text, strftime(text, sizeof text, s, &when));
    }
}

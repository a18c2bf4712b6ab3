/* SPDX-License-Identifier: Apache-2.0 */
/* template_filter.c - filters of a chat template. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "template.h"

/* ---- strings ---- */

static json_t *indented(ts_template *t, const json_t *v, int64_t width, bool first)
{
    const char *p = json_string_value(v);
    ts_text     out = { 0 };
    for (bool start = true; *p && !t->bad; start = false) {
        const size_t n = strcspn(p, "\n");
        for (int64_t i = 0; i < width && n && (first || !start); i++)
            ts_string_add(t, &out, " ", 1);
        ts_string_add(t, &out, p, n + (p[n] == '\n'));
        p += n + (p[n] == '\n');
    }
    return ts_string_end(t, &out);
}

static json_t *dumped(ts_template *t, const json_t *v, int64_t indent)
{
    if (!v) return ts_template_fail(t, "tojson: got what is undefined");
    if (indent < 0 || indent > 31) return ts_template_fail(t, "tojson: indent: expected 0 to 31");
    char *s =
        json_dumps(v, JSON_ENCODE_ANY | JSON_INDENT((size_t)indent) | JSON_REAL_PRECISION(17));
    json_t *out = s ? ts_value_text(s, strlen(s)) : ts_template_fail(t, "tojson: failed");
    free(s);
    return out;
}

/* ---- lists and mappings ---- */

static int by_key(const void *x, const void *y)
{
    return strcmp(json_string_value(json_array_get(*(json_t *const *)x, 0)),
                  json_string_value(json_array_get(*(json_t *const *)y, 0)));
}

static json_t *sorted_pairs(ts_template *t, const json_t *v)
{
    json_t      *all = ts_value_pairs(t, v), *out = json_array();
    const size_t n = json_array_size(all);
    json_t     **list = malloc((n + 1) * sizeof *list);
    for (size_t i = 0; list && i < n; i++) list[i] = json_array_get(all, i);
    if (list) qsort(list, n, sizeof *list, by_key);
    for (size_t i = 0; list && i < n; i++) json_array_append(out, list[i]);
    free(list);
    json_decref(all);
    return out;
}

static json_t *reversed(ts_template *t, const json_t *v)
{
    json_t *back = json_integer(-1), *out = ts_value_slice(t, v, NULL, NULL, back);
    json_decref(back);
    return out;
}

/* a.b of each item. */
static json_t *attribute_of(const json_t *item, const char *path)
{
    while (item && *path) {
        char         key[128];
        const size_t n = strcspn(path, ".");
        if (n >= sizeof key) return NULL;
        memcpy(key, path, n);
        key[n] = 0;
        item = json_object_get(item, key);
        path += n + (path[n] == '.');
    }
    return (json_t *)item;
}

static json_t *mapped(ts_template *t, const json_t *v, const ts_call_args *a)
{
    const char        *path = ts_arg_text(t, a, -1, "attribute", NULL);
    const char        *name = path ? NULL : ts_arg_text(t, a, 0, "filter", NULL);
    const int          call = name ? ts_filter_find(name) : -1;
    const ts_call_args none = { 0 };
    json_t            *otherwise = ts_arg(a, -1, "default"), *item;
    size_t             i;
    if (!path && call < 0) return ts_template_fail(t, "map: expected a filter or an attribute");
    json_t *items = ts_value_list(t, ts_value_true(v) ? v : NULL), *out = json_array();
    json_array_foreach(items, i, item)
    {
        json_t *x =
            path ? json_incref(attribute_of(item, path)) : ts_filter_call(t, call, item, &none);
        if (!x && otherwise) x = json_incref(otherwise);
        if (t->bad) break;
        json_array_append_new(out, x ? x : json_null());
    }
    json_decref(items);
    return out;
}

/* select, reject: (test, argument); selectattr, rejectattr: (attribute, test, argument). */
static json_t *chosen(ts_template *t, const json_t *v, const ts_call_args *a, bool attribute,
                      bool wanted)
{
    const char  *path = attribute ? ts_arg_text(t, a, 0, "attribute", NULL) : "";
    const int    at = attribute;
    const char  *test = ts_arg_text(t, a, at, "test", NULL);
    const int    call = test ? ts_test_find(test) : -1;
    ts_call_args rest = { 0 };
    json_t      *item;
    size_t       i;
    if (!path) return ts_template_fail(t, "selectattr: expected an attribute");
    if (test && call < 0) return ts_template_fail(t, "test %.60s: unknown", test);
    if (a->n > at + 1) rest.value[rest.n++] = a->value[at + 1];
    json_t *items = ts_value_list(t, ts_value_true(v) ? v : NULL), *out = json_array();
    json_array_foreach(items, i, item)
    {
        const json_t *x = attribute_of(item, path);
        if ((test ? ts_test_call(t, call, x, &rest) : ts_value_true(x)) == wanted)
            json_array_append(out, item);
    }
    json_decref(items);
    return out;
}

static json_t *unique(ts_template *t, const json_t *v)
{
    json_t *items = ts_value_list(t, v), *out = json_array(), *item, *other;
    size_t  i, k;
    json_array_foreach(items, i, item)
    {
        bool seen = false;
        json_array_foreach(out, k, other) seen = seen || ts_value_equal(item, other);
        t->n_step += (int64_t)k;
        if (!seen) json_array_append(out, item);
    }
    json_decref(items);
    return out;
}

/* ---- filters ---- */

enum {
    F_TRIM,
    F_TOJSON,
    F_LENGTH,
    F_COUNT,
    F_UPPER,
    F_LOWER,
    F_CAPITALIZE,
    F_TITLE,
    F_DEFAULT,
    F_D,
    F_JOIN,
    F_REPLACE,
    F_ITEMS,
    F_DICTSORT,
    F_FIRST,
    F_LAST,
    F_STRING,
    F_INT,
    F_FLOAT,
    F_LIST,
    F_REVERSE,
    F_SAFE,
    F_ABS,
    F_INDENT,
    F_MAP,
    F_SELECT,
    F_REJECT,
    F_SELECTATTR,
    F_REJECTATTR,
    F_UNIQUE
};

static const char *const filters[] = {
    "trim",    "tojson", "length", "count",      "upper",      "lower",    "capitalize", "title",
    "default", "d",      "join",   "replace",    "items",      "dictsort", "first",      "last",
    "string",  "int",    "float",  "list",       "reverse",    "safe",     "abs",        "indent",
    "map",     "select", "reject", "selectattr", "rejectattr", "unique",   NULL
};

int ts_filter_find(const char *name)
{
    return ts_name_find(filters, name);
}

static json_t *to_number(const json_t *v, bool real)
{
    const char *s = v && json_is_string(v) ? json_string_value(v) : NULL;
    double      x = s ? strtod(s, NULL) : !v ? 0 : json_is_true(v) ? 1 : json_number_value(v);
    if (real) return json_real(x);
    if (v && json_is_integer(v)) return json_integer(json_integer_value(v));
    return json_integer(x > -9e18 && x < 9e18 ? (json_int_t)x : 0);
}

/* Filters of a string: what is none becomes one. */
static json_t *string_filter(ts_template *t, int call, const json_t *v, const ts_call_args *a)
{
    json_t *s = ts_value_string(t, v), *out = NULL;
    int64_t n = call == F_INDENT ? 4 : -1;
    if (!s) return NULL;
    switch (call) {
    case F_TRIM:
        out = ts_string_strip(s, ts_arg_text(t, a, 0, "chars", NULL), true, true);
        break;
    case F_UPPER:
        out = ts_string_case(s, TS_UPPER);
        break;
    case F_LOWER:
        out = ts_string_case(s, TS_LOWER);
        break;
    case F_CAPITALIZE:
        out = ts_string_case(s, TS_CAPITAL);
        break;
    case F_TITLE:
        out = ts_string_case(s, TS_WORDS);
        break;
    case F_INDENT:
        if (ts_arg_count(t, a, 0, "width", &n))
            out = indented(t, s, n, ts_value_true(ts_arg(a, 1, "first")));
        break;
    case F_REPLACE:
        if (ts_arg_count(t, a, 2, "count", &n))
            out = ts_string_replace(t, s, ts_arg_text(t, a, 0, "old", NULL),
                                    ts_arg_text(t, a, 1, "new", NULL), n);
        break;
    default:
        out = json_incref(s);
        break;
    }
    json_decref(s);
    return out;
}

static json_t *absolute(ts_template *t, const json_t *v)
{
    if (!v || !json_is_number(v)) return ts_template_fail(t, "abs of %s", ts_value_kind(v));
    if (json_is_real(v)) return json_real(fabs(json_real_value(v)));
    const int64_t n = json_integer_value(v);
    return json_integer(n < 0 && n > INT64_MIN ? -n : n);
}

json_t *ts_filter_call(ts_template *t, int call, const json_t *v, const ts_call_args *a)
{
    int64_t       n = 0;
    const json_t *x;
    json_t       *list, *out;
    switch (call) {
    case F_TOJSON:
        return ts_arg_count(t, a, -1, "indent", &n) ? dumped(t, v, n) : NULL;
    case F_LENGTH:
    case F_COUNT:
        n = ts_value_length(v);
        return n < 0 ? ts_template_fail(t, "length of %s", ts_value_kind(v)) : json_integer(n);
    case F_DEFAULT:
    case F_D:
        if (v && (ts_value_true(v) || !ts_value_true(ts_arg(a, 1, "boolean"))))
            return json_incref((json_t *)v);
        x = ts_arg(a, 0, "default_value");
        return x ? json_incref((json_t *)x) : ts_value_text("", 0);
    case F_JOIN:
        return ts_string_join(t, v, ts_arg_text(t, a, 0, "d", ""),
                              ts_arg_text(t, a, 1, "attribute", NULL));
    case F_ITEMS:
        return ts_value_pairs(t, v);
    case F_DICTSORT:
        return sorted_pairs(t, v);
    case F_FIRST:
    case F_LAST:
        list = ts_value_list(t, v);
        out = json_incref(json_array_get(list, call == F_FIRST ? 0 : json_array_size(list) - 1));
        json_decref(list);
        return out;
    case F_INT:
        return to_number(v, false);
    case F_FLOAT:
        return to_number(v, true);
    case F_LIST:
        list = ts_value_list(t, v);
        out = json_copy(list);
        json_decref(list);
        return out;
    case F_REVERSE:
        return reversed(t, v);
    case F_ABS:
        return absolute(t, v);
    case F_MAP:
        return mapped(t, v, a);
    case F_SELECT:
        return chosen(t, v, a, false, true);
    case F_REJECT:
        return chosen(t, v, a, false, false);
    case F_SELECTATTR:
        return chosen(t, v, a, true, true);
    case F_REJECTATTR:
        return chosen(t, v, a, true, false);
    case F_UNIQUE:
        return unique(t, v);
    default:
        return string_filter(t, call, v, a);
    }
}

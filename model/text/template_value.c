/* SPDX-License-Identifier: Apache-2.0 */
/* template_value.c - values of a chat template behave as Python's: truth, equality, printing,
 * indices, slices and operators. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template.h"

enum { MOST_TEXT = 64 << 20 };

json_t *ts_value_text(const char *p, size_t n)
{
    return json_stringn_nocheck(p, n);
}

bool ts_value_true(const json_t *v)
{
    if (!v) return false;
    switch (json_typeof(v)) {
    case JSON_STRING:
        return json_string_length(v) > 0;
    case JSON_ARRAY:
        return json_array_size(v) > 0;
    case JSON_OBJECT:
        return json_object_size(v) > 0;
    case JSON_INTEGER:
        return json_integer_value(v) != 0;
    case JSON_REAL:
        return json_real_value(v) != 0;
    case JSON_TRUE:
        return true;
    default:
        return false;
    }
}

const char *ts_value_kind(const json_t *v)
{
    static const char *const names[] = { "a mapping", "a list",    "a string",  "an integer",
                                         "a number",  "a boolean", "a boolean", "none" };
    return v ? names[json_typeof(v)] : "undefined";
}

/* True and False are 1 and 0 too. */
static bool number(const json_t *v, double *x)
{
    if (!v || !(json_is_number(v) || json_is_boolean(v))) return false;
    *x = json_is_boolean(v) ? json_is_true(v) : json_number_value(v);
    return true;
}

static bool whole(const json_t *v, int64_t *x)
{
    if (!v || !(json_is_integer(v) || json_is_boolean(v))) return false;
    *x = json_is_boolean(v) ? json_is_true(v) : json_integer_value(v);
    return true;
}

bool ts_value_equal(const json_t *a, const json_t *b)
{
    double x, y;
    if (!a || !b) return a == b;
    if (number(a, &x) && number(b, &y)) return x == y;
    return json_equal(a, b);
}

/* ---- printing ---- */

static bool put(ts_template *t, ts_text *out, const char *p, size_t n)
{
    if (out->n + n > MOST_TEXT) return ts_template_fail(t, "more than %d bytes", (int)MOST_TEXT);
    return ts_text_add(out, p, n, NULL, 0) || ts_template_fail(t, "out of memory");
}

static bool quote(ts_template *t, const json_t *v, ts_text *out)
{
    const char  *p = json_string_value(v);
    const size_t n = json_string_length(v);
    const char   mark = memchr(p, '\'', n) && !memchr(p, '"', n) ? '"' : '\'';
    bool         ok = put(t, out, &mark, 1);
    for (size_t i = 0; ok && i < n; i++) {
        const unsigned char c = (unsigned char)p[i];
        char                code[8] = { p[i], 0 };
        if (c == '\n') strcpy(code, "\\n");
        else if (c == '\t') strcpy(code, "\\t");
        else if (c == '\r') strcpy(code, "\\r");
        else if (c == '\\' || p[i] == mark) snprintf(code, sizeof code, "\\%c", c);
        else if (c < ' ' || c == 0x7f) snprintf(code, sizeof code, "\\x%02x", c);
        ok = put(t, out, code, strlen(code));
    }
    return ok && put(t, out, &mark, 1);
}

/* The shortest digits that give the same number. */
static bool real(ts_template *t, double x, ts_text *out)
{
    char text[40];
    for (int n = 1; n <= 17; n++) {
        snprintf(text, sizeof text, "%.*g", n, x);
        if (strtod(text, NULL) == x) break;
    }
    if (fabs(x) >= 1e16 || (x != 0 && fabs(x) < 1e-4)) return put(t, out, text, strlen(text));
    if (strchr(text, 'e')) snprintf(text, sizeof text, "%.0f", x);
    if (!strchr(text, '.')) strcat(text, ".0");
    return put(t, out, text, strlen(text));
}

/* As Python's repr. */
static bool show(ts_template *t, const json_t *v, ts_text *out, int depth)
{
    char        digits[32];
    const char *key, *between = "";
    json_t     *item, *name;
    size_t      i;
    bool        ok = true;
    if (depth > 32) return ts_template_fail(t, "a value is nested too deeply");
    if (!v) return true;
    switch (json_typeof(v)) {
    case JSON_STRING:
        return quote(t, v, out);
    case JSON_INTEGER:
        snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(v));
        return put(t, out, digits, strlen(digits));
    case JSON_REAL:
        return real(t, json_real_value(v), out);
    case JSON_TRUE:
        return put(t, out, "True", 4);
    case JSON_FALSE:
        return put(t, out, "False", 5);
    case JSON_NULL:
        return put(t, out, "None", 4);
    case JSON_ARRAY:
        ok = put(t, out, "[", 1);
        json_array_foreach(v, i, item)
        {
            ok = ok && put(t, out, between, strlen(between)) && show(t, item, out, depth + 1);
            between = ", ";
        }
        return ok && put(t, out, "]", 1);
    default:
        ok = put(t, out, "{", 1);
        json_object_foreach((json_t *)v, key, item)
        {
            name = json_string_nocheck(key);
            ok = ok && name && put(t, out, between, strlen(between)) && quote(t, name, out) &&
                 put(t, out, ": ", 2) && show(t, item, out, depth + 1);
            json_decref(name);
            between = ", ";
        }
        return ok && put(t, out, "}", 1);
    }
}

bool ts_value_print(ts_template *t, const json_t *v, ts_text *out)
{
    if (v && json_is_string(v)) return put(t, out, json_string_value(v), json_string_length(v));
    return show(t, v, out, 0);
}

json_t *ts_value_string(ts_template *t, const json_t *v)
{
    ts_text out = { 0 };
    json_t *s = NULL;
    if (ts_value_print(t, v, &out)) s = ts_value_text(out.p ? out.p : "", out.n);
    free(out.p);
    return s;
}

/* ---- parts ---- */

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

int64_t ts_value_length(const json_t *v)
{
    int64_t n = 0;
    if (!v) return 0;
    if (json_is_array(v)) return (int64_t)json_array_size(v);
    if (json_is_object(v)) return (int64_t)json_object_size(v);
    if (!json_is_string(v)) return -1;
    for (size_t i = 0; i < json_string_length(v); i++)
        n += begins_character(json_string_value(v)[i]);
    return n;
}

/* Where character `at` begins; at most the length. */
static size_t byte_of(const json_t *v, int64_t at)
{
    const char  *p = json_string_value(v);
    const size_t n = json_string_length(v);
    size_t       i = 0;
    for (; i < n; i++)
        if (begins_character(p[i]) && !at--) break;
    return i;
}

static json_t *character(const json_t *v, int64_t at)
{
    const size_t from = byte_of(v, at);
    return ts_value_text(json_string_value(v) + from, byte_of(v, at + 1) - from);
}

json_t *ts_value_item(ts_template *t, const json_t *v, const json_t *key)
{
    int64_t i;
    if (!v) return ts_template_fail(t, "an item of what is undefined");
    if (json_is_object(v))
        return key && json_is_string(key) ? json_incref(json_object_get(v, json_string_value(key)))
                                          : NULL;
    const int64_t n = ts_value_length(v);
    if (n < 0 || !whole(key, &i)) return NULL; /* undefined, as in Jinja */
    if (i < 0) i += n;
    if (i < 0 || i >= n) return NULL;
    return json_is_array(v) ? json_incref(json_array_get(v, (size_t)i)) : character(v, i);
}

static bool bound(ts_template *t, const json_t *v, int64_t *x)
{
    if (!v || json_is_null(v) || whole(v, x)) return true;
    return ts_template_fail(t, "a slice: got %s, expected an integer", ts_value_kind(v));
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

json_t *ts_value_slice(ts_template *t, const json_t *v, const json_t *from, const json_t *to,
                       const json_t *step)
{
    const int64_t n = v ? ts_value_length(v) : -1;
    int64_t       by = 1;
    if (n < 0 || json_is_object(v)) return ts_template_fail(t, "a slice of %s", ts_value_kind(v));
    if (!bound(t, step, &by)) return NULL;
    if (!by) return ts_template_fail(t, "a slice with a step of 0");
    const int64_t lo = by > 0 ? 0 : -1, hi = by > 0 ? n : n - 1;
    int64_t       i = by > 0 ? lo : hi, end = by > 0 ? hi : lo;
    if (from && !json_is_null(from)) {
        if (!bound(t, from, &i)) return NULL;
        i = clamp(i < 0 ? i + n : i, lo, hi);
    }
    if (to && !json_is_null(to)) {
        if (!bound(t, to, &end)) return NULL;
        end = clamp(end < 0 ? end + n : end, lo, hi);
    }
    if (json_is_string(v) && by == 1) {
        const size_t a = byte_of(v, i), b = byte_of(v, end > i ? end : i);
        return ts_value_text(json_string_value(v) + a, b - a);
    }
    ts_text text = { 0 };
    json_t *out = json_array();
    for (; out && !t->bad && (by > 0 ? i < end : i > end); i += by) {
        json_t *c = json_is_array(v) ? json_incref(json_array_get(v, (size_t)i)) : character(v, i);
        if (json_is_string(v)) put(t, &text, json_string_value(c), json_string_length(c));
        else json_array_append(out, c);
        json_decref(c);
    }
    if (json_is_string(v)) {
        json_decref(out);
        out = ts_value_text(text.p ? text.p : "", text.n);
    }
    free(text.p);
    return out;
}

json_t *ts_value_list(ts_template *t, const json_t *v)
{
    const char *key;
    json_t     *item, *out;
    if (v && json_is_array(v)) return json_incref((json_t *)v);
    const int64_t n = ts_value_length(v);
    if (n < 0) return ts_template_fail(t, "cannot iterate over %s", ts_value_kind(v));
    out = json_array();
    if (v && json_is_object(v)) {
        json_object_foreach((json_t *)v, key, item)
        {
            json_array_append_new(out, json_string_nocheck(key));
        }
    } else
        for (int64_t i = 0; i < n; i++) json_array_append_new(out, character(v, i));
    return out;
}

/* ---- operators ---- */

static json_t *joined(ts_template *t, const json_t *a, const json_t *b)
{
    ts_text out = { 0 };
    json_t *s = NULL;
    if (ts_value_print(t, a, &out) && ts_value_print(t, b, &out))
        s = ts_value_text(out.p ? out.p : "", out.n);
    free(out.p);
    return s;
}

static json_t *repeated(ts_template *t, const json_t *s, int64_t n)
{
    ts_text out = { 0 };
    for (int64_t i = 0; i < n && !t->bad; i++)
        if (json_string_length(s)) put(t, &out, json_string_value(s), json_string_length(s));
        else break;
    json_t *v = t->bad ? NULL : ts_value_text(out.p ? out.p : "", out.n);
    free(out.p);
    return v;
}

static int64_t floored(int64_t x, int64_t y)
{
    return x / y - (x % y != 0 && (x % y < 0) != (y < 0));
}

static json_t *arithmetic(ts_template *t, ts_binary op, const json_t *a, const json_t *b)
{
    int64_t    i = 0, j = 0, k = 0;
    double     x, y;
    const bool both = whole(a, &i) && whole(b, &j);
    if (!number(a, &x) || !number(b, &y))
        return ts_template_fail(t, "arithmetic on %s and %s", ts_value_kind(a), ts_value_kind(b));
    if ((op == TS_OP_DIV || op == TS_OP_FLOOR || op == TS_OP_MOD) && y == 0)
        return ts_template_fail(t, "division by zero");
    if (both && (op == TS_OP_FLOOR || op == TS_OP_MOD)) {
        if (j == -1) return json_integer(op == TS_OP_MOD ? 0 : i == INT64_MIN ? i : -i);
        return json_integer(op == TS_OP_MOD ? i - j * floored(i, j) : floored(i, j));
    }
    if (both && op != TS_OP_DIV) {
        const bool over = op == TS_OP_ADD   ? __builtin_add_overflow(i, j, &k)
                          : op == TS_OP_SUB ? __builtin_sub_overflow(i, j, &k)
                                            : __builtin_mul_overflow(i, j, &k);
        return over ? ts_template_fail(t, "an integer overflows") : json_integer(k);
    }
    x = op == TS_OP_ADD     ? x + y
        : op == TS_OP_SUB   ? x - y
        : op == TS_OP_MUL   ? x * y
        : op == TS_OP_DIV   ? x / y
        : op == TS_OP_FLOOR ? floor(x / y)
                            : x - y * floor(x / y);
    return isfinite(x) ? json_real(x) : ts_template_fail(t, "a number overflows");
}

static json_t *order(ts_template *t, ts_binary op, const json_t *a, const json_t *b)
{
    double x, y;
    if (a && b && json_is_string(a) && json_is_string(b)) {
        x = strcmp(json_string_value(a), json_string_value(b));
        y = 0;
    } else if (!number(a, &x) || !number(b, &y))
        return ts_template_fail(t, "comparison of %s with %s", ts_value_kind(a), ts_value_kind(b));
    return json_boolean(op == TS_OP_LT   ? x < y
                        : op == TS_OP_LE ? x <= y
                        : op == TS_OP_GT ? x > y
                                         : x >= y);
}

static json_t *contains(ts_template *t, const json_t *item, const json_t *v, bool wanted)
{
    json_t *other;
    size_t  i;
    bool    found = false;
    if (v && json_is_string(v)) {
        if (!item || !json_is_string(item))
            return ts_template_fail(t, "%s in a string", ts_value_kind(item));
        found = strstr(json_string_value(v), json_string_value(item));
    } else if (v && json_is_object(v))
        found = item && json_is_string(item) && json_object_get(v, json_string_value(item));
    else if (v && json_is_array(v)) json_array_foreach(v, i, other)
        {
            found = found || ts_value_equal(item, other);
        }
    else if (v) return ts_template_fail(t, "'in' %s", ts_value_kind(v));
    return json_boolean(found == wanted);
}

json_t *ts_value_binary(ts_template *t, ts_binary op, const json_t *a, const json_t *b)
{
    int64_t n;
    switch (op) {
    case TS_OP_EQ:
        return json_boolean(ts_value_equal(a, b));
    case TS_OP_NE:
        return json_boolean(!ts_value_equal(a, b));
    case TS_OP_LT:
    case TS_OP_LE:
    case TS_OP_GT:
    case TS_OP_GE:
        return order(t, op, a, b);
    case TS_OP_IN:
        return contains(t, a, b, true);
    case TS_OP_NOT_IN:
        return contains(t, a, b, false);
    case TS_OP_CONCAT:
        return joined(t, a, b);
    case TS_OP_ADD:
        if (a && b && json_is_string(a) && json_is_string(b)) return joined(t, a, b);
        if (a && b && json_is_array(a) && json_is_array(b)) {
            json_t *out = json_copy((json_t *)a);
            json_array_extend(out, (json_t *)b);
            return out;
        }
        return arithmetic(t, op, a, b);
    case TS_OP_MUL:
        if (a && json_is_string(a) && whole(b, &n)) return repeated(t, a, n);
        if (b && json_is_string(b) && whole(a, &n)) return repeated(t, b, n);
        return arithmetic(t, op, a, b);
    default:
        return arithmetic(t, op, a, b);
    }
}

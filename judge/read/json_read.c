/* SPDX-License-Identifier: Apache-2.0 */
/* json_read.c - parses strict JSON into a tree. Nodes are stored in one array in text order; each
 * stores the distance to its next sibling, so there are no pointers. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "show.h"

struct ts_jr_node {
    ts_jr_type  type;
    const char *key;  /* inside an object */
    const char *text; /* of a string; of a number, verbatim */
    double      num;
    size_t      len;  /* children */
    size_t      span; /* nodes from this one to its next sibling */
};

struct ts_jr_doc {
    ts_jr_node *node;
    size_t      n, cap;
    char       *text; /* strings are decoded in place: they only shrink */
};

typedef struct reader {
    ts_jr_doc  *d;
    char       *p, *end;
    const char *text; /* the input: to count lines */
    char       *why;
    size_t      n_why;
} reader;

/* Where and why parsing stopped. Columns are in bytes. */
__attribute__((format(printf, 2, 3))) static bool refuse(reader *r, const char *format, ...)
{
    const char *end = r->text + (r->p - r->d->text);
    int         line = 1, column = 1;
    va_list     list;
    for (const char *q = r->text; q < end; q++) {
        column = *q == '\n' ? 1 : column + 1;
        line += *q == '\n';
    }
    const int n = snprintf(r->why, r->n_why, "line %d, column %d: ", line, column);
    va_start(list, format);
    if (n > 0 && (size_t)n < r->n_why) vsnprintf(r->why + n, r->n_why - (size_t)n, format, list);
    va_end(list);
    return false;
}

static bool unexpected(reader *r, const char *expected)
{
    char got[16];
    if (r->p == r->end) return refuse(r, "the text ends, expected %s", expected);
    ts_show(r->p, 1, got, sizeof got);
    return refuse(r, "got '%s', expected %s", got, expected);
}

static void blanks(reader *r)
{
    while (r->p < r->end && strchr(" \t\r\n", *r->p) && *r->p) r->p++;
}

static bool take(reader *r, char c)
{
    blanks(r);
    if (r->p == r->end || *r->p != c) return false;
    r->p++;
    return true;
}

static ts_jr_node *add(reader *r, ts_jr_type type)
{
    ts_jr_doc *d = r->d;
    if (d->n == d->cap) {
        const size_t cap = d->cap ? 2 * d->cap : 16;
        ts_jr_node  *more = realloc(d->node, cap * sizeof *more);
        if (!more) return refuse(r, "out of memory"), NULL;
        d->node = more;
        d->cap = cap;
    }
    d->node[d->n] = (ts_jr_node) { .type = type, .span = 1 };
    return &d->node[d->n++];
}

static bool hex4(reader *r, uint32_t *c)
{
    *c = 0;
    for (int i = 0; i < 4; i++, r->p++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char       *at = r->p < r->end && *r->p ? strchr(digits, *r->p) : NULL;
        if (!at) return unexpected(r, "four hexadecimal digits after \\u");
        *c = *c << 4 | (uint32_t)((at - digits) % 16);
    }
    return true;
}

static char *put_utf8(char *q, uint32_t c)
{
    if (c < 0x80) *q++ = (char)c;
    else if (c < 0x800) *q++ = (char)(0xc0 | c >> 6);
    else if (c < 0x10000) *q++ = (char)(0xe0 | c >> 12);
    else *q++ = (char)(0xf0 | c >> 18);
    if (c >= 0x10000) *q++ = (char)(0x80 | (c >> 12 & 63));
    if (c >= 0x800) *q++ = (char)(0x80 | (c >> 6 & 63));
    if (c >= 0x80) *q++ = (char)(0x80 | (c & 63));
    return q;
}

static bool escape(reader *r, char **q)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    uint32_t          c, low;
    const char       *at = r->p < r->end && *r->p ? strchr(from, *r->p) : NULL;
    if (at) return r->p++, *(*q)++ = to[at - from], true;
    if (r->p == r->end || *r->p != 'u') return unexpected(r, "an escape such as \\n or \\u0041");
    r->p++;
    if (!hex4(r, &c)) return false;
    if (!c) return refuse(r, "character U+0000 not allowed");
    if (c >= 0xdc00 && c < 0xe000) return refuse(r, "unpaired surrogate");
    if (c >= 0xd800 && c < 0xdc00) {
        if (r->end - r->p < 2 || r->p[0] != '\\' || r->p[1] != 'u')
            return refuse(r, "unpaired surrogate");
        r->p += 2;
        if (!hex4(r, &low)) return false;
        if (low < 0xdc00 || low >= 0xe000) return refuse(r, "unpaired surrogate");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    *q = put_utf8(*q, c);
    return true;
}

/* After the opening quote. */
static const char *string(reader *r)
{
    char *begin = r->p, *q = r->p;
    while (r->p < r->end && *r->p != '"') {
        uint32_t  code;
        const int n = ts_utf8(r->p, (size_t)(r->end - r->p), &code);
        if (!n) return refuse(r, "invalid UTF-8"), NULL;
        if (code < 32) return refuse(r, "unescaped control character in a string"), NULL;
        if (code == '\\') {
            r->p++;
            if (!escape(r, &q)) return NULL;
        } else {
            memmove(q, r->p, (size_t)n);
            q += n;
            r->p += n;
        }
    }
    if (r->p == r->end) return unexpected(r, "a closing quote"), NULL;
    r->p++;
    *q = 0; /* on the closing quote, or before it */
    return begin;
}

static size_t digits(reader *r)
{
    const char *begin = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9') r->p++;
    return (size_t)(r->p - begin);
}

static bool number(reader *r)
{
    const char *begin = r->p;
    if (*r->p == '-') r->p++;
    const char  *first = r->p;
    const size_t whole = digits(r);
    if (!whole) return unexpected(r, "a digit");
    if (*first == '0' && whole > 1) return refuse(r, "number with a leading 0");
    if (r->p < r->end && *r->p == '.' && r->p++ && !digits(r))
        return unexpected(r, "a digit after the point");
    if (r->p < r->end && (*r->p == 'e' || *r->p == 'E')) {
        r->p++;
        if (r->p < r->end && (*r->p == '+' || *r->p == '-')) r->p++;
        if (!digits(r)) return unexpected(r, "a digit in the exponent");
    }
    char         copy[64];
    const size_t n = (size_t)(r->p - begin);
    if (n >= sizeof copy)
        return refuse(r, "got a number of %zu characters, expected fewer than 64", n);
    memcpy(copy, begin, n);
    copy[n] = 0;
    ts_jr_node *v = add(r, TS_JR_NUM);
    if (!v) return false;
    v->num = strtod(copy, NULL);
    v->text = begin;
    v->len = n;
    return isfinite(v->num) || refuse(r, "number out of range: %s", copy);
}

static bool word(reader *r, const char *w, ts_jr_type type, double num)
{
    const size_t n = strlen(w);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, w, n)) return unexpected(r, "a value");
    r->p += n;
    ts_jr_node *v = add(r, type);
    if (v) v->num = num;
    return v;
}

static bool value(reader *r, int depth);

static bool repeated(const reader *r, size_t at, const char *key)
{
    const ts_jr_node *v = r->d->node + at;
    for (size_t i = 0, j = 1; i < v->len; i++, j += v[j].span)
        if (!strcmp(v[j].key, key)) return true;
    return false;
}

static bool members(reader *r, bool object, int depth)
{
    const size_t at = r->d->n;
    const char   close = object ? '}' : ']';
    if (depth > TS_JR_DEPTH) return refuse(r, "nested more than %d levels deep", TS_JR_DEPTH);
    if (!add(r, object ? TS_JR_OBJ : TS_JR_ARR)) return false;
    if (take(r, close)) return true;
    do {
        const char *key = NULL;
        if (object) {
            if (!take(r, '"')) return unexpected(r, "a string in double quotes");
            if (!(key = string(r))) return false;
            if (repeated(r, at, key)) return refuse(r, "duplicate key");
            if (!take(r, ':')) return unexpected(r, "':' after the key");
            if (r->d->node[at].len == TS_JR_MEMBERS)
                return refuse(r, "got an object of more than %d members", TS_JR_MEMBERS);
        }
        const size_t child = r->d->n;
        if (!value(r, depth)) return false;
        r->d->node[child].key = key;
        r->d->node[at].len++;
        r->d->node[at].span = r->d->n - at;
    } while (take(r, ','));
    return take(r, close) || unexpected(r, object ? "',' or '}'" : "',' or ']'");
}

static bool value(reader *r, int depth)
{
    blanks(r);
    switch (r->p < r->end ? *r->p : 0) {
    case '{':
    case '[':
        return members(r, *r->p++ == '{', depth + 1);
    case 't':
        return word(r, "true", TS_JR_BOOL, 1);
    case 'f':
        return word(r, "false", TS_JR_BOOL, 0);
    case 'n':
        return word(r, "null", TS_JR_NULL, 0);
    case '"': {
        r->p++;
        const char *s = string(r);
        ts_jr_node *v = s ? add(r, TS_JR_STR) : NULL;
        if (v) v->text = s;
        return v;
    }
    default:
        if (r->p < r->end && strchr("-0123456789", *r->p) && *r->p) return number(r);
        return unexpected(r, "a value");
    }
}

ts_jr_doc *ts_jr_parse(const char *text, size_t n, char *why, size_t n_why)
{
    if (n > TS_JR_BYTES) {
        snprintf(why, n_why, "got %zu bytes of JSON, expected at most %d", n, TS_JR_BYTES);
        return NULL;
    }
    ts_jr_doc *d = calloc(1, sizeof *d);
    reader     r = { .d = d, .text = text, .why = why, .n_why = n_why };
    if (!d || !(d->text = malloc(n + 1))) {
        snprintf(why, n_why, "out of memory");
        ts_jr_free(d);
        return NULL;
    }
    if (n) memcpy(d->text, text, n);
    r.p = d->text;
    r.end = r.p + n;
    bool ok = value(&r, 0);
    blanks(&r);
    if (ok && r.p < r.end) ok = unexpected(&r, "nothing after the value");
    if (ok) return d;
    ts_jr_free(d);
    return NULL;
}

void ts_jr_free(ts_jr_doc *d)
{
    if (!d) return;
    free(d->node);
    free(d->text);
    free(d);
}

const ts_jr_node *ts_jr_root(const ts_jr_doc *d)
{
    return d ? d->node : NULL;
}

ts_jr_type ts_jr_is(const ts_jr_node *v)
{
    return v ? v->type : TS_JR_NULL;
}

size_t ts_jr_len(const ts_jr_node *v)
{
    return v && v->type >= TS_JR_ARR ? v->len : 0;
}

const ts_jr_node *ts_jr_at(const ts_jr_node *v, size_t i)
{
    if (i >= ts_jr_len(v)) return NULL;
    size_t at = 1;
    while (i--) at += v[at].span;
    return v + at;
}

const char *ts_jr_key(const ts_jr_node *object, size_t i)
{
    const ts_jr_node *v = ts_jr_at(object, i);
    return v ? v->key : NULL;
}

const ts_jr_node *ts_jr_get(const ts_jr_node *object, const char *key)
{
    if (ts_jr_is(object) != TS_JR_OBJ) return NULL;
    for (size_t i = 0, at = 1; i < object->len; i++, at += object[at].span)
        if (!strcmp(object[at].key, key)) return object + at;
    return NULL;
}

const char *ts_jr_str(const ts_jr_node *v)
{
    return ts_jr_is(v) == TS_JR_STR ? v->text : NULL;
}

bool ts_jr_num(const ts_jr_node *v, double *x)
{
    const char *s = ts_jr_str(v);
    if (ts_jr_is(v) == TS_JR_NUM) return *x = v->num, true;
    if (s && !strcmp(s, "nan")) return *x = (double)NAN, true;
    if (s && !strcmp(s, "inf")) return *x = HUGE_VAL, true;
    if (s && !strcmp(s, "-inf")) return *x = -HUGE_VAL, true;
    return false;
}

bool ts_jr_int(const ts_jr_node *v, int64_t *i)
{
    char copy[64] = { 0 }, *end;
    if (ts_jr_is(v) != TS_JR_NUM) return false;
    memcpy(copy, v->text, v->len);
    errno = 0;
    const long long x = strtoll(copy, &end, 10);
    if (*end || errno) return false;
    *i = x;
    return true;
}

bool ts_jr_bool(const ts_jr_node *v)
{
    return ts_jr_is(v) == TS_JR_BOOL && v->num != 0;
}

const char *ts_jr_text(const ts_jr_node *object, const char *key, const char *otherwise)
{
    const char *s = ts_jr_str(ts_jr_get(object, key));
    return s ? s : otherwise;
}

double ts_jr_number(const ts_jr_node *object, const char *key, double otherwise)
{
    double x;
    return ts_jr_num(ts_jr_get(object, key), &x) ? x : otherwise;
}

int64_t ts_jr_whole(const ts_jr_node *object, const char *key, int64_t otherwise)
{
    int64_t i;
    return ts_jr_int(ts_jr_get(object, key), &i) ? i : otherwise;
}

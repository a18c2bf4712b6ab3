/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

int ts_utf8_next(const char *s, size_t n, size_t *used)
{
    const unsigned char *b = (const unsigned char *)s;
    *used = 1;
    if (b[0] < 0x80) return b[0];
    const int more = b[0] >= 0xf0 ? 3 : b[0] >= 0xe0 ? 2 : 1;
    const int least = more == 3 ? 0x10000 : more == 2 ? 0x800 : 0x80;
    if (b[0] < 0xc2 || b[0] > 0xf4 || (size_t)more >= n) return -1;
    int c = b[0] & (0x3f >> more);
    for (int i = 1; i <= more; i++) {
        if ((b[i] & 0xc0) != 0x80) return -1;
        c = c << 6 | (b[i] & 0x3f);
    }
    if (c < least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return -1;
    *used = (size_t)more + 1;
    return c;
}

bool ts_utf8_hostile(int c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0xad || c == 0x61c || c == 0xfeff ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || (c >= 0xfff9 && c <= 0xfffb) ||
           (c >= 0xe0000 && c <= 0xe0fff);
}

/* One character, as it may be shown. A page and a log line need more care than a terminal. */
static void escape(int c, const char *s, size_t n, bool json, char piece[16])
{
    if (c < 0) strcpy(piece, "\\ufffd");
    else if (json && c == '\n') strcpy(piece, "\\n");
    else if (json && (c == '"' || c == '\\')) snprintf(piece, 16, "\\%c", c);
    else if (c > 0xffff && ts_utf8_hostile(c))
        snprintf(piece, 16, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((c - 0x10000) >> 10)) & 0xffffu,
                 0xdc00u + ((unsigned)c & 0x3ffu));
    else if ((json && c == '<') || ts_utf8_hostile(c))
        snprintf(piece, 16, "\\u%04x", (unsigned)c & 0xffffu);
    else snprintf(piece, 16, "%.*s", (int)n, s);
}

static size_t escape_all(const char *s, size_t n, bool json, char *out, size_t n_out)
{
    size_t o = 0, used;
    if (n_out == 0) return 0;
    for (size_t i = 0; i < n; i += used) {
        char      piece[16];
        const int c = ts_utf8_next(s + i, n - i, &used);
        escape(c, s + i, used, json, piece);
        const size_t more = strlen(piece);
        if (o + more >= n_out) break;
        memcpy(out + o, piece, more);
        o += more;
    }
    out[o] = 0;
    return o;
}

size_t ts_json_escape(const char *s, size_t n, char *out, size_t n_out)
{
    return escape_all(s, n, true, out, n_out);
}

size_t ts_show(const char *s, size_t n, char *out, size_t n_out)
{
    return escape_all(s, n, false, out, n_out);
}

/* ---- the reader ---- */

typedef struct reader {
    const char *begin, *p, *end;
    ts_node    *node; /* the next free one */
    char       *room; /* for decoded text */
    int         depth;
    char       *why;
    size_t      n_why;
} reader;

/* Where it stopped, and why. Columns are in bytes. */
static bool fail(reader *r, const char *format, ...)
{
    int         line = 1, column = 1;
    va_list     list;
    const char *at = r->p < r->end ? r->p : r->end;
    for (const char *q = r->begin; q < at; q++) {
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
    if (r->p == r->end) return fail(r, "the text ends, expected %s", expected);
    ts_show(r->p, 1, got, sizeof got);
    return fail(r, "got '%s', expected %s", got, expected);
}

static void skip_blanks(reader *r)
{
    while (r->p < r->end && strchr(" \t\r\n", *r->p) && *r->p) r->p++;
}

static bool take(reader *r, char c)
{
    skip_blanks(r);
    if (r->p == r->end || *r->p != c) return false;
    r->p++;
    return true;
}

static bool read_hex(reader *r, int *c)
{
    *c = 0;
    for (int i = 0; i < 4; i++, r->p++) {
        const char *const digits = "0123456789abcdef";
        const char       *d = r->p < r->end && *r->p ? strchr(digits, *r->p | 0x20) : NULL;
        if (!d || *r->p < '0') return unexpected(r, "four hexadecimal digits after \\u");
        *c = *c << 4 | (int)(d - digits);
    }
    return true;
}

static bool read_escape(reader *r, char **o)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char       *f = ++r->p < r->end && *r->p ? strchr(from, *r->p) : NULL;
    int               c, low;
    if (f) {
        *(*o)++ = to[f - from];
        r->p++;
        return true;
    }
    if (r->p == r->end || *r->p != 'u') return unexpected(r, "an escape such as \\n or \\u0041");
    r->p++;
    if (!read_hex(r, &c)) return false;
    if (c >= 0xd800 && c <= 0xdbff) {
        if (r->end - r->p < 2 || r->p[0] != '\\' || r->p[1] != 'u')
            return fail(r, "half a surrogate pair");
        r->p += 2;
        if (!read_hex(r, &low)) return false;
        if (low < 0xdc00 || low > 0xdfff) return fail(r, "half a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c <= 0xdfff) return fail(r, "half a surrogate pair");
    if (c == 0) return fail(r, "the character U+0000");
    /* No longer than the escape was. */
    if (c < 0x80) *(*o)++ = (char)c;
    else {
        const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        *(*o)++ = (char)((0xff00 >> (more + 1) & 0xff) | c >> 6 * more);
        for (int i = more - 1; i >= 0; i--) *(*o)++ = (char)(0x80 | (c >> 6 * i & 0x3f));
    }
    return true;
}

/* The quotes leave room for the 0, so all texts of a document fit in as many bytes as it has. */
static bool read_text(reader *r, const char **text)
{
    char *o = r->room;
    if (!take(r, '"')) return unexpected(r, "a text in double quotes");
    while (r->p < r->end && *r->p != '"') {
        size_t    used;
        const int c = ts_utf8_next(r->p, (size_t)(r->end - r->p), &used);
        if (c < 0) return fail(r, "bytes that are not UTF-8");
        if (c < 0x20) return fail(r, "a bare control character in a text");
        if (c == '\\') {
            if (!read_escape(r, &o)) return false;
            continue;
        }
        memcpy(o, r->p, used);
        o += used;
        r->p += used;
    }
    if (r->p == r->end) return unexpected(r, "a closing quote");
    r->p++;
    *o++ = 0;
    *text = r->room;
    r->room = o;
    return true;
}

static size_t digits(reader *r)
{
    const char *from = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9') r->p++;
    return (size_t)(r->p - from);
}

static bool read_number(reader *r, ts_node *v)
{
    const char *from = r->p;
    char        copy[64];
    r->p += *r->p == '-';
    const char *first = r->p;
    if (!digits(r)) return unexpected(r, "a digit");
    if (*first == '0' && r->p - first > 1) return fail(r, "a number that begins with 0");
    if (r->p < r->end && *r->p == '.') {
        r->p++;
        if (!digits(r)) return unexpected(r, "a digit after the point");
    }
    if (r->p < r->end && (*r->p | 0x20) == 'e') {
        r->p++;
        if (r->p < r->end && (*r->p == '+' || *r->p == '-')) r->p++;
        if (!digits(r)) return unexpected(r, "a digit in the exponent");
    }
    const size_t n = (size_t)(r->p - from);
    if (n >= sizeof copy) return fail(r, "a number of %zu characters, expected fewer than 64", n);
    memcpy(copy, from, n);
    copy[n] = 0;
    v->kind = TS_NUMBER;
    v->number = strtod(copy, NULL);
    return isfinite(v->number) || fail(r, "a number that is too large: %s", copy);
}

static bool read_value(reader *r, ts_node *v);

static bool read_items(reader *r, ts_node *v, bool object)
{
    const char      close = object ? '}' : ']';
    const ts_node **link = &v->first;
    v->kind = object ? TS_OBJECT : TS_ARRAY;
    r->p++;
    if (++r->depth > TS_JSON_DEPTH) return fail(r, "more than %d levels deep", TS_JSON_DEPTH);
    if (take(r, close)) return r->depth--, true;
    do {
        ts_node *item = r->node++;
        if (object) {
            if (!read_text(r, &item->key)) return false;
            for (const ts_node *o = v->first; o; o = o->next)
                if (!strcmp(o->key, item->key)) return fail(r, "a key for the second time");
            if (!take(r, ':')) return unexpected(r, "':' after the key");
            if (v->n == TS_JSON_MEMBERS)
                return fail(r, "more than %d members in an object", TS_JSON_MEMBERS);
        }
        if (!read_value(r, item)) return false;
        *link = item;
        link = &item->next;
        v->n++;
    } while (take(r, ','));
    if (!take(r, close)) return unexpected(r, object ? "',' or '}'" : "',' or ']'");
    r->depth--;
    return true;
}

static bool read_value(reader *r, ts_node *v)
{
    static const char *const word[] = { "null", "false", "true" };
    skip_blanks(r);
    const char c = r->p < r->end ? *r->p : 0;
    if (c == '{' || c == '[') return read_items(r, v, c == '{');
    if (c == '"') return v->kind = TS_TEXT, read_text(r, &v->text);
    if (c == '-' || (c >= '0' && c <= '9')) return read_number(r, v);
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(word[i]);
        if ((size_t)(r->end - r->p) < n || memcmp(r->p, word[i], n)) continue;
        r->p += n;
        return v->kind = (ts_kind)(TS_NULL + i), true;
    }
    return unexpected(r, "a value");
}

ts_node *ts_json_read(const char *text, size_t n, char *why, size_t n_why)
{
    reader r = { .begin = text, .p = text, .end = text + n, .why = why, .n_why = n_why };
    size_t n_nodes = 1; /* a value is the first, the first of a container, or after a comma */
    if (n > TS_JSON_BYTES) {
        snprintf(why, n_why, "%zu bytes of JSON, expected at most %d", n, TS_JSON_BYTES);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) n_nodes += text[i] == ',' || text[i] == '[' || text[i] == '{';
    ts_node *root = calloc(1, n_nodes * sizeof *root + n + 1);
    if (!root) {
        snprintf(why, n_why, "no memory for %zu values", n_nodes);
        return NULL;
    }
    r.node = root + 1;
    r.room = (char *)(root + n_nodes);
    bool ok = read_value(&r, root);
    skip_blanks(&r);
    if (ok && r.p < r.end) ok = unexpected(&r, "nothing after the value");
    if (ok) return root;
    free(root);
    return NULL;
}

const ts_node *ts_json_member(const ts_node *o, const char *key)
{
    if (!o || o->kind != TS_OBJECT) return NULL;
    for (const ts_node *m = o->first; m; m = m->next)
        if (!strcmp(m->key, key)) return m;
    return NULL;
}

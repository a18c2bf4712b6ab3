/* SPDX-License-Identifier: Apache-2.0 */
/* template_expression.c - parses the expressions of a chat template. */
#include <stdlib.h>
#include <string.h>

#include "template_parser.h"

enum { MOST_DEPTH = 100, NODES = 256 };

/* ---- nodes ---- */

typedef struct chunk {
    struct chunk *before;
    int           n;
    ts_node       node[NODES];
} chunk;

static ts_node *make(ts_parser *s, ts_node_kind kind)
{
    chunk *c = s->t->memory;
    if (!c || c->n == NODES) {
        c = calloc(1, sizeof *c);
        if (!c) return ts_template_fail(s->t, "out of memory");
        c->before = s->t->memory;
        s->t->memory = c;
    }
    ts_node *n = &c->node[c->n++];
    n->kind = kind;
    n->line = s->t->line;
    return n;
}

ts_node *ts_tp_node(ts_parser *s, ts_node_kind kind, ts_node *a, ts_node *b)
{
    ts_node *n = s->t->bad ? NULL : make(s, kind);
    if (!n) return NULL;
    n->a = a;
    n->b = b;
    return n;
}

/* A value that lives as long as the template. */
static json_t *kept(ts_parser *s, json_t *v)
{
    if (!v || json_array_append_new(s->t->keep, v)) return ts_template_fail(s->t, "out of memory");
    return v;
}

ts_node *ts_tp_literal(ts_parser *s, ts_node_kind kind, json_t *v)
{
    ts_node *n = ts_tp_node(s, kind, NULL, NULL);
    if (!n) json_decref(v);
    else n->value = kept(s, v);
    return s->t->bad ? NULL : n;
}

/* ---- tokens of a tag ---- */

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

void ts_tp_advance(ts_parser *s)
{
    static const char *const pairs[] = { "==", "!=", "<=", ">=", "//", "**" };
    while (s->p < s->stop && strchr(" \t\n", *s->p)) s->t->line += *s->p++ == '\n';
    s->at = s->p;
    s->kind = s->p == s->stop ? TS_T_END : TS_T_OP;
    if (s->kind == TS_T_END) {
        s->n = 0;
        return;
    }
    if (letter(*s->p)) {
        s->kind = TS_T_NAME;
        while (s->p < s->stop && (letter(*s->p) || digit(*s->p))) s->p++;
    } else if (digit(*s->p)) {
        s->kind = TS_T_INTEGER;
        while (s->p < s->stop && digit(*s->p)) s->p++;
        if (s->p + 1 < s->stop && *s->p == '.' && digit(s->p[1])) {
            s->kind = TS_T_REAL;
            for (s->p++; s->p < s->stop && digit(*s->p);) s->p++;
        }
        const char *e = s->p + 1 < s->stop && (*s->p == 'e' || *s->p == 'E') ? s->p + 1 : NULL;
        if (e && (*e == '-' || *e == '+') && e + 1 < s->stop) e++;
        if (e && digit(*e)) {
            s->kind = TS_T_REAL;
            for (s->p = e; s->p < s->stop && digit(*s->p);) s->p++;
        }
    } else if (*s->p == '\'' || *s->p == '"') {
        const char mark = *s->p++;
        s->kind = TS_T_STRING;
        while (s->p < s->stop && *s->p != mark) s->p += *s->p == '\\' && s->p + 1 < s->stop ? 2 : 1;
        if (s->p >= s->stop) ts_template_fail(s->t, "a string does not end");
        else s->p++;
    } else {
        s->p++;
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
            if (s->p < s->stop && s->at[0] == pairs[i][0] && *s->p == pairs[i][1]) {
                s->p++;
                break;
            }
    }
    s->n = (size_t)(s->p - s->at);
}

bool ts_tp_is(const ts_parser *s, const char *text)
{
    return (s->kind == TS_T_NAME || s->kind == TS_T_OP) && s->n == strlen(text) &&
           !memcmp(s->at, text, s->n);
}

bool ts_tp_accept(ts_parser *s, const char *text)
{
    if (s->t->bad || !ts_tp_is(s, text)) return false;
    ts_tp_advance(s);
    return true;
}

void *ts_tp_unexpected(ts_parser *s, const char *wanted)
{
    if (s->kind == TS_T_END) return ts_template_fail(s->t, "the tag ends, expected %s", wanted);
    return ts_template_fail(s->t, "got '%.*s', expected %s", (int)(s->n < 40 ? s->n : 40), s->at,
                            wanted);
}

bool ts_tp_expect(ts_parser *s, const char *text)
{
    return ts_tp_accept(s, text) || s->t->bad || ts_tp_unexpected(s, text);
}

const char *ts_tp_name(ts_parser *s)
{
    if (s->t->bad) return NULL;
    if (s->kind != TS_T_NAME) return ts_tp_unexpected(s, "a name");
    json_t *v = kept(s, ts_value_text(s->at, s->n));
    ts_tp_advance(s);
    return v ? json_string_value(v) : NULL;
}

/* ---- expressions, by rising precedence ---- */

bool ts_tp_deeper(ts_parser *s)
{
    return !s->t->bad && (++s->depth < MOST_DEPTH ||
                          ts_template_fail(s->t, "an expression is nested too deeply"));
}

static size_t encode(unsigned c, char *out)
{
    const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    out[0] = (char)(more ? (0xff00 >> (more + 1) & 0xff) | c >> 6 * more : c);
    for (int i = 1; i <= more; i++) out[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3f));
    return (size_t)more + 1;
}

static json_t *string(ts_parser *s)
{
    const char *p = s->at + 1, *end = s->at + s->n - 1;
    char       *text = malloc(s->n), *to = text;
    json_t     *v = NULL;
    for (; text && p < end; p++) {
        static const char from[] = "nrtbf0\\'\"", by[] = "\n\r\t\b\f\0\\'\"";
        const char       *at = *p == '\\' && p[1] ? strchr(from, p[1]) : NULL;
        const int         n_hex = *p != '\\' ? 0 : p[1] == 'x' ? 2 : p[1] == 'u' ? 4 : 0;
        char              hex[5] = "", *past = hex;
        if (n_hex && end - p > n_hex + 1) {
            memcpy(hex, p + 2, (size_t)n_hex);
            const unsigned c = (unsigned)strtoul(hex, &past, 16);
            if (past == hex + n_hex && (c < 0xd800 || c > 0xdfff)) to += encode(c, to);
            else ts_template_fail(s->t, "a string has an invalid escape");
            p += n_hex + 1;
        } else if (at) {
            *to++ = by[at - from];
            p++;
        } else *to++ = *p;
    }
    if (text) v = ts_value_text(text, (size_t)(to - text));
    free(text);
    return v;
}

/* (a, b, name=c): after the opening one. */
static ts_node *arguments(ts_parser *s)
{
    ts_node *first = NULL, **to = &first;
    for (int n = 0; !s->t->bad && !ts_tp_is(s, ")"); n++) {
        ts_node *arg = ts_tp_node(s, TS_N_ARG, NULL, NULL);
        if (n == TS_ARGS) ts_template_fail(s->t, "a call has more than %d arguments", (int)TS_ARGS);
        if (s->t->bad) break;
        if (s->kind == TS_T_NAME) { /* is it `name =`? */
            const char *past = s->p;
            while (past < s->stop && strchr(" \t\n", *past)) past++;
            if (past + 1 < s->stop && *past == '=' && past[1] != '=') {
                arg->name = ts_tp_name(s);
                ts_tp_advance(s);
            }
        }
        arg->a = ts_tp_expression(s);
        *to = arg;
        to = &arg->next;
        if (!ts_tp_accept(s, ",")) break;
    }
    ts_tp_expect(s, ")");
    return s->t->bad ? NULL : first;
}

/* [a, b] or (a, b), up to `close`; *n: how many commas. */
static ts_node *items(ts_parser *s, const char *close, int *n)
{
    ts_node *first = NULL, **to = &first;
    *n = 0;
    while (!s->t->bad && !ts_tp_is(s, close)) {
        ts_node *item = ts_tp_node(s, TS_N_ARG, ts_tp_expression(s), NULL);
        if (!item) break;
        *to = item;
        to = &item->next;
        if (!ts_tp_accept(s, ",")) break;
        ++*n;
    }
    ts_tp_expect(s, close);
    return first;
}

static ts_node *dict(ts_parser *s)
{
    ts_node *first = NULL, **to = &first;
    while (!s->t->bad && !ts_tp_is(s, "}")) {
        ts_node *key = ts_tp_expression(s);
        ts_tp_expect(s, ":");
        ts_node *item = ts_tp_node(s, TS_N_ARG, key, ts_tp_expression(s));
        if (!item) break;
        *to = item;
        to = &item->next;
        if (!ts_tp_accept(s, ",")) break;
    }
    ts_tp_expect(s, "}");
    return ts_tp_node(s, TS_N_DICT, first, NULL);
}

static ts_node *named(ts_parser *s)
{
    static const char *const constants[] = { "true", "True", "false", "False", "none", "None" };
    for (int i = 0; i < 6; i++)
        if (ts_tp_accept(s, constants[i]))
            return ts_tp_literal(s, TS_N_LITERAL,
                                 i < 2   ? json_true()
                                 : i < 4 ? json_false()
                                         : json_null());
    ts_node *n = ts_tp_node(s, TS_N_NAME, NULL, NULL);
    if (!n || !(n->name = ts_tp_name(s))) return NULL;
    if (!ts_tp_accept(s, "(")) return n;
    n->kind = TS_N_CALL;
    n->args = arguments(s);
    n->call = ts_function_find(n->name);
    if (n->call < 0) { /* a macro, which may come later */
        n->other = s->t->calls;
        s->t->calls = n;
    }
    return n;
}

void ts_tp_find_macros(ts_template *t)
{
    for (const ts_node *n = t->calls, *m; n && !t->bad; n = n->other) {
        for (m = t->macro; m && strcmp(m->name, n->name);) m = m->other;
        t->line = n->line;
        if (!m) ts_template_fail(t, "function %.60s: unknown", n->name);
    }
}

static ts_node *primary(ts_parser *s)
{
    int n_comma;
    if (s->t->bad) return NULL;
    if (s->kind == TS_T_NAME) return named(s);
    if (s->kind == TS_T_STRING) {
        ts_node *n = ts_tp_literal(s, TS_N_LITERAL, string(s));
        ts_tp_advance(s);
        while (n && s->kind == TS_T_STRING) { /* neighbours are one string */
            ts_node *more = ts_tp_literal(s, TS_N_LITERAL, string(s));
            ts_tp_advance(s);
            n = ts_tp_node(s, TS_N_BINARY, n, more);
            if (n) n->op = TS_OP_ADD;
        }
        return n;
    }
    if (s->kind == TS_T_INTEGER || s->kind == TS_T_REAL) {
        char digits[64];
        if (s->n >= (s->kind == TS_T_REAL ? sizeof digits : 20))
            return ts_tp_unexpected(s, "a shorter number");
        memcpy(digits, s->at, s->n);
        digits[s->n] = 0;
        json_t *v =
            s->kind == TS_T_REAL ? json_real(strtod(digits, NULL)) : json_integer(atoll(digits));
        ts_tp_advance(s);
        return ts_tp_literal(s, TS_N_LITERAL, v);
    }
    if (ts_tp_accept(s, "[")) return ts_tp_node(s, TS_N_LIST, items(s, "]", &n_comma), NULL);
    if (ts_tp_accept(s, "{")) return dict(s);
    if (!ts_tp_accept(s, "(")) return ts_tp_unexpected(s, "an expression");
    ts_node *inside = items(s, ")", &n_comma);
    if (inside && !n_comma) return inside->a;
    return ts_tp_node(s, TS_N_LIST, inside, NULL);
}

static ts_node *subscript(ts_parser *s, ts_node *of)
{
    ts_node *from = ts_tp_is(s, ":") ? NULL : ts_tp_expression(s);
    if (ts_tp_accept(s, "]")) return ts_tp_node(s, TS_N_ITEM, of, from);
    ts_node *n = ts_tp_node(s, TS_N_SLICE, of, from);
    if (!ts_tp_expect(s, ":") || !n) return NULL;
    if (!ts_tp_is(s, ":") && !ts_tp_is(s, "]")) n->c = ts_tp_expression(s);
    if (ts_tp_accept(s, ":") && !ts_tp_is(s, "]")) n->d = ts_tp_expression(s);
    ts_tp_expect(s, "]");
    return n;
}

static ts_node *postfix(ts_parser *s, ts_node *n)
{
    while (n && !s->t->bad) {
        if (ts_tp_accept(s, "[")) n = subscript(s, n);
        else if (ts_tp_accept(s, ".")) {
            n = ts_tp_node(s, TS_N_ATTR, n, NULL);
            if (!n || !(n->name = ts_tp_name(s)) || !ts_tp_accept(s, "(")) continue;
            n->kind = TS_N_METHOD;
            n->args = arguments(s);
            n->call = ts_method_find(n->name);
            if (n->call < 0) return ts_template_fail(s->t, "method %.60s: unknown", n->name);
        } else break;
    }
    return n;
}

static ts_node *filters(ts_parser *s, ts_node *n)
{
    while (n && !s->t->bad) {
        if (ts_tp_accept(s, "|")) {
            n = ts_tp_node(s, TS_N_FILTER, n, NULL);
            if (!n || !(n->name = ts_tp_name(s))) return NULL;
            n->call = ts_filter_find(n->name);
            if (n->call < 0) return ts_template_fail(s->t, "filter %.60s: unknown", n->name);
            if (ts_tp_accept(s, "(")) n->args = arguments(s);
        } else if (ts_tp_accept(s, "is")) {
            const bool negate = ts_tp_accept(s, "not");
            n = ts_tp_node(s, TS_N_TEST, n, NULL);
            if (!n || !(n->name = ts_tp_name(s))) return NULL;
            n->negate = negate;
            n->call = ts_test_find(n->name);
            if (n->call < 0) return ts_template_fail(s->t, "test %.60s: unknown", n->name);
            if (ts_tp_accept(s, "(")) n->args = arguments(s);
            else if (ts_test_takes_one(n->call))
                n->args = ts_tp_node(s, TS_N_ARG, postfix(s, primary(s)), NULL);
        } else break;
    }
    return n;
}

static ts_node *sign(ts_parser *s)
{
    ts_node *n = NULL;
    if (!ts_tp_deeper(s)) return NULL;
    if (ts_tp_accept(s, "-")) n = ts_tp_node(s, TS_N_NEGATE, sign(s), NULL);
    else if (ts_tp_accept(s, "+")) n = sign(s);
    else n = postfix(s, primary(s));
    s->depth--;
    return n;
}

/* -x|abs is (-x)|abs. */
static ts_node *unary(ts_parser *s)
{
    return filters(s, sign(s));
}

typedef struct operator_of {
    const char *text;
    ts_binary   op;
} operator_of;

/* Left to right; the list ends with NULL. */
static ts_node *chain(ts_parser *s, const operator_of *list, ts_node *(*next)(ts_parser *s))
{
    ts_node *n = next(s);
    for (const operator_of *o = list; o->text && !s->t->bad;) {
        if (!ts_tp_accept(s, o->text)) {
            o++;
            continue;
        }
        n = ts_tp_node(s, TS_N_BINARY, n, next(s));
        if (n) n->op = o->op;
        o = list;
    }
    return n;
}

static ts_node *product(ts_parser *s)
{
    static const operator_of list[] = {
        { "*", TS_OP_MUL }, { "/", TS_OP_DIV }, { "//", TS_OP_FLOOR }, { "%", TS_OP_MOD }, { 0 }
    };
    return chain(s, list, unary);
}

static ts_node *concatenation(ts_parser *s)
{
    static const operator_of list[] = { { "~", TS_OP_CONCAT }, { 0 } };
    return chain(s, list, product);
}

static ts_node *sum(ts_parser *s)
{
    static const operator_of list[] = { { "+", TS_OP_ADD }, { "-", TS_OP_SUB }, { 0 } };
    return chain(s, list, concatenation);
}

/* a < b < c is (a < b) and (b < c). */
static ts_node *comparison(ts_parser *s)
{
    static const operator_of list[] = { { "==", TS_OP_EQ }, { "!=", TS_OP_NE },
                                        { "<", TS_OP_LT },  { "<=", TS_OP_LE },
                                        { ">", TS_OP_GT },  { ">=", TS_OP_GE },
                                        { "in", TS_OP_IN }, { "not", TS_OP_NOT_IN } };
    ts_node                 *left = sum(s), *all = NULL;
    for (size_t i = 0; i < sizeof list / sizeof *list && !s->t->bad;) {
        if (!ts_tp_accept(s, list[i].text)) {
            i++;
            continue;
        }
        if (list[i].op == TS_OP_NOT_IN) ts_tp_expect(s, "in");
        ts_node *right = sum(s), *n = ts_tp_node(s, TS_N_BINARY, left, right);
        if (!n) return NULL;
        n->op = list[i].op;
        all = all ? ts_tp_node(s, TS_N_AND, all, n) : n;
        left = right;
        i = 0;
    }
    return all ? all : left;
}

static ts_node *negation(ts_parser *s)
{
    if (!ts_tp_is(s, "not")) return comparison(s);
    if (!ts_tp_deeper(s)) return NULL;
    ts_tp_advance(s);
    ts_node *n = ts_tp_node(s, TS_N_NOT, negation(s), NULL);
    s->depth--;
    return n;
}

static ts_node *conjunction(ts_parser *s)
{
    ts_node *n = negation(s);
    while (ts_tp_accept(s, "and")) n = ts_tp_node(s, TS_N_AND, n, negation(s));
    return n;
}

ts_node *ts_tp_condition(ts_parser *s)
{
    ts_node *n = conjunction(s);
    while (ts_tp_accept(s, "or")) n = ts_tp_node(s, TS_N_OR, n, conjunction(s));
    return n;
}

ts_node *ts_tp_expression(ts_parser *s)
{
    if (!ts_tp_deeper(s)) return NULL;
    ts_node *n = ts_tp_condition(s);
    while (ts_tp_accept(s, "if")) {
        ts_node *choice = ts_tp_node(s, TS_N_CHOICE, ts_tp_condition(s), n);
        if (choice && ts_tp_accept(s, "else")) choice->c = ts_tp_expression(s);
        n = choice;
    }
    s->depth--;
    return n;
}

void ts_tp_free(ts_template *t)
{
    for (chunk *c = t->memory, *before; c; c = before) {
        before = c->before;
        free(c);
    }
}

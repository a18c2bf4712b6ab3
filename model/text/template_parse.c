/* SPDX-License-Identifier: Apache-2.0 */
/* template_parse.c - parses a chat template: text, tags and statements.
 *
 * White space is as transformers has it: trim_blocks drops a line break after a block or a comment,
 * lstrip_blocks the blanks before one on its line, and the template's last line break is dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "template_parser.h"

/* ---- text and tags ---- */

/* Finds where the tag that begins at p ends, outside strings; NULL: nowhere. */
static const char *tag_end(const char *p, const char *end, const char *close)
{
    char mark = 0;
    for (; p + 1 < end; p++) {
        if (mark && *p == '\\') p++;
        else if (mark) mark = *p == mark ? 0 : mark;
        else if (*close != '#' && (*p == '\'' || *p == '"')) mark = *p;
        else if (p[0] == close[0] && p[1] == close[1]) return p;
    }
    return NULL;
}

/* Up to the next tag, less the white space that goes; NULL: none. */
static ts_node *text(ts_parser *s)
{
    const char *from = s->p, *to = from;
    while (to < s->end && !(*to == '{' && to + 1 < s->end && strchr("{%#", to[1]))) to++;
    const bool  tag = to < s->end;
    const char  sign = tag && to + 2 < s->end ? to[2] : 0;
    const char *next = to;
    while (s->strip && from < to && strchr(" \t\n\r", *from)) from++;
    if (s->newline && !s->strip && from < to && *from == '\n') from++;
    const bool starting = from > s->p ? from[-1] == '\n' : s->starting;
    if (sign == '-')
        while (to > from && strchr(" \t\n\r", to[-1])) to--;
    else if (tag && next[1] != '{' && sign != '+') {
        const char *line = to;
        while (line > from && strchr(" \t", line[-1])) line--;
        if (line > from ? line[-1] == '\n' : starting) to = line;
    }
    for (const char *c = s->p; c < next; c++) s->t->line += *c == '\n';
    s->p = next;
    s->strip = s->newline = s->starting = false;
    return to > from ? ts_tp_literal(s, TS_N_TEXT, ts_value_text(from, (size_t)(to - from))) : NULL;
}

/* Sets the parser on the first token of the tag at p. */
static bool open_tag(ts_parser *s, char *kind)
{
    static const char *const closes[] = { "}}", "%}", "#}" };
    *kind = s->p[1];
    const char *close = closes[*kind == '{' ? 0 : *kind == '%' ? 1 : 2];
    const char *stop = tag_end(s->p + 2, s->end, close);
    if (!stop) return ts_template_fail(s->t, "a tag does not end");
    s->strip = stop[-1] == '-' && stop > s->p + 2;
    s->newline = *kind != '{' && !(stop[-1] == '+' && stop > s->p + 2);
    s->stop = stop - (s->strip || (stop[-1] == '+' && stop > s->p + 2));
    s->after = stop + 2;
    s->p += 2;
    if (s->p < s->stop && (*s->p == '-' || *s->p == '+')) s->p++;
    if (*kind == '#') {
        for (; s->p < s->stop; s->p++) s->t->line += *s->p == '\n';
        return true;
    }
    ts_tp_advance(s);
    return !s->t->bad;
}

static bool close_tag(ts_parser *s)
{
    if (s->t->bad) return false;
    if (s->kind != TS_T_END) return ts_tp_unexpected(s, "the end of the tag");
    s->p = s->after;
    return true;
}

static ts_node *statements(ts_parser *s, const char *const *ends);

/* The tag that ended the statements is one of these; it stays open. */
static ts_node *body_until(ts_parser *s, const char *const *ends)
{
    if (!close_tag(s) || !ts_tp_deeper(s)) return NULL;
    ts_node *n = statements(s, ends);
    s->depth--;
    return n;
}

/* a, b: names, by next. */
static ts_node *names(ts_parser *s)
{
    ts_node   *first = NULL, **to = &first;
    const bool inside = ts_tp_accept(s, "(");
    do {
        ts_node *n = ts_tp_node(s, TS_N_NAME, NULL, NULL);
        if (!n || !(n->name = ts_tp_name(s))) return NULL;
        *to = n;
        to = &n->next;
    } while (ts_tp_accept(s, ","));
    if (inside) ts_tp_expect(s, ")");
    return first;
}

static ts_node *for_tag(ts_parser *s)
{
    static const char *const ends[] = { "endfor", "else", NULL }, *const last[] = { "endfor",
                                                                                    NULL };
    ts_node *n = ts_tp_node(s, TS_N_FOR, NULL, NULL);
    if (!n || !(n->b = names(s)) || !ts_tp_expect(s, "in")) return NULL;
    n->a = ts_tp_condition(s);
    if (ts_tp_accept(s, "if")) n->c = ts_tp_expression(s);
    if (ts_tp_is(s, "recursive"))
        return ts_template_fail(s->t, "a recursive loop is not supported");
    n->body = body_until(s, ends);
    if (ts_tp_accept(s, "else")) n->other = body_until(s, last);
    return ts_tp_expect(s, "endfor") ? n : NULL;
}

/* After `if` or `elif`, up to and with endif. */
static ts_node *if_tag(ts_parser *s)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL }, *const last[] = { "endif",
                                                                                           NULL };
    ts_node *first = NULL, **to = &first;
    do {
        ts_node *n = ts_tp_node(s, TS_N_IF, ts_tp_expression(s), NULL);
        if (!n) return NULL;
        *to = n;
        to = &n->other;
        n->body = body_until(s, ends);
    } while (ts_tp_accept(s, "elif"));
    if (ts_tp_accept(s, "else")) *to = body_until(s, last);
    return ts_tp_expect(s, "endif") ? first : NULL;
}

static ts_node *set_tag(ts_parser *s)
{
    static const char *const ends[] = { "endset", NULL };
    ts_node                 *n = ts_tp_node(s, TS_N_SET, NULL, names(s));
    if (!n || !n->b) return NULL;
    if (!n->b->next && ts_tp_accept(s, ".")) {
        n->b = ts_tp_node(s, TS_N_ATTR, n->b, NULL);
        if (!n->b || !(n->b->name = ts_tp_name(s))) return NULL;
    }
    if (ts_tp_accept(s, "=")) {
        n->a = ts_tp_expression(s);
        if (n->a && ts_tp_accept(s, ",")) { /* a tuple without brackets */
            ts_node *list = ts_tp_node(s, TS_N_LIST, ts_tp_node(s, TS_N_ARG, n->a, NULL), NULL);
            for (ts_node **to = list ? &list->a->next : NULL; to && !s->t->bad;) {
                *to = ts_tp_node(s, TS_N_ARG, ts_tp_expression(s), NULL);
                to = *to && ts_tp_accept(s, ",") ? &(*to)->next : NULL;
            }
            n->a = list;
        }
        return n;
    }
    n->kind = TS_N_BLOCK;
    n->body = body_until(s, ends);
    return ts_tp_expect(s, "endset") ? n : NULL;
}

static ts_node *macro_tag(ts_parser *s)
{
    static const char *const ends[] = { "endmacro", NULL };
    ts_node                 *n = ts_tp_node(s, TS_N_MACRO, NULL, NULL);
    if (!n || !(n->name = ts_tp_name(s)) || !ts_tp_expect(s, "(")) return NULL;
    for (ts_node **to = &n->b; !s->t->bad && !ts_tp_is(s, ")"); to = &(*to)->next) {
        *to = ts_tp_node(s, TS_N_NAME, NULL, NULL);
        if (!*to || !((*to)->name = ts_tp_name(s))) return NULL;
        if (ts_tp_accept(s, "=")) (*to)->a = ts_tp_expression(s);
        if (!ts_tp_accept(s, ",")) break;
    }
    if (!ts_tp_expect(s, ")")) return NULL;
    n->other = s->t->macro;
    s->t->macro = n;
    n->body = body_until(s, ends);
    if (!ts_tp_accept(s, "endmacro")) return s->t->bad ? NULL : ts_tp_unexpected(s, "endmacro");
    if (s->kind == TS_T_NAME) ts_tp_advance(s); /* its name again */
    return n;
}

static ts_node *statement(ts_parser *s)
{
    static const char *const part_ends[] = { "endgeneration", NULL };
    ts_node                 *n;
    if (ts_tp_accept(s, "for")) return for_tag(s);
    if (ts_tp_accept(s, "if")) return if_tag(s);
    if (ts_tp_accept(s, "set")) return set_tag(s);
    if (ts_tp_accept(s, "macro")) return macro_tag(s);
    if (ts_tp_accept(s, "break")) return ts_tp_node(s, TS_N_BREAK, NULL, NULL);
    if (ts_tp_accept(s, "continue")) return ts_tp_node(s, TS_N_CONTINUE, NULL, NULL);
    if (!ts_tp_accept(s, "generation")) return ts_tp_unexpected(s, "a known statement");
    n = ts_tp_node(s, TS_N_PART, NULL, NULL);
    if (n) n->body = body_until(s, part_ends);
    return n && ts_tp_expect(s, "endgeneration") ? n : NULL;
}

/* {% raw %}: p is behind the tag. */
static ts_node *raw_text(ts_parser *s)
{
    const char *from = s->p;
    for (const char *p = from; (p = strstr(p, "{%")); p += 2) {
        const char *word = p + 2 + (p[2] == '-' || p[2] == '+');
        while (*word == ' ') word++;
        if (strncmp(word, "endraw", 6)) continue;
        char kind;
        s->p = p;
        if (!open_tag(s, &kind)) return NULL;
        ts_tp_advance(s);
        if (!close_tag(s)) return NULL;
        return ts_tp_literal(s, TS_N_TEXT, ts_value_text(from, (size_t)(p - from)));
    }
    return ts_template_fail(s->t, "missing endraw");
}

/* Up to a tag that begins with one of `ends`, which stays open; or, for NULL, to the end. */
static ts_node *statements(ts_parser *s, const char *const *ends)
{
    ts_node *first = NULL, **to = &first;
    while (!s->t->bad) {
        ts_node *n = text(s);
        char     kind;
        if (n) {
            *to = n;
            to = &n->next;
        }
        if (s->t->bad || s->p >= s->end || !open_tag(s, &kind)) break;
        if (kind == '#') {
            s->kind = TS_T_END;
            n = NULL;
        } else if (kind == '{') n = ts_tp_node(s, TS_N_OUT, ts_tp_expression(s), NULL);
        else if (ts_tp_accept(s, "raw")) {
            if (!close_tag(s)) break;
            n = raw_text(s);
            if (!n) break;
            *to = n;
            to = &n->next;
            s->starting = s->p[-1] == '\n';
            continue;
        } else {
            for (const char *const *e = ends; e && *e; e++)
                if (ts_tp_is(s, *e)) return first;
            n = statement(s);
        }
        if (!close_tag(s)) break;
        if (!n) continue;
        *to = n;
        to = &n->next;
    }
    if (!s->t->bad && ends) ts_template_fail(s->t, "missing %s", ends[0]);
    return first;
}

bool ts_template_parse(const char *source, size_t n, ts_template **out, char why[TS_MODEL_WHY])
{
    ts_template *t = calloc(1, sizeof *t);
    *out = t;
    if (!t) return ts_say(why, "out of memory");
    t->why = why;
    t->line = 1;
    t->source = malloc(n + 1);
    t->keep = json_array();
    size_t used = 0;
    for (size_t i = 0; t->source && i < n; i++) { /* line breaks are \n */
        const bool pair = source[i] == '\r' && i + 1 < n && source[i + 1] == '\n';
        if (!pair) t->source[used++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (!t->source || !t->keep) ts_template_fail(t, "out of memory");
    else {
        if (used && t->source[used - 1] == '\n') used--;
        t->source[used] = 0;
        if (strlen(t->source) != used) ts_template_fail(t, "a NUL in the template");
        ts_parser s = { .t = t, .p = t->source, .end = t->source + used, .starting = true };
        t->root = statements(&s, NULL);
        ts_tp_find_macros(t);
    }
    if (!t->bad) return true;
    ts_template_free(out);
    return false;
}

void ts_template_free(ts_template **p)
{
    ts_template *t = *p;
    if (!t) return;
    ts_tp_free(t);
    json_decref(t->keep);
    free(t->source);
    free(t);
    *p = NULL;
}

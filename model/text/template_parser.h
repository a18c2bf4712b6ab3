/* SPDX-License-Identifier: Apache-2.0 */
/* template_parser.h - what the parsers of a chat template's tags and of its expressions share. */
#ifndef TS_MODEL_TEMPLATE_PARSER_H
#define TS_MODEL_TEMPLATE_PARSER_H

#include "template.h"

typedef enum ts_token_kind {
    TS_T_END,
    TS_T_NAME,
    TS_T_STRING,
    TS_T_INTEGER,
    TS_T_REAL,
    TS_T_OP
} ts_token_kind;

typedef struct ts_parser {
    ts_template *t;
    const char  *p, *end;  /* of the source */
    const char  *stop;     /* where the tag's tokens end */
    const char  *after;    /* and where the tag does */
    bool         starting; /* a line starts at p */
    bool         strip;    /* white space at p goes */
    bool         newline;  /* a line break at p goes */
    /* the current token of the tag */
    ts_token_kind kind;
    const char   *at;
    size_t        n;
    int           depth;
} ts_parser;

/* Nodes live as long as the template. */
ts_node *ts_tp_node(ts_parser *s, ts_node_kind kind, ts_node *a, ts_node *b);
ts_node *ts_tp_literal(ts_parser *s, ts_node_kind kind, json_t *v);
void     ts_tp_free(ts_template *t);

/* Tokens of the current tag. */
void        ts_tp_advance(ts_parser *s);
bool        ts_tp_is(const ts_parser *s, const char *text);
bool        ts_tp_accept(ts_parser *s, const char *text);
bool        ts_tp_expect(ts_parser *s, const char *text);
void       *ts_tp_unexpected(ts_parser *s, const char *wanted);
const char *ts_tp_name(ts_parser *s);

/* False, and an error, where nesting is too deep; the caller counts s->depth down again. */
bool     ts_tp_deeper(ts_parser *s);
ts_node *ts_tp_expression(ts_parser *s);
ts_node *ts_tp_condition(ts_parser *s); /* without a choice: `a if b` is left at the if */
/* Every function that is called is known. */
void ts_tp_find_macros(ts_template *t);

#endif

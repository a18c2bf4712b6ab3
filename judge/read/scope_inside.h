/* SPDX-License-Identifier: Apache-2.0 */
/* scope_inside.h - a parsed scope, cut into clauses; private to scope.c and scope_cases.c. */
#ifndef TS_SCOPE_INSIDE_H
#define TS_SCOPE_INSIDE_H

#include "expr.h"
#include "scope.h"

/* A part of the expression: all or any of those up to `end`, or a comparison. */
typedef struct ts_clause {
    enum { TS_CLAUSE_ALL, TS_CLAUSE_ANY, TS_CLAUSE_TEST } kind;
    int     end;
    ts_expr whole, side[2]; /* of a test; its sides, empty if it compares nothing */
} ts_clause;

typedef struct ts_scope_code {
    const char *text;
    ts_reader   r;
    ts_expr     whole;
    ts_op       op[4 * TS_ENTRANT_OFFERS];
    ts_clause   clause[TS_ENTRANT_OFFERS + 1]; /* the first is the whole; each has a character */
    int         n_clauses;
} ts_scope_code;

/* False, and what is wrong in x->r.fault. x keeps `text`. */
bool ts_scope_parse(const char *text, ts_scope_code *x);

/* How many clauses the case breaks; 0: it is in scope. */
int ts_scope_breaks(const ts_scope_code *x, const ts_task *t, const ts_case *c);
/* Values of both sides of every comparison, and their neighbours: at most `room`. */
int ts_scope_hints(const ts_scope_code *x, const ts_task *t, const ts_case *c, int64_t *value,
                   int room);

#endif

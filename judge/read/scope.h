/* SPDX-License-Identifier: Apache-2.0 */
/* scope.h - the part of a challenge that an entrant supports: an expression over a case's
 * parameters, such as `k <= 32 && dtype == f32`, in the language of judge/gpu/expr.h.
 *
 * Names are the challenge's dimensions as in a case's name, what the prompt calls them (`n_rows`),
 * the parameters that its task adds, dtype, and as values f32, f64, f16, bf16, u8 and u4. A case
 * outside the scope is never run; instead as many are made within it. */
#ifndef TS_SCOPE_H
#define TS_SCOPE_H

#include "entrant.h"
#include "task.h"

/* Whether entrants of the class can be judged in the challenge: on its devices and, on one, with
 * host code that plays its script. */
static inline bool ts_class_enters(const ts_task *t, ts_class cls)
{
    const ts_device d = ts_on_gpu(cls) ? TS_CUDA : TS_CPU;
    return t->devices >> d & 1 && (t->kind != TS_SCRIPT || d == TS_CPU || cls == TS_GPU_HOST);
}

enum { TS_SCOPE_LEAST = 24 }; /* different cases with an output that a scope must leave */

/* A list of cases, ended by `use` 0. */
typedef struct ts_scope_list {
    ts_case *c;
    int     *from; /* the number in the task's list of which each is adapted, or -1 */
} ts_scope_list;

typedef struct ts_scope {
    char                 text[TS_ENTRANT_OFFERS + 1]; /* "": everything */
    double               share; /* of the challenge, from 0 to 1, see share_of */
    unsigned             lacks; /* bit mask of the optional functions that it does not export */
    const ts_scope_list *list;  /* NULL: the task's own */
} ts_scope;

/* Parses the expression and evaluates it on every case of the task. False and one line in *why if
 * it is invalid or fails on a case. */
bool ts_scope_read(const char *text, const ts_task *t, ts_device d, ts_scope *s, ts_refusal *why);

/* Makes the cases within. False and one line in *why if fewer than TS_SCOPE_LEAST are different,
 * on that device. scope_cases.c */
bool ts_scope_fill(ts_scope *s, const ts_task *t, ts_device d, ts_refusal *why);

/* The cases of an entrant with this scope; s NULL: the task's. */
static inline const ts_case *ts_scope_cases(const ts_scope *s, const ts_task *t)
{
    return s && s->list ? s->list->c : t->cases();
}

/* The number in its list of that case of the task's, or of what it was adapted to; -1: none. */
int ts_scope_number(const ts_scope *s, const ts_task *t, int number);

/* Writes the names that an expression may contain, separated by spaces. */
void ts_scope_names(const ts_task *t, char *names, size_t n);

/* Names of the optional functions that it exports, or lacks, separated by spaces. */
void ts_scope_optional(const ts_scope *s, const ts_task *t, bool has, char *names, size_t n);

/* s NULL: every case is in scope. */
bool ts_scope_takes(const ts_scope *s, const ts_task *t, const ts_case *c);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* scope.h - what an entrant offers of a challenge: an expression over a case's parameters, such as
 * `k <= 32 && dtype == f32`, in the language of gpu/expr.h.
 *
 * Names are the challenge's dimensions, the parameters that its task adds, dtype, and as values
 * f32, f64, f16, bf16, u8 and u4. A case outside of the scope is never called. */
#ifndef TS_SCOPE_H
#define TS_SCOPE_H

#include "entrant.h"
#include "task.h"

typedef struct ts_scope {
    char   text[TS_ENTRANT_OFFERS + 1]; /* "": everything */
    double share; /* of the challenge, from 0 to 1: the mean over its groups of the part offered */
    unsigned lacks; /* 1u << number of each optional function that it does not export */
} ts_scope;

/* Reads a text and tries it on every case of the task. False and one line in *why: it cannot be
 * read, fails on a case, or leaves nothing to check on the device. */
bool ts_scope_read(const char *text, const ts_task *t, ts_device d, ts_scope *s, ts_refusal *why);

/* Names of the optional functions that it has, or lacks, with spaces between them. */
void ts_scope_optional(const ts_scope *s, const ts_task *t, bool has, char *names, size_t n);

/* s NULL: everything is offered. */
bool ts_scope_takes(const ts_scope *s, const ts_task *t, const ts_case *c);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* scope.h - the part of a challenge that an entrant supports: an expression over a case's
 * parameters, such as `k <= 32 && dtype == f32`, in the language of judge/gpu/expr.h.
 *
 * Names are the challenge's dimensions, the parameters that its task adds, dtype, and as values
 * f32, f64, f16, bf16, u8 and u4. A case outside the scope is never run. */
#ifndef TS_SCOPE_H
#define TS_SCOPE_H

#include "entrant.h"
#include "task.h"

typedef struct ts_scope {
    char   text[TS_ENTRANT_OFFERS + 1]; /* "": everything */
    double share; /* of the challenge, from 0 to 1: mean over its groups of the fraction in scope */
    unsigned lacks; /* bit mask of the optional functions that it does not export */
} ts_scope;

/* Parses the expression and evaluates it on every case of the task. False and one line in *why if
 * it is invalid, fails on a case, or excludes every case of the device. */
bool ts_scope_read(const char *text, const ts_task *t, ts_device d, ts_scope *s, ts_refusal *why);

/* Names of the optional functions that it exports, or lacks, separated by spaces. */
void ts_scope_optional(const ts_scope *s, const ts_task *t, bool has, char *names, size_t n);

/* s NULL: every case is in scope. */
bool ts_scope_takes(const ts_scope *s, const ts_task *t, const ts_case *c);

#endif

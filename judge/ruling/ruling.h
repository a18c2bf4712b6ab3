/* SPDX-License-Identifier: Apache-2.0 */
/* ruling.h - verdicts. ruling.c decides them from evidence and writes them; no other file does. */
#ifndef TS_RULING_H
#define TS_RULING_H

#include "evidence.h"

typedef struct ts_run ts_run;

typedef enum ts_ruling {
    TS_RULING_ERROR,
    TS_RULING_FAIL,
    TS_RULING_AUDIT,
    TS_RULING_COMMON, /* correct by the field's usual contract, but breaks a rule of the canon */
    TS_RULING_PASS
} ts_ruling;

const char        *ts_ruling_name(ts_ruling r); /* "PASS", "PASS (common)" */
static inline bool ts_ruling_passes(ts_ruling r)
{
    return r >= TS_RULING_COMMON;
}

/* A verdict. Others get it as const: it is in memory of ruling.c. */
typedef struct ts_ruled {
    ts_ruling   ruling;
    ts_seen     why;  /* PASS: empty */
    const char *rule; /* of a PASS (common) */
} ts_ruled;

/* What the evidence amounts to. */
ts_ruled ts_rule(const ts_evidence *v);

/* Judges all entrants of a challenge, from the first one's build to the last verdict in the log.
 * False: the log cannot be written. */
bool ts_rule_challenge(ts_run *c, const ts_task *t);
/* Writes the verdict of an entrant that could not be read. */
bool ts_rule_unread(ts_run *c, ts_judged *e);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* evidence.h - what the stages of a run observed of an entrant. Evidence is only added: nothing
 * takes a failure back, and no stage decides.
 *
 * The counts show that nothing was left out. A cage counts the outputs that it returned, and this
 * file those that it compared: a call whose output no code looked at makes the two differ, and
 * ruling.c then gives no PASS. */
#ifndef TS_EVIDENCE_H
#define TS_EVIDENCE_H

#include "cage.h"
#include "examine.h"

typedef struct ts_judged  ts_judged;
typedef struct ts_refusal ts_refusal;

/* One observation: a reason code, a line that is safe to print, the case, and the wrong element. */
typedef struct ts_seen {
    char    reason[16], text[512], where[192];
    ts_flaw flaw;
} ts_seen;

typedef struct ts_evidence {
    int     n_drawn, n_examined;   /* cases of the correctness stage */
    int     n_returned, n_checked; /* outputs of its cages; outputs compared with the oracle's */
    int     n_to_time, n_timed;    /* instances */
    bool    failed, machine;       /* machine: by the judge's or the device's fault */
    ts_seen failure;               /* the first one */
    int     n_canon;               /* outputs that broke a rule of the canon */
    const char *rule;              /* the first such rule */
    ts_seen     canon;
    bool        too_fast; /* faster than the floor */
    ts_seen     speed;
} ts_evidence;

/* All return false, so that a stage can end with one of them. `args` of the call serve to describe
 * a flaw in words; may be NULL. Only the first failure is kept. */
bool ts_observe_refusal(ts_judged *e, const ts_refusal *why); /* not read, not built, no case */
bool ts_observe_no_cage(ts_judged *e, const char *why);       /* as ts_cage_start says it */
bool ts_observe_failure(ts_judged *e, const ts_case *c, uint64_t seed, const char *reason,
                        const char *text);
/* The call failed, changed the floating-point environment, or returned a status. */
bool ts_observe_call(ts_judged *e, const ts_case *c, uint64_t seed, const ts_call *r);
/* Supports the case's dtype in some cases and rejects it in others. */
bool ts_observe_mixed_support(ts_judged *e, const ts_case *c, uint64_t seed);
void ts_observe_speed(ts_judged *e, const char *text);

/* Whether the entrant may reject this call because the usual contract leaves it open; recorded as
 * a broken rule of the canon. */
bool ts_observe_rejection(ts_judged *e, const ts_case *c, uint64_t seed, ts_status s);

/* Checks the slot's output: its memory, then every element. True if it is correct or breaks only
 * the canon, which is recorded; its errors are then added to *errors. */
bool ts_observe_output(ts_judged *e, const ts_cage *cage, int slot, const ts_exam *x,
                       ts_errors *errors);

#endif

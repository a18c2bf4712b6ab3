/* SPDX-License-Identifier: Apache-2.0 */
/* evidence.h - what the stages of a run observed of an entrant. Evidence is only added: nothing
 * takes a failure back, and no stage decides.
 *
 * What the machine did to a call is no evidence. The stage repeats the case in another cage, and
 * after TS_ATTEMPTS of them the verdict is ERROR.
 *
 * A stage goes on after a failure, to count cases by family and kinds of failure. The first failure
 * is the verdict's reason, and later ones change nothing about the verdict.
 *
 * The counts show that nothing was left out. A cage counts the outputs that it returned, and this
 * file those that it compared: a call whose output no code looked at makes the two differ, and
 * ruling.c then gives no PASS. */
#ifndef TS_EVIDENCE_H
#define TS_EVIDENCE_H

#include "cage.h"
#include "examine.h"

enum { TS_WORDS = 160, TS_FAILURE_KINDS = 12, TS_FAMILIES = 64 };

typedef struct ts_judged  ts_judged;
typedef struct ts_refusal ts_refusal;

/* One observation: a reason code, a line that is safe to print, the case, and the wrong element. */
typedef struct ts_seen {
    char    reason[16], text[512], where[192];
    ts_flaw flaw;
} ts_seen;

/* Failures of one kind: the same reason in the same output. */
typedef struct ts_failures {
    ts_seen     first;
    const char *family;          /* of the first; NULL: not in a case */
    int         n;               /* cases */
    int         last;            /* the last of these cases, numbered from 1 */
    char        words[TS_WORDS]; /* what goes wrong, in plain words; "": not known */
} ts_failures;

typedef struct ts_family_count {
    const char *name;
    int         passed, run;
} ts_family_count;

typedef struct ts_evidence {
    int     n_drawn, n_examined;   /* cases of the correctness stage */
    int     n_returned, n_checked; /* outputs of its cages; outputs compared with the oracle's */
    int     n_to_time, n_timed;    /* instances */
    bool    failed, machine;       /* machine: by the judge's or the device's fault */
    int     n_busy;                /* attempts at a case that the machine disturbed */
    ts_seen failure;               /* the first one */
    int     n_canon;               /* outputs that broke a rule of the canon */
    const char *rule;              /* the first such rule */
    ts_seen     canon;
    bool        too_fast; /* faster than the floor */
    ts_seen     speed;
    /* Counts for readers of the log; of these, verdicts depend on n_compared alone. */
    int             n_passed, n_run; /* cases; one of a dtype that it does not support counts as */
    int             n_unsupported;   /* neither run nor drawn */
    int             n_common;        /* of those passed, by the common contract only */
    int             n_compared;      /* of those passed, with an output */
    int             n_families, n_kinds;
    ts_family_count family[TS_FAMILIES];
    ts_failures     kind[TS_FAILURE_KINDS];
    char            last[16]; /* reason of the last failure */
    int             n_before; /* calls that this process had before, if they are many */
} ts_evidence;

/* All return false, so that a case can end with one of them. `args` of the call serve to describe
 * a flaw in words; may be NULL. The first failure is kept, and the first of each kind. */
bool ts_observe_refusal(ts_judged *e, const ts_refusal *why); /* not read, not built, no case */
bool ts_observe_no_cage(ts_judged *e, const char *why);       /* as ts_cage_start says it */
bool ts_observe_failure(ts_judged *e, const ts_case *c, uint64_t seed, const char *reason,
                        const char *text);
/* The call failed, changed the floating-point environment, or returned a status. Nothing is
 * recorded of a call that the machine disturbed, before the last attempt: see ts_observe_again. */
bool ts_observe_call(ts_judged *e, const ts_case *c, uint64_t seed, const ts_call *r);
/* Whether the last call shows nothing; and if so, whether it is worth another attempt. */
static inline bool ts_observe_again(const ts_evidence *v)
{
    return v->n_busy > 0 && v->n_busy < TS_ATTEMPTS;
}
/* What the machine, which the text describes, did to all attempts. */
bool ts_observe_busy(ts_judged *e, const ts_case *c, uint64_t seed, const char *text);
/* Supports the case's dtype in some cases and rejects it in others. */
bool ts_observe_mixed_support(ts_judged *e, const ts_case *c, uint64_t seed);
void ts_observe_speed(ts_judged *e, const char *text);

/* The end of a case of the correctness stage. COMMON: passed by the common contract only. */
typedef enum ts_case_end {
    TS_CASE_FAILED,
    TS_CASE_PASSED,
    TS_CASE_COMMON,
    TS_CASE_UNSUPPORTED
} ts_case_end;
void ts_observe_case(ts_judged *e, const ts_case *c, ts_case_end end);
/* No call had an output: what it rejected where it may is not counted as passed. */
void ts_observe_no_output(ts_judged *e);

/* Whether the entrant may reject this call because the usual contract leaves it open; recorded as
 * a broken rule of the canon. */
bool ts_observe_rejection(ts_judged *e, const ts_case *c, uint64_t seed, const ts_call *r);

/* Checks the slot's output: its memory, then every element. True if it is correct or breaks only
 * the canon, which is recorded; its errors are then added to *errors. */
bool ts_observe_output(ts_judged *e, const ts_cage *cage, int slot, const ts_exam *x,
                       ts_errors *errors);

#endif

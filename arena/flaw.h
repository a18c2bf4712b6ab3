/* SPDX-License-Identifier: Apache-2.0 */
/* flaw.h - what can be wrong with an answer, and where. */
#ifndef TS_FLAW_H
#define TS_FLAW_H

#include <stdint.h>

typedef enum ts_fault {
    TS_FAULT_NONE,
    TS_FAULT_STATUS,    /* did not return TS_OK */
    TS_FAULT_CRASH,     /* the process died */
    TS_FAULT_HANG,      /* no answer in time */
    TS_FAULT_INPUT,     /* wrote to an input */
    TS_FAULT_BEFORE,    /* touched memory before a buffer */
    TS_FAULT_PAST,      /* touched memory past a buffer */
    TS_FAULT_GAP,       /* wrote between rows */
    TS_FAULT_UNWRITTEN, /* left an output as it was */
    TS_FAULT_VALUE,     /* wrong number */
    TS_FAULT_REPEAT,    /* other bits on another run or another number of threads */
    TS_FAULT_REFUSAL,   /* took senseless arguments, or refused them with the wrong status or after
                           writing */
    TS_N_FAULTS
} ts_fault;

typedef struct ts_flaw {
    ts_fault    fault;
    const char *what;     /* the buffer */
    int64_t     row, col; /* the element */
    double      got, want, bound;
} ts_flaw;

const char *ts_fault_name(ts_fault f);

#endif

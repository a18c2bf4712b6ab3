/* SPDX-License-Identifier: Apache-2.0 */
/* flaw.h - the kinds of fault in an output, and where one was found. */
#ifndef TS_FLAW_H
#define TS_FLAW_H

#include <stddef.h>
#include <stdint.h>

typedef enum ts_fault {
    TS_FAULT_NONE,
    TS_FAULT_STATUS,    /* did not return TS_OK */
    TS_FAULT_CRASH,     /* the process died */
    TS_FAULT_HANG,      /* no return within the time limit */
    TS_FAULT_INPUT,     /* wrote to an input */
    TS_FAULT_BEFORE,    /* touched memory before a buffer */
    TS_FAULT_PAST,      /* touched memory past a buffer */
    TS_FAULT_GAP,       /* wrote between rows */
    TS_FAULT_UNWRITTEN, /* did not write an output */
    TS_FAULT_VALUE,     /* wrong number */
    TS_FAULT_REPEAT,    /* different bits in another run or with another number of threads */
    TS_FAULT_REFUSAL, /* accepted invalid arguments, or rejected them with the wrong status or after
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
/* "value: y[0][1] got 1, want 0 +- 1e-7"; crash: how the process ended. */
void ts_flaw_words(const ts_flaw *f, const char *crash, char *s, size_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* examine.h - run one case on one implementation and report every flaw of its output. */
#ifndef TS_EXAMINE_H
#define TS_EXAMINE_H

#include "worker.h"

/* A case with its inputs and expected outputs, made once and run on many implementations. */
typedef struct ts_exam {
    const ts_task *task;
    const ts_case *c;
    uint64_t       seed;
    ts_arena      *arena;
    void          *args;
    ts_want       *want;
} ts_exam;

void ts_exam_open(ts_exam *e, const ts_task *t, const ts_case *c, uint64_t seed, ts_arena *m);
void ts_exam_close(ts_exam *e);

typedef struct ts_verdict {
    unsigned faults;    /* bit 1u << ts_fault for each kind found */
    ts_flaw  first;     /* the first one */
    double   worst;     /* largest error as a fraction of its bound */
    int      n_calls;   /* outputs checked */
    bool     broken;    /* could not run here: counts as skipped, reason in `text` */
    char     text[256]; /* detail of a crash, or why it is broken */
} ts_verdict;

/* Runs the case with 1, all, 2 and 7 threads (on a device: four times; a function of one thread:
 * twice); checks every output, and requires that all are bitwise identical. In all but the first
 * call, buffers without elements are NULL. */
void ts_examine(const ts_exam *e, ts_worker *w, int limit_ms, ts_verdict *v);

/* Invalid calls: each must return the right status and leave the outputs alone. An API function
 * (`entry`) is also called without args and without exec. */
void ts_examine_refusals(const ts_exam *e, ts_worker *w, bool entry, int limit_ms, ts_verdict *v);

/* Writes a flaw as text: "dx[3][17] got 1.25, want 1.5 +- 1e-07"; of an exact output without bound.
 */
void ts_flaw_text(const ts_verdict *v, char *s, size_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* words.h - what goes wrong with an entrant, in plain words: "behaves like a kernel without the
 * causal mask", "fails only when rows >= 2". For readers of the log; no verdict depends on them. */
#ifndef TS_RUN_WORDS_H
#define TS_RUN_WORDS_H

#include "run.h"

/* Keeps a wrong output, for ts_words_find; a few per entrant. */
void ts_words_keep(ts_judged *e, const ts_arena *m, const ts_exam *x);
/* Notes a case and whether it passed. */
void ts_words_note(ts_judged *e, const ts_case *c, bool passed);
/* After the correctness stage of an entrant that failed: sets the words of its kinds of failure.
 * `mutants`: compares with them too, in another process, if its program is there. */
void ts_words_find(ts_judged *e, bool mutants);
void ts_words_free(ts_judged *e);

/* What separates the cases that failed from those that passed: a dimension, two dimensions that
 * differ, the dtype or the family of input; "" if nothing does. */
typedef struct ts_words_result {
    const ts_case *c;
    bool           passed;
    int            kind; /* of failure; -1: none, or too many */
} ts_words_result;
/* How it begins where the size of a dimension is enough. */
#define TS_WORDS_MANY "fails only with more than one of "
/* mostly: or else the family in which most cases fail. */
void ts_words_apart(const ts_task *t, const ts_words_result *r, int n, bool mostly, char *s,
                    size_t n_s);

#endif

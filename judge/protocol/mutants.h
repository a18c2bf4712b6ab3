/* SPDX-License-Identifier: Apache-2.0 */
/* mutants.h - what the judge says to touchstone-mutants: wrong outputs of an entrant.
 *
 * The reply is a line: the cases in which a mutant agrees, as a hexadecimal mask, a blank, and what
 * it does; or "0 ", and which outputs are wrong. */
#ifndef TS_MUTANTS_H
#define TS_MUTANTS_H

#include "task.h"

enum { TS_WORDS_CASES = 8, TS_WORDS_LIMIT_S = 20 };

/* The question: this, then for each case a ts_words_case and its outputs, packed. */
typedef struct ts_words_question {
    char    task[64];
    int32_t n, pad;
} ts_words_question;

typedef struct ts_words_case {
    int32_t  dtype, use;
    int64_t  dim[TS_MAX_DIMS + TS_MAX_MORE];
    char     family[32];
    uint64_t seed, n_bytes;
} ts_words_case;

#endif

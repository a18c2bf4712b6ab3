/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - a language model as a search calls it: strings in, logits of the next token out.
 *
 * The caller implements these functions; ts_beam_search and ts_tree_verify call them. Tokens,
 * positions and masks are in host memory; `out` is dense, on x->device of the calling search. A
 * function returns 0 on success; any other value makes the search return TS_E_MODEL. The functions
 * must not keep a pointer, and equal strings must give equal logits. */
#ifndef TOUCHSTONE_MODEL_H
#define TOUCHSTONE_MODEL_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A model. A search needs only the function that its header names; the other may be NULL. */
typedef struct ts_model {
    void   *self;    /* passed to both functions unchanged */
    int64_t n_vocab; /* 1 .. 2^31 - 1; tokens are 0 .. n_vocab - 1 */
    /* Writes to out[s] the logits of the token after the string tokens[s][0 .. len[s]). */
    int (*next)(void *self, int64_t n_seq, const int64_t *len, const int32_t *const *tokens,
                float *out); /* [n_seq][n_vocab] */
    /* Runs one pass over n_row tokens, in which row r sees row c if visible[r * n_row + c] is 1.
     * Writes to out[w] the logits of the token after row want[w]. */
    int (*forward)(void *self, int64_t n_row, const int32_t *token, const int64_t *position,
                   const uint8_t *visible, int64_t n_want, const int64_t *want,
                   float *out); /* [n_want][n_vocab] */
} ts_model;

#ifdef __cplusplus
}
#endif
#endif

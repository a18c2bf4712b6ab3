/* SPDX-License-Identifier: Apache-2.0 */
/* model_draw.h - the judge's models as tasks draw them. */
#ifndef TS_TASK_MODEL_DRAW_H
#define TS_TASK_MODEL_DRAW_H

#include <stddef.h>

#include "toy.h"

typedef struct ts_drawn {
    int32_t *word; /* malloc, both */
    float   *weight;
    int64_t  n_word, n_weight;
} ts_drawn;

/* Words and weights that a model of this kind takes; states: of a table, else 0. */
int64_t ts_model_words(int kind, int64_t n_vocab, int64_t n_states);
int64_t ts_model_weights(int kind, int64_t n_vocab, int64_t n_states);

/* hash, rope and noise are drawn in full. A table is a tree of all prefixes up to `depth` tokens,
 * whose leaves lead back to themselves, and its rows are left to be filled. n_states is what
 * ts_tree_states says of a table. */
void    ts_model_draw(ts_drawn *m, int kind, uint64_t seed, int64_t n_vocab, int64_t n_states);
int64_t ts_tree_states(int64_t n_vocab, int64_t depth);
void    ts_model_free(ts_drawn *m);

ts_toy ts_model_toy(const ts_drawn *m);
float *ts_model_row(const ts_drawn *m, int64_t state); /* of a table */

/* Logits of a row that wants probabilities: rest is shared by all tokens that were not named. */
typedef struct ts_named {
    int32_t token;
    double  logprob;
} ts_named;
void ts_model_name(const ts_drawn *m, int64_t state, const ts_named *named, int n);

/* From this state this token leads to that one. */
void ts_model_lead(const ts_drawn *m, int64_t state, int64_t token, int64_t to);

#endif

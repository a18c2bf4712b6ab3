/* SPDX-License-Identifier: Apache-2.0 */
/* toy.h - the judge's models: small, quick, and such that every earlier token matters. The task
 * draws one and searches in it; whoever plays a script asks the same one, by the same code, and so
 * gets the same bits.
 *
 * A model is a row of words and a row of weights, which are inputs of the case. Four kinds:
 *   hash   two rounds of hashing over what a row sees, tokens and positions; logits near normal
 *   rope   two layers of attention with rotary positions
 *   table  an automaton: the state after a string says the logits. As a tree of prefixes it holds a
 *          law written down string by string
 *   rows   a hash of the string picks one of a few rows of logits, and moves the few tokens that
 *          stand out of it, lest sums repeat: next to no more than a copy, for timing
 *
 * In the cage a model runs beside the entrant: its code, its weights and the list of what it was
 * asked lie in the entrant's own process. What could a cheat do with that?
 *   Know answers early: weights are drawn after the entry was sealed, and anew for every call.
 *   Work logits out by itself: it needs the same logits as everybody; only the list is then short.
 *   Write the list by itself, and ask less or otherwise: the list holds the strings of every step,
 *   or every token, position, wanted row and bit of the mask, and the judge compares it with what
 *   the definition asks. Who can write it has found them, which was the work; and what was found is
 *   compared whatever the list says.
 *   Save time: of the models only `rows` is timed, and a call of it is a copy. Who reads the rows
 *   where they lie saves the copy, and no more: a time below the floor, which counts the bytes of
 *   those logits, is no pass but a case for an audit. */
#ifndef TS_SCRIPT_TOY_H
#define TS_SCRIPT_TOY_H

#include <stdint.h>

enum { TS_TOY_HASH, TS_TOY_ROPE, TS_TOY_TABLE, TS_TOY_ROWS };

enum {
    TS_TOY_KIND,
    TS_TOY_VOCAB,
    TS_TOY_SEED, /* its lower half, and the upper */
    TS_TOY_SEED_HIGH,
    TS_TOY_EOS,    /* the token whose logit is moved; -1: none. hash, rope */
    TS_TOY_OPEN,   /* hash: of 1024 tokens so many have a logit, the others -inf */
    TS_TOY_SICK,   /* strings of this length on get a row that is none; 0: never */
    TS_TOY_HOW,    /* in what way: a TS_SICK_* */
    TS_TOY_STATES, /* table: states; rows: rows */
    TS_TOY_WORDS,  /* then, of a table: the state after each state and token, [states][vocab];
                      of rows: the tokens that stand out of each, [rows][TS_TOY_OUT] */
};
enum { TS_TOY_OUT = 48 };
enum { TS_SICK_NAN, TS_SICK_INF, TS_SICK_NONE, TS_SICK_FAILS }; /* the last: the call fails */

/* Of the weights: the spread of the logits, and what is added to that of EOS; then, of rope, its
 * matrices, and else rows of logits. */
enum { TS_TOY_SPREAD, TS_TOY_LIFT, TS_TOY_WEIGHTS };

/* The largest pass that a model makes, in rows; rope makes smaller ones. */
enum { TS_TOY_MOST_ROWS = 8192, TS_ROPE_MOST_ROWS = 256 };

typedef struct ts_toy {
    const int32_t *word;
    const float   *weight;
} ts_toy;

/* Weights of a rope model with so many tokens. */
int64_t ts_rope_weights(int64_t n_vocab);

/* As next and forward of a ts_model, for a single string and for a pass. Nonzero: a length, a token
 * or a row that cannot be. */
int ts_toy_next(const ts_toy *m, int64_t len, const int32_t *token, float *out);
int ts_toy_forward(const ts_toy *m, int64_t n_row, const int32_t *token, const int64_t *position,
                   const uint8_t *visible, int64_t n_want, const int64_t *want, float *out);

/* rows: which one follows a string. */
int64_t ts_toy_row(const ts_toy *m, int64_t len, const int32_t *token);

/* What is kept of a string that a model was asked about; of several, the sum. */
uint64_t ts_toy_string(int64_t len, const int32_t *token);

/* rope, private to script/: visible NULL is a plain string, of which only the last row is wanted.
 */
int ts_rope_forward(const ts_toy *m, int64_t n_row, const int32_t *token, const int64_t *position,
                    const uint8_t *visible, int64_t n_want, const int64_t *want, float *out);

#endif

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
 *   noise  a hash of the string shifts two rows of drawn bits against each other; what they are
 *          together, token by token, says the logit: little more than a copy, for timing
 *
 * In the cage a model runs beside the entrant: its code, its weights and the list of what it was
 * asked lie in the entrant's own process. What could a cheat do with that?
 *   Know answers early: weights are drawn after the entrant was sealed, and anew for every call.
 *   Write the list by itself, and ask less or otherwise: the list holds the strings of every step,
 *   or every token, position, wanted row and bit of the mask, and the judge compares it with what
 *   the definition asks. Who can write it has found them, which was the work; and what was found is
 *   compared whatever the list says.
 *   Leave rows out: a search needs the sum of every row. A walk through a tree needs few of the
 *   rows that it must request, so the list holds the sum of the bits of each row that a timed model
 *   returns.
 *   Remember: no two strings share a row, a part of a row or a multiset of logits, so neither sums
 *   nor candidates can be reused. A logit depends on both rows of bits, and on bits of the string's
 *   own, by exclusive or: no token stands out before that is computed, and its exponential is no
 *   product of precomputed ones. Every logit is rounded, by far more than a log-probability may be
 *   off, so no smooth function of the bits replaces it. Strings with a common prefix share only the
 *   hash of it, which takes 2 % of a row's time at most.
 *   Compute logits by itself: that is the same work. What remains to be saved is that the model
 *   writes its rows to memory, on one thread, in code for any processor. An entrant that fuses the
 *   model with the sum, on all threads or in wider vectors, saves up to the model's share of the
 *   time. On a Neoverse-N1 the model takes 0.5 ns per token, 0.7 ns with the sum of the bits. This
 *   library's search takes 22 ns per token on one thread; its tree verification takes hardly more
 *   than the model. A time below the floor, which counts the bytes of those logits, is no pass but
 *   a case for an audit. */
#ifndef TS_SCRIPT_TOY_H
#define TS_SCRIPT_TOY_H

#include <stdint.h>

enum { TS_TOY_HASH, TS_TOY_ROPE, TS_TOY_TABLE, TS_TOY_NOISE };

enum {
    TS_TOY_KIND,
    TS_TOY_VOCAB,
    TS_TOY_SEED, /* its lower half, and the upper */
    TS_TOY_SEED_HIGH,
    TS_TOY_EOS,    /* the token whose logit is moved; -1: none */
    TS_TOY_OPEN,   /* hash: of 1024 tokens so many have a logit, the others -inf */
    TS_TOY_SICK,   /* strings of this length on get a row that is none; 0: never */
    TS_TOY_HOW,    /* in what way: a TS_SICK_* */
    TS_TOY_STATES, /* table: states */
    TS_TOY_WORDS,  /* then, of a table: the state after each state and token, [states][vocab];
                      of noise: rows of bits, [2][vocab + TS_TOY_SHIFTS] */
};
enum { TS_TOY_SHIFTS = 4096, TS_TOY_BITS = 23, TS_TOY_ONE = 0x3f800000 };
enum { TS_SICK_NAN, TS_SICK_INF, TS_SICK_NONE, TS_SICK_FAILS }; /* the last: the call fails */

/* Of the weights: the spread of the logits, and what is added to that of EOS; then, of rope, its
 * matrices, and of a table rows of logits. */
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

/* noise: the sum of the bits of a row of logits, all of which it takes to know it; else 0. */
uint32_t ts_toy_digest(const ts_toy *m, const float *row);

/* What is kept of a string that a model was asked about; of several, the sum. */
uint64_t ts_toy_string(int64_t len, const int32_t *token);

/* rope, private to script/: visible NULL is a plain string, of which only the last row is wanted.
 */
int ts_rope_forward(const ts_toy *m, int64_t n_row, const int32_t *token, const int64_t *position,
                    const uint8_t *visible, int64_t n_want, const int64_t *want, float *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* toy.h - the judge's models: small, fast, and such that every earlier token matters.
 *
 * The task draws a model and computes the expected results with it; the player of a script calls
 * the same model with the same code, and so gets the same bits.
 *
 * A model is a row of words and a row of weights, which are inputs of the case. Four kinds:
 *   hash   two rounds of hashing over the visible tokens and positions; logits are nearly normal
 *   rope   two layers of attention with rotary positions
 *   table  an automaton: the state after a string gives the logits. As a tree of prefixes it can
 *          represent any distribution, string by string
 *   noise  a hash of the string shifts two rows of random bits against each other; both bits of a
 *          token together give its logit: little more than a copy, for timing
 *
 * In the cage a model runs in the entrant's process, with its code, its weights and the record of
 * its calls. How the judge prevents cheating with them:
 * - Knowing results early: weights are drawn after the entrant was sealed, and again for every
 *   call.
 *
 * - Forging the record, with fewer or other calls: the record contains the strings of every step,
 *   or every token, position, requested row and bit of the mask, and the judge compares it with the
 *   definition. To forge it an entrant must have found these, which was the work; and the results
 *   are compared whatever the record says.
 *
 * - Skipping rows: a search needs the sum of every row. A walk through a tree needs few of the rows
 *   that it must request, so the record contains the sum of the bits of each row that a timed model
 *   returns.
 *
 * - Reusing results: no two strings share a row, a part of a row or a multiset of logits, so
 *   neither sums nor candidates can be reused. A logit depends on both rows of bits, and on the
 *   string's own bits, by exclusive or: no token is distinguishable before that is computed, and
 *   its exponential is not a product of precomputed ones. Every logit is rounded, by far more than
 *   the tolerance of a log-probability, so no smooth function of the bits replaces it. Strings with
 *   a common prefix share only its hash, which takes at most 2 % of a row's time.
 *
 * - Computing logits itself: that is the same work. The possible saving is that the model writes
 *   its rows to memory, on one thread, in portable code. An entrant that fuses the model with the
 *   sum, on all threads or in wider vectors, saves up to the model's share of the time. On a
 *   Neoverse-N1 the model takes 0.5 ns per token, 0.7 ns with the sum of the bits. This library's
 *   search takes 22 ns per token on one thread; its tree verification takes hardly more than the
 *   model. A time below the floor, which counts the bytes of those logits, leads to an audit, not
 *   to a pass. */
#ifndef TS_SCRIPT_TOY_H
#define TS_SCRIPT_TOY_H

#include <stdint.h>

enum { TS_TOY_HASH, TS_TOY_ROPE, TS_TOY_TABLE, TS_TOY_NOISE };

enum {
    TS_TOY_KIND,
    TS_TOY_VOCAB,
    TS_TOY_SEED, /* lower half, then upper half */
    TS_TOY_SEED_HIGH,
    TS_TOY_EOS,       /* the token whose logit is shifted; -1: none */
    TS_TOY_OPEN,      /* hash: how many of 1024 tokens have a logit; the others have -inf */
    TS_TOY_NONFINITE, /* strings from this length on get an invalid row; 0: never */
    TS_TOY_HOW,       /* kind of invalid row: a TS_NONFINITE_* */
    TS_TOY_STATES,    /* table: states */
    TS_TOY_WORDS,     /* then, for a table: the next state by state and token, [states][vocab]; for
                         noise: rows of bits, [2][vocab + TS_TOY_SHIFTS] */
};
enum { TS_TOY_SHIFTS = 4096, TS_TOY_BITS = 31 };
enum {
    TS_NONFINITE_NAN,
    TS_NONFINITE_INF,
    TS_NONFINITE_NONE,
    TS_NONFINITE_FAILS
}; /* FAILS: the call fails */

/* The weights: the spread of the logits, and the shift of that of EOS; then the matrices of a rope
 * model, or the rows of logits of a table. */
enum { TS_TOY_SPREAD, TS_TOY_LIFT, TS_TOY_WEIGHTS };

/* The largest pass of a model, in rows; rope has a lower limit. */
enum { TS_TOY_MOST_ROWS = 8192, TS_ROPE_MOST_ROWS = 256 };

typedef struct ts_toy {
    const int32_t *word;
    const float   *weight;
} ts_toy;

/* Number of weights of a rope model with n_vocab tokens. */
int64_t ts_rope_weights(int64_t n_vocab);

/* What a model's function returns: 0, or if `bad` another number, of either sign by the model. */
int ts_toy_says(const ts_toy *m, int bad);

/* Like next and forward of a ts_model, for a single string and for a pass. Nonzero: an invalid
 * length, token or row. */
int ts_toy_next(const ts_toy *m, int64_t len, const int32_t *token, float *out);
int ts_toy_forward(const ts_toy *m, int64_t n_row, const int32_t *token, const int64_t *position,
                   const uint8_t *visible, int64_t n_want, const int64_t *want, float *out);

/* noise: the sum of the bits of a row of logits, which requires every logit; else 0. */
uint32_t ts_toy_digest(const ts_toy *m, const float *row);

/* The digest of a string passed to a model; those of several strings are added. */
uint64_t ts_toy_string(int64_t len, const int32_t *token);

/* rope, private to script/: visible NULL means a plain string, of which only the last row is
 * requested. */
int ts_rope_forward(const ts_toy *m, int64_t n_row, const int32_t *token, const int64_t *position,
                    const uint8_t *visible, int64_t n_want, const int64_t *want, float *out);

#endif

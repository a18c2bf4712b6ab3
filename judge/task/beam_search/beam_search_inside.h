/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_inside.h - the items of the beam search task: its cases, what is drawn for each, and
 * the search by its definition. */
#ifndef TS_TASK_BEAM_SEARCH_INSIDE_H
#define TS_TASK_BEAM_SEARCH_INSIDE_H

#include "beam_search_script.h"
#include "model_draw.h"
#include "task.h"

/* dim: alpha in hundredths; eos a token or -1; model a TS_TOY_*. Prompts have up to `prompt`
 * tokens. */
enum { ITEMS, VOCAB, WIDTH, STEPS, PROMPT, ALPHA, EOS, MODEL };

const ts_case        *ts_beam_search_cases(void);
extern const ts_cover ts_beam_search_cover, ts_beam_archive_cover;

bool ts_beam_is_archive(const ts_case *c); /* it is about ts_beam_search_archive */

/* States of a case's table, or rows. */
int64_t ts_beam_states(const ts_case *c);

/* The model and the prompts, one after the other, malloc. */
typedef struct ts_beam_quiz {
    ts_drawn model;
    int32_t *prompts;
    int64_t  n_tokens;
} ts_beam_quiz;

int64_t ts_beam_prompt_len(const ts_case *c, int64_t item);
void    ts_beam_draw(const ts_case *c, uint64_t seed, ts_beam_quiz *q);
void    ts_beam_quiz_free(ts_beam_quiz *q);

/* True if equal scores are meant, and need not be far from each other. */
bool ts_beam_means_ties(const ts_case *c);

/* The wants of tokens, logprob, score, beams and calls, in this order; NULL: none. Returns the
 * least difference of two scores on which something hung, in float less what they may be off
 * together; of two tokens of one beam only if it is 0, since the order is that of their logits.
 * `told` NULL: by the canon. Else among equal scores those come first that lead to what was told,
 * in its order; the others as `order` has it, 0: the canon. in_float: scores are equal if a
 * log-softmax in float may not tell them apart, and so are log-probabilities. */
typedef struct ts_beam_told {
    const int32_t *tokens; /* [items][width][steps], of an output */
    uint64_t       order;
    bool           in_float;
} ts_beam_told;

/* How many orders of equal scores to try. */
uint64_t ts_beam_orders(const ts_case *c);

double ts_beam_solve(const ts_case *c, const ts_toy *m, const int32_t *prompts,
                     const ts_beam_told *told, ts_want *want);

/* A string in a search, and how good it is. */
typedef struct ts_beam_string {
    const int32_t *tokens;
    int64_t        length;
    bool           finished;
    ts_want        logprob, score;
} ts_beam_string;

/* The search of an item after some of its steps. */
typedef struct ts_beam_state {
    ts_beam_string *string; /* [n] */
    int64_t         n;
    bool            stopped; /* these are its results, by rank */
    int32_t        *tokens;  /* of all */
} ts_beam_state;

/* The state of each item after its first n_steps steps, which ts_beam_state_free frees.
 * Returns what ts_beam_solve does. */
double ts_beam_state_after(const ts_case *c, const ts_toy *m, const int32_t *prompts,
                           int64_t n_steps, const ts_beam_told *told, ts_beam_state *state);
void   ts_beam_state_free(ts_beam_state *state, int64_t n_items);

/* beam_search_canon.c: whether an output, of a search that went on after the model gave rows that
 * are none, keeps what does not depend on them; false, and where in *f. */
bool ts_beam_goes_on(const ts_case *c, const ts_beam_play_args *a, ts_flaw *f);

/* After ts_beam_solve: whether all rows of the model were valid. */
bool ts_beam_is_sound(const ts_case *c, const ts_want *want);

#endif

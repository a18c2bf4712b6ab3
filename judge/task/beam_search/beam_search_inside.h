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
 * least difference of two scores on which something hung; of two tokens of one beam only if it is
 * 0, since the order is that of their logits. `told` NULL: by the canon. Else among equal scores
 * those come first that lead to what was told, in its order; the others as `order` has it, 0: the
 * canon. */
typedef struct ts_beam_told {
    const int32_t *tokens; /* [items][width][steps], of an output */
    uint64_t       order;
} ts_beam_told;

double ts_beam_solve(const ts_case *c, const ts_toy *m, const int32_t *prompts,
                     const ts_beam_told *told, ts_want *want);

/* After ts_beam_solve: whether all rows of the model were valid. */
bool ts_beam_is_sound(const ts_case *c, const ts_want *want);

#endif

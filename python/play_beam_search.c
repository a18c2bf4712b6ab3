/* SPDX-License-Identifier: Apache-2.0 */
/* play_beam_search.c - Python interface of beam_search: a function that returns lists of beams. */
#include "ask.h"
#include "beam_search_script.h"

static const ts_beam_play_args *args;

static void begin(const void *a)
{
    args = a;
}

static ts_status search(const void *a, const ts_exec *x)
{
    const ts_beam_search_args *const b = a;
    const int64_t n = b->d.n_items, width = b->d.beam_width, steps = b->d.max_new_tokens;
    (void)x;
    ts_ask_begin("", TS_ASK_FUNCTION, (ts_refusals) { .arithmetic = TS_E_MODEL });
    ts_value *const model = ts_give("model", TS_MODEL);
    model->data = b->model;
    model->integer = args->word[TS_TOY_HOW] == TS_NONFINITE_FAILS;
    ts_value *const prompts = ts_give("prompts", TS_LISTS);
    prompts->data = b->prompts, prompts->more = b->prompt_len, prompts->extent[0] = n;
    ts_give_integer("beam_width", width);
    ts_give_integer("max_new_tokens", steps);
    ts_give_real("alpha", b->d.alpha);
    ts_give_integer("eos", b->d.eos);
    ts_player_asked.ragged = 1;
    ts_back_array(ts_array('q', b->n_found, 1, n, 0, 0));
    ts_back_array(ts_array('q', b->length, 2, n, width, 0));
    ts_back_array(ts_array('i', b->tokens, 3, n, width, steps));
    ts_back_array(ts_array('d', b->logprob, 2, n, width, 0));
    ts_back_array(ts_array('d', b->score, 2, n, width, 0));
    ts_back_array(ts_array('B', b->finished, 2, n, width, 0));
    return ts_ask();
}

static const ts_beam_table table = { search, NULL, NULL, NULL, NULL, NULL };
const ts_python            ts_python_beam_search = { &table, begin };

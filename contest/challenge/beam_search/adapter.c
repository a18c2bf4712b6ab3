/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how a search with another interface enters. Unused until entry.json names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines ts_beam_search. Say that theirs.c searches for one
 * prompt at a time, requests logits through a callback, and has
 *
 *     typedef void (*logits_fn)(void *ctx, const int *text, int n, float *out);
 *     int beam(logits_fn f, void *ctx, const int *prompt, int n, int k, int steps, int eos,
 *              float alpha, int *tokens, int *lengths, double *logprobs);
 *
 * Then an adapter could begin like this. It would still be rejected: every step must be one call of
 * next for all items, which a search of one prompt cannot do. Adapters change names and layouts;
 * what the contract requires, theirs must do. */
#if 0
#include "touchstone/beam_search.h"

typedef void (*logits_fn)(void *ctx, const int *text, int n, float *out);
int beam(logits_fn f, void *ctx, const int *prompt, int n, int k, int steps, int eos, float alpha,
         int *tokens, int *lengths, double *logprobs);

static void ask(void *ctx, const int *text, int n, float *out)
{
    const ts_model *m = ctx;
    const int64_t   len = n;
    m->next(m->self, 1, &len, &text, out);
}

ts_status ts_beam_search(const ts_beam_search_args *a, const ts_exec *x)
{
    ts_model m = *a->model;
    int      length[64];
    (void)x;
    /* Unsupported calls are reported; "offers" in entry.json leaves their cases out. */
    if (a->d.n_items != 1 || a->d.beam_width > 64) return TS_E_UNSUPPORTED;
    *a->n_found = beam(ask, &m, a->prompts, (int)a->prompt_len[0], (int)a->d.beam_width,
                       (int)a->d.max_new_tokens, a->d.eos, (float)a->d.alpha, a->tokens, length,
                       a->logprob);
    for (int64_t k = 0; k < *a->n_found; k++) a->length[k] = length[k];
    return TS_OK; /* once score and finished are there, too */
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* unit_beam_search.h - a search with memory of exactly its size. For the tests of beam search. */
#ifndef TS_UNIT_BEAM_SEARCH_H
#define TS_UNIT_BEAM_SEARCH_H

#include "touchstone/beam_search.h"
#include "unit_toy_model.h"

typedef ts_status (*search_fn)(const ts_beam_search_args *a, const ts_exec *x);
typedef ts_status (*search_workspace_fn)(const ts_beam_search_args *a, const ts_exec *x, size_t *n);

typedef struct search {
    ts_beam_search_args a;
    int64_t             n_places; /* items x width */
} search;

static inline void search_poison(search *s)
{
    const size_t n = (size_t)s->n_places;
    memset(s->a.tokens, 0x80, n * (size_t)s->a.d.max_new_tokens * sizeof(int32_t));
    memset(s->a.length, 0x80, n * sizeof(int64_t));
    memset(s->a.logprob, 0xff, n * sizeof(double));
    memset(s->a.score, 0xff, n * sizeof(double));
    memset(s->a.finished, 0x80, n);
    memset(s->a.n_found, 0x80, (size_t)s->a.d.n_items * sizeof(int64_t));
}

static inline search search_make(ts_beam_dims d, const toy *t, const int32_t *prompts,
                                 const int64_t *prompt_len)
{
    search       s = { { .d = d, .model = &t->m, .prompts = prompts, .prompt_len = prompt_len },
                       d.n_items * d.beam_width };
    const size_t n = (size_t)s.n_places;
    s.a.tokens = malloc(n * (size_t)d.max_new_tokens * sizeof(int32_t));
    s.a.length = malloc(n * sizeof(int64_t));
    s.a.logprob = malloc(n * sizeof(double));
    s.a.score = malloc(n * sizeof(double));
    s.a.finished = malloc(n);
    s.a.n_found = malloc((size_t)d.n_items * sizeof(int64_t));
    search_poison(&s);
    return s;
}

static inline void search_free(search *s)
{
    free(s->a.tokens);
    free(s->a.length);
    free(s->a.logprob);
    free(s->a.score);
    free(s->a.finished);
    free(s->a.n_found);
}

static inline ts_status run_with(search *s, int archive, int n_threads)
{
    const search_fn           run = archive ? ts_beam_search_archive : ts_beam_search;
    const search_workspace_fn ask =
        archive ? ts_beam_search_archive_workspace : ts_beam_search_workspace;
    const search_workspace_fn ask_host =
        archive ? ts_beam_search_archive_host : ts_beam_search_host;
    ts_exec   x = { .device = where, .n_threads = n_threads, .deterministic = 1 };
    size_t    n = 0, n_host = 0;
    ts_status status = ask(&s->a, &x, &n);
    assert_int_equal(ask_host(&s->a, &x, &n_host), status);
    if (status) {
        assert_int_equal(run(&s->a, &x), status);
        return status;
    }
    const scratch memory = scratch_take(&x, n, n_host, &s->a.host);
    if (n_host) { /* a byte less will not do */
        s->a.host_bytes = n_host - 1;
        assert_int_equal(run(&s->a, &x), TS_E_WORKSPACE);
    }
    s->a.host_bytes = n_host;
    status = run(&s->a, &x);
    scratch_give(&memory);
    s->a.host = NULL;
    return status;
}

static inline void run_slots(search *s)
{
    assert_int_equal(run_with(s, 0, 0), TS_OK);
}

/* ---- results ---- */

static inline const int32_t *tokens_of(const search *s, int64_t item, int64_t rank)
{
    return s->a.tokens + (item * s->a.d.beam_width + rank) * s->a.d.max_new_tokens;
}

static inline int64_t place_of(const search *s, int64_t item, int64_t rank)
{
    return item * s->a.d.beam_width + rank;
}

static inline int same_bits(const search *a, int64_t i, const search *b, int64_t j)
{
    const size_t width = (size_t)a->a.d.beam_width, most = (size_t)a->a.d.max_new_tokens;
    const size_t p = (size_t)i * width, q = (size_t)j * width;
    return a->a.n_found[i] == b->a.n_found[j] &&
           !memcmp(a->a.tokens + p * most, b->a.tokens + q * most, width * most * 4) &&
           !memcmp(a->a.length + p, b->a.length + q, width * 8) &&
           !memcmp(a->a.logprob + p, b->a.logprob + q, width * 8) &&
           !memcmp(a->a.score + p, b->a.score + q, width * 8) &&
           !memcmp(a->a.finished + p, b->a.finished + q, width);
}

/* Does everything about an unused place, and past a length, say so? */
static inline void is_tidy(const search *s)
{
    for (int64_t i = 0; i < s->a.d.n_items; i++)
        for (int64_t r = 0; r < s->a.d.beam_width; r++) {
            const int64_t p = place_of(s, i, r);
            for (int64_t k = s->a.length[p]; k < s->a.d.max_new_tokens; k++)
                assert_int_equal(tokens_of(s, i, r)[k], -1);
            if (r < s->a.n_found[i]) continue;
            assert_int_equal(s->a.length[p], 0);
            assert_int_equal(s->a.finished[p], 0);
            assert_true(s->a.logprob[p] == -INFINITY && s->a.score[p] == -INFINITY);
        }
}

/* The log-probability of a token after a string, in long double. */
static inline long double log_prob(const toy *t, int64_t n, const int32_t *string, int32_t token)
{
    float      *logits = malloc((size_t)t->m.n_vocab * sizeof *logits);
    long double max = -INFINITY, sum = 0;
    toy_after(t, n, string, logits);
    for (int64_t v = 0; v < t->m.n_vocab; v++) max = fmaxl(max, logits[v]);
    for (int64_t v = 0; v < t->m.n_vocab; v++) sum += expl(logits[v] - max);
    const long double l = (logits[token] - max) - logl(sum);
    free(logits);
    return l;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* model_draw.c - draws the judge's models. */
#include "model_draw.h"

#include <math.h>
#include <stdlib.h>

#include "real.h"
#include "rng.h"

int64_t ts_model_words(int kind, int64_t n_vocab, int64_t n_states)
{
    return TS_TOY_WORDS + (kind == TS_TOY_TABLE   ? n_states * n_vocab
                           : kind == TS_TOY_NOISE ? 2 * (n_vocab + TS_TOY_SHIFTS)
                                                  : 0);
}

int64_t ts_model_weights(int kind, int64_t n_vocab, int64_t n_states)
{
    return TS_TOY_WEIGHTS + (kind == TS_TOY_ROPE ? ts_rope_weights(n_vocab) : n_states * n_vocab);
}

int64_t ts_tree_states(int64_t n_vocab, int64_t depth)
{
    int64_t n = 1, level = 1;
    for (int64_t d = 0; d < depth; d++) n += level *= n_vocab;
    return n;
}

static void draw_noise(ts_drawn *m, uint64_t seed)
{
    int32_t *const word = m->word + TS_TOY_WORDS;
    const int64_t  n = m->n_word - TS_TOY_WORDS;
    for (int64_t i = 0; i < n; i++) word[i] = (int32_t)(ts_bits(seed, i) >> (64 - TS_TOY_BITS));
}

/* Children of node s are V s + 1 and the next, as in a heap. */
static void grow_tree(ts_drawn *m, int64_t n_vocab, int64_t n_states)
{
    for (int64_t s = 0; s < n_states; s++)
        for (int64_t t = 0; t < n_vocab; t++) {
            const int64_t child = n_vocab * s + 1 + t;
            ts_model_lead(m, s, t, child < n_states ? child : s);
        }
}

void ts_model_draw(ts_drawn *m, int kind, uint64_t seed, int64_t n_vocab, int64_t n_states)
{
    m->n_word = ts_model_words(kind, n_vocab, n_states);
    m->n_weight = ts_model_weights(kind, n_vocab, n_states);
    m->word = calloc((size_t)m->n_word, sizeof *m->word);
    m->weight = calloc((size_t)m->n_weight, sizeof *m->weight);
    if (!m->word || !m->weight) abort();
    m->word[TS_TOY_KIND] = kind;
    m->word[TS_TOY_VOCAB] = (int32_t)n_vocab;
    m->word[TS_TOY_SEED] = (int32_t)(uint32_t)ts_mix(seed);
    m->word[TS_TOY_SEED_HIGH] = (int32_t)(uint32_t)(ts_mix(seed) >> 32);
    m->word[TS_TOY_EOS] = -1;
    m->word[TS_TOY_OPEN] = 1024;
    m->word[TS_TOY_STATES] = (int32_t)n_states;
    m->weight[TS_TOY_SPREAD] = 2;
    if (kind == TS_TOY_TABLE) grow_tree(m, n_vocab, n_states);
    if (kind == TS_TOY_NOISE) draw_noise(m, ts_mix(seed + 2));
    for (int64_t i = TS_TOY_WEIGHTS; i < m->n_weight && kind == TS_TOY_ROPE; i++)
        m->weight[i] = (float)ts_normal(ts_mix(seed + 1), i);
}

void ts_model_free(ts_drawn *m)
{
    free(m->word);
    free(m->weight);
    *m = (ts_drawn) { 0 };
}

ts_toy ts_model_toy(const ts_drawn *m)
{
    return (ts_toy) { m->word, m->weight };
}

float *ts_model_row(const ts_drawn *m, int64_t state)
{
    return m->weight + TS_TOY_WEIGHTS + state * m->word[TS_TOY_VOCAB];
}

void ts_model_name(const ts_drawn *m, int64_t state, const ts_named *named, int n)
{
    float *const row = ts_model_row(m, state);
    double       rest = 1;
    for (int i = 0; i < n; i++) rest -= ts_exp64(named[i].logprob);
    for (int64_t t = 0; t < m->word[TS_TOY_VOCAB]; t++)
        row[t] = (float)ts_log64(rest / (double)(m->word[TS_TOY_VOCAB] - n));
    for (int i = 0; i < n; i++) row[named[i].token] = (float)named[i].logprob;
}

void ts_model_lead(const ts_drawn *m, int64_t state, int64_t token, int64_t to)
{
    m->word[TS_TOY_WORDS + state * m->word[TS_TOY_VOCAB] + token] = (int32_t)to;
}

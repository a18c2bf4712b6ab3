/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_draw.c - the models and prompts of beam search, by family. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beam_search_inside.h"
#include "rng.h"

/* Tokens of the distributions that are stored. */
enum { FILL, A, B, END, TOKENS };

/* Of an archive the families are those of the other search. */
static bool is(const ts_case *c, const char *family)
{
    const size_t n = sizeof "archive" - 1;
    if (!ts_beam_is_archive(c)) return !strcmp(c->family, family);
    return !strcmp(c->family[n] ? c->family + n + 1 : "normal", family);
}

bool ts_beam_is_archive(const ts_case *c)
{
    return !strncmp(c->family, "archive", sizeof "archive" - 1);
}

/* How rows are none in this family; -1: they are as they should be. */
static int nonfinite_how(const ts_case *c)
{
    static const char *const family[] = { "nonfinite", "nonfinite_inf", "nonfinite_none", "fails" };
    for (int i = 0; i < 4; i++)
        if (is(c, family[i])) return i;
    return -1;
}

/* ---- stored distributions ---- */

/* The prompt leaves the first state unchanged. A beam that ends at once competes with one that
 * continues: which is better depends on alpha alone. */
static void two_ways(const ts_drawn *m, double end, double go_on, double then)
{
    const ts_named first[] = { { END, end }, { A, go_on } }, second[] = { { B, then } };
    for (int64_t s = 0; s < 3; s++)
        for (int64_t t = 0; t < m->word[TS_TOY_VOCAB]; t++) ts_model_lead(m, s, t, s);
    ts_model_name(m, 0, first, 2);
    ts_model_name(m, 1, second, 1);
    ts_model_name(m, 2, NULL, 0);
    ts_model_lead(m, 0, A, 1);
    ts_model_lead(m, 1, B, 2);
}

/* After the prompt's last token, A or B, EOS comes first or after eight tokens. */
static void early(const ts_drawn *m)
{
    const int64_t n = ts_beam_states(&(ts_case) { .family = "early" });
    for (int64_t s = 0; s < n; s++) {
        const bool     ends = s == 1 || s == 10;
        const ts_named best = { ends ? END : FILL, -0.25 - 0.01 * (double)s };
        ts_model_name(m, s, &best, 1);
        for (int64_t t = 0; t < m->word[TS_TOY_VOCAB]; t++)
            ts_model_lead(m, s, t, s > 1 && s < n - 1 ? s + 1 : s);
    }
    ts_model_lead(m, 0, A, 1);
    ts_model_lead(m, 0, B, 2);
}

/* One token of every row is certain; the weights of the others are negligible, so that
 * log-probabilities are integers, their sums exact, and ties are ties. Or some are as low as what
 * people write to mask a token, and count nevertheless. */
static void underflow(const ts_drawn *m, uint64_t seed, int64_t n_states)
{
    const int64_t V = m->word[TS_TOY_VOCAB];
    const float   step = seed & 1 ? 100.0F : 0x1p100F;
    for (int64_t s = 0; s < n_states; s++)
        for (int64_t t = 0, turn = (int64_t)(ts_bits(seed, s) % (uint64_t)V); t < V; t++) {
            const int64_t rank = (t + turn) % V;
            ts_model_row(m, s)[t] = rank ? -7 * step - step * (float)rank : 0;
        }
}

/* Every token is likelier than the one before it, by less than float sees in a sum. */
static void near(const ts_drawn *m)
{
    for (int64_t t = 0; t < m->word[TS_TOY_VOCAB]; t++)
        ts_model_row(m, 0)[t] = (float)(t + 1) * 0x1p-26F;
}

/* Of nearly all tokens, from the first on or from the last, the logits are -inf. */
static void barred(const ts_drawn *m, uint64_t seed)
{
    const int64_t V = m->word[TS_TOY_VOCAB], open = V / 5;
    for (int64_t t = 0; t < V; t++)
        ts_model_row(m, 0)[t] = (seed & 1 ? t : V - 1 - t) < V - open
                                    ? -INFINITY
                                    : (float)(2 * ts_normal(ts_mix(seed), t));
}

/* Two strings whose scores differ by 1e-8 or 1e-11 of themselves, and the better one comes from the
 * worse parent. Logits near 0 are fine enough for that. */
static void close_by(const ts_drawn *m, uint64_t seed)
{
    const int64_t V = m->word[TS_TOY_VOCAB];
    const double  d = 0x1p-20, more = seed & 1 ? 0x1p-24 : 0x1p-34;
    for (int64_t s = 0; s < 3; s++)
        for (int64_t t = 0; t < V; t++) {
            ts_model_row(m, s)[t] = s ? 0 : -8;
            ts_model_lead(m, s, t, s);
        }
    ts_model_row(m, 0)[A] = 0;
    ts_model_row(m, 0)[B] = (float)-d;
    ts_model_row(m, 2)[V - 1] = (float)((d + more) * (double)V / (double)(V - 1));
    ts_model_lead(m, 0, A, 1);
    ts_model_lead(m, 0, B, 2);
}

/* Logits far from 0, on either side: only differences count. */
static void offset(const ts_drawn *m, uint64_t seed, int64_t n_states)
{
    static const double far[] = { 2000, -20000, 1e6 };
    const int64_t       V = m->word[TS_TOY_VOCAB];
    for (int64_t i = 0; i < n_states * V; i++)
        ts_model_row(m, 0)[i] = (float)(far[i / V % 3] + 2 * ts_normal(seed, i));
}

static void table(const ts_case *c, uint64_t seed, const ts_drawn *m)
{
    const int64_t V = c->dim[VOCAB], n = ts_beam_states(c);
    if (is(c, "slots")) two_ways(m, -3, -4, -1);
    else if (is(c, "evict")) two_ways(m, -3, -2.5, -3.5);
    else if (is(c, "early")) early(m);
    else if (is(c, "underflow")) underflow(m, seed, n);
    else if (is(c, "near")) near(m);
    else if (is(c, "barred")) barred(m, seed);
    else if (is(c, "close")) close_by(m, seed);
    else if (is(c, "offset")) offset(m, ts_mix(seed), n);
    else
        for (int64_t s = 0; s < n * V; s++)
            ts_model_row(m, 0)[s] =
                is(c, "ties") ? (s % 2 ? 0.0F : -0.0F) : (float)(2 * ts_normal(ts_mix(seed), s));
}

int64_t ts_beam_states(const ts_case *c)
{
    if (is(c, "slots") || is(c, "evict") || is(c, "close")) return 3;
    if (is(c, "early")) return 12;
    if (is(c, "ties") || is(c, "near") || is(c, "barred")) return 1;
    if (c->dim[MODEL] != TS_TOY_TABLE) return 0;
    return ts_tree_states(c->dim[VOCAB], c->dim[PROMPT] + c->dim[STEPS]);
}

/* ---- what all families share ---- */

/* Ragged: 1, 3, 5, 50, and of every fifth item all of it, as far as there is room. All alike where
 * a string's length says what is answered. */
int64_t ts_beam_prompt_len(const ts_case *c, int64_t item)
{
    static const int64_t length[] = { 1, 3, 5, 50, INT64_MAX };
    const int64_t        most = c->dim[PROMPT];
    if (nonfinite_how(c) >= 0 || item + 1 == c->dim[ITEMS]) return most; /* the last has them all */
    return length[item % 5] < most ? length[item % 5] : most;
}

static int32_t prompt_token(const ts_case *c, uint64_t seed, int64_t item, bool last, int64_t i)
{
    if (is(c, "slots") || is(c, "evict") || is(c, "close")) return FILL;
    if (is(c, "early")) return last ? (item % 2 ? B : A) : FILL;
    return (int32_t)(ts_bits(seed, i) % (uint64_t)c->dim[VOCAB]);
}

static void draw_prompts(const ts_case *c, uint64_t seed, ts_beam_quiz *q)
{
    int64_t at = 0;
    q->n_tokens = 0;
    for (int64_t i = 0; i < c->dim[ITEMS]; i++) q->n_tokens += ts_beam_prompt_len(c, i);
    q->prompts = calloc((size_t)q->n_tokens + 1, sizeof *q->prompts);
    if (!q->prompts) abort();
    for (int64_t i = 0; i < c->dim[ITEMS]; i++)
        for (int64_t n = ts_beam_prompt_len(c, i); n > 0; n--, at++)
            q->prompts[at] = prompt_token(c, seed, i, n == 1, at);
}

/* EOS about as likely as the best other token; or, in a poor case, one in a thousand. What is timed
 * has all its rows to the end. */
static void lift_eos(const ts_case *c, const ts_drawn *m)
{
    const double spread = m->weight[TS_TOY_SPREAD];
    if (c->dim[MODEL] == TS_TOY_TABLE || c->dim[EOS] < 0) return;
    m->word[TS_TOY_EOS] = (int32_t)c->dim[EOS];
    m->weight[TS_TOY_LIFT] = (float)(is(c, "poor") ? -1.5 * spread : 1.5 * spread);
    if (c->dim[MODEL] == TS_TOY_NOISE) m->weight[TS_TOY_LIFT] = -25;
}

void ts_beam_draw(const ts_case *c, uint64_t seed, ts_beam_quiz *q)
{
    const uint64_t key = ts_mix(seed);
    ts_model_draw(&q->model, (int)c->dim[MODEL], key + 1, c->dim[VOCAB], ts_beam_states(c));
    if (c->dim[MODEL] == TS_TOY_TABLE) table(c, key + 2, &q->model);
    /* Before EOS is lifted by as much: many logits are 15 to 30 below the largest of their row. */
    if (is(c, "steep")) q->model.weight[TS_TOY_SPREAD] = 6;
    lift_eos(c, &q->model);
    if (is(c, "masked")) q->model.word[TS_TOY_OPEN] = 300;
    if (nonfinite_how(c) >=
        0) { /* in the second step, or the last, to which an archive may not come */
        q->model.word[TS_TOY_NONFINITE] =
            (int32_t)(c->dim[PROMPT] + (key & 1 || ts_beam_is_archive(c) ? 1 : c->dim[STEPS] - 1));
        q->model.word[TS_TOY_HOW] = nonfinite_how(c);
    }
    draw_prompts(c, key + 3, q);
}

void ts_beam_quiz_free(ts_beam_quiz *q)
{
    ts_model_free(&q->model);
    free(q->prompts);
}

bool ts_beam_means_ties(const ts_case *c)
{
    return is(c, "ties") || is(c, "underflow") || is(c, "near") || is(c, "close") ||
           is(c, "barred");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_canon.c - what holds of a search that goes on after rows that are no distribution.
 *
 * All strings of such a case are of one length, and from some length on all rows are none: up to
 * there the search is as any other. A beam that is no longer has its log-probability and score; a
 * longer one continues a beam that was unfinished there, by tokens that may be any; and an item
 * that has stopped before has its results. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beam_search_inside.h"
#include "dtype.h"

/* One item of an output. */
typedef struct found {
    int64_t        item, width, steps;
    const int32_t *tokens;
    const double  *logprob, *score, *length, *finished;
    double         n;
    int64_t        n_vocab;
    int32_t        eos;
} found;

static found found_of(const ts_beam_play_args *a, int64_t i)
{
    const int64_t       K = a->width;
    const double *const beams = a->beams + i * (2 * K + 1);
    return (found) { i,
                     K,
                     a->steps,
                     a->tokens + i * K * a->steps,
                     a->logprob + i * K,
                     a->score + i * K,
                     beams,
                     beams + K,
                     beams[2 * K],
                     a->n_vocab,
                     a->d.eos };
}

static bool flaw(ts_flaw *f, const char *what, int64_t row, int64_t col, double got, ts_want want)
{
    *f = (ts_flaw) { TS_FAULT_VALUE, what, row, col, got, want.value, want.bound };
    return false;
}

static bool is_near(double got, ts_want want)
{
    return fabs(got - want.value) <= want.bound || got == want.value;
}

static bool is_whole(double x, double least, double most)
{
    return x >= least && x <= most && x == floor(x);
}

static bool is_unwritten(double x)
{
    return ts_is_poison(TS_F64, &x, sizeof x);
}

/* Slot k has this string, and nothing more. */
static bool has_string(const found *o, int64_t k, const ts_beam_string *s)
{
    return o->length[k] == (double)s->length &&
           !memcmp(o->tokens + k * o->steps, s->tokens, (size_t)s->length * sizeof *s->tokens);
}

static bool has_numbers(const found *o, int64_t k, const ts_beam_string *s, ts_flaw *f)
{
    if (!is_near(o->logprob[k], s->logprob))
        return flaw(f, "logprob", o->item, k, o->logprob[k], s->logprob);
    if (!is_near(o->score[k], s->score)) return flaw(f, "score", o->item, k, o->score[k], s->score);
    if (o->finished[k] != s->finished)
        return flaw(f, "beams", o->item, o->width + k, o->finished[k],
                    (ts_want) { s->finished, 0 });
    return true;
}

/* Its tokens are some, none of them an end but the last, and those past its length are -1. */
static bool is_text(const found *o, int64_t k, ts_flaw *f)
{
    const int64_t length = (int64_t)o->length[k];
    for (int64_t t = 0; t < o->steps; t++) {
        const int32_t token = o->tokens[k * o->steps + t];
        const bool    ends = token >= 0 && token == o->eos;
        if (t < length ? token >= 0 && token < o->n_vocab && (!ends || t + 1 == length)
                       : token == -1)
            continue;
        return flaw(f, "tokens", o->item * o->width + k, t, token,
                    (ts_want) { t < length ? NAN : -1, 0 });
    }
    const bool ends = length && o->eos >= 0 && o->tokens[k * o->steps + length - 1] == o->eos;
    if (o->finished[k] == ends) return true;
    return flaw(f, "beams", o->item, o->width + k, o->finished[k], (ts_want) { ends, 0 });
}

/* A slot of an item that goes on: one of the strings, or a longer one of an unfinished one. */
/* The first token that is in none of the strings: next to that of the string with which most before
 * it agree, or to -1, no token, where that one has ended. */
static bool departs(const found *o, int64_t k, const ts_beam_state *state, ts_flaw *f)
{
    const int32_t *got = o->tokens + k * o->steps;
    const int64_t  n = o->length[k] < (double)o->steps ? (int64_t)o->length[k] : o->steps;
    int64_t        at = 0;
    double         want = state->n && state->string->length ? *state->string->tokens : -1;
    for (int64_t i = 0; i < state->n; i++) {
        const ts_beam_string *s = &state->string[i];
        int64_t               same = 0;
        while (same < n && same < s->length && got[same] == s->tokens[same]) same++;
        if (same <= at || same >= o->steps) continue;
        at = same;
        want = same < s->length ? s->tokens[same] : -1;
    }
    return flaw(f, "tokens", o->item * o->width + k, at, o->steps ? got[at] : 0,
                (ts_want) { want, 0 });
}

static bool slot_goes_on(const found *o, int64_t k, const ts_beam_state *state, ts_flaw *f)
{
    for (int64_t i = 0; i < state->n; i++)
        if (has_string(o, k, &state->string[i])) return has_numbers(o, k, &state->string[i], f);
    for (int64_t i = 0; i < state->n; i++) {
        const ts_beam_string *s = &state->string[i];
        if (s->finished || o->length[k] <= (double)s->length) continue;
        if (memcmp(o->tokens + k * o->steps, s->tokens, (size_t)s->length * sizeof *s->tokens))
            continue;
        if (!is_unwritten(o->logprob[k]) && !is_unwritten(o->score[k])) return true;
        return flaw(f, is_unwritten(o->score[k]) ? "score" : "logprob", o->item, k, NAN,
                    (ts_want) { 0, 0 });
    }
    return departs(o, k, state, f);
}

static bool is_empty(const found *o, int64_t k, ts_flaw *f)
{
    const ts_want        least = { -INFINITY, 0 };
    const ts_beam_string none = { .tokens = o->tokens, .logprob = least, .score = least };
    if (o->length[k] != 0) return flaw(f, "beams", o->item, k, o->length[k], (ts_want) { 0, 0 });
    return is_text(o, k, f) && has_numbers(o, k, &none, f);
}

static bool item_goes_on(const found *o, const ts_beam_state *state, ts_flaw *f)
{
    const double most = (double)o->width, n = state->stopped ? (double)state->n : most;
    if (!is_whole(o->n, state->stopped ? n : 0, n))
        return flaw(f, "beams", o->item, 2 * o->width, o->n, (ts_want) { n, 0 });
    for (int64_t k = 0; k < o->width; k++) {
        if (k >= (int64_t)o->n) {
            if (!is_empty(o, k, f)) return false;
            continue;
        }
        if (!is_whole(o->length[k], 0, (double)o->steps))
            return flaw(f, "beams", o->item, k, o->length[k], (ts_want) { (double)o->steps, 0 });
        if (!is_text(o, k, f)) return false;
        if (!state->stopped && !slot_goes_on(o, k, state, f)) return false;
        if (!state->stopped) continue;
        if (!has_string(o, k, &state->string[k]))
            return flaw(f, "tokens", o->item * o->width + k, 0,
                        o->steps ? o->tokens[k * o->steps] : 0, (ts_want) { NAN, 0 });
        if (!has_numbers(o, k, &state->string[k], f)) return false;
    }
    return true;
}

bool ts_beam_goes_on(const ts_case *c, const ts_beam_play_args *a, ts_flaw *f)
{
    const ts_toy   m = { a->word, a->weight };
    const int64_t  n_steps = a->word[TS_TOY_NONFINITE] - c->dim[PROMPT];
    ts_beam_state *state = calloc((size_t)a->n_items + 1, sizeof *state);
    bool           ok = false, clear = false;
    if (!state) abort();
    for (uint64_t i = 0; i < ts_beam_orders(c) && !ok && !clear; i++) {
        const ts_beam_told told = { a->tokens, i, true };
        ts_flaw            at = { 0 };
        clear = ts_beam_state_after(c, &m, a->prompts + a->n_items, n_steps, &told, state) > 0;
        ok = true;
        for (int64_t k = 0; k < a->n_items && ok; k++) {
            const found o = found_of(a, k);
            ok = item_goes_on(&o, &state[k], &at);
        }
        if (!ok && i == 0) *f = at;
        ts_beam_state_free(state, a->n_items);
    }
    free(state);
    return ok;
}

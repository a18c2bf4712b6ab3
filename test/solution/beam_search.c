/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search.c - the obvious solution: every candidate in turn is tried on a sorted list of the
 * best. */
#include "touchstone/beam_search.h"

#include <math.h>
#include <string.h>

typedef struct beam {
    double  logprob, score;
    int64_t length, row, finished;
} beam;

typedef struct candidate {
    double  logprob, score;
    float   logit;
    int32_t token; /* -1: a finished beam, as it is */
    int64_t parent;
} candidate;

typedef struct state {
    float          *logits;
    double         *log_sum; /* log sum exp of each row */
    beam           *beam[2];
    int32_t        *text[2]; /* [items][width][stride] */
    int64_t        *len, *n_beam, *bank;
    const int32_t **string;
    candidate      *best;
    int64_t         n_best, stride;
} state;

static void *place(char *base, size_t *used, int64_t n, size_t each)
{
    const size_t at = *used;
    *used += ((size_t)n * each + 63) / 64 * 64;
    return base ? base + at : NULL;
}

static size_t lay_out(const ts_beam_search_args *a, char *base, state *s)
{
    const int64_t n = a->d.n_items, rows = n * a->d.beam_width;
    size_t        used = 0;
    s->stride = 0;
    for (int64_t i = 0; i < n; i++)
        if (a->prompt_len[i] + a->d.max_new_tokens > s->stride)
            s->stride = a->prompt_len[i] + a->d.max_new_tokens;
    s->logits = place(base, &used, rows * a->model->n_vocab, sizeof *s->logits);
    s->log_sum = place(base, &used, rows, sizeof *s->log_sum);
    for (int i = 0; i < 2; i++) {
        s->beam[i] = place(base, &used, rows, sizeof *s->beam[i]);
        s->text[i] = place(base, &used, rows * s->stride, sizeof *s->text[i]);
    }
    s->len = place(base, &used, rows, sizeof *s->len);
    s->string = place(base, &used, rows, sizeof *s->string);
    s->n_beam = place(base, &used, n, sizeof *s->n_beam);
    s->bank = place(base, &used, n, sizeof *s->bank);
    s->best = place(base, &used, a->d.beam_width, sizeof *s->best);
    return used + 64;
}

/* a * b elements are more than anybody has room for. */
static int too_many(int64_t a, int64_t b)
{
    return a > INT64_MAX / 1024 / b;
}

static ts_status check(const ts_beam_search_args *a)
{
    if (!a || !a->model || !a->model->next) return TS_E_ARG;
    const ts_beam_dims *d = &a->d;
    const int64_t       V = a->model->n_vocab;
    if (!(d->alpha >= 0) || isinf(d->alpha)) return TS_E_ARG;
    if (d->n_items < 0 || d->beam_width < 1 || d->max_new_tokens < 0 || V < 1) return TS_E_SHAPE;
    if (V > INT32_MAX || d->beam_width > INT32_MAX) return TS_E_SHAPE;
    if (d->eos < -1 || d->eos >= V) return TS_E_ARG;
    if (too_many(d->n_items, d->beam_width) || too_many(d->n_items * d->beam_width, V) ||
        too_many(d->n_items * d->beam_width, d->max_new_tokens + !d->max_new_tokens))
        return TS_E_SHAPE;
    if (d->n_items == 0) return TS_OK;
    if (!a->prompts || !a->prompt_len || !a->n_found || !a->length || !a->logprob) return TS_E_ARG;
    if (!a->score || !a->finished || (d->max_new_tokens && !a->tokens)) return TS_E_ARG;
    int64_t n = 0;
    for (int64_t i = 0; i < d->n_items; i++) {
        if (a->prompt_len[i] < 1) return TS_E_ARG;
        if (too_many(a->prompt_len[i], 1) || too_many(n += a->prompt_len[i], d->beam_width))
            return TS_E_SHAPE;
    }
    const int32_t *t = a->prompts;
    for (const int32_t *end = t + n; t < end; t++)
        if (*t < 0 || *t >= V) return TS_E_ARG;
    return TS_OK;
}

ts_status ts_beam_search_workspace(const ts_beam_search_args *a, const ts_exec *x, size_t *n_bytes)
{
    state           s;
    const ts_status status = check(a);
    (void)x;
    if (!status) *n_bytes = lay_out(a, NULL, &s);
    return status;
}

static int log_sum_of(const float *x, int64_t n, double *out)
{
    double max = -INFINITY, sum = 0;
    for (int64_t t = 0; t < n; t++) {
        if (isnan(x[t]) || x[t] == INFINITY) return 0;
        if (x[t] > max) max = x[t];
    }
    if (max == -INFINITY) return 0;
    for (int64_t t = 0; t < n; t++) sum += exp(x[t] - max);
    *out = max + log(sum);
    return 1;
}

static int is_before(const candidate *a, const candidate *b)
{
    if (a->score != b->score) return a->score > b->score;
    if (a->parent != b->parent) return a->parent < b->parent;
    return a->logit != b->logit ? a->logit > b->logit : a->token < b->token;
}

static void enter(const ts_beam_search_args *a, state *s, candidate c)
{
    int64_t j = s->n_best;
    if (j == a->d.beam_width && !is_before(&c, &s->best[j - 1])) return;
    if (j == a->d.beam_width) j--;
    else s->n_best++;
    for (; j > 0 && is_before(&c, &s->best[j - 1]); j--) s->best[j] = s->best[j - 1];
    s->best[j] = c;
}

static int32_t *text_of(const ts_beam_search_args *a, const state *s, int64_t bank, int64_t item,
                        int64_t slot)
{
    return s->text[bank] + (item * a->d.beam_width + slot) * s->stride;
}

static void advance(const ts_beam_search_args *a, state *s, int64_t item, double penalty)
{
    const int64_t V = a->model->n_vocab, K = a->d.beam_width, bank = s->bank[item];
    const beam   *b = s->beam[bank] + item * K;
    s->n_best = 0;
    for (int64_t j = 0; j < s->n_beam[item]; j++) {
        const float *x = s->logits + b[j].row * V;
        if (b[j].finished) enter(a, s, (candidate) { b[j].logprob, b[j].score, 0, -1, j });
        for (int64_t t = 0; t < V && !b[j].finished; t++) {
            if (x[t] == -INFINITY) continue;
            const double logprob = b[j].logprob + (x[t] - s->log_sum[b[j].row]);
            enter(a, s, (candidate) { logprob, logprob / penalty, x[t], (int32_t)t, j });
        }
    }
    for (int64_t k = 0; k < s->n_best; k++) {
        const candidate *c = &s->best[k];
        beam            *to = &s->beam[!bank][item * K + k];
        int32_t         *text = text_of(a, s, !bank, item, k);
        *to = b[c->parent];
        memcpy(text, text_of(a, s, bank, item, c->parent), (size_t)s->stride * sizeof *text);
        if (c->token < 0) continue;
        text[a->prompt_len[item] + to->length++] = c->token;
        to->logprob = c->logprob;
        to->score = c->score;
        to->finished = c->token == a->d.eos;
    }
    s->n_beam[item] = s->n_best;
    s->bank[item] = !bank;
}

static int64_t list_rows(const ts_beam_search_args *a, state *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < a->d.n_items; i++)
        for (int64_t j = 0; j < s->n_beam[i]; j++) {
            beam *b = &s->beam[s->bank[i]][i * a->d.beam_width + j];
            if (b->finished) continue;
            b->row = n;
            s->len[n] = a->prompt_len[i] + b->length;
            s->string[n++] = text_of(a, s, s->bank[i], i, j);
        }
    return n;
}

static int runs(const ts_beam_search_args *a, const state *s, int64_t item)
{
    for (int64_t j = 0; j < s->n_beam[item]; j++)
        if (!s->beam[s->bank[item]][item * a->d.beam_width + j].finished) return 1;
    return 0;
}

static void answer(const ts_beam_search_args *a, const state *s, int64_t item)
{
    const int64_t T = a->d.max_new_tokens, K = a->d.beam_width;
    a->n_found[item] = s->n_beam[item];
    for (int64_t k = 0; k < K; k++) {
        const int64_t  at = item * K + k;
        const beam     none = { -INFINITY, -INFINITY, 0, 0, 0 };
        const beam    *b = k < s->n_beam[item] ? &s->beam[s->bank[item]][at] : &none;
        const int32_t *text = text_of(a, s, s->bank[item], item, k) + a->prompt_len[item];
        for (int64_t t = 0; t < T; t++) a->tokens[at * T + t] = t < b->length ? text[t] : -1;
        a->length[at] = b->length;
        a->logprob[at] = b->logprob;
        a->score[at] = b->score;
        a->finished[at] = (uint8_t)b->finished;
    }
}

ts_status ts_beam_search(const ts_beam_search_args *a, const ts_exec *x)
{
    state          s;
    ts_status      status = check(a);
    const int32_t *prompt = status ? NULL : a->prompts;
    if (status) return status;
    if (!x->workspace || x->workspace_bytes < lay_out(a, NULL, &s)) return TS_E_WORKSPACE;
    lay_out(a, (char *)x->workspace + (64 - (uintptr_t)x->workspace % 64), &s);
    for (int64_t i = 0; i < a->d.n_items; i++) {
        s.n_beam[i] = 1, s.bank[i] = 0;
        memset(&s.beam[0][i * a->d.beam_width], 0, sizeof(beam));
        memcpy(text_of(a, &s, 0, i, 0), prompt, (size_t)a->prompt_len[i] * sizeof *prompt);
        prompt += a->prompt_len[i];
    }
    for (int64_t t = 0; t < a->d.max_new_tokens; t++) {
        const int64_t n = list_rows(a, &s);
        const double  penalty = pow((double)(t + 1), a->d.alpha);
        if (n == 0) break;
        if (a->model->next(a->model->self, n, s.len, s.string, s.logits)) return TS_E_MODEL;
        for (int64_t r = 0; r < n; r++)
            if (!log_sum_of(s.logits + r * a->model->n_vocab, a->model->n_vocab, &s.log_sum[r]))
                return TS_E_MODEL;
        for (int64_t i = 0; i < a->d.n_items; i++)
            if (runs(a, &s, i)) advance(a, &s, i, penalty);
    }
    for (int64_t i = 0; i < a->d.n_items; i++) answer(a, &s, i);
    return TS_OK;
}

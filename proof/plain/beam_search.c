/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search.c - the obvious solution: every candidate in turn is tried on a sorted list of the
 * best. */
#include "touchstone/beam_search.h"

#include "number.h"

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
    HERE(lay_out);
    return used + ALIGN;
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
    if (HOOK(bad_alpha, !(d->alpha >= 0) || isinf(d->alpha))) return TS_E_ARG;
    if (d->n_items < 0 || d->beam_width < 1 || d->max_new_tokens < 0 || V < 1) return TS_E_SHAPE;
    if (V > INT32_MAX || d->beam_width > INT32_MAX) return TS_E_SHAPE;
    if (HOOK(bad_eos, d->eos < -1 || d->eos >= V)) return TS_E_ARG;
    if (too_many(d->n_items, d->beam_width) || too_many(d->n_items * d->beam_width, V) ||
        too_many(d->n_items * d->beam_width, d->max_new_tokens + !d->max_new_tokens))
        return TS_E_SHAPE;
    if (d->n_items == 0) return TS_OK;
    if (!a->prompts || !a->prompt_len || !a->n_found || !a->length || !a->logprob) return TS_E_ARG;
    if (!a->score || !a->finished || (d->max_new_tokens && !a->tokens)) return TS_E_ARG;
    int64_t n = 0;
    for (int64_t i = 0; i < HOOK(n_prompts, d->n_items); i++) {
        if (a->prompt_len[i] < 1) return TS_E_ARG;
        if (too_many(a->prompt_len[i], 1) || too_many(n += a->prompt_len[i], d->beam_width))
            return TS_E_SHAPE;
    }
    const int32_t *t = a->prompts;
    for (const int32_t *end = t + n; t < end; t++)
        if (*t < 0 || *t >= V) return TS_E_ARG;
    return HOOK(checked, TS_OK);
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
        if (HOOK(nonfinite, isnan(x[t]) || x[t] == INFINITY)) return 0;
        if (x[t] > max) max = x[t];
    }
    if (HOOK(none, max == -INFINITY)) return 0;
    for (int64_t t = 0; t < n; t++) sum += exp(x[t] - max);
    *out = HOOK(log_sum, max + log(sum));
    return 1;
}

static int is_before(const candidate *a, const candidate *b)
{
    HERE(compare);
    if (a->score != b->score) return a->score > b->score;
    HERE(tie);
    if (a->parent != b->parent) return a->parent < b->parent;
    return a->logit != b->logit ? a->logit > b->logit : a->token < b->token;
}

static void enter(const ts_beam_search_args *a, state *s, candidate c)
{
    const int64_t K = HOOK(width, a->d.beam_width);
    int64_t       j = s->n_best;
    if (j == K && !is_before(&c, &s->best[j - 1])) return;
    if (j == K) j--;
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
    s->n_best = HOOK(n_best, 0);
    for (int64_t j = 0; j < s->n_beam[item]; j++) {
        const float *x = s->logits + b[j].row * V;
        const double end = HOOK(end_score, b[j].score);
        if (b[j].finished) enter(a, s, (candidate) { b[j].logprob, end, 0, -1, j });
        for (int64_t t = 0; t < V && !b[j].finished; t++) {
            if (HOOK(masked, x[t] == -INFINITY)) continue;
            const double    logprob = HOOK(logprob, b[j].logprob + (x[t] - s->log_sum[b[j].row]));
            const double    score = HOOK(score, logprob / penalty);
            const candidate c = { logprob, score, x[t], (int32_t)t, j };
            HERE(candidate);
            enter(a, s, c);
        }
        HERE(extended);
    }
    for (int64_t k = 0; k < s->n_best; k++) {
        const candidate *c = &s->best[k];
        beam            *to = &s->beam[!bank][item * K + k];
        int32_t         *text = text_of(a, s, !bank, item, k);
        *to = b[c->parent];
        memcpy(text, text_of(a, s, bank, item, c->parent), (size_t)s->stride * sizeof *text);
        if (c->token < 0) continue;
        text[a->prompt_len[item] + to->length++] = HOOK(token, c->token);
        to->logprob = c->logprob;
        to->score = HOOK(kept_score, c->score);
        to->finished = HOOK(finished, c->token == a->d.eos);
    }
    s->n_beam[item] = s->n_best;
    s->bank[item] = !bank;
    HERE(advanced);
}

static int64_t list_rows(const ts_beam_search_args *a, state *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < a->d.n_items; i++)
        for (int64_t j = 0; j < s->n_beam[i]; j++) {
            beam *b = &s->beam[s->bank[i]][i * a->d.beam_width + j];
            if (HOOK(idle, b->finished)) continue;
            b->row = HOOK(row, n);
            s->len[n] = a->prompt_len[i] + b->length;
            s->string[n++] = text_of(a, s, s->bank[i], i, j);
        }
    return HOOK(listed, n);
}

static int runs(const ts_beam_search_args *a, const state *s, int64_t item)
{
    for (int64_t j = 0; j < s->n_beam[item]; j++)
        if (!s->beam[s->bank[item]][item * a->d.beam_width + j].finished) return HOOK(runs, 1);
    return 0;
}

static void put(const ts_beam_search_args *a, int64_t at, const beam *b, const int32_t *text)
{
    const int64_t T = a->d.max_new_tokens;
    for (int64_t t = 0; t < T; t++)
        a->tokens[at * T + t] = HOOK(tail, t < b->length ? text[t] : -1);
    a->length[at] = HOOK(length, b->length);
    a->logprob[at] = b->logprob;
    a->score[at] = HOOK(last_score, b->score);
    a->finished[at] = (uint8_t)b->finished;
}

static void answer(const ts_beam_search_args *a, const state *s, int64_t item)
{
    const int64_t K = a->d.beam_width, bank = s->bank[item], n = HOOK(n_found, s->n_beam[item]);
    const beam    none = { HOOK(unused, -INFINITY), HOOK(unused, -INFINITY), 0, 0, 0 };
    HERE(answer);
    a->n_found[item] = n;
    for (int64_t k = 0; k < K; k++)
        put(a, item * K + k, k < n ? &s->beam[bank][item * K + k] : &none,
            text_of(a, s, bank, item, k) + a->prompt_len[item]);
}

ts_status ts_beam_search(const ts_beam_search_args *a, const ts_exec *x)
{
    state          s;
    ts_status      status = x ? check(a) : TS_E_ARG;
    const int32_t *prompt = status ? NULL : a->prompts;
    if (status) return status;
    if (!x->workspace || HOOK(short, x->workspace_bytes < lay_out(a, NULL, &s)))
        return TS_E_WORKSPACE;
    HERE(search);
    lay_out(a, aligned(x->workspace), &s);
    for (int64_t i = 0; i < a->d.n_items; i++) {
        s.n_beam[i] = 1, s.bank[i] = 0;
        HERE(start);
        memset(&s.beam[0][i * a->d.beam_width], 0, sizeof(beam));
        memcpy(text_of(a, &s, 0, i, 0), prompt, (size_t)a->prompt_len[i] * sizeof *prompt);
        prompt += a->prompt_len[i];
        HERE(started);
    }
    HERE(ready);
    for (int64_t t = 0; t < a->d.max_new_tokens; t++) {
        const int64_t n = list_rows(a, &s);
        const double  penalty = pow((double)(t + 1), a->d.alpha);
        if (HOOK(done, n == 0)) break;
        if (HOOK(failed, a->model->next(a->model->self, n, s.len, s.string, s.logits)))
            return TS_E_MODEL;
        for (int64_t r = 0; r < HOOK(n_rows, n); r++)
            if (!log_sum_of(s.logits + r * a->model->n_vocab, a->model->n_vocab, &s.log_sum[r]))
                return TS_E_MODEL;
        for (int64_t i = 0; i < a->d.n_items; i++)
            if (runs(a, &s, i)) advance(a, &s, i, penalty);
    }
    for (int64_t i = 0; i < HOOK(n_answers, a->d.n_items); i++) answer(a, &s, i);
    HERE(answered);
    return TS_OK;
}

// SPDX-License-Identifier: Apache-2.0
// beam_search.cu - the obvious solution on a device: one thread sums a row of logits and picks its
// best tokens, as many as there are beams, and the host sorts what they give.
#include "number.cuh"
#include "touchstone/beam_search.h"

struct beam {
    double  logprob, score;
    int64_t length, row, finished;
};

struct candidate {
    double  logprob, score;
    float   logit;
    int32_t token; // -1: a finished beam, as it is
    int64_t parent;
};

struct pick {
    float   logit;
    int32_t token; // -1: there is none
};

struct rows {
    const float *logits;
    int64_t      n_rows, n_vocab, width;
    double      *log_sum; // NaN: the row is no distribution
    pick        *best;    // [n_rows][width], in order
};

struct state {
    beam           *beams[2];
    int32_t        *text[2]; // [items][width][stride]
    int64_t        *len, *n_beam, *bank;
    const int32_t **string;
    candidate      *best;
    double         *log_sum;
    pick           *picks;
    int64_t         n_best, stride;
    rows            device;
};

static __global__ void look_at(rows r)
{
    const int64_t i = item(), V = r.n_vocab;
    if (i >= r.n_rows) return;
    const float *x = r.logits + i * V;
    pick        *best = r.best + i * r.width, last = { INFINITY, -1 };
    double       most = -INFINITY, sum = 0;
    r.log_sum[i] = NAN;
    for (int64_t t = 0; t < V; t++) {
        if (isnan(x[t]) || x[t] == INFINITY) return;
        if (x[t] > most) most = x[t];
    }
    if (most == -INFINITY) return;
    for (int64_t t = 0; t < V; t++) sum += exp(x[t] - most);
    r.log_sum[i] = most + log(sum);
    for (int64_t k = 0; k < r.width; k++) { // the best one after the last
        pick next = { -INFINITY, -1 };
        for (int64_t t = 0; t < V; t++) {
            if (x[t] > last.logit || (x[t] == last.logit && t <= last.token)) continue;
            if (x[t] > next.logit) next.logit = x[t], next.token = (int32_t)t;
        }
        best[k] = last = next;
        if (next.token < 0) break;
    }
}

static size_t lay_out(const ts_beam_search_args *a, void *base, state *s)
{
    const int64_t n = a->d.n_items, all = n * a->d.beam_width;
    size_t        used = 0;
    s->stride = 0;
    for (int64_t i = 0; i < n; i++)
        if (a->prompt_len[i] + a->d.max_new_tokens > s->stride)
            s->stride = a->prompt_len[i] + a->d.max_new_tokens;
    for (int i = 0; i < 2; i++) {
        s->beams[i] = (beam *)place(base, &used, all, sizeof(beam));
        s->text[i] = (int32_t *)place(base, &used, all * s->stride, sizeof(int32_t));
    }
    s->len = (int64_t *)place(base, &used, all, sizeof *s->len);
    s->string = (const int32_t **)place(base, &used, all, sizeof *s->string);
    s->n_beam = (int64_t *)place(base, &used, n, sizeof *s->n_beam);
    s->bank = (int64_t *)place(base, &used, n, sizeof *s->bank);
    s->best = (candidate *)place(base, &used, a->d.beam_width, sizeof *s->best);
    s->log_sum = (double *)place(base, &used, all, sizeof *s->log_sum);
    s->picks = (pick *)place(base, &used, all * a->d.beam_width, sizeof *s->picks);
    return used + ALIGN;
}

static size_t lay_out_device(const ts_beam_search_args *a, void *base, rows *r)
{
    const int64_t all = a->d.n_items * a->d.beam_width;
    size_t        used = 0;
    r->n_vocab = a->model->n_vocab, r->width = a->d.beam_width;
    r->log_sum = (double *)place(base, &used, all, sizeof *r->log_sum);
    r->best = (pick *)place(base, &used, all * r->width, sizeof *r->best);
    r->logits = (const float *)place(base, &used, all * r->n_vocab, sizeof *r->logits);
    return used;
}

// a * b elements are more than anybody has room for.
static bool too_many(int64_t a, int64_t b)
{
    return a > INT64_MAX / 1024 / b;
}

static ts_status check(const ts_beam_search_args *a, const ts_exec *x)
{
    if (!a || !x || x->device != TS_CUDA || !a->model || !a->model->next) return TS_E_ARG;
    const ts_beam_dims *d = &a->d;
    const int64_t       V = a->model->n_vocab;
    if (!(d->alpha >= 0) || isinf(d->alpha)) return TS_E_ARG;
    if (d->n_items < 0 || d->beam_width < 1 || d->max_new_tokens < 0 || V < 1) return TS_E_SHAPE;
    if (V > INT32_MAX || d->beam_width > INT32_MAX) return TS_E_SHAPE;
    if (d->eos < -1 || d->eos >= V) return TS_E_ARG;
    if (too_many(d->n_items, d->beam_width) || too_many(d->n_items * d->beam_width, V) ||
        too_many(d->n_items * d->beam_width, d->beam_width) ||
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
    for (int64_t i = 0; i < n; i++)
        if (a->prompts[i] < 0 || a->prompts[i] >= V) return TS_E_ARG;
    return TS_OK;
}

TS_API ts_status ts_beam_search_workspace(const ts_beam_search_args *a, const ts_exec *x, size_t *n)
{
    rows            none;
    const ts_status s = n ? check(a, x) : TS_E_ARG;
    if (!s) *n = lay_out_device(a, NULL, &none);
    return s;
}

TS_API ts_status ts_beam_search_host(const ts_beam_search_args *a, const ts_exec *x, size_t *n)
{
    state           none;
    const ts_status s = n ? check(a, x) : TS_E_ARG;
    if (!s) *n = lay_out(a, NULL, &none);
    return s;
}

static bool is_before(const candidate &a, const candidate &b)
{
    if (a.score != b.score) return a.score > b.score;
    if (a.parent != b.parent) return a.parent < b.parent;
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

static void enter(const ts_beam_search_args *a, state *s, const candidate &c)
{
    int64_t j = s->n_best;
    if (j == a->d.beam_width && !is_before(c, s->best[j - 1])) return;
    if (j == a->d.beam_width) j--;
    else s->n_best++;
    for (; j > 0 && is_before(c, s->best[j - 1]); j--) s->best[j] = s->best[j - 1];
    s->best[j] = c;
}

static int32_t *text_of(const ts_beam_search_args *a, const state *s, int64_t bank, int64_t item,
                        int64_t slot)
{
    return s->text[bank] + (item * a->d.beam_width + slot) * s->stride;
}

static void advance(const ts_beam_search_args *a, state *s, int64_t item, double penalty)
{
    const int64_t K = a->d.beam_width, bank = s->bank[item];
    const beam   *b = s->beams[bank] + item * K;
    s->n_best = 0;
    for (int64_t j = 0; j < s->n_beam[item]; j++) {
        const pick *p = s->picks + b[j].row * K;
        if (b[j].finished) enter(a, s, { b[j].logprob, b[j].score, 0, -1, j });
        for (int64_t k = 0; !b[j].finished && k < K && p[k].token >= 0; k++) {
            const double logprob = b[j].logprob + (p[k].logit - s->log_sum[b[j].row]);
            enter(a, s, { logprob, logprob / penalty, p[k].logit, p[k].token, j });
        }
    }
    for (int64_t k = 0; k < s->n_best; k++) {
        const candidate &c = s->best[k];
        beam            *to = &s->beams[!bank][item * K + k];
        int32_t         *text = text_of(a, s, !bank, item, k);
        *to = b[c.parent];
        memcpy(text, text_of(a, s, bank, item, c.parent), (size_t)s->stride * sizeof *text);
        if (c.token < 0) continue;
        text[a->prompt_len[item] + to->length++] = c.token;
        to->logprob = c.logprob;
        to->score = c.score;
        to->finished = c.token == a->d.eos;
    }
    s->n_beam[item] = s->n_best;
    s->bank[item] = !bank;
}

static int64_t list_rows(const ts_beam_search_args *a, state *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < a->d.n_items; i++)
        for (int64_t j = 0; j < s->n_beam[i]; j++) {
            beam *b = &s->beams[s->bank[i]][i * a->d.beam_width + j];
            if (b->finished) continue;
            b->row = n;
            s->len[n] = a->prompt_len[i] + b->length;
            s->string[n++] = text_of(a, s, s->bank[i], i, j);
        }
    return n;
}

static bool runs(const ts_beam_search_args *a, const state *s, int64_t item)
{
    for (int64_t j = 0; j < s->n_beam[item]; j++)
        if (!s->beams[s->bank[item]][item * a->d.beam_width + j].finished) return true;
    return false;
}

// Calls the model for n rows, and gets of each its sum and its best tokens.
static ts_status ask(const ts_beam_search_args *a, state *s, int64_t n, const ts_exec *x)
{
    const cudaStream_t stream = (cudaStream_t)x->stream;
    const size_t       width = (size_t)a->d.beam_width;
    if (a->model->next(a->model->self, n, s->len, s->string, (float *)s->device.logits))
        return TS_E_MODEL;
    s->device.n_rows = n;
    const ts_status status = launch(look_at, s->device, n, x);
    if (status) return status;
    if (cudaMemcpyAsync(s->log_sum, s->device.log_sum, (size_t)n * sizeof *s->log_sum,
                        cudaMemcpyDeviceToHost, stream) ||
        cudaMemcpyAsync(s->picks, s->device.best, (size_t)n * width * sizeof *s->picks,
                        cudaMemcpyDeviceToHost, stream) ||
        cudaStreamSynchronize(stream))
        return TS_E_DEVICE;
    for (int64_t r = 0; r < n; r++)
        if (isnan(s->log_sum[r])) return TS_E_MODEL;
    return TS_OK;
}

static void put(const ts_beam_search_args *a, int64_t at, const beam &b, const int32_t *text)
{
    const int64_t T = a->d.max_new_tokens;
    for (int64_t t = 0; t < T; t++) a->tokens[at * T + t] = t < b.length ? text[t] : -1;
    a->length[at] = b.length;
    a->logprob[at] = b.logprob;
    a->score[at] = b.score;
    a->finished[at] = (uint8_t)b.finished;
}

TS_API ts_status ts_beam_search(const ts_beam_search_args *a, const ts_exec *x)
{
    state          s = {};
    ts_status      status = check(a, x);
    const int64_t  K = status ? 0 : a->d.beam_width;
    const int32_t *prompt = status ? NULL : a->prompts;
    const beam     none = { -INFINITY, -INFINITY, 0, 0, 0 };
    if (status) return status;
    if (a->d.n_items == 0) return TS_OK;
    if (!x->workspace || x->workspace_bytes < lay_out_device(a, NULL, &s.device))
        return TS_E_WORKSPACE;
    if (!a->host || a->host_bytes < lay_out(a, NULL, &s)) return TS_E_WORKSPACE;
    lay_out(a, aligned(a->host), &s);
    lay_out_device(a, x->workspace, &s.device);
    for (int64_t i = 0; i < a->d.n_items; i++) {
        s.n_beam[i] = 1, s.bank[i] = 0;
        s.beams[0][i * K] = {};
        memcpy(text_of(a, &s, 0, i, 0), prompt, (size_t)a->prompt_len[i] * sizeof *prompt);
        prompt += a->prompt_len[i];
    }
    for (int64_t t = 0; t < a->d.max_new_tokens; t++) {
        const int64_t n = list_rows(a, &s);
        if (n == 0) break;
        status = ask(a, &s, n, x);
        if (status) return status;
        for (int64_t i = 0; i < a->d.n_items; i++)
            if (runs(a, &s, i)) advance(a, &s, i, pow((double)(t + 1), a->d.alpha));
    }
    for (int64_t i = 0; i < a->d.n_items; i++) {
        a->n_found[i] = s.n_beam[i];
        for (int64_t k = 0; k < K; k++)
            put(a, i * K + k, k < s.n_beam[i] ? s.beams[s.bank[i]][i * K + k] : none,
                text_of(a, &s, s.bank[i], i, k) + a->prompt_len[i]);
    }
    return TS_OK;
}

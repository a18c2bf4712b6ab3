/* SPDX-License-Identifier: Apache-2.0 */
/* api_call.c - makes a call of a request, and grows its choices token by token. */
#define _POSIX_C_SOURCE 200809L
#include "api_call.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rng.h"

/* ---- prompts ---- */

/* A template keeps state while it runs. */
static pthread_mutex_t template_lock = PTHREAD_MUTEX_INITIALIZER;

static bool render(const ts_api_call *c, ts_text *text, ts_api_refusal *f)
{
    char why[TS_MODEL_WHY];
    if (!c->o->chat) return ts_api_refuse(f, 400, "messages", "messages: %.200s", c->o->no_chat);
    pthread_mutex_lock(&template_lock);
    const bool ok = ts_chat_render(c->o->chat, c->ask.message, c->ask.n_message, true, text, why);
    pthread_mutex_unlock(&template_lock);
    return ok || ts_api_refuse(f, 400, "messages", "messages: %.200s", why);
}

static bool encode(const ts_api_call *c, const char *text, size_t n, int32_t **token,
                   int64_t *n_token, ts_api_refusal *f)
{
    char why[TS_MODEL_WHY];
    if (!ts_tokenizer_encode(c->o->t, text, n, token, n_token, why))
        return ts_api_refuse(f, 400, "prompt", "prompt: %.200s", why);
    const int64_t first = c->ask.chat ? ts_tokenizer_first(c->o->t) : 0;
    if (first) memmove(*token, *token + first, (size_t)(*n_token - first) * sizeof **token);
    *n_token -= first; /* a template has written its own */
    return true;
}

static bool tokens_of(const json_t *list, int32_t **token, int64_t *n_token, ts_api_refusal *f)
{
    *n_token = (int64_t)json_array_size(list);
    *token = malloc(((size_t)*n_token + 1) * sizeof **token);
    if (!*token) return ts_api_refuse(f, 500, NULL, "out of memory");
    for (int64_t i = 0; i < *n_token; i++)
        (*token)[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return true;
}

static bool fits(const ts_api_call *c, int64_t n, ts_api_refusal *f)
{
    const char   *param = c->ask.chat ? "messages" : "prompt";
    const int64_t capacity = c->o->engine.capacity;
    if (n < 1) return ts_api_refuse(f, 400, param, "%s: got 0 tokens, expected at least 1", param);
    if (n < capacity) return true;
    ts_api_refuse(f, 400, param, "%s: got %lld tokens, expected at most %lld in a context of %lld",
                  param, (long long)n, (long long)capacity - 1, (long long)capacity);
    f->code = "context_length_exceeded";
    return false;
}

static bool read_prompts(ts_api_call *c, ts_api_refusal *f)
{
    const ts_api_ask *a = &c->ask;
    bool              ok = true;
    c->n_prompts = a->chat ? 1 : (int64_t)json_array_size(a->prompts);
    c->prompt = calloc((size_t)c->n_prompts, sizeof *c->prompt);
    c->n_prompt = calloc((size_t)c->n_prompts, sizeof *c->n_prompt);
    if (!c->prompt || !c->n_prompt) return ts_api_refuse(f, 500, NULL, "out of memory");
    for (int64_t i = 0; ok && i < c->n_prompts; i++) {
        const json_t *p = a->chat ? NULL : json_array_get(a->prompts, (size_t)i);
        ts_text       text = { 0 };
        if (a->chat)
            ok = render(c, &text, f) &&
                 encode(c, text.p ? text.p : "", text.n, &c->prompt[i], &c->n_prompt[i], f);
        else if (json_is_string(p))
            ok = encode(c, json_string_value(p), json_string_length(p), &c->prompt[i],
                        &c->n_prompt[i], f);
        else ok = tokens_of(p, &c->prompt[i], &c->n_prompt[i], f);
        ok = ok && fits(c, c->n_prompt[i], f);
        free(text.p);
    }
    return ok;
}

/* ---- making and freeing ---- */

ts_api_call *ts_api_call_make(const ts_serve_options *o, ts_api_ask *ask, uint64_t number,
                              ts_api_refusal *f)
{
    ts_api_call *c = calloc(1, sizeof *c);
    if (!c) {
        ts_api_ask_free(ask);
        ts_api_refuse(f, 500, NULL, "out of memory");
        return NULL;
    }
    c->o = o;
    c->ask = *ask;
    *ask = (ts_api_ask) { 0 };
    c->fd = -1;
    c->from_s = ts_seconds();
    c->created = time(NULL);
    snprintf(c->id, sizeof c->id, "%s-%016llx", c->ask.chat ? "chatcmpl" : "cmpl",
             (unsigned long long)ts_bits(o->sampling.seed ^ (uint64_t)c->created, (int64_t)number));
    if (!c->ask.seeded) c->ask.sampling.seed = ts_bits(o->sampling.seed, (int64_t)number);
    if (!read_prompts(c, f)) {
        ts_api_call_free(c);
        return NULL;
    }
    c->n_choice = c->n_left = c->n_prompts * c->ask.n;
    c->choice = calloc((size_t)c->n_choice, sizeof *c->choice);
    if (!c->choice) {
        c->n_choice = 0;
        ts_api_call_free(c);
        ts_api_refuse(f, 500, NULL, "out of memory");
        return NULL;
    }
    for (int64_t i = 0; i < c->n_choice; i++)
        c->choice[i] = (ts_api_choice) { .call = c,
                                         .index = i,
                                         .prompt = c->prompt[i / c->ask.n],
                                         .n_prompt = c->n_prompt[i / c->ask.n],
                                         .request = -1,
                                         .last = -1 };
    return c;
}

void ts_api_call_free(ts_api_call *c)
{
    for (int64_t i = 0; i < c->n_choice; i++) {
        free(c->choice[i].text.p);
        free(c->choice[i].mark);
        free(c->choice[i].likely);
    }
    for (int64_t i = 0; c->prompt && i < c->n_prompts; i++) free(c->prompt[i]);
    free(c->prompt);
    free(c->n_prompt);
    free(c->choice);
    free(c->out.p);
    ts_api_ask_free(&c->ask);
    free(c);
}

/* ---- tokens ---- */

static bool add_mark(ts_api_choice *c, const ts_event *e, int32_t previous)
{
    const int n = c->call->ask.n_likely;
    if (c->n_mark == c->room) {
        const size_t room = 2 * (size_t)c->room + 16;
        ts_api_mark *mark = realloc(c->mark, room * sizeof *mark);
        if (mark) c->mark = mark;
        ts_likely *likely = realloc(c->likely, (room * (size_t)n + 1) * sizeof *likely);
        if (likely) c->likely = likely;
        if (!mark || !likely) return false;
        c->room = (int64_t)room;
    }
    c->mark[c->n_mark] = (ts_api_mark) { e->token, previous, c->text.n, e->logprob };
    if (n) memcpy(c->likely + c->n_mark * n, e->likely, (size_t)n * sizeof *e->likely);
    c->n_mark++;
    return true;
}

bool ts_api_call_token(ts_api_choice *c, const ts_event *e)
{
    const ts_api_ask *a = &c->call->ask;
    const int32_t     previous = c->n_token ? c->last : c->prompt[c->n_prompt - 1];
    size_t            n;
    const char       *piece = ts_tokenizer_piece(c->call->o->t, previous, e->token, &n);
    if (a->logprobs && !add_mark(c, e, previous)) return false;
    c->last = e->token;
    c->n_token++;
    return ts_text_add(&c->text, piece, n, a->stop, a->n_stop);
}

int64_t ts_api_call_tokens(const ts_api_call *c, int64_t *prompt, int64_t *shared)
{
    int64_t made = 0;
    *prompt = *shared = 0;
    for (int64_t i = 0; i < c->n_prompts; i++) *prompt += c->n_prompt[i];
    for (int64_t i = 0; i < c->n_choice; i++) {
        made += c->choice[i].n_token;
        /* Of a prompt with several choices what the first took over, as its tokens count once. */
        if (i % c->ask.n == 0) *shared += c->choice[i].n_shared;
    }
    return made;
}

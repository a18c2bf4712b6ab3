/* SPDX-License-Identifier: Apache-2.0 */
/* api_reply.c - answers in the API's JSON, whole or as events of a stream.
 *
 * Bytes that are no part of a character become U+FFFD. A stream holds back what a stop text may
 * still remove, and the beginning of a character until it is whole. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_call.h"

static const double least_logprob = -9999; /* JSON has no infinity */

/* ---- text ---- */

static json_t *string_of(const char *p, size_t n)
{
    ts_text t = { 0 };
    bool    ok = true;
    for (size_t i = 0; ok && i < n;) {
        const size_t len = ts_utf8_length((const unsigned char *)p + i, n - i);
        ok = ts_text_add(&t, len ? p + i : "\xef\xbf\xbd", len ? len : 3, NULL, 0);
        i += len ? len : 1;
    }
    json_t *s = ok ? json_stringn(t.p ? t.p : "", t.n) : NULL;
    free(t.p);
    return s;
}

/* Of n bytes, those before a character that more bytes may complete. */
static size_t whole(const char *text, size_t n)
{
    static const char    more[] = "\x80\x80\x80";
    const unsigned char *p = (const unsigned char *)text;
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const unsigned char lead = p[n - back];
        const size_t        need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
        unsigned char       guess[8] = { 0 };
        if (lead < 0x80) return n;
        if (need == 1) continue; /* not a first byte */
        if (need <= back) return n;
        memcpy(guess, p + n - back, back);
        memcpy(guess + back, more, need - back);
        /* The second byte of some characters is at least 0x90 or 0xa0. */
        for (unsigned second = 0x80; back == 1 && second < 0xc0; second += 0x10) {
            guess[1] = (unsigned char)second;
            if (ts_utf8_length(guess, need)) return n - back;
        }
        return ts_utf8_length(guess, need) ? n - back : n;
    }
    return n;
}

static void put(ts_text *out, const char *p)
{
    ts_text_add(out, p, strlen(p), NULL, 0);
}

static void put_json(ts_text *out, json_t *o, bool stream)
{
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    if (stream) put(out, "data: ");
    put(out, text ? text : "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\"}}");
    put(out, stream ? "\n\n" : "\n");
    free(text);
    json_decref(o);
}

/* ---- log-probabilities ---- */

static json_t *bytes_of(const char *p, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer((unsigned char)p[i]));
    return list;
}

static json_t *real_of(double logprob)
{
    return json_real(logprob >= least_logprob ? logprob : least_logprob);
}

/* A token of a text API: what is no text is written as its bytes. */
static json_t *name_of(const char *p, size_t n)
{
    char   text[256] = "bytes:";
    size_t at = 0, len = 1, used = strlen(text);
    while (at < n && len) at += len = ts_utf8_length((const unsigned char *)p + at, n - at);
    if (len) return json_stringn(p, n);
    for (size_t i = 0; i < n && used + 5 < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "\\x%02x", (unsigned char)p[i]);
    return json_string(text);
}

static json_t *chat_mark(const ts_api_choice *c, int32_t token, int32_t previous, double logprob)
{
    size_t      n;
    const char *p = ts_tokenizer_piece(c->call->o->t, previous, token, &n);
    return json_pack("{so,so,so}", "token", string_of(p, n), "logprob", real_of(logprob), "bytes",
                     bytes_of(p, n));
}

static json_t *chat_marks(const ts_api_choice *c, int64_t from, int64_t to)
{
    const int k = c->call->ask.n_likely;
    json_t   *list = json_array();
    for (int64_t i = from; i < to; i++) {
        const ts_api_mark *m = &c->mark[i];
        json_t *one = chat_mark(c, m->token, m->previous, m->logprob), *top = json_array();
        for (int j = 0; j < k; j++) {
            const ts_likely *l = &c->likely[i * k + j];
            json_array_append_new(top, chat_mark(c, l->token, m->previous, l->logprob));
        }
        json_object_set_new(one, "top_logprobs", top);
        json_array_append_new(list, one);
    }
    return json_pack("{so,sn}", "content", list, "refusal");
}

/* Offsets are in characters. */
static json_int_t characters(const char *p, size_t n)
{
    json_int_t count = 0;
    for (size_t i = 0; i < n; i++) count += ((unsigned char)p[i] & 0xc0) != 0x80;
    return count;
}

static json_t *text_marks(const ts_api_choice *c, int64_t from, int64_t to)
{
    const int k = c->call->ask.n_likely;
    json_t   *tokens = json_array(), *logprobs = json_array(), *tops = json_array(),
           *offsets = json_array();
    for (int64_t i = from; i < to; i++) {
        const ts_api_mark *m = &c->mark[i];
        size_t             n;
        const char        *p = ts_tokenizer_piece(c->call->o->t, m->previous, m->token, &n);
        json_t            *top = json_object();
        json_array_append_new(tokens, name_of(p, n));
        json_array_append_new(logprobs, real_of(m->logprob));
        json_array_append_new(offsets, json_integer(characters(c->text.p, m->at)));
        for (int j = 0; j < k; j++) {
            const ts_likely *l = &c->likely[i * k + j];
            p = ts_tokenizer_piece(c->call->o->t, m->previous, l->token, &n);
            json_t *name = name_of(p, n);
            json_object_set_new(top, json_string_value(name), real_of(l->logprob));
            json_decref(name);
        }
        json_array_append_new(tops, top);
    }
    if (!k) {
        json_decref(tops);
        tops = json_null();
    }
    return json_pack("{so,so,so,so}", "tokens", tokens, "token_logprobs", logprobs, "top_logprobs",
                     tops, "text_offset", offsets);
}

/* Of the tokens whose bytes begin before `end`; tokens that a stop text removed have none. */
static json_t *marks(const ts_api_choice *c, int64_t from, size_t end, int64_t *to)
{
    *to = from;
    if (!c->call->ask.logprobs) return json_null();
    while (*to < c->n_mark && (c->mark[*to].at < end || (c->ended && !c->text.stopped))) ++*to;
    return c->call->ask.chat ? chat_marks(c, from, *to) : text_marks(c, from, *to);
}

/* ---- answers ---- */

static json_t *head(const ts_api_call *c, const char *object, json_t *choices)
{
    return json_pack("{ss,ss,sI,ss,so}", "id", c->id, "object", object, "created",
                     (json_int_t)c->created, "model", c->o->name, "choices", choices);
}

static json_t *finish_of(const ts_api_choice *c)
{
    if (!c->ended) return json_null();
    return json_string(c->finish == TS_FINISH_STOP ? "stop" : "length");
}

static json_t *usage_of(const ts_api_call *c)
{
    int64_t       prompt, shared;
    const int64_t made = ts_api_call_tokens(c, &prompt, &shared);
    return json_pack("{sI,sI,sI,s{sI}}", "prompt_tokens", (json_int_t)prompt, "completion_tokens",
                     (json_int_t)made, "total_tokens", (json_int_t)(prompt + made),
                     "prompt_tokens_details", "cached_tokens", (json_int_t)shared);
}

/* The prompt as text, for echo. */
static void echo(const ts_api_choice *c, ts_text *out)
{
    const json_t *p = json_array_get(c->call->ask.prompts, (size_t)(c->index / c->call->ask.n));
    if (json_is_string(p)) {
        ts_text_add(out, json_string_value(p), json_string_length(p), NULL, 0);
        return;
    }
    for (int64_t i = 0; i < c->n_prompt; i++) {
        size_t      n;
        const char *piece =
            ts_tokenizer_piece(c->call->o->t, i ? c->prompt[i - 1] : -1, c->prompt[i], &n);
        ts_text_add(out, piece, n, NULL, 0);
    }
}

static json_t *text_of(const ts_api_choice *c, bool first, size_t from, size_t to)
{
    ts_text all = { 0 };
    if (first && c->call->ask.echo) echo(c, &all);
    if (to > from) ts_text_add(&all, c->text.p + from, to - from, NULL, 0);
    json_t *s = string_of(all.p, all.n);
    free(all.p);
    return s;
}

void ts_api_reply_delta(ts_api_choice *c, ts_text *out)
{
    const ts_api_call *call = c->call;
    const bool         chat = call->ask.chat, first = !c->begun;
    size_t             to = c->ended ? c->text.n : c->text.p ? whole(c->text.p, c->text.n_sure) : 0;
    int64_t            n_mark;
    if (to < c->n_sent) to = c->n_sent;
    if (!first && !c->ended && to == c->n_sent) return;
    json_t *choice = json_pack("{sI}", "index", (json_int_t)c->index);
    json_t *text = text_of(c, first, c->n_sent, to);
    json_object_set_new(choice, "logprobs", marks(c, c->n_mark_sent, to, &n_mark));
    if (!chat) json_object_set_new(choice, "text", text);
    else {
        json_t *delta = json_object();
        if (first) json_object_set_new(delta, "role", json_string("assistant"));
        if (first || to > c->n_sent) json_object_set(delta, "content", text);
        json_decref(text);
        json_object_set_new(choice, "delta", delta);
    }
    json_object_set_new(choice, "finish_reason", finish_of(c));
    json_t *o =
        head(call, chat ? "chat.completion.chunk" : "text_completion", json_pack("[o]", choice));
    if (call->ask.usage) json_object_set_new(o, "usage", json_null());
    put_json(out, o, true);
    c->n_sent = to;
    c->n_mark_sent = n_mark;
    c->begun = true;
}

void ts_api_reply_tail(const ts_api_call *c, ts_text *out)
{
    if (c->ask.usage) {
        json_t *o =
            head(c, c->ask.chat ? "chat.completion.chunk" : "text_completion", json_array());
        json_object_set_new(o, "usage", usage_of(c));
        put_json(out, o, true);
    }
    put(out, "data: [DONE]\n\n");
}

void ts_api_reply_whole(const ts_api_call *c, ts_text *out)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < c->n_choice; i++) {
        const ts_api_choice *k = &c->choice[i];
        int64_t              n_mark;
        json_t              *choice = json_pack("{sI}", "index", (json_int_t)i),
               *text = text_of(k, true, 0, k->text.n);
        if (c->ask.chat)
            json_object_set_new(
                choice, "message",
                json_pack("{ss,so,sn}", "role", "assistant", "content", text, "refusal"));
        else json_object_set_new(choice, "text", text);
        json_object_set_new(choice, "logprobs", marks(k, 0, k->text.n, &n_mark));
        json_object_set_new(choice, "finish_reason", finish_of(k));
        json_array_append_new(list, choice);
    }
    json_t *o = head(c, c->ask.chat ? "chat.completion" : "text_completion", list);
    json_object_set_new(o, "usage", usage_of(c));
    put_json(out, o, false);
}

void ts_api_reply_refusal(const ts_api_refusal *f, bool stream, ts_text *out)
{
    put_json(out,
             json_pack("{s{ss,ss,ss?,ss?}}", "error", "message", f->message, "type", f->type,
                       "param", *f->param ? f->param : NULL, "code", f->code),
             stream);
}

void ts_api_reply_models(const ts_serve_options *o, int64_t created, bool one, ts_text *out)
{
    json_t *model = json_pack("{ss,ss,sI,ss}", "id", o->name, "object", "model", "created",
                              (json_int_t)created, "owned_by", "touchstone");
    put_json(out, one ? model : json_pack("{ss,s[o]}", "object", "list", "data", model), false);
}

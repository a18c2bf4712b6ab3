/* SPDX-License-Identifier: Apache-2.0 */
/* api_ask.c - reads the JSON body of a request.
 *
 * null counts as absent. A parameter that this server does not implement is accepted with the value
 * that has no effect, and rejected with any other; an unknown one is rejected. */
#define _POSIX_C_SOURCE 200809L
#include "api_ask.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A temperature whose inverse is no float is as good as 0. */
static const double least_temperature = 1e-6;

bool ts_api_refuse(ts_api_refusal *f, int status, const char *param, const char *format, ...)
{
    va_list v;
    *f = (ts_api_refusal) { .status = status,
                            .type = status >= 500 ? "server_error" : "invalid_request_error" };
    va_start(v, format);
    vsnprintf(f->message, sizeof f->message, format, v);
    va_end(v);
    if (param) snprintf(f->param, sizeof f->param, "%s", param);
    char *const text[] = { f->message, f->param };
    for (int i = 0; i < 2; i++)
        for (char *p = text[i]; *p; p++)
            if (*p < ' ' || *p > '~') *p = '?';
    return false;
}

typedef struct reader {
    const json_t            *o;
    const ts_api_ask_limits *l;
    ts_api_ask              *a;
    ts_api_refusal          *f;
} reader;

/* NULL if absent or null. */
static json_t *get(const reader *r, const char *key)
{
    json_t *v = json_object_get(r->o, key);
    return json_is_null(v) ? NULL : v;
}

static const char *kind(const json_t *v)
{
    static const char *const names[] = { "an object", "an array", "a string", "an integer",
                                         "a number",  "true",     "false",    "null" };
    return names[json_typeof(v)];
}

static bool wrong(const reader *r, const char *key, const json_t *v, const char *expected)
{
    return ts_api_refuse(r->f, 400, key, "%s: got %s, expected %s", key, kind(v), expected);
}

/* ---- values ---- */

static bool read_bool(const reader *r, const char *key, bool *value)
{
    const json_t *v = get(r, key);
    if (v && !json_is_boolean(v)) return wrong(r, key, v, "true or false");
    if (v) *value = json_is_true(v);
    return true;
}

static bool read_integer(const reader *r, const char *key, int64_t lo, int64_t hi, int64_t *value)
{
    const json_t *v = get(r, key);
    if (!v) return true;
    if (!json_is_integer(v)) return wrong(r, key, v, "an integer");
    const int64_t n = json_integer_value(v);
    if (n < lo || n > hi)
        return ts_api_refuse(r->f, 400, key, "%s: got %lld, expected %lld to %lld", key,
                             (long long)n, (long long)lo, (long long)hi);
    *value = n;
    return true;
}

static bool read_number(const reader *r, const char *key, double lo, double hi, double *value)
{
    const json_t *v = get(r, key);
    if (!v) return true;
    if (!json_is_number(v)) return wrong(r, key, v, "a number");
    const double x = json_number_value(v);
    if (!(x >= lo && x <= hi))
        return ts_api_refuse(r->f, 400, key, "%s: got %g, expected %g to %g", key, x, lo, hi);
    *value = x;
    return true;
}

/* ---- parameters ---- */

static const char *const common_keys[] = { "model",       "stream", "stream_options", "max_tokens",
                                           "temperature", "top_p",  "top_k",          "seed",
                                           "n",           "stop",   "logprobs",       NULL };
static const char *const text_keys[] = { "prompt", "echo", NULL };
static const char *const chat_keys[] = { "messages", "max_completion_tokens", "top_logprobs",
                                         NULL };
/* They change no token, here as elsewhere. */
static const char *const inert_keys[] = {
    "user",      "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "verbosity", NULL
};

static bool among(const char *const *list, const char *key)
{
    for (; *list; list++)
        if (!strcmp(*list, key)) return true;
    return false;
}

/* Whether a parameter that is not implemented has the value that has no effect. */
static bool neutral(const char *key, const json_t *v, bool *known)
{
    static const char *const zero[] = { "presence_penalty", "frequency_penalty", NULL };
    static const char *const empty[] = { "logit_bias", "tools", "functions", "suffix", NULL };
    const char              *text = json_string_value(v);
    *known = true;
    if (among(zero, key)) return json_is_number(v) && json_number_value(v) == 0;
    if (among(empty, key))
        return (json_is_object(v) && !json_object_size(v)) ||
               (json_is_array(v) && !json_array_size(v)) || (text && !*text);
    if (!strcmp(key, "best_of")) return json_is_integer(v) && json_integer_value(v) == 1;
    if (!strcmp(key, "parallel_tool_calls")) return json_is_boolean(v);
    if (!strcmp(key, "tool_choice")) return text && !strcmp(text, "none");
    if (!strcmp(key, "response_format")) {
        const char *type = json_string_value(json_object_get(v, "type"));
        return type && !strcmp(type, "text");
    }
    return *known = false;
}

static bool check_keys(const reader *r)
{
    const char *key;
    json_t     *v;
    bool        known;
    json_object_foreach((json_t *)r->o, key, v)
    {
        if (json_is_null(v) || among(common_keys, key) || among(inert_keys, key) ||
            among(r->a->chat ? chat_keys : text_keys, key) || neutral(key, v, &known))
            continue;
        return ts_api_refuse(r->f, 400, key,
                             known ? "%.60s: this value is not supported by this server"
                                   : "%.60s: unknown parameter",
                             key);
    }
    return true;
}

static bool read_model(const reader *r)
{
    const json_t *v = get(r, "model");
    if (!v)
        return ts_api_refuse(r->f, 400, "model", "model: missing, expected '%.100s'", r->l->name);
    if (!json_is_string(v)) return wrong(r, "model", v, "a string");
    if (!strcmp(json_string_value(v), r->l->name)) return true;
    ts_api_refuse(r->f, 404, "model", "model: got '%.60s', expected '%.100s'", json_string_value(v),
                  r->l->name);
    r->f->code = "model_not_found";
    return false;
}

static bool read_stop(const reader *r)
{
    const json_t *v = get(r, "stop");
    const size_t  n = json_is_array(v) ? json_array_size(v) : v != NULL;
    if (n > TS_API_ASK_STOPS)
        return ts_api_refuse(r->f, 400, "stop", "stop: got %zu texts, expected at most %d", n,
                             (int)TS_API_ASK_STOPS);
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_string(text)) return wrong(r, "stop", text, "a string or an array of strings");
        if (!json_string_length(text))
            return ts_api_refuse(r->f, 400, "stop", "stop: got an empty text");
        r->a->stop[r->a->n_stop++] = json_string_value(text);
    }
    return true;
}

static bool read_stream(const reader *r)
{
    const json_t *o = get(r, "stream_options"), *v;
    const char   *key;
    if (!read_bool(r, "stream", &r->a->stream) || !o) return !r->f->status;
    if (!json_is_object(o)) return wrong(r, "stream_options", o, "an object");
    if (!r->a->stream)
        return ts_api_refuse(r->f, 400, "stream_options", "stream_options: needs stream");
    json_object_foreach((json_t *)o, key, v)
    {
        if (json_is_null(v) || !strcmp(key, "include_obfuscation")) continue; /* only pads */
        if (strcmp(key, "include_usage"))
            return ts_api_refuse(r->f, 400, "stream_options",
                                 "stream_options.%.60s: unknown parameter", key);
        if (!json_is_boolean(v))
            return wrong(r, "stream_options.include_usage", v, "true or false");
        r->a->usage = json_is_true(v);
    }
    return true;
}

static bool read_logprobs(const reader *r)
{
    int64_t n = 0;
    if (!r->a->chat) {
        r->a->logprobs = get(r, "logprobs");
        if (!read_integer(r, "logprobs", 0, TS_MODEL_LIKELY, &n)) return false;
        if (r->a->logprobs && r->a->echo)
            return ts_api_refuse(r->f, 400, "echo", "echo: not supported together with logprobs");
    } else {
        if (!read_bool(r, "logprobs", &r->a->logprobs) ||
            !read_integer(r, "top_logprobs", 0, TS_MODEL_LIKELY, &n))
            return false;
        if (n && !r->a->logprobs)
            return ts_api_refuse(r->f, 400, "top_logprobs", "top_logprobs: needs logprobs");
    }
    r->a->n_likely = (int)(n < r->l->n_vocab ? n : r->l->n_vocab);
    return true;
}

static bool read_lengths(const reader *r)
{
    static const char newer[] = "max_completion_tokens";
    const int64_t     least = r->a->chat;
    int64_t           n = -1;
    if (!read_integer(r, "max_tokens", least, INT64_MAX, &r->a->n_new) ||
        (r->a->chat && !read_integer(r, newer, least, INT64_MAX, &n)))
        return false;
    if (n >= 0 && r->a->n_new >= 0 && n != r->a->n_new)
        return ts_api_refuse(r->f, 400, newer, "%s: got %lld, expected %lld as in max_tokens",
                             newer, (long long)n, (long long)r->a->n_new);
    if (n >= 0) r->a->n_new = n;
    if (r->a->n_new < 0 && !r->a->chat) r->a->n_new = 16; /* the API's default */
    return read_integer(r, "n", 1, r->l->n_choice, &r->a->n);
}

static bool read_sampling(const reader *r)
{
    ts_sampling *s = &r->a->sampling;
    int64_t      seed = 0;
    *s = r->l->sampling;
    r->a->seeded = get(r, "seed");
    if (!read_number(r, "temperature", 0, 2, &s->temperature) ||
        !read_number(r, "top_p", 0, 1, &s->top_p) ||
        !read_integer(r, "top_k", 0, INT64_MAX, &s->top_k) ||
        !read_integer(r, "seed", INT64_MIN, INT64_MAX, &seed))
        return false;
    if (s->temperature < least_temperature) s->temperature = 0;
    if (r->a->seeded) s->seed = (uint64_t)seed;
    return true;
}

/* ---- prompts ---- */

static bool is_tokens(const json_t *list)
{
    return json_is_array(list) && json_is_integer(json_array_get(list, 0));
}

static bool check_tokens(const reader *r, const json_t *list)
{
    const json_t *v;
    size_t        i;
    json_array_foreach((json_t *)list, i, v)
    {
        if (!json_is_integer(v)) return wrong(r, "prompt", v, "an integer in a list of tokens");
        if (json_integer_value(v) < 0 || json_integer_value(v) >= r->l->n_vocab)
            return ts_api_refuse(r->f, 400, "prompt",
                                 "prompt: token %zu is %lld, expected 0 to %lld", i,
                                 (long long)json_integer_value(v), (long long)r->l->n_vocab - 1);
    }
    return true;
}

/* A text, texts, tokens, or lists of tokens: made a list of texts and lists of tokens. */
static bool read_prompts(const reader *r)
{
    json_t *v = get(r, "prompt"), *item;
    size_t  i;
    if (!v) return ts_api_refuse(r->f, 400, "prompt", "prompt: missing");
    if (!json_is_array(v) && !json_is_string(v))
        return wrong(r, "prompt", v, "a string, an array of strings, or tokens");
    if (json_is_string(v) || is_tokens(v)) {
        r->a->prompts = json_array();
        if (json_array_append(r->a->prompts, v))
            return ts_api_refuse(r->f, 500, NULL, "out of memory");
    } else r->a->prompts = json_incref(v);
    json_array_foreach(r->a->prompts, i, item)
    {
        if (is_tokens(item)
                ? !check_tokens(r, item)
                : !json_is_string(item) && !wrong(r, "prompt", item, "a string, or tokens"))
            return false;
    }
    const int64_t n = (int64_t)json_array_size(r->a->prompts);
    if (n < 1) return ts_api_refuse(r->f, 400, "prompt", "prompt: got an empty list");
    if (n > r->l->n_choice / r->a->n)
        return ts_api_refuse(r->f, 400, "prompt",
                             "prompt: got %lld prompts with %lld choices each, expected at most "
                             "%lld in all",
                             (long long)n, (long long)r->a->n, (long long)r->l->n_choice);
    return true;
}

/* ---- messages ---- */

static bool wrong_part(const reader *r, size_t i, const char *expected)
{
    char param[64];
    snprintf(param, sizeof param, "messages[%zu]", i);
    return ts_api_refuse(r->f, 400, param, "messages[%zu]: expected %s", i, expected);
}

/* A string, or parts that are text, one after the other. */
static char *content_of(const json_t *v)
{
    const json_t *part, *text, *type;
    const char   *key;
    size_t        i, n = 0;
    char         *all = NULL;
    if (json_is_string(v)) return strdup(json_string_value(v));
    if (!json_is_array(v)) return NULL;
    json_array_foreach((json_t *)v, i, part)
    {
        json_t *other;
        type = json_object_get(part, "type");
        text = json_object_get(part, "text");
        if (!json_is_string(type) || strcmp(json_string_value(type), "text") ||
            !json_is_string(text))
            return NULL;
        json_object_foreach((json_t *)part, key, other)
        {
            if (strcmp(key, "type") && strcmp(key, "text") && !json_is_null(other)) return NULL;
        }
        n += json_string_length(text);
    }
    all = calloc(n + 1, 1);
    n = 0;
    json_array_foreach((json_t *)v, i, part)
    {
        text = json_object_get(part, "text");
        if (all) memcpy(all + n, json_string_value(text), json_string_length(text));
        n += json_string_length(text);
    }
    return all;
}

static bool read_message(const reader *r, size_t i, const json_t *v)
{
    static const char *const roles[] = { "system", "user", "assistant", NULL };
    const json_t            *role = json_object_get(v, "role"), *content, *other;
    const char              *name = json_string_value(role), *key;
    if (!json_is_object(v)) return wrong_part(r, i, "an object with role and content");
    if (name && !strcmp(name, "developer")) name = "system";
    if (!name || !among(roles, name))
        return wrong_part(r, i, "a role: system, developer, user or assistant");
    json_object_foreach((json_t *)v, key, other)
    {
        if (!json_is_null(other) && strcmp(key, "role") && strcmp(key, "content"))
            return wrong_part(r, i, "role and content only");
    }
    content = json_object_get(v, "content");
    char *text = content_of(content);
    if (!text) return wrong_part(r, i, "a content: a string, or a list of {type: text, text}");
    r->a->message[r->a->n_message++] = (ts_message) { name, text };
    return true;
}

static bool read_messages(const reader *r)
{
    const json_t *v = get(r, "messages"), *item;
    size_t        i;
    if (!v) return ts_api_refuse(r->f, 400, "messages", "messages: missing");
    if (!json_is_array(v)) return wrong(r, "messages", v, "an array");
    if (!json_array_size(v))
        return ts_api_refuse(r->f, 400, "messages", "messages: got an empty list");
    r->a->message = calloc(json_array_size(v), sizeof *r->a->message);
    if (!r->a->message) return ts_api_refuse(r->f, 500, NULL, "out of memory");
    json_array_foreach((json_t *)v, i, item)
    {
        if (!read_message(r, i, item)) return false;
    }
    return true;
}

/* ---- the body ---- */

bool ts_api_ask_read(const char *body, size_t n, bool chat, const ts_api_ask_limits *l,
                     ts_api_ask *a, ts_api_refusal *f)
{
    json_error_t e;
    *a = (ts_api_ask) { .chat = chat, .n = 1, .n_new = -1 };
    *f = (ts_api_refusal) { 0 };
    a->body = json_loadb(body, n, JSON_REJECT_DUPLICATES, &e);
    if (!a->body)
        return ts_api_refuse(f, 400, NULL, "body: invalid JSON in line %d, column %d: %.150s",
                             e.line, e.column, e.text);
    const reader r = { a->body, l, a, f };
    if (!json_is_object(a->body))
        return ts_api_refuse(f, 400, NULL, "body: got %s, expected an object", kind(a->body));
    return read_model(&r) && check_keys(&r) && read_stream(&r) && read_bool(&r, "echo", &a->echo) &&
           read_stop(&r) && read_logprobs(&r) && read_lengths(&r) && read_sampling(&r) &&
           (chat ? read_messages(&r) : read_prompts(&r));
}

void ts_api_ask_free(ts_api_ask *a)
{
    for (int64_t i = 0; i < a->n_message; i++) free((char *)(uintptr_t)a->message[i].content);
    free(a->message);
    json_decref(a->prompts);
    json_decref(a->body);
    *a = (ts_api_ask) { 0 };
}

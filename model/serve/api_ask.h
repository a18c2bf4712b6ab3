/* SPDX-License-Identifier: Apache-2.0 */
/* api_ask.h - the body of a request, read and checked.
 *
 * A body is untrusted. What is not supported is rejected, never ignored. */
#ifndef TS_SERVE_API_ASK_H
#define TS_SERVE_API_ASK_H

#include <jansson.h>

#include "decoder.h"

/* An error as the API tells it. */
typedef struct ts_api_refusal {
    int         status; /* of HTTP */
    const char *type, *code;
    char        param[64]; /* "": none */
    char        message[TS_MODEL_WHY];
} ts_api_refusal;

/* Fills the fault, with anything unprintable as '?', and returns false. `param` may be NULL. */
bool ts_api_refuse(ts_api_refusal *f, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

typedef struct ts_api_ask_limits {
    const char *name; /* of the model */
    ts_sampling sampling;
    int64_t     n_vocab;
    int64_t     n_choice; /* the most that one request may have */
} ts_api_ask_limits;

enum { TS_API_ASK_STOPS = 8 };

typedef struct ts_api_ask {
    bool        chat, stream, usage, echo;
    bool        logprobs;
    int         n_likely;
    int64_t     n;     /* choices per prompt */
    int64_t     n_new; /* -1: not given */
    ts_sampling sampling;
    bool        seeded;
    const char *stop[TS_API_ASK_STOPS];
    int         n_stop;

    json_t     *body;    /* owns the texts */
    json_t     *prompts; /* of completions: strings, or arrays of tokens */
    ts_message *message; /* of a chat */
    int64_t     n_message;
} ts_api_ask;

/* The caller frees in any case. */
bool ts_api_ask_read(const char *body, size_t n, bool chat, const ts_api_ask_limits *l,
                     ts_api_ask *a, ts_api_refusal *f);
void ts_api_ask_free(ts_api_ask *a);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* api_call.h - a request under way: its prompts, its choices as they grow, and the bytes to send.
 *
 * A call belongs to the thread that makes it until it is submitted. From then on the batcher's lock
 * guards it, and it is freed when both the batcher and the connection have let it go. */
#ifndef TS_SERVE_API_CALL_H
#define TS_SERVE_API_CALL_H

#include "api_ask.h"
#include "clock.h"
#include "server.h"

/* A token with its log-probability. */
typedef struct ts_api_mark {
    int32_t token, previous;
    size_t  at; /* where its bytes begin in the text */
    double  logprob;
} ts_api_mark;

typedef struct ts_api_call ts_api_call;

/* One text of the answer. */
typedef struct ts_api_choice {
    ts_api_call   *call;
    int64_t        index;
    const int32_t *prompt;
    int64_t        n_prompt;
    int64_t        request; /* the engine's number; -1: none */
    int32_t        last;    /* token */
    int64_t        n_token, n_shared;
    ts_text        text;
    size_t         n_sent; /* bytes of it */
    bool           begun, ended;
    ts_finish      finish;
    ts_api_mark   *mark;   /* [n_mark], with logprobs */
    ts_likely     *likely; /* [n_mark][n_likely] */
    int64_t        n_mark, n_mark_sent, room;
} ts_api_choice;

struct ts_api_call {
    const ts_serve_options *o;
    ts_api_ask              ask;
    char                    id[40];
    int64_t                 created; /* Unix time */
    int64_t                 n_prompts;
    int32_t               **prompt; /* tokens */
    int64_t                *n_prompt;
    int64_t                 n_choice, n_left;
    ts_api_choice          *choice;

    int            status; /* of HTTP; 0: not known yet */
    ts_api_refusal fault;
    ts_text        out;           /* to send */
    size_t         n_read;        /* of it, sent */
    bool           done;          /* nothing comes after `out` */
    bool           gone, expired; /* the client, its time */
    bool           cancelled;     /* the engine was told */

    int   fd;                  /* of the client; -1: none */
    void *server, *connection; /* of http.c */
    bool  waits;
    int   n_owner;

    double       from_s, first_s, end_s; /* arrival, first token, end; 0: not yet */
    ts_api_call *next;
};

/* Takes ownership of the request. NULL and a fault if a prompt cannot be encoded or does not fit.
 * */
ts_api_call *ts_api_call_make(const ts_serve_options *o, ts_api_ask *ask, uint64_t number,
                              ts_api_refusal *f);
void         ts_api_call_free(ts_api_call *c);

/* Adds a token. False if memory is short. */
bool ts_api_call_token(ts_api_choice *c, const ts_event *e);

/* ---- api_reply.c: all append to `out` ---- */

/* What a stream can send of a choice by now: nothing, or one event. */
void ts_api_reply_delta(ts_api_choice *c, ts_text *out);
/* The end of a stream, after the last choice. */
void ts_api_reply_tail(const ts_api_call *c, ts_text *out);
void ts_api_reply_whole(const ts_api_call *c, ts_text *out);
void ts_api_reply_refusal(const ts_api_refusal *f, bool stream, ts_text *out);
void ts_api_reply_models(const ts_serve_options *o, int64_t created, bool one, ts_text *out);

int64_t ts_api_call_tokens(const ts_api_call *c, int64_t *prompt, int64_t *shared); /* made */

#endif

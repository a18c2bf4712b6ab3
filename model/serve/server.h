/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - the OpenAI API over HTTP for one model: completions, chat, models, metrics.
 *
 * One thread steps the engine; libmicrohttpd's threads read requests and send what was made. */
#ifndef TS_SERVE_SERVER_H
#define TS_SERVE_SERVER_H

#include <stdio.h>

#include "decoder.h"

typedef struct ts_serve_options {
    const char *host; /* name or address to listen on */
    uint16_t    port; /* 0: any free one */
    const char *name; /* what the API calls the model */
    const char *key;  /* what clients must send as bearer token; NULL: nothing */

    const ts_decoder   *m;
    const ts_tokenizer *t;
    ts_chat            *chat;     /* NULL: the model has no template */
    const char         *no_chat;  /* then: why */
    ts_engine_options   engine;   /* paged */
    ts_sampling         sampling; /* of requests that do not say; its seed begins all draws */
    int32_t             stop[TS_MODEL_STOPS];
    int                 n_stop;

    int64_t n_wait;    /* choices that may wait while engine.n_seq run */
    int64_t n_new;     /* most tokens of a choice; 0: what the context allows */
    size_t  n_body;    /* bytes of a request */
    double  request_s; /* for a request from its arrival to its end */
    double  receive_s; /* for a client to send a request, or to take what was sent */
    double  drain_s;   /* for requests that run when the server is to end */
    FILE   *log;       /* one line of JSON per request; NULL: none */
} ts_serve_options;

typedef struct ts_serve_totals {
    int64_t n_request, n_failed, n_cancelled; /* failed: with a status from 400 on */
    int64_t n_token;                          /* made */
    int64_t n_page_lost;                      /* still in use when nothing ran: 0 */
} ts_serve_totals;

/* Listens, calls `ready` with the port, and returns after SIGINT or SIGTERM, when what was running
 * has ended or been cut. False and a line in `why` if it cannot listen. */
bool ts_serve(const ts_serve_options *o, void (*ready)(const ts_serve_options *o, unsigned port),
              ts_serve_totals *totals, char why[TS_MODEL_WHY]);

#endif

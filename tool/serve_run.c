/* SPDX-License-Identifier: Apache-2.0 */
/* serve_run.c - loads a model, runs the server until a signal, and prints a summary. */
#define _GNU_SOURCE
#include "server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "model_open.h"
#include "serve_plan.h"

enum { DEFAULT_CONTEXT = 4096, PAGE = 16 };

typedef struct service {
    const ts_serve_plan *p;
    ts_decoder          *m;
    ts_tokenizer        *t;
    ts_chat             *c;
    ts_generation        model;
    char                *key;
    char                 name[256], no_chat[TS_MODEL_WHY];
    ts_serve_options     o;
} service;

/* A model without a template supports completions only. */
static bool open_template(service *h)
{
    const char *file = h->p->template;
    char        why[TS_MODEL_WHY];
    size_t      n;
    if (!file) {
        ts_chat_load(h->p->m.model, &h->c, h->no_chat);
        return true;
    }
    char      *source = ts_read_text(file, &n);
    const bool ok = source && (ts_chat_parse(source, n, &h->c, why) || ts_complain(file, why));
    free(source);
    return ok;
}

static bool read_key(service *h)
{
    size_t n;
    if (!h->p->key_file) return true;
    h->key = ts_read_text(h->p->key_file, &n);
    if (!h->key) return false;
    h->key[n] = 0;
    h->key[strcspn(h->key, "\r\n")] = 0;
    return *h->key || ts_complain(h->p->key_file, "got an empty first line, expected a key");
}

/* The last part of the path, without .gguf. */
static const char *name_of(service *h)
{
    if (h->p->name) return h->p->name;
    snprintf(h->name, sizeof h->name, "%s", h->p->m.model);
    size_t n = strlen(h->name);
    while (n > 1 && h->name[n - 1] == '/') h->name[--n] = 0;
    if (n > 5 && !strcmp(h->name + n - 5, ".gguf")) h->name[n - 5] = 0;
    const char *slash = strrchr(h->name, '/');
    return slash && slash[1] ? slash + 1 : h->name;
}

static bool settle_engine(service *h)
{
    const ts_serve_plan   *p = h->p;
    const ts_decoder_dims *d = ts_decoder_dims_of(h->m);
    const int64_t          usual = d->n_context < DEFAULT_CONTEXT ? d->n_context : DEFAULT_CONTEXT;
    const int64_t          capacity = p->context ? p->context : usual;
    const int64_t          cache = p->cache ? p->cache : 4 * capacity;
    if (cache < capacity)
        return ts_fail("--cache: got %lld tokens, expected at least %lld, the context",
                       (long long)cache, (long long)capacity);
    h->o.engine = (ts_engine_options) { .n_seq = p->n_seq,
                                        .capacity = capacity,
                                        .page = PAGE,
                                        .n_page = d->n_layer * ((cache + PAGE - 1) / PAGE),
                                        .chunk = p->m.chunk,
                                        .store = p->store < 0 ? p->m.dtype : (ts_dtype)p->store,
                                        .n_threads = (int)p->m.n_threads,
                                        .share = true,
                                        .n_keep = p->n_keep };
    return true;
}

static bool prepare(service *h)
{
    const ts_serve_plan *p = h->p;
    uint64_t             seed = p->m.seed;
    if (!read_key(h) || !open_template(h) || !ts_model_open(&p->m, &h->m, &h->t, &h->model))
        return false;
    if (!h->model.found) h->model.sampling.temperature = 1; /* the API's default */
    if (!p->seeded && getrandom(&seed, sizeof seed, 0) != sizeof seed)
        return ts_complain("--seed", "no random number to be had; name one");
    h->o = (ts_serve_options) { .host = p->host,
                                .port = (uint16_t)p->port,
                                .name = name_of(h),
                                .key = h->key,
                                .m = h->m,
                                .t = h->t,
                                .chat = h->c,
                                .no_chat = h->no_chat,
                                .sampling = ts_model_sampling(&h->model, &p->m),
                                .n_wait = p->n_wait,
                                .n_new = p->n_new,
                                .n_body = (size_t)p->n_body * 1024,
                                .request_s = p->request_s,
                                .receive_s = p->receive_s,
                                .drain_s = p->drain_s,
                                .log = p->quiet ? NULL : stderr };
    h->o.sampling.seed = seed;
    h->o.n_stop = ts_model_stops(h->m, h->t, &h->model, h->o.stop);
    return settle_engine(h);
}

static FILE *out; /* standard error if JSON goes to standard output */

static void say_ready(const ts_serve_options *o, unsigned port)
{
    const bool v6 = strchr(o->host, ':');
    fprintf(out, "serving %s at http://%s%s%s:%u/v1\n", o->name, v6 ? "[" : "", o->host,
            v6 ? "]" : "", port);
    fflush(out);
}

int ts_serve_run(const ts_serve_plan *p)
{
    service         h = { .p = p };
    ts_json        *json = NULL;
    ts_serve_totals n;
    char            why[TS_MODEL_WHY];
    int             status = TS_EXIT_BROKEN;
    out = p->m.json && !strcmp(p->m.json, "-") ? stderr : stdout;
    if (prepare(&h) && ts_json_open(p->m.json, &json)) {
        if (!ts_serve(&h.o, say_ready, &n, why)) ts_fail("%s", why);
        else {
            fprintf(out, "served %lld requests, %lld tokens; %lld failed, %lld cancelled\n",
                    (long long)n.n_request, (long long)n.n_token, (long long)n.n_failed,
                    (long long)n.n_cancelled);
            ts_json_int(json, "requests", n.n_request);
            ts_json_int(json, "tokens", n.n_token);
            ts_json_int(json, "failed", n.n_failed);
            ts_json_int(json, "cancelled", n.n_cancelled);
            ts_json_int(json, "pages_lost", n.n_page_lost);
            status = n.n_page_lost ? TS_EXIT_FAILED : TS_EXIT_PASSED;
            if (n.n_page_lost)
                ts_fail("cache: %lld pages in use, expected 0", (long long)n.n_page_lost);
        }
        if (!ts_json_close(p->m.json, json)) status = TS_EXIT_BROKEN;
    }
    free(h.key);
    ts_chat_free(&h.c);
    ts_tokenizer_free(&h.t);
    ts_decoder_free(&h.m);
    return status;
}

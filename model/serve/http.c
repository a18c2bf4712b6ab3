/* SPDX-License-Identifier: Apache-2.0 */
/* http.c - the API's paths on libmicrohttpd.
 *
 * A connection that waits for the batcher is suspended and resumed by it. A suspended connection
 * has no time-out, and libmicrohttpd's own restarts with each byte: so connections that take too
 * long to send a request are closed by the clock (clients.h). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "api_metrics.h"
#include "clients.h"
#include "framing.h"

enum {
    N_THREADS = 4,
    N_ROOM = 128,           /* connections that are being closed, or not counted yet */
    MEMORY_BYTES = 1 << 18, /* of a connection, for headers and the extensions of chunks */
};

typedef struct server {
    const ts_serve_options *o;
    ts_batcher             *w;
    ts_api_ask_limits       limits;
    bool                    local; /* only this machine can reach it */
    int64_t                 created;
    ts_clients              clients;
    pthread_mutex_t         lock; /* of what follows, and of the log */
    ts_api_http_counts      counts;
    uint64_t                n_call;
} server;

/* One request, from its first line to the end of the answer. */
typedef struct request {
    char        *body;
    size_t       n, room;
    bool         too_large, ends; /* ends: the connection is closed after it */
    int          status;
    char         path[64]; /* printable; "": nothing was requested yet */
    ts_api_call *call;
    double       from_s;
} request;

/* ---- answers ---- */

static enum MHD_Result send_text(request *r, struct MHD_Connection *c, int status, const char *type,
                                 const char *allow, ts_text *text)
{
    struct MHD_Response *m =
        MHD_create_response_from_buffer(text->n, text->p, MHD_RESPMEM_MUST_FREE);
    r->status = status;
    if (!m) {
        free(text->p);
        return MHD_NO;
    }
    MHD_add_response_header(m, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (allow) MHD_add_response_header(m, MHD_HTTP_HEADER_ALLOW, allow);
    if (r->ends) MHD_add_response_header(m, MHD_HTTP_HEADER_CONNECTION, "close");
    if (status == 429 || status == 503)
        MHD_add_response_header(m, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (status == 401) MHD_add_response_header(m, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    const enum MHD_Result ok = MHD_queue_response(c, (unsigned)status, m);
    MHD_destroy_response(m);
    return ok;
}

static const char media_json[] = "application/json";

static enum MHD_Result send_fault(request *r, struct MHD_Connection *c, const ts_api_refusal *f,
                                  const char *allow)
{
    ts_text text = { 0 };
    ts_api_reply_refusal(f, false, &text);
    return send_text(r, c, f->status, media_json, allow, &text);
}

static void resume(ts_api_call *c)
{
    MHD_resume_connection(c->connection);
}

/* With the batcher's lock: it resumes the connection. */
static void wait_for(ts_api_call *c, struct MHD_Connection *connection)
{
    c->connection = connection;
    c->waits = true;
    MHD_suspend_connection(connection);
}

static ssize_t read_stream(void *user, uint64_t at, char *buffer, size_t room)
{
    request     *r = user;
    ts_api_call *c = r->call;
    server      *s = (server *)(uintptr_t)c->server;
    ssize_t      n;
    (void)at;
    ts_batcher_lock(s->w);
    if (c->n_read < c->out.n) {
        n = (ssize_t)(c->out.n - c->n_read < room ? c->out.n - c->n_read : room);
        memcpy(buffer, c->out.p + c->n_read, (size_t)n);
        c->n_read += (size_t)n;
        if (c->n_read == c->out.n) c->n_read = c->out.n = 0;
    } else if (c->done) n = MHD_CONTENT_READER_END_OF_STREAM;
    else {
        n = 0;
        wait_for(c, c->connection);
    }
    ts_batcher_unlock(s->w);
    return n;
}

static enum MHD_Result send_stream(request *r, struct MHD_Connection *c)
{
    struct MHD_Response *m =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, r, NULL);
    if (!m) return MHD_NO;
    r->status = 200;
    MHD_add_response_header(m, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    MHD_add_response_header(m, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    const enum MHD_Result ok = MHD_queue_response(c, 200, m);
    MHD_destroy_response(m);
    return ok;
}

/* ---- generation ---- */

/* The end of a call that is no stream. */
static enum MHD_Result answer(server *s, request *r, struct MHD_Connection *c)
{
    ts_text text = { 0 };
    ts_batcher_lock(s->w);
    const int status = r->call->status;
    if (r->call->done) {
        text = r->call->out;
        r->call->out = (ts_text) { 0 };
    } else wait_for(r->call, c);
    ts_batcher_unlock(s->w);
    return text.p ? send_text(r, c, status, media_json, NULL, &text) : MHD_YES;
}

static enum MHD_Result generate(server *s, request *r, struct MHD_Connection *c, bool chat)
{
    ts_api_ask     ask;
    ts_api_refusal f;
    pthread_mutex_lock(&s->lock);
    const uint64_t number = s->n_call++;
    pthread_mutex_unlock(&s->lock);
    if (!ts_api_ask_read(r->body ? r->body : "", r->n, chat, &s->limits, &ask, &f)) {
        ts_api_ask_free(&ask);
        return send_fault(r, c, &f, NULL);
    }
    ts_api_call *call = ts_api_call_make(s->o, &ask, number, &f);
    if (!call) return send_fault(r, c, &f, NULL);
    call->server = s;
    call->connection = c;
    call->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    call->from_s = r->from_s;
    const bool stream = call->ask.stream;
    if (!ts_batcher_submit(s->w, call, &f)) {
        ts_api_call_free(call);
        return send_fault(r, c, &f, NULL);
    }
    r->call = call;
    return stream ? send_stream(r, c) : answer(s, r, c);
}

/* ---- paths ---- */

static enum MHD_Result metrics(server *s, request *r, struct MHD_Connection *c)
{
    ts_text text = { 0 };
    pthread_mutex_lock(&s->lock);
    const ts_api_http_counts counts = s->counts;
    pthread_mutex_unlock(&s->lock);
    ts_batcher_lock(s->w);
    ts_api_metrics(ts_batcher_counts(s->w), &counts, &text);
    ts_batcher_unlock(s->w);
    return send_text(r, c, 200, "text/plain; version=0.0.4", NULL, &text);
}

static enum MHD_Result health(server *s, request *r, struct MHD_Connection *c)
{
    ts_text     text = { 0 };
    const bool  ends = ts_batcher_draining(s->w);
    const char *say = ends ? "{\"status\":\"shutting down\"}\n" : "{\"status\":\"ok\"}\n";
    ts_text_add(&text, say, strlen(say), NULL, 0);
    return send_text(r, c, ends ? 503 : 200, media_json, NULL, &text);
}

static enum MHD_Result models(server *s, request *r, struct MHD_Connection *c, const char *one)
{
    ts_text        text = { 0 };
    ts_api_refusal f;
    if (one && strcmp(one, s->o->name)) {
        ts_api_refuse(&f, 404, "model", "model: got '%.60s', expected '%.100s'", one, s->o->name);
        f.code = "model_not_found";
        return send_fault(r, c, &f, NULL);
    }
    ts_api_reply_models(s->o, s->created, one, &text);
    return send_text(r, c, 200, media_json, NULL, &text);
}

typedef enum place { NOWHERE, MODELS, MODEL, COMPLETIONS, CHAT, METRICS, HEALTH } place;

static place place_of(const char *path, const char **rest)
{
    static const char model[] = "/v1/models/";
    static const struct {
        const char *path;
        place       place;
    } places[] = { { "/v1/models", MODELS },
                   { "/v1/completions", COMPLETIONS },
                   { "/v1/chat/completions", CHAT },
                   { "/metrics", METRICS },
                   { "/health", HEALTH } };
    *rest = path + sizeof model - 1;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (!strcmp(path, places[i].path)) return places[i].place;
    return strncmp(path, model, sizeof model - 1) ? NOWHERE : MODEL;
}

/* In a time that does not depend on where they differ. */
static bool same_key(const char *a, const char *b)
{
    const size_t  n = strlen(a), m = strlen(b);
    unsigned char differ = n != m;
    for (size_t i = 0; i < n; i++) differ |= (unsigned char)(a[i] ^ b[m ? i % m : 0]);
    return !differ && m;
}

static bool is_local_name(const char *host)
{
    static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i]);
        if (!strncasecmp(host, names[i], n) && (!host[n] || host[n] == ':')) return true;
    }
    return false;
}

/* Before anything of a request is believed. A page of another site that has its name resolve to
 * this machine sends its own name as Host. */
static bool allowed(const server *s, struct MHD_Connection *c, place where, ts_api_refusal *f)
{
    const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    const char *auth =
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (s->local && host && !is_local_name(host))
        return ts_api_refuse(f, 403, NULL, "Host: got '%.60s', expected localhost or 127.0.0.1",
                             host);
    if (!s->o->key || where == HEALTH || where == METRICS) return true;
    if (auth && !strncasecmp(auth, "Bearer ", 7) && same_key(s->o->key, auth + 7)) return true;
    ts_api_refuse(f, 401, NULL, "Authorization: expected 'Bearer KEY' with the server's key");
    f->code = "invalid_api_key";
    return false;
}

static bool is_json(struct MHD_Connection *c)
{
    const char *type =
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
    const size_t n = sizeof media_json - 1;
    return type && !strncasecmp(type, media_json, n) &&
           (!type[n] || type[n] == ';' || type[n] == ' ');
}

static enum MHD_Result route(server *s, request *r, struct MHD_Connection *c, const char *path,
                             const char *method)
{
    const char    *rest;
    const place    where = place_of(path, &rest);
    const bool     post = where == COMPLETIONS || where == CHAT;
    ts_api_refusal f;
    if (!allowed(s, c, where, &f)) return send_fault(r, c, &f, NULL);
    if (where == NOWHERE) {
        ts_api_refuse(&f, 404, NULL,
                      "path: got '%.60s', expected /v1/models, /v1/completions, "
                      "/v1/chat/completions, /metrics or /health",
                      path);
        return send_fault(r, c, &f, NULL);
    }
    if (post ? strcmp(method, "POST") : strcmp(method, "GET") && strcmp(method, "HEAD")) {
        ts_api_refuse(&f, 405, NULL, "method: got '%.20s', expected %s", method,
                      post ? "POST" : "GET");
        return send_fault(r, c, &f, post ? "POST" : "GET, HEAD");
    }
    if (r->too_large) {
        ts_api_refuse(&f, 413, NULL, "body: got more than %zu bytes, expected at most that many",
                      s->o->n_body);
        return send_fault(r, c, &f, NULL);
    }
    if (post && !is_json(c)) {
        ts_api_refuse(&f, 415, NULL, "Content-Type: expected application/json");
        return send_fault(r, c, &f, NULL);
    }
    switch (where) {
    case METRICS:
        return metrics(s, r, c);
    case HEALTH:
        return health(s, r, c);
    case MODELS:
    case MODEL:
        return models(s, r, c, where == MODEL ? rest : NULL);
    default:
        return generate(s, r, c, where == CHAT);
    }
}

/* ---- requests ---- */

/* What is too large is read and forgotten, so that the client hears why. */
static bool add_body(const server *s, request *r, const char *data, size_t n)
{
    if (r->too_large || n > s->o->n_body - r->n) {
        r->too_large = true;
        return true;
    }
    if (r->room - r->n < n) {
        const size_t room = 2 * r->room + n;
        char        *more = realloc(r->body, room);
        if (!more) return false;
        r->body = more;
        r->room = room;
    }
    memcpy(r->body + r->n, data, n);
    r->n += n;
    return true;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *c, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *n_data, void **context)
{
    server        *s = user;
    request       *r = *context;
    ts_api_refusal f;
    (void)version;
    if (!r) {
        *context = r = calloc(1, sizeof *r);
        if (!r) return MHD_NO;
        r->from_s = ts_seconds();
        if (ts_is_framed(c, &f)) return MHD_YES;
        r->ends = true;
        ts_clients_set_owes(&s->clients, c, false);
        return send_fault(r, c, &f, NULL);
    }
    if (*n_data) {
        const bool ok = add_body(s, r, data, *n_data);
        *n_data = 0;
        return ok ? MHD_YES : MHD_NO;
    }
    if (r->call) return answer(s, r, c); /* resumed */
    for (size_t i = 0; path[i] && i + 1 < sizeof r->path; i++)
        r->path[i] = path[i] >= ' ' && path[i] <= '~' ? path[i] : '?';
    r->from_s = ts_seconds();
    ts_clients_set_owes(&s->clients, c, false);
    return route(s, r, c, path, method);
}

/* One line of JSON per request. */
static void log_request(server *s, const request *r, bool broken)
{
    const ts_api_call *call = r->call;
    int64_t            prompt = 0, shared = 0, made = 0;
    const char        *finish = NULL;
    char               when[32];
    const time_t       now = time(NULL);
    struct tm          utc;
    if (call) {
        made = ts_api_call_tokens(call, &prompt, &shared);
        finish = broken || call->gone                       ? "cancelled"
                 : call->fault.status                       ? "error"
                 : call->choice[0].finish == TS_FINISH_STOP ? "stop"
                                                            : "length";
    }
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    json_t *o = json_pack("{ss,ss,si,sf}", "time", when, "path", r->path, "status", r->status,
                          "seconds", ts_seconds() - r->from_s);
    if (call) {
        json_t *more =
            json_pack("{ss,sb,sI,sI,sI,sf,ss}", "id", call->id, "stream", (int)call->ask.stream,
                      "prompt_tokens", (json_int_t)prompt, "cached_tokens", (json_int_t)shared,
                      "completion_tokens", (json_int_t)made, "first_token_seconds",
                      call->first_s ? call->first_s - call->from_s : 0.0, "finish", finish);
        json_object_update(o, more);
        json_decref(more);
    }
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    if (text) fprintf(s->o->log, "%s\n", text);
    free(text);
    json_decref(o);
}

static void on_end(void *user, struct MHD_Connection *c, void **context,
                   enum MHD_RequestTerminationCode why)
{
    server  *s = user;
    request *r = *context;
    if (!r) return;
    *context = NULL;
    ts_clients_set_owes(&s->clients, c, true);
    const bool broken = why != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    if (r->call) ts_batcher_lock(s->w);
    pthread_mutex_lock(&s->lock);
    s->counts.n_request++;
    if (r->status >= 100 && r->status < 600) s->counts.n_status[r->status / 100]++;
    if (s->o->log && *r->path) log_request(s, r, broken);
    pthread_mutex_unlock(&s->lock);
    if (r->call) ts_batcher_unlock(s->w);
    if (r->call) ts_batcher_release(s->w, r->call);
    free(r->body);
    free(r);
}

/* ---- listening ---- */

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static struct MHD_Daemon *listen_at(server *s, char why[TS_MODEL_WHY])
{
    const struct addrinfo want = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM };
    struct addrinfo      *a;
    char                  port[8];
    snprintf(port, sizeof port, "%u", s->o->port);
    const int bad = getaddrinfo(s->o->host, port, &want, &a);
    if (bad) {
        snprintf(why, TS_MODEL_WHY, "--host: got '%.100s': %s", s->o->host, gai_strerror(bad));
        return NULL;
    }
    s->local = is_loopback(a->ai_addr);
    errno = 0;
    struct MHD_Daemon *d = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
            (a->ai_family == AF_INET6 ? MHD_USE_IPv6 : 0),
        s->o->port, NULL, NULL, on_request, s, MHD_OPTION_SOCK_ADDR, a->ai_addr,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)N_THREADS, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(s->o->engine.n_seq + s->o->n_wait + TS_CLIENTS_OWING + N_ROOM),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)(s->o->receive_s + 1), MHD_OPTION_NOTIFY_COMPLETED, on_end, s,
        MHD_OPTION_NOTIFY_CONNECTION, ts_clients_notify, &s->clients, MHD_OPTION_END);
    const int why_not = errno;
    freeaddrinfo(a);
    if (!d)
        snprintf(why, TS_MODEL_WHY, "--port: cannot listen on %.100s, port %u: %s", s->o->host,
                 s->o->port, why_not ? strerror(why_not) : "libmicrohttpd could not start");
    return d;
}

/* Waits for SIGINT or SIGTERM; true if one came within `seconds`. */
static bool signalled(const sigset_t *set, double seconds)
{
    const struct timespec t = { (time_t)seconds,
                                (long)(1e9 * (seconds - (double)(time_t)seconds)) };
    return sigtimedwait(set, NULL, &t) > 0;
}

/* Lets what runs end, for drain_s or until another signal; then cuts it. */
static void drain(server *s, struct MHD_Daemon *d, const sigset_t *set)
{
    const double     until = ts_seconds() + s->o->drain_s;
    const MHD_socket listening = MHD_quiesce_daemon(d);
    while (ts_batcher_drain(s->w) && ts_seconds() < until && !signalled(set, 0.05))
        ts_clients_hurry(&s->clients, s->o->receive_s);
    ts_batcher_expire(s->w);
    while (ts_batcher_drain(s->w))
        signalled(set, 0.02); /* a suspended connection cannot be closed */
    /* Answers are still on their way; connections that owe one more request are ended. */
    for (double last = ts_seconds() + s->o->receive_s;
         ts_clients_count(&s->clients) && ts_seconds() < last;) {
        ts_clients_hurry(&s->clients, 0);
        signalled(set, 0.02);
    }
    MHD_stop_daemon(d);
    if (listening != MHD_INVALID_SOCKET) close(listening);
}

bool ts_serve(const ts_serve_options *o, void (*ready)(const ts_serve_options *o, unsigned port),
              ts_serve_totals *totals, char why[TS_MODEL_WHY])
{
    server s = { .o = o, .created = time(NULL) };
    s.limits = (ts_api_ask_limits) { .name = o->name,
                                     .sampling = o->sampling,
                                     .n_vocab = ts_decoder_dims_of(o->m)->n_vocab,
                                     .n_choice = o->engine.n_seq + o->n_wait };
    sigset_t set, before;
    *totals = (ts_serve_totals) { 0 };
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &set, &before); /* for all threads: this one waits for them */
    pthread_mutex_init(&s.lock, NULL);
    pthread_mutex_init(&s.clients.lock, NULL);
    struct MHD_Daemon *d = NULL;
    bool               ok = ts_batcher_start(o, resume, &s.w, why);
    if (ok && !(d = listen_at(&s, why))) {
        ok = false;
        ts_batcher_stop(&s.w);
    }
    if (ok) {
        ready(o, MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT)->port);
        while (!signalled(&set, 1)) ts_clients_hurry(&s.clients, o->receive_s);
        drain(&s, d, &set);
        ts_batcher_lock(s.w);
        totals->n_cancelled = ts_batcher_counts(s.w)->n_cancelled;
        totals->n_token = ts_batcher_counts(s.w)->n_token;
        ts_batcher_unlock(s.w);
        totals->n_request = s.counts.n_request;
        totals->n_failed = s.counts.n_status[4] + s.counts.n_status[5];
        totals->n_page_lost = ts_batcher_stop(&s.w);
    }
    pthread_mutex_destroy(&s.lock);
    pthread_mutex_destroy(&s.clients.lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* batcher.c - steps the engine while calls come and go.
 *
 * The engine belongs to this thread alone; calls, counts and the list of calls to the lock, which
 * is not held while the engine computes. Between steps the thread takes new calls and ends those
 * whose client has disconnected or whose time is up: this is seen at the socket, since a connection
 * that waits for tokens is not read. */
#define _GNU_SOURCE
#include "batcher.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"

static const double look_s = 0.02; /* between looks at the sockets */

const double ts_api_bucket_bounds[TS_API_BUCKETS] = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                      0.5,   1,    2.5,   5,    10,  30 };

struct ts_batcher {
    const ts_serve_options *o;
    void (*wake)(ts_api_call *c);
    ts_engine      *e;
    int64_t         n_added; /* the engine's next number */
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  change;
    ts_api_call    *fresh;   /* submitted, not yet with the engine */
    ts_api_call    *running; /* with it */
    int64_t         n_call, n_choice;
    bool            draining, stopping, expire;
    double          looked_s;
    struct pollfd  *fds;
    size_t          n_fds;
    ts_api_counts   counts;
};

static void observe(ts_api_histogram *h, double x)
{
    for (int i = 0; i < TS_API_BUCKETS; i++) h->count[i] += x <= ts_api_bucket_bounds[i];
    h->n++;
    h->sum += x;
}

void ts_batcher_lock(ts_batcher *w)
{
    pthread_mutex_lock(&w->lock);
}

void ts_batcher_unlock(ts_batcher *w)
{
    pthread_mutex_unlock(&w->lock);
}

const ts_api_counts *ts_batcher_counts(const ts_batcher *w)
{
    return &w->counts;
}

/* ---- ends ---- */

static void let_go(ts_api_call *c)
{
    if (!--c->n_owner) ts_api_call_free(c);
}

static void wake(ts_batcher *w, ts_api_call *c)
{
    if (!c->waits) return;
    c->waits = false;
    w->wake(c);
}

/* All choices have ended. */
static void complete(ts_batcher *w, ts_api_call *c)
{
    ts_api_call **at = &w->running;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    w->n_call--;
    w->n_choice -= c->n_choice;
    c->end_s = ts_seconds();
    observe(&w->counts.total_s, c->end_s - c->from_s);
    if (c->expired && !c->fault.status)
        ts_api_refuse(&c->fault, 504, NULL, "time: got no end within %g s", w->o->request_s);
    if (c->fault.status && c->ask.stream) ts_api_reply_refusal(&c->fault, true, &c->out);
    else if (c->fault.status) ts_api_reply_refusal(&c->fault, false, &c->out);
    else if (c->ask.stream) ts_api_reply_tail(c, &c->out);
    else ts_api_reply_whole(c, &c->out);
    c->status = c->fault.status && !c->ask.stream ? c->fault.status : 200;
    c->done = true;
    wake(w, c);
    let_go(c);
}

static void end_choice(ts_batcher *w, ts_api_choice *c, ts_status s)
{
    ts_api_call   *call = c->call;
    ts_api_counts *n = &w->counts;
    c->ended = true;
    c->request = -1;
    if (s && !call->fault.status)
        ts_api_refuse(&call->fault, 500, NULL, "generation: %s", ts_status_text(s));
    n->n_prompt += c->n_prompt;
    if (s) n->n_error++;
    else if (call->gone || call->expired) n->n_cancelled++;
    else if (c->finish == TS_FINISH_STOP) n->n_stop++;
    else n->n_length++;
    if (call->ask.stream && !call->gone && !call->expired && !s) ts_api_reply_delta(c, &call->out);
    if (!--call->n_left) complete(w, call);
    else wake(w, call);
}

/* Ends all choices that the engine still has, in its next step. */
static void cancel(ts_batcher *w, ts_api_call *c)
{
    c->cancelled = true;
    for (int64_t i = 0; i < c->n_choice; i++)
        if (c->choice[i].request >= 0) ts_engine_end(w->e, c->choice[i].request);
}

/* ---- tokens ---- */

static void tell(void *user, const ts_event *e)
{
    ts_batcher    *w = user;
    ts_api_choice *c = e->tag;
    ts_api_call   *call = c->call;
    pthread_mutex_lock(&w->lock);
    if (e->token < 0) {
        c->finish = e->finish;
        c->n_shared = e->n_shared;
        end_choice(w, c, e->status);
    } else {
        if (!call->first_s) {
            call->first_s = ts_seconds();
            observe(&w->counts.first_s, call->first_s - call->from_s);
        }
        w->counts.n_token++;
        if (!ts_api_call_token(c, e)) {
            ts_api_refuse(&call->fault, 500, NULL, "out of memory");
            cancel(w, call);
        } else if (c->text.stopped) ts_engine_end(w->e, c->request);
        else if (call->ask.stream && !call->gone) {
            const size_t before = call->out.n;
            ts_api_reply_delta(c, &call->out);
            if (call->out.n > before) wake(w, call);
        }
    }
    pthread_mutex_unlock(&w->lock);
}

/* ---- calls ---- */

static bool add_choice(ts_batcher *w, ts_api_choice *c)
{
    const ts_serve_options *o = w->o;
    const ts_api_ask       *a = &c->call->ask;
    const int64_t           most = o->n_new ? o->n_new : o->engine.capacity;
    char                    why[TS_MODEL_WHY];
    ts_request              r = { .prompt = c->prompt,
                                  .n_prompt = c->n_prompt,
                                  .n_new = a->n_new < 0 || a->n_new > most ? most : a->n_new,
                                  .sampling = a->sampling,
                                  .stop = o->stop,
                                  .n_stop = o->n_stop,
                                  .logprobs = a->logprobs,
                                  .n_likely = a->n_likely,
                                  .tag = c };
    r.sampling.seed = ts_bits(a->sampling.seed, c->index);
    if (!ts_engine_add(w->e, &r, why))
        return ts_api_refuse(&c->call->fault, 500, NULL, "request: %.200s", why);
    c->request = w->n_added++;
    return true;
}

/* Gives the engine what was submitted. */
static void take_fresh(ts_batcher *w)
{
    ts_api_call *list = w->fresh;
    w->fresh = NULL;
    while (list) {
        ts_api_call *c = list;
        list = c->next;
        c->next = w->running;
        w->running = c;
        int64_t n = 0;
        while (n < c->n_choice && add_choice(w, &c->choice[n])) n++;
        if (n == c->n_choice) continue;
        cancel(w, c);
        const int64_t n_left = c->n_left - (c->n_choice - n);
        c->n_left = n_left ? n_left : 1;
        if (!n_left) end_choice(w, &c->choice[0], TS_OK);
    }
}

/* Clients that have disconnected, seen at their sockets; every call's fd is open while it is not
 * -1. */
static void look_at_clients(ts_batcher *w)
{
    size_t n = 0;
    for (ts_api_call *c = w->running; c; c = c->next) {
        if (c->fd < 0 || n == w->n_fds) continue;
        w->fds[n++] = (struct pollfd) { .fd = c->fd, .events = POLLRDHUP };
    }
    if (!n || poll(w->fds, n, 0) < 1) return;
    n = 0;
    for (ts_api_call *c = w->running; c; c = c->next) {
        if (c->fd < 0 || n == w->n_fds) continue;
        if (w->fds[n++].revents & (POLLRDHUP | POLLHUP | POLLERR)) c->gone = true;
    }
}

static void look(ts_batcher *w)
{
    const double now = ts_seconds();
    if (now - w->looked_s < look_s) return;
    w->looked_s = now;
    look_at_clients(w);
    for (ts_api_call *c = w->running; c; c = c->next) {
        if (!c->gone && (w->expire || now - c->from_s >= w->o->request_s)) c->expired = true;
        if ((c->gone || c->expired) && !c->cancelled) cancel(w, c);
    }
}

static void *work(void *user)
{
    ts_batcher *w = user;
    bool        busy = false;
    pthread_mutex_lock(&w->lock);
    while (!w->stopping || w->n_call) {
        if (!busy && !w->fresh) {
            pthread_cond_wait(&w->change, &w->lock);
            continue;
        }
        take_fresh(w);
        look(w);
        pthread_mutex_unlock(&w->lock);
        busy = ts_engine_step(w->e, tell, w);
        pthread_mutex_lock(&w->lock);
        w->counts.engine = *ts_engine_stats_of(w->e);
        ts_engine_usage(w->e, &w->counts.cache);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

bool ts_batcher_submit(ts_batcher *w, ts_api_call *c, ts_api_refusal *f)
{
    bool ok = true;
    pthread_mutex_lock(&w->lock);
    if (w->draining)
        ok = ts_api_refuse(f, 503, NULL, "server: shutting down; send the request again later");
    else if (w->n_choice + c->n_choice > w->o->engine.n_seq + w->o->n_wait) {
        ok = ts_api_refuse(f, 429, NULL,
                           "server: %lld choices run or wait, and %lld more were requested; the "
                           "most is %lld",
                           (long long)w->n_choice, (long long)c->n_choice,
                           (long long)(w->o->engine.n_seq + w->o->n_wait));
        w->counts.n_rejected++;
    } else {
        ts_api_call **last = &w->fresh; /* in order of arrival */
        while (*last) last = &(*last)->next;
        *last = c;
        c->next = NULL;
        c->n_owner = 2;
        w->n_call++;
        w->n_choice += c->n_choice;
        pthread_cond_signal(&w->change);
    }
    pthread_mutex_unlock(&w->lock);
    return ok;
}

void ts_batcher_release(ts_batcher *w, ts_api_call *c)
{
    pthread_mutex_lock(&w->lock);
    c->fd = -1;
    c->waits = false;
    c->connection = NULL;
    if (!c->done) {
        c->gone = true;
        w->looked_s = 0; /* look at once: the engine is the batcher's */
    }
    let_go(c);
    pthread_mutex_unlock(&w->lock);
}

/* ---- making and ending ---- */

bool ts_batcher_start(const ts_serve_options *o, void (*wake)(ts_api_call *c), ts_batcher **out,
                      char why[TS_MODEL_WHY])
{
    ts_batcher *w = calloc(1, sizeof *w);
    *out = NULL;
    if (w) {
        w->n_fds = (size_t)(o->engine.n_seq + o->n_wait);
        w->fds = calloc(w->n_fds, sizeof *w->fds);
    }
    if (!w || !w->fds) {
        free(w);
        snprintf(why, TS_MODEL_WHY, "out of memory");
        return false;
    }
    w->o = o;
    w->wake = wake;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->change, NULL);
    bool ok = ts_engine_create(o->m, &o->engine, &w->e, why);
    if (ok) {
        ts_engine_usage(w->e, &w->counts.cache);
        ok = !pthread_create(&w->thread, NULL, work, w);
        if (!ok) snprintf(why, TS_MODEL_WHY, "cannot start a thread");
    }
    if (ok) *out = w;
    else {
        ts_engine_free(&w->e);
        free(w->fds);
        free(w);
    }
    return ok;
}

int64_t ts_batcher_drain(ts_batcher *w)
{
    pthread_mutex_lock(&w->lock);
    w->draining = true;
    const int64_t n = w->n_call;
    pthread_mutex_unlock(&w->lock);
    return n;
}

bool ts_batcher_draining(ts_batcher *w)
{
    pthread_mutex_lock(&w->lock);
    const bool is = w->draining;
    pthread_mutex_unlock(&w->lock);
    return is;
}

void ts_batcher_expire(ts_batcher *w)
{
    pthread_mutex_lock(&w->lock);
    w->expire = true;
    w->looked_s = 0;
    pthread_mutex_unlock(&w->lock);
}

int64_t ts_batcher_stop(ts_batcher **p)
{
    ts_batcher *w = *p;
    ts_kv_usage use;
    pthread_mutex_lock(&w->lock);
    w->draining = w->stopping = w->expire = true;
    w->looked_s = 0;
    pthread_cond_signal(&w->change);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    ts_engine_forget(w->e);
    ts_engine_usage(w->e, &use);
    ts_engine_free(&w->e);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->change);
    free(w->fds);
    free(w);
    *p = NULL;
    return use.n_page - use.n_free;
}

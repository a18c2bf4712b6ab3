/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - continuous batching: sequences join and leave a running batch.
 *
 * A step takes one token of each sequence that generates and a chunk of the prompts that are still
 * being read, in one forward. Pages are promised before they are needed; when they run out, the
 * sequence that joined last gives its own back and is read again later.
 *
 * A text that begins like one in the cache takes over its whole pages when its own first token
 * would be read. Ended sequences are kept for that, the one used last longest, and are the first to
 * go when pages are needed. */
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "model_impl.h"

typedef enum job_state { WAITING, RUNNING, ENDED } job_state;

typedef struct job {
    job_state   state;
    int32_t    *token; /* [n_most]: the prompt, then what was made */
    int64_t     n_prompt, n_token, n_most;
    int64_t     n_cached; /* of them in the cache, or in it after this step */
    int64_t     n_ready;  /* in the cache before this step */
    int64_t     n_shared; /* of the prompt: taken over */
    int32_t     seq;
    ts_sampling sampling;
    int32_t     stop[TS_MODEL_STOPS];
    int         n_stop;
    bool        logprobs;
    int         n_likely;
    void       *tag;
    bool        cut;  /* n_most is less than was wanted */
    bool        over; /* the caller wants no more */
} job;

/* The sequence of a request that has ended. */
typedef struct kept {
    int32_t  seq;
    int32_t *token;
    int64_t  n;
} kept;

struct ts_engine {
    const ts_decoder *m;
    ts_engine_options o;
    ts_pool           pool;
    ts_sampler       *sampler;
    job              *job; /* requests first .. n_job - 1; all before have ended */
    int64_t           first, n_job, n_room;
    int64_t          *running; /* [n_seq]: jobs, in the order they joined */
    int64_t           n_running;
    kept             *kept; /* [n_keep], the one used last at the end */
    int64_t           n_kept;
    /* One step's batch. */
    int32_t        *seq, *token;
    int64_t        *n_new, *want, *who;
    int64_t         n_seq, n_token, n_want, n_prompt;
    void           *logits; /* [n_seq][n_vocab], on the decoder's device */
    float          *row;    /* [n_vocab] */
    ts_sampler     *prober; /* of the host, for log-probabilities */
    double          spent;  /* seconds, in forward and draws */
    ts_engine_stats stats;
};

/* ---- making and freeing ---- */

static bool make_batch(ts_engine *e, char why[TS_MODEL_WHY])
{
    const size_t n = (size_t)e->o.n_seq, n_vocab = (size_t)e->m->dims.n_vocab;
    const size_t n_logits = n * n_vocab * ts_format_of(e->m->dtype)->n_bytes;
    e->seq = malloc(n * sizeof *e->seq);
    e->n_new = malloc(n * sizeof *e->n_new);
    e->want = malloc(n * sizeof *e->want);
    e->who = malloc(n * sizeof *e->who);
    e->running = malloc(n * sizeof *e->running);
    e->token = malloc((n + (size_t)e->o.chunk) * sizeof *e->token);
    e->kept = malloc(((size_t)e->o.n_keep + 1) * sizeof *e->kept);
    e->row = malloc(n_vocab * sizeof *e->row);
    if (!e->seq || !e->n_new || !e->want || !e->who || !e->running || !e->token || !e->row ||
        !e->kept)
        return ts_say(why, "out of memory for a batch of %zu", n);
    return ts_memory_take(e->m->device, n_logits, "logits", &e->logits, why);
}

bool ts_engine_create(const ts_decoder *m, const ts_engine_options *o, ts_engine **out,
                      char why[TS_MODEL_WHY])
{
    *out = NULL;
    ts_engine *e = calloc(1, sizeof *e);
    if (!e) return ts_say(why, "out of memory for an engine");
    e->m = m;
    e->o = *o;
    e->o.share = o->share && !m->dims.window; /* such a sequence cannot be cut */
    const bool ok = ts_pool_make(m, o, &e->pool, why) && make_batch(e, why) &&
                    ts_sampler_make(m->dims.n_vocab, m->device, &e->sampler, why) &&
                    ts_sampler_make(m->dims.n_vocab, TS_CPU, &e->prober, why);
    e->stats.cache_reserved = e->pool.n_bytes;
    if (ok) *out = e;
    else ts_engine_free(&e);
    return ok;
}

void ts_engine_free(ts_engine **p)
{
    ts_engine *e = *p;
    if (!e) return;
    for (int64_t i = 0; i < e->n_job - e->first; i++) free(e->job[i].token);
    for (int64_t i = 0; i < e->n_kept; i++) free(e->kept[i].token);
    ts_pool_free(&e->pool);
    ts_sampler_free(&e->sampler);
    ts_sampler_free(&e->prober);
    void *const mine[] = { e->job,     e->seq,   e->n_new, e->want, e->who,
                           e->running, e->token, e->row,   e->kept, e };
    ts_memory_give(e->m->device, e->logits);
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) free(mine[i]);
    *p = NULL;
}

const ts_engine_stats *ts_engine_stats_of(const ts_engine *e)
{
    return &e->stats;
}

/* ---- requests ---- */

static job *job_of(const ts_engine *e, int64_t request)
{
    return &e->job[request - e->first];
}

static void end(job *j)
{
    free(j->token);
    j->token = NULL;
    j->state = ENDED;
}

/* So that an engine may run for ever. */
static void forget_ended(ts_engine *e)
{
    int64_t n = 0;
    while (n < e->n_job - e->first && e->job[n].state == ENDED) n++;
    if (!n) return;
    e->first += n;
    memmove(e->job, e->job + n, (size_t)(e->n_job - e->first) * sizeof *e->job);
}

static bool sound_request(const ts_engine *e, const ts_request *r, char why[TS_MODEL_WHY])
{
    if (r->n_prompt < 1 || r->n_prompt > e->o.capacity)
        return ts_say(why, "prompt: got %lld tokens, expected 1 to %lld%s", (long long)r->n_prompt,
                      (long long)e->o.capacity, ts_is_context(e->m, e->o.capacity));
    for (int64_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= e->m->dims.n_vocab)
            return ts_say(why, "prompt: token %lld is %d, expected 0 to %lld", (long long)i,
                          r->prompt[i], (long long)e->m->dims.n_vocab - 1);
    if (r->n_new < 0 || r->n_stop < 0 || r->n_stop > TS_MODEL_STOPS || r->n_likely < 0 ||
        r->n_likely > TS_MODEL_LIKELY || r->n_likely > e->m->dims.n_vocab)
        return ts_say(why, "request: invalid counts of tokens, stop tokens or probable tokens");
    return true;
}

bool ts_engine_add(ts_engine *e, const ts_request *r, char why[TS_MODEL_WHY])
{
    if (!sound_request(e, r, why)) return false;
    if (e->n_job - e->first == e->n_room) {
        const int64_t room = 2 * e->n_room + 16;
        job          *more = realloc(e->job, (size_t)room * sizeof *more);
        if (!more) return ts_say(why, "out of memory for %lld requests", (long long)room);
        e->job = more;
        e->n_room = room;
    }
    job j = { .n_prompt = r->n_prompt,
              .n_token = r->n_prompt,
              .sampling = r->sampling,
              .logprobs = r->logprobs,
              .n_likely = r->n_likely,
              .tag = r->tag };
    j.cut = r->n_new > e->o.capacity - r->n_prompt;
    j.n_most = j.cut ? e->o.capacity : r->n_prompt + r->n_new;
    j.token = malloc((size_t)j.n_most * sizeof *j.token);
    if (!j.token) return ts_say(why, "out of memory for %lld tokens", (long long)j.n_most);
    memcpy(j.token, r->prompt, (size_t)r->n_prompt * sizeof *j.token);
    for (; j.n_stop < r->n_stop; j.n_stop++) j.stop[j.n_stop] = r->stop[j.n_stop];
    *job_of(e, e->n_job++) = j;
    return true;
}

/* ---- what is shared ---- */

static void drop(ts_engine *e, int64_t i)
{
    ts_kv_free(e->pool.kv, &e->pool.exec, e->kept[i].seq);
    free(e->kept[i].token);
    memmove(e->kept + i, e->kept + i + 1, (size_t)(--e->n_kept - i) * sizeof *e->kept);
}

void ts_engine_forget(ts_engine *e)
{
    while (e->n_kept) drop(e, 0);
    e->stats.n_kept = 0;
}

void ts_engine_usage(const ts_engine *e, ts_kv_usage *u)
{
    ts_kv_status(e->pool.kv, 0, 0, NULL, u);
}

/* Takes the job's sequence and tokens if another text may begin alike. */
static bool keep(ts_engine *e, job *j)
{
    if (!e->o.share || !e->o.n_keep || j->n_ready < e->o.page) return false;
    if (e->n_kept == e->o.n_keep) drop(e, 0);
    e->kept[e->n_kept++] = (kept) { j->seq, j->token, j->n_ready };
    j->token = NULL;
    return true;
}

/* Tokens of whole pages that a text of n has in common with the job, whose last token is run in any
 * case. */
static int64_t common(const ts_engine *e, const job *j, const int32_t *token, int64_t n)
{
    int64_t same = 0;
    while (same < n && same < j->n_token - 1 && token[same] == j->token[same]) same++;
    return same - same % e->o.page;
}

/* Starts the job's sequence with the pages of the text that has most of it. */
static void take_over(ts_engine *e, job *j)
{
    int64_t most = 0, at = -1;
    int32_t source = -1;
    for (int64_t i = 0; i < e->n_running; i++) {
        const job    *other = job_of(e, e->running[i]);
        const int64_t n = common(e, j, other->token, other->n_ready);
        if (n <= most) continue;
        most = n;
        source = other->seq;
    }
    for (int64_t i = 0; i < e->n_kept; i++) {
        const int64_t n = common(e, j, e->kept[i].token, e->kept[i].n);
        if (n <= most) continue;
        most = n;
        source = e->kept[i].seq;
        at = i;
    }
    if (!most) return;
    ts_kv_free(e->pool.kv, &e->pool.exec, j->seq); /* empty: its place is the fork's */
    ts_status s = ts_kv_fork(e->pool.kv, &e->pool.exec, source, &j->seq);
    if (!s) s = ts_kv_truncate(e->pool.kv, &e->pool.exec, j->seq, most);
    if (s) {
        ts_kv_free(e->pool.kv, &e->pool.exec, j->seq);
        ts_kv_open(e->pool.kv, &e->pool.exec, &j->seq);
        return;
    }
    if (at >= 0) { /* used last */
        const kept k = e->kept[at];
        memmove(e->kept + at, e->kept + at + 1, (size_t)(e->n_kept - at - 1) * sizeof k);
        e->kept[e->n_kept - 1] = k;
    }
    j->n_cached = j->n_ready = most;
    if (most > j->n_shared) j->n_shared = most < j->n_prompt ? most : j->n_prompt;
    e->stats.n_shared += most;
}

/* ---- which requests run ---- */

static int64_t pages(const ts_engine *e, int64_t n_token)
{
    return e->o.page ? e->m->dims.n_layer * ((n_token + e->o.page - 1) / e->o.page) : 0;
}

/* Pages that all running requests need for the tokens they have and `more` each. */
static int64_t promised(const ts_engine *e, int64_t more)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < e->n_running; i++)
        sum += pages(e, job_of(e, e->running[i])->n_token + more);
    return sum;
}

/* Out of the batch and of the cache. */
static void leave(ts_engine *e, int64_t i, job_state next)
{
    job *j = job_of(e, e->running[i]);
    if (next != ENDED || !keep(e, j)) ts_kv_free(e->pool.kv, &e->pool.exec, j->seq);
    j->n_cached = j->n_ready = 0;
    j->state = next;
    if (next == ENDED) end(j);
    memmove(e->running + i, e->running + i + 1, (size_t)(--e->n_running - i) * sizeof *e->running);
}

static void finish(ts_engine *e, int64_t i, ts_status s, ts_event_fn tell, void *user)
{
    job *j = job_of(e, e->running[i]);
    if (s) j->n_ready = 0; /* nothing of it is kept */
    const ts_event event = {
        .request = e->running[i],
        .token = -1,
        .status = s,
        .tag = j->tag,
        .n_shared = j->n_shared,
        .finish = j->over || j->n_token < j->n_most ? TS_FINISH_STOP
                  : j->cut                          ? TS_FINISH_CONTEXT
                                                    : TS_FINISH_LENGTH,
    };
    leave(e, i, ENDED);
    tell(user, &event);
}

void ts_engine_end(ts_engine *e, int64_t request)
{
    if (request >= e->first && request < e->n_job) job_of(e, request)->over = true;
}

/* Requests that the caller ended between steps. */
static void dismiss(ts_engine *e, ts_event_fn tell, void *user)
{
    for (int64_t i = e->n_running - 1; i >= 0; i--)
        if (job_of(e, e->running[i])->over) finish(e, i, TS_OK, tell, user);
    for (int64_t i = e->first; i < e->n_job; i++) {
        if (job_of(e, i)->state != WAITING || !job_of(e, i)->over) continue;
        end(job_of(e, i));
        tell(user,
             &(ts_event) {
                 .request = i, .token = -1, .finish = TS_FINISH_STOP, .tag = job_of(e, i)->tag });
    }
}

/* In order of arrival: a request never overtakes one that waits for pages. */
static void admit(ts_engine *e)
{
    forget_ended(e);
    for (int64_t i = e->first; i < e->n_job && e->n_running < e->o.n_seq; i++) {
        job          *j = job_of(e, i);
        const int64_t need = pages(e, j->n_token + 1);
        if (j->state != WAITING) continue;
        /* Alone it may try in any case: make_room decides. */
        if (e->n_running && promised(e, 1) + need > e->o.n_page && e->o.page) return;
        if (ts_kv_open(e->pool.kv, &e->pool.exec, &j->seq)) return;
        j->state = RUNNING;
        e->running[e->n_running++] = i;
    }
}

static void make_room(ts_engine *e, ts_event_fn tell, void *user)
{
    while (e->o.page && e->n_running && promised(e, 0) > e->o.n_page) {
        if (e->n_running == 1) finish(e, 0, TS_E_CAPACITY, tell, user);
        else {
            leave(e, e->n_running - 1, WAITING);
            e->stats.n_preempted++;
        }
    }
}

/* ---- a step ---- */

/* Pages that this step adds; what is kept goes as far as they need. */
static void make_free(ts_engine *e, int64_t need)
{
    ts_kv_usage use;
    while (e->n_kept) {
        ts_engine_usage(e, &use);
        if (use.n_free >= need) return;
        drop(e, 0);
    }
}

static void gather(ts_engine *e)
{
    int64_t budget = e->o.chunk, need = 0;
    e->n_seq = e->n_token = e->n_want = e->n_prompt = 0;
    for (int64_t i = 0; i < e->n_running; i++) {
        job *j = job_of(e, e->running[i]);
        if (e->o.share && budget && !j->n_cached) take_over(e, j);
        const int64_t left = j->n_token - j->n_cached;
        const bool    decode = j->n_cached && left == 1;
        const int64_t n = decode || left < budget ? left : budget;
        if (!n) continue;
        if (!decode) {
            budget -= n;
            e->n_prompt += n;
        }
        memcpy(e->token + e->n_token, j->token + j->n_cached, (size_t)n * sizeof *e->token);
        e->n_token += n;
        e->seq[e->n_seq] = j->seq;
        e->n_new[e->n_seq++] = n;
        need += pages(e, j->n_cached + n) - pages(e, j->n_cached);
        j->n_cached += n;
        if (n < left) continue;
        e->who[e->n_want] = e->running[i];
        e->want[e->n_want++] = e->n_token - 1;
    }
    make_free(e, need);
}

static ts_status forward(ts_engine *e)
{
    const ts_forward_args a = {
        .cache = e->pool.kv,
        .n_seq = e->n_seq,
        .seq = e->seq,
        .n_new = e->n_new,
        .token = e->token,
        .n_want = e->n_want,
        .want = e->want,
        .logits = e->logits,
    };
    const double    from = ts_seconds();
    const ts_status s = ts_decoder_forward(e->m, &a, &e->pool.exec);
    ts_kv_usage     use;
    e->spent = ts_seconds() - from;
    for (int64_t i = 0; !s && i < e->n_running; i++) {
        job *j = job_of(e, e->running[i]);
        j->n_ready = j->n_cached;
    }
    e->stats.n_step++;
    e->stats.n_prompt += e->n_prompt;
    e->stats.n_decode += e->n_token - e->n_prompt;
    if (!s && !ts_kv_status(e->pool.kv, 0, e->seq[0], NULL, &use) &&
        use.bytes_live > e->stats.cache_live_peak)
        e->stats.cache_live_peak = use.bytes_live;
    return s;
}

/* In float, for the sampler. Double is the CPU's alone. */
static const float *logits(ts_engine *e, int64_t i)
{
    const int64_t n = e->m->dims.n_vocab;
    if (e->m->dtype == TS_F32) return (const float *)e->logits + i * n;
    for (int64_t c = 0; c < n; c++) e->row[c] = (float)((const double *)e->logits)[i * n + c];
    return e->row;
}

/* Of the token that was drawn from row i, on the host whatever the device. */
static ts_status probe(ts_engine *e, int64_t i, ts_likely *likely, ts_event *event)
{
    const job *j = job_of(e, event->request);
    if (!j->logprobs) return TS_OK;
    const ts_status s = ts_logits_out(e->m, e->logits, i, e->row);
    event->likely = likely;
    event->n_likely = j->n_likely;
    return s ? s
             : ts_sampler_likely(e->prober, e->row, j->n_likely ? j->n_likely : 1, likely,
                                 event->token, &event->logprob);
}

static bool stops(const job *j, int32_t token)
{
    for (int i = 0; i < j->n_stop; i++)
        if (j->stop[i] == token) return true;
    return false;
}

/* The next token of the i-th request for logits. */
static void extend(ts_engine *e, int64_t i, ts_event_fn tell, void *user)
{
    job         *j = job_of(e, e->who[i]);
    ts_event     event = { .request = e->who[i], .token = -1, .tag = j->tag };
    ts_likely    likely[TS_MODEL_LIKELY];
    ts_status    s = TS_OK;
    const double from = ts_seconds();
    if (j->n_token < j->n_most)
        s = ts_sampler_draw(e->sampler, &j->sampling, j->n_token - j->n_prompt, logits(e, i),
                            &event.token);
    bool more = !s && event.token >= 0 && !stops(j, event.token);
    if (more) s = probe(e, i, likely, &event);
    more = more && !s;
    e->spent += ts_seconds() - from;
    if (more) {
        j->token[j->n_token++] = event.token;
        e->stats.n_token++;
        tell(user, &event);
    }
    j = job_of(e, e->who[i]); /* tell may have added requests */
    if (more && !j->over && j->n_token < j->n_most) return;
    int64_t at = 0;
    while (e->running[at] != e->who[i]) at++;
    finish(e, at, s, tell, user);
}

bool ts_engine_step(ts_engine *e, ts_event_fn tell, void *user)
{
    dismiss(e, tell, user);
    admit(e);
    make_room(e, tell, user);
    gather(e);
    const ts_status s = e->n_token ? forward(e) : TS_OK;
    while (s && e->n_running) finish(e, e->n_running - 1, s, tell, user);
    for (int64_t i = 0; !s && i < e->n_want; i++) extend(e, i, tell, user);
    if (e->n_token) {
        const double share = (double)e->n_prompt / (double)e->n_token;
        e->stats.prompt_s += share * e->spent;
        e->stats.decode_s += (1 - share) * e->spent;
    }
    e->stats.n_running = e->n_running;
    e->stats.n_kept = e->n_kept;
    e->stats.n_waiting = 0;
    for (int64_t i = e->first; i < e->n_job; i++)
        e->stats.n_waiting += job_of(e, i)->state == WAITING;
    return e->n_running || e->stats.n_waiting;
}

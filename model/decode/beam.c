/* SPDX-License-Identifier: Apache-2.0 */
/* beam.c - strings as sequences of a cache.
 *
 * A call's strings mostly are those of the call before, each with a token more, some twice and some
 * not: each takes over the sequence that has most of its beginning, or a fork of it where others
 * want it too. */
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "search.h"

#include "model_impl.h"

/* A sequence and the tokens that it holds. */
typedef struct branch {
    int32_t  seq;
    int64_t  n;
    int32_t *token; /* [capacity] */
} branch;

struct ts_beams {
    const ts_decoder *m;
    ts_engine_options o;
    ts_pool           pool;
    branch           *now, *then; /* [n_seq]: those of the last call, and of this one */
    int64_t           n_now;
    int32_t          *tokens; /* of all branches */
    int64_t          *from,
        *n_common;   /* [n_seq]: the sequence that a string continues, and their common length */
    int64_t *n_user; /* [n_seq]: strings that want a branch of the last call */
    /* One pass. */
    int32_t       *seq, *token;
    int64_t       *n_new, *want, *who;
    void          *logits; /* [n_seq][n_vocab], on the decoder's device */
    ts_status      status;
    ts_beams_stats stats;
};

/* ---- making and freeing ---- */

static bool make_lists(ts_beams *b, char why[TS_MODEL_WHY])
{
    const size_t n = (size_t)b->o.n_seq, capacity = (size_t)b->o.capacity;
    b->now = calloc(n, sizeof *b->now);
    b->then = calloc(n, sizeof *b->then);
    b->tokens = malloc(2 * n * capacity * sizeof *b->tokens);
    b->from = malloc(n * sizeof *b->from);
    b->n_common = malloc(n * sizeof *b->n_common);
    b->n_user = malloc(n * sizeof *b->n_user);
    b->seq = malloc(n * sizeof *b->seq);
    b->n_new = malloc(n * sizeof *b->n_new);
    b->want = malloc(n * sizeof *b->want);
    b->who = malloc(n * sizeof *b->who);
    b->token = malloc((size_t)b->pool.n_call * sizeof *b->token);
    if (!b->now || !b->then || !b->tokens || !b->from || !b->n_common || !b->n_user || !b->seq ||
        !b->n_new || !b->want || !b->who || !b->token)
        return ts_say(why, "out of memory for %zu strings", n);
    for (size_t i = 0; i < n; i++) {
        b->now[i].token = b->tokens + i * capacity;
        b->then[i].token = b->tokens + (n + i) * capacity;
    }
    return ts_memory_take(b->m->device,
                          n * (size_t)b->m->dims.n_vocab * ts_format_of(b->m->dtype)->n_bytes,
                          "logits", &b->logits, why);
}

bool ts_beams_create(const ts_decoder *m, const ts_engine_options *o, ts_beams **out,
                     char why[TS_MODEL_WHY])
{
    ts_beams *b = calloc(1, sizeof *b);
    *out = NULL;
    if (!b) return ts_say(why, "out of memory for beams");
    b->m = m;
    b->o = *o;
    const bool ok = ts_pool_make(m, o, &b->pool, why) && make_lists(b, why);
    if (ok) *out = b;
    else ts_beams_free(&b);
    return ok;
}

void ts_beams_free(ts_beams **p)
{
    ts_beams *b = *p;
    if (!b) return;
    ts_pool_free(&b->pool);
    ts_memory_give(b->m->device, b->logits);
    void *const mine[] = { b->now, b->then,  b->tokens, b->from, b->n_common, b->n_user,
                           b->seq, b->token, b->n_new,  b->want, b->who,      b };
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) free(mine[i]);
    *p = NULL;
}

const ts_beams_stats *ts_beams_stats_of(const ts_beams *b)
{
    return &b->stats;
}

ts_status ts_beams_status(const ts_beams *b)
{
    return b->status;
}

/* After a failure the owners of sequences are unknown: all begin anew. */
static void forget(ts_beams *b)
{
    for (int32_t i = 0; i < b->o.n_seq; i++) (void)ts_kv_free(b->pool.kv, &b->pool.exec, i);
    b->n_now = 0;
}

/* ---- which beam continues which ---- */

/* How much of a branch a string can take: what they begin with, less the last token, which must be
 * run for its logits. A branch that is longer is cut only where no code could tell. */
static int64_t common(const ts_beams *b, const branch *y, const int32_t *string, int64_t len)
{
    const int64_t most = y->n < len - 1 ? y->n : len - 1;
    int64_t       n = 0;
    while (n < most && y->token[n] == string[n]) n++;
    return n == y->n ? n : n - n % ts_pool_group(&b->o);
}

static void match(ts_beams *b, int64_t n_seq, const int64_t *len, const int32_t *const *string)
{
    memset(b->n_user, 0, (size_t)b->n_now * sizeof *b->n_user);
    for (int64_t s = 0; s < n_seq; s++) {
        b->from[s] = -1;
        b->n_common[s] = 0;
        for (int64_t i = 0; i < b->n_now; i++) {
            const int64_t n = common(b, &b->now[i], string[s], len[s]);
            if (n <= b->n_common[s]) continue;
            b->n_common[s] = n;
            b->from[s] = i;
        }
        if (b->from[s] >= 0) b->n_user[b->from[s]]++;
    }
}

static int64_t pages(const ts_beams *b, int64_t n_token)
{
    return b->o.page ? b->m->dims.n_layer * ((n_token + b->o.page - 1) / b->o.page) : 0;
}

/* The last one that wants a branch has it; those before got forks. So there are never more
 * sequences than strings. */
static ts_status take_over(ts_beams *b, int64_t s)
{
    ts_kv *const         kv = b->pool.kv;
    const ts_exec *const x = &b->pool.exec;
    branch *const        y = &b->then[s];
    y->n = b->n_common[s];
    if (b->from[s] < 0) return ts_kv_open(kv, x, &y->seq);
    const branch *const from = &b->now[b->from[s]];
    y->seq = from->seq;
    if (--b->n_user[b->from[s]] > 0) {
        const ts_status status = ts_kv_fork(kv, x, from->seq, &y->seq);
        if (status) return status;
        b->stats.n_fork++;
        b->stats.shared += pages(b, y->n);
    }
    return y->n < from->n ? ts_kv_truncate(kv, x, y->seq, y->n) : TS_OK;
}

static ts_status reorder(ts_beams *b, int64_t n_seq, const int64_t *len,
                         const int32_t *const *string)
{
    ts_status status = TS_OK;
    match(b, n_seq, len, string);
    for (int64_t i = 0; !status && i < b->n_now; i++)
        if (!b->n_user[i]) status = ts_kv_free(b->pool.kv, &b->pool.exec, b->now[i].seq);
    for (int64_t s = 0; !status && s < n_seq; s++) status = take_over(b, s);
    for (int64_t s = 0; !status && s < n_seq; s++)
        memcpy(b->then[s].token, string[s], (size_t)len[s] * sizeof **string);
    branch *const last = b->now;
    b->now = b->then;
    b->then = last;
    b->n_now = n_seq;
    return status;
}

/* ---- a pass ---- */

static int64_t held(const ts_beams *b)
{
    ts_kv_usage u = { 0 };
    if (!b->o.page) return 0;
    (void)ts_kv_status(b->pool.kv, 0, 0, NULL, &u);
    return u.n_page - u.n_free;
}

/* As many tokens of incomplete strings as a pass takes, in their order: so those whose logits are
 * wanted are contiguous. */
static ts_forward_args gather(ts_beams *b, const int64_t *len, int64_t *n_grown)
{
    ts_forward_args a = { .cache = b->pool.kv,
                          .seq = b->seq,
                          .n_new = b->n_new,
                          .token = b->token,
                          .want = b->want,
                          .logits = b->logits };
    int64_t         n_token = 0;
    *n_grown = 0;
    for (int64_t s = 0; s < b->n_now && n_token < b->pool.n_call; s++) {
        branch *const y = &b->now[s];
        const int64_t left = len[s] - y->n, room = b->pool.n_call - n_token;
        const int64_t n = left < room ? left : room;
        if (!n) continue;
        memcpy(b->token + n_token, y->token + y->n, (size_t)n * sizeof *b->token);
        *n_grown += pages(b, y->n + n) - pages(b, y->n);
        n_token += n;
        y->n += n;
        b->seq[a.n_seq] = y->seq;
        b->n_new[a.n_seq++] = n;
        if (n < left) continue;
        b->who[a.n_want] = s;
        b->want[a.n_want++] = n_token - 1;
    }
    b->stats.n_row += n_token;
    return a;
}

static ts_status run(ts_beams *b, const int64_t *len, float *out, ts_device where)
{
    const int64_t n_vocab = b->m->dims.n_vocab;
    const bool    direct = b->m->dtype == TS_F32 && b->m->device == where;
    for (;;) {
        int64_t         n_grown;
        const int64_t   before = held(b);
        ts_forward_args a = gather(b, len, &n_grown);
        if (!a.n_seq) return TS_OK;
        if (direct && a.n_want) a.logits = out + b->who[0] * n_vocab;
        ts_status status = ts_decoder_forward(b->m, &a, &b->pool.exec);
        for (int64_t i = 0; !status && !direct && i < a.n_want; i++)
            status = ts_logits_out(b->m, b->logits, i, out + b->who[i] * n_vocab);
        if (status) return status;
        b->stats.copied += held(b) - before - n_grown;
    }
}

static void count(ts_beams *b, int64_t n_seq, const int64_t *len)
{
    int64_t alone = 0;
    b->stats.n_pass++;
    for (int64_t s = 0; s < n_seq; s++) {
        alone += pages(b, len[s]);
        b->stats.n_string_row += len[s];
    }
    if (held(b) > b->stats.held_most) b->stats.held_most = held(b);
    if (alone > b->stats.alone_most) b->stats.alone_most = alone;
}

static ts_status check(const ts_beams *b, int64_t n_seq, const int64_t *len,
                       const int32_t *const *string)
{
    if (n_seq > b->o.n_seq) return TS_E_CAPACITY;
    for (int64_t s = 0; s < n_seq; s++) {
        if (len[s] < 1) return TS_E_ARG;
        if (len[s] > b->o.capacity) return TS_E_CAPACITY;
        for (int64_t i = 0; i < len[s]; i++)
            if (string[s][i] < 0 || string[s][i] >= b->m->dims.n_vocab) return TS_E_ARG;
    }
    return TS_OK;
}

/* Logits are wanted in memory of the host's, or of the decoder's device. */
static int serve(ts_beams *b, int64_t n_seq, const int64_t *len, const int32_t *const *string,
                 float *out, ts_device where)
{
    b->status = check(b, n_seq, len, string);
    if (b->status) return 1;
    b->status = reorder(b, n_seq, len, string);
    if (!b->status) b->status = run(b, len, out, where);
    if (b->status) forget(b);
    else count(b, n_seq, len);
    return b->status != TS_OK;
}

static int next(void *self, int64_t n_seq, const int64_t *len, const int32_t *const *string,
                float *out)
{
    return serve(self, n_seq, len, string, out, TS_CPU);
}

static int next_there(void *self, int64_t n_seq, const int64_t *len, const int32_t *const *string,
                      float *out)
{
    ts_beams *b = self;
    return serve(b, n_seq, len, string, out, b->m->device);
}

ts_model ts_beams_model(ts_beams *b)
{
    return (ts_model) { .self = b, .n_vocab = b->m->dims.n_vocab, .next = next };
}

/* ---- a search with memory of its own ---- */

ts_status ts_beams_search(ts_beams *b, const ts_beam_search_args *args, bool archive)
{
    const ts_device     device = b->m->device;
    const ts_model      model = { b, b->m->dims.n_vocab, next_there, NULL };
    ts_beam_search_args a = *args;
    ts_exec             x = { .device = device, .n_threads = b->o.n_threads };
    char                why[TS_MODEL_WHY];
    a.model = &model;
    b->status = TS_OK;
    ts_status s = archive ? ts_beam_search_archive_workspace(&a, &x, &x.workspace_bytes)
                          : ts_beam_search_workspace(&a, &x, &x.workspace_bytes);
    if (!s)
        s = archive ? ts_beam_search_archive_host(&a, &x, &a.host_bytes)
                    : ts_beam_search_host(&a, &x, &a.host_bytes);
    if (s) return s;
    if (ts_memory_take(device, x.workspace_bytes + 1, "search", &x.workspace, why) &&
        ts_memory_take(TS_CPU, a.host_bytes + 1, "search", &a.host, why))
        s = archive ? ts_beam_search_archive(&a, &x) : ts_beam_search(&a, &x);
    else s = TS_E_WORKSPACE;
    ts_memory_give(device, x.workspace);
    ts_memory_give(TS_CPU, a.host);
    return s == TS_E_MODEL && b->status ? b->status : s;
}

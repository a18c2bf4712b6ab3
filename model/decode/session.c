/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - one sequence that a conversation extends: only the tokens that the cache does not
 * have yet are run. */
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "model_impl.h"

struct ts_session {
    const ts_decoder *m;
    ts_engine_options o;
    ts_pool           pool;
    ts_sampler       *sampler;
    int32_t           seq;
    int32_t          *cached; /* [capacity]: tokens in the cache */
    int64_t           n_cached;
    void             *logits; /* [n_vocab], on the decoder's device */
    float            *row;
};

bool ts_session_create(const ts_decoder *m, const ts_engine_options *o, ts_session **out,
                       char why[TS_MODEL_WHY])
{
    const size_t n_vocab = (size_t)m->dims.n_vocab;
    ts_session  *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return ts_say(why, "out of memory");
    s->m = m;
    s->o = *o;
    bool ok = ts_pool_make(m, o, &s->pool, why) &&
              ts_memory_take(m->device, n_vocab * ts_format_of(m->dtype)->n_bytes, "logits",
                             &s->logits, why) &&
              ts_sampler_make(m->dims.n_vocab, m->device, &s->sampler, why);
    s->cached = ok ? malloc((size_t)o->capacity * sizeof *s->cached) : NULL;
    s->row = ok ? malloc(n_vocab * sizeof *s->row) : NULL;
    if (ok && (!s->cached || !s->row || ts_kv_open(s->pool.kv, &s->pool.exec, &s->seq)))
        ok = ts_say(why, "out of memory for a session");
    if (ok) *out = s;
    else ts_session_free(&s);
    return ok;
}

void ts_session_free(ts_session **p)
{
    ts_session *s = *p;
    if (!s) return;
    ts_pool_free(&s->pool);
    ts_sampler_free(&s->sampler);
    ts_memory_give(s->m->device, s->logits);
    free(s->cached);
    free(s->row);
    free(s);
    *p = NULL;
}

/* Keeps the first n tokens; a cache that cannot be cut there starts anew. */
static ts_status cut(ts_session *s, int64_t n)
{
    if (n == s->n_cached) return TS_OK;
    n -= n % ts_pool_group(&s->o);
    if (n < s->n_cached &&
        (s->m->dims.window || ts_kv_truncate(s->pool.kv, &s->pool.exec, s->seq, n))) {
        ts_kv_free(s->pool.kv, &s->pool.exec, s->seq);
        n = 0;
        s->n_cached = 0;
        return ts_kv_open(s->pool.kv, &s->pool.exec, &s->seq);
    }
    if (n < s->n_cached) s->n_cached = n;
    return TS_OK;
}

ts_status ts_session_next(ts_session *s, const int32_t *token, int64_t n, const ts_sampling *how,
                          int64_t i, int32_t *next, int64_t *n_run)
{
    int64_t same = 0;
    if (n < 1) return TS_E_ARG;
    if (n > s->o.capacity) return TS_E_CAPACITY;
    while (same < s->n_cached && same < n - 1 && s->cached[same] == token[same]) same++;
    ts_status status = cut(s, same);
    *n_run = n - s->n_cached;
    while (!status && s->n_cached < n) {
        const int64_t   left = n - s->n_cached, n_new = left < s->o.chunk ? left : s->o.chunk;
        const int64_t   last = n_new - 1;
        ts_forward_args a = { .cache = s->pool.kv,
                              .n_seq = 1,
                              .seq = &s->seq,
                              .n_new = &n_new,
                              .token = token + s->n_cached,
                              .n_want = n_new == left,
                              .want = &last,
                              .logits = s->logits };
        status = ts_decoder_forward(s->m, &a, &s->pool.exec);
        if (status) break;
        memcpy(s->cached + s->n_cached, token + s->n_cached, (size_t)n_new * sizeof *token);
        s->n_cached += n_new;
    }
    const float *logits = s->logits;
    if (!status && s->m->dtype == TS_F64) {
        status = ts_logits_out(s->m, s->logits, 0, s->row);
        logits = s->row;
    }
    return status ? status : ts_sampler_draw(s->sampler, how, i, logits, next);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* stateless.c - a decoder without a cache, with which searches over a cache are compared. Each
 * requested row is the end of a string, which is run from its beginning. */
#include <stdlib.h>

#include "dtype.h"
#include "search.h"

#include "model_impl.h"

struct ts_stateless {
    const ts_decoder *m;
    int64_t           capacity;
    ts_pool           pool;
    int32_t           seq;
    int32_t          *string; /* [capacity], of a row */
    void             *logits; /* [n_vocab], on the decoder's device */
};

bool ts_stateless_create(const ts_decoder *m, const ts_engine_options *o, ts_stateless **out,
                         char why[TS_MODEL_WHY])
{
    ts_stateless     *s = calloc(1, sizeof *s);
    ts_engine_options alone = *o;
    alone.n_seq = 1;
    alone.page = alone.n_page = 0;
    *out = NULL;
    if (!s) return ts_say(why, "out of memory for a model");
    s->m = m;
    s->capacity = o->capacity;
    const size_t n_logits = (size_t)m->dims.n_vocab * ts_format_of(m->dtype)->n_bytes;
    bool         ok = ts_pool_make(m, &alone, &s->pool, why) &&
              ts_memory_take(m->device, n_logits, "logits", &s->logits, why);
    s->string = ok ? malloc((size_t)o->capacity * sizeof *s->string) : NULL;
    if (ok && (!s->string || ts_kv_open(s->pool.kv, &s->pool.exec, &s->seq)))
        ok = ts_say(why, "out of memory for a string of %lld", (long long)o->capacity);
    if (ok) *out = s;
    else ts_stateless_free(&s);
    return ok;
}

void ts_stateless_free(ts_stateless **p)
{
    ts_stateless *s = *p;
    if (!s) return;
    ts_pool_free(&s->pool);
    ts_memory_give(s->m->device, s->logits);
    free(s->string);
    free(s);
    *p = NULL;
}

static ts_status logits_after(ts_stateless *s, const int32_t *string, int64_t len, float *out)
{
    ts_status status = len > s->capacity ? TS_E_CAPACITY : TS_OK;
    if (!status) status = ts_kv_truncate(s->pool.kv, &s->pool.exec, s->seq, 0);
    for (int64_t at = 0, n; !status && at < len; at += n) {
        n = len - at < s->pool.n_call ? len - at : s->pool.n_call;
        const int64_t         last = n - 1;
        const ts_forward_args a = { s->pool.kv,    1,     &s->seq,  &n, string + at,
                                    at + n == len, &last, s->logits };
        status = ts_decoder_forward(s->m, &a, &s->pool.exec);
    }
    return status ? status : ts_logits_out(s->m, s->logits, 0, out);
}

static int next(void *self, int64_t n_seq, const int64_t *len, const int32_t *const *string,
                float *out)
{
    ts_stateless *s = self;
    for (int64_t i = 0; i < n_seq; i++)
        if (len[i] < 1 || logits_after(s, string[i], len[i], out + i * s->m->dims.n_vocab))
            return 1;
    return 0;
}

/* The rows that row r sees are its string; each must be at its own position. */
static int forward(void *self, int64_t n_row, const int32_t *token, const int64_t *position,
                   const uint8_t *visible, int64_t n_want, const int64_t *want, float *out)
{
    ts_stateless *s = self;
    for (int64_t w = 0; w < n_want; w++) {
        const uint8_t *sees = visible + want[w] * n_row;
        int64_t        len = 0;
        for (int64_t c = 0; c <= want[w]; c++) {
            if (!sees[c]) continue;
            if (position[c] != len || len == s->capacity) return 1;
            s->string[len++] = token[c];
        }
        if (len < 1 || logits_after(s, s->string, len, out + w * s->m->dims.n_vocab)) return 1;
    }
    return 0;
}

ts_model ts_stateless_model(ts_stateless *s)
{
    return (ts_model) { s, s->m->dims.n_vocab, next, forward };
}

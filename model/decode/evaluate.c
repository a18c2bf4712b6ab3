/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.c - how probable a model finds a text: the log-probability of each token.
 *
 * Window w has the tokens w * stride .. w * stride + capacity - 1 of the text, and is the last one
 * if it reaches the end. It starts with an empty cache. It scores each of its tokens that no
 * earlier window had and that is not its first, given the window's tokens before it. */
#include <stdlib.h>

#include "dtype.h"
#include "model_impl.h"
#include "touchstone/cross_entropy.h"

typedef struct scorer {
    const ts_decoder *m;
    ts_pool           pool;
    int64_t           chunk;
    void             *logits; /* [chunk][n_vocab], on the decoder's device */
    float            *host;   /* the same; NULL: logits are the host's */
    void             *loss, *lse;
    int32_t          *target;
    int64_t          *want;
    ts_exec           exec; /* of the loss, on the CPU */
} scorer;

static ts_cross_entropy_logits_args loss_args(const scorer *s, int64_t n, void *total)
{
    return (ts_cross_entropy_logits_args) {
        .dtype = s->host ? TS_F32 : s->m->dtype,
        .ignore_index = -1,
        .n_rows = n,
        .n_vocab = s->m->dims.n_vocab,
        .row_stride = s->m->dims.n_vocab,
        .scale = 1,
        .logits = s->host ? (void *)s->host : s->logits,
        .target = s->target,
        .loss = s->loss,
        .lse = s->lse,
        .total = total,
    };
}

static bool make(scorer *s, const ts_engine_options *o, char why[TS_MODEL_WHY])
{
    const size_t n = (size_t)o->chunk, n_vocab = (size_t)s->m->dims.n_vocab;
    double       total;
    if (!ts_pool_make(s->m, o, &s->pool, why) ||
        !ts_memory_take(s->m->device, n * n_vocab * ts_format_of(s->m->dtype)->n_bytes, "logits",
                        &s->logits, why))
        return false;
    s->loss = malloc(n * sizeof(double));
    s->lse = malloc(n * sizeof(double));
    s->target = calloc(n, sizeof *s->target); /* valid when the workspace is queried */
    s->want = malloc(n * sizeof *s->want);
    if (s->m->device != TS_CPU) s->host = malloc(n * n_vocab * sizeof *s->host);
    bool ok = s->loss && s->lse && s->target && s->want && (s->host || s->m->device == TS_CPU);
    const ts_cross_entropy_logits_args a = loss_args(s, o->chunk, &total);
    s->exec = (ts_exec) { .n_threads = o->n_threads, .deterministic = 1 };
    if (ok && ts_cross_entropy_logits_workspace(&a, &s->exec, &s->exec.workspace_bytes))
        return ts_say(why, "evaluation: unsupported vocabulary");
    s->exec.workspace = ok ? malloc(s->exec.workspace_bytes + 1) : NULL;
    return s->exec.workspace || ts_say(why, "evaluation: out of memory for %zu rows of logits", n);
}

static void clean(scorer *s)
{
    void *const mine[] = { s->host, s->loss, s->lse, s->target, s->want, s->exec.workspace };
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) free(mine[i]);
    ts_memory_give(s->m->device, s->logits);
    ts_pool_free(&s->pool);
}

/* Runs tokens at .. at + n - 1 and scores those after them that are in [from, to). */
static ts_status run_chunk(scorer *s, int32_t seq, const int32_t *token, int64_t at, int64_t n,
                           int64_t from, int64_t to, double *logprob)
{
    ts_forward_args a = { .cache = s->pool.kv,
                          .n_seq = 1,
                          .seq = &seq,
                          .n_new = &n,
                          .token = token + at,
                          .want = s->want,
                          .logits = s->logits };
    double          total;
    for (int64_t i = 0; i < n; i++) {
        if (at + i + 1 < from || at + i + 1 >= to) continue;
        s->want[a.n_want] = i;
        s->target[a.n_want++] = token[at + i + 1];
    }
    ts_status status = ts_decoder_forward(s->m, &a, &s->pool.exec);
    if (status || !a.n_want) return status;
    for (int64_t i = 0; s->host && !status && i < a.n_want; i++)
        status = ts_logits_out(s->m, s->logits, i, s->host + i * s->m->dims.n_vocab);
    const ts_cross_entropy_logits_args l = loss_args(s, a.n_want, &total);
    if (!status) status = ts_cross_entropy_logits(&l, &s->exec);
    for (int64_t i = 0; !status && i < a.n_want; i++)
        logprob[at + s->want[i] + 1] =
            l.dtype == TS_F64 ? -((double *)s->loss)[i] : -(double)((float *)s->loss)[i];
    return status;
}

static ts_status run_window(scorer *s, const int32_t *token, int64_t begin, int64_t end,
                            int64_t from, double *logprob)
{
    int32_t   seq;
    ts_status status = ts_kv_open(s->pool.kv, &s->pool.exec, &seq);
    if (status) return status;
    for (int64_t at = begin; !status && at < end; at += s->chunk) {
        const int64_t n = end - at < s->chunk ? end - at : s->chunk;
        status = run_chunk(s, seq, token, at, n, from, end, logprob);
    }
    ts_kv_free(s->pool.kv, &s->pool.exec, seq);
    return status;
}

static bool sound(const ts_decoder *m, const ts_engine_options *o, const int32_t *token, int64_t n,
                  int64_t stride, char why[TS_MODEL_WHY])
{
    if (n < 2) return ts_say(why, "text: got %lld tokens, expected at least 2", (long long)n);
    if (o->capacity < 2 || stride < 1 || stride > o->capacity)
        return ts_say(why,
                      "windows: got %lld tokens each %lld, expected at least 2, and a stride of at "
                      "most as many",
                      (long long)o->capacity, (long long)stride);
    for (int64_t i = 0; i < n; i++)
        if (token[i] < 0 || token[i] >= m->dims.n_vocab)
            return ts_say(why, "text: token %lld is %d, expected 0 to %lld", (long long)i, token[i],
                          (long long)m->dims.n_vocab - 1);
    return true;
}

bool ts_evaluate(const ts_decoder *m, const ts_engine_options *o, const int32_t *token, int64_t n,
                 int64_t stride, double *logprob, ts_evaluation *out, char why[TS_MODEL_WHY])
{
    scorer    s = { .m = m, .chunk = o->chunk };
    ts_status status = TS_OK;
    *out = (ts_evaluation) { 0 };
    if (!sound(m, o, token, n, stride, why)) return false;
    const bool ok = make(&s, o, why);
    for (int64_t i = 0; i < n; i++) logprob[i] = 0;
    const double from_s = ts_seconds();
    for (int64_t begin = 0, done = 1; ok && !status && done < n; begin += stride) {
        const int64_t end = n - begin < o->capacity ? n : begin + o->capacity;
        const int64_t from = done > begin ? done : begin + 1;
        status = run_window(&s, token, begin, end, from, logprob);
        for (int64_t i = from; i < end; i++) out->logprob += logprob[i];
        out->n_scored += end - from;
        out->n_run += end - begin;
        out->n_window++;
        done = end;
    }
    out->seconds = ts_seconds() - from_s;
    clean(&s);
    if (!status) return ok;
    return ts_say(why, "window %lld: %s", (long long)out->n_window, ts_status_text(status));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* attention_forward.c - computes o and lse of a whole case, as inputs of the backward task.
 *
 * Plain softmax in double, in blocks that a compiler keeps in registers, with one thread per head
 * if that is much work. If double is judged, o and lse come from the oracle's rows instead. */
#include <stdlib.h>

#include "attention_inside.h"

enum { BLOCK = 16 };

typedef struct job {
    const ts_attention_dims *d;
    const int32_t           *kv_len;
    const double            *q, *k, *v;
    double                  *o, *lse;
} job;

/* Scratch of one head; a block is BLOCK keys or elements wide, the last one filled with 0. */
typedef struct bench {
    double *keys;   /* [key block][element][BLOCK] */
    double *values; /* [element block][key][BLOCK] */
    double *p;      /* [key] */
} bench;

static int64_t blocks(int64_t n)
{
    return (n + BLOCK - 1) / BLOCK;
}

static void pack(const ts_attention_dims *d, const double *k, const double *v, const bench *t)
{
    const int64_t D = d->head_dim, N = blocks(d->n_k) * BLOCK;
    for (int64_t j = 0; j < N; j++)
        for (int64_t e = 0; e < D; e++)
            t->keys[(j / BLOCK * D + e) * BLOCK + j % BLOCK] = j < d->n_k ? k[j * D + e] : 0;
    for (int64_t e = 0; e < blocks(D) * BLOCK; e++)
        for (int64_t j = 0; j < d->n_k; j++)
            t->values[(e / BLOCK * d->n_k + j) * BLOCK + e % BLOCK] = e < D ? v[j * D + e] : 0;
}

static double exponentials(const ts_attention_dims *d, ts_span keys, const double *q,
                           const bench *t)
{
    const int64_t D = d->head_dim;
    double        max = -INFINITY, sum = 0;
    for (int64_t b = keys.begin / BLOCK; b < blocks(keys.end); b++) {
        double s[BLOCK] = { 0 };
        for (int64_t e = 0; e < D; e++)
            for (int i = 0; i < BLOCK; i++) s[i] += q[e] * t->keys[(b * D + e) * BLOCK + i];
        for (int i = 0; i < BLOCK; i++) t->p[b * BLOCK + i] = s[i] * d->scale;
    }
    for (int64_t j = keys.begin; j < keys.end; j++)
        if (t->p[j] > max) max = t->p[j];
    for (int64_t j = keys.begin; j < keys.end; j++) sum += t->p[j] = ts_exp64(t->p[j] - max);
    for (int64_t j = keys.begin; j < keys.end; j++) t->p[j] /= sum;
    return max + ts_log64(sum);
}

static void row(const job *w, ts_span keys, int64_t number, const bench *t)
{
    const int64_t D = w->d->head_dim, n = w->d->n_k;
    double *const o = w->o + number * D;
    if (keys.begin >= keys.end) {
        for (int64_t e = 0; e < D; e++) o[e] = 0;
        w->lse[number] = -INFINITY;
        return;
    }
    w->lse[number] = exponentials(w->d, keys, w->q + number * D, t);
    for (int64_t b = 0; b < blocks(D); b++) {
        double sum[BLOCK] = { 0 };
        for (int64_t j = keys.begin; j < keys.end; j++)
            for (int i = 0; i < BLOCK; i++) sum[i] += t->p[j] * t->values[(b * n + j) * BLOCK + i];
        for (int64_t e = b * BLOCK; e < D && e < (b + 1) * BLOCK; e++) o[e] = sum[e % BLOCK];
    }
}

/* Of one KV head, over all batches. */
static void head(void *of, int64_t kv)
{
    const job *const         w = of;
    const ts_attention_dims *d = w->d;
    const int64_t            D = d->head_dim, N = blocks(d->n_k) * BLOCK;
    const int64_t            share = d->n_q_head / d->n_kv_head;
    double *const            room = malloc((size_t)(N * (D + 1) + blocks(D) * BLOCK * N + 1) * 8);
    const bench              t = { room, room + N * D, room + N * D + blocks(D) * BLOCK * N };
    if (!room) abort();
    pack(d, w->k + kv * d->n_k * D, w->v + kv * d->n_k * D, &t);
    for (int64_t r = kv * share * d->n_q; r < (kv + 1) * share * d->n_q; r++)
        row(w, ts_attention_keys(d, w->kv_len, kv / d->n_kv_head, r % d->n_q), r, &t);
    free(room);
}

void ts_attention_forward_all(const ts_attention_dims *d, const int32_t *kv_len, const double *q,
                              const double *k, const double *v, double *o, double *lse)
{
    const bool much = ts_attention_pairs(d) * (double)d->head_dim > 0x1p28;
    job        w = { d, kv_len, q, k, v, o, lse };
    ts_attention_each(much, d->n_batch * d->n_kv_head, head, &w);
}

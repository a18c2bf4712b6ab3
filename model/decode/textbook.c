/* SPDX-License-Identifier: Apache-2.0 */
/* textbook.c - generation as it is taught: one token at a time, plain loops, its own cache. It is
 * what the engine is compared with, in tokens and in speed, and shares only the weights with it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

typedef struct book {
    const ts_decoder *m;
    int64_t           n_total;
    float            *x, *h, *q, *mixed, *score, *gate, *up, *logits;
    float            *keys, *values; /* [n_layer][n_total][n_kv_head * head_dim] */
} book;

static void multiply(float *y, const float *w, const float *x, int64_t n_out, int64_t n_in)
{
    for (int64_t o = 0; o < n_out; o++) {
        float sum = 0;
        for (int64_t i = 0; i < n_in; i++) sum += w[o * n_in + i] * x[i];
        y[o] = sum;
    }
}

static void normalise(float *y, const float *x, const float *gain, int64_t n, double eps)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    const float scale = 1 / sqrtf(sum / (float)n + (float)eps);
    for (int64_t i = 0; i < n; i++) y[i] = gain[i] * (x[i] * scale);
}

static void turn(const book *b, float *v, int64_t n_head, int64_t position)
{
    const int64_t half = b->m->dims.head_dim / 2;
    for (int64_t h = 0; h < n_head; h++, v += 2 * half)
        for (int64_t i = 0; i < half; i++) {
            const float angle = (float)((double)position * b->m->frequency[i]);
            const float c = cosf(angle), s = sinf(angle), first = v[i], second = v[i + half];
            v[i] = first * c - second * s;
            v[i + half] = second * c + first * s;
        }
}

static void softmax(float *v, int64_t n)
{
    float most = v[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        if (v[i] > most) most = v[i];
    for (int64_t i = 0; i < n; i++) sum += v[i] = expf(v[i] - most);
    for (int64_t i = 0; i < n; i++) v[i] /= sum;
}

static void attend(const book *b, int64_t layer, int64_t position)
{
    const ts_decoder_dims *d = &b->m->dims;
    const int64_t          size = d->head_dim, row = d->n_kv_head * size;
    for (int64_t h = 0; h < d->n_head; h++) {
        const int64_t at = layer * b->n_total * row + h * d->n_kv_head / d->n_head * size;
        const float  *q = b->q + h * size;
        float        *out = b->mixed + h * size;
        for (int64_t t = 0; t <= position; t++) {
            float dot = 0;
            for (int64_t i = 0; i < size; i++) dot += q[i] * b->keys[at + t * row + i];
            b->score[t] = dot / sqrtf((float)size);
        }
        softmax(b->score, position + 1);
        memset(out, 0, (size_t)size * sizeof *out);
        for (int64_t t = 0; t <= position; t++)
            for (int64_t i = 0; i < size; i++) out[i] += b->score[t] * b->values[at + t * row + i];
    }
}

static void add(float *x, const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

static void layer(const book *b, int64_t l, int64_t position)
{
    const ts_decoder_dims *d = &b->m->dims;
    const int64_t          n_q = d->n_head * d->head_dim, n_kv = d->n_kv_head * d->head_dim;
    float                 *k = b->keys + (l * b->n_total + position) * n_kv;
    float                 *v = b->values + (l * b->n_total + position) * n_kv;
    normalise(b->h, b->x, ts_weight(b->m, l, TS_W_NORM_1), d->width, d->norm_eps);
    multiply(b->q, ts_weight(b->m, l, TS_W_Q), b->h, n_q, d->width);
    multiply(k, ts_weight(b->m, l, TS_W_K), b->h, n_kv, d->width);
    multiply(v, ts_weight(b->m, l, TS_W_V), b->h, n_kv, d->width);
    turn(b, b->q, d->n_head, position);
    turn(b, k, d->n_kv_head, position);
    attend(b, l, position);
    multiply(b->h, ts_weight(b->m, l, TS_W_O), b->mixed, d->width, n_q);
    add(b->x, b->h, d->width);
    normalise(b->h, b->x, ts_weight(b->m, l, TS_W_NORM_2), d->width, d->norm_eps);
    multiply(b->gate, ts_weight(b->m, l, TS_W_GATE), b->h, d->n_ffn, d->width);
    multiply(b->up, ts_weight(b->m, l, TS_W_UP), b->h, d->n_ffn, d->width);
    for (int64_t i = 0; i < d->n_ffn; i++) b->gate[i] *= b->up[i] / (1 + expf(-b->gate[i]));
    multiply(b->h, ts_weight(b->m, l, TS_W_DOWN), b->gate, d->width, d->n_ffn);
    add(b->x, b->h, d->width);
}

static int32_t next(const book *b, int32_t token, int64_t position)
{
    const ts_decoder_dims *d = &b->m->dims;
    const float           *embed = ts_weight(b->m, 0, TS_W_EMBED);
    int64_t                best = 0;
    memcpy(b->x, embed + token * d->width, (size_t)d->width * sizeof *b->x);
    for (int64_t l = 0; l < d->n_layer; l++) layer(b, l, position);
    normalise(b->x, b->x, ts_weight(b->m, 0, TS_W_NORM), d->width, d->norm_eps);
    multiply(b->logits, d->tied ? embed : ts_weight(b->m, 0, TS_W_HEAD), b->x, d->n_vocab,
             d->width);
    for (int64_t i = 1; i < d->n_vocab; i++)
        if (b->logits[i] > b->logits[best]) best = i;
    return (int32_t)best;
}

bool ts_textbook(const ts_decoder *m, int32_t *token, int64_t n_prompt, int64_t n_total,
                 char why[TS_MODEL_WHY])
{
    const ts_decoder_dims *d = &m->dims;
    const int64_t          n_q = d->n_head * d->head_dim, n_kv = d->n_kv_head * d->head_dim;
    const int64_t          n_cache = d->n_layer * n_total * n_kv;
    if (m->device != TS_CPU) return ts_say(why, "the textbook runs only on the CPU");
    if (m->dtype != TS_F32 || m->packed || m->n_encoded || d->layernorm || d->gelu || d->qk_norm ||
        d->qkv_bias || d->o_bias || d->ffn_bias || d->window)
        return ts_say(why, "the textbook supports only plain float32 Llama models");
    if (n_prompt < 1 || n_total < n_prompt || n_total > d->n_context)
        return ts_say(why, "textbook: got %lld tokens, expected at most %lld", (long long)n_total,
                      (long long)d->n_context);
    const int64_t room = 2 * d->width + 2 * n_q + n_total + 2 * d->n_ffn + d->n_vocab + 2 * n_cache;
    float        *all = malloc((size_t)room * sizeof *all), *at = all;
    if (!all) return ts_say(why, "out of memory for %lld numbers", (long long)room);
    book b = { .m = m, .n_total = n_total };
    b.x = at, at += d->width;
    b.h = at, at += d->width;
    b.q = at, at += n_q;
    b.mixed = at, at += n_q;
    b.score = at, at += n_total;
    b.gate = at, at += d->n_ffn;
    b.up = at, at += d->n_ffn;
    b.logits = at, at += d->n_vocab;
    b.keys = at, at += n_cache;
    b.values = at;
    for (int64_t i = 0; i + 1 < n_total; i++) {
        const int32_t made = next(&b, token[i], i);
        if (i + 1 >= n_prompt) token[i + 1] = made;
    }
    free(all);
    return true;
}

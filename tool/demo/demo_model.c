/* SPDX-License-Identifier: Apache-2.0 */
/* demo_model.c - a decoder for demos: the one that `generate` takes, else random weights; a
 * matching cache, and generated texts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decoder.h"
#include "demo_kv.h"
#include "model_options.h"
#include "rng.h"

enum { WIDTH = 64, FFN = 172, LAYERS = 5, HEADS = 8, KV_HEADS = 4, VOCAB = 512, CONTEXT = 512 };
enum { HEADER = 7, FIRST_TOKEN = 1 };

/* Of OpenBLAS, if that is the CBLAS: its threads do not speed up such small matrices, and waiting
 * for them would be timed. */
extern void openblas_set_num_threads(int n) __attribute__((weak));

static bool complain(const char *why)
{
    return ts_complain("model", why);
}

/* Normal weights in the format of a llama2.c file. Matrix rows of norm 1 preserve magnitudes; gains
 * are 1; the scale of embeddings keeps the largest probability away from 0 and 1. */
static size_t random_file(uint64_t seed, float *to)
{
    enum { KV = WIDTH / HEADS * KV_HEADS };
    static const struct {
        int64_t count;
        double  size; /* 0: gains */
    } parts[] = {
        { VOCAB * WIDTH, 0.3 },
        { LAYERS * WIDTH, 0 },
        { LAYERS * WIDTH * WIDTH, 0.25 },  /* q: scores that differ */
        { LAYERS * KV * WIDTH, 0.25 },     /* k */
        { LAYERS * KV * WIDTH, 0.125 },    /* v */
        { LAYERS * WIDTH * WIDTH, 0.125 }, /* o */
        { LAYERS * WIDTH, 0 },
        { LAYERS * FFN * WIDTH, 0.125 },
        { LAYERS * WIDTH * FFN, 0.125 },
        { LAYERS * FFN * WIDTH, 0.125 },
        { WIDTH, 0 },
        { CONTEXT * WIDTH / HEADS, 0 }, /* unused tables */
    };
    size_t at = HEADER;
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        for (int64_t i = 0; i < parts[p].count; i++, at++)
            if (to)
                to[at] =
                    parts[p].size > 0 ? (float)(parts[p].size * ts_normal(seed, (int64_t)at)) : 1;
    return at;
}

static bool open_random(uint64_t seed, ts_dtype dtype, ts_decoder **m, char *why)
{
    const int32_t header[HEADER] = { WIDTH, FFN, LAYERS, HEADS, KV_HEADS, VOCAB, CONTEXT };
    const size_t  n = random_file(seed, NULL);
    float        *file = malloc(n * sizeof *file);
    if (!file) return complain("out of memory for random weights");
    random_file(seed, file);
    memcpy(file, header, sizeof header);
    const bool ok = ts_decoder_llama2c(file, n * sizeof *file, dtype, m, why);
    free(file);
    return ok || complain(why);
}

bool ts_demo_model_open(const ts_demo_args *a, ts_dtype dtype, ts_demo_model *m)
{
    char why[TS_MODEL_WHY];
    *m = (ts_demo_model) { .path = ts_model_default() };
    if (m->path && !*m->path) m->path = NULL;
    if (openblas_set_num_threads) openblas_set_num_threads(1);
    if (!m->path) return open_random(ts_bits(a->seed, -1), dtype, &m->m, why);
    return ts_decoder_load(m->path, dtype, &m->m, why) || complain(why);
}

void ts_demo_model_close(ts_demo_model *m)
{
    ts_decoder_free(&m->m);
}

void ts_demo_model_about(const ts_demo_args *a, const ts_demo_model *m)
{
    const ts_decoder_dims *d = ts_decoder_dims_of(m->m);
    const char            *slash = m->path ? strrchr(m->path, '/') : NULL;
    const char            *name = !m->path ? "random" : slash && slash[1] ? slash + 1 : m->path;
    ts_json_text(a->json, "model", name);
    ts_print(a->table,
             "Model: %s; %lld layers, %lld query heads over %lld KV heads of %lld channels.\n",
             m->path ? name : "random weights (no model was found)", (long long)d->n_layer,
             (long long)d->n_head, (long long)d->n_kv_head, (long long)d->head_dim);
}

ts_kv_dims ts_demo_model_dims(const ts_demo_model *m, int64_t n_seq, int64_t capacity,
                              int64_t max_call_tokens)
{
    const ts_decoder_dims *d = ts_decoder_dims_of(m->m);
    ts_kv_dims             k =
        ts_demo_kv_dims(d->n_layer, n_seq, d->n_head, d->n_kv_head, d->head_dim, capacity);
    k.max_call_tokens = max_call_tokens;
    k.io_dtype = k.store_dtype = ts_decoder_dtype(m->m);
    return k;
}

bool ts_demo_model_cache(const ts_demo_model *m, const ts_kv_dims *d, ts_demo_kv *k)
{
    if (!ts_demo_kv_make(d, k)) return false;
    k->x.workspace_bytes = ts_decoder_workspace(m->m, d->max_call_tokens, k->workspace_bytes);
    void *more = realloc(k->x.workspace, k->x.workspace_bytes);
    if (!more) return complain("out of memory for the workspace");
    k->x.workspace = more;
    return true;
}

bool ts_demo_model_forward(const ts_demo_model *m, ts_demo_kv *k, const ts_demo_batch *b,
                           double *logits)
{
    const int64_t n_vocab = ts_decoder_dims_of(m->m)->n_vocab;
    int64_t       n = 0, n_want = 0;
    for (int64_t i = 0; i < b->n_seq; i++) n += b->n_new[i];
    int64_t *want = malloc((size_t)n * sizeof *want);
    for (int64_t i = 0, end = 0; want && i < b->n_seq; i++) {
        end += b->n_new[i];
        for (int64_t t = b->all ? end - b->n_new[i] : end - 1; t < end; t++) want[n_want++] = t;
    }
    /* In the model's dtype at first; widened in place, from the last element to the first. */
    const ts_forward_args f = {
        k->c, b->n_seq, b->seq, b->n_new, b->token, n_want, want, logits,
    };
    const bool ok = want ? ts_demo_ok("forward", ts_decoder_forward(m->m, &f, &k->x))
                         : complain("out of memory");
    if (ok && ts_decoder_dtype(m->m) == TS_F32)
        for (int64_t i = n_want * n_vocab - 1; i >= 0; i--) {
            float one;
            memcpy(&one, (const char *)logits + (size_t)i * sizeof one, sizeof one);
            logits[i] = one;
        }
    free(want);
    return ok;
}

bool ts_demo_model_text(const ts_demo_model *m, uint64_t seed, int32_t *token, int64_t n)
{
    const int64_t     n_vocab = ts_decoder_dims_of(m->m)->n_vocab, one = 1;
    const ts_sampling how = { .temperature = 1, .top_p = 1, .seed = seed };
    const ts_kv_dims  d = ts_demo_model_dims(m, 1, n, 1);
    double           *wide = malloc((size_t)n_vocab * sizeof *wide);
    float            *row = malloc((size_t)n_vocab * sizeof *row);
    ts_sampler       *s = NULL;
    ts_demo_kv        k = { 0 };
    int32_t           seq;
    bool              ok = wide && row && ts_sampler_create(n_vocab, &s)
                               ? ts_demo_model_cache(m, &d, &k)
                               : complain("out of memory for a sequence");
    ok = ok && ts_demo_ok("open", ts_kv_open(k.c, &k.x, &seq));
    token[0] = ts_decoder_dims_of(m->m)->n_stop ? ts_decoder_dims_of(m->m)->stop[0] : FIRST_TOKEN;
    for (int64_t i = 0; ok && i + 1 < n; i++) {
        const ts_demo_batch b = { 1, &seq, &one, token + i, false };
        ok = ts_demo_model_forward(m, &k, &b, wide);
        for (int64_t c = 0; c < n_vocab; c++) row[c] = (float)wide[c];
        ok = ok && ts_demo_ok("draw", ts_sampler_draw(s, &how, i, row, &token[i + 1]));
    }
    ts_demo_kv_free(&k);
    ts_sampler_free(&s);
    free(wide);
    free(row);
    return ok;
}

int64_t ts_demo_likeliest(const double *logits, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

double ts_demo_farthest(const double *a, const double *b, int64_t n)
{
    double far = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs(a[i] - b[i]);
        if (!(d <= far)) far = d < INFINITY ? d : INFINITY;
    }
    return far;
}

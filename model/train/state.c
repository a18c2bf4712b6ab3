/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - a checkpoint: a header, weights, both moments, a checksum. It goes on only what it was
 * begun with, or the steps that follow would not be those that would have followed. */
#include <string.h>

#include "rng.h"
#include "touchstone/ternary.h"
#include "train_impl.h"

static const char magic[8] = "tstrain3";

/* All that decides a step. Counts are far below 2^53; a seed goes in two halves. */
enum { KEYS = 33 };

typedef struct key {
    const char *name;
    double      value;
} key;

static double weights_per_scale(const ts_net_options *o)
{
    return !o->ternary ? 1 : o->paired ? 2 * TS_TERNARY_GROUP : TS_TERNARY_GROUP;
}

static void keys_of(const ts_state *s, key keys[KEYS])
{
    const ts_decoder_dims  *d = &s->net->dims;
    const ts_train_options *t = s->train;
    const int64_t           n_batch = s->net->n_batch * (t->team ? t->team->size : 1);
    const key               all[KEYS] = {
                      { "layers", (double)d->n_layer },
                      { "width", (double)d->width },
                      { "heads", (double)d->n_head },
                      { "KV heads", (double)d->n_kv_head },
                      { "head size", (double)d->head_dim },
                      { "feed-forward width", (double)d->n_ffn },
                      { "vocabulary", (double)d->n_vocab },
                      { "context", (double)d->n_context },
                      { "norm epsilon", d->norm_eps },
                      { "rope_theta", d->rope_theta },
                      { "weights per scale", weights_per_scale(s->net) },
                      { "batch", (double)n_batch },
                      { "length", (double)s->net->n_token },
                      { "lr", t->adamw.lr },
                      { "beta1", t->adamw.beta1 },
                      { "beta2", t->adamw.beta2 },
                      { "eps", t->adamw.eps },
                      { "weight decay", t->adamw.weight_decay },
                      { "clip norm", t->adamw.clip_norm },
                      { "final rate", t->last },
                      { "steps", (double)t->n_step },
                      { "warm-up", (double)t->n_warm },
                      { "accumulate", (double)t->n_accumulate },
                      { "steps between evaluations", (double)t->eval_every },
                      { "patience", (double)t->patience },
                      { "steps between checkpoints", (double)t->save_every },
                      { "seed", (double)(t->seed >> 32) },
                      { "seed", (double)(t->seed & 0xffffffffu) },
                      { "text", (double)(t->data >> 32) },
                      { "text", (double)(t->data & 0xffffffffu) },
                      { "weights", (double)s->n_count },
                      { "device", s->net->device },
                      { "dtype", s->net->dtype },
    };
    memcpy(keys, all, sizeof all);
}

typedef struct header {
    char        magic[8];
    double      key[KEYS];
    ts_progress progress;
} header;

static uint64_t sum_of(uint64_t sum, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (; n;) {
        uint64_t     word = 0;
        const size_t len = n < sizeof word ? n : sizeof word;
        memcpy(&word, p, len);
        sum = ts_mix(sum ^ word) + len;
        p += len;
        n -= len;
    }
    return sum;
}

bool ts_state_save(const char *path, const ts_state *s, char why[TS_MODEL_WHY])
{
    header h;
    key    keys[KEYS];
    memset(&h, 0, sizeof h);
    memcpy(h.magic, magic, sizeof magic);
    keys_of(s, keys);
    for (int i = 0; i < KEYS; i++) h.key[i] = keys[i].value;
    h.progress = s->progress;
    const size_t n = (size_t)s->n_count * sizeof(float);
    uint64_t     sum = 0;
    ts_part      part[] = { { &h, sizeof h }, { s->w, n }, { s->m, n }, { s->v, n }, { &sum, 8 } };
    for (int i = 0; i < 4; i++) sum = sum_of(sum, part[i].bytes, part[i].n);
    return ts_file_write_parts(path, part, 5, why);
}

static double value_of(const double *value, const key *keys, const char *name)
{
    for (int k = 0; k < KEYS; k++)
        if (!strcmp(keys[k].name, name)) return value[k];
    return 0;
}

/* A run's end may change, and with it the warm-up, which follows from the steps. A run that is over
 * is extended: it may take more steps, or wait longer for a gain. One that was interrupted may take
 * fewer steps than planned, but more than it has taken. */
static bool may_differ(const header *h, const double *now, const key *keys, int i)
{
    const double planned = value_of(h->key, keys, "steps"), steps = value_of(now, keys, "steps");
    const double patience = value_of(h->key, keys, "patience");
    const double taken = (double)h->progress.step;
    const bool   stopped = patience > 0 && (double)h->progress.n_worse >= patience;
    const bool   over = stopped || taken >= planned, shorter = steps > taken && steps < planned;
    if (!strcmp(keys[i].name, "steps")) return over ? steps > planned : shorter;
    if (!strcmp(keys[i].name, "warm-up")) return over || shorter;
    return over && !strcmp(keys[i].name, "patience");
}

static bool read_state(const ts_file *f, ts_state *s, char why[TS_MODEL_WHY])
{
    const size_t n = (size_t)s->n_count * sizeof(float);
    double       now[KEYS];
    key          keys[KEYS];
    header       h;
    uint64_t     sum;
    if (f->n < sizeof h) return ts_say(why, "checkpoint: got %zu bytes, expected more", f->n);
    memcpy(&h, f->bytes, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic))
        return ts_say(why, "checkpoint: not a checkpoint file");
    keys_of(s, keys);
    for (int i = 0; i < KEYS; i++) now[i] = keys[i].value;
    for (int i = 0; i < KEYS; i++)
        if (h.key[i] != now[i] && !may_differ(&h, now, keys, i))
            return ts_say(why,
                          "checkpoint: %s: got %.10g, expected %.10g as at the start of the run",
                          keys[i].name, keys[i].value, h.key[i]);
    if (f->n != sizeof h + 3 * n + sizeof sum)
        return ts_say(why, "checkpoint: got %zu bytes, expected %zu", f->n,
                      sizeof h + 3 * n + sizeof sum);
    memcpy(&sum, f->bytes + f->n - sizeof sum, sizeof sum);
    const unsigned char *at = f->bytes + sizeof h;
    uint64_t             found = sum_of(0, f->bytes, sizeof h);
    for (int i = 0; i < 3; i++) found = sum_of(found, at + (size_t)i * n, n);
    if (found != sum) return ts_say(why, "checkpoint: checksum mismatch");
    memcpy(s->w, at, n);
    memcpy(s->m, at + n, n);
    memcpy(s->v, at + 2 * n, n);
    s->progress = h.progress;
    return true;
}

bool ts_state_load(const char *path, ts_state *s, char why[TS_MODEL_WHY])
{
    ts_file f;
    if (!ts_file_map(path, &f, why)) return false;
    const bool ok = read_state(&f, s, why);
    ts_file_unmap(&f);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_gguf.c - dimensions and weights of a decoder from a GGUF file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

/* What the architectures differ in. `pairs`: channels turn as 2i and 2i + 1. Mistral's files say
 * llama. */
static const struct {
    const char *name;
    bool        pairs, layernorm, gelu, qk_norm;
} architectures[] = {
    { "llama", true, false, false, false },
    { "qwen2", false, false, false, false },
    { "qwen3", false, false, false, true },
    { "starcoder2", false, true, true, false },
};

static const char *const layer_name[TS_LAYER_SLOTS] = {
    [TS_W_NORM_1] = "attn_norm.weight",   [TS_W_NORM_1_BIAS] = "attn_norm.bias",
    [TS_W_Q] = "attn_q.weight",           [TS_W_Q_BIAS] = "attn_q.bias",
    [TS_W_K] = "attn_k.weight",           [TS_W_K_BIAS] = "attn_k.bias",
    [TS_W_V] = "attn_v.weight",           [TS_W_V_BIAS] = "attn_v.bias",
    [TS_W_Q_NORM] = "attn_q_norm.weight", [TS_W_K_NORM] = "attn_k_norm.weight",
    [TS_W_O] = "attn_output.weight",      [TS_W_O_BIAS] = "attn_output.bias",
    [TS_W_NORM_2] = "ffn_norm.weight",    [TS_W_NORM_2_BIAS] = "ffn_norm.bias",
    [TS_W_GATE] = "ffn_gate.weight",      [TS_W_UP] = "ffn_up.weight",
    [TS_W_UP_BIAS] = "ffn_up.bias",       [TS_W_DOWN] = "ffn_down.weight",
    [TS_W_DOWN_BIAS] = "ffn_down.bias",
};

static const char *const model_name[] = {
    "token_embd.weight",
    "output_norm.weight",
    "output_norm.bias",
    "output.weight",
};

void ts_gguf_slot_name(int64_t layer, ts_slot s, char name[TS_SLOT_NAME])
{
    if (s < TS_LAYER_SLOTS)
        snprintf(name, TS_SLOT_NAME, "blk.%lld.%s", (long long)layer, layer_name[s]);
    else snprintf(name, TS_SLOT_NAME, "%s", model_name[s - TS_LAYER_SLOTS]);
}

bool ts_gguf_find(const ts_gguf *g, const char *name, ts_shape shape, ts_tensor *out,
                  char why[TS_MODEL_WHY])
{
    const ts_gguf_tensor *t = ts_gguf_named(g, name);
    const uint64_t        cols = (uint64_t)(shape.cols ? shape.cols : shape.rows);
    const uint64_t        rows = shape.cols ? (uint64_t)shape.rows : 1;
    if (!t) return ts_say(why, "gguf: tensor %s: missing", name);
    const ts_block *block = ts_block_of(t->format);
    if (!block)
        return ts_say(why, "gguf: tensor %s: got format %u, expected one of %s", name, t->format,
                      ts_block_names);
    uint64_t others = 1;
    for (uint32_t i = 2; i < t->n_dims; i++) others *= t->dim[i];
    if (t->dim[0] != cols || (t->n_dims > 1 ? t->dim[1] : 1) != rows || others != 1 ||
        cols % (uint64_t)block->n)
        return ts_say(why, "gguf: tensor %s: got %llu x %llu in %s, expected %lld x %lld", name,
                      (unsigned long long)(t->n_dims > 1 ? t->dim[1] : 1),
                      (unsigned long long)t->dim[0], block->name, (long long)rows, (long long)cols);
    const uint64_t n_bytes = rows * (cols / (uint64_t)block->n) * (uint64_t)block->n_bytes;
    if (n_bytes > t->room)
        return ts_say(why, "gguf: tensor %s: truncated: the file ends inside the tensor", name);
    *out = (ts_tensor) { .data = t->at, .block = block };
    return true;
}

typedef struct source {
    const ts_gguf *g;
    char           prefix[64]; /* of its keys */
    bool           pairs;
    char          *why;
} source;

static const char *key_of(const source *s, const char *name, char key[128])
{
    snprintf(key, 128, "%s.%s", s->prefix, name);
    return key;
}

/* Numbers that a file may leave out keep what they have. */
static bool integer(const source *s, const char *name, bool required, int64_t *v)
{
    char key[128];
    if (ts_gguf_integer(s->g, key_of(s, name, key), v) || !required) return true;
    return ts_say(s->why, "gguf: %s: missing", key);
}

static bool architecture(source *s, ts_decoder_dims *d)
{
    ts_gguf_text name = { "", 0 };
    ts_gguf_string(s->g, "general.architecture", &name);
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        if (!ts_gguf_is(s->g, "general.architecture", architectures[i].name)) continue;
        snprintf(s->prefix, sizeof s->prefix, "%s", architectures[i].name);
        s->pairs = architectures[i].pairs;
        d->layernorm = architectures[i].layernorm;
        d->gelu = architectures[i].gelu;
        d->qk_norm = architectures[i].qk_norm;
        return true;
    }
    return ts_say(s->why,
                  "gguf: general.architecture: got '%.*s', expected llama, qwen2, qwen3 or "
                  "starcoder2",
                  (int)(name.n < 40 ? name.n : 40), name.p);
}

static bool sizes(const source *s, ts_decoder_dims *d)
{
    int64_t n_expert = 0, turned, value_dim;
    d->n_context = 2048;
    if (!integer(s, "block_count", true, &d->n_layer) ||
        !integer(s, "embedding_length", true, &d->width) ||
        !integer(s, "feed_forward_length", true, &d->n_ffn) ||
        !integer(s, "attention.head_count", true, &d->n_head))
        return false;
    d->n_kv_head = d->n_head;
    d->head_dim = d->n_head > 0 ? d->width / d->n_head : 0;
    d->n_vocab = ts_gguf_count(s->g, "tokenizer.ggml.tokens", true);
    integer(s, "attention.head_count_kv", false, &d->n_kv_head);
    integer(s, "attention.key_length", false, &d->head_dim);
    integer(s, "context_length", false, &d->n_context);
    integer(s, "vocab_size", false, &d->n_vocab);
    integer(s, "attention.sliding_window", false, &d->window);
    integer(s, "expert_count", false, &n_expert);
    turned = value_dim = d->head_dim;
    integer(s, "attention.value_length", false, &value_dim);
    integer(s, "rope.dimension_count", false, &turned);
    if (n_expert) return ts_say(s->why, "gguf: a mixture of experts is not supported");
    if (value_dim != d->head_dim || turned != d->head_dim)
        return ts_say(s->why,
                      "gguf: got heads of %lld channels with values of %lld and %lld rotated, "
                      "expected all alike",
                      (long long)d->head_dim, (long long)value_dim, (long long)turned);
    return true;
}

static bool norms_and_rotation(const source *s, ts_decoder_dims *d)
{
    char         key[128];
    ts_gguf_text type = { "none", 4 };
    const char  *eps =
        d->layernorm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
    if (!ts_gguf_number(s->g, key_of(s, eps, key), &d->norm_eps))
        return ts_say(s->why, "gguf: %s: missing", key);
    d->rope_theta = 10000;
    d->rope_factor = d->rope_low = 1;
    d->rope_high = 4;
    ts_gguf_number(s->g, key_of(s, "rope.freq_base", key), &d->rope_theta);
    ts_gguf_string(s->g, key_of(s, "rope.scaling.type", key), &type);
    if (!strncmp(type.p, "none", type.n)) return true;
    if (strncmp(type.p, "linear", type.n))
        return ts_say(s->why, "gguf: %s: got '%.*s', expected none or linear", key,
                      (int)(type.n < 40 ? type.n : 40), type.p);
    ts_gguf_number(s->g, key_of(s, "rope.scaling.factor", key), &d->rope_factor);
    return true;
}

/* Biases and the head are what the file has. */
static void parts(const source *s, ts_decoder_dims *d)
{
    d->qkv_bias = ts_gguf_named(s->g, "blk.0.attn_q.bias");
    d->o_bias = ts_gguf_named(s->g, "blk.0.attn_output.bias");
    d->ffn_bias = ts_gguf_named(s->g, "blk.0.ffn_down.bias");
    d->tied = !ts_gguf_named(s->g, "output.weight");
}

static void stops(const source *s, ts_decoder_dims *d)
{
    static const char *const key[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id" };
    for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
        int64_t id;
        bool    known = false;
        if (!ts_gguf_integer(s->g, key[i], &id) || id < 0 || id >= d->n_vocab) continue;
        for (int k = 0; k < d->n_stop; k++) known |= d->stop[k] == id;
        if (!known) d->stop[d->n_stop++] = (int32_t)id;
    }
}

static bool tensors(const source *s, const ts_decoder_dims *d, ts_tensor *tensor)
{
    char name[TS_SLOT_NAME];
    for (int64_t l = 0; l < d->n_layer; l++)
        for (int i = 0; i < (l ? TS_LAYER_SLOTS : TS_SLOTS); i++) {
            const ts_shape shape = ts_slot_shape(d, (ts_slot)i);
            if (!shape.rows) continue;
            ts_gguf_slot_name(l, (ts_slot)i, name);
            if (!ts_gguf_find(s->g, name, shape, &tensor[ts_slot_at(d, l, (ts_slot)i)], s->why))
                return false;
        }
    return true;
}

/* Llama 3.1 and later: by how much each pair turns slower. */
static bool slow_down(const source *s, ts_decoder *m)
{
    const int64_t n = m->dims.head_dim / 2;
    ts_tensor     t;
    float         factor;
    if (!ts_gguf_named(s->g, "rope_freqs.weight")) return true;
    if (!ts_gguf_find(s->g, "rope_freqs.weight", (ts_shape) { n, 0 }, &t, s->why)) return false;
    for (int64_t i = 0; i < n; i++) {
        if (t.block->n != 1) return ts_say(s->why, "gguf: rope_freqs.weight: expected numbers");
        ts_block_row(t.block, t.data + i * t.block->n_bytes, 1, &factor);
        if (!(factor > 0 && factor < 1e6f))
            return ts_say(s->why, "gguf: rope_freqs.weight: got %g, expected 0 to 1e6",
                          (double)factor);
        m->frequency[i] /= (double)factor;
    }
    return true;
}

static bool make(source *s, ts_dtype dtype, bool stay, ts_decoder **m)
{
    ts_decoder_dims d = { 0 };
    if (!architecture(s, &d) || !sizes(s, &d) || !norms_and_rotation(s, &d)) return false;
    parts(s, &d);
    if (!ts_dims_check(&d, s->why)) return false;
    stops(s, &d);
    ts_tensor *tensor = calloc((size_t)ts_slot_count(&d), sizeof *tensor);
    if (!tensor) return ts_say(s->why, "out of memory for %lld layers", (long long)d.n_layer);
    const bool ok = tensors(s, &d, tensor) &&
                    ts_decoder_make(&d, dtype, tensor, s->pairs, stay, m, s->why) &&
                    slow_down(s, *m);
    free(tensor);
    if (!ok) ts_decoder_free(m);
    return ok;
}

static bool parse(const void *bytes, size_t n, ts_dtype dtype, bool stay, ts_decoder **m,
                  char why[TS_MODEL_WHY])
{
    ts_gguf *g;
    source   s = { .why = why };
    *m = NULL;
    if (!ts_gguf_parse(bytes, n, &g, why)) return false;
    s.g = g;
    const bool ok = make(&s, dtype, stay, m);
    ts_gguf_free(&g);
    return ok;
}

bool ts_decoder_gguf(const void *bytes, size_t n, ts_dtype dtype, ts_decoder **m,
                     char why[TS_MODEL_WHY])
{
    return parse(bytes, n, dtype, false, m, why);
}

bool ts_decoder_gguf_file(ts_file *f, ts_dtype dtype, ts_decoder **m, char why[TS_MODEL_WHY])
{
    if (!parse(f->bytes, f->n, dtype, true, m, why)) return false;
    if (!(*m)->n_encoded) return true;
    (*m)->file = malloc(sizeof *(*m)->file);
    if (!(*m)->file) {
        ts_decoder_free(m);
        return ts_say(why, "out of memory");
    }
    (*m)->file[(*m)->n_file++] = *f;
    *f = (ts_file) { 0 };
    return true;
}

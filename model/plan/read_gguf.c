/* SPDX-License-Identifier: Apache-2.0 */
/* read_gguf.c - a model's dimensions and bytes from the header of a GGUF file. */
#include <string.h>

#include "gguf.h"
#include "plan_impl.h"

enum { MOST_TEXT = 128 };

typedef struct reader {
    const ts_gguf *g;
    ts_plan_model *m;
    char           type[MOST_TEXT]; /* general.architecture */
    int64_t        key_length, value_length, key_length_mla, value_length_mla;
    int64_t        n_tokens, full_every, expert_step, n_shared_ffn, n_inner;
    size_t         n_file;
    char          *why;
} reader;

static void keep(reader *r, const char *key, int64_t value)
{
    ts_plan_model *m = r->m;
    const struct {
        const char *key;
        int64_t    *to;
    } known[] = {
        { "block_count", &m->n_layer },
        { "embedding_length", &m->width },
        { "feed_forward_length", &m->n_ffn },
        { "context_length", &m->n_context },
        { "vocab_size", &m->n_vocab },
        { "attention.head_count", &m->n_head },
        { "attention.head_count_kv", &m->n_kv_head },
        { "attention.key_length", &r->key_length },
        { "attention.value_length", &r->value_length },
        { "attention.key_length_mla", &r->key_length_mla },
        { "attention.value_length_mla", &r->value_length_mla },
        { "attention.sliding_window", &m->window },
        { "attention.kv_lora_rank", &m->kv_rank },
        { "attention.q_lora_rank", &m->q_rank },
        { "rope.dimension_count", &m->rope },
        { "expert_count", &m->n_expert },
        { "expert_used_count", &m->n_expert_used },
        { "expert_shared_count", &m->n_expert_shared },
        { "expert_feed_forward_length", &m->n_expert_ffn },
        { "leading_dense_block_count", &m->n_dense_layer },
        { "attention.chunk_size", &m->window },
        { "interleave_moe_layer_step", &r->expert_step },
        { "expert_shared_feed_forward_length", &r->n_shared_ffn },
        { "full_attention_interval", &r->full_every },
        { "ssm.group_count", &m->n_linear_key },
        { "ssm.time_step_rank", &m->n_linear_value },
        { "ssm.state_size", &m->linear_key_dim },
        { "ssm.inner_size", &r->n_inner },
        { "ssm.conv_kernel", &m->conv },
    };
    const char *dot = strchr(key, '.');
    if (!dot || !strncmp(key, "general.", 8) || !strncmp(key, "tokenizer.", 10)) return;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(dot + 1, known[i].key)) *known[i].to = value;
}

static void cut(ts_gguf_text t, char text[MOST_TEXT])
{
    memset(text, 0, MOST_TEXT);
    memcpy(text, t.p, t.n < MOST_TEXT ? t.n : MOST_TEXT - 1);
}

static void keep_all(reader *r)
{
    ts_gguf_text text;
    char         key[MOST_TEXT];
    if (ts_gguf_string(r->g, "general.architecture", &text)) cut(text, r->type);
    r->n_tokens = ts_gguf_count(r->g, "tokenizer.ggml.tokens", true);
    for (int64_t i = 0; i < ts_gguf_keys(r->g); i++) {
        cut(ts_gguf_key(r->g, i), key);
        const double v = ts_gguf_most(r->g, i);
        keep(r, key, v < (double)TS_PLAN_MOST ? (int64_t)v : 0);
    }
}

/* Elements and bytes of a block. */
static bool block_of(uint32_t type, int64_t *n, int64_t *bytes)
{
    static const struct {
        uint32_t type;
        int16_t  n, bytes;
    } blocks[] = {
        { 0, 1, 4 },      { 1, 1, 2 },      { 2, 32, 18 },    { 3, 32, 20 },    { 6, 32, 22 },
        { 7, 32, 24 },    { 8, 32, 34 },    { 9, 32, 36 },    { 10, 256, 84 },  { 11, 256, 110 },
        { 12, 256, 144 }, { 13, 256, 176 }, { 14, 256, 210 }, { 15, 256, 292 }, { 16, 256, 66 },
        { 17, 256, 74 },  { 18, 256, 98 },  { 19, 256, 50 },  { 20, 32, 18 },   { 21, 256, 110 },
        { 22, 256, 82 },  { 23, 256, 136 }, { 24, 1, 1 },     { 25, 1, 2 },     { 26, 1, 4 },
        { 27, 1, 8 },     { 28, 1, 8 },     { 29, 256, 56 },  { 30, 1, 2 },     { 34, 256, 54 },
        { 35, 256, 66 },  { 39, 32, 17 },
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        if (blocks[i].type != type) continue;
        *n = blocks[i].n, *bytes = blocks[i].bytes;
        return true;
    }
    return false;
}

static bool add_tensor(reader *r, const ts_gguf_tensor *t)
{
    char    name[MOST_TEXT];
    int64_t n = 1, block, bytes;
    cut(t->name, name);
    for (uint32_t i = 0; i < t->n_dims; i++)
        n = ts_times(n, t->dim[i] > TS_PLAN_MOST ? TS_PLAN_MOST : (int64_t)t->dim[i]);
    if (!block_of(t->format, &block, &bytes) || n % block)
        return ts_say(r->why, "gguf: tensor %.80s: invalid size or type: %lld elements of type %u",
                      name, (long long)n, t->format);
    bytes = ts_times(n / block, bytes);
    if (bytes > (int64_t)t->room)
        return ts_say(r->why, "gguf: tensor %.80s: got %lld bytes, %lld too many in a file of %zu",
                      name, (long long)bytes, (long long)(bytes - (int64_t)t->room), r->n_file);
    r->m->file_bytes = ts_plus(r->m->file_bytes, bytes);
    return true;
}

/* Of families with gated attention, all layers but every full_every-th are linear. The same keys
 * mean something else in other families. */
static void linear(reader *r)
{
    ts_plan_model *m = r->m;
    const int64_t  full_every = r->full_every > 0 ? r->full_every : 4;
    if (!m->q_gate || !m->n_linear_value) {
        m->n_linear_key = m->n_linear_value = m->linear_key_dim = m->conv = 0;
        return;
    }
    m->n_linear_layer = m->n_layer - m->n_layer / full_every;
    m->linear_value_dim = r->n_inner / m->n_linear_value;
}

/* Llama 4 has experts in every expert_step-th layer, each with a shared one. Qwen gives the width
 * of all shared experts, which have a gate. */
static void shared_experts(reader *r)
{
    ts_plan_model *m = r->m;
    if (!m->n_expert) return;
    if (r->expert_step > 0) {
        m->n_expert_shared = 1;
        m->n_dense_layer = m->n_layer - m->n_layer / r->expert_step;
    }
    if (r->n_shared_ffn > 0 && m->n_expert_ffn > 0) {
        m->n_expert_shared = r->n_shared_ffn / m->n_expert_ffn;
        m->shared_gate = true;
    }
}

static bool complete(reader *r)
{
    ts_plan_model *m = r->m;
    int64_t        full_every;
    m->note = "GGUF header";
    if (!ts_plan_family(r->type, m, &full_every))
        m->note = "GGUF header, unknown architecture counted as Llama";
    if (!m->n_kv_head) m->n_kv_head = m->n_head;
    m->head_dim = r->key_length ? r->key_length : m->n_head > 0 ? m->width / m->n_head : 0;
    if (!m->n_vocab && r->n_tokens > 0) m->n_vocab = r->n_tokens;
    if (m->n_expert && !m->n_expert_ffn) m->n_expert_ffn = m->n_ffn;
    shared_experts(r);
    linear(r);
    if (!strcmp(r->type, "llama4") && !m->window) m->window = 8192; /* older files omit it */
    if (m->kv_rank) {
        m->v_dim = r->value_length_mla ? r->value_length_mla : r->value_length;
        m->nope = (r->key_length_mla ? r->key_length_mla : r->key_length) - m->rope;
    } else m->rope = 0;
    if (m->window) m->n_window_layer = m->n_layer - (full_every ? m->n_layer / full_every : 0);
    if (!m->n_window_layer) m->window = 0;
    m->tied = !ts_gguf_named(r->g, "output.weight");
    return ts_plan_check_model(m, r->why);
}

static bool read(const ts_gguf *g, size_t n_file, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    reader                r = { .g = g, .m = m, .n_file = n_file, .why = why };
    int64_t               n;
    const ts_gguf_tensor *t = ts_gguf_tensors(g, &n);
    keep_all(&r);
    for (int64_t i = 0; i < n; i++)
        if (!add_tensor(&r, &t[i])) return false;
    return complete(&r);
}

bool ts_plan_gguf(const char *path, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    ts_file  f;
    ts_gguf *g = NULL;
    if (!ts_file_map(path, &f, why)) return false;
    const bool ok = ts_gguf_parse(f.bytes, f.n, &g, why) && read(g, f.n, m, why);
    ts_gguf_free(&g);
    ts_file_unmap(&f);
    return ok;
}

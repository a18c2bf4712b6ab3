/* SPDX-License-Identifier: Apache-2.0 */
/* read_gguf.c - reads the header of a GGUF file: keys with values, then names, shapes and types of
 * tensors. Integers are little-endian, like all supported machines. */
#include <string.h>

#include "plan_impl.h"

enum { MOST_TEXT = 128, MOST_DIMS = 8, STRING = 8, ARRAY = 9 };

typedef struct reader {
    FILE          *f;
    int64_t        at, end;
    ts_plan_model *m;
    char           type[MOST_TEXT]; /* general.architecture */
    int64_t        key_length, value_length, key_length_mla, value_length_mla;
    int64_t        alignment, n_tokens, full_every, expert_step, n_shared_ffn, n_inner;
    bool           has_head;
    char          *why;
} reader;

static bool get(reader *r, void *to, int64_t n)
{
    if (n > r->end - r->at || fread(to, 1, (size_t)n, r->f) != (size_t)n)
        return ts_plan_say(r->why, "gguf: file ends inside the header, after %lld bytes",
                           (long long)r->at);
    r->at += n;
    return true;
}

static bool skip(reader *r, int64_t n)
{
    char room[4096];
    while (n > 0) {
        const int64_t some = n < (int64_t)sizeof room ? n : (int64_t)sizeof room;
        if (!get(r, room, some)) return false;
        n -= some;
    }
    return true;
}

/* The first MOST_TEXT - 1 bytes of a string. */
static bool get_text(reader *r, char text[MOST_TEXT])
{
    uint64_t n;
    if (!get(r, &n, sizeof n)) return false;
    if (n > (uint64_t)(r->end - r->at))
        return ts_plan_say(r->why, "gguf: got a string of %llu bytes in a file of %lld",
                           (unsigned long long)n, (long long)r->end);
    const int64_t kept = ts_lesser((int64_t)n, MOST_TEXT - 1);
    memset(text, 0, MOST_TEXT);
    return get(r, text, kept) && skip(r, (int64_t)n - kept);
}

/* Bytes of the value types: u8 i8 u16 i16 u32 i32 f32 bool; string, array; u64 i64 f64. */
static int scalar_bytes(uint32_t type)
{
    static const int bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return type < sizeof bytes / sizeof *bytes ? bytes[type] : 0;
}

/* Integers only; other types read as 0. */
static bool get_scalar(reader *r, uint32_t type, int64_t *value)
{
    uint64_t  bits = 0;
    const int n = scalar_bytes(type);
    if (!n) return ts_plan_say(r->why, "gguf: unknown value type %u", type);
    if (!get(r, &bits, n)) return false;
    *value = type == 6 || type == 12 || bits > INT64_MAX ? 0 : (int64_t)bits;
    return true;
}

/* The maximum of an array of numbers, else the number of items. */
static bool get_array(reader *r, int64_t *value, int64_t *n_items)
{
    uint32_t type;
    uint64_t n;
    char     text[MOST_TEXT];
    *value = 0;
    if (!get(r, &type, sizeof type) || !get(r, &n, sizeof n)) return false;
    if (n > (uint64_t)(r->end - r->at))
        return ts_plan_say(r->why, "gguf: got an array of %llu items in a file of %lld bytes",
                           (unsigned long long)n, (long long)r->end);
    *n_items = (int64_t)n;
    if (type != STRING && !scalar_bytes(type))
        return ts_plan_say(r->why, "gguf: unknown array item type %u", type);
    for (uint64_t i = 0; i < n; i++) {
        int64_t v = 0;
        if (type == STRING ? !get_text(r, text) : !get_scalar(r, type, &v)) return false;
        if (v > *value) *value = v;
    }
    return true;
}

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
    if (!strcmp(key, "general.alignment")) r->alignment = value;
    if (!dot || !strncmp(key, "general.", 8) || !strncmp(key, "tokenizer.", 10)) return;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(dot + 1, known[i].key)) *known[i].to = value;
}

static bool get_pair(reader *r)
{
    char     key[MOST_TEXT], text[MOST_TEXT];
    uint32_t type;
    int64_t  value = 0, n_items = 0;
    if (!get_text(r, key) || !get(r, &type, sizeof type)) return false;
    if (type == STRING) {
        if (!get_text(r, text)) return false;
        if (!strcmp(key, "general.architecture")) memcpy(r->type, text, sizeof text);
        return true;
    }
    if (type == ARRAY ? !get_array(r, &value, &n_items) : !get_scalar(r, type, &value))
        return false;
    if (!strcmp(key, "tokenizer.ggml.tokens")) r->n_tokens = n_items;
    keep(r, key, value);
    return true;
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

/* *end: end of the tensor, relative to the first one. */
static bool get_tensor(reader *r, int64_t *end)
{
    char     name[MOST_TEXT];
    uint32_t n_dims, type;
    uint64_t dim, offset;
    int64_t  n = 1, block, bytes;
    if (!get_text(r, name) || !get(r, &n_dims, sizeof n_dims)) return false;
    if (n_dims > MOST_DIMS)
        return ts_plan_say(r->why, "gguf: tensor %.80s: got %u dimensions", name, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) {
        if (!get(r, &dim, sizeof dim)) return false;
        n = ts_times(n, dim > TS_PLAN_MOST ? TS_PLAN_MOST : (int64_t)dim);
    }
    if (!get(r, &type, sizeof type) || !get(r, &offset, sizeof offset)) return false;
    if (!block_of(type, &block, &bytes) || n % block)
        return ts_plan_say(r->why,
                           "gguf: tensor %.80s: invalid size or type: %lld elements of type %u",
                           name, (long long)n, type);
    if (!strcmp(name, "output.weight")) r->has_head = true;
    bytes = ts_times(n / block, bytes);
    *end = ts_plus(offset > TS_PLAN_MOST ? TS_PLAN_MOST : (int64_t)offset, bytes);
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
    if (!m->n_vocab) m->n_vocab = r->n_tokens;
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
    m->tied = !r->has_head;
    return ts_plan_check_model(m, r->why);
}

bool ts_plan_gguf(FILE *f, int64_t n_file, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    reader   r = { .f = f, .end = n_file, .m = m, .alignment = 32, .why = why };
    char     magic[4];
    uint32_t version;
    uint64_t n_tensor, n_pair;
    int64_t  end = 0, last = 0;
    if (!get(&r, magic, 4) || !get(&r, &version, 4)) return false;
    if (memcmp(magic, "GGUF", 4) || version < 2 || version > 3)
        return ts_plan_say(why, "gguf: got version %u, expected 2 or 3", version);
    if (!get(&r, &n_tensor, 8) || !get(&r, &n_pair, 8)) return false;
    for (uint64_t i = 0; i < n_pair; i++)
        if (!get_pair(&r)) return false;
    for (uint64_t i = 0; i < n_tensor; i++) {
        if (!get_tensor(&r, &end)) return false;
        if (end > last) last = end;
    }
    if (r.alignment < 1 || r.alignment > 1 << 20)
        return ts_plan_say(why, "gguf: invalid alignment of %lld bytes", (long long)r.alignment);
    last = ts_plus(last, ts_times(ts_ceil_div(r.at, r.alignment), r.alignment));
    if (last > n_file)
        return ts_plan_say(why, "gguf: tensors extend to byte %lld in a file of %lld",
                           (long long)last, (long long)n_file);
    return complete(&r);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* export_gguf.c - model.gguf from the folder of a run.
 *
 * Every weight is exactly what it was: ternary matrices become TQ2_0 where two neighbouring groups
 * have one scale, else Q4_0, or F16 where 32 does not divide a row; all else is F32. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"
#include "touchstone/ternary.h"
#include "train_impl.h"

enum { GROUP = TS_TERNARY_GROUP, BYTES = TS_TERNARY_GROUP_BYTES };
enum { F32 = 0, F16 = 1, Q4_0 = 2, TQ2_0 = 35 }; /* numbers of ts_block_of */
enum { ALIGNMENT = 32, VERSION = 3 };

/* ---- values, as a file writes them ---- */

enum { U32 = 4, REAL32 = 6, FLAG = 7, STRING = 8, ARRAY = 9 };
enum { NORMAL = 1, CONTROL = 3, UNUSED = 5 }; /* kinds of tokens */

typedef struct bytes {
    unsigned char *p;
    size_t         n, room;
    bool           full; /* there was no memory */
    uint64_t       n_key;
} bytes;

static void put(bytes *b, const void *p, size_t n)
{
    if (b->full) return;
    if (b->n + n > b->room) {
        unsigned char *more = realloc(b->p, b->room = 2 * (b->n + n));
        if (!more) {
            b->full = true;
            return;
        }
        b->p = more;
    }
    if (n) memcpy(b->p + b->n, p, n);
    b->n += n;
}

static void put_u32(bytes *b, uint32_t v)
{
    put(b, &v, sizeof v);
}

static void put_u64(bytes *b, uint64_t v)
{
    put(b, &v, sizeof v);
}

static void put_text(bytes *b, const char *s)
{
    put_u64(b, strlen(s));
    put(b, s, strlen(s));
}

static void put_key(bytes *b, const char *key, uint32_t type)
{
    put_text(b, key);
    put_u32(b, type);
    b->n_key++;
}

static void key_u32(bytes *b, const char *key, int64_t v)
{
    put_key(b, key, U32);
    put_u32(b, (uint32_t)v);
}

static void key_real(bytes *b, const char *key, double v)
{
    const float f = (float)v;
    put_key(b, key, REAL32);
    put(b, &f, sizeof f);
}

static void key_text(bytes *b, const char *key, const char *v)
{
    put_key(b, key, STRING);
    put_text(b, v);
}

static void key_array(bytes *b, const char *key, uint32_t type, uint64_t n)
{
    put_key(b, key, ARRAY);
    put_u32(b, type);
    put_u64(b, n);
}

/* ---- the vocabulary: tokenizer.json of a run ---- */

static bool token_lists(bytes *b, const json_t *vocab, const json_t *added, int64_t n,
                        char why[TS_MODEL_WHY])
{
    const char **text = calloc((size_t)n, sizeof *text);
    uint32_t    *kind = calloc((size_t)n, sizeof *kind);
    bool         ok = text && kind;
    const char  *piece;
    json_t      *v;
    size_t       i;
    if (!ok) ts_say(why, "out of memory for %lld tokens", (long long)n);
    if (ok) json_object_foreach((json_t *)(uintptr_t)vocab, piece, v)
        {
            const int64_t id = json_integer_value(v);
            if (id >= 0 && id < n) text[id] = piece, kind[id] = NORMAL;
        }
    if (ok) json_array_foreach(added, i, v)
        {
            const int64_t id = json_integer_value(json_object_get(v, "id"));
            piece = json_string_value(json_object_get(v, "content"));
            if (id >= 0 && id < n && piece) text[id] = piece, kind[id] = CONTROL;
        }
    if (ok) {
        key_array(b, "tokenizer.ggml.tokens", STRING, (uint64_t)n);
        for (int64_t t = 0; t < n; t++) {
            char none[32];
            snprintf(none, sizeof none, "[unused %lld]", (long long)t);
            put_text(b, text[t] ? text[t] : none);
        }
        key_array(b, "tokenizer.ggml.token_type", U32 + 1, (uint64_t)n);
        for (int64_t t = 0; t < n; t++) put_u32(b, kind[t] ? kind[t] : UNUSED);
    }
    free(text);
    free(kind);
    return ok;
}

static bool put_vocabulary(bytes *b, const ts_file *f, const ts_decoder_dims *d,
                           char why[TS_MODEL_WHY])
{
    json_error_t  at;
    json_t       *root = json_loadb((const char *)f->bytes, f->n, 0, &at);
    const json_t *model = json_object_get(root, "model"),
                 *merges = json_object_get(model, "merges");
    size_t  i;
    json_t *v;
    bool    ok = json_is_object(json_object_get(model, "vocab")) && json_is_array(merges);
    if (!ok) ts_say(why, "tokenizer.json: expected model.vocab and model.merges");
    json_array_foreach(merges, i, v) ok = ok && json_is_string(v);
    if (!ok && root) ts_say(why, "tokenizer.json: expected merges as strings");
    key_text(b, "tokenizer.ggml.model", "gpt2");
    key_text(b, "tokenizer.ggml.pre", "gpt-2");
    ok = ok && token_lists(b, json_object_get(model, "vocab"),
                           json_object_get(root, "added_tokens"), d->n_vocab, why);
    if (ok) {
        key_array(b, "tokenizer.ggml.merges", STRING, json_array_size(merges));
        json_array_foreach(merges, i, v) put_text(b, json_string_value(v));
        put_key(b, "tokenizer.ggml.add_bos_token", FLAG);
        put(b, "", 1);
    }
    if (ok && d->n_stop) key_u32(b, "tokenizer.ggml.eos_token_id", d->stop[0]);
    json_decref(root);
    return ok;
}

/* ---- dimensions ---- */

static void put_dims(bytes *b, const ts_decoder_dims *d)
{
    key_text(b, "general.architecture", "qwen3");
    key_u32(b, "general.alignment", ALIGNMENT);
    key_u32(b, "general.quantization_version", 2);
    key_u32(b, "qwen3.block_count", d->n_layer);
    key_u32(b, "qwen3.context_length", d->n_context);
    key_u32(b, "qwen3.embedding_length", d->width);
    key_u32(b, "qwen3.feed_forward_length", d->n_ffn);
    key_u32(b, "qwen3.attention.head_count", d->n_head);
    key_u32(b, "qwen3.attention.head_count_kv", d->n_kv_head);
    key_u32(b, "qwen3.attention.key_length", d->head_dim);
    key_u32(b, "qwen3.attention.value_length", d->head_dim);
    key_u32(b, "qwen3.vocab_size", d->n_vocab);
    key_real(b, "qwen3.attention.layer_norm_rms_epsilon", d->norm_eps);
    key_real(b, "qwen3.rope.freq_base", d->rope_theta);
}

/* ---- tensors ---- */

typedef struct weight {
    char        name[TS_SLOT_NAME];
    ts_shape    shape;
    ts_tensor   from;
    uint32_t    format;
    const void *data;
    void       *made; /* data, where it is not the file's */
    size_t      n_bytes;
} weight;

static bool is_paired(ts_shape s, const unsigned char *scale)
{
    const int64_t n = ts_shape_count(ts_packed_scales(s));
    if (s.cols % (2 * GROUP)) return false;
    for (int64_t i = 0; i < n; i += 2)
        if (memcmp(scale + 2 * i, scale + 2 * i + 2, 2)) return false;
    return true;
}

static unsigned code_at(const unsigned char *code, int64_t j)
{
    return code[j / 4] >> 2 * (j % 4) & 3;
}

/* A block: bytes 32 h + i have the weights 128 h + 32 r + i at bits 2 r; then the scale. */
static void to_tq2_0(const unsigned char *code, const unsigned char *scale, unsigned char *y)
{
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 32; i++) {
            unsigned byte = 0;
            for (int r = 0; r < 4; r++) byte |= code_at(code, 128 * h + 32 * r + i) << 2 * r;
            *y++ = (unsigned char)byte;
        }
    memcpy(y, scale, 2);
}

/* The scale, then 8 + c: those of the first sixteen in low halves. */
static void to_q4_0(const unsigned char *code, const unsigned char *scale, unsigned char *y)
{
    memcpy(y, scale, 2);
    for (int i = 0; i < 16; i++)
        y[2 + i] = (unsigned char)((7 + code_at(code, i)) | (7 + code_at(code, i + 16)) << 4);
}

/* Code points 0, 1 and 2 are -s, 0 and s. */
static void to_f16(unsigned c, const unsigned char *scale, unsigned char *y)
{
    y[0] = c == 1 ? 0 : scale[0];
    y[1] = c == 1 ? 0 : (unsigned char)(scale[1] ^ (c == 0 ? 0x80 : 0));
}

static bool encode(weight *w, char why[TS_MODEL_WHY])
{
    const ts_shape s = w->shape;
    const ts_shape codes = ts_packed_codes(s), scales = ts_packed_scales(s);
    w->format = is_paired(s, w->from.scale) ? TQ2_0 : s.cols % 32 == 0 ? Q4_0 : F16;
    const ts_block *b = ts_block_of(w->format);
    w->n_bytes = (size_t)(ts_shape_count(s) / b->n * b->n_bytes);
    unsigned char *y = w->made = malloc(w->n_bytes);
    if (!y) return ts_say(why, "out of memory for %s", w->name);
    w->data = y;
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t j = 0; j < s.cols; j += b->n, y += b->n_bytes) {
            const unsigned char *scale = w->from.scale + 2 * (r * scales.cols + j / GROUP);
            const unsigned char *row = w->from.data + r * codes.cols;
            if (w->format == TQ2_0) to_tq2_0(row + j / 4, scale, y);
            else if (w->format == Q4_0) to_q4_0(row + j / 4, scale, y);
            else to_f16(code_at(row, j), scale, y);
        }
    return true;
}

static bool fetch(const ts_safetensors *s, const ts_decoder_dims *d, int64_t layer, ts_slot slot,
                  weight *w, char why[TS_MODEL_WHY])
{
    char name[TS_SLOT_NAME];
    ts_slot_name(d, layer, slot, name);
    ts_gguf_slot_name(layer, slot, w->name);
    w->shape = ts_slot_shape(d, slot);
    if (w->shape.cols && ts_safetensors_packed(s, name))
        return ts_safetensors_find_packed(s, name, w->shape, &w->from, why) && encode(w, why);
    if (!ts_safetensors_find(s, name, w->shape, &w->from, why)) return false;
    if (w->from.block != ts_block_of(TS_BLOCK_F32))
        return ts_say(why, "tensor %s: expected F32", name);
    w->format = F32;
    w->data = w->from.data;
    w->n_bytes = (size_t)ts_shape_count(w->shape) * sizeof(float);
    return true;
}

static int64_t fetch_all(const ts_safetensors *s, const ts_decoder_dims *d, weight *w,
                         char why[TS_MODEL_WHY])
{
    int64_t n = 0;
    for (int64_t l = 0; l < d->n_layer; l++)
        for (int i = 0; i < (l ? TS_LAYER_SLOTS : TS_SLOTS); i++)
            if (ts_slot_shape(d, (ts_slot)i).rows && !fetch(s, d, l, (ts_slot)i, &w[n++], why))
                return -1;
    return n;
}

static size_t padding(size_t n)
{
    return (ALIGNMENT - n % ALIGNMENT) % ALIGNMENT;
}

/* What is said of each: its extents, the fastest first. */
static void put_tensors(bytes *b, const weight *w, int64_t n)
{
    uint64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        put_text(b, w[i].name);
        put_u32(b, w[i].shape.cols ? 2 : 1);
        if (w[i].shape.cols) put_u64(b, (uint64_t)w[i].shape.cols);
        put_u64(b, (uint64_t)w[i].shape.rows);
        put_u32(b, w[i].format);
        put_u64(b, at);
        at += w[i].n_bytes + padding(w[i].n_bytes);
    }
}

/* ---- the file ---- */

static bool write_file(const char *path, const bytes *keys, const weight *w, int64_t n,
                       char why[TS_MODEL_WHY])
{
    static const char zeros[ALIGNMENT];
    bytes             head = { 0 };
    ts_part          *part = calloc((size_t)(2 * n + 3), sizeof *part);
    put(&head, "GGUF", 4);
    put_u32(&head, VERSION);
    put_u64(&head, (uint64_t)n);
    put_u64(&head, keys->n_key);
    put(&head, keys->p, keys->n);
    put_tensors(&head, w, n);
    bool ok = part && !head.full && !keys->full;
    if (!ok) ts_say(why, "out of memory for %s", path);
    if (ok) {
        part[0] = (ts_part) { head.p, head.n };
        part[1] = (ts_part) { zeros, padding(head.n) };
        for (int64_t i = 0; i < n; i++) {
            part[2 * i + 2] = (ts_part) { w[i].data, w[i].n_bytes };
            part[2 * i + 3] = (ts_part) { zeros, padding(w[i].n_bytes) };
        }
        ok = ts_file_write_parts(path, part, (size_t)(2 * n + 2), why);
    }
    free(head.p);
    free(part);
    return ok;
}

typedef struct source {
    ts_file config, tokenizer, weights;
} source;

static bool convert(const source *f, const char *path, char why[TS_MODEL_WHY])
{
    ts_decoder_dims d;
    ts_safetensors *s = NULL;
    bytes           keys = { 0 };
    if (!ts_config_parse(f->config.bytes, f->config.n, &d, why)) return false;
    if (!d.qk_norm || d.layernorm || d.gelu || d.qkv_bias || d.o_bias || d.ffn_bias || d.window)
        return ts_say(why, "config.json: expected qwen3, the architecture that train has");
    weight *w = calloc((size_t)ts_slot_count(&d), sizeof *w);
    int64_t n = -1;
    if (!w) ts_say(why, "out of memory for %lld layers", (long long)d.n_layer);
    else if (ts_safetensors_parse(f->weights.bytes, f->weights.n, &s, why))
        n = fetch_all(s, &d, w, why);
    put_dims(&keys, &d);
    const bool ok = n > 0 && put_vocabulary(&keys, &f->tokenizer, &d, why) &&
                    write_file(path, &keys, w, n, why);
    for (int64_t i = 0; w && i < ts_slot_count(&d); i++) free(w[i].made);
    free(w);
    free(keys.p);
    ts_safetensors_free(&s);
    return ok;
}

static bool map(const char *folder, const char *name, ts_file *f, char why[TS_MODEL_WHY])
{
    char path[TS_TRAIN_PATH];
    return ts_path(path, folder, name, why) && ts_file_map(path, f, why);
}

bool ts_folder_export_gguf(const char *folder, char why[TS_MODEL_WHY])
{
    char   path[TS_TRAIN_PATH];
    source f = { 0 };
    bool   ok = map(folder, "config.json", &f.config, why) &&
              map(folder, "tokenizer.json", &f.tokenizer, why) &&
              (map(folder, "ternary.safetensors", &f.weights, why) ||
               map(folder, "model.safetensors", &f.weights, why)) &&
              ts_path(path, folder, "model.gguf", why);
    ok = ok && convert(&f, path, why);
    ts_file_unmap(&f.config);
    ts_file_unmap(&f.tokenizer);
    ts_file_unmap(&f.weights);
    return ok;
}

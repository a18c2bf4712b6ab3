/* SPDX-License-Identifier: Apache-2.0 */
/* read_json.c - reads config.json, an index of shards, and the header of a .safetensors file. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "plan_impl.h"

enum { PREFIX = 8, MOST_HEADER = 100 << 20 };

/* ---- config.json ---- */

/* The first key present of a NUL-separated list that ends with an empty one. null counts as absent.
 */
static bool integer(const json_t *o, const char *keys, int64_t *value, char why[TS_PLAN_WHY])
{
    for (; *keys; keys += strlen(keys) + 1) {
        const json_t *v = json_object_get(o, keys);
        if (!v || json_is_null(v)) continue;
        if (!json_is_integer(v)) return ts_say(why, "config: %s: expected an integer", keys);
        *value = json_integer_value(v);
        return true;
    }
    return true;
}

static bool flag(const json_t *o, const char *key, bool *value, char why[TS_PLAN_WHY])
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return true;
    if (!json_is_boolean(v)) return ts_say(why, "config: %s: expected true or false", key);
    *value = json_is_true(v);
    return true;
}

static bool sizes(const json_t *o, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    if (!integer(o, "num_hidden_layers\0", &m->n_layer, why) ||
        !integer(o, "hidden_size\0", &m->width, why) ||
        !integer(o, "num_attention_heads\0", &m->n_head, why))
        return false;
    if (!m->n_kv_head) m->n_kv_head = m->n_head;
    if (!m->head_dim) m->head_dim = m->n_head > 0 ? m->width / m->n_head : 0;
    return integer(o, "num_key_value_heads\0", &m->n_kv_head, why) &&
           integer(o, "head_dim\0", &m->head_dim, why) &&
           integer(o, "intermediate_size\0", &m->n_ffn, why) &&
           integer(o, "vocab_size\0", &m->n_vocab, why) &&
           integer(o, "max_position_embeddings\0", &m->n_context, why);
}

static int64_t layers_of(const json_t *types, const char *name)
{
    const json_t *t;
    size_t        i;
    int64_t       n = 0;
    json_array_foreach(types, i, t) n += json_is_string(t) && !strcmp(json_string_value(t), name);
    return n;
}

/* Some files give the shared experts as one wide expert, which has a gate. */
static bool shared_expert(const json_t *o, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    int64_t width = 0;
    if (!integer(o, "shared_expert_intermediate_size\0", &width, why)) return false;
    if (width <= 0 || m->n_expert_ffn <= 0) return true;
    if (width % m->n_expert_ffn)
        return ts_say(why,
                      "config: shared_expert_intermediate_size: got %lld, expected a "
                      "multiple of moe_intermediate_size",
                      (long long)width);
    m->n_expert_shared = width / m->n_expert_ffn;
    m->shared_gate = true;
    return true;
}

static bool experts(const json_t *o, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    const char *many = "num_local_experts\0num_experts\0n_routed_experts\0";
    if (!integer(o, many, &m->n_expert, why) ||
        !integer(o, "num_experts_per_tok\0experts_per_token\0", &m->n_expert_used, why) ||
        !integer(o, "n_shared_experts\0", &m->n_expert_shared, why) ||
        !integer(o, "first_k_dense_replace\0", &m->n_dense_layer, why))
        return false;
    m->n_expert_ffn = m->n_expert ? m->n_ffn : 0;
    if (!m->n_expert) m->n_expert_used = m->n_expert_shared = m->n_dense_layer = 0;
    return !m->n_expert || (integer(o, "moe_intermediate_size\0", &m->n_expert_ffn, why) &&
                            shared_expert(o, m, why));
}

/* Llama 4: every layer with experts has a shared one; the other layers have a width of their own.
 */
static bool interleaved(const json_t *o, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    int64_t step = 1;
    if (!json_object_get(o, "intermediate_size_mlp")) return true;
    if (!integer(o, "intermediate_size_mlp\0", &m->n_ffn, why) ||
        !integer(o, "interleave_moe_layer_step\0", &step, why))
        return false;
    if (step < 1) return ts_say(why, "config: interleave_moe_layer_step: expected at least 1");
    if (!m->n_expert) return true;
    m->n_expert_shared = 1;
    m->n_dense_layer = m->n_layer - m->n_layer / step;
    return true;
}

/* Qwen3.5: all layers but every fourth, or those that layer_types lists. */
static bool linear(const json_t *o, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    const json_t *types = json_object_get(o, "layer_types");
    int64_t       full_every = 4;
    if (!integer(o, "linear_num_value_heads\0", &m->n_linear_value, why) ||
        !integer(o, "full_attention_interval\0", &full_every, why))
        return false;
    if (!m->n_linear_value) return true;
    if (full_every < 1) return ts_say(why, "config: full_attention_interval: expected at least 1");
    m->n_linear_layer = json_is_array(types) ? layers_of(types, "linear_attention")
                                             : m->n_layer - m->n_layer / full_every;
    return integer(o, "linear_num_key_heads\0", &m->n_linear_key, why) &&
           integer(o, "linear_key_head_dim\0", &m->linear_key_dim, why) &&
           integer(o, "linear_value_head_dim\0", &m->linear_value_dim, why) &&
           integer(o, "linear_conv_kernel_dim\0", &m->conv, why);
}

static bool latents(const json_t *o, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    return integer(o, "kv_lora_rank\0", &m->kv_rank, why) &&
           (!m->kv_rank || (integer(o, "q_lora_rank\0", &m->q_rank, why) &&
                            integer(o, "qk_nope_head_dim\0", &m->nope, why) &&
                            integer(o, "qk_rope_head_dim\0", &m->rope, why) &&
                            integer(o, "v_head_dim\0", &m->v_dim, why)));
}

/* layer_types lists the layers with a window. Older Gemma files give the period of layers without
 * one, older Qwen files the number of such layers at the beginning. */
static bool windows(const json_t *o, ts_plan_model *m, int64_t full_every, char why[TS_PLAN_WHY])
{
    const json_t *types = json_object_get(o, "layer_types");
    bool          use = true;
    int64_t       n_full = 0;
    if (!integer(o, "sliding_window\0attention_chunk_size\0", &m->window, why) ||
        !integer(o, "sliding_window_pattern\0", &full_every, why) ||
        !integer(o, "max_window_layers\0", &n_full, why) ||
        !flag(o, "use_sliding_window", &use, why))
        return false;
    if (!use) m->window = 0;
    if (!m->window) return true;
    m->n_window_layer = m->n_layer - (full_every > 0 ? m->n_layer / full_every : n_full);
    if (json_is_array(types))
        m->n_window_layer =
            layers_of(types, "sliding_attention") + layers_of(types, "chunked_attention");
    if (m->n_window_layer <= 0) m->n_window_layer = m->window = 0;
    return true;
}

static bool biases(const json_t *o, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    bool attention = m->o_bias, all = m->norm_bias;
    if (!flag(o, "attention_bias", &attention, why) || !flag(o, "mlp_bias", &m->ffn_bias, why) ||
        !flag(o, "tie_word_embeddings", &m->tied, why) || !flag(o, "use_bias", &all, why))
        return false;
    m->qkv_bias = m->qkv_bias || attention;
    m->o_bias = attention;
    if (m->norm_bias) m->qkv_bias = m->o_bias = m->ffn_bias = all;
    return true;
}

static bool decoder(const json_t *o, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    const char *type = json_string_value(json_object_get(o, "model_type"));
    int64_t     full_every;
    m->note = "config.json";
    if (!ts_plan_family(type ? type : "", m, &full_every))
        m->note = "config.json, unknown model_type counted as Llama";
    if (type && !strncmp(type, "gemma3", 6)) { /* its files omit these defaults */
        m->n_head = 8, m->n_kv_head = 4, m->head_dim = 256;
        m->n_vocab = 262208, m->n_context = 131072;
    }
    return sizes(o, m, why) && experts(o, m, why) && interleaved(o, m, why) && latents(o, m, why) &&
           linear(o, m, why) && windows(o, m, full_every, why) && biases(o, m, why) &&
           ts_plan_check_model(m, why);
}

static bool is_text(const json_t *o, const char *key, const char *text)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s && !strcmp(s, text);
}

/* The dtype that the file declares; one without a count of its own here is taken for bf16. */
static ts_plan_weight shipped(const json_t *o)
{
    const json_t *q = json_object_get(o, "quantization_config");
    const json_t *bits = json_object_get(q, "bits");
    if (is_text(q, "quant_method", "mxfp4")) return TS_W_MXFP4;
    if (is_text(q, "quant_method", "fp8")) return TS_W_FP8;
    if (is_text(q, "quant_method", "bitnet")) return TS_W_TERNARY;
    if (is_text(q, "quant_method", "gptq") || is_text(q, "quant_method", "awq")) {
        if (json_integer_value(bits) == 4) return TS_W_INT4;
        if (json_integer_value(bits) == 8) return TS_W_INT8;
    }
    if (is_text(o, "torch_dtype", "float32") || is_text(o, "dtype", "float32")) return TS_W_F32;
    return TS_W_BF16;
}

bool ts_plan_config(const char *text, size_t n, ts_plan_model *m, char why[TS_PLAN_WHY])
{
    json_error_t  e;
    json_t       *o = json_loadb(text, n, 0, &e);
    const json_t *inner = json_object_get(o, "text_config"); /* of a vision-language model */
    if (!o) return ts_say(why, "config: line %d: %.100s", e.line, e.text);
    bool ok = json_is_object(o) || ts_say(why, "config: expected a JSON object");
    ok = ok && decoder(json_is_object(inner) ? inner : o, m, why);
    if (ok) m->shipped = shipped(o);
    json_decref(o);
    return ok;
}

/* ---- shards ---- */

static bool shards(const json_t *map, bool (*each)(void *user, const char *name), void *user,
                   char why[TS_PLAN_WHY])
{
    json_t     *seen = json_object(), *file;
    const char *tensor;
    bool        ok = seen || ts_say(why, "out of memory for an index");
    json_object_foreach((json_t *)(uintptr_t)map, tensor, file)
    {
        const char *name = json_string_value(file);
        if (ok && (!name || strchr(name, '/')))
            ok = ts_say(why, "index: tensor %.80s: no file named", tensor);
        if (!ok || json_object_get(seen, name)) continue;
        ok = each(user, name) && !json_object_set_new(seen, name, json_true());
    }
    json_decref(seen);
    return ok;
}

bool ts_plan_shards(const char *text, size_t n, bool (*each)(void *user, const char *name),
                    void *user, char why[TS_PLAN_WHY])
{
    json_error_t  e;
    json_t       *o = json_loadb(text, n, 0, &e);
    const json_t *map = json_object_get(o, "weight_map");
    bool          ok = o || ts_say(why, "index: line %d: %.100s", e.line, e.text);
    ok = ok && ((json_is_object(map) && json_object_size(map)) ||
                ts_say(why, "index: weight_map: missing"));
    ok = ok && shards(map, each, user, why);
    json_decref(o);
    return ok;
}

/* ---- .safetensors ---- */

static bool tensors(json_t *header, int64_t n_data, char why[TS_PLAN_WHY])
{
    const char *name;
    json_t     *entry;
    int64_t     total = 0;
    json_object_foreach(header, name, entry)
    {
        const json_t *range = json_object_get(entry, "data_offsets");
        const json_t *a = json_array_get(range, 0), *b = json_array_get(range, 1);
        if (!strcmp(name, "__metadata__")) continue;
        if (json_array_size(range) != 2 || !json_is_integer(a) || !json_is_integer(b) ||
            json_integer_value(a) < 0 || json_integer_value(b) < json_integer_value(a) ||
            json_integer_value(b) > n_data)
            return ts_say(why, "tensor %.80s: data_offsets outside the %lld bytes of data", name,
                          (long long)n_data);
        total = ts_plus(total, json_integer_value(b) - json_integer_value(a));
    }
    return total == n_data ||
           ts_say(why, "safetensors: got %lld bytes of tensors in %lld bytes of data",
                  (long long)total, (long long)n_data);
}

static bool header_of(FILE *f, int64_t n_file, int64_t *n_bytes, char why[TS_PLAN_WHY])
{
    unsigned char prefix[PREFIX] = { 0 };
    uint64_t      n = 0;
    json_error_t  e;
    const bool    begun = fread(prefix, 1, PREFIX, f) == PREFIX;
    for (int i = 0; i < PREFIX; i++) n |= (uint64_t)prefix[i] << 8 * i;
    if (!begun || n > MOST_HEADER || (int64_t)n > n_file - PREFIX)
        return ts_say(why, "safetensors: got a header of %llu bytes in a file of %lld",
                      (unsigned long long)n, (long long)n_file);
    char   *text = malloc(n + 1);
    json_t *o = NULL;
    bool    ok = (text && fread(text, 1, n, f) == n) || ts_say(why, "header cannot be read");
    if (ok) o = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    ok = ok && (json_is_object(o) ||
                ts_say(why, "safetensors header: %.100s", o ? "not an object" : e.text));
    *n_bytes = n_file - PREFIX - (int64_t)n;
    ok = ok && tensors(o, *n_bytes, why);
    json_decref(o);
    free(text);
    return ok;
}

bool ts_plan_safetensors(const char *path, int64_t *n_bytes, char why[TS_PLAN_WHY])
{
    FILE *f = fopen(path, "rb");
    if (!f) return ts_say(why, "%.150s: cannot be opened", path);
    const long n = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
    rewind(f);
    const bool ok = header_of(f, n < 0 ? 0 : n, n_bytes, why);
    fclose(f);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - the dimensions of a decoder from a Hugging Face config.json. */
#include <jansson.h>
#include <string.h>

#include "model_impl.h"

/* What the families differ in, in addition to what their files say. */
static const struct {
    const char *type, *act, *eps_key;
    double      eps;
    bool        layernorm, gelu, qk_norm, qkv_bias, tied;
} families[] = {
    { "llama", "silu", "rms_norm_eps", 1e-6, false, false, false, false, false },
    { "mistral", "silu", "rms_norm_eps", 1e-6, false, false, false, false, false },
    { "qwen2", "silu", "rms_norm_eps", 1e-6, false, false, false, true, false },
    { "qwen3", "silu", "rms_norm_eps", 1e-6, false, false, true, false, false },
    { "starcoder2", "gelu_pytorch_tanh", "norm_epsilon", 1e-5, true, true, false, false, true },
};

/* A key that is there must have the right kind; null counts as absent. */
static bool integer(const json_t *o, const char *key, int64_t *value, char why[TS_MODEL_WHY])
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return true;
    if (!json_is_integer(v)) return ts_say(why, "config: %s: expected an integer", key);
    *value = json_integer_value(v);
    return true;
}

static bool number(const json_t *o, const char *key, double *value, char why[TS_MODEL_WHY])
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return true;
    if (!json_is_number(v)) return ts_say(why, "config: %s: expected a number", key);
    *value = json_number_value(v);
    return true;
}

static bool flag(const json_t *o, const char *key, bool *value, char why[TS_MODEL_WHY])
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return true;
    if (!json_is_boolean(v)) return ts_say(why, "config: %s: expected true or false", key);
    *value = json_is_true(v);
    return true;
}

static const char *text(const json_t *o, const char *key, const char *otherwise)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : otherwise;
}

static bool family(const json_t *o, ts_decoder_dims *d, char why[TS_MODEL_WHY])
{
    const char *type = text(o, "model_type", "");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(type, families[i].type)) continue;
        const char *act = text(o, "hidden_act", families[i].act);
        if (strcmp(act, families[i].act))
            return ts_say(why, "config: hidden_act: got '%.40s', expected '%s'", act,
                          families[i].act);
        d->layernorm = families[i].layernorm;
        d->gelu = families[i].gelu;
        d->qk_norm = families[i].qk_norm;
        d->qkv_bias = families[i].qkv_bias;
        d->tied = families[i].tied;
        d->norm_eps = families[i].eps;
        return number(o, families[i].eps_key, &d->norm_eps, why);
    }
    return ts_say(why,
                  "config: model_type: got '%.40s', expected llama, mistral, qwen2, qwen3 or "
                  "starcoder2",
                  type);
}

static bool biases(const json_t *o, ts_decoder_dims *d, char why[TS_MODEL_WHY])
{
    bool attention = false, all = d->layernorm; /* starcoder2's default */
    if (!flag(o, "attention_bias", &attention, why) || !flag(o, "mlp_bias", &d->ffn_bias, why) ||
        !flag(o, "tie_word_embeddings", &d->tied, why) ||
        (d->layernorm && !flag(o, "use_bias", &all, why)))
        return false;
    d->qkv_bias |= attention | all;
    d->o_bias = attention | all;
    d->ffn_bias |= all;
    return true;
}

/* Older files have rope_theta and rope_scaling, newer ones rope_parameters. */
static bool rope(const json_t *o, ts_decoder_dims *d, char why[TS_MODEL_WHY])
{
    const json_t *p = json_object_get(o, "rope_parameters");
    if (!json_is_object(p)) p = json_object_get(o, "rope_scaling");
    const char *type = text(p, "rope_type", text(p, "type", "default"));
    d->rope_theta = 10000;
    d->rope_factor = d->rope_low = 1;
    d->rope_high = 4;
    if (!number(o, "rope_theta", &d->rope_theta, why) ||
        !number(p, "rope_theta", &d->rope_theta, why))
        return false;
    if (!strcmp(type, "default")) return true;
    if (!strcmp(type, "linear")) return number(p, "factor", &d->rope_factor, why);
    if (strcmp(type, "llama3"))
        return ts_say(why, "config: rope type: got '%.40s', expected default, linear or llama3",
                      type);
    d->rope_context = (double)d->n_context;
    return number(p, "factor", &d->rope_factor, why) &&
           number(p, "low_freq_factor", &d->rope_low, why) &&
           number(p, "high_freq_factor", &d->rope_high, why) &&
           number(p, "original_max_position_embeddings", &d->rope_context, why);
}

/* One cache has one window, so all layers must have it or none. layer_types says which do; older
 * files of Qwen's say how many at the beginning do not. */
static bool window(const json_t *o, ts_decoder_dims *d, char why[TS_MODEL_WHY])
{
    const json_t *types = json_object_get(o, "layer_types"), *t;
    bool          use = true;
    size_t        i;
    int64_t       n_full = 0, n_sliding = 0;
    if (!integer(o, "sliding_window", &d->window, why) ||
        !integer(o, "max_window_layers", &n_full, why) || !flag(o, "use_sliding_window", &use, why))
        return false;
    if (!use) d->window = 0;
    if (!d->window) return true;
    json_array_foreach(types, i, t)
    {
        n_sliding += json_is_string(t) && !strcmp(json_string_value(t), "sliding_attention");
    }
    if (json_is_array(types)) n_full = (int64_t)json_array_size(types) - n_sliding;
    if (n_full > 0 && n_full < d->n_layer)
        return ts_say(why,
                      "config: got a sliding window in all but %lld of %lld layers, expected all "
                      "layers or none",
                      (long long)n_full, (long long)d->n_layer);
    if (n_full > 0) d->window = 0;
    return true;
}

/* One token or a list of them. */
static bool stops(const json_t *o, ts_decoder_dims *d, char why[TS_MODEL_WHY])
{
    const json_t *v = json_object_get(o, "eos_token_id");
    const size_t  n = json_is_array(v) ? json_array_size(v) : json_is_integer(v) ? 1 : 0;
    if (n > TS_MODEL_STOPS)
        return ts_say(why, "config: eos_token_id: got %zu tokens, expected at most %d", n,
                      (int)TS_MODEL_STOPS);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= d->n_vocab)
            return ts_say(why, "config: eos_token_id: expected tokens of the vocabulary");
        d->stop[d->n_stop++] = (int32_t)json_integer_value(id);
    }
    return true;
}

static bool sizes(const json_t *o, ts_decoder_dims *d, char why[TS_MODEL_WHY])
{
    d->n_context = 2048;
    if (!integer(o, "num_hidden_layers", &d->n_layer, why) ||
        !integer(o, "hidden_size", &d->width, why) ||
        !integer(o, "num_attention_heads", &d->n_head, why))
        return false;
    d->n_kv_head = d->n_head;
    d->head_dim = d->n_head > 0 ? d->width / d->n_head : 0;
    return integer(o, "num_key_value_heads", &d->n_kv_head, why) &&
           integer(o, "head_dim", &d->head_dim, why) &&
           integer(o, "intermediate_size", &d->n_ffn, why) &&
           integer(o, "vocab_size", &d->n_vocab, why) &&
           integer(o, "max_position_embeddings", &d->n_context, why);
}

bool ts_config_parse(const void *bytes, size_t n, ts_decoder_dims *d, char why[TS_MODEL_WHY])
{
    json_error_t e;
    json_t      *o = json_loadb(bytes, n, 0, &e);
    *d = (ts_decoder_dims) { 0 };
    if (!o) return ts_say(why, "config: line %d: %.100s", e.line, e.text);
    bool ok = json_is_object(o) || ts_say(why, "config: expected a JSON object");
    ok = ok && sizes(o, d, why) && family(o, d, why) && biases(o, d, why) && rope(o, d, why) &&
         window(o, d, why) && ts_dims_check(d, why) && stops(o, d, why);
    json_decref(o);
    return ok;
}

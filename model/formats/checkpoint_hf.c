/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_hf.c - a folder as Hugging Face writes it: config.json, and safetensors in one file or
 * in shards with an index. */
#define _POSIX_C_SOURCE 200809L
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model_impl.h"

enum { MOST_SHARDS = 1024, MOST_PATH = 4096 };

/* ---- names ---- */

static const char *const layer_name[TS_LAYER_SLOTS] = {
    [TS_W_NORM_1] = "input_layernorm.weight",
    [TS_W_NORM_1_BIAS] = "input_layernorm.bias",
    [TS_W_Q] = "self_attn.q_proj.weight",
    [TS_W_Q_BIAS] = "self_attn.q_proj.bias",
    [TS_W_K] = "self_attn.k_proj.weight",
    [TS_W_K_BIAS] = "self_attn.k_proj.bias",
    [TS_W_V] = "self_attn.v_proj.weight",
    [TS_W_V_BIAS] = "self_attn.v_proj.bias",
    [TS_W_Q_NORM] = "self_attn.q_norm.weight",
    [TS_W_K_NORM] = "self_attn.k_norm.weight",
    [TS_W_O] = "self_attn.o_proj.weight",
    [TS_W_O_BIAS] = "self_attn.o_proj.bias",
    [TS_W_NORM_2] = "post_attention_layernorm.weight",
    [TS_W_NORM_2_BIAS] = "post_attention_layernorm.bias",
    [TS_W_GATE] = "mlp.gate_proj.weight",
    [TS_W_UP] = "mlp.up_proj.weight",
    [TS_W_UP_BIAS] = "mlp.up_proj.bias",
    [TS_W_DOWN] = "mlp.down_proj.weight",
    [TS_W_DOWN_BIAS] = "mlp.down_proj.bias",
};

/* Without a gate the two matrices have other names. */
static const char *const gelu_name[TS_LAYER_SLOTS] = {
    [TS_W_UP] = "mlp.c_fc.weight",
    [TS_W_UP_BIAS] = "mlp.c_fc.bias",
    [TS_W_DOWN] = "mlp.c_proj.weight",
    [TS_W_DOWN_BIAS] = "mlp.c_proj.bias",
};

static const char *const model_name[] = {
    "model.embed_tokens.weight",
    "model.norm.weight",
    "model.norm.bias",
    "lm_head.weight",
};

void ts_slot_name(const ts_decoder_dims *d, int64_t layer, ts_slot s, char name[TS_SLOT_NAME])
{
    const char *part = s < TS_LAYER_SLOTS && d->gelu ? gelu_name[s] : NULL;
    if (s >= TS_LAYER_SLOTS) snprintf(name, TS_SLOT_NAME, "%s", model_name[s - TS_LAYER_SLOTS]);
    else
        snprintf(name, TS_SLOT_NAME, "model.layers.%lld.%s", (long long)layer,
                 part ? part : layer_name[s]);
}

/* ---- tensors, over all shards ---- */

typedef struct shards {
    ts_file         file[MOST_SHARDS];
    ts_safetensors *part[MOST_SHARDS];
    int             n;
} shards;

static bool find(const shards *s, const char *name, ts_shape shape, ts_tensor *t,
                 char why[TS_MODEL_WHY])
{
    for (int i = 0; i < s->n; i++) {
        if (ts_safetensors_has(s->part[i], name))
            return ts_safetensors_find(s->part[i], name, shape, t, why);
        if (shape.cols && ts_safetensors_packed(s->part[i], name))
            return ts_safetensors_find_packed(s->part[i], name, shape, t, why);
    }
    return ts_say(why, "tensor %s: missing", name);
}

/* `stay`: the shards' files may go to the decoder. */
static bool make(const ts_decoder_dims *d, const shards *s, ts_dtype dtype, bool stay,
                 ts_decoder **m, char why[TS_MODEL_WHY])
{
    char       name[TS_SLOT_NAME];
    bool       ok = true;
    ts_tensor *tensor = calloc((size_t)ts_slot_count(d), sizeof *tensor);
    if (!tensor) return ts_say(why, "out of memory for %lld layers", (long long)d->n_layer);
    for (int64_t l = 0; ok && l < d->n_layer; l++)
        for (int i = 0; ok && i < (l ? TS_LAYER_SLOTS : TS_SLOTS); i++) {
            const ts_shape shape = ts_slot_shape(d, (ts_slot)i);
            if (!shape.rows) continue;
            ts_slot_name(d, l, (ts_slot)i, name);
            ok = find(s, name, shape, &tensor[ts_slot_at(d, l, (ts_slot)i)], why);
        }
    ok = ok && ts_decoder_make(d, dtype, tensor, false, stay, m, why);
    free(tensor);
    return ok;
}

bool ts_decoder_safetensors(const void *config, size_t n_config, const void *bytes, size_t n,
                            ts_dtype dtype, ts_decoder **m, char why[TS_MODEL_WHY])
{
    ts_decoder_dims d;
    shards         *s = calloc(1, sizeof *s);
    *m = NULL;
    if (!s) return ts_say(why, "out of memory");
    const bool ok = ts_config_parse(config, n_config, &d, why) &&
                    ts_safetensors_parse(bytes, n, &s->part[s->n++], why) &&
                    make(&d, s, dtype, false, m, why);
    ts_safetensors_free(&s->part[0]);
    free(s);
    return ok;
}

/* ---- files ---- */

/* A shard is in the folder of its index: a name that leads elsewhere is rejected. */
static bool open_shard(shards *s, const char *folder, const char *name, char why[TS_MODEL_WHY])
{
    char path[MOST_PATH];
    if (!*name || strchr(name, '/'))
        return ts_say(why, "index: shard '%.60s': expected a file name", name);
    if (s->n == MOST_SHARDS) return ts_say(why, "index: got more than %d shards", (int)MOST_SHARDS);
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return ts_say(why, "%.60s: path too long", name);
    if (!ts_file_map(path, &s->file[s->n], why)) return false;
    const int i = s->n++;
    char      what[TS_MODEL_WHY];
    return ts_safetensors_parse(s->file[i].bytes, s->file[i].n, &s->part[i], what) ||
           ts_say(why, "%.60s: %.180s", name, what);
}

static bool open_index(shards *s, const char *folder, const ts_file *index, char why[TS_MODEL_WHY])
{
    json_error_t e;
    const char  *tensor;
    json_t      *shard, *seen = json_object();
    json_t      *o = json_loadb((const char *)index->bytes, index->n, 0, &e);
    bool         ok = o && seen && json_is_object(json_object_get(o, "weight_map"));
    if (!ok) ts_say(why, "index: weight_map: missing");
    else json_object_foreach(json_object_get(o, "weight_map"), tensor, shard)
        {
            const char *name = json_string_value(shard);
            if (name && json_object_get(seen, name)) continue;
            ok = name ? open_shard(s, folder, name, why)
                      : ts_say(why, "index: tensor %.60s: no shard named", tensor);
            if (!ok || json_object_set_new(seen, name, json_true())) break;
        }
    json_decref(o);
    json_decref(seen);
    return ok;
}

static bool has_file(const char *folder, const char *name)
{
    char        path[MOST_PATH];
    struct stat is;
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
           !stat(path, &is);
}

/* Packed weights are read where there are no others. */
static bool open_shards(shards *s, const char *folder, char why[TS_MODEL_WHY])
{
    static const char whole[] = "model.safetensors", index_of[] = "model.safetensors.index.json";
    static const char packed[] = "ternary.safetensors";
    char              path[MOST_PATH];
    ts_file           index;
    if (!has_file(folder, index_of))
        return open_shard(
            s, folder, !has_file(folder, whole) && has_file(folder, packed) ? packed : whole, why);
    snprintf(path, sizeof path, "%s/%s", folder, index_of);
    if (!ts_file_map(path, &index, why)) return false;
    const bool ok = open_index(s, folder, &index, why);
    ts_file_unmap(&index);
    return ok;
}

/* The files in which matrices stay, if any does. */
static bool hand_over(shards *s, ts_decoder *m, char why[TS_MODEL_WHY])
{
    if (!m->n_encoded) return true;
    m->file = calloc((size_t)s->n, sizeof *m->file);
    if (!m->file) return ts_say(why, "out of memory");
    for (; m->n_file < s->n; m->n_file++) {
        m->file[m->n_file] = s->file[m->n_file];
        s->file[m->n_file] = (ts_file) { 0 };
    }
    return true;
}

/* `file`: the only safetensors to read, or NULL for what the folder holds. */
static bool load_folder(const char *folder, const char *file, ts_dtype dtype, ts_decoder **m,
                        char why[TS_MODEL_WHY])
{
    char            path[MOST_PATH];
    ts_file         config = { 0 };
    ts_decoder_dims d;
    if (snprintf(path, sizeof path, "%s/config.json", folder) >= (int)sizeof path)
        return ts_say(why, "%.60s: path too long", folder);
    shards *s = calloc(1, sizeof *s);
    if (!s) return ts_say(why, "out of memory");
    const bool ok = ts_file_map(path, &config, why) &&
                    ts_config_parse(config.bytes, config.n, &d, why) &&
                    (file ? open_shard(s, folder, file, why) : open_shards(s, folder, why)) &&
                    make(&d, s, dtype, true, m, why) && hand_over(s, *m, why);
    for (int i = 0; i < s->n; i++) {
        ts_safetensors_free(&s->part[i]);
        ts_file_unmap(&s->file[i]);
    }
    if (!ok) ts_decoder_free(m);
    ts_file_unmap(&config);
    free(s);
    return ok;
}

bool ts_decoder_load(const char *path, ts_dtype dtype, ts_decoder **m, char why[TS_MODEL_WHY])
{
    struct stat  is;
    ts_file      f;
    char         folder[MOST_PATH] = ".";
    const char  *slash = strrchr(path, '/');
    const size_t n = strlen(path), n_suffix = strlen(".safetensors");
    *m = NULL;
    if (!stat(path, &is) && S_ISDIR(is.st_mode)) return load_folder(path, NULL, dtype, m, why);
    if (n > n_suffix && !strcmp(path + n - n_suffix, ".safetensors")) {
        if (slash && slash - path >= (ptrdiff_t)sizeof folder)
            return ts_say(why, "%.60s: path too long", path);
        if (slash) snprintf(folder, sizeof folder, "%.*s/", (int)(slash - path), path);
        return load_folder(folder, slash ? slash + 1 : path, dtype, m, why);
    }
    if (!ts_file_map(path, &f, why)) return false;
    const bool ok = ts_is_gguf(f.bytes, f.n) ? ts_decoder_gguf_file(&f, dtype, m, why)
                                             : ts_decoder_llama2c(f.bytes, f.n, dtype, m, why);
    ts_file_unmap(&f);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - a net as files: what Hugging Face reads, and the packed codes. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "train_impl.h"

/* ---- safetensors ---- */

static json_t *entry(const ts_out_tensor *t, size_t begin)
{
    json_t *shape = json_array();
    json_array_append_new(shape, json_integer(t->shape.rows));
    if (t->shape.cols) json_array_append_new(shape, json_integer(t->shape.cols));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + t->n_bytes));
}

/* Padded with spaces, so that tensors begin on a multiple of eight bytes. */
static char *header_of(const ts_out_tensor *t, size_t n, size_t *n_header)
{
    json_t *o = json_object(), *metadata = json_pack("{s:s}", "format", "pt");
    size_t  at = 0;
    bool    ok = o && !json_object_set_new(o, "__metadata__", metadata);
    for (size_t i = 0; ok && i < n; at += t[i++].n_bytes)
        ok = !json_object_set_new(o, t[i].name, entry(&t[i], at));
    char *text = ok ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    const size_t len = text ? strlen(text) : 0;
    *n_header = (len + 7) / 8 * 8;
    char *padded = text ? malloc(8 + *n_header) : NULL;
    if (padded) {
        for (int i = 0; i < 8; i++) padded[i] = (char)(*n_header >> 8 * i & 0xff);
        memset(padded + 8, ' ', *n_header);
        memcpy(padded + 8, text, len);
        *n_header += 8;
    }
    free(text);
    return padded;
}

static bool write_safetensors(const char *path, const ts_out_tensor *t, size_t n,
                              char why[TS_MODEL_WHY])
{
    size_t   n_header;
    char    *header = header_of(t, n, &n_header);
    ts_part *part = malloc((n + 1) * sizeof *part);
    bool     ok = header && part;
    if (!ok) ts_say(why, "%.100s: out of memory", path);
    else {
        part[0] = (ts_part) { header, n_header };
        for (size_t i = 0; i < n; i++) part[i + 1] = (ts_part) { t[i].data, t[i].n_bytes };
        ok = ts_file_write_parts(path, part, n + 1, why);
    }
    free(header);
    free(part);
    return ok;
}

/* ---- tensors of a net ---- */

typedef struct tensors {
    ts_out_tensor *t;
    char (*name)[TS_SLOT_NAME];
    size_t n;
} tensors;

static bool tensors_make(tensors *t, size_t most)
{
    *t = (tensors) { calloc(most, sizeof *t->t), calloc(most, sizeof *t->name), 0 };
    return t->t && t->name;
}

static void tensors_free(tensors *t)
{
    free(t->t);
    free(t->name);
}

static void add(tensors *t, const ts_net *n, const ts_param *p, const char *suffix,
                const char *dtype, ts_shape shape, size_t each, const void *data)
{
    char *name = t->name[t->n];
    ts_slot_name(&n->o.dims, p->layer, p->slot, name);
    strncat(name, suffix, TS_SLOT_NAME - strlen(name) - 1);
    t->t[t->n++] =
        (ts_out_tensor) { name, dtype, shape, data, (size_t)ts_shape_count(shape) * each };
}

static bool write_dense(ts_net *n, const char *path, char why[TS_MODEL_WHY])
{
    tensors   t;
    float    *w = malloc((size_t)n->n_count * sizeof *w);
    bool      ok = tensors_make(&t, (size_t)n->n_param) && w;
    ts_status s = ok ? ts_net_effective(n, w) : TS_E_CAPACITY;
    if (s) ok = ts_say(why, "cannot export: %s", ts_status_text(s));
    for (int64_t i = 0; ok && i < n->n_param; i++)
        add(&t, n, &n->param[i], "", "F32", n->param[i].shape, sizeof *w, w + n->param[i].at);
    ok = ok && write_safetensors(path, t.t, t.n, why);
    free(w);
    tensors_free(&t);
    return ok;
}

/* ---- codes and scales ---- */

/* Widest elements first, so that all are aligned. */
static bool write_packed(const ts_net *n, const char *path, char why[TS_MODEL_WHY])
{
    int64_t    n_matrix = 0;
    tensors    t;
    ts_status  s = TS_OK;
    ts_packed *k = calloc((size_t)n->n_param, sizeof *k);
    float     *norm = malloc((size_t)(n->n_count - n->n_matrix) * sizeof *norm);
    bool       ok = tensors_make(&t, 2 * (size_t)n->n_param) && k && norm;
    if (!ok) ts_say(why, "out of memory to pack");
    else
        n->back->to_float(norm, (const char *)n->weight + (size_t)n->n_matrix * n->size,
                          n->n_count - n->n_matrix);
    for (int64_t i = 0; ok && !s && i < n->n_param; i++) {
        const ts_param *p = &n->param[i];
        if (p->shape.cols) s = ts_net_pack(n, p, &k[n_matrix++]);
        else add(&t, n, p, "", "F32", p->shape, sizeof *norm, norm + (p->at - n->n_matrix));
    }
    if (s) ok = ts_say(why, "cannot pack: %s", ts_status_text(s));
    for (int64_t i = 0; ok && i < n_matrix; i++)
        add(&t, n, &n->param[i], ".scale", "F16",
            (ts_shape) { n->param[i].shape.rows, k[i].n_scale }, 2, k[i].scale);
    for (int64_t i = 0; ok && i < n_matrix; i++)
        add(&t, n, &n->param[i], ".code", "U8", (ts_shape) { n->param[i].shape.rows, k[i].n_code },
            1, k[i].code);
    ok = ok && write_safetensors(path, t.t, t.n, why);
    for (int64_t i = 0; k && i < n_matrix; i++) ts_packed_free(&k[i]);
    free(k);
    free(norm);
    tensors_free(&t);
    return ok;
}

/* ---- config.json ---- */

/* The rotation as transformers has written it since its version 5, and as it was before. */
static json_t *config_of(const ts_decoder_dims *d, int32_t stop)
{
    const struct {
        const char *name;
        int64_t     value;
    } sizes[] = {
        { "num_hidden_layers", d->n_layer },  { "hidden_size", d->width },
        { "num_attention_heads", d->n_head }, { "num_key_value_heads", d->n_kv_head },
        { "head_dim", d->head_dim },          { "intermediate_size", d->n_ffn },
        { "vocab_size", d->n_vocab },         { "max_position_embeddings", d->n_context },
    };
    json_t *o =
        json_pack("{s:[s], s:s, s:s, s:s, s:f, s:f, s:{s:s, s:f}, s:b, s:b, s:b}", "architectures",
                  "Qwen3ForCausalLM", "model_type", "qwen3", "hidden_act", "silu", "torch_dtype",
                  "float32", "rms_norm_eps", d->norm_eps, "rope_theta", d->rope_theta,
                  "rope_parameters", "rope_type", "default", "rope_theta", d->rope_theta,
                  "tie_word_embeddings", 1, "attention_bias", 0, "use_sliding_window", 0);
    for (size_t i = 0; o && i < sizeof sizes / sizeof *sizes; i++)
        json_object_set_new(o, sizes[i].name, json_integer(sizes[i].value));
    if (o && stop >= 0) json_object_set_new(o, "eos_token_id", json_integer(stop));
    return o;
}

static bool write_config(const ts_net *n, const char *path, int32_t stop, char why[TS_MODEL_WHY])
{
    json_t    *o = config_of(&n->o.dims, stop);
    char      *text = o ? json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    const bool ok = text ? ts_file_write(path, text, strlen(text), why)
                         : ts_say(why, "out of memory for config.json");
    free(text);
    json_decref(o);
    return ok;
}

bool ts_net_export(ts_net *n, const char *folder, int32_t stop_token, char why[TS_MODEL_WHY])
{
    char path[TS_TRAIN_PATH];
    if (ts_net_pull(n, TS_NET_WEIGHTS))
        return ts_say(why, "weights: cannot be copied from the CUDA device");
    return ts_path(path, folder, "config.json", why) && write_config(n, path, stop_token, why) &&
           (!n->o.ternary ||
            (ts_path(path, folder, "ternary.safetensors", why) && write_packed(n, path, why))) &&
           ts_path(path, folder, "model.safetensors", why) && write_dense(n, path, why);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - what the readers of checkpoints share: shapes, limits, and the copy of weights out
 * of a file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "model_impl.h"

/* ---- shapes ---- */

static ts_shape only_if(bool there, int64_t rows, int64_t cols)
{
    return there ? (ts_shape) { rows, cols } : (ts_shape) { 0, 0 };
}

ts_shape ts_slot_shape(const ts_decoder_dims *d, ts_slot s)
{
    const int64_t n_q = d->n_head * d->head_dim, n_kv = d->n_kv_head * d->head_dim;
    switch (s) {
    case TS_W_NORM_1:
    case TS_W_NORM_2:
    case TS_W_NORM:
        return (ts_shape) { d->width, 0 };
    case TS_W_NORM_1_BIAS:
    case TS_W_NORM_2_BIAS:
    case TS_W_NORM_BIAS:
        return only_if(d->layernorm, d->width, 0);
    case TS_W_Q:
        return (ts_shape) { n_q, d->width };
    case TS_W_K:
    case TS_W_V:
        return (ts_shape) { n_kv, d->width };
    case TS_W_Q_BIAS:
        return only_if(d->qkv_bias, n_q, 0);
    case TS_W_K_BIAS:
    case TS_W_V_BIAS:
        return only_if(d->qkv_bias, n_kv, 0);
    case TS_W_Q_NORM:
    case TS_W_K_NORM:
        return only_if(d->qk_norm, d->head_dim, 0);
    case TS_W_O:
        return (ts_shape) { d->width, n_q };
    case TS_W_O_BIAS:
        return only_if(d->o_bias, d->width, 0);
    case TS_W_GATE:
        return only_if(!d->gelu, d->n_ffn, d->width);
    case TS_W_UP:
        return (ts_shape) { d->n_ffn, d->width };
    case TS_W_UP_BIAS:
        return only_if(d->ffn_bias, d->n_ffn, 0);
    case TS_W_DOWN:
        return (ts_shape) { d->width, d->n_ffn };
    case TS_W_DOWN_BIAS:
        return only_if(d->ffn_bias, d->width, 0);
    case TS_W_EMBED:
        return (ts_shape) { d->n_vocab, d->width };
    case TS_W_HEAD:
        return only_if(!d->tied, d->n_vocab, d->width);
    case TS_SLOTS:
        break;
    }
    return (ts_shape) { 0, 0 };
}

int64_t ts_shape_count(ts_shape s)
{
    return s.rows * (s.cols ? s.cols : 1);
}

int64_t ts_slot_at(const ts_decoder_dims *d, int64_t layer, ts_slot s)
{
    return s < TS_LAYER_SLOTS ? layer * TS_LAYER_SLOTS + s : (d->n_layer - 1) * TS_LAYER_SLOTS + s;
}

int64_t ts_slot_count(const ts_decoder_dims *d)
{
    return d->n_layer * TS_LAYER_SLOTS + (TS_SLOTS - TS_LAYER_SLOTS);
}

/* ---- limits ---- */

static bool within(const char *what, int64_t value, int64_t most, char why[TS_MODEL_WHY])
{
    if (value >= 1 && value <= most) return true;
    return ts_say(why, "%s: got %lld, expected 1 to %lld", what, (long long)value, (long long)most);
}

/* With these limits all weights together are less than 2^60 elements. */
bool ts_dims_check(const ts_decoder_dims *d, char why[TS_MODEL_WHY])
{
    const int64_t most = INT64_C(1) << 20;
    if (!within("number of layers", d->n_layer, 1024, why) ||
        !within("width", d->width, most, why) || !within("heads", d->n_head, 4096, why) ||
        !within("KV heads", d->n_kv_head, 4096, why) ||
        !within("head size", d->head_dim, 4096, why) ||
        !within("feed-forward width", d->n_ffn, most, why) ||
        !within("vocabulary", d->n_vocab, INT64_C(1) << 24, why) ||
        !within("context", d->n_context, INT64_C(1) << 31, why))
        return false;
    if (d->n_head % d->n_kv_head)
        return ts_say(why, "heads: got %lld over %lld KV heads, expected a multiple",
                      (long long)d->n_head, (long long)d->n_kv_head);
    if (d->head_dim % 2)
        return ts_say(why, "head size: got %lld, expected an even number", (long long)d->head_dim);
    if (d->window < 0)
        return ts_say(why, "window: got %lld, expected 0 or more", (long long)d->window);
    if (!(d->norm_eps > 0 && d->norm_eps < 1))
        return ts_say(why, "norm epsilon: got %g, expected between 0 and 1", d->norm_eps);
    if (!(d->rope_theta > 1 && d->rope_theta < 1e15))
        return ts_say(why, "rope_theta: got %g, expected between 1 and 1e15", d->rope_theta);
    if (!(d->rope_factor >= 1 && d->rope_factor < 1e6) || !(d->rope_low > 0) ||
        !(d->rope_high > d->rope_low) || !(d->rope_context >= 0))
        return ts_say(
            why, "rope scaling: got invalid factors, expected factor 1 to 1e6 and 0 < low < high");
    return true;
}

/* ---- the copy ---- */

/* A vector is one row; biases of q and k are reordered like the rows. `row`: room for one. */
static void copy(const ts_decoder *m, ts_slot s, const ts_tensor *t, bool pairs, void *out,
                 float *row)
{
    const ts_shape shape = ts_slot_shape(&m->dims, s);
    const int64_t  cols = shape.cols ? shape.cols : shape.rows, rows = shape.cols ? shape.rows : 1;
    const bool     reorder = pairs && (s == TS_W_Q || s == TS_W_K);
    const bool     within = pairs && (s == TS_W_Q_BIAS || s == TS_W_K_BIAS);
    const size_t   n_bytes = (size_t)(cols / t->block->n * t->block->n_bytes);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t from = reorder ? ts_paired_row(r, m->dims.head_dim) : r;
        ts_block_row(t->block, t->data + (size_t)from * n_bytes, cols, row);
        for (int64_t c = 0; c < cols; c++)
            ts_store(out, m->dtype, r * cols + c,
                     row[within ? ts_paired_row(c, m->dims.head_dim) : c]);
    }
}

/* `scale`: where the scales go. */
static void copy_packed(ts_decoder *m, int64_t i, ts_shape shape, const ts_tensor *t, void *scale)
{
    memcpy(m->weight[i], t->data, (size_t)ts_shape_count(ts_packed_codes(shape)));
    memcpy(scale, t->scale, (size_t)ts_shape_count(ts_packed_scales(shape)) * sizeof(uint16_t));
    m->scale[i] = scale;
    m->packed = true;
}

/* Long waves are slowed down by rope_factor, short ones not at all, and those between by something
 * between. */
double ts_rope_frequency(const ts_decoder_dims *d, int64_t pair)
{
    const double f = pow(d->rope_theta, -2.0 * (double)pair / (double)d->head_dim);
    const double turns = d->rope_context * f / 6.283185307179586; /* in the first context */
    if (!(d->rope_context > 0) || turns < d->rope_low) return f / d->rope_factor;
    if (turns > d->rope_high) return f;
    const double share = (turns - d->rope_low) / (d->rope_high - d->rope_low);
    return (1 - share) * f / d->rope_factor + share * f;
}

/* 64 bytes: what matrix products like. */
static size_t padded(int64_t count, size_t size)
{
    return ((size_t)count * size + 63) / 64 * 64;
}

/* What one weight takes, and its scales where it is packed. */
static size_t weight_bytes(const ts_decoder *m, ts_shape s, const ts_tensor *t)
{
    if (t->scale) return padded(ts_shape_count(ts_packed_codes(s)), 1);
    return padded(ts_shape_count(s), ts_format_of(m->dtype)->n_bytes);
}

static size_t scale_bytes(ts_shape s, const ts_tensor *t)
{
    return t->scale ? padded(ts_shape_count(ts_packed_scales(s)), sizeof(uint16_t)) : 0;
}

/* Every weight to its place; before there is memory it only counts. */
static void place(ts_decoder *m, const ts_tensor *tensor, bool pairs, float *row)
{
    size_t at = 0;
    for (int64_t l = 0; l < m->dims.n_layer; l++)
        for (int s = 0; s < (l ? TS_LAYER_SLOTS : TS_SLOTS); s++) {
            const ts_shape   shape = ts_slot_shape(&m->dims, (ts_slot)s);
            const int64_t    i = ts_slot_at(&m->dims, l, (ts_slot)s);
            const ts_tensor *t = &tensor[i];
            if (!shape.rows || m->encoded[i].data) continue;
            const size_t n = weight_bytes(m, shape, t), n_scale = scale_bytes(shape, t);
            if (m->memory) {
                m->weight[i] = (char *)m->memory + at;
                if (t->scale) copy_packed(m, i, shape, t, (char *)m->memory + at + n);
                else copy(m, (ts_slot)s, t, pairs, m->weight[i], row);
            }
            at += n + n_scale;
        }
    m->n_bytes = at;
}

/* Which matrices stay in the file. */
static void leave(ts_decoder *m, const ts_tensor *tensor, bool pairs)
{
    for (int64_t l = 0; l < m->dims.n_layer; l++)
        for (int s = 0; s < (l ? TS_LAYER_SLOTS : TS_SLOTS); s++) {
            const ts_shape shape = ts_slot_shape(&m->dims, (ts_slot)s);
            const int64_t  i = ts_slot_at(&m->dims, l, (ts_slot)s);
            const bool     turns = pairs && (s == TS_W_Q || s == TS_W_K);
            if (!shape.rows || !ts_encoded_takes(shape, &tensor[i])) continue;
            m->encoded[i] =
                (ts_encoded) { tensor[i].data, tensor[i].block, turns ? m->dims.head_dim : 0 };
            m->n_encoded += ts_encoded_bytes(&m->encoded[i], shape);
        }
}

static bool allocate(ts_decoder *m, const ts_tensor *tensor, bool pairs, bool stay)
{
    const ts_decoder_dims *d = &m->dims;
    const size_t           n_slot = (size_t)ts_slot_count(d);
    m->encoded = calloc(n_slot, sizeof *m->encoded);
    if (!m->encoded) return false;
    if (stay && m->dtype == TS_F32) leave(m, tensor, pairs);
    place(m, tensor, false, NULL);
    m->memory = aligned_alloc(64, m->n_bytes);
    m->weight = calloc(n_slot, sizeof *m->weight);
    m->scale = calloc(n_slot, sizeof *m->scale);
    m->frequency = calloc((size_t)d->head_dim / 2, sizeof *m->frequency);
    return m->memory && m->weight && m->scale && m->frequency;
}

bool ts_decoder_make(const ts_decoder_dims *d, ts_dtype dtype, const ts_tensor *tensor, bool pairs,
                     bool stay, ts_decoder **out, char why[TS_MODEL_WHY])
{
    ts_decoder *m = calloc(1, sizeof *m);
    if (m) {
        m->dims = *d;
        m->dtype = dtype;
        m->ops = dtype == TS_F64 ? &ts_ops_f64 : &ts_ops_f32;
    }
    const int64_t widest = d->n_ffn > d->width ? d->n_ffn : d->width, n_q = d->n_head * d->head_dim;
    float *const  row = malloc((size_t)(widest > n_q ? widest : n_q) * sizeof *row);
    if (!m || !row || !allocate(m, tensor, pairs, stay)) {
        free(row);
        ts_decoder_free(&m);
        return ts_say(why, "out of memory for the weights");
    }
    place(m, tensor, pairs, row);
    free(row);
    for (int64_t i = 0; i < d->head_dim / 2; i++) m->frequency[i] = ts_rope_frequency(d, i);
    *out = m;
    return true;
}

void ts_decoder_free(ts_decoder **m)
{
    if (!*m) return;
    ts_memory_give((*m)->device, (*m)->memory);
    ts_memory_give((*m)->device, (*m)->frequency);
    if ((*m)->self) (*m)->cuda->close((*m)->self);
    free((*m)->weight);
    free((*m)->scale);
    free((*m)->encoded);
    ts_decoder_forget_files(*m);
    free(*m);
    *m = NULL;
}

const ts_decoder_dims *ts_decoder_dims_of(const ts_decoder *m)
{
    return &m->dims;
}

ts_dtype ts_decoder_dtype(const ts_decoder *m)
{
    return m->dtype;
}

ts_device ts_decoder_device(const ts_decoder *m)
{
    return m->device;
}

size_t ts_decoder_bytes(const ts_decoder *m)
{
    return m->n_bytes + m->n_encoded;
}

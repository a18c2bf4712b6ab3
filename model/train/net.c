/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - weights, the place of each, and the memory of a pass. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "rng.h"
#include "scratch.h"
#include "touchstone/ternary.h"
#include "train_impl.h"
#include "whole.h"

enum {
    MOST_HEAD_DIM = 256, /* of attention */
    MOST_ROWS = 1 << 24, /* of a batch */
    LOGITS = 1 << 22,    /* that are in memory at once, about */
    LEAST_HEAD_ROWS = 64,
};

static const ts_slot matrices[TS_NET_MATRICES] = {
    TS_W_Q, TS_W_K, TS_W_V, TS_W_O, TS_W_GATE, TS_W_UP, TS_W_DOWN,
};
static const ts_slot norms[TS_NET_NORMS] = { TS_W_NORM_1, TS_W_Q_NORM, TS_W_K_NORM, TS_W_NORM_2 };

void ts_net_dims_set(ts_decoder_dims *d)
{
    d->rope_factor = d->rope_low = 1;
    d->rope_high = 4;
    d->rope_context = 0;
    d->window = 0;
    d->qk_norm = d->tied = true;
    d->layernorm = d->gelu = d->qkv_bias = d->o_bias = d->ffn_bias = false;
}

/* ---- weights ---- */

static void list(ts_net *n, int64_t layer, ts_slot s)
{
    const ts_shape shape = ts_slot_shape(&n->o.dims, s);
    n->slot[ts_slot_at(&n->o.dims, layer, s)] = n->n_param;
    n->param[n->n_param++] = (ts_param) { s, layer, shape, n->n_count };
    n->n_count += ts_shape_count(shape);
}

static bool list_all(ts_net *n, char why[TS_MODEL_WHY])
{
    const ts_decoder_dims *d = &n->o.dims;
    const int64_t          n_slot = ts_slot_count(d);
    n->param = calloc((size_t)n_slot, sizeof *n->param);
    n->slot = malloc((size_t)n_slot * sizeof *n->slot);
    if (!n->param || !n->slot)
        return ts_say(why, "out of memory for %lld layers", (long long)d->n_layer);
    for (int64_t i = 0; i < n_slot; i++) n->slot[i] = -1;
    list(n, 0, TS_W_EMBED);
    for (int64_t l = 0; l < d->n_layer; l++)
        for (int i = 0; i < TS_NET_MATRICES; i++) list(n, l, matrices[i]);
    n->n_matrix = n->n_count;
    for (int64_t l = 0; l < d->n_layer; l++)
        for (int i = 0; i < TS_NET_NORMS; i++) list(n, l, norms[i]);
    list(n, 0, TS_W_NORM);
    return true;
}

/* What adds to the residual stream is smaller the more of it there is. */
static double spread(const ts_net *n, const ts_param *p)
{
    const bool   adds = p->slot == TS_W_O || p->slot == TS_W_DOWN;
    const double s = 0.5 / sqrt((double)p->shape.cols);
    return adds ? s / sqrt(2.0 * (double)n->o.dims.n_layer) : s;
}

static void randomise(ts_net *n, uint64_t seed)
{
    const ts_dtype type = n->size == sizeof(float) ? TS_F32 : TS_F64;
    for (int64_t i = 0; i < n->n_param; i++) {
        const ts_param *p = &n->param[i];
        const int64_t   count = ts_shape_count(p->shape);
#pragma omp parallel for num_threads(ts_threads_for(count, n->exec.n_threads)) schedule(static)
        for (int64_t j = 0; j < count; j++)
            ts_store(n->weight, type, p->at + j,
                     p->shape.cols ? spread(n, p) * ts_normal(seed, p->at + j) : 1);
    }
}

/* ---- memory ---- */

static void lay_pass(ts_net *n, char *base, size_t *used)
{
    const ts_decoder_dims *d = &n->o.dims;
    n->x = ts_cut(base, used, n->n * d->width, n->size);
    n->t = ts_cut(base, used, n->n * d->width, n->size);
    ts_layers_cut(&n->layers, base, used);
    n->rstd_last = ts_cut(base, used, n->n, n->size);
    n->logits = ts_cut(base, used, n->n_head_row * d->n_vocab, n->size);
    n->token = ts_cut(base, used, n->n, sizeof *n->token);
    n->loss = ts_cut(base, used, n->n_head_row, n->size);
    n->lse = ts_cut(base, used, n->n_head_row, n->size);
    n->total = ts_cut(base, used, 1, n->size);
    n->right = ts_cut(base, used, n->n_head_row, sizeof *n->right);
}

/* Of a ternary net only. */
static void lay_ternary(ts_net *n, char *base, size_t *used)
{
    const int64_t width = n->o.dims.width;
    int64_t       most = 0, groups = ts_shape_count(ts_packed_scales((ts_shape) { n->n, width }));
    for (int64_t i = 0; i < n->n_param; i++) {
        most = ts_greater(most, ts_shape_count(n->param[i].shape));
        if (n->o.paired && n->param[i].shape.cols)
            groups = ts_greater(groups, ts_shape_count(ts_packed_scales(n->param[i].shape)));
    }
    n->dlatent = ts_cut(base, used, most, sizeof *n->dlatent);
    n->latent = ts_cut(base, used, n->o.dtype == TS_F32 ? 0 : ts_greater(most, n->n * width),
                       sizeof *n->latent);
    n->code = ts_cut(base, used, groups, TS_TERNARY_GROUP_BYTES);
    n->scale = ts_cut(base, used, groups, sizeof *n->scale);
    n->served = ts_cut(base, used, n->o.paired && n->size > sizeof(float) ? most : 0, n->size);
}

static size_t lay(ts_net *n, char *base)
{
    size_t used = 0;
    n->weight = ts_cut(base, &used, n->n_count, n->size);
    n->gradient = ts_cut(base, &used, n->n_count, n->size);
    for (int64_t l = 0; l < n->o.dims.n_layer; l++)
        ts_layer_cut(&n->layers, &n->layer[l], base, &used);
    lay_pass(n, base, &used);
    if (n->o.ternary) lay_ternary(n, base, &used);
    return used;
}

/* Positions begin anew with each sequence. */
static void set_positions(ts_net *n)
{
    for (int64_t i = 0; i < n->o.dims.head_dim / 2; i++)
        n->layers.frequency[i] = ts_rope_frequency(&n->o.dims, i);
    for (int64_t r = 0; r < n->n; r++) n->layers.position[r] = (int32_t)(r % n->o.n_token);
}

/* Of a net on a CUDA device: what is looked at, and packed, on the host. */
static bool allocate_copies(ts_net *n, char why[TS_MODEL_WHY])
{
    const size_t bytes = (size_t)n->n_count * n->size;
    n->memory = calloc(2, bytes);
    if (!n->memory) return ts_say(why, "out of memory for weights of %zu bytes", bytes);
    n->weight = n->memory;
    n->gradient = (char *)n->memory + bytes;
    const ts_status s = ts_net_pack_workspace(n, &n->exec.workspace_bytes);
    if (s) return ts_say(why, "unsupported dimensions for ternary packing: %s", ts_status_text(s));
    n->exec.workspace = malloc(n->exec.workspace_bytes + 1);
    return n->exec.workspace || ts_say(why, "out of memory for a workspace");
}

static bool allocate(ts_net *n, char why[TS_MODEL_WHY])
{
    n->layer = calloc((size_t)n->o.dims.n_layer, sizeof *n->layer);
    const size_t bytes = n->layer ? lay(n, NULL) : 0;
    n->memory = bytes ? aligned_alloc(TS_LINE, bytes) : NULL;
    if (!n->memory) return ts_say(why, "out of memory for a net of %zu bytes", bytes);
    lay(n, n->memory);
    memset(n->gradient, 0, (size_t)n->n_count * n->size);
    memset(n->token, 0, (size_t)n->n * sizeof *n->token);
    set_positions(n);
    size_t          work;
    const ts_status s = ts_net_workspace(n, &work);
    if (s) return ts_say(why, "unsupported dimensions: %s", ts_status_text(s));
    n->exec.workspace = malloc(work + 1);
    n->exec.workspace_bytes = work;
    return n->exec.workspace || ts_say(why, "out of memory for %zu bytes of workspace", work);
}

/* ---- entry points ---- */

static bool check(const ts_net_options *o, char why[TS_MODEL_WHY])
{
    if (!ts_dims_check(&o->dims, why)) return false;
    if (o->dims.head_dim > MOST_HEAD_DIM)
        return ts_say(why, "head size: got %lld, expected at most %d", (long long)o->dims.head_dim,
                      (int)MOST_HEAD_DIM);
    if (o->n_batch < 1 || o->n_token < 1 || o->n_batch > MOST_ROWS / o->n_token)
        return ts_say(why,
                      "batch: got %lld sequences of %lld tokens, expected 1 to %d tokens in total",
                      (long long)o->n_batch, (long long)o->n_token, (int)MOST_ROWS);
    if (o->n_token > o->dims.n_context)
        return ts_say(why, "length: got %lld tokens, expected at most %lld", (long long)o->n_token,
                      (long long)o->dims.n_context);
    if (o->dtype == TS_BF16 && o->device == TS_CPU)
        return ts_say(why, "bf16: needs a CUDA device, got the CPU");
    if (o->dtype == TS_F64 && o->device == TS_CUDA)
        return ts_say(why, "f64: needs the CPU, got a CUDA device");
    return true;
}

bool ts_net_create(const ts_net_options *o, uint64_t seed, ts_net **out, char why[TS_MODEL_WHY])
{
    *out = NULL;
    if (!check(o, why)) return false;
    ts_net *n = calloc(1, sizeof *n);
    if (!n) return ts_say(why, "out of memory for a net");
    const bool    wide = o->dtype == TS_F64;
    const int64_t head = LOGITS / o->dims.n_vocab / LEAST_HEAD_ROWS * LEAST_HEAD_ROWS;
    n->o = *o;
    n->n = o->n_batch * o->n_token;
    n->n_head_row = head < LEAST_HEAD_ROWS ? LEAST_HEAD_ROWS : head;
    if (n->n_head_row > n->n) n->n_head_row = n->n;
    n->size = wide ? sizeof(double) : sizeof(float);
    n->ops = wide ? &ts_ops_f64 : &ts_ops_f32;
    n->back = wide ? &ts_back_f64 : &ts_back_f32;
    n->exec = (ts_exec) { .device = TS_CPU,
                          .n_threads = ts_thread_count(o->n_threads),
                          .deterministic = 1 };
    ts_net_layers(n);
    const bool cuda = o->device == TS_CUDA;
    bool       ok = list_all(n, why) && (cuda ? allocate_copies(n, why) : allocate(n, why));
    if (ok) randomise(n, seed);
    if (ok && cuda) ok = ts_net_cuda_make(n, why);
    if (ok) *out = n;
    else ts_net_free(&n);
    return ok;
}

void ts_net_free(ts_net **n)
{
    if (!*n) return;
    ts_net_cuda_free(*n);
    free((*n)->moments);
    free((*n)->exec.workspace);
    free((*n)->memory);
    free((*n)->layer);
    free((*n)->param);
    free((*n)->slot);
    free(*n);
    *n = NULL;
}

void *ts_net_weights(ts_net *n)
{
    return n->weight;
}

void *ts_net_gradient(ts_net *n)
{
    return n->gradient;
}

int64_t ts_net_count(const ts_net *n)
{
    return n->n_count;
}

int64_t ts_net_matrix_count(const ts_net *n)
{
    return n->n_matrix;
}

const ts_net_options *ts_net_options_of(const ts_net *n)
{
    return &n->o;
}

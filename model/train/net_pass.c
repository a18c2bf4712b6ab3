/* SPDX-License-Identifier: Apache-2.0 */
/* net_pass.c - a batch forward through the net, and back: layers by ternary_training_layer.h, with
 * products of this net's weights, and the head. */
#include <omp.h>

#include "dtype.h"
#include "touchstone/cross_entropy.h"
#include "train_impl.h"

int ts_thread_count(int wanted)
{
    return wanted > 0 ? wanted : omp_get_max_threads();
}

static void *row_of(const ts_net *n, const void *p, int64_t row, int64_t width)
{
    return (char *)(uintptr_t)p + (size_t)(row * width) * n->size;
}

/* ---- layers ---- */

static const ts_slot matrix_slot[] = {
    [TS_TERNARY_Q] = TS_W_Q,       [TS_TERNARY_K] = TS_W_K,       [TS_TERNARY_V] = TS_W_V,
    [TS_TERNARY_O] = TS_W_O,       [TS_TERNARY_GATE] = TS_W_GATE, [TS_TERNARY_UP] = TS_W_UP,
    [TS_TERNARY_DOWN] = TS_W_DOWN,
};

static const ts_slot gain_slot[] = {
    [TS_TERNARY_NORM_1] = TS_W_NORM_1,  [TS_TERNARY_NORM_Q] = TS_W_Q_NORM,
    [TS_TERNARY_NORM_K] = TS_W_K_NORM,  [TS_TERNARY_NORM_2] = TS_W_NORM_2,
    [TS_TERNARY_NORM_LAST] = TS_W_NORM,
};

static ts_status linear(void *self, int64_t layer, ts_ternary_slot s, const void *in, void *y)
{
    const ts_net *n = self;
    return ts_net_linear(n, layer, matrix_slot[s], in, y, n->n);
}

static ts_status linear_back(void *self, int64_t layer, ts_ternary_slot s, const void *in,
                             const void *dy, void *dx, bool add)
{
    const ts_net *n = self;
    return ts_net_linear_back(n, layer, matrix_slot[s], in, dy, dx, n->n, add);
}

static const void *gain(void *self, int64_t layer, ts_ternary_gain g, void **gradient)
{
    const ts_net *n = self;
    *gradient = ts_net_at(n, n->gradient, layer, gain_slot[g]);
    return ts_net_at(n, n->weight, layer, gain_slot[g]);
}

void ts_net_layers(ts_net *n)
{
    const ts_decoder_dims *d = &n->o.dims;
    n->layers = (ts_layers) {
        .dtype = n->o.dtype,
        .n_batch = n->o.n_batch,
        .n_pos = n->o.n_token,
        .n = n->n,
        .width = d->width,
        .n_head = d->n_head,
        .n_kv_head = d->n_kv_head,
        .head_dim = d->head_dim,
        .ffn = d->n_ffn,
        .norm_eps = d->norm_eps,
        .add = true,
        .x = &n->exec,
        .self = n,
        .linear = linear,
        .linear_back = linear_back,
        .gain = gain,
    };
}

/* ---- the head ---- */

/* With `back` logits become the gradient of weight * nll. */
static ts_cross_entropy_logits_args entropy_args(const ts_net *n, const int32_t *target,
                                                 int64_t rows, bool back, double weight)
{
    return (ts_cross_entropy_logits_args) {
        .dtype = n->o.dtype,
        .in_place = back,
        .ignore_index = -1,
        .n_rows = rows,
        .n_vocab = n->o.dims.n_vocab,
        .row_stride = n->o.dims.n_vocab,
        .scale = weight,
        .logits = n->logits,
        .target = target,
        .loss = n->loss,
        .lse = n->lse,
        .total = n->total,
    };
}

/* Targets that are not known yet are replaced by placeholders. */
ts_status ts_net_workspace(const ts_net *n, size_t *n_bytes)
{
    const ts_decoder_dims             *d = &n->o.dims;
    const ts_cross_entropy_logits_args e = entropy_args(n, n->token, n->n_head_row, true, 1);
    size_t                             asked = 0;
    ts_status                          s = ts_net_linear_workspace(n, n_bytes);
    if (!s) s = ts_cross_entropy_logits_workspace(&e, &n->exec, &asked);
    if (asked > *n_bytes) *n_bytes = asked;
    if (!s) s = ts_layers_attention_bytes(&n->layers, n_bytes);
    if (!s) s = ts_layers_norm_bytes(&n->layers, n->n, d->width, n_bytes);
    return s ? s : ts_layers_norm_bytes(&n->layers, n->n * d->n_head, d->head_dim, n_bytes);
}

/* Logits of a few rows at a time: of all they would be the largest array by far. */
static ts_status head(const ts_net *n, const ts_net_batch *b, bool back, double weight,
                      ts_net_score *score)
{
    const ts_decoder_dims *d = &n->o.dims;
    const ts_layers       *l = &n->layers;
    ts_status              s = ts_layers_last(l, n->x, n->rstd_last);
    for (int64_t i = 0; !s && i < n->n; i += n->n_head_row) {
        const int64_t rows = n->n - i < n->n_head_row ? n->n - i : n->n_head_row;
        const ts_cross_entropy_logits_args e = entropy_args(n, b->target + i, rows, back, weight);
        s = ts_net_linear(n, 0, TS_W_EMBED, row_of(n, l->h, i, d->width), n->logits, rows);
        if (s) break;
        n->back->find_right(n->logits, e.target, n->right, rows, d->n_vocab, n->exec.n_threads);
        s = ts_cross_entropy_logits(&e, &n->exec);
        if (s) break;
        for (int64_t r = 0; r < rows; r++) {
            score->nll += ts_load(n->loss, n->o.dtype, r);
            score->n_right += n->right[r];
            score->n_count += e.target[r] >= 0;
        }
        if (back)
            s = ts_net_linear_back(n, 0, TS_W_EMBED, row_of(n, l->h, i, d->width), n->logits,
                                   row_of(n, l->dh, i, d->width), rows, false);
    }
    return back && !s ? ts_layers_last_back(l, n->x, n->rstd_last) : s;
}

/* ---- the pass ---- */

static bool sound(const ts_net *n, const ts_net_batch *b)
{
    for (int64_t i = 0; i < n->n; i++)
        if (b->input[i] < 0 || b->input[i] >= n->o.dims.n_vocab || b->target[i] < -1 ||
            b->target[i] >= n->o.dims.n_vocab)
            return false;
    return true;
}

static ts_status pass(ts_net *n, const ts_net_batch *b, bool back, double weight,
                      ts_net_score *score)
{
    const int64_t n_layer = n->o.dims.n_layer;
    if (!sound(n, b)) return TS_E_ARG;
    if (n->cuda) return ts_net_cuda_pass(n, b, back, weight, score);
    memcpy(n->token, b->input, (size_t)n->n * sizeof *n->token);
    ts_status s = ts_net_embed(n, n->layer[0].x);
    for (int64_t l = 0; !s && l < n_layer; l++)
        s = ts_layer_forward(&n->layers, l, &n->layer[l],
                             l + 1 < n_layer ? n->layer[l + 1].x : n->x);
    if (!s) s = head(n, b, back, weight, score);
    if (!back) return s;
    for (int64_t l = n_layer - 1; !s && l >= 0; l--)
        s = ts_layer_backward(&n->layers, l, &n->layer[l]);
    return s ? s : ts_net_embed_back(n); /* the embedding's other use */
}

ts_status ts_net_eval(ts_net *n, const ts_net_batch *b, ts_net_score *s)
{
    return pass(n, b, false, 0, s);
}

ts_status ts_net_grad(ts_net *n, const ts_net_batch *b, double weight, ts_net_score *s)
{
    return pass(n, b, true, weight, s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* net_pass.c - a batch forward through the net, and back. Arrays are touched through ts_ops,
 * ts_back and kernels only. What is cheap to make again is not kept: norms and activations. */
#include <math.h>
#include <omp.h>

#include "dtype.h"
#include "touchstone/cross_entropy.h"
#include "touchstone/rms_norm.h"
#include "touchstone/rope.h"
#include "touchstone/swiglu.h"
#include "train_impl.h"

int ts_thread_count(int wanted)
{
    return wanted > 0 ? wanted : omp_get_max_threads();
}

static void *row_of(const ts_net *n, const void *p, int64_t row, int64_t width)
{
    return (char *)(uintptr_t)p + (size_t)(row * width) * n->size;
}

/* ---- norms and rotation ---- */

static ts_status rms(const ts_net *n, int64_t layer, ts_slot gain, const void *x, void *y,
                     void *rstd, int64_t n_rows, int64_t width)
{
    const ts_rms_norm_forward_args a = {
        .dtype = n->o.dtype,
        .n_rows = n_rows,
        .n_cols = width,
        .row_stride = width,
        .eps = n->o.dims.norm_eps,
        .x = x,
        .w = ts_net_at(n, n->weight, layer, gain),
        .y = y,
        .rstd = rstd,
    };
    return ts_rms_norm_forward(&a, &n->exec);
}

/* dr: a gradient that is added, or NULL. */
static ts_rms_norm_backward_args rms_back_args(const ts_net *n, int64_t layer, ts_slot gain,
                                               const void *x, const void *rstd, const void *dy,
                                               const void *dr, void *dx, int64_t n_rows,
                                               int64_t width)
{
    return (ts_rms_norm_backward_args) {
        .dtype = n->o.dtype,
        .accumulate = 1,
        .n_rows = n_rows,
        .n_cols = width,
        .row_stride = width,
        .r = x,
        .dy = dy,
        .dr = dr,
        .w = ts_net_at(n, n->weight, layer, gain),
        .rstd = rstd,
        .dx = dx,
        .dw = ts_net_at(n, n->gradient, layer, gain),
    };
}

/* Of the residual stream before a norm: what came the other way is added. */
static ts_status rms_back_residual(ts_net *n, int64_t layer, ts_slot gain, const void *x,
                                   const void *rstd)
{
    void *const                     after = n->dx;
    const ts_rms_norm_backward_args a =
        rms_back_args(n, layer, gain, x, rstd, n->dh, after, n->dx_before, n->n, n->o.dims.width);
    n->dx = n->dx_before;
    n->dx_before = after;
    return ts_rms_norm_backward(&a, &n->exec);
}

/* back: by the opposite angle. */
static ts_status rotate(const ts_net *n, void *x, int64_t n_head, bool back)
{
    const int64_t      dim = n->o.dims.head_dim;
    const ts_rope_args a = {
        .dtype = n->o.dtype,
        .pairing = TS_ROPE_HALVES,
        .inverse = back,
        .n_rows = n->n,
        .n_heads = n_head,
        .head_dim = dim,
        .rotary_dim = dim,
        .x_stride = n_head * dim,
        .y_stride = n_head * dim,
        .frequency = n->frequency,
        .position = n->position,
        .x = x,
        .y = x,
    };
    return ts_rope(&a, &n->exec);
}

/* ---- attention ---- */

ts_attention_dims ts_net_attention_dims(const ts_net *n)
{
    const ts_decoder_dims *d = &n->o.dims;
    return (ts_attention_dims) {
        .dtype = n->o.dtype,
        .layout = TS_BNHD,
        .causal = 1,
        .n_batch = n->o.n_batch,
        .n_q = n->o.n_token,
        .n_k = n->o.n_token,
        .n_q_head = d->n_head,
        .n_kv_head = d->n_kv_head,
        .head_dim = d->head_dim,
        .scale = 1 / sqrt((double)d->head_dim),
    };
}

static ts_flash_attention_args forward_args(const ts_net *n, const ts_net_layer *y)
{
    return (ts_flash_attention_args) {
        ts_net_attention_dims(n), y->q, y->k, y->v, NULL, y->out, y->lse
    };
}

static ts_flash_attention_backward_args backward_args(const ts_net *n, const ts_net_layer *y)
{
    return (ts_flash_attention_backward_args) {
        ts_net_attention_dims(n),
        y->q,
        y->k,
        y->v,
        y->out,
        n->dout,
        y->lse,
        NULL,
        n->dq,
        n->dk,
        n->dv,
    };
}

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

static void larger(size_t n, size_t *most)
{
    if (n > *most) *most = n;
}

/* Rotation and activation need none, which is checked where they are called. Targets that are not
 * known yet are replaced by placeholders. */
ts_status ts_net_workspace(const ts_net *n, size_t *n_bytes)
{
    const ts_decoder_dims                 *d = &n->o.dims;
    const ts_net_layer                    *y = &n->layer[0];
    const ts_cross_entropy_logits_args     e = entropy_args(n, n->token, n->n_head_row, true, 1);
    const ts_flash_attention_args          f = forward_args(n, y);
    const ts_flash_attention_backward_args b = backward_args(n, y);
    const ts_rms_norm_backward_args        of_row = rms_back_args(
               n, 0, TS_W_NORM_1, y->x, y->rstd_1, n->dh, n->dx, n->dx_before, n->n, d->width);
    const ts_rms_norm_backward_args of_head =
        rms_back_args(n, 0, TS_W_Q_NORM, y->q_raw, y->rstd_q, n->dq, NULL, n->dout,
                      n->n * d->n_head, d->head_dim);
    size_t    part = 0;
    ts_status s = ts_net_linear_workspace(n, n_bytes);
    if (!s) s = ts_flash_attention_workspace(&f, &n->exec, &part);
    larger(part, n_bytes);
    if (!s) s = ts_flash_attention_backward_workspace(&b, &n->exec, &part);
    larger(part, n_bytes);
    if (!s) s = ts_cross_entropy_logits_workspace(&e, &n->exec, &part);
    larger(part, n_bytes);
    if (!s) s = ts_rms_norm_backward_workspace(&of_row, &n->exec, &part);
    larger(part, n_bytes);
    if (!s) s = ts_rms_norm_backward_workspace(&of_head, &n->exec, &part);
    larger(part, n_bytes);
    return s;
}

static ts_status attend(const ts_net *n, int64_t l)
{
    const ts_decoder_dims *d = &n->o.dims;
    const ts_net_layer    *y = &n->layer[l];
    const int64_t          dim = d->head_dim, n_q = n->n * d->n_head, n_k = n->n * d->n_kv_head;
    ts_status              s = rms(n, l, TS_W_NORM_1, y->x, n->h, y->rstd_1, n->n, d->width);
    if (!s) s = ts_net_linear(n, l, TS_W_Q, n->h, y->q_raw, n->n);
    if (!s) s = ts_net_linear(n, l, TS_W_K, n->h, y->k_raw, n->n);
    if (!s) s = ts_net_linear(n, l, TS_W_V, n->h, y->v, n->n);
    if (!s) s = rms(n, l, TS_W_Q_NORM, y->q_raw, y->q, y->rstd_q, n_q, dim);
    if (!s) s = rms(n, l, TS_W_K_NORM, y->k_raw, y->k, y->rstd_k, n_k, dim);
    if (!s) s = rotate(n, y->q, d->n_head, false);
    if (!s) s = rotate(n, y->k, d->n_kv_head, false);
    const ts_flash_attention_args a = forward_args(n, y);
    if (!s) s = ts_flash_attention(&a, &n->exec);
    if (!s) s = ts_net_linear(n, l, TS_W_O, y->out, y->middle, n->n);
    if (!s) n->back->add(y->middle, y->x, n->n * d->width, n->exec.n_threads);
    return s;
}

/* dx is the gradient after attention, and then the one before it. Of the gradients of heads, those
 * before a norm take the place of some that are not needed any more. */
static ts_status attend_back(ts_net *n, int64_t l)
{
    const ts_decoder_dims *d = &n->o.dims;
    const ts_net_layer    *y = &n->layer[l];
    const int64_t          dim = d->head_dim, n_q = n->n * d->n_head, n_k = n->n * d->n_kv_head;
    void *const dq_raw = n->dout, *const dk_raw = n->dq;
    const ts_flash_attention_backward_args a = backward_args(n, y);
    const ts_rms_norm_backward_args        q =
        rms_back_args(n, l, TS_W_Q_NORM, y->q_raw, y->rstd_q, n->dq, NULL, dq_raw, n_q, dim);
    const ts_rms_norm_backward_args k =
        rms_back_args(n, l, TS_W_K_NORM, y->k_raw, y->rstd_k, n->dk, NULL, dk_raw, n_k, dim);
    ts_status s = ts_net_linear_back(n, l, TS_W_O, y->out, n->dx, n->dout, n->n, false);
    if (!s) s = ts_flash_attention_backward(&a, &n->exec);
    if (!s) s = rotate(n, n->dq, d->n_head, true);
    if (!s) s = rotate(n, n->dk, d->n_kv_head, true);
    if (!s) s = ts_rms_norm_backward(&q, &n->exec);
    if (!s) s = ts_rms_norm_backward(&k, &n->exec);
    if (!s) s = rms(n, l, TS_W_NORM_1, y->x, n->h, y->rstd_1, n->n, d->width);
    if (!s) s = ts_net_linear_back(n, l, TS_W_Q, n->h, dq_raw, n->dh, n->n, false);
    if (!s) s = ts_net_linear_back(n, l, TS_W_K, n->h, dk_raw, n->dh, n->n, true);
    if (!s) s = ts_net_linear_back(n, l, TS_W_V, n->h, n->dv, n->dh, n->n, true);
    return s ? s : rms_back_residual(n, l, TS_W_NORM_1, y->x, y->rstd_1);
}

/* ---- feed-forward ---- */

static ts_status activate(const ts_net *n, const ts_net_layer *y)
{
    const int64_t                ffn = n->o.dims.n_ffn;
    const ts_swiglu_forward_args a = { n->o.dtype, n->n, ffn, ffn, ffn, y->gate, y->up, n->act };
    return ts_swiglu_forward(&a, &n->exec);
}

static ts_status feed(const ts_net *n, int64_t l, void *out)
{
    const ts_decoder_dims *d = &n->o.dims;
    const ts_net_layer    *y = &n->layer[l];
    ts_status              s = rms(n, l, TS_W_NORM_2, y->middle, n->h, y->rstd_2, n->n, d->width);
    if (!s) s = ts_net_linear(n, l, TS_W_GATE, n->h, y->gate, n->n);
    if (!s) s = ts_net_linear(n, l, TS_W_UP, n->h, y->up, n->n);
    if (!s) s = activate(n, y);
    if (!s) s = ts_net_linear(n, l, TS_W_DOWN, n->act, out, n->n);
    if (!s) n->back->add(out, y->middle, n->n * d->width, n->exec.n_threads);
    return s;
}

static ts_status feed_back(ts_net *n, int64_t l)
{
    const ts_decoder_dims        *d = &n->o.dims;
    const ts_net_layer           *y = &n->layer[l];
    const int64_t                 ffn = d->n_ffn;
    const ts_swiglu_backward_args a = { n->o.dtype, n->n,  ffn,    ffn,      ffn,
                                        y->gate,    y->up, n->dup, n->dgate, n->dup };
    ts_status                     s = activate(n, y);
    if (!s) s = ts_net_linear_back(n, l, TS_W_DOWN, n->act, n->dx, n->dup, n->n, false);
    if (!s) s = ts_swiglu_backward(&a, &n->exec);
    if (!s) s = rms(n, l, TS_W_NORM_2, y->middle, n->h, y->rstd_2, n->n, d->width);
    if (!s) s = ts_net_linear_back(n, l, TS_W_GATE, n->h, n->dgate, n->dh, n->n, false);
    if (!s) s = ts_net_linear_back(n, l, TS_W_UP, n->h, n->dup, n->dh, n->n, true);
    return s ? s : rms_back_residual(n, l, TS_W_NORM_2, y->middle, y->rstd_2);
}

/* ---- the head ---- */

/* Logits of a few rows at a time: of all they would be the largest array by far. */
static ts_status head(const ts_net *n, const ts_net_batch *b, bool back, double weight,
                      ts_net_score *score)
{
    const ts_decoder_dims *d = &n->o.dims;
    ts_status              s = rms(n, 0, TS_W_NORM, n->x, n->h, n->rstd_last, n->n, d->width);
    for (int64_t i = 0; !s && i < n->n; i += n->n_head_row) {
        const int64_t rows = n->n - i < n->n_head_row ? n->n - i : n->n_head_row;
        const ts_cross_entropy_logits_args e = entropy_args(n, b->target + i, rows, back, weight);
        s = ts_net_linear(n, 0, TS_W_EMBED, row_of(n, n->h, i, d->width), n->logits, rows);
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
            s = ts_net_linear_back(n, 0, TS_W_EMBED, row_of(n, n->h, i, d->width), n->logits,
                                   row_of(n, n->dh, i, d->width), rows, false);
    }
    const ts_rms_norm_backward_args a =
        rms_back_args(n, 0, TS_W_NORM, n->x, n->rstd_last, n->dh, NULL, n->dx, n->n, d->width);
    return back && !s ? ts_rms_norm_backward(&a, &n->exec) : s;
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
    for (int64_t l = 0; !s && l < n_layer; l++) {
        s = attend(n, l);
        if (!s) s = feed(n, l, l + 1 < n_layer ? n->layer[l + 1].x : n->x);
    }
    if (!s) s = head(n, b, back, weight, score);
    if (!back) return s;
    for (int64_t l = n_layer - 1; !s && l >= 0; l--) {
        s = feed_back(n, l);
        if (!s) s = attend_back(n, l);
    }
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

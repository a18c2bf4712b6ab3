/* SPDX-License-Identifier: Apache-2.0 */
/* net_pass.c - a batch forward through the net, and back. Arrays are touched through ts_ops,
 * ts_back and kernels only. What is cheap to make again is not kept: norms and activations. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "dtype.h"
#include "touchstone/cross_entropy.h"
#include "train_impl.h"

int ts_thread_count(int wanted)
{
    return wanted > 0 ? wanted : omp_get_max_threads();
}

/* ---- ts_ops over threads: rows do not know of each other ---- */

enum { ROWS = 32 };

static void *row_of(const ts_net *n, const void *p, int64_t row, int64_t width)
{
    return (char *)(uintptr_t)p + (size_t)(row * width) * n->size;
}

static int64_t rows_from(int64_t i, int64_t n_rows)
{
    return n_rows - i < ROWS ? n_rows - i : ROWS;
}

static void rms(const ts_net *n, void *y, const void *x, const void *gain, int64_t n_rows,
                int64_t width)
{
    const int n_threads = ts_threads_for(n_rows * width, n->exec.n_threads);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t i = 0; i < n_rows; i += ROWS)
        n->ops->rms(NULL, row_of(n, y, i, width), row_of(n, x, i, width), gain,
                    rows_from(i, n_rows), width, n->o.dims.norm_eps);
}

static void rotate(const ts_net *n, void *x, const void *turn, int64_t n_head)
{
    const int64_t dim = n->o.dims.head_dim;
    const int     n_threads = ts_threads_for(n->n * n_head * dim, n->exec.n_threads);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t i = 0; i < n->n; i += ROWS)
        n->ops->rotate(NULL, row_of(n, x, i, n_head * dim), row_of(n, turn, i, dim),
                       rows_from(i, n->n), n_head, dim / 2);
}

/* act = silu(gate) * up, gate being left as it is. */
static void activate(const ts_net *n, const ts_net_layer *y)
{
    const int64_t width = n->o.dims.n_ffn;
    const int     n_threads = ts_threads_for(n->n * width, n->exec.n_threads);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t i = 0; i < n->n; i += ROWS) {
        const int64_t count = rows_from(i, n->n) * width;
        void         *act = row_of(n, n->act, i, width);
        memcpy(act, row_of(n, y->gate, i, width), (size_t)count * n->size);
        n->ops->silu_times(NULL, act, row_of(n, y->up, i, width), count);
    }
}

static void rms_back(const ts_net *n, int64_t layer, ts_slot gain, const void *x, const void *dy,
                     void *dx, int64_t n_rows, int64_t width, bool add)
{
    n->back->rms(&(ts_rms_back) {
        .x = x,
        .gain = ts_net_at(n, n->weight, layer, gain),
        .dy = dy,
        .dx = dx,
        .dgain = ts_net_at(n, n->gradient, layer, gain),
        .n = n_rows,
        .width = width,
        .eps = n->o.dims.norm_eps,
        .add = add,
        .sums = n->sums,
        .n_threads = n->exec.n_threads,
    });
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

/* Tokens that are none yet stand for targets. */
ts_status ts_net_workspace(const ts_net *n, size_t *n_bytes)
{
    const ts_cross_entropy_logits_args     e = entropy_args(n, n->token, n->n_head_row, true, 1);
    const ts_flash_attention_args          f = forward_args(n, &n->layer[0]);
    const ts_flash_attention_backward_args b = backward_args(n, &n->layer[0]);
    size_t                                 forward, backward, entropy;
    ts_status                              s = ts_net_linear_workspace(n, n_bytes);
    if (!s) s = ts_flash_attention_workspace(&f, &n->exec, &forward);
    if (!s) s = ts_flash_attention_backward_workspace(&b, &n->exec, &backward);
    if (!s) s = ts_cross_entropy_logits_workspace(&e, &n->exec, &entropy);
    if (s) return s;
    if (entropy > *n_bytes) *n_bytes = entropy;
    if (forward > *n_bytes) *n_bytes = forward;
    if (backward > *n_bytes) *n_bytes = backward;
    return TS_OK;
}

static ts_status attend(const ts_net *n, int64_t l)
{
    const ts_decoder_dims *d = &n->o.dims;
    const ts_net_layer    *y = &n->layer[l];
    rms(n, n->h, y->x, ts_net_at(n, n->weight, l, TS_W_NORM_1), n->n, d->width);
    ts_status s = ts_net_linear(n, l, TS_W_Q, n->h, y->q_raw, n->n);
    if (!s) s = ts_net_linear(n, l, TS_W_K, n->h, y->k_raw, n->n);
    if (!s) s = ts_net_linear(n, l, TS_W_V, n->h, y->v, n->n);
    if (s) return s;
    rms(n, y->q, y->q_raw, ts_net_at(n, n->weight, l, TS_W_Q_NORM), n->n * d->n_head, d->head_dim);
    rms(n, y->k, y->k_raw, ts_net_at(n, n->weight, l, TS_W_K_NORM), n->n * d->n_kv_head,
        d->head_dim);
    rotate(n, y->q, n->turn, d->n_head);
    rotate(n, y->k, n->turn, d->n_kv_head);
    const ts_flash_attention_args a = forward_args(n, y);
    s = ts_flash_attention(&a, &n->exec);
    if (!s) s = ts_net_linear(n, l, TS_W_O, y->out, y->middle, n->n);
    if (!s) n->back->add(y->middle, y->x, n->n * d->width, n->exec.n_threads);
    return s;
}

/* dx is the gradient after attention, and then the one before it. */
static ts_status attend_back(const ts_net *n, int64_t l)
{
    const ts_decoder_dims *d = &n->o.dims;
    const ts_net_layer    *y = &n->layer[l];
    ts_status s = ts_net_linear_back(n, l, TS_W_O, y->out, n->dx, n->dout, n->n, false);
    const ts_flash_attention_backward_args a = backward_args(n, y);
    if (!s) s = ts_flash_attention_backward(&a, &n->exec);
    if (s) return s;
    rotate(n, n->dq, n->unturn, d->n_head);
    rotate(n, n->dk, n->unturn, d->n_kv_head);
    rms_back(n, l, TS_W_Q_NORM, y->q_raw, n->dq, n->dq, n->n * d->n_head, d->head_dim, false);
    rms_back(n, l, TS_W_K_NORM, y->k_raw, n->dk, n->dk, n->n * d->n_kv_head, d->head_dim, false);
    rms(n, n->h, y->x, ts_net_at(n, n->weight, l, TS_W_NORM_1), n->n, d->width);
    s = ts_net_linear_back(n, l, TS_W_Q, n->h, n->dq, n->dh, n->n, false);
    if (!s) s = ts_net_linear_back(n, l, TS_W_K, n->h, n->dk, n->dh, n->n, true);
    if (!s) s = ts_net_linear_back(n, l, TS_W_V, n->h, n->dv, n->dh, n->n, true);
    if (!s) rms_back(n, l, TS_W_NORM_1, y->x, n->dh, n->dx, n->n, d->width, true);
    return s;
}

/* ---- feed-forward ---- */

static ts_status feed(const ts_net *n, int64_t l, void *out)
{
    const ts_decoder_dims *d = &n->o.dims;
    const ts_net_layer    *y = &n->layer[l];
    rms(n, n->h, y->middle, ts_net_at(n, n->weight, l, TS_W_NORM_2), n->n, d->width);
    ts_status s = ts_net_linear(n, l, TS_W_GATE, n->h, y->gate, n->n);
    if (!s) s = ts_net_linear(n, l, TS_W_UP, n->h, y->up, n->n);
    if (s) return s;
    activate(n, y);
    s = ts_net_linear(n, l, TS_W_DOWN, n->act, out, n->n);
    if (!s) n->back->add(out, y->middle, n->n * d->width, n->exec.n_threads);
    return s;
}

static ts_status feed_back(const ts_net *n, int64_t l)
{
    const ts_decoder_dims *d = &n->o.dims;
    const ts_net_layer    *y = &n->layer[l];
    activate(n, y);
    ts_status s = ts_net_linear_back(n, l, TS_W_DOWN, n->act, n->dx, n->dup, n->n, false);
    if (s) return s;
    n->back->silu(y->gate, y->up, n->dup, n->dgate, n->dup, n->n * d->n_ffn, n->exec.n_threads);
    rms(n, n->h, y->middle, ts_net_at(n, n->weight, l, TS_W_NORM_2), n->n, d->width);
    s = ts_net_linear_back(n, l, TS_W_GATE, n->h, n->dgate, n->dh, n->n, false);
    if (!s) s = ts_net_linear_back(n, l, TS_W_UP, n->h, n->dup, n->dh, n->n, true);
    if (!s) rms_back(n, l, TS_W_NORM_2, y->middle, n->dh, n->dx, n->n, d->width, true);
    return s;
}

/* ---- the head ---- */

/* Logits of a few rows at a time: of all they would be the largest array by far. */
static ts_status head(const ts_net *n, const ts_net_batch *b, bool back, double weight,
                      ts_net_score *score)
{
    const ts_decoder_dims *d = &n->o.dims;
    ts_status              s = TS_OK;
    rms(n, n->h, n->x, ts_net_at(n, n->weight, 0, TS_W_NORM), n->n, d->width);
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
    if (back && !s) rms_back(n, 0, TS_W_NORM, n->x, n->dh, n->dx, n->n, d->width, false);
    return s;
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

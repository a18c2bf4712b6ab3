/* SPDX-License-Identifier: Apache-2.0 */
/* net_cuda_layer.c - a batch forward through a net on a CUDA device, and back.
 *
 * The residual stream is float, and so are products that are added to it, their gradients and the
 * norms of the stream; what a product reads is then rounded to the net's type. */
#include "net_cuda.h"
#include "touchstone/cross_entropy.h"
#include "touchstone/embedding.h"
#include "touchstone/rms_norm.h"
#include "touchstone/rope.h"
#include "touchstone/softmax_topk.h"
#include "touchstone/swiglu.h"

/* ---- attention ---- */

static ts_flash_attention_args forward_args(const ts_net *n, const ts_cuda_layer *y)
{
    return (ts_flash_attention_args) {
        ts_layers_attention(&n->layers), y->q, y->k, y->v, NULL, y->out, y->lse
    };
}

static ts_flash_attention_backward_args backward_args(const ts_net *n, const ts_cuda_layer *y,
                                                      void *dv)
{
    const ts_net_cuda *c = n->cuda;
    return (ts_flash_attention_backward_args) {
        ts_layers_attention(&n->layers),
        y->q,
        y->k,
        y->v,
        y->out,
        c->dout,
        y->lse,
        NULL,
        c->dq,
        c->dk,
        dv,
    };
}

/* ---- the embedding, which is the first of the weights ---- */

static ts_status embed(const ts_net *n)
{
    const ts_net_cuda              *c = n->cuda;
    const int64_t                   width = n->o.dims.width;
    const ts_embedding_forward_args a = {
        .dtype = c->type,
        .y_dtype = TS_F32,
        .n_rows = n->n,
        .n_cols = width,
        .n_vocab = n->o.dims.n_vocab,
        .table_stride = width,
        .y_stride = width,
        .scale = 1,
        .table = c->serving,
        .token = c->in.row,
        .y = c->layer[0].x,
    };
    return ts_embedding_forward(&a, &c->exec);
}

static ts_embedding_backward_args embed_back_args(const ts_net *n)
{
    const ts_net_cuda *c = n->cuda;
    const int64_t      width = n->o.dims.width;
    return (ts_embedding_backward_args) {
        .dtype = TS_F32,
        .accumulate = 1,
        .n_rows = n->n,
        .n_cols = width,
        .n_vocab = n->o.dims.n_vocab,
        .table_stride = width,
        .dy_stride = width,
        .scale = 1,
        .token = c->in.row,
        .dy = c->dx[0],
        .dtable = c->gradient,
    };
}

/* ---- norms ---- */

/* In the net's type, for the product that reads it next. */
static void narrow(const ts_net *n, const float *x, void *y)
{
    const ts_net_cuda    *c = n->cuda;
    const ts_cuda_project p = {
        .type = c->type,
        .how = TS_SERVE_COPY,
        .w = x,
        .y = y,
        .rows = 1,
        .cols = n->n * n->o.dims.width,
    };
    if (x != y) c->ops->project(c->self, &p);
}

/* Rows that are normed, and what forward leaves behind for backward. */
typedef struct normed {
    ts_dtype    type;
    const void *x;
    float      *rstd;
    int64_t     gain; /* its place among the weights */
    int64_t     n, width;
} normed;

/* Of the residual stream. */
static normed stream(const ts_net *n, int64_t l, ts_slot gain, const float *x, float *rstd)
{
    return (normed) { TS_F32, x, rstd, ts_cuda_at(n, l, gain), n->n, n->o.dims.width };
}

static normed heads_of(const ts_net *n, int64_t l, ts_slot gain, const void *x, float *rstd,
                       int64_t n_head)
{
    return (normed) { n->cuda->type,     x, rstd, ts_cuda_at(n, l, gain), n->n * n_head,
                      n->o.dims.head_dim };
}

static const void *gain_of(const ts_net_cuda *c, const normed *r)
{
    if (r->type == TS_F32) return c->weight + r->gain;
    return (const char *)c->serving + (size_t)r->gain * c->size;
}

/* t: is added to x where there is one, and the sum is written; or NULL. */
static ts_status norm(const ts_net *n, const normed *r, const float *t, float *sum, void *y)
{
    const ts_rms_norm_forward_args a = {
        .dtype = r->type,
        .n_rows = r->n,
        .n_cols = r->width,
        .row_stride = r->width,
        .eps = n->o.dims.norm_eps,
        .x = r->x,
        .residual = t,
        .w = gain_of(n->cuda, r),
        .r = sum,
        .y = y,
        .rstd = r->rstd,
    };
    return ts_rms_norm_forward(&a, &n->cuda->exec);
}

/* dr: a gradient that is added, or NULL; add: to the gain's gradient. */
static ts_rms_norm_backward_args norm_back_args(const ts_net *n, const normed *r, const void *dy,
                                                const float *dr, void *dx, bool add)
{
    return (ts_rms_norm_backward_args) {
        .dtype = r->type,
        .accumulate = add,
        .n_rows = r->n,
        .n_cols = r->width,
        .row_stride = r->width,
        .r = r->x,
        .dy = dy,
        .dr = dr,
        .w = gain_of(n->cuda, r),
        .rstd = r->rstd,
        .dx = dx,
        .dw = n->cuda->gradient + r->gain,
    };
}

/* Of the residual stream, after t was added to x: r->x is the sum then. */
static ts_status norm_stream(const ts_net *n, const normed *r, const float *x, void *h)
{
    const ts_net_cuda *c = n->cuda;
    float *const       y = c->type == TS_F32 ? h : c->y;
    normed             before = *r;
    before.x = x;
    ts_cuda_part_is(n, TS_PART_NORM);
    const ts_status s = norm(n, &before, x == r->x ? NULL : c->t, (float *)(uintptr_t)r->x, y);
    if (!s) narrow(n, y, h);
    return s;
}

/* From dh and dr to dx, also as products read it. */
static ts_status norm_stream_back(const ts_net *n, const normed *r, const float *dr, float *dx,
                                  void *narrowed, bool add)
{
    const ts_rms_norm_backward_args a = norm_back_args(n, r, n->cuda->dh, dr, dx, add);
    ts_cuda_part_is(n, TS_PART_NORM);
    const ts_status s = ts_rms_norm_backward(&a, &n->cuda->exec);
    if (!s) narrow(n, dx, narrowed);
    return s;
}

/* ---- heads: their norm and rotation ---- */

static ts_status rotate(const ts_net *n, void *x, int64_t n_head, bool back)
{
    const int64_t      dim = n->o.dims.head_dim;
    const ts_rope_args a = {
        .dtype = n->cuda->type,
        .pairing = TS_ROPE_HALVES,
        .inverse = back,
        .n_rows = n->n,
        .n_heads = n_head,
        .head_dim = dim,
        .rotary_dim = dim,
        .x_stride = n_head * dim,
        .y_stride = n_head * dim,
        .frequency = n->cuda->frequency,
        .position = n->cuda->position,
        .x = x,
        .y = x,
    };
    return ts_rope(&a, &n->cuda->exec);
}

static ts_status heads(const ts_net *n, const normed *r, void *y, int64_t n_head)
{
    ts_cuda_part_is(n, TS_PART_HEADS);
    const ts_status s = norm(n, r, NULL, NULL, y);
    return s ? s : rotate(n, y, n_head, false);
}

static ts_status heads_back(const ts_net *n, const normed *r, void *dy, void *dx, int64_t n_head,
                            bool add)
{
    const ts_rms_norm_backward_args a = norm_back_args(n, r, dy, NULL, dx, add);
    ts_cuda_part_is(n, TS_PART_HEADS);
    const ts_status s = rotate(n, dy, n_head, true);
    return s ? s : ts_rms_norm_backward(&a, &n->cuda->exec);
}

/* ---- activation ---- */

/* Rows of gate_up are gates, then ups. */
static void *ups(const ts_net *n, void *gate_up)
{
    return (char *)gate_up + (size_t)n->o.dims.n_ffn * n->cuda->size;
}

static ts_status activate(const ts_net *n, const ts_cuda_layer *y)
{
    const int64_t                ffn = n->o.dims.n_ffn;
    const ts_swiglu_forward_args a = { n->cuda->type,      n->n,  ffn, 2 * ffn, ffn, y->gate_up,
                                       ups(n, y->gate_up), y->act };
    ts_cuda_part_is(n, TS_PART_SWIGLU);
    return ts_swiglu_forward(&a, &n->cuda->exec);
}

static ts_status activate_back(const ts_net *n, const ts_cuda_layer *y, void *d_gate_up)
{
    const ts_net_cuda            *c = n->cuda;
    const int64_t                 ffn = n->o.dims.n_ffn;
    const ts_swiglu_backward_args a = { c->type,
                                        n->n,
                                        ffn,
                                        2 * ffn,
                                        ffn,
                                        y->gate_up,
                                        ups(n, y->gate_up),
                                        c->d_act,
                                        d_gate_up,
                                        ups(n, d_gate_up) };
    ts_cuda_part_is(n, TS_PART_SWIGLU);
    return ts_swiglu_backward(&a, &c->exec);
}

/* ---- layers ---- */

static normed queries(const ts_net *n, int64_t l)
{
    const ts_cuda_layer *y = &n->cuda->layer[l];
    return heads_of(n, l, TS_W_Q_NORM, y->q_raw, y->rstd_q, n->o.dims.n_head);
}

static normed keys(const ts_net *n, int64_t l)
{
    const ts_cuda_layer *y = &n->cuda->layer[l];
    return heads_of(n, l, TS_W_K_NORM, y->k_raw, y->rstd_k, n->o.dims.n_kv_head);
}

/* Before attention; past the last layer before the head. */
static normed first(const ts_net *n, int64_t l)
{
    const ts_cuda_layer *y = &n->cuda->layer[l];
    if (l == n->o.dims.n_layer) return stream(n, 0, TS_W_NORM, n->cuda->x, n->cuda->rstd);
    return stream(n, l, TS_W_NORM_1, y->x, y->rstd_1);
}

/* Before feed-forward. */
static normed second(const ts_net *n, int64_t l)
{
    const ts_cuda_layer *y = &n->cuda->layer[l];
    return stream(n, l, TS_W_NORM_2, y->middle, y->rstd_2);
}

static ts_status attend(const ts_net *n, int64_t l)
{
    const ts_net_cuda            *c = n->cuda;
    const ts_cuda_layer          *y = &c->layer[l];
    const ts_cuda_matrix          q = ts_cuda_q_of(n, l), o = ts_cuda_o_of(n, l);
    const ts_cuda_matrix          k = ts_cuda_kv_of(n, l, TS_W_K), v = ts_cuda_kv_of(n, l, TS_W_V);
    const normed                  of_q = queries(n, l), of_k = keys(n, l);
    const ts_flash_attention_args a = forward_args(n, y);
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    ts_cuda_forward(c, &q, y->h_1, y->q_raw, c->type, n->n);
    ts_cuda_forward(c, &k, y->h_1, y->k_raw, c->type, n->n);
    ts_cuda_forward(c, &v, y->h_1, y->v, c->type, n->n);
    ts_status s = heads(n, &of_q, y->q, n->o.dims.n_head);
    if (!s) s = heads(n, &of_k, y->k, n->o.dims.n_kv_head);
    if (s) return s;
    ts_cuda_part_is(n, TS_PART_ATTENTION);
    s = ts_flash_attention(&a, &c->exec);
    if (s) return s;
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    ts_cuda_forward(c, &o, y->out, c->t, TS_F32, n->n);
    return TS_OK;
}

/* From h_1 and x to the next layer's, or to the last norm's. */
static ts_status layer_forward(const ts_net *n, int64_t l)
{
    const ts_net_cuda   *c = n->cuda;
    const ts_cuda_layer *y = &c->layer[l];
    const bool           last = l + 1 == n->o.dims.n_layer;
    const ts_cuda_matrix gate_up = ts_cuda_gate_up_of(n, l), down = ts_cuda_down_of(n, l);
    const normed         here = second(n, l), next = first(n, l + 1);
    ts_status            s = attend(n, l);
    if (!s) s = norm_stream(n, &here, y->x, y->h_2);
    if (s) return s;
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    ts_cuda_forward(c, &gate_up, y->h_2, y->gate_up, c->type, n->n);
    s = activate(n, y);
    if (s) return s;
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    ts_cuda_forward(c, &down, y->act, c->t, TS_F32, n->n);
    return norm_stream(n, &next, y->middle, last ? c->h : y[1].h_1);
}

/* From the gradient of attention's product, d_o, to dh. */
static ts_status attend_back(const ts_net *n, int64_t l, const ts_cuda_beside *b, ts_cuda_way how)
{
    const ts_net_cuda   *c = n->cuda;
    const ts_cuda_layer *y = &c->layer[l];
    const int64_t        n_head = n->o.dims.n_head, n_kv = n->o.dims.n_kv_head;
    const ts_cuda_matrix q = ts_cuda_q_of(n, l), o = ts_cuda_o_of(n, l);
    const ts_cuda_matrix k = ts_cuda_kv_of(n, l, TS_W_K), v = ts_cuda_kv_of(n, l, TS_W_V);
    const normed         of_q = queries(n, l), of_k = keys(n, l);
    const ts_flash_attention_backward_args a = backward_args(n, y, b->d_v);
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    ts_cuda_backward(c, &o, y->out, b->d_o, c->dout, c->type, false, n->n, how);
    ts_cuda_part_is(n, TS_PART_ATTENTION);
    ts_status s = ts_flash_attention_backward(&a, &c->exec);
    if (!s) s = heads_back(n, &of_q, c->dq, b->d_q, n_head, how.add);
    if (!s) s = heads_back(n, &of_k, c->dk, b->d_k, n_kv, how.add);
    if (s) return s;
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    ts_cuda_backward(c, &q, y->h_1, b->d_q, c->dh, TS_F32, false, n->n, how);
    ts_cuda_backward(c, &k, y->h_1, b->d_k, c->dh, TS_F32, true, n->n, how);
    ts_cuda_backward(c, &v, y->h_1, b->d_v, c->dh, TS_F32, true, n->n, how);
    return TS_OK;
}

/* dx[0] from after the layer to before it. */
static ts_status layer_backward(const ts_net *n, int64_t l, ts_cuda_way how)
{
    const ts_net_cuda    *c = n->cuda;
    const ts_cuda_layer  *y = &c->layer[l];
    const ts_cuda_matrix  gate_up = ts_cuda_gate_up_of(n, l), down = ts_cuda_down_of(n, l);
    const int64_t         from_last = n->o.dims.n_layer - 1 - l;
    const int             turn = (int)(l % TS_CUDA_BESIDES);
    const ts_cuda_beside *b = &c->beside[turn];
    void                 *next = c->beside[(l + TS_CUDA_BESIDES - 1) % TS_CUDA_BESIDES].d_down;
    const normed          of_1 = first(n, l), of_2 = second(n, l);
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    ts_cuda_backward(c, &down, y->act, b->d_down, c->d_act, c->type, false, n->n, how);
    ts_status s = activate_back(n, y, b->d_gate_up);
    if (s) return s;
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    ts_cuda_backward(c, &gate_up, y->h_2, b->d_gate_up, c->dh, TS_F32, false, n->n, how);
    s = norm_stream_back(n, &of_2, c->dx[0], c->dx[1], b->d_o, how.add);
    if (!s) s = attend_back(n, l, b, how);
    if (s) return s;
    if (how.aside) c->ops->leave(c->self, turn);
    if (how.aside && from_last) c->ops->meet(c->self, (turn + 1) % TS_CUDA_BESIDES);
    return norm_stream_back(n, &of_1, c->dx[1], c->dx[0], next, how.add);
}

/* ---- the head ---- */

static void *row_of(void *p, int64_t row, int64_t width, size_t size)
{
    return (char *)p + (size_t)(row * width) * size;
}

/* Of rows from i on. With `back` logits become the gradient of nll, for products to scale. */
static ts_cross_entropy_logits_args entropy_args(const ts_net *n, int64_t i, int64_t rows,
                                                 bool back)
{
    const ts_net_cuda *c = n->cuda;
    return (ts_cross_entropy_logits_args) {
        .dtype = c->type,
        .in_place = back,
        .ignore_index = -1,
        .n_rows = rows,
        .n_vocab = n->o.dims.n_vocab,
        .row_stride = c->n_logit,
        .scale = 1,
        .logits = c->logits,
        .target = c->in.target + i,
        .loss = c->result.loss + i,
        .lse = c->row,
        .total = c->total,
    };
}

static ts_softmax_topk_args top_args(const ts_net *n, int64_t i, int64_t rows)
{
    const ts_net_cuda *c = n->cuda;
    return (ts_softmax_topk_args) {
        .dtype = c->type,
        .n_rows = rows,
        .n_vocab = n->o.dims.n_vocab,
        .row_stride = c->n_logit,
        .k = 1,
        .inv_temperature = 1,
        .logits = c->logits,
        .index = c->result.top + i,
        .prob = c->row,
    };
}

static ts_status head(const ts_net *n, bool back, ts_cuda_way how)
{
    const ts_net_cuda   *c = n->cuda;
    const int64_t        width = n->o.dims.width;
    const ts_cuda_matrix w = ts_cuda_head_of(n);
    void *const          d_down = c->beside[(n->o.dims.n_layer - 1) % TS_CUDA_BESIDES].d_down;
    const normed         r = first(n, n->o.dims.n_layer);
    for (int64_t i = 0; i < n->n; i += c->n_head_row) {
        const int64_t rows = n->n - i < c->n_head_row ? n->n - i : c->n_head_row;
        void *const   h = row_of(c->h, i, width, c->size);
        const ts_cross_entropy_logits_args e = entropy_args(n, i, rows, back);
        const ts_softmax_topk_args         t = top_args(n, i, rows);
        ts_cuda_part_is(n, TS_PART_HEAD);
        ts_cuda_forward(c, &w, h, c->logits, c->type, rows);
        ts_cuda_part_is(n, TS_PART_ENTROPY);
        ts_status s = ts_softmax_topk(&t, &c->exec);
        if (!s) s = ts_cross_entropy_logits(&e, &c->exec);
        if (s) return s;
        ts_cuda_part_is(n, TS_PART_HEAD);
        if (back)
            ts_cuda_backward(c, &w, h, c->logits, row_of(c->dh, i, width, sizeof(float)), TS_F32,
                             false, rows,
                             (ts_cuda_way) { .add = how.add || i, .scale = c->in.weight });
    }
    return back ? norm_stream_back(n, &r, NULL, c->dx[0], d_down, how.add) : TS_OK;
}

/* ---- what kernels need ---- */

static ts_status more(ts_status s, const size_t *asked, size_t *most)
{
    if (!s && *asked > *most) *most = *asked;
    return s;
}

/* The others need none, which is checked where they are called. */
bool ts_cuda_workspace(const ts_net *n, ts_exec *x, char why[TS_MODEL_WHY])
{
    const ts_net_cuda                     *c = n->cuda;
    const ts_cuda_layer                   *y = &c->layer[0];
    const int64_t                          last = n->n % c->n_head_row;
    const ts_embedding_backward_args       e = embed_back_args(n);
    const ts_flash_attention_args          f = forward_args(n, y);
    const ts_flash_attention_backward_args b = backward_args(n, y, c->beside[0].d_v);
    const normed                           rows = first(n, 0), heads = queries(n, 0);
    const ts_rms_norm_backward_args r = norm_back_args(n, &rows, c->dh, c->dx[1], c->dx[0], true);
    const ts_rms_norm_backward_args h =
        norm_back_args(n, &heads, c->dq, NULL, c->beside[0].d_q, true);
    size_t    asked = 0, most = 0;
    ts_status s = more(ts_flash_attention_workspace(&f, x, &asked), &asked, &most);
    if (!s) s = more(ts_flash_attention_backward_workspace(&b, x, &asked), &asked, &most);
    if (!s) s = more(ts_embedding_backward_workspace(&e, x, &asked), &asked, &most);
    if (!s) s = more(ts_rms_norm_backward_workspace(&r, x, &asked), &asked, &most);
    if (!s) s = more(ts_rms_norm_backward_workspace(&h, x, &asked), &asked, &most);
    for (int i = 0; i < 2 && !s; i++) {
        const int64_t                      count = i && last ? last : c->n_head_row;
        const ts_cross_entropy_logits_args l = entropy_args(n, 0, count, true);
        const ts_softmax_topk_args         t = top_args(n, 0, count);
        s = more(ts_cross_entropy_logits_workspace(&l, x, &asked), &asked, &most);
        if (!s) s = more(ts_softmax_topk_workspace(&t, x, &asked), &asked, &most);
    }
    if (s) return ts_say(why, "unsupported dimensions: %s", ts_status_text(s));
    x->workspace_bytes = most;
    return !most || ts_memory_take(TS_CUDA, most, "kernels", &x->workspace, why);
}

/* ---- the pass ---- */

ts_status ts_cuda_enqueue(const ts_net *n, ts_cuda_kind k, bool aside)
{
    const ts_net_cuda   *c = n->cuda;
    const int64_t        n_layer = n->o.dims.n_layer;
    const bool           back = k != TS_PASS_EVAL;
    const ts_cuda_way    how = { .add = k == TS_PASS_AGAIN, .aside = aside };
    const ts_cuda_layer *y = &c->layer[0];
    ts_cuda_part_is(n, TS_PART_EMBED);
    ts_status    s = embed(n);
    const normed r = first(n, 0);
    if (!s) s = norm_stream(n, &r, y->x, y->h_1);
    for (int64_t l = 0; !s && l < n_layer; l++) s = layer_forward(n, l);
    if (!s) s = head(n, back, how);
    for (int64_t l = n_layer - 1; back && !s && l >= 0; l--) s = layer_backward(n, l, how);
    if (s || !back) return s;
    if (aside) c->ops->meet(c->self, 0); /* layer 0 was the last to leave */
    ts_cuda_part_is(n, TS_PART_EMBED);   /* its other use */
    const ts_embedding_backward_args a = embed_back_args(n);
    return ts_embedding_backward(&a, &c->exec);
}

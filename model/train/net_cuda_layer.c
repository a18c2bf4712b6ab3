/* SPDX-License-Identifier: Apache-2.0 */
/* net_cuda_layer.c - a batch forward through a net on a CUDA device, and back. Matmuls of one input
 * are one matmul: their matrices are adjacent in memory. */
#include <stddef.h>

#include "net_cuda.h"
#include "touchstone/embedding.h"
#include "touchstone/swiglu.h"

/* ---- products ---- */

static int64_t at(const ts_net *n, int64_t layer, ts_slot s)
{
    return n->param[n->slot[ts_slot_at(&n->o.dims, layer, s)]].at;
}

static const float *gain(const ts_net *n, int64_t layer, ts_slot s)
{
    return n->cuda->weight + at(n, layer, s);
}

/* Where blocks sum up that gain's gradient. */
static float *sums(const ts_net *n, int64_t layer, ts_slot s)
{
    return n->cuda->sums + (at(n, layer, s) - n->n_matrix);
}

/* A matrix, or several that follow each other, of n_out rows in all. */
typedef struct matrix {
    int64_t at, n_out, n_in;
    int64_t n_y; /* from a row of what comes out to the next */
} matrix;

static matrix matrix_of(const ts_net *n, int64_t layer, ts_slot s, int64_t n_out, int64_t n_in)
{
    return (matrix) { at(n, layer, s), n_out, n_in, n_out };
}

static const void *serving(const ts_net_cuda *c, const matrix *w)
{
    return (const char *)c->serving + (size_t)w->at * c->size;
}

/* y = in w' */
static void forward(const ts_net_cuda *c, const matrix *w, const void *in, void *y, int64_t n_rows)
{
    const ts_cuda_product p = {
        .in = c->type,
        .out = c->type,
        .a = in,
        .b = serving(c, w),
        .c = y,
        .m = n_rows,
        .n = w->n_out,
        .k = w->n_in,
        .n_a = w->n_in,
        .n_b = w->n_in,
        .n_c = w->n_y,
        .turn_b = true,
    };
    c->ops->product(c->self, &p);
}

/* How a pass goes back. */
typedef struct way {
    bool add;   /* to the gradient */
    bool aside; /* weights' gradients of layers on the second stream */
} way;

/* dx = dy w; the gradient of w = dy' in, or += that. */
static void backward(const ts_net_cuda *c, const matrix *w, const void *in, const void *dy,
                     void *dx, int64_t n_rows, way how)
{
    const ts_cuda_product to_x = {
        .in = c->type,
        .out = c->type,
        .a = dy,
        .b = serving(c, w),
        .c = dx,
        .m = n_rows,
        .n = w->n_in,
        .k = w->n_out,
        .n_a = w->n_y,
        .n_b = w->n_in,
        .n_c = w->n_in,
    };
    const ts_cuda_product to_w = {
        .in = c->type,
        .out = TS_F32,
        .a = dy,
        .b = in,
        .c = c->gradient + w->at,
        .m = w->n_out,
        .n = w->n_in,
        .k = n_rows,
        .n_a = w->n_y,
        .n_b = w->n_in,
        .n_c = w->n_in,
        .turn_a = true,
        .add = how.add,
        .aside = how.aside,
    };
    if (how.aside) c->ops->fork(c->self); /* dy is there, dx need not be */
    c->ops->product(c->self, &to_x);
    c->ops->product(c->self, &to_w);
}

static matrix qkv_of(const ts_net *n, int64_t l)
{
    return matrix_of(n, l, TS_W_Q, ts_cuda_heads_width(&n->o.dims), n->o.dims.width);
}

static matrix o_of(const ts_net *n, int64_t l)
{
    return matrix_of(n, l, TS_W_O, n->o.dims.width, n->o.dims.n_head * n->o.dims.head_dim);
}

static matrix gate_up_of(const ts_net *n, int64_t l)
{
    return matrix_of(n, l, TS_W_GATE, 2 * n->o.dims.n_ffn, n->o.dims.width);
}

static matrix down_of(const ts_net *n, int64_t l)
{
    return matrix_of(n, l, TS_W_DOWN, n->o.dims.width, n->o.dims.n_ffn);
}

static matrix head_of(const ts_net *n)
{
    matrix w = matrix_of(n, 0, TS_W_EMBED, n->o.dims.n_vocab, n->o.dims.width);
    w.n_y = n->cuda->n_logit;
    return w;
}

/* ---- attention ---- */

static ts_attention_dims attention_dims(const ts_net *n)
{
    ts_attention_dims d = ts_net_attention_dims(n);
    d.dtype = n->cuda->type;
    return d;
}

static ts_flash_attention_args forward_args(const ts_net *n, const ts_cuda_layer *y)
{
    return (ts_flash_attention_args) { attention_dims(n), y->q, y->k, y->v, NULL, y->out, y->lse };
}

static ts_flash_attention_backward_args backward_args(const ts_net *n, const ts_cuda_layer *y)
{
    const ts_net_cuda *c = n->cuda;
    return (ts_flash_attention_backward_args) {
        attention_dims(n), y->q, y->k, y->v, y->out, c->dout, y->lse, NULL, c->dq, c->dk, c->dv,
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
        .dy = c->dx,
        .dtable = c->gradient,
    };
}

/* ---- what kernels need ---- */

bool ts_cuda_workspace(const ts_net *n, ts_exec *x, char why[TS_MODEL_WHY])
{
    const ts_embedding_backward_args       e = embed_back_args(n);
    const ts_flash_attention_args          f = forward_args(n, &n->cuda->layer[0]);
    const ts_flash_attention_backward_args b = backward_args(n, &n->cuda->layer[0]);
    size_t                                 forward = 0, backward = 0, embedding = 0;
    ts_status                              s = ts_flash_attention_workspace(&f, x, &forward);
    if (!s) s = ts_flash_attention_backward_workspace(&b, x, &backward);
    if (!s) s = ts_embedding_backward_workspace(&e, x, &embedding);
    if (s) return ts_say(why, "unsupported dimensions: %s", ts_status_text(s));
    x->workspace_bytes = forward > backward ? forward : backward;
    if (embedding > x->workspace_bytes) x->workspace_bytes = embedding;
    return !x->workspace_bytes ||
           ts_memory_take(TS_CUDA, x->workspace_bytes, "kernels", &x->workspace, why);
}

/* ---- layers ---- */

/* sum = x + t where there is a t, and h = its norm. */
static void norm(const ts_net *n, const float *x, const void *t, float *sum, void *h,
                 const float *g)
{
    const ts_cuda_norm r = { n->cuda->type,     x, t, sum, h, g, n->n, n->o.dims.width,
                             n->o.dims.norm_eps };
    ts_cuda_part_is(n, TS_PART_NORM);
    n->cuda->ops->norm(n->cuda->self, &r);
}

/* dx also in the net's type, for the product that reads it next. */
static void norm_back(const ts_net *n, int64_t l, ts_slot s, const float *x, bool add, void *narrow)
{
    const ts_net_cuda      *c = n->cuda;
    const ts_cuda_norm_back r = {
        .type = c->type,
        .x = x,
        .gain = gain(n, l, s),
        .dh = c->dh,
        .dx = c->dx,
        .narrow = c->type == TS_F32 ? NULL : narrow,
        .sums = sums(n, l, s),
        .n = n->n,
        .width = n->o.dims.width,
        .n_sums = n->n_count - n->n_matrix,
        .eps = n->o.dims.norm_eps,
        .add = add,
    };
    ts_cuda_part_is(n, TS_PART_NORM);
    c->ops->norm_back(c->self, &r);
}

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

static ts_cuda_heads heads_of(const ts_net *n, int64_t l)
{
    const ts_decoder_dims *d = &n->o.dims;
    const ts_cuda_layer   *y = &n->cuda->layer[l];
    return (ts_cuda_heads) {
        .type = n->cuda->type,
        .rows = y->rows,
        .q = y->q,
        .k = y->k,
        .v = y->v,
        .q_gain = gain(n, l, TS_W_Q_NORM),
        .k_gain = gain(n, l, TS_W_K_NORM),
        .turn = n->cuda->turn,
        .n = n->n,
        .n_token = n->o.n_token,
        .n_head = d->n_head,
        .n_kv_head = d->n_kv_head,
        .head_dim = d->head_dim,
        .eps = d->norm_eps,
    };
}

/* From h_1 and x to the next layer's, or to the last norm's. */
static ts_status layer_forward(const ts_net *n, int64_t l)
{
    const ts_net_cuda            *c = n->cuda;
    const ts_cuda_layer          *y = &c->layer[l];
    const bool                    last = l + 1 == n->o.dims.n_layer;
    const matrix                  qkv = qkv_of(n, l), o = o_of(n, l);
    const matrix                  gate_up = gate_up_of(n, l), down = down_of(n, l);
    const ts_cuda_heads           h = heads_of(n, l);
    const ts_flash_attention_args a = forward_args(n, y);
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    forward(c, &qkv, y->h_1, y->rows, n->n);
    ts_cuda_part_is(n, TS_PART_HEADS);
    c->ops->heads(c->self, &h);
    ts_cuda_part_is(n, TS_PART_ATTENTION);
    ts_status s = ts_flash_attention(&a, &c->exec);
    if (s) return s;
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    forward(c, &o, y->out, c->t, n->n);
    norm(n, y->x, c->t, y->middle, y->h_2, gain(n, l, TS_W_NORM_2));
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    forward(c, &gate_up, y->h_2, y->gate_up, n->n);
    s = activate(n, y);
    if (s) return s;
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    forward(c, &down, y->act, c->t, n->n);
    if (last) norm(n, y->middle, c->t, c->x, c->h, gain(n, 0, TS_W_NORM));
    else norm(n, y->middle, c->t, y[1].x, y[1].h_1, gain(n, l + 1, TS_W_NORM_1));
    return TS_OK;
}

/* dx from after the layer to before it. */
static ts_status layer_backward(const ts_net *n, int64_t l, way how)
{
    const ts_net_cuda    *c = n->cuda;
    const ts_cuda_layer  *y = &c->layer[l];
    const matrix          qkv = qkv_of(n, l), o = o_of(n, l);
    const matrix          gate_up = gate_up_of(n, l), down = down_of(n, l);
    const int64_t         from_last = n->o.dims.n_layer - 1 - l;
    const int             turn = (int)(l % TS_CUDA_BESIDES);
    const ts_cuda_beside *b = &c->beside[turn];
    void                 *next = c->beside[(l + TS_CUDA_BESIDES - 1) % TS_CUDA_BESIDES].d_down;
    ts_cuda_heads         h = heads_of(n, l);
    const ts_flash_attention_backward_args a = backward_args(n, y);
    h.q = c->dq;
    h.k = c->dk;
    h.v = c->dv;
    h.d_rows = b->d_rows;
    h.q_sums = sums(n, l, TS_W_Q_NORM);
    h.k_sums = sums(n, l, TS_W_K_NORM);
    h.n_sums = n->n_count - n->n_matrix;
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    backward(c, &down, y->act, b->d_down, c->d_act, n->n, how);
    ts_status s = activate_back(n, y, b->d_gate_up);
    if (s) return s;
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    backward(c, &gate_up, y->h_2, b->d_gate_up, c->dh, n->n, how);
    norm_back(n, l, TS_W_NORM_2, y->middle, true, b->d_o);
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    backward(c, &o, y->out, b->d_o, c->dout, n->n, how);
    ts_cuda_part_is(n, TS_PART_ATTENTION);
    s = ts_flash_attention_backward(&a, &c->exec);
    if (s) return s;
    ts_cuda_part_is(n, TS_PART_HEADS);
    c->ops->heads_back(c->self, &h);
    ts_cuda_part_is(n, TS_PART_PRODUCT);
    backward(c, &qkv, y->h_1, b->d_rows, c->dh, n->n, how);
    if (how.aside) c->ops->leave(c->self, turn);
    if (how.aside && from_last) c->ops->meet(c->self, (turn + 1) % TS_CUDA_BESIDES);
    norm_back(n, l, TS_W_NORM_1, y->x, true, next);
    return TS_OK;
}

/* ---- the head ---- */

static void *row_of(const ts_net_cuda *c, void *p, int64_t row, int64_t width)
{
    return (char *)p + (size_t)(row * width) * c->size;
}

static void head(const ts_net *n, bool back, way how)
{
    const ts_net_cuda *c = n->cuda;
    const int64_t      width = n->o.dims.width;
    const matrix       w = head_of(n);
    for (int64_t i = 0; i < n->n; i += c->n_head_row) {
        const int64_t         rows = n->n - i < c->n_head_row ? n->n - i : c->n_head_row;
        void                 *h = row_of(c, c->h, i, width);
        const ts_cuda_entropy e = {
            .type = c->type,
            .logits = c->logits,
            .target = c->in.target + i,
            .n = rows,
            .n_vocab = n->o.dims.n_vocab,
            .n_row = c->n_logit,
            .weight = back ? c->in.weight : NULL,
            .nll = c->nll + i,
            .right = c->right + i,
        };
        ts_cuda_part_is(n, TS_PART_HEAD);
        forward(c, &w, h, c->logits, rows);
        ts_cuda_part_is(n, TS_PART_ENTROPY);
        c->ops->entropy(c->self, &e);
        ts_cuda_part_is(n, TS_PART_HEAD);
        if (back)
            backward(c, &w, h, c->logits, row_of(c, c->dh, i, width), rows,
                     (way) { .add = how.add || i });
    }
    ts_cuda_part_is(n, TS_PART_ENTROPY);
    c->ops->score(c->self, c->nll, c->right, c->in.target, n->n, c->score);
    if (back)
        norm_back(n, 0, TS_W_NORM, c->x, false,
                  c->beside[(n->o.dims.n_layer - 1) % TS_CUDA_BESIDES].d_down);
}

/* ---- the pass ---- */

ts_status ts_cuda_enqueue(const ts_net *n, ts_cuda_kind k, bool aside)
{
    const ts_net_cuda   *c = n->cuda;
    const int64_t        n_layer = n->o.dims.n_layer;
    const bool           back = k != TS_PASS_EVAL;
    const way            how = { k == TS_PASS_AGAIN, aside };
    const ts_cuda_layer *y = &c->layer[0];
    ts_cuda_part_is(n, TS_PART_EMBED);
    c->ops->clear(c->self, c->score, offsetof(ts_cuda_score, n_bad));
    ts_status s = embed(n);
    if (s) return s;
    norm(n, y->x, NULL, NULL, y->h_1, gain(n, 0, TS_W_NORM_1));
    for (int64_t l = 0; !s && l < n_layer; l++) s = layer_forward(n, l);
    if (s) return s;
    head(n, back, how);
    for (int64_t l = n_layer - 1; back && !s && l >= 0; l--) s = layer_backward(n, l, how);
    if (s || !back) return s;
    if (aside) c->ops->meet(c->self, 0); /* layer 0 was the last to leave */
    ts_cuda_part_is(n, TS_PART_EMBED);   /* its other use */
    const ts_embedding_backward_args a = embed_back_args(n);
    s = ts_embedding_backward(&a, &c->exec);
    if (s) return s;
    ts_cuda_part_is(n, TS_PART_NORM);
    c->ops->sum(c->self, c->gradient + n->n_matrix, c->sums, n->n_count - n->n_matrix, how.add);
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* net_cuda_linear.c - products with the weights of a net on a CUDA device. */
#include "net_cuda.h"

static ts_cuda_matrix matrix_of(const ts_net *n, int64_t layer, ts_slot s, int64_t n_out,
                                int64_t n_in)
{
    return (ts_cuda_matrix) { ts_cuda_at(n, layer, s), n_out, n_in, n_out };
}

static const void *serving(const ts_net_cuda *c, const ts_cuda_matrix *w)
{
    return (const char *)c->serving + (size_t)w->at * c->size;
}

void ts_cuda_forward(const ts_net_cuda *c, const ts_cuda_matrix *w, const void *in, void *y,
                     ts_dtype out, int64_t n_rows)
{
    const ts_cuda_product p = {
        .in = c->type,
        .out = out,
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

void ts_cuda_backward(const ts_net_cuda *c, const ts_cuda_matrix *w, const void *in, const void *dy,
                      void *dx, ts_dtype out, bool add, int64_t n_rows, ts_cuda_way how)
{
    const ts_cuda_product to_x = {
        .in = c->type,
        .out = out,
        .a = dy,
        .b = serving(c, w),
        .c = dx,
        .m = n_rows,
        .n = w->n_in,
        .k = w->n_out,
        .n_a = w->n_y,
        .n_b = w->n_in,
        .n_c = w->n_in,
        .add = add,
        .scale = how.scale,
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
        .scale = how.scale,
        .aside = how.aside,
    };
    if (how.aside) c->ops->fork(c->self); /* dy is there, dx need not be */
    c->ops->product(c->self, &to_x);
    c->ops->product(c->self, &to_w);
}

ts_cuda_matrix ts_cuda_q_of(const ts_net *n, int64_t l)
{
    return matrix_of(n, l, TS_W_Q, n->o.dims.n_head * n->o.dims.head_dim, n->o.dims.width);
}

ts_cuda_matrix ts_cuda_kv_of(const ts_net *n, int64_t l, ts_slot s)
{
    return matrix_of(n, l, s, n->o.dims.n_kv_head * n->o.dims.head_dim, n->o.dims.width);
}

ts_cuda_matrix ts_cuda_o_of(const ts_net *n, int64_t l)
{
    return matrix_of(n, l, TS_W_O, n->o.dims.width, n->o.dims.n_head * n->o.dims.head_dim);
}

/* One matmul: the two matrices are adjacent in memory. */
ts_cuda_matrix ts_cuda_gate_up_of(const ts_net *n, int64_t l)
{
    return matrix_of(n, l, TS_W_GATE, 2 * n->o.dims.n_ffn, n->o.dims.width);
}

ts_cuda_matrix ts_cuda_down_of(const ts_net *n, int64_t l)
{
    return matrix_of(n, l, TS_W_DOWN, n->o.dims.width, n->o.dims.n_ffn);
}

ts_cuda_matrix ts_cuda_head_of(const ts_net *n)
{
    ts_cuda_matrix w = matrix_of(n, 0, TS_W_EMBED, n->o.dims.n_vocab, n->o.dims.width);
    w.n_y = n->cuda->n_logit;
    return w;
}

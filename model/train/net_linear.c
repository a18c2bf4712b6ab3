/* SPDX-License-Identifier: Apache-2.0 */
/* net_linear.c - products with weights: by CBLAS, or ternary by the kernels; and rows of the
 * embedding.
 *
 * The kernels' latents and their gradients are float, whatever the net computes in. Paired groups
 * are not the kernels' own: CBLAS multiplies by what they unpack to. */
#include <stdlib.h>
#include <string.h>

#include "touchstone/embedding.h"
#include "touchstone/ternary.h"
#include "train_impl.h"

static ts_ternary_linear_dims dims(const ts_net *n, ts_shape s, int64_t n_rows)
{
    return (ts_ternary_linear_dims) { n->o.dtype, s.rows, s.cols, n_rows };
}

/* Latents as the kernels take them. */
static const float *latents(const ts_net *n, const void *w, int64_t count)
{
    if (n->size == sizeof(float)) return w;
    n->back->to_float(n->latent, w, count);
    return n->latent;
}

static ts_status pack(const ts_net *n, const ts_ternary_pack_args *a)
{
    return n->o.paired ? ts_pack_pairs(a, n->exec.n_threads) : ts_ternary_pack(a, &n->exec);
}

/* The operand of CBLAS: weights or, for a net with paired groups, effective weights. */
static ts_status served(const ts_net *n, ts_shape s, const void **w)
{
    if (!n->o.paired) return TS_OK;
    const int64_t                count = ts_shape_count(s);
    const ts_ternary_pack_args   p = { dims(n, s, 0), latents(n, *w, count), n->code, n->scale };
    const ts_ternary_unpack_args u = { p.d, n->code, n->scale, n->dlatent };
    ts_status                    status = pack(n, &p);
    if (!status) status = ts_ternary_unpack(&u, &n->exec);
    if (status) return status;
    *w = n->dlatent;
    if (n->size == sizeof(float)) return TS_OK;
    n->back->of_float(n->served, n->dlatent, count);
    *w = n->served;
    return TS_OK;
}

ts_status ts_net_linear(const ts_net *n, int64_t layer, ts_slot s, const void *in, void *y,
                        int64_t n_rows)
{
    const ts_shape shape = ts_slot_shape(&n->o.dims, s);
    const void    *w = ts_net_at(n, n->weight, layer, s);
    if (n->o.ternary && !n->o.paired) {
        const ts_ternary_linear_args a = { dims(n, shape, n_rows),
                                           latents(n, w, ts_shape_count(shape)), in, y };
        return ts_ternary_linear(&a, &n->exec);
    }
    const ts_status status = served(n, shape, &w);
    if (status) return status;
    n->back->product(&(ts_product) { .a = in,
                                     .b = w,
                                     .c = y,
                                     .m = n_rows,
                                     .n = shape.rows,
                                     .k = shape.cols,
                                     .turn_b = true,
                                     .n_threads = n->exec.n_threads });
    return TS_OK;
}

static ts_status ternary_back(const ts_net *n, ts_shape shape, const void *w, void *dw,
                              const void *in, const void *dy, void *dx, int64_t n_rows, bool add)
{
    const int64_t                         count = ts_shape_count(shape);
    const ts_ternary_linear_backward_args a = {
        dims(n, shape, n_rows), latents(n, w, count), in, dy, add ? n->t : dx, n->dlatent
    };
    const ts_status status = ts_ternary_linear_backward(&a, &n->exec);
    if (status) return status;
    if (add) ts_layers_add(&n->layers, dx, n->t, n_rows * shape.cols);
    n->back->add_float(dw, n->dlatent, count, n->exec.n_threads);
    return TS_OK;
}

ts_status ts_net_linear_back(const ts_net *n, int64_t layer, ts_slot s, const void *in,
                             const void *dy, void *dx, int64_t n_rows, bool add)
{
    const ts_shape shape = ts_slot_shape(&n->o.dims, s);
    const void    *w = ts_net_at(n, n->weight, layer, s);
    void          *dw = ts_net_at(n, n->gradient, layer, s);
    if (n->o.ternary && !n->o.paired) return ternary_back(n, shape, w, dw, in, dy, dx, n_rows, add);
    const ts_status status = served(n, shape, &w);
    if (status) return status;
    n->back->product(&(ts_product) { .a = dy,
                                     .b = w,
                                     .c = dx,
                                     .m = n_rows,
                                     .n = shape.cols,
                                     .k = shape.rows,
                                     .add = add,
                                     .n_threads = n->exec.n_threads });
    n->back->product(&(ts_product) { .a = dy,
                                     .b = in,
                                     .c = dw,
                                     .m = shape.rows,
                                     .n = shape.cols,
                                     .k = n_rows,
                                     .turn_a = true,
                                     .add = true,
                                     .n_threads = n->exec.n_threads });
    return TS_OK;
}

/* ---- the embedding ---- */

static ts_ternary_linear_dims embed_dims(const ts_net *n)
{
    return dims(n, (ts_shape) { n->n, n->o.dims.width }, 0);
}

/* Groups lie along the width, so rows can be projected after they are gathered. */
ts_status ts_net_embed(const ts_net *n, void *y)
{
    const int64_t                   width = n->o.dims.width, count = n->n * width;
    const ts_embedding_forward_args a = {
        .dtype = n->o.dtype,
        .y_dtype = n->o.dtype,
        .n_rows = n->n,
        .n_cols = width,
        .n_vocab = n->o.dims.n_vocab,
        .table_stride = width,
        .y_stride = width,
        .scale = 1,
        .table = ts_net_at(n, n->weight, 0, TS_W_EMBED),
        .token = n->token,
        .y = n->o.ternary ? n->t : y,
    };
    ts_status status = ts_embedding_forward(&a, &n->exec);
    if (status || !n->o.ternary) return status;
    const bool                   wide = n->o.dtype != TS_F32;
    const ts_ternary_pack_args   p = { embed_dims(n), latents(n, n->t, count), n->code, n->scale };
    const ts_ternary_unpack_args u = { p.d, n->code, n->scale, wide ? n->latent : y };
    status = pack(n, &p);
    if (!status) status = ts_ternary_unpack(&u, &n->exec);
    if (!status && wide) n->back->of_float(y, n->latent, count);
    return status;
}

static ts_embedding_backward_args embed_back_args(const ts_net *n)
{
    const int64_t width = n->o.dims.width;
    return (ts_embedding_backward_args) {
        .dtype = n->o.dtype,
        .accumulate = 1,
        .n_rows = n->n,
        .n_cols = width,
        .n_vocab = n->o.dims.n_vocab,
        .table_stride = width,
        .dy_stride = width,
        .scale = 1,
        .token = n->token,
        .dy = n->layers.dx,
        .dtable = ts_net_at(n, n->gradient, 0, TS_W_EMBED),
    };
}

ts_status ts_net_embed_back(const ts_net *n)
{
    const ts_embedding_backward_args a = embed_back_args(n);
    return ts_embedding_backward(&a, &n->exec);
}

/* ---- what it takes ---- */

/* By its address: `asked` is written while the other argument is evaluated. */
static ts_status more(ts_status s, const size_t *asked, size_t *most)
{
    if (!s && *asked > *most) *most = *asked;
    return s;
}

static ts_status matrix_workspace(const ts_net *n, const ts_param *p, int64_t n_rows, size_t *most)
{
    const float                          *w = n->dlatent; /* to have something to point at */
    const ts_ternary_pack_args            k = { dims(n, p->shape, 0), w, n->code, n->scale };
    const ts_ternary_linear_args          f = { dims(n, p->shape, n_rows), w, n->x, n->t };
    const ts_ternary_linear_backward_args b = { f.d, w, n->x, n->x, n->t, n->dlatent };
    size_t                                bytes = 0;
    ts_status s = more(ts_ternary_pack_workspace(&k, &n->exec, &bytes), &bytes, most);
    if (!s) s = more(ts_ternary_linear_workspace(&f, &n->exec, &bytes), &bytes, most);
    if (s) return s;
    return more(ts_ternary_linear_backward_workspace(&b, &n->exec, &bytes), &bytes, most);
}

ts_status ts_net_pack_workspace(const ts_net *n, size_t *n_bytes)
{
    ts_status s = TS_OK;
    *n_bytes = 0;
    for (int64_t i = 0; !s && i < n->n_param && n->param[i].shape.cols; i++) {
        void *const                  any = n->gradient; /* to have something to point at */
        const ts_ternary_pack_args   p = { dims(n, n->param[i].shape, 0), any, any, any };
        const ts_ternary_unpack_args u = { p.d, any, any, any };
        size_t                       bytes = 0;
        s = more(ts_ternary_pack_workspace(&p, &n->exec, &bytes), &bytes, n_bytes);
        if (!s) s = more(ts_ternary_unpack_workspace(&u, &n->exec, &bytes), &bytes, n_bytes);
    }
    return s;
}

ts_status ts_net_linear_workspace(const ts_net *n, size_t *n_bytes)
{
    const ts_ternary_pack_args       p = { embed_dims(n), n->dlatent, n->code, n->scale };
    const ts_ternary_unpack_args     u = { p.d, n->code, n->scale, n->dlatent };
    const ts_embedding_backward_args e = embed_back_args(n);
    size_t                           bytes = 0;
    *n_bytes = 0;
    ts_status s = more(ts_embedding_backward_workspace(&e, &n->exec, &bytes), &bytes, n_bytes);
    if (s || !n->o.ternary) return s;
    s = more(ts_ternary_pack_workspace(&p, &n->exec, &bytes), &bytes, n_bytes);
    if (!s) s = more(ts_ternary_unpack_workspace(&u, &n->exec, &bytes), &bytes, n_bytes);
    for (int64_t i = 0; !s && i < n->n_param && n->param[i].shape.cols; i++) {
        const bool head = n->param[i].slot == TS_W_EMBED;
        s = matrix_workspace(n, &n->param[i], head ? n->n_head_row : n->n, n_bytes);
        if (!s && head && n->n % n->n_head_row)
            s = matrix_workspace(n, &n->param[i], n->n % n->n_head_row, n_bytes);
    }
    return s;
}

/* ---- the effective weights ---- */

void ts_packed_free(ts_packed *k)
{
    free(k->code);
    free(k->scale);
    *k = (ts_packed) { 0 };
}

ts_status ts_net_pack(const ts_net *n, const ts_param *p, ts_packed *k)
{
    const int64_t groups = (p->shape.cols + TS_TERNARY_GROUP - 1) / TS_TERNARY_GROUP;
    const void   *w = (const char *)n->weight + (size_t)p->at * n->size;
    *k = (ts_packed) { .n_code = groups * TS_TERNARY_GROUP_BYTES, .n_scale = groups };
    k->code = malloc((size_t)(p->shape.rows * k->n_code));
    k->scale = malloc((size_t)(p->shape.rows * groups) * sizeof *k->scale);
    const ts_ternary_pack_args a = { dims(n, p->shape, 0), latents(n, w, ts_shape_count(p->shape)),
                                     k->code, k->scale };
    const ts_status            s = k->code && k->scale ? pack(n, &a) : TS_E_CAPACITY;
    if (s) ts_packed_free(k);
    return s;
}

static ts_status unpack(const ts_net *n, const ts_param *p, float *w)
{
    ts_packed k;
    ts_status s = ts_net_pack(n, p, &k);
    if (s) return s;
    s = ts_ternary_unpack(&(ts_ternary_unpack_args) { dims(n, p->shape, 0), k.code, k.scale, w },
                          &n->exec);
    ts_packed_free(&k);
    return s;
}

ts_status ts_net_effective(ts_net *n, float *weights)
{
    const ts_status pulled = ts_net_pull(n, TS_NET_WEIGHTS);
    if (pulled) return pulled;
    n->back->to_float(weights, n->weight, n->n_count);
    for (int64_t i = 0; n->o.ternary && i < n->n_param && n->param[i].shape.cols; i++) {
        const ts_status s = unpack(n, &n->param[i], weights + n->param[i].at);
        if (s) return s;
    }
    return TS_OK;
}

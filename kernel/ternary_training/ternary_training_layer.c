/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_layer.c - one layer of a decoder, forward and back. */
#include "ternary_training_layer.h"

#include <math.h>

#include "dtype.h"
#include "scratch.h"
#include "touchstone/rms_norm.h"
#include "touchstone/rope.h"
#include "touchstone/swiglu.h"

enum { SMALL = 1 << 16 }; /* elements: fewer are not worth a second thread */

/* ---- memory ---- */

void ts_layer_cut(const ts_layers *p, ts_layer *y, char *base, size_t *used)
{
    const int64_t n_q = p->n * p->n_head, n_k = p->n * p->n_kv_head;
    const struct {
        void  **slot;
        int64_t n;
    } part[] = { { &y->x, p->n * p->width },
                 { &y->middle, p->n * p->width },
                 { &y->q_raw, n_q * p->head_dim },
                 { &y->k_raw, n_k * p->head_dim },
                 { &y->q, n_q * p->head_dim },
                 { &y->k, n_k * p->head_dim },
                 { &y->v, n_k * p->head_dim },
                 { &y->out, n_q * p->head_dim },
                 { &y->lse, n_q },
                 { &y->gate, p->n * p->ffn },
                 { &y->up, p->n * p->ffn },
                 { &y->rstd_1, p->n },
                 { &y->rstd_2, p->n },
                 { &y->rstd_q, n_q },
                 { &y->rstd_k, n_k } };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        *part[i].slot = ts_cut(base, used, part[i].n, ts_format_of(p->dtype)->n_bytes);
}

void ts_layers_cut(ts_layers *p, char *base, size_t *used)
{
    const int64_t wide = p->n * p->width, ffn = p->n * p->ffn;
    const int64_t q = p->n * p->n_head * p->head_dim, kv = p->n * p->n_kv_head * p->head_dim;
    const struct {
        void  **slot;
        int64_t n;
    } part[] = { { &p->h, wide },  { &p->dh, wide },   { &p->dx, wide }, { &p->dx_before, wide },
                 { &p->dq, q },    { &p->dk, kv },     { &p->dv, kv },   { &p->dout, q },
                 { &p->act, ffn }, { &p->dgate, ffn }, { &p->dup, ffn } };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        *part[i].slot = ts_cut(base, used, part[i].n, ts_format_of(p->dtype)->n_bytes);
    p->frequency = ts_cut(base, used, p->head_dim / 2, sizeof *p->frequency);
    p->position = ts_cut(base, used, p->n, sizeof *p->position);
}

/* ---- residual sums, norms and rotation ---- */

void ts_layers_add(const ts_layers *p, void *y, const void *x, int64_t n)
{
    if (p->dtype == TS_F64) {
#pragma omp parallel for num_threads(n < SMALL ? 1 : p->x->n_threads) schedule(static)
        for (int64_t i = 0; i < n; i++) ((double *)y)[i] += ((const double *)x)[i];
    } else {
#pragma omp parallel for num_threads(n < SMALL ? 1 : p->x->n_threads) schedule(static)
        for (int64_t i = 0; i < n; i++) ((float *)y)[i] += ((const float *)x)[i];
    }
}

static ts_rms_norm_forward_args norm_args(const ts_layers *p, const void *gain, const void *x,
                                          void *y, void *rstd, int64_t n, int64_t width)
{
    return (ts_rms_norm_forward_args) {
        .dtype = p->dtype,
        .n_rows = n,
        .n_cols = width,
        .row_stride = width,
        .eps = p->norm_eps,
        .x = x,
        .w = gain,
        .y = y,
        .rstd = rstd,
    };
}

static ts_status rms(const ts_layers *p, int64_t layer, ts_ternary_gain g, const void *x, void *y,
                     void *rstd, int64_t n, int64_t width)
{
    void                          *unused;
    const void *const              gain = p->gain(p->self, layer, g, &unused);
    const ts_rms_norm_forward_args a = norm_args(p, gain, x, y, rstd, n, width);
    return ts_rms_norm_forward(&a, p->x);
}

/* dr: a gradient that is added, or NULL. */
static ts_rms_norm_backward_args norm_back_args(const ts_layers *p, const void *gain, const void *x,
                                                const void *rstd, const void *dy, const void *dr,
                                                void *dx, void *dgain, int64_t n, int64_t width)
{
    return (ts_rms_norm_backward_args) {
        .dtype = p->dtype,
        .accumulate = p->add,
        .n_rows = n,
        .n_cols = width,
        .row_stride = width,
        .r = x,
        .dy = dy,
        .dr = dr,
        .w = gain,
        .rstd = rstd,
        .dx = dx,
        .dw = dgain,
    };
}

static ts_status rms_back(const ts_layers *p, int64_t layer, ts_ternary_gain g, const void *x,
                          const void *rstd, const void *dy, const void *dr, void *dx, int64_t n,
                          int64_t width)
{
    void                           *dgain;
    const void *const               gain = p->gain(p->self, layer, g, &dgain);
    const ts_rms_norm_backward_args a =
        norm_back_args(p, gain, x, rstd, dy, dr, dx, dgain, n, width);
    return ts_rms_norm_backward(&a, p->x);
}

/* A norm before which the residual stream forks: what came the other way is added. */
static ts_status rms_back_residual(ts_layers *p, int64_t layer, ts_ternary_gain g, const void *x,
                                   const void *rstd)
{
    void *const     after = p->dx;
    const ts_status s = rms_back(p, layer, g, x, rstd, p->dh, p->dx, p->dx_before, p->n, p->width);
    p->dx = p->dx_before;
    p->dx_before = after;
    return s;
}

ts_status ts_layers_last(const ts_layers *p, const void *x, void *rstd)
{
    return rms(p, 0, TS_TERNARY_NORM_LAST, x, p->h, rstd, p->n, p->width);
}

ts_status ts_layers_last_back(const ts_layers *p, const void *x, const void *rstd)
{
    return rms_back(p, 0, TS_TERNARY_NORM_LAST, x, rstd, p->dh, NULL, p->dx, p->n, p->width);
}

/* back: by the opposite angle. */
static ts_status rotate(const ts_layers *p, void *x, int64_t n_head, bool back)
{
    const int64_t      dim = p->head_dim;
    const ts_rope_args a = {
        .dtype = p->dtype,
        .pairing = TS_ROPE_HALVES,
        .inverse = back,
        .n_rows = p->n,
        .n_heads = n_head,
        .head_dim = dim,
        .rotary_dim = dim,
        .x_stride = n_head * dim,
        .y_stride = n_head * dim,
        .frequency = p->frequency,
        .position = p->position,
        .x = x,
        .y = x,
    };
    return ts_rope(&a, p->x);
}

/* ---- attention ---- */

ts_attention_dims ts_layers_attention(const ts_layers *p)
{
    return (ts_attention_dims) {
        .dtype = p->dtype,
        .layout = TS_BNHD,
        .causal = 1,
        .n_batch = p->n_batch,
        .n_q = p->n_pos,
        .n_k = p->n_pos,
        .n_q_head = p->n_head,
        .n_kv_head = p->n_kv_head,
        .head_dim = p->head_dim,
        .scale = 1 / sqrt((double)p->head_dim),
    };
}

static ts_status attend(const ts_layers *p, int64_t l, const ts_layer *y)
{
    const int64_t dim = p->head_dim, n_q = p->n * p->n_head, n_k = p->n * p->n_kv_head;
    const ts_flash_attention_args a = {
        ts_layers_attention(p), y->q, y->k, y->v, NULL, y->out, y->lse
    };
    ts_status s = rms(p, l, TS_TERNARY_NORM_1, y->x, p->h, y->rstd_1, p->n, p->width);
    if (!s) s = p->linear(p->self, l, TS_TERNARY_Q, p->h, y->q_raw);
    if (!s) s = p->linear(p->self, l, TS_TERNARY_K, p->h, y->k_raw);
    if (!s) s = p->linear(p->self, l, TS_TERNARY_V, p->h, y->v);
    if (!s) s = rms(p, l, TS_TERNARY_NORM_Q, y->q_raw, y->q, y->rstd_q, n_q, dim);
    if (!s) s = rms(p, l, TS_TERNARY_NORM_K, y->k_raw, y->k, y->rstd_k, n_k, dim);
    if (!s) s = rotate(p, y->q, p->n_head, false);
    if (!s) s = rotate(p, y->k, p->n_kv_head, false);
    if (!s) s = ts_flash_attention(&a, p->x);
    if (!s) s = p->linear(p->self, l, TS_TERNARY_O, y->out, y->middle);
    if (!s) ts_layers_add(p, y->middle, y->x, p->n * p->width);
    return s;
}

/* dx is the gradient after attention, and then the one before it. Of the gradients of heads, those
 * before a norm take the place of some that are not needed any more. */
static ts_status attend_back(ts_layers *p, int64_t l, const ts_layer *y)
{
    const int64_t dim = p->head_dim, n_q = p->n * p->n_head, n_k = p->n * p->n_kv_head;
    void *const dq_raw = p->dout, *const dk_raw = p->dq;
    const ts_flash_attention_backward_args a = {
        ts_layers_attention(p), y->q, y->k, y->v, y->out, p->dout, y->lse, NULL, p->dq, p->dk, p->dv
    };
    ts_status s = p->linear_back(p->self, l, TS_TERNARY_O, y->out, p->dx, p->dout, false);
    if (!s) s = ts_flash_attention_backward(&a, p->x);
    if (!s) s = rotate(p, p->dq, p->n_head, true);
    if (!s) s = rotate(p, p->dk, p->n_kv_head, true);
    if (!s)
        s = rms_back(p, l, TS_TERNARY_NORM_Q, y->q_raw, y->rstd_q, p->dq, NULL, dq_raw, n_q, dim);
    if (!s)
        s = rms_back(p, l, TS_TERNARY_NORM_K, y->k_raw, y->rstd_k, p->dk, NULL, dk_raw, n_k, dim);
    if (!s) s = rms(p, l, TS_TERNARY_NORM_1, y->x, p->h, y->rstd_1, p->n, p->width);
    if (!s) s = p->linear_back(p->self, l, TS_TERNARY_Q, p->h, dq_raw, p->dh, false);
    if (!s) s = p->linear_back(p->self, l, TS_TERNARY_K, p->h, dk_raw, p->dh, true);
    if (!s) s = p->linear_back(p->self, l, TS_TERNARY_V, p->h, p->dv, p->dh, true);
    return s ? s : rms_back_residual(p, l, TS_TERNARY_NORM_1, y->x, y->rstd_1);
}

/* ---- feed-forward ---- */

static ts_status activate(const ts_layers *p, const ts_layer *y)
{
    const ts_swiglu_forward_args a = { p->dtype, p->n,    p->ffn, p->ffn,
                                       p->ffn,   y->gate, y->up,  p->act };
    return ts_swiglu_forward(&a, p->x);
}

static ts_status feed(const ts_layers *p, int64_t l, const ts_layer *y, void *out)
{
    ts_status s = rms(p, l, TS_TERNARY_NORM_2, y->middle, p->h, y->rstd_2, p->n, p->width);
    if (!s) s = p->linear(p->self, l, TS_TERNARY_GATE, p->h, y->gate);
    if (!s) s = p->linear(p->self, l, TS_TERNARY_UP, p->h, y->up);
    if (!s) s = activate(p, y);
    if (!s) s = p->linear(p->self, l, TS_TERNARY_DOWN, p->act, out);
    if (!s) ts_layers_add(p, out, y->middle, p->n * p->width);
    return s;
}

static ts_status feed_back(ts_layers *p, int64_t l, const ts_layer *y)
{
    const ts_swiglu_backward_args a = { p->dtype, p->n,  p->ffn, p->ffn,   p->ffn,
                                        y->gate,  y->up, p->dup, p->dgate, p->dup };
    ts_status                     s = activate(p, y);
    if (!s) s = p->linear_back(p->self, l, TS_TERNARY_DOWN, p->act, p->dx, p->dup, false);
    if (!s) s = ts_swiglu_backward(&a, p->x);
    if (!s) s = rms(p, l, TS_TERNARY_NORM_2, y->middle, p->h, y->rstd_2, p->n, p->width);
    if (!s) s = p->linear_back(p->self, l, TS_TERNARY_GATE, p->h, p->dgate, p->dh, false);
    if (!s) s = p->linear_back(p->self, l, TS_TERNARY_UP, p->h, p->dup, p->dh, true);
    return s ? s : rms_back_residual(p, l, TS_TERNARY_NORM_2, y->middle, y->rstd_2);
}

/* ---- both ---- */

ts_status ts_layer_forward(const ts_layers *p, int64_t layer, const ts_layer *y, void *out)
{
    const ts_status s = attend(p, layer, y);
    return s ? s : feed(p, layer, y, out);
}

ts_status ts_layer_backward(ts_layers *p, int64_t layer, const ts_layer *y)
{
    const ts_status s = feed_back(p, layer, y);
    return s ? s : attend_back(p, layer, y);
}

/* ---- what it takes ---- */

/* By its address: `asked` is written while the other argument is evaluated. */
static ts_status more(ts_status s, const size_t *asked, size_t *most)
{
    if (!s && *asked > *most) *most = *asked;
    return s;
}

ts_status ts_layers_attention_bytes(const ts_layers *p, size_t *most)
{
    static double                          any; /* to point at: a query looks at shapes alone */
    const ts_attention_dims                d = ts_layers_attention(p);
    const ts_flash_attention_args          f = { d, &any, &any, &any, NULL, &any, &any };
    const ts_flash_attention_backward_args b = { d,    &any, &any, &any, &any, &any,
                                                 &any, NULL, &any, &any, &any };
    size_t                                 bytes = 0;
    ts_status s = more(ts_flash_attention_workspace(&f, p->x, &bytes), &bytes, most);
    return s ? s : more(ts_flash_attention_backward_workspace(&b, p->x, &bytes), &bytes, most);
}

ts_status ts_layers_norm_bytes(const ts_layers *p, int64_t n, int64_t width, size_t *most)
{
    static double                   any;
    const ts_rms_norm_forward_args  f = norm_args(p, &any, &any, &any, &any, n, width);
    const ts_rms_norm_backward_args b =
        norm_back_args(p, &any, &any, &any, &any, NULL, &any, &any, n, width);
    size_t    bytes = 0;
    ts_status s = more(ts_rms_norm_forward_workspace(&f, p->x, &bytes), &bytes, most);
    return s ? s : more(ts_rms_norm_backward_workspace(&b, p->x, &bytes), &bytes, most);
}

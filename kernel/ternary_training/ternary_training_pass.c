/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_pass.c - a batch forward through the model, and back.
 *
 * What is cheap to make again is not kept: norms and activations. Every matrix but E is used once,
 * so its gradient is written where it belongs; E's is the head's, and then the rows that went in
 * are added. */
#include <math.h>

#include "norm.h"
#include "ternary_training_impl.h"
#include "touchstone/cross_entropy.h"
#include "touchstone/embedding.h"

enum {
    SOME_ROWS = 1024, /* whose tokens a kernel gets at once: queries of the workspace read tokens
                         before any are known, and there are so many to show them */
    SMALL = 1 << 16,  /* elements: fewer are not worth a second thread */
};

static const int32_t no_token[SOME_ROWS];

static void add_to(float *y, const float *x, int64_t n, int n_threads)
{
#pragma omp parallel for num_threads(n < SMALL ? 1 : n_threads) schedule(static)
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

/* ---- memory ---- */

static size_t lay_layer(const ts_ternary_pass *p, ts_ternary_layer *y, char *base)
{
    const ts_ternary_dims *d = &p->d;
    const int64_t q = p->n * d->n_head * d->head_dim, kv = p->n * d->n_kv_head * d->head_dim;
    const struct {
        float **slot;
        int64_t n;
    } part[] = { { &y->x, p->n * d->width },
                 { &y->middle, p->n * d->width },
                 { &y->q_raw, q },
                 { &y->k_raw, kv },
                 { &y->q, q },
                 { &y->k, kv },
                 { &y->v, kv },
                 { &y->out, q },
                 { &y->lse, p->n * d->n_head },
                 { &y->gate, p->n * d->ffn },
                 { &y->up, p->n * d->ffn },
                 { &y->rstd_1, p->n },
                 { &y->rstd_2, p->n },
                 { &y->rstd_q, p->n * d->n_head },
                 { &y->rstd_k, p->n * d->n_kv_head } };
    size_t used = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        *part[i].slot = ts_cut(base, &used, part[i].n, sizeof(float));
    return used;
}

ts_ternary_layer ts_ternary_layer_of(const ts_ternary_pass *p, int64_t layer)
{
    ts_ternary_layer y;
    lay_layer(p, &y, p->layers + (size_t)layer * p->layer_bytes);
    return y;
}

size_t ts_ternary_lay(ts_ternary_pass *p, char *base)
{
    const ts_ternary_dims *d = &p->d;
    const int64_t q = p->n * d->n_head * d->head_dim, kv = p->n * d->n_kv_head * d->head_dim;
    const int64_t wide = p->n * d->width, ffn = p->n * d->ffn;
    const int64_t groups = (d->width + TS_TERNARY_GROUP - 1) / TS_TERNARY_GROUP;
    const struct {
        float **slot;
        int64_t n;
    } part[] = { { &p->gradient, ts_ternary_latents(d) + ts_ternary_norms(d) },
                 { &p->last, wide },
                 { &p->h, wide },
                 { &p->t, p->n * (d->width > d->ffn ? d->width : d->ffn) },
                 { &p->dx, wide },
                 { &p->dx_before, wide },
                 { &p->dh, wide },
                 { &p->dq, q },
                 { &p->dk, kv },
                 { &p->dv, kv },
                 { &p->dout, q },
                 { &p->act, ffn },
                 { &p->dgate, ffn },
                 { &p->dup, ffn },
                 { &p->rstd_last, p->n },
                 { &p->logits, p->n * d->n_vocab },
                 { &p->loss, SOME_ROWS + 1 },
                 { &p->lse, SOME_ROWS } };
    ts_ternary_layer y;
    size_t           used = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        *part[i].slot = ts_cut(base, &used, part[i].n, sizeof(float));
    p->layer_bytes = lay_layer(p, &y, NULL);
    p->layers = ts_cut(base, &used, d->n_layer, p->layer_bytes);
    p->frequency = ts_cut(base, &used, d->head_dim / 2, sizeof *p->frequency);
    p->position = ts_cut(base, &used, p->n, sizeof *p->position);
    p->parts = ts_cut(base, &used, ts_norm_parts(part[0].n), sizeof *p->parts);
    p->input = ts_cut(base, &used, p->n, sizeof *p->input);
    p->target = ts_cut(base, &used, p->n, sizeof *p->target);
    p->code = ts_cut(base, &used, p->n * groups, TS_TERNARY_GROUP_BYTES);
    p->code_scale = ts_cut(base, &used, p->n * groups, sizeof *p->code_scale);
    p->inner = base ? base + used : NULL;
    return used;
}

/* ---- linear layers ---- */

static ts_ternary_linear_dims linear_dims(const ts_ternary_place *w, int64_t n_rows)
{
    return (ts_ternary_linear_dims) { TS_F32, w->n_out, w->n_in, n_rows };
}

static ts_status linear(const ts_ternary_pass *p, int64_t layer, ts_ternary_slot s, const float *in,
                        float *y)
{
    const ts_ternary_place       w = ts_ternary_place_of(&p->d, layer, s);
    const ts_ternary_linear_args a = { linear_dims(&w, p->n), p->w + w.at, in, y };
    return ts_ternary_linear(&a, &p->x);
}

/* dx = dy w, or dx += that. */
static ts_status linear_back(const ts_ternary_pass *p, int64_t layer, ts_ternary_slot s,
                             const float *in, const float *dy, float *dx, bool add)
{
    const ts_ternary_place                w = ts_ternary_place_of(&p->d, layer, s);
    const ts_ternary_linear_backward_args a = { linear_dims(&w, p->n), p->w + w.at,       in, dy,
                                                add ? p->t : dx,       p->gradient + w.at };
    const ts_status                       status = ts_ternary_linear_backward(&a, &p->x);
    if (!status && add) add_to(dx, p->t, p->n * w.n_in, p->x.n_threads);
    return status;
}

/* Groups lie along the width, so rows can be projected after they are gathered. */
static ts_status embed(const ts_ternary_pass *p, float *y)
{
    const int64_t                   width = p->d.width;
    const ts_embedding_forward_args e = {
        .dtype = TS_F32,
        .y_dtype = TS_F32,
        .n_rows = p->n,
        .n_cols = width,
        .n_vocab = p->d.n_vocab,
        .table_stride = width,
        .y_stride = width,
        .scale = 1,
        .table = p->w,
        .token = p->input,
        .y = p->t,
    };
    const ts_ternary_linear_dims d = { TS_F32, p->n, width, 0 };
    const ts_ternary_pack_args   k = { d, p->t, p->code, p->code_scale };
    const ts_ternary_unpack_args u = { d, p->code, p->code_scale, y };
    ts_status                    s = ts_embedding_forward(&e, &p->x);
    if (!s) s = ts_ternary_pack(&k, &p->x);
    return s ? s : ts_ternary_unpack(&u, &p->x);
}

static ts_embedding_backward_args embed_args(const ts_ternary_dims *d, int64_t n,
                                             const int32_t *token, const float *dx, float *dtable)
{
    return (ts_embedding_backward_args) {
        .dtype = TS_F32,
        .accumulate = 1,
        .n_rows = n < SOME_ROWS ? n : SOME_ROWS,
        .n_cols = d->width,
        .n_vocab = d->n_vocab,
        .table_stride = d->width,
        .dy_stride = d->width,
        .scale = 1,
        .token = token,
        .dy = dx,
        .dtable = dtable,
    };
}

static ts_status embed_back(const ts_ternary_pass *p)
{
    ts_status s = TS_OK;
    for (int64_t r = 0; !s && r < p->n; r += SOME_ROWS) {
        const ts_embedding_backward_args a =
            embed_args(&p->d, p->n - r, p->input + r, p->dx + r * p->d.width, p->gradient);
        s = ts_embedding_backward(&a, &p->x);
    }
    return s;
}

/* ---- norms and rotation ---- */

static ts_rms_norm_forward_args norm_args(const ts_ternary_pass *p, const float *gain,
                                          const float *x, float *y, float *rstd, int64_t n,
                                          int64_t width)
{
    return (ts_rms_norm_forward_args) { .dtype = TS_F32,
                                        .n_rows = n,
                                        .n_cols = width,
                                        .row_stride = width,
                                        .eps = p->d.norm_eps,
                                        .x = x,
                                        .w = gain,
                                        .y = y,
                                        .rstd = rstd };
}

static ts_status rms(const ts_ternary_pass *p, int64_t layer, ts_ternary_gain g, const float *x,
                     float *y, float *rstd, int64_t n, int64_t width)
{
    const float *const             gain = p->w + ts_ternary_gain_at(&p->d, layer, g);
    const ts_rms_norm_forward_args a = norm_args(p, gain, x, y, rstd, n, width);
    return ts_rms_norm_forward(&a, &p->x);
}

/* dr: a gradient that is added, or NULL. */
static ts_rms_norm_backward_args norm_back_args(const float *gain, const float *x,
                                                const float *rstd, const float *dy, const float *dr,
                                                float *dx, float *dgain, int64_t n, int64_t width)
{
    return (ts_rms_norm_backward_args) { .dtype = TS_F32,
                                         .n_rows = n,
                                         .n_cols = width,
                                         .row_stride = width,
                                         .r = x,
                                         .dy = dy,
                                         .dr = dr,
                                         .w = gain,
                                         .rstd = rstd,
                                         .dx = dx,
                                         .dw = dgain };
}

static ts_status rms_back(const ts_ternary_pass *p, int64_t layer, ts_ternary_gain g,
                          const float *x, const float *rstd, const float *dy, const float *dr,
                          float *dx, int64_t n, int64_t width)
{
    const int64_t                   at = ts_ternary_gain_at(&p->d, layer, g);
    const ts_rms_norm_backward_args a =
        norm_back_args(p->w + at, x, rstd, dy, dr, dx, p->gradient + at, n, width);
    return ts_rms_norm_backward(&a, &p->x);
}

/* A norm before which the residual stream forks: what came the other way is added. */
static ts_status rms_back_residual(ts_ternary_pass *p, int64_t layer, ts_ternary_gain g,
                                   const float *x, const float *rstd)
{
    float *const    after = p->dx;
    const ts_status s =
        rms_back(p, layer, g, x, rstd, p->dh, p->dx, p->dx_before, p->n, p->d.width);
    p->dx = p->dx_before;
    p->dx_before = after;
    return s;
}

/* back: by the opposite angle. */
static ts_status rotate(const ts_ternary_pass *p, float *x, int64_t n_head, bool back)
{
    const int64_t      dim = p->d.head_dim;
    const ts_rope_args a = { .dtype = TS_F32,
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
                             .y = x };
    return ts_rope(&a, &p->x);
}

static void set_positions(const ts_ternary_pass *p)
{
    const double dim = (double)p->d.head_dim;
    for (int64_t i = 0; i < p->d.head_dim / 2; i++)
        p->frequency[i] = pow(p->d.rope_theta, -2.0 * (double)i / dim);
    for (int64_t r = 0; r < p->n; r++) p->position[r] = (int32_t)(r % p->n_pos);
}

/* ---- attention ---- */

static ts_attention_dims attention_dims(const ts_ternary_dims *d, int64_t n_batch, int64_t n_pos)
{
    return (ts_attention_dims) {
        .dtype = TS_F32,
        .layout = TS_BNHD,
        .causal = 1,
        .n_batch = n_batch,
        .n_q = n_pos,
        .n_k = n_pos,
        .n_q_head = d->n_head,
        .n_kv_head = d->n_kv_head,
        .head_dim = d->head_dim,
        .scale = 1 / sqrt((double)d->head_dim),
    };
}

static ts_flash_attention_args forward_args(const ts_ternary_pass *p, const ts_ternary_layer *y)
{
    return (ts_flash_attention_args) {
        attention_dims(&p->d, p->n_batch, p->n_pos), y->q, y->k, y->v, NULL, y->out, y->lse
    };
}

static ts_flash_attention_backward_args backward_args(const ts_ternary_pass  *p,
                                                      const ts_ternary_layer *y)
{
    return (ts_flash_attention_backward_args) {
        attention_dims(&p->d, p->n_batch, p->n_pos),
        y->q,
        y->k,
        y->v,
        y->out,
        p->dout,
        y->lse,
        NULL,
        p->dq,
        p->dk,
        p->dv,
    };
}

static ts_status attend(const ts_ternary_pass *p, int64_t l)
{
    const ts_ternary_dims *d = &p->d;
    const ts_ternary_layer y = ts_ternary_layer_of(p, l);
    const int64_t          n_q = p->n * d->n_head, n_k = p->n * d->n_kv_head;
    ts_status              s = rms(p, l, TS_TERNARY_NORM_1, y.x, p->h, y.rstd_1, p->n, d->width);
    if (!s) s = linear(p, l, TS_TERNARY_Q, p->h, y.q_raw);
    if (!s) s = linear(p, l, TS_TERNARY_K, p->h, y.k_raw);
    if (!s) s = linear(p, l, TS_TERNARY_V, p->h, y.v);
    if (!s) s = rms(p, l, TS_TERNARY_NORM_Q, y.q_raw, y.q, y.rstd_q, n_q, d->head_dim);
    if (!s) s = rms(p, l, TS_TERNARY_NORM_K, y.k_raw, y.k, y.rstd_k, n_k, d->head_dim);
    if (!s) s = rotate(p, y.q, d->n_head, false);
    if (!s) s = rotate(p, y.k, d->n_kv_head, false);
    const ts_flash_attention_args a = forward_args(p, &y);
    if (!s) s = ts_flash_attention(&a, &p->x);
    if (!s) s = linear(p, l, TS_TERNARY_O, y.out, y.middle);
    if (!s) add_to(y.middle, y.x, p->n * d->width, p->x.n_threads);
    return s;
}

/* dx is the gradient after attention, and then the one before it. Of the gradients of heads, those
 * before a norm take the place of some that are not needed any more. */
static ts_status attend_back(ts_ternary_pass *p, int64_t l)
{
    const ts_ternary_dims *d = &p->d;
    const ts_ternary_layer y = ts_ternary_layer_of(p, l);
    ts_status              s = linear_back(p, l, TS_TERNARY_O, y.out, p->dx, p->dout, false);
    const ts_flash_attention_backward_args a = backward_args(p, &y);
    const int64_t                          n_q = p->n * d->n_head, n_k = p->n * d->n_kv_head;
    float *const dq_raw = p->dout, *const dk_raw = p->dq;
    if (!s) s = ts_flash_attention_backward(&a, &p->x);
    if (!s) s = rotate(p, p->dq, d->n_head, true);
    if (!s) s = rotate(p, p->dk, d->n_kv_head, true);
    if (!s)
        s = rms_back(p, l, TS_TERNARY_NORM_Q, y.q_raw, y.rstd_q, p->dq, NULL, dq_raw, n_q,
                     d->head_dim);
    if (!s)
        s = rms_back(p, l, TS_TERNARY_NORM_K, y.k_raw, y.rstd_k, p->dk, NULL, dk_raw, n_k,
                     d->head_dim);
    if (!s) s = rms(p, l, TS_TERNARY_NORM_1, y.x, p->h, y.rstd_1, p->n, d->width);
    if (!s) s = linear_back(p, l, TS_TERNARY_Q, p->h, dq_raw, p->dh, false);
    if (!s) s = linear_back(p, l, TS_TERNARY_K, p->h, dk_raw, p->dh, true);
    if (!s) s = linear_back(p, l, TS_TERNARY_V, p->h, p->dv, p->dh, true);
    return s ? s : rms_back_residual(p, l, TS_TERNARY_NORM_1, y.x, y.rstd_1);
}

/* ---- feed-forward ---- */

static ts_status activate(const ts_ternary_pass *p, const ts_ternary_layer *y)
{
    const int64_t                ffn = p->d.ffn;
    const ts_swiglu_forward_args a = { TS_F32, p->n, ffn, ffn, ffn, y->gate, y->up, p->act };
    return ts_swiglu_forward(&a, &p->x);
}

static ts_status feed(const ts_ternary_pass *p, int64_t l, float *out)
{
    const ts_ternary_dims *d = &p->d;
    const ts_ternary_layer y = ts_ternary_layer_of(p, l);
    ts_status s = rms(p, l, TS_TERNARY_NORM_2, y.middle, p->h, y.rstd_2, p->n, d->width);
    if (!s) s = linear(p, l, TS_TERNARY_GATE, p->h, y.gate);
    if (!s) s = linear(p, l, TS_TERNARY_UP, p->h, y.up);
    if (!s) s = activate(p, &y);
    if (!s) s = linear(p, l, TS_TERNARY_DOWN, p->act, out);
    if (!s) add_to(out, y.middle, p->n * d->width, p->x.n_threads);
    return s;
}

static ts_status feed_back(ts_ternary_pass *p, int64_t l)
{
    const int64_t                 ffn = p->d.ffn;
    const ts_ternary_layer        y = ts_ternary_layer_of(p, l);
    const ts_swiglu_backward_args a = { TS_F32, p->n, ffn,    ffn,      ffn,
                                        y.gate, y.up, p->dup, p->dgate, p->dup };
    ts_status                     s = activate(p, &y);
    if (!s) s = linear_back(p, l, TS_TERNARY_DOWN, p->act, p->dx, p->dup, false);
    if (!s) s = ts_swiglu_backward(&a, &p->x);
    if (!s) s = rms(p, l, TS_TERNARY_NORM_2, y.middle, p->h, y.rstd_2, p->n, p->d.width);
    if (!s) s = linear_back(p, l, TS_TERNARY_GATE, p->h, p->dgate, p->dh, false);
    if (!s) s = linear_back(p, l, TS_TERNARY_UP, p->h, p->dup, p->dh, true);
    return s ? s : rms_back_residual(p, l, TS_TERNARY_NORM_2, y.middle, y.rstd_2);
}

/* ---- the pass ---- */

/* Of up to SOME_ROWS rows; with `back` logits become the gradient of weight * nll. */
static ts_cross_entropy_logits_args entropy_args(const ts_ternary_dims *d, int64_t n, bool back,
                                                 double weight)
{
    return (ts_cross_entropy_logits_args) {
        .dtype = TS_F32,
        .in_place = back,
        .ignore_index = -1, /* of no token */
        .n_rows = n < SOME_ROWS ? n : SOME_ROWS,
        .n_vocab = d->n_vocab,
        .row_stride = d->n_vocab,
        .scale = weight,
    };
}

static ts_status entropy(const ts_ternary_pass *p, bool back, double *nll_sum)
{
    ts_status s = TS_OK;
    *nll_sum = 0;
    for (int64_t r = 0; !s && r < p->n; r += SOME_ROWS) {
        ts_cross_entropy_logits_args a = entropy_args(&p->d, p->n - r, back, 1 / (double)p->n);
        a.logits = p->logits + r * p->d.n_vocab;
        a.target = p->target + r;
        a.loss = p->loss;
        a.lse = p->lse;
        a.total = p->loss + SOME_ROWS;
        s = ts_cross_entropy_logits(&a, &p->x);
        for (int64_t i = 0; !s && i < a.n_rows; i++) *nll_sum += (double)p->loss[i];
    }
    return s;
}

static ts_status head(const ts_ternary_pass *p, bool back, double *nll_sum)
{
    const int64_t width = p->d.width;
    ts_status     s = rms(p, 0, TS_TERNARY_NORM_LAST, p->last, p->h, p->rstd_last, p->n, width);
    if (!s) s = linear(p, 0, TS_TERNARY_E, p->h, p->logits);
    if (!s) s = entropy(p, back, nll_sum);
    if (s || !back) return s;
    s = linear_back(p, 0, TS_TERNARY_E, p->h, p->logits, p->dh, false);
    if (s) return s;
    return rms_back(p, 0, TS_TERNARY_NORM_LAST, p->last, p->rstd_last, p->dh, NULL, p->dx, p->n,
                    width);
}

ts_status ts_ternary_run(ts_ternary_pass *p, bool back, double *nll_sum)
{
    const int64_t n_layer = p->d.n_layer;
    ts_status     s = embed(p, ts_ternary_layer_of(p, 0).x);
    set_positions(p);
    for (int64_t l = 0; !s && l < n_layer; l++) {
        s = attend(p, l);
        if (!s) s = feed(p, l, l + 1 < n_layer ? ts_ternary_layer_of(p, l + 1).x : p->last);
    }
    if (!s) s = head(p, back, nll_sum);
    for (int64_t l = n_layer - 1; back && !s && l >= 0; l--) {
        s = feed_back(p, l);
        if (!s) s = attend_back(p, l);
    }
    return back && !s ? embed_back(p) : s;
}

/* ---- what it takes ---- */

/* By its address: `asked` is written while the other argument is evaluated. */
static ts_status more(ts_status s, const size_t *asked, size_t *most)
{
    if (!s && *asked > *most) *most = *asked;
    return s;
}

static ts_status linear_bytes(const ts_ternary_place *w, const ts_exec *x, int64_t n, size_t *most)
{
    static float any; /* to have something to point at: a query looks at shapes alone */
    uint8_t      code;
    uint16_t     scale;
    size_t       bytes = 0;
    const ts_ternary_linear_dims d = linear_dims(w, n), rows = { TS_F32, n, w->n_in, 0 };
    const ts_ternary_pack_args   k = { d, &any, &code, &scale }, e = { rows, &any, &code, &scale };
    const ts_ternary_linear_args f = { d, &any, &any, &any };
    const ts_ternary_linear_backward_args b = { d, &any, &any, &any, &any, &any };
    ts_status s = more(ts_ternary_pack_workspace(&k, x, &bytes), &bytes, most);
    if (!s) s = more(ts_ternary_pack_workspace(&e, x, &bytes), &bytes, most);
    if (!s) s = more(ts_ternary_linear_workspace(&f, x, &bytes), &bytes, most);
    return s ? s : more(ts_ternary_linear_backward_workspace(&b, x, &bytes), &bytes, most);
}

/* For a number of sequences, the workspace of attention grows with their length, but not with their
 * number. */
static ts_status attention_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *most)
{
    static float any;
    ts_status    s = TS_OK;
    for (int64_t b = 1; !s && b <= d->max_batch; b++) {
        const ts_attention_dims                a = attention_dims(d, b, d->max_tokens - 1);
        const ts_flash_attention_args          f = { a, &any, &any, &any, NULL, &any, &any };
        const ts_flash_attention_backward_args g = { a,    &any, &any, &any, &any, &any,
                                                     &any, NULL, &any, &any, &any };
        size_t                                 bytes = 0;
        s = more(ts_flash_attention_workspace(&f, x, &bytes), &bytes, most);
        if (!s) s = more(ts_flash_attention_backward_workspace(&g, x, &bytes), &bytes, most);
    }
    return s;
}

/* Up to n rows of a norm. Fewer rows may need more workspace, since rows are divided into chunks of
 * whole sizes; the largest number has the smallest chunks, a power of two in number. */
static ts_status norm_bytes(const ts_ternary_dims *d, const ts_exec *x, int64_t n, int64_t width,
                            size_t *most)
{
    static float                   any;
    const ts_ternary_pass          p = { .d = *d };
    const ts_rms_norm_forward_args f = norm_args(&p, &any, &any, &any, &any, n, width);
    size_t                         bytes = 0;
    ts_status s = more(ts_rms_norm_forward_workspace(&f, x, &bytes), &bytes, most);
    for (int64_t below = 1; !s && n > 0; n = n == 1 ? 0 : below, below = 1) {
        while (below < n - below) below *= 2;
        const ts_rms_norm_backward_args b =
            norm_back_args(&any, &any, &any, &any, NULL, &any, &any, n, width);
        s = more(ts_rms_norm_backward_workspace(&b, x, &bytes), &bytes, most);
    }
    return s;
}

static ts_status embed_bytes(const ts_ternary_dims *d, const ts_exec *x, int64_t n, size_t *most)
{
    static float                     any;
    size_t                           bytes = 0;
    const ts_embedding_backward_args a = embed_args(d, n, no_token, &any, &any);
    return more(ts_embedding_backward_workspace(&a, x, &bytes), &bytes, most);
}

static ts_status entropy_bytes(const ts_ternary_dims *d, const ts_exec *x, int64_t n, size_t *most)
{
    static float                 any;
    size_t                       bytes = 0;
    ts_cross_entropy_logits_args a = entropy_args(d, n, true, 1);
    a.logits = a.loss = a.lse = a.total = &any;
    a.target = no_token;
    return more(ts_cross_entropy_logits_workspace(&a, x, &bytes), &bytes, most);
}

/* Rotation and activation need none, which is checked where they are called. */
ts_status ts_ternary_inner_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *n_bytes)
{
    const int64_t n = d->max_batch * (d->max_tokens - 1);
    *n_bytes = 0;
    ts_status s = embed_bytes(d, x, n, n_bytes);
    if (!s) s = entropy_bytes(d, x, n, n_bytes);
    for (int i = 0; !s && i <= TS_TERNARY_E; i++) {
        const ts_ternary_place w = ts_ternary_place_of(d, 0, (ts_ternary_slot)i);
        s = linear_bytes(&w, x, n, n_bytes);
    }
    if (!s) s = norm_bytes(d, x, n, d->width, n_bytes);
    if (!s) s = norm_bytes(d, x, n * d->n_head, d->head_dim, n_bytes);
    return s ? s : attention_bytes(d, x, n_bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_pass.c - a batch forward through the model, and back.
 *
 * Every matrix but E is used once, so its gradient is written where it belongs; E's is the head's,
 * and then the rows that went in are added. */
#include <math.h>

#include "norm.h"
#include "ternary_training_impl.h"
#include "touchstone/cross_entropy.h"
#include "touchstone/embedding.h"

/* Rows whose tokens a kernel gets at once: queries of the workspace read tokens before any are
 * known, and there are so many to show them. */
enum { SOME_ROWS = 1024 };

static const int32_t no_token[SOME_ROWS];

/* ---- memory ---- */

static ts_layer layer_of(const ts_ternary_pass *p, int64_t layer)
{
    ts_layer y;
    size_t   used = 0;
    ts_layer_cut(&p->layers, &y, p->kept + (size_t)layer * p->layer_bytes, &used);
    return y;
}

size_t ts_ternary_lay(ts_ternary_pass *p, char *base)
{
    const ts_ternary_dims *d = &p->d;
    const int64_t          groups = (d->width + TS_TERNARY_GROUP - 1) / TS_TERNARY_GROUP;
    const struct {
        float **slot;
        int64_t n;
    } part[] = { { &p->gradient, ts_ternary_latents(d) + ts_ternary_norms(d) },
                 { &p->last, p->n * d->width },
                 { &p->t, p->n * (d->width > d->ffn ? d->width : d->ffn) },
                 { &p->rstd_last, p->n },
                 { &p->logits, p->n * d->n_vocab },
                 { &p->loss, SOME_ROWS + 1 },
                 { &p->lse, SOME_ROWS } };
    ts_layer y;
    size_t   used = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        *part[i].slot = ts_cut(base, &used, part[i].n, sizeof(float));
    p->layer_bytes = 0;
    ts_layer_cut(&p->layers, &y, NULL, &p->layer_bytes);
    p->kept = ts_cut(base, &used, d->n_layer, p->layer_bytes);
    ts_layers_cut(&p->layers, base, &used);
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

static ts_status linear(void *self, int64_t layer, ts_ternary_slot s, const void *in, void *y)
{
    const ts_ternary_pass       *p = self;
    const ts_ternary_place       w = ts_ternary_place_of(&p->d, layer, s);
    const ts_ternary_linear_args a = { linear_dims(&w, p->n), p->w + w.at, in, y };
    return ts_ternary_linear(&a, &p->x);
}

/* dx = dy w, or dx += that. */
static ts_status linear_back(void *self, int64_t layer, ts_ternary_slot s, const void *in,
                             const void *dy, void *dx, bool add)
{
    const ts_ternary_pass                *p = self;
    const ts_ternary_place                w = ts_ternary_place_of(&p->d, layer, s);
    const ts_ternary_linear_backward_args a = { linear_dims(&w, p->n), p->w + w.at,       in, dy,
                                                add ? p->t : dx,       p->gradient + w.at };
    const ts_status                       status = ts_ternary_linear_backward(&a, &p->x);
    if (!status && add) ts_layers_add(&p->layers, dx, p->t, p->n * w.n_in);
    return status;
}

static const void *gain(void *self, int64_t layer, ts_ternary_gain g, void **gradient)
{
    const ts_ternary_pass *p = self;
    const int64_t          at = ts_ternary_gain_at(&p->d, layer, g);
    *gradient = p->gradient + at;
    return p->w + at;
}

void ts_ternary_layers(ts_ternary_pass *p, int64_t n_batch, int64_t n_tok)
{
    const ts_ternary_dims *d = &p->d;
    p->n_pos = n_tok - 1;
    p->n = n_batch * p->n_pos;
    p->layers = (ts_layers) {
        .dtype = TS_F32,
        .n_batch = n_batch,
        .n_pos = p->n_pos,
        .n = p->n,
        .width = d->width,
        .n_head = d->n_head,
        .n_kv_head = d->n_kv_head,
        .head_dim = d->head_dim,
        .ffn = d->ffn,
        .norm_eps = d->norm_eps,
        .x = &p->x,
        .self = p,
        .linear = linear,
        .linear_back = linear_back,
        .gain = gain,
    };
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
            embed_args(&p->d, p->n - r, p->input + r, (const float *)p->layers.dx + r * p->d.width,
                       p->gradient);
        s = ts_embedding_backward(&a, &p->x);
    }
    return s;
}

/* ---- the pass ---- */

static void set_positions(const ts_ternary_pass *p)
{
    const double dim = (double)p->d.head_dim;
    for (int64_t i = 0; i < p->d.head_dim / 2; i++)
        p->layers.frequency[i] = pow(p->d.rope_theta, -2.0 * (double)i / dim);
    for (int64_t r = 0; r < p->n; r++) p->layers.position[r] = (int32_t)(r % p->n_pos);
}

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

static ts_status head(ts_ternary_pass *p, bool back, double *nll_sum)
{
    const ts_layers *l = &p->layers;
    ts_status        s = ts_layers_last(l, p->last, p->rstd_last);
    if (!s) s = linear(p, 0, TS_TERNARY_E, l->h, p->logits);
    if (!s) s = entropy(p, back, nll_sum);
    if (s || !back) return s;
    s = linear_back(p, 0, TS_TERNARY_E, l->h, p->logits, l->dh, false);
    return s ? s : ts_layers_last_back(l, p->last, p->rstd_last);
}

ts_status ts_ternary_run(ts_ternary_pass *p, bool back, double *nll_sum)
{
    const int64_t n_layer = p->d.n_layer;
    ts_status     s = embed(p, layer_of(p, 0).x);
    set_positions(p);
    for (int64_t l = 0; !s && l < n_layer; l++) {
        const ts_layer y = layer_of(p, l);
        s = ts_layer_forward(&p->layers, l, &y, l + 1 < n_layer ? layer_of(p, l + 1).x : p->last);
    }
    if (!s) s = head(p, back, nll_sum);
    for (int64_t l = n_layer - 1; back && !s && l >= 0; l--) {
        const ts_layer y = layer_of(p, l);
        s = ts_layer_backward(&p->layers, l, &y);
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
static ts_status attention_bytes(ts_ternary_pass *p, size_t *most)
{
    ts_status s = TS_OK;
    for (int64_t b = 1; !s && b <= p->d.max_batch; b++) {
        p->layers.n_batch = b;
        s = ts_layers_attention_bytes(&p->layers, most);
    }
    return s;
}

/* Up to n rows of a norm. Fewer rows may need more workspace, since rows are divided into chunks of
 * whole sizes; the largest number has the smallest chunks, a power of two in number. */
static ts_status norm_bytes(const ts_ternary_pass *p, int64_t n, int64_t width, size_t *most)
{
    ts_status s = TS_OK;
    for (int64_t below = 1; !s && n > 0; n = n == 1 ? 0 : below, below = 1) {
        while (below < n - below) below *= 2;
        s = ts_layers_norm_bytes(&p->layers, n, width, most);
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

ts_status ts_ternary_inner_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *n_bytes)
{
    const int64_t   n = d->max_batch * (d->max_tokens - 1);
    ts_ternary_pass p = { .d = *d, .x = *x };
    *n_bytes = 0;
    ts_ternary_layers(&p, d->max_batch, d->max_tokens);
    ts_status s = embed_bytes(d, x, n, n_bytes);
    if (!s) s = entropy_bytes(d, x, n, n_bytes);
    for (int i = 0; !s && i <= TS_TERNARY_E; i++) {
        const ts_ternary_place w = ts_ternary_place_of(d, 0, (ts_ternary_slot)i);
        s = linear_bytes(&w, x, n, n_bytes);
    }
    if (!s) s = norm_bytes(&p, n, d->width, n_bytes);
    if (!s) s = norm_bytes(&p, n * d->n_head, d->head_dim, n_bytes);
    return s ? s : attention_bytes(&p, n_bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training.c - API entry points: validate the arguments, own latents and moments, and run a
 * pass.
 *
 * Nothing of the caller's memory or of the handle is written before everything has succeeded. */
#include <math.h>
#include <string.h>

#include "cpu.h"
#include "norm.h"
#include "overlap.h"
#include "ternary_training_impl.h"
#include "threads.h"
#include "touchstone/adamw.h"

enum { MOST_HEAD_DIM = 256 }; /* of attention */

/* One way over the kernels, which pick their own. */
static ts_status over_kernels(const void *args, const ts_exec *x)
{
    (void)args, (void)x;
    return TS_OK;
}

/* clang-format off */
const ts_impl ts_ternary_training_impls[] = {
    TS_SIMD_ONE_IMPL(TS_HAS_F32, over_kernels, NULL)
    { "ref", TS_CPU, 0, TS_HAS_F32, over_kernels, NULL, NULL },
    { 0 },
};
/* clang-format on */

/* ---- where weights are ---- */

ts_ternary_place ts_ternary_place_of(const ts_ternary_dims *d, int64_t layer, ts_ternary_slot s)
{
    const int64_t q = d->n_head * d->head_dim, kv = d->n_kv_head * d->head_dim, w = d->width;
    const ts_ternary_place shape[] = { { 0, q, w },      { 0, kv, w },        { 0, kv, w },
                                       { 0, w, q },      { 0, d->ffn, w },    { 0, d->ffn, w },
                                       { 0, w, d->ffn }, { 0, d->n_vocab, w } };
    ts_ternary_place       p = shape[s];
    if (s == TS_TERNARY_E) return p;
    p.at = d->n_vocab * w + layer * (2 * q + 2 * kv + 3 * d->ffn) * w;
    for (int i = 0; i < (int)s; i++) p.at += shape[i].n_out * shape[i].n_in;
    return p;
}

int64_t ts_ternary_latents(const ts_ternary_dims *d)
{
    return ts_ternary_place_of(d, d->n_layer, TS_TERNARY_Q).at;
}

/* Behind the latents. */
int64_t ts_ternary_gain_at(const ts_ternary_dims *d, int64_t layer, ts_ternary_gain g)
{
    const int64_t in_layer[] = { 0, d->width, d->width + d->head_dim, d->width + 2 * d->head_dim };
    const int64_t each = 2 * (d->width + d->head_dim);
    return ts_ternary_latents(d) +
           (g == TS_TERNARY_NORM_LAST ? d->n_layer * each : layer * each + in_layer[g]);
}

int64_t ts_ternary_norms(const ts_ternary_dims *d)
{
    return ts_ternary_gain_at(d, 0, TS_TERNARY_NORM_LAST) + d->width - ts_ternary_latents(d);
}

/* ---- a handle begins and ends ---- */

static bool fits(double a, double b)
{
    return a * b < 0x1p44;
}

static ts_status check_dims(const ts_ternary_dims *d)
{
    const int64_t extent[] = { d->n_vocab,   d->width,    d->n_layer, d->n_head,
                               d->n_kv_head, d->head_dim, d->ffn,     d->max_batch };
    double        widest = 0;
    for (size_t i = 0; i < sizeof extent / sizeof *extent; i++) {
        if (extent[i] < 1 || extent[i] >= INT32_MAX) return TS_E_SHAPE;
        widest = fmax(widest, (double)extent[i]);
    }
    if (d->max_tokens < 2 || d->max_tokens >= INT32_MAX) return TS_E_SHAPE;
    if (d->n_head % d->n_kv_head || d->head_dim % 2 || d->head_dim > MOST_HEAD_DIM)
        return TS_E_SHAPE;
    const double rows = (double)d->max_batch * (double)d->max_tokens;
    const double wide = fmax((double)d->ffn, (double)d->n_head * (double)d->head_dim);
    if (!fits(rows, widest) || !fits(rows * (double)d->n_layer, wide) ||
        !fits((double)d->width * (double)d->n_layer, 7 * wide) ||
        !fits((double)d->width, (double)d->n_vocab))
        return TS_E_SHAPE;
    const bool sound =
        isfinite(d->rope_theta) && d->rope_theta > 0 && isfinite(d->norm_eps) && d->norm_eps > 0;
    return sound ? TS_OK : TS_E_ARG;
}

/* A pass over n_batch by n_tok in the workspace of x; of x->workspace NULL its size alone. */
static ts_status plan(const ts_ternary_dims *d, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                      ts_ternary_pass *p, size_t *n_bytes)
{
    size_t inner;
    *p = (ts_ternary_pass) { .d = *d };
    ts_ternary_layers(p, n_batch, n_tok);
    p->x = (ts_exec) { .device = x->device, .n_threads = ts_threads(x), .deterministic = 1 };
    const ts_status s = ts_ternary_inner_bytes(d, &p->x, &inner);
    if (s) return s;
    const size_t own = ts_ternary_lay(p, x->workspace ? ts_scratch(x) : NULL);
    *n_bytes = own + inner + TS_LINE;
    p->x.workspace = p->inner;
    p->x.workspace_bytes = inner;
    return TS_OK;
}

static size_t state_size(const ts_ternary_dims *d)
{
    const size_t n = (size_t)(ts_ternary_latents(d) + ts_ternary_norms(d));
    return sizeof(ts_ternary) + 3 * n * sizeof(float) + 2 * TS_LINE;
}

static ts_status check(const ts_ternary_dims *d, const ts_exec *x)
{
    ts_impl row;
    if (!d || !x) return TS_E_ARG;
    const ts_status s = check_dims(d);
    return s ? s : ts_pick(ts_ternary_training_impls, x->device, TS_F32, &row);
}

ts_status ts_ternary_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *state_bytes,
                           size_t *workspace_bytes)
{
    ts_ternary_pass p;
    size_t          bytes;
    ts_exec         y;
    if (!state_bytes || !workspace_bytes) return TS_E_ARG;
    ts_status s = check(d, x);
    if (s) return s;
    y = *x;
    y.workspace = NULL;
    s = plan(d, &y, d->max_batch, d->max_tokens, &p, &bytes);
    if (s) return s;
    *state_bytes = state_size(d);
    *workspace_bytes = bytes;
    return TS_OK;
}

/* Checks that every group can be packed. The first pass would find out too late. */
static ts_status check_range(const ts_ternary_dims *d, const float *latent, const float *norm)
{
    for (int64_t i = 0; i < ts_ternary_norms(d); i++)
        if (!isfinite(norm[i])) return TS_E_RANGE;
    for (int64_t l = 0; l <= d->n_layer; l++)
        for (int k = 0; k < TS_TERNARY_SLOTS; k++) {
            const ts_ternary_place p = l < d->n_layer
                                           ? ts_ternary_place_of(d, l, (ts_ternary_slot)k)
                                           : ts_ternary_place_of(d, 0, TS_TERNARY_E);
            for (int64_t o = 0; o < p.n_out; o++)
                for (int64_t g = 0; g < p.n_in; g += TS_TERNARY_GROUP) {
                    const int64_t n = p.n_in - g < TS_TERNARY_GROUP ? p.n_in - g : TS_TERNARY_GROUP;
                    double        sum = 0;
                    for (int64_t j = 0; j < n; j++)
                        sum += fabs((double)latent[p.at + o * p.n_in + g + j]);
                    /* 65520 is the first that rounds to infinity, ties to even */
                    if (!(sum / (double)n < 65520)) return TS_E_RANGE;
                }
            if (l == d->n_layer) break;
        }
    return TS_OK;
}

static void *line_up(void *p)
{
    return (char *)p + (TS_LINE - (uintptr_t)p % TS_LINE) % TS_LINE;
}

ts_status ts_ternary_create(const ts_ternary_dims *d, const ts_exec *x, const float *latent,
                            const float *norm, void *memory, size_t memory_bytes, ts_ternary **out)
{
    ts_status s = check(d, x);
    if (s) return s;
    if (!latent || !norm || !memory || !out) return TS_E_ARG;
    if (memory_bytes < state_size(d)) return TS_E_WORKSPACE;
    s = check_range(d, latent, norm);
    if (s) return s;
    const int64_t     n_latent = ts_ternary_latents(d), n_norm = ts_ternary_norms(d);
    const size_t      n = (size_t)(n_latent + n_norm);
    ts_ternary *const m = line_up(memory);
    float *const      w = line_up(m + 1);
    *m = (ts_ternary) { *d, n_latent, n_norm, 0, w, w + n, w + 2 * n };
    memcpy(w, latent, (size_t)n_latent * sizeof *w);
    memcpy(w + n_latent, norm, (size_t)n_norm * sizeof *w);
    memset(w + n, 0, 2 * n * sizeof *w);
    *out = m;
    return TS_OK;
}

ts_status ts_ternary_destroy(ts_ternary **m)
{
    if (!m) return TS_E_ARG;
    *m = NULL;
    return TS_OK;
}

/* ---- calls ---- */

static ts_status check_batch(const ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                             const int32_t *tokens)
{
    if (!m || !x || x->device != TS_CPU || !tokens) return TS_E_ARG;
    if (n_batch < 1 || n_tok < 2) return TS_E_SHAPE;
    if (n_batch > m->d.max_batch || n_tok > m->d.max_tokens) return TS_E_CAPACITY;
    for (int64_t i = 0; i < n_batch * n_tok; i++)
        if (tokens[i] < 0 || tokens[i] >= m->d.n_vocab) return TS_E_ARG;
    return TS_OK;
}

/* A pass in the workspace, which must have the queried size, whatever this call needs. */
static ts_status prepare(const ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                         ts_ternary_pass *p)
{
    size_t    bytes;
    ts_exec   none = *x;
    ts_status s;
    none.workspace = NULL;
    s = plan(&m->d, &none, m->d.max_batch, m->d.max_tokens, p, &bytes);
    if (s) return s;
    if (!x->workspace || x->workspace_bytes < bytes) return TS_E_WORKSPACE;
    s = plan(&m->d, x, n_batch, n_tok, p, &bytes);
    p->w = m->w;
    return s;
}

/* Forward, and back, in the workspace. */
static ts_status pass(const ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                      const int32_t *tokens, bool back, ts_ternary_pass *p, double *nll_sum)
{
    const ts_status s = prepare(m, x, n_batch, n_tok, p);
    if (s) return s;
    for (int64_t r = 0; r < p->n; r++) {
        const int32_t *t = tokens + r / p->n_pos * n_tok + r % p->n_pos;
        p->input[r] = t[0];
        p->target[r] = t[1];
    }
    return ts_ternary_run(p, back, nll_sum);
}

static ts_status check_grad(const ts_ternary *m, int64_t n_tokens, const int32_t *tokens,
                            const double *loss, const float *dlatent, const float *dnorm)
{
    const int64_t n = m->n_latent + m->n_norm;
    const bool    apart = TS_APART(
           NULL, 3, ts_vector(loss, 1, TS_F64), ts_vector(dlatent, m->n_latent, TS_F32),
           ts_vector(dnorm, m->n_norm, TS_F32), ts_vector(tokens, n_tokens, TS_I32),
           ts_vector(m->w, n, TS_F32), ts_vector(m->m, n, TS_F32), ts_vector(m->v, n, TS_F32));
    return apart ? TS_OK : TS_E_ARG;
}

ts_status ts_ternary_grad(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                          const int32_t *tokens, double *loss, float *dlatent, float *dnorm)
{
    ts_ternary_pass p;
    double          nll;
    ts_status       s = check_batch(m, x, n_batch, n_tok, tokens);
    if (!s && (!loss || !dlatent || !dnorm)) s = TS_E_ARG;
    if (!s) s = check_grad(m, n_batch * n_tok, tokens, loss, dlatent, dnorm);
    if (!s) s = pass(m, x, n_batch, n_tok, tokens, true, &p, &nll);
    if (s) return s;
    memcpy(dlatent, p.gradient, (size_t)m->n_latent * sizeof *dlatent);
    memcpy(dnorm, p.gradient + m->n_latent, (size_t)m->n_norm * sizeof *dnorm);
    *loss = nll / (double)p.n;
    return TS_OK;
}

static bool sound(const ts_adamw *h)
{
    const double at_least_0[] = { h->lr, h->beta1, h->beta2, h->weight_decay, h->clip_norm };
    bool         ok = isfinite(h->eps) && h->eps > 0 && h->beta1 < 1 && h->beta2 < 1;
    for (size_t i = 0; i < sizeof at_least_0 / sizeof *at_least_0; i++)
        ok = ok && isfinite(at_least_0[i]) && at_least_0[i] >= 0;
    return ok;
}

static ts_status step(ts_ternary *m, const ts_adamw *h, const ts_ternary_pass *p)
{
    const int64_t            n = m->n_latent + m->n_norm;
    const double             norm = ts_norm(p->gradient, n, p->parts, p->x.n_threads);
    const double             scale = ts_clip(norm, h->clip_norm);
    const ts_adamw_step_args a = {
        .dtype = TS_F32,
        .grad_dtype = TS_F32,
        .n = n,
        .n_decay = m->n_latent,
        .step = m->n_step + 1,
        .lr = h->lr,
        .beta1 = h->beta1,
        .beta2 = h->beta2,
        .eps = h->eps,
        .weight_decay = h->weight_decay,
        .scale = &scale,
        .grad = p->gradient,
        .w = m->w,
        .m = m->m,
        .v = m->v,
    };
    if (!isfinite(norm)) return TS_E_RANGE;
    const ts_status s = ts_adamw_step(&a, &p->x);
    if (!s) m->n_step++;
    return s;
}

ts_status ts_ternary_step(ts_ternary *m, const ts_exec *x, const ts_adamw *h, int64_t n_batch,
                          int64_t n_tok, const int32_t *tokens, double *loss)
{
    ts_ternary_pass p;
    double          nll;
    ts_status       s = check_batch(m, x, n_batch, n_tok, tokens);
    if (!s && (!h || !loss || !sound(h))) s = TS_E_ARG;
    if (!s) s = pass(m, x, n_batch, n_tok, tokens, true, &p, &nll);
    if (s) return s;
    s = step(m, h, &p);
    if (s) return s;
    *loss = nll / (double)p.n;
    return TS_OK;
}

ts_status ts_ternary_eval(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                          const int32_t *tokens, double *nll_sum, int64_t *n_count)
{
    ts_ternary_pass p;
    double          nll;
    ts_status       s = check_batch(m, x, n_batch, n_tok, tokens);
    if (!s && (!nll_sum || !n_count)) s = TS_E_ARG;
    if (!s) s = pass(m, x, n_batch, n_tok, tokens, false, &p, &nll);
    if (s) return s;
    *nll_sum = nll;
    *n_count = p.n;
    return TS_OK;
}

/* ---- out ---- */

static ts_status pack(const ts_ternary_pass *p, const ts_ternary_place *w, uint8_t **code,
                      uint16_t **scale)
{
    const int64_t              n = w->n_out * ((w->n_in + TS_TERNARY_GROUP - 1) / TS_TERNARY_GROUP);
    const ts_ternary_pack_args a = {
        { TS_F32, w->n_out, w->n_in, 0 }, p->w + w->at, *code, *scale
    };
    *code += n * TS_TERNARY_GROUP_BYTES;
    *scale += n;
    return ts_ternary_pack(&a, &p->x);
}

ts_status ts_ternary_export(ts_ternary *m, const ts_exec *x, uint8_t *code, uint16_t *scale,
                            float *norm)
{
    ts_ternary_pass p;
    if (!m || !x || x->device != TS_CPU || !code || !scale || !norm) return TS_E_ARG;
    ts_status s = prepare(m, x, m->d.max_batch, m->d.max_tokens, &p);
    if (!s) s = check_range(&m->d, m->w, m->w + m->n_latent); /* then no pack can fail */
    if (s) return s;
    ts_ternary_place w = ts_ternary_place_of(&m->d, 0, TS_TERNARY_E);
    s = pack(&p, &w, &code, &scale);
    for (int64_t i = 0; !s && i < m->d.n_layer * TS_TERNARY_SLOTS; i++) {
        w = ts_ternary_place_of(&m->d, i / TS_TERNARY_SLOTS,
                                (ts_ternary_slot)(i % TS_TERNARY_SLOTS));
        s = pack(&p, &w, &code, &scale);
    }
    if (!s) memcpy(norm, m->w + m->n_latent, (size_t)m->n_norm * sizeof *norm);
    return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training.c - the obvious solution: every formula in double, one row after the other. */
#include "touchstone/ternary_training.h"

#include "number.h"

enum { GROUP = 128, BYTES = 32 };
enum { Q, K, V, O, GATE, UP, DOWN, SLOTS };
enum { NORM_1, NORM_Q, NORM_K, NORM_2 };

struct ts_ternary {
    ts_ternary_dims d;
    int64_t         n_latent, n_norm, n_step;
    float          *w, *m, *v; /* latents and then gains */
};

/* ---- where things are ---- */

typedef struct matrix {
    int64_t at, n_out, n_in;
} matrix;

/* Number i: E, then seven of each layer. */
static matrix matrix_of(const ts_ternary_dims *d, int64_t i)
{
    const int64_t q = d->n_head * d->head_dim, kv = d->n_kv_head * d->head_dim, w = d->width;
    const matrix  shape[] = { { 0, q, w },      { 0, kv, w },     { 0, kv, w },    { 0, w, q },
                              { 0, d->ffn, w }, { 0, d->ffn, w }, { 0, w, d->ffn } };
    matrix        m = { 0, d->n_vocab, w };
    for (int64_t k = 0; k < i; k++) {
        const int64_t next = m.at + m.n_out * m.n_in;
        m = shape[k % SLOTS];
        m.at = next;
    }
    return m;
}

static int64_t count_latents(const ts_ternary_dims *d)
{
    const matrix m = matrix_of(d, SLOTS * d->n_layer);
    return m.at + m.n_out * m.n_in;
}

static int64_t gain_at(const ts_ternary_dims *d, int64_t layer, int which)
{
    const int64_t before[] = { 0, d->width, d->width + d->head_dim, d->width + 2 * d->head_dim };
    return count_latents(d) + layer * 2 * (d->width + d->head_dim) + before[which];
}

static int64_t count_all(const ts_ternary_dims *d)
{
    return gain_at(d, d->n_layer, NORM_1) + d->width;
}

/* ---- the projection ---- */

/* The end of the group that begins at `at`: after GROUP weights, or with the row. */
static int64_t group_end(const matrix *m, int64_t at)
{
    const int64_t row = m->at + ((at - m->at) / m->n_in + 1) * m->n_in;
    return at + GROUP < row ? at + GROUP : row;
}

static double mean_of(const float *w, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += fabs((double)w[j]);
    return sum / (double)HOOK(mean_count, n);
}

static double scale_of(const float *w, int64_t n)
{
    return HOOK(scale, narrow(mean_of(w, n), TS_F16));
}

static int code_of(double w, double s)
{
    return HOOK(code, s == 0 || 2 * fabs(w) <= s ? 0 : w < 0 ? -1 : 1);
}

static void serve(const ts_ternary *t, double *to)
{
    for (int64_t i = 0; i <= SLOTS * t->d.n_layer; i++) {
        const matrix m = matrix_of(&t->d, i);
        for (int64_t at = m.at, end; at < m.at + m.n_out * m.n_in; at = end) {
            end = group_end(&m, at);
            const double s = scale_of(t->w + at, end - at);
            for (int64_t j = at; j < end; j++) to[j] = HOOK(weight, code_of(t->w[j], s) * s);
        }
    }
    for (int64_t i = t->n_latent; i < t->n_latent + t->n_norm; i++) to[i] = t->w[i];
    HERE(served);
}

/* ---- a pass, all of it in the workspace ---- */

typedef struct layer {
    double *x, *h1, *q_raw, *k_raw, *q, *k, *v, *out, *middle, *h2, *gate, *up, *act;
} layer;

typedef struct pass {
    ts_ternary_dims d;
    const int32_t  *tokens;
    int64_t         n_tok, n_pos, n;
    double         *w, *g; /* effective weights, and their gradient */
    double         *room;  /* what is left of the workspace */
    double         *p;     /* [n_pos] */
} pass;

static double *take(pass *p, int64_t n)
{
    double *const here = p->room;
    p->room += n;
    for (int64_t i = 0; i < HOOK(n_cleared, n); i++) here[i] = 0;
    return here;
}

static int64_t layer_size(const ts_ternary_dims *d)
{
    const int64_t q = d->n_head * d->head_dim, kv = d->n_kv_head * d->head_dim;
    return 4 * d->width + 3 * q + 3 * kv + 3 * d->ffn;
}

/* Doubles of a pass, with room for one layer's gradients. */
static int64_t pass_size(const ts_ternary_dims *d)
{
    const int64_t n = d->max_batch * (d->max_tokens - 1);
    return 2 * count_all(d) + d->max_tokens +
           n * ((d->n_layer + 2) * layer_size(d) + 4 * d->width + d->n_vocab);
}

/* Laid out from `at` on. */
static layer layer_at(const pass *p, double *at)
{
    const ts_ternary_dims *d = &p->d;
    const int64_t          wide = p->n * d->width, q = p->n * d->n_head * d->head_dim;
    const int64_t          kv = p->n * d->n_kv_head * d->head_dim, f = p->n * d->ffn;
    layer                  y;
    y.x = at, y.h1 = y.x + wide, y.middle = y.h1 + wide, y.h2 = y.middle + wide;
    y.q_raw = y.h2 + wide, y.q = y.q_raw + q, y.out = y.q + q;
    y.k_raw = y.out + q, y.k = y.k_raw + kv, y.v = y.k + kv;
    y.gate = y.v + kv, y.up = y.gate + f, y.act = y.up + f;
    return y;
}

static void linear(const pass *p, int64_t i, const double *in, double *y)
{
    const matrix m = matrix_of(&p->d, i);
    for (int64_t r = 0; r < p->n; r++)
        for (int64_t o = 0; o < m.n_out; o++) {
            double sum = 0;
            for (int64_t c = 0; c < m.n_in; c++)
                sum += in[r * m.n_in + c] * HOOK(head_weight, p->w[m.at + o * m.n_in + c]);
            y[r * m.n_out + o] = HOOK(activation, sum);
        }
}

/* dx += */
static void linear_back(const pass *p, int64_t i, const double *in, const double *dy, double *dx)
{
    const matrix m = matrix_of(&p->d, i);
    for (int64_t r = 0; r < p->n; r++)
        for (int64_t o = 0; o < m.n_out; o++)
            for (int64_t c = 0; c < m.n_in; c++) {
                const int64_t at = m.at + o * m.n_in + c;
                dx[r * m.n_in + c] += dy[r * m.n_out + o] * HOOK(back_weight, p->w[at]);
                p->g[at] += HOOK(dw, dy[r * m.n_out + o] * in[r * m.n_in + c]);
            }
}

static double rms_scale(const pass *p, const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return HOOK(rms_scale, 1 / sqrt(sum / (double)n + p->d.norm_eps));
}

static void rms(const pass *p, int64_t gain, const double *x, double *y, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        const double s = HOOK(row_scale, rms_scale(p, x, n));
        for (int64_t i = 0; i < n; i++) y[i] = x[i] * s * p->w[gain + i];
    }
}

/* dx += */
static void rms_back(const pass *p, int64_t gain, const double *x, const double *dy, double *dx,
                     int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++, x += n, dy += n, dx += n) {
        const double s = rms_scale(p, x, n);
        double       dot = 0;
        for (int64_t i = 0; i < n; i++) {
            dot += p->w[gain + i] * dy[i] * x[i];
            p->g[gain + i] += dy[i] * x[i] * s;
        }
        for (int64_t i = 0; i < n; i++)
            dx[i] += s * (p->w[gain + i] * dy[i] - x[i] * s * s * dot / (double)n);
    }
}

static void rotate(const pass *p, double *x, int64_t n_head, int sign)
{
    const int64_t half = p->d.head_dim / 2;
    for (int64_t r = 0; r < p->n * n_head; r++, x += 2 * half)
        for (int64_t i = 0; i < half; i++) {
            const double  position = HOOK(position, (double)(r / n_head % p->n_pos));
            const double  theta = HOOK(theta, p->d.rope_theta);
            const double  a = position * pow(theta, -2.0 * (double)i / (double)p->d.head_dim);
            double *const one = &x[HOOK(one, i)], *const other = &x[HOOK(other, i + half)];
            const double u = *one, v = *other;
            *one = u * cos(a) - sign * v * sin(a);
            *other = v * cos(a) + sign * u * sin(a);
        }
}

/* Of query r and head h: where it begins, where the first key of its sequence does, how many. */
typedef struct view {
    int64_t q, k, step, n;
} view;

static view view_of(const pass *p, int64_t r, int64_t h)
{
    const ts_ternary_dims *d = &p->d;
    const int64_t          first = HOOK(first_key, r / p->n_pos * p->n_pos);
    const int64_t          kv = HOOK(kv_head, h * d->n_kv_head / d->n_head);
    const int64_t          step = d->n_kv_head * d->head_dim;
    return (view) { (r * d->n_head + h) * d->head_dim, first * step + kv * d->head_dim, step,
                    HOOK(n_keys, r - first + 1) };
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void weigh(const pass *p, const layer *y, const view *s)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->n; j++) {
        p->p[j] = dot(y->q + s->q, y->k + s->k + j * s->step, p->d.head_dim) /
                  HOOK(score_divisor, sqrt((double)p->d.head_dim));
        most = fmax(most, p->p[j]);
    }
    for (int64_t j = 0; j < s->n; j++) sum += p->p[j] = exp(p->p[j] - most);
    for (int64_t j = 0; j < s->n; j++) p->p[j] /= sum;
}

static void attend(const pass *p, const layer *y)
{
    for (int64_t i = 0; i < p->n * p->d.n_head; i++) {
        const view s = view_of(p, i / p->d.n_head, i % p->d.n_head);
        weigh(p, y, &s);
        for (int64_t c = 0; c < p->d.head_dim; c++) {
            y->out[s.q + c] = 0;
            for (int64_t j = 0; j < s.n; j++)
                y->out[s.q + c] += p->p[j] * y->v[s.k + j * s.step + c];
        }
    }
}

static void attend_back(const pass *p, const layer *y, const layer *d)
{
    const int64_t dim = p->d.head_dim;
    for (int64_t i = 0; i < p->n * p->d.n_head; i++) {
        const view   s = view_of(p, i / p->d.n_head, i % p->d.n_head);
        const double delta = dot(d->out + s.q, y->out + s.q, dim);
        weigh(p, y, &s);
        for (int64_t j = 0; j < s.n; j++) {
            const int64_t at = s.k + j * s.step;
            const double  ds = p->p[j] * (dot(d->out + s.q, y->v + at, dim) - delta) /
                              HOOK(score_divisor, sqrt((double)dim));
            for (int64_t c = 0; c < dim; c++) {
                d->q[s.q + c] += ds * y->k[at + c];
                d->k[at + c] += ds * y->q[s.q + c];
                d->v[at + c] += p->p[j] * d->out[s.q + c];
            }
        }
    }
}

static void forward(const pass *p, int64_t l, const layer *y, double *next)
{
    const ts_ternary_dims *d = &p->d;
    const int64_t          first = 1 + SLOTS * l, wide = p->n * d->width;
    rms(p, gain_at(d, l, NORM_1), y->x, y->h1, p->n, d->width);
    linear(p, first + Q, y->h1, y->q_raw);
    linear(p, first + K, y->h1, y->k_raw);
    linear(p, first + V, y->h1, y->v);
    rms(p, gain_at(d, l, NORM_Q), y->q_raw, y->q, p->n * d->n_head, d->head_dim);
    rms(p, gain_at(d, l, NORM_K), y->k_raw, y->k, p->n * d->n_kv_head, d->head_dim);
    rotate(p, y->q, d->n_head, 1);
    rotate(p, y->k, d->n_kv_head, 1);
    attend(p, y);
    linear(p, first + O, y->out, y->middle);
    for (int64_t i = 0; i < HOOK(n_residual, wide); i++) y->middle[i] += y->x[i];
    rms(p, gain_at(d, l, NORM_2), y->middle, y->h2, p->n, d->width);
    linear(p, first + GATE, y->h2, y->gate);
    linear(p, first + UP, y->h2, y->up);
    for (int64_t i = 0; i < p->n * d->ffn; i++)
        y->act[i] = HOOK(act, y->gate[i] / (1 + exp(-y->gate[i])) * y->up[i]);
    linear(p, first + DOWN, y->act, next);
    for (int64_t i = 0; i < wide; i++) next[i] += y->middle[i];
}

/* dx: after the layer, and then before it. */
static void backward(pass p, int64_t l, const layer *y, double *dx)
{
    const ts_ternary_dims *d = &p.d;
    const int64_t          first = 1 + SLOTS * l;
    const layer            e = layer_at(&p, take(&p, layer_size(d) * p.n));
    linear_back(&p, first + DOWN, y->act, dx, e.act);
    for (int64_t i = 0; i < p.n * d->ffn; i++) {
        const double g = y->gate[i], s = 1 / (1 + exp(-g));
        e.gate[i] = e.act[i] * y->up[i] * s * (1 + g * (1 - s));
        e.up[i] = e.act[i] * g * s;
    }
    linear_back(&p, first + GATE, y->h2, e.gate, e.h2);
    linear_back(&p, first + UP, y->h2, e.up, e.h2);
    rms_back(&p, gain_at(d, l, NORM_2), y->middle, e.h2, dx, p.n, d->width);
    linear_back(&p, first + O, y->out, dx, e.out);
    attend_back(&p, y, &e);
    rotate(&p, e.q, d->n_head, -1);
    rotate(&p, e.k, d->n_kv_head, -1);
    rms_back(&p, gain_at(d, l, NORM_Q), y->q_raw, e.q, e.q_raw, p.n * d->n_head, d->head_dim);
    rms_back(&p, gain_at(d, l, NORM_K), y->k_raw, e.k, e.k_raw, p.n * d->n_kv_head, d->head_dim);
    linear_back(&p, first + Q, y->h1, e.q_raw, e.h1);
    linear_back(&p, first + K, y->h1, e.k_raw, e.h1);
    linear_back(&p, first + V, y->h1, e.v, e.h1);
    rms_back(&p, gain_at(d, l, NORM_1), y->x, e.h1, dx, p.n, d->width);
}

/* ---- loss ---- */

static int32_t token_at(const pass *p, int64_t r, int64_t later)
{
    return HOOK(token, p->tokens[r / p->n_pos * p->n_tok + r % p->n_pos + later]);
}

/* Logits of one row become the gradient of the mean. */
static double entropy(const pass *p, double *z, int32_t target)
{
    double most = z[0], sum = 0;
    for (int64_t v = 1; v < p->d.n_vocab; v++) most = fmax(most, z[v]);
    for (int64_t v = 0; v < p->d.n_vocab; v++) sum += exp(z[v] - most);
    const double nll = HOOK(nll, log(sum) + most - z[target]);
    for (int64_t v = 0; v < p->d.n_vocab; v++)
        z[v] = (exp(z[v] - most) / sum - (v == target)) / (double)HOOK(n_targets, p->n);
    return nll;
}

static layer layer_of(const pass *p, double *layers, int64_t l)
{
    return layer_at(p, layers + l * layer_size(&p->d) * p->n);
}

/* Sum over all targets; p->g has the gradient of the mean. */
static double run(pass *p)
{
    const ts_ternary_dims *d = &p->d;
    const int64_t          width = d->width, wide = p->n * width;
    double                *last = take(p, wide), *h = take(p, wide), *dh = take(p, wide);
    double                *dx = take(p, wide), *z = take(p, p->n * d->n_vocab);
    double                *layers = take(p, d->n_layer * layer_size(d) * p->n), nll = 0;
    for (int64_t r = 0; r < p->n; r++)
        for (int64_t i = 0; i < width; i++)
            layers[r * width + i] = HOOK(embedding, p->w[token_at(p, r, 0) * width + i]);
    for (int64_t l = 0; l < d->n_layer; l++) {
        const layer   y = layer_of(p, layers, l);
        double *const next = l + 1 < d->n_layer ? layer_of(p, layers, l + 1).x : last;
        forward(p, l, &y, next);
        HERE(layer_done);
    }
    rms(p, gain_at(d, d->n_layer, NORM_1), last, h, p->n, width);
    HERE(last_norm);
    linear(p, 0, h, z);
    for (int64_t r = 0; r < p->n; r++)
        nll += entropy(p, z + r * d->n_vocab, token_at(p, r, HOOK(label, 1)));
    linear_back(p, 0, h, z, dh);
    rms_back(p, gain_at(d, d->n_layer, NORM_1), last, dh, dx, p->n, width);
    for (int64_t l = HOOK(last_layer, d->n_layer - 1); l >= 0; l--) {
        const layer y = layer_of(p, layers, l);
        backward(*p, l, &y, dx);
    }
    for (int64_t r = 0; r < p->n; r++)
        for (int64_t i = 0; i < width; i++)
            p->g[token_at(p, r, 0) * width + i] += HOOK(d_embedding, dx[r * width + i]);
    HERE(gradients);
    return nll;
}

/* ---- the contract ---- */

static ts_status check_dims(const ts_ternary_dims *d)
{
    const int64_t extent[] = { d->n_vocab,   d->width,    d->n_layer, d->n_head,
                               d->n_kv_head, d->head_dim, d->ffn,     d->max_batch };
    for (int i = 0; i < 8; i++)
        if (extent[i] < 1 || extent[i] > INT32_MAX) return TS_E_SHAPE;
    if (d->max_tokens < 2 || HOOK(uneven, d->n_head % d->n_kv_head) || d->head_dim % 2)
        return TS_E_SHAPE;
    const double rows = (double)d->max_batch * (double)d->max_tokens, width = (double)d->width;
    const double wide = fmax((double)d->ffn, (double)d->n_head * (double)d->head_dim);
    const double most = fmax((double)d->n_vocab, (double)d->n_layer * fmax(wide, width));
    if (d->head_dim > 256 || d->max_tokens > INT32_MAX || fmax(rows, width) * most >= 0x1p44)
        return TS_E_SHAPE;
    if (!(d->rope_theta > 0) || !(d->norm_eps > 0)) return TS_E_ARG;
    return isinf(d->rope_theta) || isinf(d->norm_eps) ? TS_E_ARG : TS_OK;
}

ts_status ts_ternary_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *state_bytes,
                           size_t *workspace_bytes)
{
    const ts_status s = d && x && state_bytes && workspace_bytes ? check_dims(d) : TS_E_ARG;
    if (s) return s;
    if (x->device != TS_CPU) return TS_E_UNSUPPORTED;
    *state_bytes = sizeof(ts_ternary) + (size_t)count_all(d) * 3 * sizeof(float) + ALIGN;
    *workspace_bytes = (size_t)pass_size(d) * sizeof(double) + ALIGN;
    return TS_OK;
}

static ts_status check_range(const ts_ternary_dims *d, const float *w, const float *norm)
{
    for (int64_t i = 0; i < count_all(d) - count_latents(d); i++)
        if (!isfinite(norm[i])) return TS_E_RANGE;
    for (int64_t i = 0; i <= SLOTS * d->n_layer; i++) {
        const matrix m = matrix_of(d, i);
        for (int64_t at = m.at, end; at < m.at + m.n_out * m.n_in; at = end) {
            end = group_end(&m, at);
            if (!isfinite(mean_of(w + at, end - at)) || isinf(scale_of(w + at, end - at)))
                return TS_E_RANGE;
        }
    }
    return TS_OK;
}

ts_status ts_ternary_create(const ts_ternary_dims *d, const ts_exec *x, const float *latent,
                            const float *norm, void *memory, size_t memory_bytes, ts_ternary **out)
{
    size_t    state, work;
    ts_status s = ts_ternary_bytes(d, x, &state, &work);
    if (s) return s;
    if (!latent || !norm || !memory || !out) return TS_E_ARG;
    if (memory_bytes < HOOK(least_memory, state)) return TS_E_WORKSPACE;
    s = HOOK(range, check_range(d, latent, norm));
    if (s) return s;
    ts_ternary *const t = aligned(memory);
    const int64_t     n = count_all(d), n_latent = count_latents(d);
    float *const      w = (float *)(t + 1);
    *t = (ts_ternary) { *d, n_latent, n - n_latent, 0, w, w + n, w + 2 * n };
    memcpy(w, latent, (size_t)n_latent * sizeof *w);
    memcpy(w + n_latent, norm, (size_t)(n - n_latent) * sizeof *w);
    memset(w + n, 0, 2 * (size_t)n * sizeof *w);
    HERE(created);
    *out = t;
    return TS_OK;
}

ts_status ts_ternary_destroy(ts_ternary **t)
{
    if (!t) return TS_E_ARG;
    *t = NULL;
    return TS_OK;
}

static ts_status check_call(const ts_ternary *t, const ts_exec *x)
{
    size_t          state, work;
    const ts_status s = t ? ts_ternary_bytes(&t->d, x, &state, &work) : TS_E_ARG;
    if (s) return s;
    return HOOK(has_room, x->workspace && x->workspace_bytes >= work) ? TS_OK : TS_E_WORKSPACE;
}

static ts_status check_batch(const ts_ternary *t, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                             const int32_t *tokens)
{
    if (!t || !x || !tokens) return TS_E_ARG;
    if (HOOK(no_target, n_batch < 1 || n_tok < 2)) return TS_E_SHAPE;
    if (n_batch > t->d.max_batch || n_tok > t->d.max_tokens) return TS_E_CAPACITY;
    for (int64_t i = 0; i < HOOK(n_checked, n_batch * n_tok); i++)
        if (tokens[i] < 0 || tokens[i] >= t->d.n_vocab) return TS_E_ARG;
    return HOOK(batch, check_call(t, x));
}

/* Loss and gradient of a batch, in the workspace. */
static double run_batch(const ts_ternary *t, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                        const int32_t *tokens, pass *p)
{
    *p = (pass) { .d = t->d, .tokens = tokens, .n_tok = n_tok };
    p->n_pos = HOOK(n_pos, n_tok - 1);
    p->n = HOOK(n_batch, n_batch) * p->n_pos;
    HERE(batch);
    p->room = aligned(x->workspace);
    p->w = take(p, t->n_latent + t->n_norm);
    p->g = take(p, t->n_latent + t->n_norm);
    p->p = take(p, p->n_pos);
    serve(t, p->w);
    return HOOK(batch_nll, run(p));
}

ts_status ts_ternary_grad(ts_ternary *t, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                          const int32_t *tokens, double *loss, float *dlatent, float *dnorm)
{
    pass p;
    HERE(grad_called);
    ts_status s = check_batch(t, x, n_batch, n_tok, tokens);
    if (!s && (!loss || !dlatent || !dnorm)) s = TS_E_ARG;
    if (s) return s;
    const double nll = run_batch(t, x, n_batch, n_tok, tokens, &p);
    *loss = HOOK(loss, nll / (double)p.n);
    for (int64_t i = 0; i < t->n_latent; i++) dlatent[i] = HOOK(dlatent, (float)p.g[i]);
    for (int64_t i = 0; i < HOOK(n_dnorm, t->n_norm); i++) dnorm[i] = (float)p.g[t->n_latent + i];
    HERE(grad_done);
    return TS_OK;
}

static int sound(const ts_adamw *h)
{
    const double some[] = { h->lr, h->beta1, h->beta2, h->weight_decay, h->clip_norm };
    for (int i = 0; i < 5; i++)
        if (!(some[i] >= 0) || isinf(some[i])) return 0;
    return h->beta1 < 1 && h->beta2 < 1 && h->eps > 0 && !isinf(h->eps);
}

static void adamw(ts_ternary *t, const ts_adamw *h, const double *g)
{
    const int64_t n = t->n_latent + t->n_norm;
    double        sum = 0;
    HERE(adamw);
    for (int64_t i = 0; i < n; i++) sum += g[i] * g[i];
    const double norm = sqrt(sum), step = (double)++t->n_step;
    const double clip = h->clip_norm > 0 && norm > h->clip_norm ? h->clip_norm / norm : 1;
    const double bias1 = HOOK(bias1, 1 - pow(h->beta1, step));
    const double bias2 = HOOK(bias2, 1 - pow(h->beta2, step));
    for (int64_t i = 0; i < n; i++) {
        const double w = t->w[i], d = HOOK(clipped, clip * g[i]);
        const double m = h->beta1 * t->m[i] + (1 - h->beta1) * d;
        const double v = h->beta2 * t->v[i] + (1 - h->beta2) * d * d;
        const double divisor = HOOK(divisor, sqrt(v / bias2) + h->eps);
        const double decay = HOOK(decay, i < t->n_latent ? h->weight_decay * w : 0);
        t->m[i] = (float)HOOK(kept_m, m);
        t->v[i] = (float)HOOK(kept_v, v);
        t->w[i] = (float)HOOK(kept_w, w - h->lr * (m / bias1 / divisor + decay));
    }
}

ts_status ts_ternary_step(ts_ternary *t, const ts_exec *x, const ts_adamw *h, int64_t n_batch,
                          int64_t n_tok, const int32_t *tokens, double *loss)
{
    pass      p;
    ts_status s = check_batch(t, x, n_batch, n_tok, tokens);
    if (!s && (!h || !loss || !HOOK(sound, sound(h)))) s = TS_E_ARG;
    if (s) return HOOK(refused_step, s);
    const double nll = run_batch(t, x, n_batch, n_tok, tokens, &p);
    for (int64_t i = 0; i < t->n_latent + t->n_norm; i++)
        if (!isfinite(p.g[i])) return TS_E_RANGE;
    adamw(t, h, p.g);
    *loss = nll / (double)p.n;
    HERE(step_done);
    return TS_OK;
}

ts_status ts_ternary_eval(ts_ternary *t, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                          const int32_t *tokens, double *nll_sum, int64_t *n_count)
{
    pass      p;
    ts_status s = nll_sum && n_count ? check_batch(t, x, n_batch, n_tok, tokens) : TS_E_ARG;
    if (s) return s;
    *nll_sum = run_batch(t, x, n_batch, n_tok, tokens, &p);
    *n_count = p.n;
    HERE(eval_done);
    return TS_OK;
}

ts_status ts_ternary_export(ts_ternary *t, const ts_exec *x, uint8_t *code, uint16_t *scale,
                            float *norm)
{
    const ts_status s = code && scale && norm ? check_call(t, x) : TS_E_ARG;
    if (s) return s;
    for (int64_t i = 0; i <= SLOTS * t->d.n_layer; i++) {
        const matrix m = matrix_of(&t->d, i);
        for (int64_t at = m.at; at < m.at + m.n_out * m.n_in;
             at = group_end(&m, at), code += BYTES) {
            const float  *w = HOOK(exported, t->w) + at;
            const int64_t n = group_end(&m, at) - at;
            const double  each = scale_of(w, n);
            store(scale++, TS_F16, 0, each);
            memset(code, 0, BYTES);
            for (int64_t j = 0; j < GROUP; j++) {
                const int point = HOOK(point, 1 + (j < n ? code_of(w[j], each) : 0));
                code[j / 4] |= (uint8_t)(point << 2 * HOOK(place, j % 4));
            }
        }
    }
    memcpy(norm, t->w + t->n_latent, (size_t)t->n_norm * sizeof *norm);
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training.c - mutants of ternary_training: one correct implementation, in double, with one
 * injected bug at a time. ternary_training_list.h lists them. */
#include "ternary_training_script.h"

#include <math.h>
#include <string.h>

#include "dtype.h"
#include "mutant.h"
#include "ternary_training_list.h"

#define NAME(trap, name, fault, family) trap,
typedef enum trap { MUTANTS(NAME) N_TRAPS } trap;

static trap now;

enum { GROUP = 128, BYTES = 32 };
enum { Q, K, V, O, GATE, UP, DOWN, SLOTS };
enum { NORM_1, NORM_Q, NORM_K, NORM_2 };

struct ts_ternary {
    ts_ternary_dims d;
    int64_t         n_latent, n_norm, n_step;
    float          *w, *m, *v; /* latents and then gains */
    const float    *given;     /* a trap */
};

/* ---- where things are ---- */

typedef struct matrix {
    int64_t at, n_out, n_in;
} matrix;

static int64_t groups(int64_t n_in)
{
    return (n_in + GROUP - 1) / GROUP;
}

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

static int64_t matrices(const ts_ternary_dims *d)
{
    return 1 + SLOTS * d->n_layer;
}

static int64_t count_latents(const ts_ternary_dims *d)
{
    const matrix m = matrix_of(d, matrices(d) - 1);
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

static int64_t group_size(const matrix *m, int64_t g)
{
    const int64_t left = m->n_in - g * GROUP;
    return left < GROUP ? left : GROUP;
}

static double mean_of(const float *w, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += fabs((double)w[j]);
    return sum / (double)(now == PADDED_MEAN ? GROUP : n);
}

/* Bugs round a number as a narrow dtype would. */
static double narrow(double v, ts_dtype t)
{
    uint16_t h;
    ts_store(&h, t, 0, v);
    return ts_load(&h, t, 0);
}

static double scale_of(const float *w, int64_t n)
{
    if (now == MAX_SCALE) {
        double most = 0;
        for (int64_t j = 0; j < n; j++) most = fmax(most, fabs((double)w[j]));
        return narrow(most, TS_F16);
    }
    return narrow(mean_of(w, n), now == BF16_SCALE ? TS_BF16 : TS_F16);
}

static int code_of(double w, double s)
{
    if (now == TIE_UP) return s == 0 || 2 * fabs(w) < s ? 0 : w < 0 ? -1 : 1;
    if (now == SIGN_ONLY) return w < 0 ? -1 : 1;
    return s == 0 || 2 * fabs(w) <= s ? 0 : w < 0 ? -1 : 1;
}

/* Weight j of a group that begins at `at`. */
static double weight_of(const ts_ternary *t, int64_t j, double s, int64_t at, int64_t n)
{
    const double w = t->w[j];
    if (now == UNROUNDED_SCALE) return code_of(w, s) * mean_of(t->w + at, n);
    if (now == UNCLIPPED) return s == 0 ? 0 : rint(w / s) * s;
    if (now == ZERO_DIVIDED) return (w / s > 0.5 ? 1 : w / s < -0.5 ? -1 : 0 * (w / s)) * s;
    if (now == DENSE) return w;
    return code_of(w, s) * s;
}

/* A bug: groups are along the outputs. */
static void serve_columns(const ts_ternary *t, const matrix *m, double *to)
{
    for (int64_t c = 0; c < m->n_in; c++)
        for (int64_t g = 0; g < m->n_out; g += GROUP) {
            const int64_t end = g + GROUP < m->n_out ? g + GROUP : m->n_out;
            double        sum = 0;
            for (int64_t r = g; r < end; r++) sum += fabs((double)t->w[m->at + r * m->n_in + c]);
            const double s = narrow(sum / (double)(end - g), TS_F16);
            for (int64_t r = g; r < end; r++) {
                const int64_t at = m->at + r * m->n_in + c;
                to[at] = code_of(t->w[at], s) * s;
            }
        }
}

static void serve(const ts_ternary *t, double *to)
{
    for (int64_t i = 0; i < matrices(&t->d); i++) {
        const matrix m = matrix_of(&t->d, i);
        if (now == BY_OUTPUTS) {
            serve_columns(t, &m, to);
            continue;
        }
        for (int64_t r = 0; r < m.n_out; r++)
            for (int64_t g = 0; g < groups(m.n_in); g++) {
                const int64_t at = m.at + r * m.n_in + g * GROUP, n = group_size(&m, g);
                const double  s = scale_of(t->w + at, n);
                for (int64_t j = at; j < at + n; j++) to[j] = weight_of(t, j, s, at, n);
            }
    }
    for (int64_t i = t->n_latent; i < t->n_latent + t->n_norm; i++) to[i] = t->w[i];
    for (int64_t i = 512 * t->d.width; i < t->d.n_vocab * t->d.width && now == VOCAB_512; i++)
        to[i] = 0;
}

/* ---- a pass, all of it in the workspace ---- */

typedef struct layer {
    double *x, *h1, *q_raw, *k_raw, *q, *k, *v, *out, *middle, *h2, *gate, *up, *act;
} layer;

typedef struct pass {
    ts_ternary_dims d;
    const int32_t  *tokens;
    const float    *latent;
    int64_t         n_batch, n_tok, n_pos, n;
    double         *w, *g; /* effective weights, and their gradient */
    double         *room;  /* what is left of the workspace */
    double         *p;     /* [n_pos] */
} pass;

static double *take(pass *p, int64_t n)
{
    double *const here = p->room;
    p->room += n;
    for (int64_t i = 0; i < n && now != DIRTY_WORKSPACE; i++) here[i] = 0;
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
                sum += in[r * m.n_in + c] * (now == DENSE_HEAD && i == 0
                                                 ? (double)p->latent[m.at + o * m.n_in + c]
                                                 : p->w[m.at + o * m.n_in + c]);
            y[r * m.n_out + o] = now == BF16_PASS ? narrow(sum, TS_BF16) : sum;
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
                dx[r * m.n_in + c] +=
                    dy[r * m.n_out + o] * (now == DX_OF_LATENTS ? (double)p->latent[at] : p->w[at]);
                if (now == NO_HEAD_GRADIENT && i == 0) continue;
                p->g[at] += dy[r * m.n_out + o] * in[r * m.n_in + c];
            }
}

/* Bugs: gradients that are not straight-through. */
static void bend(const pass *p)
{
    for (int64_t i = 0; i < matrices(&p->d); i++) {
        const matrix m = matrix_of(&p->d, i);
        for (int64_t k = 0; k < m.n_out * groups(m.n_in); k++) {
            const int64_t g = k % groups(m.n_in), n = group_size(&m, g);
            const int64_t at = m.at + k / groups(m.n_in) * m.n_in + g * GROUP;
            const double  s = scale_of(p->latent + at, n);
            double        sum = 0;
            for (int64_t j = at; j < at + n; j++) sum += p->g[j] * code_of(p->latent[j], s);
            for (int64_t j = at; j < at + n; j++) {
                const double w = p->latent[j];
                if (now == MASKED && fabs(w) > s) p->g[j] = 0;
                if (now == THROUGH_SCALE) p->g[j] += (w < 0 ? -1 : 1) * sum / (double)n;
                if (now == TIMES_SCALE) p->g[j] *= s;
            }
        }
    }
}

static double rms_scale(const pass *p, const double *x, int64_t n)
{
    double sum = 0;
    double mean = 0;
    for (int64_t i = 0; i < n; i++) mean += now == LAYERNORM ? x[i] / (double)n : 0;
    for (int64_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    if (now == EPS_OUTSIDE) return 1 / (sqrt(sum / (double)n) + p->d.norm_eps);
    return 1 / sqrt(sum / (double)n + (now == OWN_EPS ? 1e-5 : p->d.norm_eps));
}

static void rms(const pass *p, int64_t gain, const double *x, double *y, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        const double s = now == NO_QK_NORM && n == p->d.head_dim ? 1 : rms_scale(p, x, n);
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
            const bool   query = n_head > p->d.n_kv_head;
            const double position =
                now == NO_ROPE
                    ? 0
                    : (double)(r / n_head % p->n_pos + (now == POSITION_FROM_1 && query));
            const double a = position * pow(now == OWN_THETA ? 1e6 : p->d.rope_theta,
                                            -2.0 * (double)i / (double)p->d.head_dim);
            const int64_t one = now == BY_NEIGHBOURS ? 2 * i : i,
                          other = now == BY_NEIGHBOURS ? one + 1 : i + half;
            const double u = x[one], v = x[other];
            x[one] = u * cos(a) - sign * v * sin(a);
            x[other] = v * cos(a) + sign * u * sin(a);
        }
}

/* ---- attention ---- */

/* Of query r and head h: where it begins, where the first key of its sequence does, how many. */
typedef struct view {
    int64_t q, k, step, n;
} view;

static view view_of(const pass *p, int64_t r, int64_t h)
{
    const ts_ternary_dims *d = &p->d;
    const int64_t          begin = r / p->n_pos * p->n_pos, step = d->n_kv_head * d->head_dim;
    const int64_t          first = now == SEES_BATCH ? 0 : begin;
    const int64_t kv = now == HEAD_MODULO ? h % d->n_kv_head : h * d->n_kv_head / d->n_head;
    const int64_t seen = now == SEES_AHEAD ? p->n_pos : r - first + 1;
    const int64_t n = now == NINE_TOKENS && seen > 9 ? 9 : seen;
    return (view) { (r * d->n_head + h) * d->head_dim, first * step + kv * d->head_dim, step, n };
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static double score_divisor(const pass *p)
{
    return now == NO_SCORE_SCALE ? 1 : sqrt((double)p->d.head_dim);
}

static void weigh(const pass *p, const layer *y, const view *s)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->n; j++) {
        p->p[j] = dot(y->q + s->q, y->k + s->k + j * s->step, p->d.head_dim) / score_divisor(p);
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
            const double  ds =
                p->p[j] * (dot(d->out + s.q, y->v + at, dim) - delta) / score_divisor(p);
            for (int64_t c = 0; c < dim; c++) {
                d->q[s.q + c] += ds * y->k[at + c];
                d->k[at + c] += ds * y->q[s.q + c];
                d->v[at + c] += p->p[j] * d->out[s.q + c];
            }
        }
    }
}

/* ---- a layer ---- */

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
    for (int64_t i = 0; i < wide && now != NO_RESIDUAL; i++) y->middle[i] += y->x[i];
    rms(p, gain_at(d, l, NORM_2), y->middle, y->h2, p->n, d->width);
    linear(p, first + GATE, y->h2, y->gate);
    linear(p, first + UP, y->h2, y->up);
    for (int64_t i = 0; i < p->n * d->ffn; i++)
        y->act[i] = now == OWN_FFN && i % d->ffn >= 3 * d->width ? 0
                    : now == GATE_UP_SWAPPED ? y->up[i] / (1 + exp(-y->up[i])) * y->gate[i]
                                             : y->gate[i] / (1 + exp(-y->gate[i])) * y->up[i];
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
    const int32_t t = p->tokens[r / p->n_pos * p->n_tok + r % p->n_pos + later];
    return t < 0 || t >= p->d.n_vocab ? 0 : t; /* a bug accepts others */
}

/* Logits of one row become the gradient of the mean. */
static double entropy(const pass *p, double *z, int32_t target)
{
    double most = -INFINITY, sum = 0;
    for (int64_t v = 0; v < p->d.n_vocab; v++) most = fmax(most, z[v]);
    for (int64_t v = 0; v < p->d.n_vocab; v++) sum += exp(z[v] - most);
    const double part = exp(z[target] - most) / sum, n = (double)p->n;
    const double nll = now == LOG_OF_TINY ? -log(part + 1e-10) : log(sum) + most - z[target];
    for (int64_t v = 0; v < p->d.n_vocab; v++)
        z[v] = (exp(z[v] - most) / sum - (v == target)) / (now == SUM_GRADIENT ? 1 : n);
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
            layers[r * width + i] = now == DENSE_EMBEDDING
                                        ? (double)p->latent[token_at(p, r, 0) * width + i]
                                        : p->w[token_at(p, r, 0) * width + i];
    for (int64_t l = 0; l < d->n_layer; l++) {
        const layer   y = layer_of(p, layers, l);
        double *const next = l + 1 < d->n_layer ? layer_of(p, layers, l + 1).x : last;
        if (now == TWO_LAYERS && l > 1) memcpy(next, y.x, (size_t)wide * sizeof *next);
        else forward(p, l, &y, next);
    }
    rms(p, gain_at(d, d->n_layer, NORM_1), last, h, p->n, width);
    if (now == NO_LAST_NORM) memcpy(h, last, (size_t)wide * sizeof *h);
    linear(p, 0, h, z);
    for (int64_t r = 0; r < p->n; r++)
        nll += entropy(p, z + r * d->n_vocab, token_at(p, r, now != LABELS_SWAPPED));
    linear_back(p, 0, h, z, dh);
    rms_back(p, gain_at(d, d->n_layer, NORM_1), last, dh, dx, p->n, width);
    for (int64_t l = d->n_layer - 1; l >= 0; l--) {
        const layer y = layer_of(p, layers, l);
        if (now != TWO_LAYERS || l < 2) backward(*p, l, &y, dx);
    }
    for (int64_t r = 0; r < p->n && now != NO_EMBEDDING_GRADIENT; r++)
        for (int64_t i = 0; i < width; i++) {
            double *const to = &p->g[token_at(p, r, 0) * width + i];
            *to = dx[r * width + i] + (now == LAST_ONE_KEPT ? 0 : *to);
        }
    bend(p);
    return nll;
}

/* ---- the contract ---- */

static ts_status check_dims(const ts_ternary_dims *d)
{
    const int64_t extent[] = { d->n_vocab,   d->width,    d->n_layer, d->n_head,
                               d->n_kv_head, d->head_dim, d->ffn,     d->max_batch };
    for (int i = 0; i < 8; i++)
        if (extent[i] < 1 || extent[i] > INT32_MAX) return TS_E_SHAPE;
    const double width = (double)d->width, deep = (double)d->n_layer, most = 0x1p44;
    const double wide = fmax((double)d->ffn, (double)d->n_head * (double)d->head_dim);
    const double rows = (double)d->max_batch * (double)d->max_tokens;
    if (fmax((double)d->n_vocab, deep * wide) * width >= most || d->max_tokens > INT32_MAX ||
        rows * fmax(width, deep * wide) >= most)
        return TS_E_SHAPE;
    if (d->max_tokens < 2 || (d->n_head % d->n_kv_head && now != ANY_HEADS) || d->head_dim % 2 ||
        d->head_dim > 256)
        return TS_E_SHAPE;
    if (!(d->rope_theta > 0) || !(d->norm_eps > 0)) return TS_E_ARG;
    return isinf(d->rope_theta) || isinf(d->norm_eps) ? TS_E_ARG : TS_OK;
}

static ts_status tt_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *state_bytes,
                          size_t *workspace_bytes)
{
    if (!d || !x || !state_bytes || !workspace_bytes) return TS_E_ARG;
    const ts_status s = check_dims(d);
    if (s) return s;
    if (x->device != TS_CPU) return TS_E_UNSUPPORTED;
    *state_bytes = sizeof(ts_ternary) + (size_t)count_all(d) * 3 * sizeof(float) + 16;
    *workspace_bytes = (size_t)pass_size(d) * sizeof(double) + 16;
    return TS_OK;
}

static void *aligned(void *p)
{
    return (char *)p + (16 - (uintptr_t)p % 16) % 16;
}

static ts_status check_range(const ts_ternary_dims *d, const float *w, const float *norm)
{
    for (int64_t i = 0; i < count_all(d) - count_latents(d); i++)
        if (!isfinite(norm[i])) return TS_E_RANGE;
    for (int64_t i = 0; i < matrices(d); i++) {
        const matrix m = matrix_of(d, i);
        for (int64_t k = 0; k < m.n_out * groups(m.n_in); k++) {
            const int64_t g = k % groups(m.n_in);
            const float  *at = w + m.at + k / groups(m.n_in) * m.n_in + g * GROUP;
            if (!isfinite(mean_of(at, group_size(&m, g))) || isinf(scale_of(at, group_size(&m, g))))
                return TS_E_RANGE;
        }
    }
    return TS_OK;
}

static ts_status tt_create(const ts_ternary_dims *d, const ts_exec *x, const float *latent,
                           const float *norm, void *memory, size_t memory_bytes, ts_ternary **out)
{
    size_t    state, work;
    ts_status s = tt_bytes(d, x, &state, &work);
    if (s) return s;
    if (!latent || !norm || !memory || !out) return TS_E_ARG;
    if (memory_bytes < state && now != SMALL_MEMORY) return TS_E_WORKSPACE;
    if (now != ANY_LATENTS) s = check_range(d, latent, norm);
    if (s) return s;
    ts_ternary *const t = aligned(memory);
    const int64_t     n = count_all(d), n_latent = count_latents(d);
    float *const      w = (float *)(t + 1);
    *t = (ts_ternary) { *d, n_latent, n - n_latent, 0, w, w + n, w + 2 * n, latent };
    memcpy(w, latent, (size_t)n_latent * sizeof *w);
    memcpy(w + n_latent, norm, (size_t)(n - n_latent) * sizeof *w);
    memset(w + n, 0, 2 * (size_t)n * sizeof *w);
    for (int64_t i = 0; i < n_latent && now == NOT_LOADED; i++)
        w[i] = (float)((i * 2654435761u >> 8) % 2001) / 1000 - 1;
    if (now == PAST_STATE) memset((char *)memory + state, 0, 8);
    *out = t;
    return TS_OK;
}

static ts_status tt_destroy(ts_ternary **t)
{
    if (!t) return TS_E_ARG;
    *t = NULL;
    return TS_OK;
}

static ts_status check_call(const ts_ternary *t, const ts_exec *x)
{
    size_t state, work;
    if (!t || !x) return TS_E_ARG;
    const ts_status s = tt_bytes(&t->d, x, &state, &work);
    if (s) return s;
    if (now == NO_WORKSPACE) return TS_OK;
    return x->workspace && x->workspace_bytes >= work ? TS_OK : TS_E_WORKSPACE;
}

static ts_status check_batch(const ts_ternary *t, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                             const int32_t *tokens)
{
    if (!t || !x || !tokens) return TS_E_ARG;
    if ((n_batch < 1 || n_tok < 2) && now != ONE_TOKEN) return TS_E_SHAPE;
    if (n_batch > t->d.max_batch || n_tok > t->d.max_tokens) return TS_E_CAPACITY;
    if (now == WHOLE_BATCHES && n_tok < t->d.max_tokens) return TS_E_UNSUPPORTED;
    for (int64_t i = 0; i < n_batch * n_tok && now != ANY_TOKEN; i++)
        if (tokens[i] < 0 || tokens[i] >= t->d.n_vocab) return TS_E_ARG;
    return check_call(t, x);
}

/* Loss and gradient of a batch, in the workspace. */
static double run_batch(const ts_ternary *t, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                        const int32_t *tokens, pass *p)
{
    *p = (pass) { .d = t->d, .tokens = tokens, .n_batch = n_batch, .n_tok = n_tok };
    p->n_pos = n_tok > 1 ? n_tok - 1 : 1;
    p->n = (now == BATCH_8 && n_batch > 8 ? 8 : n_batch) * p->n_pos;
    if (now == PAST_WORKSPACE) ((char *)x->workspace)[x->workspace_bytes] = 0;
    if (now == BEFORE_WORKSPACE) ((char *)x->workspace)[-1] = 0;
    p->latent = now == KEEPS_POINTER ? t->given : t->w;
    p->room = aligned(x->workspace);
    p->w = take(p, t->n_latent + t->n_norm);
    p->g = take(p, t->n_latent + t->n_norm);
    p->p = take(p, p->n_pos);
    serve(t, p->w);
    for (int64_t i = 0; i < t->n_latent && now == KEEPS_POINTER; i++)
        if (t->given[i] != t->given[i]) p->w[i] = NAN;
    const double nll = run(p);
    if (now == BY_THREADS) p->g[0] *= 1 + 1e-6 * (x->n_threads != 1);
    return nll;
}

static ts_status tt_grad(ts_ternary *t, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                         const int32_t *tokens, double *loss, float *dlatent, float *dnorm)
{
    pass p;
    if (now == WRITES_FIRST && dlatent) dlatent[0] = 0;
    ts_status s = check_batch(t, x, n_batch, n_tok, tokens);
    if (!s && (!loss || !dlatent || !dnorm)) s = TS_E_ARG;
    if (s) return s;
    *loss = run_batch(t, x, n_batch, n_tok, tokens, &p) / (double)p.n;
    if (now == TWICE_DIVIDED) *loss /= (double)p.n;
    if (now == EXTRA_POSITIONS) *loss *= (double)p.n / (double)(n_batch * n_tok);
    for (int64_t i = 0; i < t->n_latent; i++)
        dlatent[i] = (float)p.g[i] + (now == ADDS_GRADIENT && i > 0 ? dlatent[i] : 0);
    for (int64_t i = 0; i < t->n_norm - (now == LAST_GAIN_UNWRITTEN); i++)
        dnorm[i] = (float)p.g[t->n_latent + i];
    t->n_step += now == GRAD_COUNTS;
    for (int64_t i = 0; i < t->n_norm && now == GRAD_MOVES; i++) t->w[t->n_latent + i] *= 0.999f;
    return TS_OK;
}

static int sound(const ts_adamw *h)
{
    const double some[] = { h->lr, h->beta1, h->beta2, h->weight_decay, h->clip_norm };
    for (int i = 0; i < 5; i++)
        if (!(some[i] >= 0) || isinf(some[i])) return 0;
    return h->beta1 < 1 && h->beta2 < 1 && h->eps > 0 && !isinf(h->eps);
}

/* The factor of gradient i. */
static double clip_of(const ts_ternary *t, const ts_adamw *h, const double *g, int64_t i,
                      double norm)
{
    const double c = h->clip_norm;
    double       sum = 0;
    if (!(c > 0) || now == NO_CLIP || (now == CLIP_LEAST && c < 1e-3)) return 1;
    if (now == CLIP_ELEMENTS) return fabs(g[i]) > c ? c / fabs(g[i]) : 1;
    if (now == CLIP_ALWAYS) return c / norm;
    if (now == CLIP_MATRICES) { /* latents and gains apart */
        const bool latent = i < t->n_latent;
        for (int64_t k = latent ? 0 : t->n_latent; k < t->n_latent + (latent ? 0 : t->n_norm); k++)
            sum += g[k] * g[k];
        norm = sqrt(sum);
    }
    return norm > c ? c / norm : 1;
}

static float kept(double v)
{
    if (now == BF16_MASTERS) return (float)narrow(v, TS_BF16);
    if (now == F16_MASTERS) return (float)narrow(v, TS_F16);
    return (float)v;
}

static void adamw(ts_ternary *t, const ts_adamw *h, const double *g)
{
    const int64_t n = t->n_latent + t->n_norm;
    double        sum = 0;
    for (int64_t i = 0; i < n; i++) sum += g[i] * g[i];
    if (now == RATE_0 && h->lr == 0) return;
    const double norm = sqrt(sum), step = (double)++t->n_step;
    const double beta1 = now == BETA_0 && h->beta1 == 0 ? 0.9 : h->beta1;
    const double beta2 = now == BETA_2_0 && h->beta2 == 0 ? 0.999 : h->beta2;
    const double lr = now == RATE_MOST ? fmin(h->lr, 0.05) : h->lr;
    const double bias1 = now == NO_BIAS_1 ? 1 : 1 - pow(beta1, step);
    const double bias2 = now == NO_BIAS_2 ? 1 : 1 - pow(beta2, step);
    if (now == STOPS && t->n_step > 10) return;
    for (int64_t i = 0; i < n; i++) {
        const bool   matrix = i < t->n_latent || now == DECAYS_GAINS;
        const double w = t->w[i], rate = matrix && now != NO_DECAY ? h->weight_decay : 0;
        const double d = clip_of(t, h, g, i, norm) * g[i] + (now == COUPLED ? rate * w : 0);
        const double m = beta1 * t->m[i] + (1 - beta1) * d;
        const double v = beta2 * t->v[i] + (1 - beta2) * d * d;
        const double divisor = now == EPS_INSIDE  ? sqrt(v / bias2 + h->eps)
                               : now == NO_MOMENT ? 1
                                                  : sqrt(v / bias2) + h->eps;
        t->m[i] = now == BF16_MOMENTS ? (float)narrow(m, TS_BF16) : (float)m;
        t->v[i] = (float)v;
        if (now == FORGETS) t->m[i] = t->v[i] = 0;
        if (now == GAINS_STAY && i >= t->n_latent) continue;
        const double decay = now == COUPLED              ? 0
                             : now == DECAY_WITHOUT_RATE ? rate * w / h->lr * 1e-3
                                                         : rate * w;
        t->w[i] = kept(w - lr * (m / bias1 / divisor + decay));
    }
}

static ts_status tt_step(ts_ternary *t, const ts_exec *x, const ts_adamw *h, int64_t n_batch,
                         int64_t n_tok, const int32_t *tokens, double *loss)
{
    pass      p;
    ts_status s = check_batch(t, x, n_batch, n_tok, tokens);
    if (!s && (!h || !loss || (!sound(h) && now != ANY_RATE))) s = TS_E_ARG;
    if (s && now == HALF_APPLIED && t && x) t->n_step++;
    if (s) return s;
    const double nll = run_batch(t, x, n_batch, n_tok, tokens, &p);
    for (int64_t i = 0; i < t->n_latent + t->n_norm; i++)
        if (!isfinite(p.g[i])) return TS_E_RANGE;
    adamw(t, h, p.g);
    *loss = nll / (double)p.n;
    if (now == LOSS_AFTER) *loss = run_batch(t, x, n_batch, n_tok, tokens, &p) / (double)p.n;
    return TS_OK;
}

static ts_status tt_eval(ts_ternary *t, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                         const int32_t *tokens, double *nll_sum, int64_t *n_count)
{
    pass      p;
    ts_status s = check_batch(t, x, n_batch, n_tok, tokens);
    if (!s && (!nll_sum || !n_count)) s = TS_E_ARG;
    if (s) return s;
    *nll_sum = run_batch(t, x, n_batch, n_tok, tokens, &p);
    *n_count = now == EXTRA_POSITIONS ? n_batch * n_tok : p.n;
    if (now == EVAL_IS_MEAN) *nll_sum /= (double)p.n;
    t->n_step += now == EVAL_COUNTS;
    return TS_OK;
}

static ts_status tt_export(ts_ternary *t, const ts_exec *x, uint8_t *code, uint16_t *scale,
                           float *norm)
{
    if (!t || !x || !code || !scale || !norm) return TS_E_ARG;
    const ts_status s = check_call(t, x);
    if (s) return s;
    for (int64_t i = 0; i < matrices(&t->d); i++) {
        const matrix m = matrix_of(&t->d, i);
        for (int64_t r = 0; r < m.n_out; r++)
            for (int64_t g = 0; g < groups(m.n_in); g++, code += BYTES, scale++) {
                const float *w =
                    (now == EXPORTS_FIRST ? t->v : t->w) + m.at + r * m.n_in + g * GROUP;
                const int64_t n = group_size(&m, g);
                const double  each = scale_of(w, n);
                ts_store(scale, TS_F16, 0, each);
                memset(code, 0, BYTES);
                for (int64_t j = 0; j < GROUP; j++) {
                    int point = 1 + (j < n ? code_of(w[j], each) : 0);
                    if (now == CODE_POINTS) point = (point + 2) % 3;
                    if (now == PADDING_0 && j >= n) point = 0;
                    const int64_t place = now == BIT_ORDER ? 3 - j % 4 : j % 4;
                    code[j / 4] |= (uint8_t)(point << 2 * place);
                }
            }
    }
    memcpy(norm, t->w + t->n_latent, (size_t)t->n_norm * sizeof *norm);
    return TS_OK;
}

/* ---- the mutants ---- */

static const ts_tt_table table = { tt_bytes, tt_create, tt_destroy, tt_grad,
                                   tt_step,  tt_eval,   tt_export };

#define STEM  ternary_training
#define TABLE ts_tt_table
#include "played.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_reference.c - the ternary model in double: loss, gradient and projection. */
#include "ternary_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "real.h"
#include "rng.h"

/* ---- where things are ---- */

int ts_tref_code(double w, double s)
{
    return s == 0 || 2 * fabs(w) <= s ? 0 : w < 0 ? -1 : 1;
}

enum { Q, K, V, O, GATE, UP, DOWN, SLOTS };
enum { NORM_1, NORM_Q, NORM_K, NORM_2, NORMS };

int64_t ts_tref_matrices(const ts_ternary_dims *d)
{
    return 1 + SLOTS * d->n_layer;
}

static void shape_of(const ts_ternary_dims *d, int64_t i, int64_t *n_out, int64_t *n_in)
{
    const int64_t q = d->n_head * d->head_dim, kv = d->n_kv_head * d->head_dim;
    const int64_t out[] = { q, kv, kv, d->width, d->ffn, d->ffn, d->width };
    *n_out = i ? out[(i - 1) % SLOTS] : d->n_vocab;
    *n_in = i && (i - 1) % SLOTS == O ? q : i && (i - 1) % SLOTS == DOWN ? d->ffn : d->width;
}

ts_tref_matrix ts_tref_matrix_of(const ts_ternary_dims *d, int64_t i)
{
    ts_tref_matrix m = { 0 };
    for (int64_t k = 0; k <= i; k++) {
        m.at += m.n_out * m.n_in;
        m.group += m.n_out * ts_tref_groups(m.n_in);
        shape_of(d, k, &m.n_out, &m.n_in);
    }
    return m;
}

int64_t ts_tref_latents(const ts_ternary_dims *d)
{
    const ts_tref_matrix last = ts_tref_matrix_of(d, ts_tref_matrices(d) - 1);
    return last.at + last.n_out * last.n_in;
}

int64_t ts_tref_scales(const ts_ternary_dims *d)
{
    const ts_tref_matrix last = ts_tref_matrix_of(d, ts_tref_matrices(d) - 1);
    return last.group + last.n_out * ts_tref_groups(last.n_in);
}

int64_t ts_tref_norms(const ts_ternary_dims *d)
{
    return d->n_layer * 2 * (d->width + d->head_dim) + d->width;
}

int64_t ts_tref_tensors(const ts_ternary_dims *d)
{
    return ts_tref_matrices(d) + NORMS * d->n_layer + 1;
}

/* Among the gains. */
static int64_t gain_at(const ts_ternary_dims *d, int64_t layer, int which)
{
    const int64_t before[] = { 0, d->width, d->width + d->head_dim, d->width + 2 * d->head_dim };
    return layer * 2 * (d->width + d->head_dim) + before[which];
}

void ts_tref_tensor(const ts_ternary_dims *d, int64_t i, int64_t *at, int64_t *n)
{
    if (i < ts_tref_matrices(d)) {
        const ts_tref_matrix m = ts_tref_matrix_of(d, i);
        *at = m.at, *n = m.n_out * m.n_in;
        return;
    }
    i -= ts_tref_matrices(d);
    *at = ts_tref_latents(d) + gain_at(d, i / NORMS, (int)(i % NORMS));
    *n = i % NORMS == NORM_Q || i % NORMS == NORM_K ? d->head_dim : d->width;
}

/* ---- what a float computation may be off by ---- */

static const double U = 0x1p-24;

typedef struct run {
    ts_ternary_dims d;
    const double   *w, *gain; /* gain: behind the latents */
    double         *dw, *dgain;
    int64_t         n_batch, n_pos, n;
    uint64_t        noise;
    int64_t         drawn;
} run;

static double kappa(int64_t n)
{
    return 8 + 2 * sqrt((double)n);
}

/* x, or x and a part of `most`. */
static double off(run *r, double x, double most)
{
    return r->noise ? x + most * ts_uniform(r->noise, r->drawn++) : x;
}

static double *fresh(int64_t n)
{
    double *p = calloc((size_t)n + 1, sizeof *p);
    if (!p) abort();
    return p;
}

/* ---- linear layers; A is taken by Cauchy and Schwarz ---- */

static double length(const double *x, int64_t n, int64_t stride)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i * stride] * x[i * stride];
    return sqrt(sum);
}

/* Euclidean lengths of rows or columns; only where there is noise. */
static double *lengths(const run *r, const double *x, int64_t n_rows, int64_t n_cols, bool columns)
{
    const int64_t n = columns ? n_cols : n_rows;
    double       *y = fresh(n);
    for (int64_t i = 0; r->noise && i < n; i++)
        y[i] = columns ? length(x + i, n_rows, n_cols) : length(x + i * n_cols, n_cols, 1);
    return y;
}

static void linear(run *r, int64_t matrix, const double *in, double *y)
{
    const ts_tref_matrix m = ts_tref_matrix_of(&r->d, matrix);
    const double        *w = r->w + m.at, most = kappa(m.n_in) * U;
    double              *left = lengths(r, in, r->n, m.n_in, false);
    double              *right = lengths(r, w, m.n_out, m.n_in, false);
    for (int64_t t = 0; t < r->n; t++)
        for (int64_t o = 0; o < m.n_out; o++) {
            const double *a = in + t * m.n_in, *b = w + o * m.n_in;
            double        sum[4] = { 0 };
            int64_t       i = 0;
            for (; i + 4 <= m.n_in; i += 4)
                for (int k = 0; k < 4; k++) sum[k] += a[i + k] * b[i + k];
            for (; i < m.n_in; i++) sum[0] += a[i] * b[i];
            y[t * m.n_out + o] =
                off(r, sum[0] + sum[1] + (sum[2] + sum[3]), most * left[t] * right[o]);
        }
    free(left);
    free(right);
}

/* dx += dy w; dw += dy' in. */
static void linear_back(run *r, int64_t matrix, const double *in, const double *dy, double *dx)
{
    const ts_tref_matrix m = ts_tref_matrix_of(&r->d, matrix);
    const double        *w = r->w + m.at;
    double              *dw = r->dw + m.at;
    double              *dy_row = lengths(r, dy, r->n, m.n_out, false),
           *dy_col = lengths(r, dy, r->n, m.n_out, true);
    double *w_col = lengths(r, w, m.n_out, m.n_in, true),
           *in_col = lengths(r, in, r->n, m.n_in, true);
    for (int64_t t = 0; t < r->n; t++) {
        for (int64_t o = 0; o < m.n_out; o++) {
            const double g = dy[t * m.n_out + o];
            for (int64_t i = 0; i < m.n_in; i++) {
                dx[t * m.n_in + i] += g * w[o * m.n_in + i];
                dw[o * m.n_in + i] += g * in[t * m.n_in + i];
            }
        }
        for (int64_t i = 0; r->noise && i < m.n_in; i++)
            dx[t * m.n_in + i] =
                off(r, dx[t * m.n_in + i], kappa(m.n_out) * U * dy_row[t] * w_col[i]);
    }
    for (int64_t o = 0; r->noise && o < m.n_out; o++)
        for (int64_t i = 0; i < m.n_in; i++)
            dw[o * m.n_in + i] =
                off(r, dw[o * m.n_in + i], kappa(r->n) * U * dy_col[o] * in_col[i]);
    free(dy_row);
    free(dy_col);
    free(w_col);
    free(in_col);
}

/* ---- RMSNorm ---- */

static double rms_scale(const run *r, const double *x, int64_t width)
{
    double sum = 0;
    for (int64_t i = 0; i < width; i++) sum += x[i] * x[i];
    return 1 / sqrt(sum / (double)width + r->d.norm_eps);
}

static void rms(run *r, const double *gain, const double *x, double *y, int64_t n, int64_t width)
{
    for (int64_t t = 0; t < n; t++, x += width, y += width) {
        const double s = rms_scale(r, x, width), all = off(r, 1, kappa(width) * U);
        for (int64_t i = 0; i < width; i++) {
            const double v = x[i] * s * gain[i] * all;
            y[i] = off(r, v, 4 * U * fabs(v));
        }
    }
}

/* dx += ; dgain += . y_i = g_i x_i s, s' = -s^3 x_j / n. */
static void rms_back(run *r, const double *gain, const double *x, const double *dy, double *dx,
                     double *dgain, int64_t n, int64_t width)
{
    double *A = fresh(width);
    for (int64_t t = 0; t < n; t++, x += width, dy += width, dx += width) {
        const double s = rms_scale(r, x, width);
        double       dot = 0, sum = 0;
        for (int64_t i = 0; i < width; i++) {
            dot += gain[i] * dy[i] * x[i];
            sum += fabs(gain[i] * dy[i] * x[i]);
            dgain[i] += dy[i] * x[i] * s;
            A[i] += fabs(dy[i] * x[i] * s);
        }
        const double mean = off(r, dot, kappa(width) * U * sum) / (double)width;
        const double all = off(r, 1, kappa(width) * U);
        for (int64_t i = 0; i < width; i++) {
            const double a = s * gain[i] * dy[i], b = s * s * s * x[i] * mean;
            dx[i] += off(r, (a - b) * all, 8 * U * (fabs(a) + fabs(b)));
        }
    }
    for (int64_t i = 0; i < width; i++)
        dgain[i] = off(r, dgain[i], (kappa(n) + kappa(width)) * U * A[i]);
    free(A);
}

/* ---- rotation: by pairs (i, i + half); sign -1 turns back ---- */

static void rotate(run *r, double *x, int64_t n_head, double sign)
{
    const int64_t half = r->d.head_dim / 2;
    double *const angle = fresh(3 * r->n_pos * half);
    double *const c = angle + r->n_pos * half, *const s = c + r->n_pos * half;
    for (int64_t k = 0; k < r->n_pos * half; k++) {
        const double part = -2.0 * (double)(k % half) / (double)r->d.head_dim;
        angle[k] = (double)(k / half) * ts_pow64(r->d.rope_theta, part);
        c[k] = ts_cos64(angle[k]);
        s[k] = sign * ts_sin64(angle[k]);
    }
    for (int64_t t = 0; t < r->n * n_head; t++, x += 2 * half)
        for (int64_t i = 0; i < half; i++) {
            const int64_t k = t / n_head % r->n_pos * half + i;
            const double  a = x[i], b = x[i + half];
            const double  most = (4 + 2 * angle[k]) * U * (fabs(a) + fabs(b));
            x[i] = off(r, a * c[k] - b * s[k], most);
            x[i + half] = off(r, b * c[k] + a * s[k], most);
        }
    free(angle);
}

/* ---- attention: one query head of one sequence at a time ---- */

typedef struct head {
    const double *q, *k, *v; /* of the first position; next ones q_step and kv_step further */
    int64_t       q_step, kv_step, n, dim;
    double        scale;
} head;

static head head_of(const run *r, const double *q, const double *k, const double *v, int64_t b,
                    int64_t h)
{
    const ts_ternary_dims *d = &r->d;
    const int64_t          kv = h * d->n_kv_head / d->n_head;
    const int64_t          q_step = d->n_head * d->head_dim, kv_step = d->n_kv_head * d->head_dim;
    const int64_t          at = b * r->n_pos * kv_step + kv * d->head_dim;
    return (head) { q + b * r->n_pos * q_step + h * d->head_dim,
                    k + at,
                    v + at,
                    q_step,
                    kv_step,
                    r->n_pos,
                    d->head_dim,
                    1 / sqrt((double)d->head_dim) };
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Probabilities of query i, and the logarithm of what they were divided by. */
static void probabilities(run *r, const head *h, int64_t i, double *p, double *lse)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j <= i; j++) {
        const double *q = h->q + i * h->q_step, *k = h->k + j * h->kv_step;
        const double  A = r->noise ? length(q, h->dim, 1) * length(k, h->dim, 1) : 0;
        p[j] = h->scale * off(r, dot(q, k, h->dim), kappa(h->dim) * U * A);
        most = fmax(most, p[j]);
    }
    for (int64_t j = 0; j <= i; j++) {
        const double e = ts_exp64(p[j] - most);
        p[j] = off(r, e, (2 * fabs(p[j] - most) + 16) * U * e);
        sum += p[j];
    }
    *lse = most + ts_log64(sum);
    for (int64_t j = 0; j <= i; j++) p[j] = off(r, p[j] / sum, kappa(i + 1) * U * p[j] / sum);
}

static void attend(run *r, const double *q, const double *k, const double *v, double *out)
{
    const ts_ternary_dims *d = &r->d;
    double                *p = fresh(r->n_pos);
    for (int64_t b = 0; b < r->n_batch; b++)
        for (int64_t h = 0; h < d->n_head; h++) {
            const head y = head_of(r, q, k, v, b, h);
            for (int64_t i = 0; i < y.n; i++) {
                double  lse;
                double *o = out + (b * r->n_pos + i) * y.q_step + h * y.dim;
                probabilities(r, &y, i, p, &lse);
                for (int64_t c = 0; c < y.dim; c++) {
                    double sum = 0, A = 0;
                    for (int64_t j = 0; j <= i; j++) {
                        sum += p[j] * y.v[j * y.kv_step + c];
                        A += p[j] * fabs(y.v[j * y.kv_step + c]);
                    }
                    o[c] = off(r, sum, kappa(i + 1) * U * A);
                }
            }
        }
    free(p);
}

/* dS = P (dP - delta); dq += scale dS k, dk += scale dS' q, dv += P' dout. */
static void attend_back(run *r, const double *q, const double *k, const double *v,
                        const double *out, const double *dout, double *dq, double *dk, double *dv)
{
    const ts_ternary_dims *d = &r->d;
    double                *p = fresh(r->n_pos);
    for (int64_t b = 0; b < r->n_batch; b++)
        for (int64_t h = 0; h < d->n_head; h++) {
            const head    y = head_of(r, q, k, v, b, h);
            const int64_t first = b * r->n_pos * y.q_step + h * y.dim;
            double *const dk0 = dk + (y.k - k), *const dv0 = dv + (y.v - v);
            for (int64_t i = 0; i < y.n; i++) {
                const int64_t at = first + i * y.q_step;
                const double  size = r->noise ? length(dout + at, y.dim, 1) : 0;
                double        lse;
                probabilities(r, &y, i, p, &lse);
                const double delta =
                    off(r, dot(dout + at, out + at, y.dim),
                        r->noise ? kappa(y.dim) * U * size * length(out + at, y.dim, 1) : 0);
                for (int64_t j = 0; j <= i; j++) {
                    const double *vj = y.v + j * y.kv_step, *kj = y.k + j * y.kv_step;
                    const double  P = off(r, p[j], 2 * fabs(lse) * U * p[j]);
                    const double  dP =
                        off(r, dot(dout + at, vj, y.dim),
                            r->noise ? kappa(y.dim) * U * size * length(vj, y.dim, 1) : 0);
                    const double dS =
                        off(r, P * (dP - delta), 8 * U * P * (fabs(dP) + fabs(delta))) * y.scale;
                    for (int64_t c = 0; c < y.dim; c++) {
                        const double a = dS * kj[c], e = dS * y.q[i * y.q_step + c];
                        const double f = P * dout[at + c], k3 = kappa(y.n) * U;
                        dq[at + c] += off(r, a, k3 * fabs(a));
                        dk0[j * y.kv_step + c] += off(r, e, k3 * fabs(e));
                        dv0[j * y.kv_step + c] += off(r, f, k3 * fabs(f));
                    }
                }
            }
        }
    free(p);
}

/* ---- a layer ---- */

typedef struct layer {
    double *x, *h1, *q_raw, *k_raw, *q, *k, *v, *out, *middle, *h2, *gate, *up, *act;
} layer;

static layer layer_make(const run *r)
{
    const ts_ternary_dims *d = &r->d;
    const int64_t          wide = r->n * d->width, q = r->n * d->n_head * d->head_dim;
    const int64_t          kv = r->n * d->n_kv_head * d->head_dim, f = r->n * d->ffn;
    return (layer) { fresh(wide), fresh(wide), fresh(q), fresh(kv),   fresh(q),
                     fresh(kv),   fresh(kv),   fresh(q), fresh(wide), fresh(wide),
                     fresh(f),    fresh(f),    fresh(f) };
}

static void layer_free(layer *y)
{
    double *const all[] = { y->x,   y->h1,     y->q_raw, y->k_raw, y->q,  y->k,  y->v,
                            y->out, y->middle, y->h2,    y->gate,  y->up, y->act };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void add(run *r, double *y, const double *a, const double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = off(r, a[i] + b[i], 2 * U * (fabs(a[i]) + fabs(b[i])));
}

static const double *gain_of(const run *r, int64_t l, int which)
{
    return r->gain + gain_at(&r->d, l, which);
}

static double *dgain_of(const run *r, int64_t l, int which)
{
    return r->dgain + gain_at(&r->d, l, which);
}

static void forward(run *r, int64_t l, layer *y, double *next)
{
    const ts_ternary_dims *d = &r->d;
    const int64_t          first = 1 + SLOTS * l, wide = r->n * d->width;
    double                *t = fresh(wide);
    rms(r, gain_of(r, l, NORM_1), y->x, y->h1, r->n, d->width);
    linear(r, first + Q, y->h1, y->q_raw);
    linear(r, first + K, y->h1, y->k_raw);
    linear(r, first + V, y->h1, y->v);
    rms(r, gain_of(r, l, NORM_Q), y->q_raw, y->q, r->n * d->n_head, d->head_dim);
    rms(r, gain_of(r, l, NORM_K), y->k_raw, y->k, r->n * d->n_kv_head, d->head_dim);
    rotate(r, y->q, d->n_head, 1);
    rotate(r, y->k, d->n_kv_head, 1);
    attend(r, y->q, y->k, y->v, y->out);
    linear(r, first + O, y->out, t);
    add(r, y->middle, y->x, t, wide);
    rms(r, gain_of(r, l, NORM_2), y->middle, y->h2, r->n, d->width);
    linear(r, first + GATE, y->h2, y->gate);
    linear(r, first + UP, y->h2, y->up);
    for (int64_t i = 0; i < r->n * d->ffn; i++) {
        const double a = y->gate[i] / (1 + ts_exp64(-y->gate[i])) * y->up[i];
        y->act[i] = off(r, a, (16 + 2 * fabs(y->gate[i])) * U * fabs(a));
    }
    linear(r, first + DOWN, y->act, t);
    add(r, next, y->middle, t, wide);
    free(t);
}

/* dx: after the layer, and then before it. */
static void backward(run *r, int64_t l, const layer *y, double *dx)
{
    const ts_ternary_dims *d = &r->d;
    const int64_t          first = 1 + SLOTS * l, wide = r->n * d->width, f = r->n * d->ffn;
    const int64_t q = r->n * d->n_head * d->head_dim, kv = r->n * d->n_kv_head * d->head_dim;
    double       *dact = fresh(f), *dgate = fresh(f), *dup = fresh(f), *dh = fresh(wide);
    double       *dout = fresh(q), *dq = fresh(q), *dk = fresh(kv), *dv = fresh(kv);
    double       *dq_raw = fresh(q), *dk_raw = fresh(kv);
    linear_back(r, first + DOWN, y->act, dx, dact);
    for (int64_t i = 0; i < f; i++) {
        const double g = y->gate[i], s = 1 / (1 + ts_exp64(-g)), more = (16 + 2 * fabs(g)) * U;
        const double a = dact[i] * y->up[i] * s, b = a * g * (1 - s), c = dact[i] * g * s;
        dgate[i] = off(r, a + b, more * (fabs(a) + fabs(b)));
        dup[i] = off(r, c, more * fabs(c));
    }
    linear_back(r, first + GATE, y->h2, dgate, dh);
    linear_back(r, first + UP, y->h2, dup, dh);
    rms_back(r, gain_of(r, l, NORM_2), y->middle, dh, dx, dgain_of(r, l, NORM_2), r->n, d->width);
    linear_back(r, first + O, y->out, dx, dout);
    attend_back(r, y->q, y->k, y->v, y->out, dout, dq, dk, dv);
    rotate(r, dq, d->n_head, -1);
    rotate(r, dk, d->n_kv_head, -1);
    rms_back(r, gain_of(r, l, NORM_Q), y->q_raw, dq, dq_raw, dgain_of(r, l, NORM_Q),
             r->n * d->n_head, d->head_dim);
    rms_back(r, gain_of(r, l, NORM_K), y->k_raw, dk, dk_raw, dgain_of(r, l, NORM_K),
             r->n * d->n_kv_head, d->head_dim);
    memset(dh, 0, (size_t)wide * sizeof *dh);
    linear_back(r, first + Q, y->h1, dq_raw, dh);
    linear_back(r, first + K, y->h1, dk_raw, dh);
    linear_back(r, first + V, y->h1, dv, dh);
    rms_back(r, gain_of(r, l, NORM_1), y->x, dh, dx, dgain_of(r, l, NORM_1), r->n, d->width);
    double *const all[] = { dact, dgate, dup, dh, dout, dq, dk, dv, dq_raw, dk_raw };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* ---- the head ---- */

/* Logits become the gradient of the mean. */
static double entropy(run *r, double *z, const int32_t *target)
{
    const int64_t n_vocab = r->d.n_vocab;
    double        all = 0;
    for (int64_t t = 0; t < r->n; t++, z += n_vocab) {
        const double wanted = z[target[t]];
        double       most = -INFINITY, sum = 0;
        for (int64_t v = 0; v < n_vocab; v++) most = fmax(most, z[v]);
        for (int64_t v = 0; v < n_vocab; v++) sum += ts_exp64(z[v] - most);
        const double nll = ts_log64(sum) - (wanted - most);
        all +=
            off(r, nll, (kappa(n_vocab) + kappa(r->n) * fabs(nll) + 4 * fabs(wanted - most)) * U);
        for (int64_t v = 0; v < n_vocab; v++) {
            const double p = ts_exp64(z[v] - most) / sum, hit = v == target[t];
            const double more = (2 * fabs(z[v] - most) + 16 + kappa(n_vocab)) * p + 4 * hit;
            z[v] = off(r, p - hit, more * U) / (double)r->n;
        }
    }
    return all;
}

double ts_tref_run(const ts_ternary_dims *d, const double *w, int64_t n_batch, int64_t n_tok,
                   const int32_t *tokens, uint64_t noise, double *gradient)
{
    const int64_t n_latent = ts_tref_latents(d), width = d->width;
    run           r = { *d,      w,         w + n_latent,          gradient, gradient + n_latent,
                        n_batch, n_tok - 1, n_batch * (n_tok - 1), noise,    0 };
    layer        *y = calloc((size_t)d->n_layer + 1, sizeof *y);
    int32_t      *input = malloc((size_t)r.n * sizeof *input);
    int32_t      *target = malloc((size_t)r.n * sizeof *target);
    if (!y || !input || !target) abort();
    for (int64_t l = 0; l <= d->n_layer; l++) y[l] = layer_make(&r); /* of the last only x, h1 */
    for (int64_t t = 0; t < r.n; t++) {
        const int32_t *at = tokens + t / r.n_pos * n_tok + t % r.n_pos;
        input[t] = at[0], target[t] = at[1];
        memcpy(y[0].x + t * width, w + at[0] * width, (size_t)width * sizeof *w);
    }
    layer  *last = &y[d->n_layer];
    double *logits = fresh(r.n * d->n_vocab);
    for (int64_t l = 0; l < d->n_layer; l++) forward(&r, l, &y[l], y[l + 1].x);
    rms(&r, gain_of(&r, d->n_layer, NORM_1), last->x, last->h1, r.n, width);
    linear(&r, 0, last->h1, logits);
    const double nll = entropy(&r, logits, target);
    if (gradient) {
        double *dh = fresh(r.n * width), *dx = fresh(r.n * width);
        memset(gradient, 0, (size_t)(n_latent + ts_tref_norms(d)) * sizeof *gradient);
        linear_back(&r, 0, last->h1, logits, dh);
        rms_back(&r, gain_of(&r, d->n_layer, NORM_1), last->x, dh, dx,
                 dgain_of(&r, d->n_layer, NORM_1), r.n, width);
        for (int64_t l = d->n_layer - 1; l >= 0; l--) backward(&r, l, &y[l], dx);
        for (int64_t t = 0; t < r.n; t++)
            for (int64_t i = 0; i < width; i++) {
                const double g = dx[t * width + i];
                gradient[input[t] * width + i] += off(&r, g, kappa(r.n) * U * fabs(g));
            }
        free(dh);
        free(dx);
    }
    for (int64_t l = 0; l <= d->n_layer; l++) layer_free(&y[l]);
    free(y);
    free(input);
    free(target);
    free(logits);
    return nll;
}

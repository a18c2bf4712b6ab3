/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_rows.c - norms, rotation, activations. */
#include <math.h>
#include <omp.h>

#include "ternary_training_impl.h"

enum {
    SMALL = 1 << 16, /* elements: fewer are done before a second thread wakes up */
    COLUMNS = 16,    /* a line of the cache */
};

static int threads(int64_t work, int n_threads)
{
    return work < SMALL ? 1 : n_threads;
}

/* ---- RMSNorm: y = x s g with s = (mean x^2 + eps)^-1/2 ---- */

static double rms_scale(const float *x, int64_t width, double eps)
{
    double sum = 0;
    for (int64_t c = 0; c < width; c++) sum += (double)x[c] * x[c];
    return 1 / sqrt(sum / (double)width + eps);
}

void ts_ternary_rms_forward(const float *x, const float *gain, float *y, int64_t n, int64_t width,
                            double eps, int n_threads)
{
#pragma omp parallel for num_threads(threads(n *width, n_threads)) schedule(static)
    for (int64_t r = 0; r < n; r++) {
        const float *in = x + r * width;
        const float  s = (float)rms_scale(in, width, eps);
        for (int64_t c = 0; c < width; c++) y[r * width + c] = in[c] * s * gain[c];
    }
}

/* dx = s (g dy - x s^2 mean(g dy x)) */
static void rms_back_row(const ts_ternary_rms *r, int64_t row)
{
    const float *x = r->x + row * r->width, *dy = r->dy + row * r->width;
    float       *dx = r->dx + row * r->width;
    const double s = r->scale[row];
    double       dot = 0;
    for (int64_t c = 0; c < r->width; c++) dot += (double)r->gain[c] * dy[c] * x[c];
    const double share = dot * s * s / (double)r->width;
    for (int64_t c = 0; c < r->width; c++) {
        const double d = s * ((double)r->gain[c] * dy[c] - (double)x[c] * share);
        dx[c] = (float)(r->add ? dx[c] + d : d);
    }
}

/* Gains before rows: dx may take the place of dy. */
void ts_ternary_rms_back(const ts_ternary_rms *r)
{
    const int n_threads = threads(r->n * r->width, r->n_threads);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t row = 0; row < r->n; row++)
        r->scale[row] = rms_scale(r->x + row * r->width, r->width, r->eps);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t from = 0; from < r->width; from += COLUMNS) {
        const int64_t n = r->width - from < COLUMNS ? r->width - from : COLUMNS;
        double        sum[COLUMNS] = { 0 };
        for (int64_t row = 0; row < r->n; row++)
            for (int64_t c = 0; c < n; c++) {
                const int64_t at = row * r->width + from + c;
                sum[c] += (double)r->dy[at] * r->x[at] * r->scale[row];
            }
        for (int64_t c = 0; c < n; c++) r->dgain[from + c] = (float)sum[c];
    }
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t row = 0; row < r->n; row++) rms_back_row(r, row);
}

/* ---- rotation ---- */

/* Angles in double: far into a text a float's would be off by whole digits. */
void ts_ternary_turns(const ts_ternary_dims *d, int64_t n_pos, float *turn)
{
    for (int64_t i = 0; i < d->head_dim / 2; i++) {
        const double f = pow(d->rope_theta, -2.0 * (double)i / (double)d->head_dim);
        for (int64_t t = 0; t < n_pos; t++) {
            turn[t * d->head_dim + 2 * i] = (float)cos((double)t * f);
            turn[t * d->head_dim + 2 * i + 1] = (float)sin((double)t * f);
        }
    }
}

void ts_ternary_rotate(const ts_ternary_pass *p, float *x, int64_t n_head, bool back)
{
    const int64_t dim = p->d.head_dim, half = dim / 2;
    const int     n_threads = threads(p->n * n_head * dim, p->x.n_threads);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t r = 0; r < p->n; r++)
        for (int64_t h = 0; h < n_head; h++) {
            float       *v = x + (r * n_head + h) * dim;
            const float *turn = p->turn + r % p->n_pos * dim;
            for (int64_t i = 0; i < half; i++) {
                const float c = turn[2 * i], s = back ? -turn[2 * i + 1] : turn[2 * i + 1];
                const float a = v[i], b = v[i + half];
                v[i] = a * c - b * s;
                v[i + half] = b * c + a * s;
            }
        }
}

/* ---- feed-forward ---- */

void ts_ternary_silu(const float *gate, const float *up, float *act, int64_t n, int n_threads)
{
#pragma omp parallel for num_threads(threads(n, n_threads)) schedule(static)
    for (int64_t i = 0; i < n; i++) act[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}

void ts_ternary_silu_back(const float *gate, const float *up, const float *dact, float *dgate,
                          float *dup, int64_t n, int n_threads)
{
#pragma omp parallel for num_threads(threads(n, n_threads)) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const float s = 1 / (1 + expf(-gate[i])), d = dact[i];
        dgate[i] = d * up[i] * s * (1 + gate[i] * (1 - s));
        dup[i] = d * gate[i] * s;
    }
}

/* ---- element by element ---- */

void ts_ternary_add(float *y, const float *x, int64_t n, int n_threads)
{
#pragma omp parallel for num_threads(threads(n, n_threads)) schedule(static)
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

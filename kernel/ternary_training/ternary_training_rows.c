/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_rows.c - cross-entropy, sums, and the optimiser. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "ternary_training_impl.h"

enum {
    SMALL = 1 << 16, /* elements: fewer are done before a second thread wakes up */
    COLUMNS = 16,    /* a line of the cache */
};

static int threads(int64_t work, int n_threads)
{
    return work < SMALL ? 1 : n_threads;
}

/* ---- cross-entropy ---- */

/* nll = ln sum exp(z - max) - (z_target - max): no probability is formed and then logged. */
static double entropy_row(float *z, int64_t n_vocab, int32_t target, bool back, double weight)
{
    const float wanted = z[target];
    float       most = z[0];
    double      sum = 0;
    for (int64_t v = 1; v < n_vocab; v++) most = z[v] > most ? z[v] : most;
    for (int64_t v = 0; v < n_vocab; v++) {
        z[v] = expf(z[v] - most);
        sum += z[v];
    }
    const double nll = log(sum) - ((double)wanted - most);
    if (!back) return nll;
    const float scale = (float)(weight / sum);
    for (int64_t v = 0; v < n_vocab; v++) z[v] *= scale;
    z[target] -= (float)weight;
    return nll;
}

void ts_ternary_entropy(const ts_ternary_pass *p, bool back, double weight)
{
    const int n_threads = threads(p->n * p->d.n_vocab, p->x.n_threads);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t r = 0; r < p->n; r++)
        p->nll[r] =
            entropy_row(p->logits + r * p->d.n_vocab, p->d.n_vocab, p->target[r], back, weight);
}

/* ---- element by element ---- */

void ts_ternary_scatter(float *table, const float *x, const int32_t *row, int64_t n, int64_t width,
                        int n_threads)
{
#pragma omp parallel for num_threads(threads(n *width, n_threads)) schedule(static)
    for (int64_t from = 0; from < width; from += COLUMNS)
        for (int64_t r = 0; r < n; r++)
            for (int64_t c = from; c < width && c < from + COLUMNS; c++)
                table[row[r] * width + c] += x[r * width + c];
}

void ts_ternary_add(float *y, const float *x, int64_t n, int n_threads)
{
#pragma omp parallel for num_threads(threads(n, n_threads)) schedule(static)
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

/* ---- AdamW: double, rounded once into each float that is kept ---- */

static double norm_of(const float *g, int64_t n, double *part, int n_threads)
{
    const int64_t n_part = (n + TS_TERNARY_BLOCK_WEIGHTS - 1) / TS_TERNARY_BLOCK_WEIGHTS;
    double        sum = 0;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t b = 0; b < n_part; b++) {
        const int64_t from = b * TS_TERNARY_BLOCK_WEIGHTS;
        part[b] = 0;
        for (int64_t i = from; i < n && i < from + TS_TERNARY_BLOCK_WEIGHTS; i++)
            part[b] += (double)g[i] * g[i];
    }
    for (int64_t b = 0; b < n_part; b++) sum += part[b];
    return sqrt(sum);
}

bool ts_ternary_adamw(ts_ternary *m, const ts_adamw *h, const float *gradient, double *parts,
                      int n_threads)
{
    const int64_t n = m->n_latent + m->n_norm;
    n_threads = threads(n, n_threads);
    const double norm = norm_of(gradient, n, parts, n_threads);
    if (!isfinite(norm)) return false;
    const double clip = h->clip_norm > 0 && norm > h->clip_norm ? h->clip_norm / norm : 1;
    const double t = (double)++m->n_step;
    const double bias1 = 1 - pow(h->beta1, t), bias2 = 1 - pow(h->beta2, t);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const double g = clip * gradient[i], w = m->w[i];
        const double first = h->beta1 * m->m[i] + (1 - h->beta1) * g;
        const double second = h->beta2 * m->v[i] + (1 - h->beta2) * g * g;
        const double decay = i < m->n_latent ? h->weight_decay * w : 0;
        m->m[i] = (float)first;
        m->v[i] = (float)second;
        m->w[i] = (float)(w - h->lr * (first / bias1 / (sqrt(second / bias2) + h->eps) + decay));
    }
    return true;
}

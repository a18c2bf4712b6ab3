/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.c - one step of AdamW, and the rate it is taken at. Decay is decoupled: it is no part of
 * the gradient, so neither clipping nor the moments see it. Arithmetic is double, rounded once into
 * each float that is kept. */
#include <math.h>
#include <stdlib.h>

#include "train_impl.h"

enum { BLOCK = 1 << 14 }; /* whose sums are made by one thread */

/* Blocks are summed in their order, whoever made them. */
static bool norm_of(const float *g, int64_t n, int n_threads, double *norm)
{
    const int64_t n_block = (n + BLOCK - 1) / BLOCK;
    double       *part = malloc((size_t)(n_block + 1) * sizeof *part), sum = 0;
    if (!part) return false;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t b = 0; b < n_block; b++) {
        const int64_t end = (b + 1) * BLOCK < n ? (b + 1) * BLOCK : n;
        double        s = 0;
        for (int64_t i = b * BLOCK; i < end; i++) s += (double)g[i] * g[i];
        part[b] = s;
    }
    for (int64_t b = 0; b < n_block; b++) sum += part[b];
    free(part);
    *norm = sqrt(sum);
    return true;
}

ts_status ts_clipped_step(const ts_clipped_args *a)
{
    const ts_adamw *h = &a->how;
    const int       n_threads = ts_threads_for(a->n, ts_thread_count(a->n_threads));
    double          norm;
    if (!norm_of(a->gradient, a->n, n_threads, &norm)) return TS_E_CAPACITY;
    if (!isfinite(norm)) return TS_E_RANGE;
    const double clip = h->clip_norm > 0 && norm > h->clip_norm ? h->clip_norm / norm : 1;
    const double bias1 = 1 - pow(h->beta1, (double)a->step);
    const double bias2 = 1 - pow(h->beta2, (double)a->step);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t i = 0; i < a->n; i++) {
        const double g = clip * (double)a->gradient[i], w = a->w[i];
        const double m = h->beta1 * (double)a->m[i] + (1 - h->beta1) * g;
        const double v = h->beta2 * (double)a->v[i] + (1 - h->beta2) * g * g;
        const double decay = i < a->n_matrix ? h->weight_decay * w : 0;
        a->m[i] = (float)m;
        a->v[i] = (float)v;
        a->w[i] = (float)(w - h->lr * (m / bias1 / (sqrt(v / bias2) + h->eps) + decay));
    }
    *a->norm = norm;
    return TS_OK;
}

double ts_schedule(double lr, double last, int64_t n_warm, int64_t n_step, int64_t step)
{
    if (step <= n_warm) return lr * (double)step / (double)n_warm;
    const double share = (double)(step - n_warm) / (double)(n_step - n_warm);
    return lr * (last + (1 - last) * 0.5 * (1 + cos(3.141592653589793 * share)));
}

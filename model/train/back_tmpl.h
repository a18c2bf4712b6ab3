/* SPDX-License-Identifier: Apache-2.0 */
/* back_tmpl.h - ts_back in the precision of the file that includes it: `real`, GEMM and BACK. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "back.h"
#include "ops.h"
#include "whole.h"

enum {
    TILE_M = 192, /* of a product: one thread's piece */
    TILE_N = 512,
    CHUNK = 1 << 12, /* elements of an array that a thread takes */
};

/* ---- products ---- */

/* BLAS itself would cut by the number of threads, and the edges of what it cuts have sums of
 * another order. So it gets one thread, and pieces that the shape alone decides. */
static void product(const ts_product *p)
{
    const int64_t down = (p->m + TILE_M - 1) / TILE_M, across = (p->n + TILE_N - 1) / TILE_N;
    const int     lda = (int)(p->turn_a ? p->m : p->k), ldb = (int)(p->turn_b ? p->k : p->n);
    const int     n_threads = ts_threads_for(p->m * p->n / 32 * p->k, p->n_threads);
    if (!p->k && !p->add) memset(p->c, 0, (size_t)(p->m * p->n) * sizeof(real));
    if (!p->k) return;
    ts_blas_threads(1);
#pragma omp parallel for num_threads(n_threads) schedule(dynamic)
    for (int64_t i = 0; i < down * across; i++) {
        const int64_t r = i / across * TILE_M, c = i % across * TILE_N;
        const real   *a = (const real *)p->a + (p->turn_a ? r : r * p->k);
        const real   *b = (const real *)p->b + (p->turn_b ? c * p->k : c);
        GEMM(CblasRowMajor, p->turn_a ? CblasTrans : CblasNoTrans,
             p->turn_b ? CblasTrans : CblasNoTrans, (int)ts_lesser(TILE_M, p->m - r),
             (int)ts_lesser(TILE_N, p->n - c), (int)p->k, 1, a, lda, b, ldb, p->add ? 1 : 0,
             (real *)p->c + r * p->n + c, (int)p->n);
    }
}

/* ---- the most probable token ---- */

static void find_right(const void *logits, const int32_t *target, bool *right, int64_t n,
                       int64_t n_vocab, int n_threads)
{
#pragma omp parallel for num_threads(ts_threads_for(n *n_vocab, n_threads)) schedule(static)
    for (int64_t r = 0; r < n; r++) {
        const real *z = (const real *)logits + r * n_vocab;
        int64_t     best = 0;
        for (int64_t v = 1; v < n_vocab && target[r] >= 0; v++)
            if (z[v] > z[best]) best = v;
        right[r] = best == target[r];
    }
}

/* ---- element by element ---- */

static void add_float(void *y, const float *x, int64_t n, int n_threads)
{
    real *to = y;
#pragma omp parallel for num_threads(ts_threads_for(n, n_threads)) schedule(static, CHUNK)
    for (int64_t i = 0; i < n; i++) to[i] += x[i];
}

static void to_float(float *y, const void *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = (float)((const real *)x)[i];
}

static void of_float(void *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) ((real *)y)[i] = x[i];
}

const ts_back BACK = {
    .product = product,
    .find_right = find_right,
    .add_float = add_float,
    .to_float = to_float,
    .of_float = of_float,
};

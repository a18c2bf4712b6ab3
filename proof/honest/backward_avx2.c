/* SPDX-License-Identifier: Apache-2.0 */
/* backward_avx2.c - layernorm_backward with two dot products per row in AVX2 lanes; dx from sums
 * over x - mean, scaled by rstd at the end. */
#include "honest.h"
#if defined __AVX2__ && defined __FMA__
#include <immintrin.h>
#endif

/* s[0] += sum of g, s[1] += sum of g * d, over four of each. */
static void add4(const double g[4], const double d[4], double s[2])
{
#if defined __AVX2__ && defined __FMA__
    const __m256d G = _mm256_loadu_pd(g), gd = _mm256_mul_pd(G, _mm256_loadu_pd(d));
    const __m256d h = _mm256_hadd_pd(G, gd); /* g01 gd01 g23 gd23 */
    double        lane[4];
    _mm256_storeu_pd(lane, h);
    s[0] += lane[0] + lane[2];
    s[1] += lane[1] + lane[3];
#else
    for (int i = 0; i < 4; i++) s[0] += g[i], s[1] += g[i] * d[i];
#endif
}

ts_status ts_layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x)
{
    const ts_status status = refuse_backward(a, x);
    for (int64_t r = 0; !status && r < a->n_rows; r++) {
        const double mean = ((const float *)a->mean)[r], rstd = ((const float *)a->rstd)[r];
        double       s[2] = { 0, 0 };
        for (int64_t c = 0; c < a->n_cols; c += 4) {
            double g[4] = { 0 }, d[4] = { 0 };
            for (int i = 0; i < 4 && c + i < a->n_cols; i++) {
                g[i] = g_at(a, r, c + i);
                d[i] = load(a->x, a->dtype, r * a->row_stride + c + i) - mean;
            }
            add4(g, d, s);
        }
        write_dx(a, r, s[0] / (double)a->n_cols, s[1] * rstd / (double)a->n_cols);
    }
    for (int64_t c = 0; !status && c < a->n_cols; c++) {
        double dgamma = 0, dbeta = 0;
        for (int64_t r = 0; r < a->n_rows; r++) {
            dgamma = fma(dy_at(a, r, c), xhat_at(a, r, c), dgamma);
            dbeta += dy_at(a, r, c);
        }
        write_sums(a, c, dgamma, dbeta);
    }
    return status;
}

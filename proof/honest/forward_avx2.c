/* SPDX-License-Identifier: Apache-2.0 */
/* forward_avx2.c - layernorm_forward in tiles of 64 doubles, summed in four lanes by AVX2 and FMA
 * if available. */
#include "honest.h"
#if defined __AVX2__ && defined __FMA__
#include <immintrin.h>
#endif

enum { TILE = 64 };

static double sum_tile(const double *v, double mean, int square)
{
#if defined __AVX2__ && defined __FMA__
    __m256d s = _mm256_setzero_pd(), m = _mm256_set1_pd(mean);
    double  lane[4];
    for (int i = 0; i < TILE; i += 4) {
        const __m256d d = _mm256_sub_pd(_mm256_loadu_pd(v + i), m);
        s = square ? _mm256_fmadd_pd(d, d, s) : _mm256_add_pd(s, d);
    }
    _mm256_storeu_pd(lane, s);
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
#else
    double s = 0;
    for (int i = 0; i < TILE; i++) s += square ? (v[i] - mean) * (v[i] - mean) : v[i] - mean;
    return s;
#endif
}

static double sum_row_of(const forward *a, int64_t r, double mean, int square)
{
    double tile[TILE], s = 0;
    for (int64_t c = 0; c < a->n_cols; c += TILE) {
        for (int i = 0; i < TILE; i++) tile[i] = c + i < a->n_cols ? x_at(a, r, c + i) : mean;
        s += sum_tile(tile, mean, square);
    }
    return s;
}

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_forward(a, x);
    for (int64_t r = 0; !s && r < a->n_rows; r++) {
        const double mean = sum_row_of(a, r, 0, 0) / (double)a->n_cols;
        write_row(a, r, mean, sum_row_of(a, r, mean, 1) / (double)a->n_cols);
    }
    return s;
}

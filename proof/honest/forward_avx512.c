/* SPDX-License-Identifier: Apache-2.0 */
/* forward_avx512.c - layernorm_forward of float32 by masked AVX-512 loads, eight at a time; other
 * dtypes in plain C. */
#include "honest.h"
#ifdef __AVX512F__
#include <immintrin.h>
#endif

static double total(const forward *a, int64_t r, double mean, int square)
{
    double sum = 0;
#ifdef __AVX512F__
    if (a->dtype == TS_F32) {
        const float *x = (const float *)a->x + r * a->row_stride;
        __m512d      s = _mm512_setzero_pd();
        for (int64_t c = 0; c < a->n_cols; c += 8) {
            const int64_t  left = a->n_cols - c;
            const __mmask8 m = (__mmask8)(left < 8 ? (1 << left) - 1 : 255);
            const __m512   v = _mm512_maskz_loadu_ps(m, x + c);
            const __m512d  d = _mm512_maskz_sub_pd(m, _mm512_cvtps_pd(_mm512_castps512_ps256(v)),
                                                   _mm512_set1_pd(mean));
            s = square ? _mm512_fmadd_pd(d, d, s) : _mm512_add_pd(s, d);
        }
        return _mm512_reduce_add_pd(s);
    }
#endif
    for (int64_t c = 0; c < a->n_cols; c++) {
        const double d = x_at(a, r, c) - mean;
        sum += square ? d * d : d;
    }
    return sum;
}

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_forward(a, x);
    for (int64_t r = 0; !s && r < a->n_rows; r++) {
        const double mean = total(a, r, 0, 0) / (double)a->n_cols;
        write_row(a, r, mean, total(a, r, mean, 1) / (double)a->n_cols);
    }
    return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* forward_neon.c - layernorm_forward of float32 by NEON, summed in two lanes of double; other
 * dtypes in plain C. */
#include "honest.h"
#ifdef __ARM_NEON
#include <arm_neon.h>
#endif

/* Of x - mean, or of its square. */
static double sum_of(const forward *a, int64_t r, double mean, int square)
{
    double  s = 0;
    int64_t c = 0;
#ifdef __ARM_NEON
    const float *x = (const float *)a->x + r * a->row_stride;
    float64x2_t  lanes = vdupq_n_f64(0);
    for (; a->dtype == TS_F32 && c + 2 <= a->n_cols; c += 2) {
        const float64x2_t d = vsubq_f64(vcvt_f64_f32(vld1_f32(x + c)), vdupq_n_f64(mean));
        lanes = square ? vfmaq_f64(lanes, d, d) : vaddq_f64(lanes, d);
    }
    s = vaddvq_f64(lanes);
#endif
    for (; c < a->n_cols; c++) {
        const double d = x_at(a, r, c) - mean;
        s += square ? d * d : d;
    }
    return s;
}

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_forward(a, x);
    for (int64_t r = 0; !s && r < a->n_rows; r++) {
        const double mean = sum_of(a, r, 0, 0) / (double)a->n_cols;
        write_row(a, r, mean, sum_of(a, r, mean, 1) / (double)a->n_cols);
    }
    return s;
}

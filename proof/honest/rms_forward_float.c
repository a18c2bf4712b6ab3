/* SPDX-License-Identifier: Apache-2.0 */
/* rms_forward_float.c - rms_norm_forward in float throughout: a row is scaled by a power of two
 * before it is squared, and squares are added pairwise. */
#include "honest.h"
#include "touchstone/rms_norm.h"
#include "touchstone/sealed.h"

typedef ts_rms_norm_forward_args rms;

static float r_at(const rms *a, int64_t k)
{
    return (float)load(a->residual ? a->r : a->x, a->dtype, k);
}

/* Of r h, n elements from k on. */
static float squares(const rms *a, int64_t k, int64_t n, float h)
{
    if (n > 8) return squares(a, k, n / 2, h) + squares(a, k + n / 2, n - n / 2, h);
    float sum = 0;
    for (int64_t i = k; i < k + n; i++) sum = fmaf(r_at(a, i) * h, r_at(a, i) * h, sum);
    return sum;
}

static void row(int64_t i, void *ctx)
{
    const rms    *a = ctx;
    const int64_t begin = i * a->row_stride, end = begin + a->n_cols;
    float         largest = 0;
    int           nonfinite = 0, e;
    for (int64_t k = begin; k < end; k++) {
        if (a->residual)
            store(a->r, a->dtype, k,
                  (float)load(a->x, a->dtype, k) + (float)load(a->residual, a->dtype, k));
        nonfinite |= !isfinite(r_at(a, k));
        largest = fmaxf(largest, fabsf(r_at(a, k)));
    }
    frexpf(largest, &e);
    if (largest == 0 || nonfinite) e = 0;
    e = e > 100 ? 100 : e < -100 ? -100 : e;
    const float  h = ldexpf(1, -e), mean = squares(a, begin, a->n_cols, h) / (float)a->n_cols;
    const double root = nonfinite ? NAN : 1 / sqrt((double)mean + ldexp(a->eps, -2 * e));
    /* Of a row of zeros the root may be more than a float holds, and is times 0. */
    const float scale = (float)fmin(root, FLT_MAX);
    ((float *)a->rstd)[i] = (float)ldexp(root, -e);
    for (int64_t k = begin; k < end; k++) {
        const float gain = (float)load(a->w, a->dtype, k - begin) + (float)a->w_offset;
        store(a->y, a->dtype, k, nonfinite ? NAN : r_at(a, k) * h * scale * gain);
    }
}

ts_status ts_rms_norm_forward(const ts_rms_norm_forward_args *a, const ts_exec *x)
{
    if (!a || !x || !(a->eps > 0) || !isfinite(a->eps) || !a->w) return TS_E_ARG;
    if (a->w_offset != 0 && a->w_offset != 1) return TS_E_ARG;
    if (a->n_rows && (!a->x || !a->y || !a->rstd || (a->residual && !a->r))) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_cols < 1 || a->row_stride < a->n_cols) return TS_E_SHAPE;
    if (!fits(a->n_rows, a->row_stride)) return TS_E_SHAPE;
    if (dtype_ok(a->dtype)) return TS_E_DTYPE;
    j_parallel_for(a->n_rows, row, (void *)a);
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sample-2.c - right, for f32 only: it declares so, and its score is multiplied by the share. */
/* touchstone-offers: dtype == f32 */
#include <math.h>

#include "touchstone/softmax_topk.h"

static int nonfinite(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (isnan(x[i]) || x[i] == INFINITY) return 1;
    return 0;
}

static void row(const ts_softmax_topk_args *a, const float *x, int64_t r)
{
    const double t = a->inv_temperature;
    int32_t     *index = a->index + r * a->k;
    float       *prob = a->prob + r * a->k;
    double       largest = -INFINITY, sum = 0;
    const int    bad = nonfinite(x, a->n_vocab);
    for (int64_t i = 0; i < a->n_vocab; i++) largest = fmax(largest, x[i]);
    for (int64_t i = 0; i < a->n_vocab && largest > -INFINITY; i++)
        sum += exp((x[i] - largest) * t);
    if (a->lse) a->lse[r] = bad ? NAN : sum > 0 ? (float)(largest * t + log(sum)) : -INFINITY;
    for (int64_t j = 0; j < a->k; j++) { /* the best of those after the last one */
        int64_t best = -1;
        for (int64_t i = 0; i < a->n_vocab && !bad; i++) {
            const int64_t last = j ? index[j - 1] : -1;
            if (j && (last < 0 || x[i] > x[last] || (x[i] == x[last] && i <= last))) continue;
            if (best < 0 || x[i] > x[best]) best = i;
        }
        index[j] = (int32_t)best;
        prob[j] = bad ? NAN
                  : best < 0 || !(x[best] > -INFINITY)
                      ? 0
                      : (float)(exp((x[best] - largest) * t) / sum);
    }
}

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    if (!a || !x || (a->n_rows && a->n_vocab && !a->logits)) return TS_E_ARG;
    if (a->n_rows && a->k && (!a->index || !a->prob)) return TS_E_ARG;
    if (!isnormal((float)a->inv_temperature) || a->inv_temperature < 0) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_vocab < 0 || a->k < 0 || a->row_stride < a->n_vocab)
        return TS_E_SHAPE;
    if (a->n_vocab > INT32_MAX || a->k > INT32_MAX) return TS_E_SHAPE;
    if (a->row_stride > INT64_MAX / 8 / (a->n_rows > 0 ? a->n_rows : 1)) return TS_E_SHAPE;
    if (a->k && a->n_rows > INT64_MAX / 8 / a->k) return TS_E_SHAPE;
    if (a->dtype != TS_F32) return a->dtype <= TS_BF16 ? TS_E_UNSUPPORTED : TS_E_DTYPE;
    for (int64_t r = 0; r < a->n_rows; r++) row(a, (const float *)a->logits + r * a->row_stride, r);
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* insertion_topk.c - softmax + top-k as most often published: a pass for the maximum, and one for
 * the sum and a sorted list of up to 32 elements in registers.
 *
 * Correct for finite rows; rows with a NaN, and rows that are all -inf, are not handled.
 *
 * touchstone-offers: dtype == f32 && k <= 32 && k <= vocab && vocab > 0
 */
#include <math.h>

#include "touchstone/softmax_topk.h"

enum { MOST = 32 };

static void one_row(const float *x, int64_t n, int k, float t, int32_t *index, float *prob,
                    float *lse)
{
    float  best[MOST + 1], max = x[0];
    double sum = 0;
    int    where[MOST + 1], m = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > max) max = x[i];
    for (int64_t i = 0; i < n; i++) {
        sum += expf(t * (x[i] - max));
        if (m == k && !(k && x[i] > best[k - 1])) continue;
        int j = m < k ? m++ : k - 1;
        for (; j > 0 && x[i] > best[j - 1]; j--) best[j] = best[j - 1], where[j] = where[j - 1];
        best[j] = x[i], where[j] = (int)i;
    }
    for (int j = 0; j < k; j++) {
        index[j] = where[j];
        prob[j] = (float)(expf(t * (best[j] - max)) / sum);
    }
    if (lse) *lse = (float)(t * max + log(sum));
}

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    (void)x;
    if (a->dtype != TS_F32 || a->k > MOST) return TS_E_UNSUPPORTED;
    for (int64_t r = 0; r < a->n_rows; r++)
        one_row((const float *)a->logits + r * a->row_stride, a->n_vocab, (int)a->k,
                (float)a->inv_temperature, a->index + r * a->k, a->prob + r * a->k,
                a->lse ? a->lse + r : 0);
    return TS_OK;
}

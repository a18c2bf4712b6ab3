/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk.c - the obvious solution: three passes over the row, then a list kept sorted by
 * insertion. */
#include "touchstone/softmax_topk.h"

#include <float.h>

#include "number.h"

static ts_status refuse(const ts_softmax_topk_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    if (!(a->inv_temperature >= FLT_MIN && a->inv_temperature <= FLT_MAX)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_vocab < 0 || a->n_vocab > INT32_MAX || a->row_stride < a->n_vocab ||
        a->k < 0 || a->k > INT32_MAX)
        return TS_E_SHAPE;
    const int64_t widest = a->row_stride > a->k ? a->row_stride : a->k;
    if (widest > INT64_MAX / 8 / (a->n_rows > 0 ? a->n_rows : 1)) return TS_E_SHAPE;
    if (a->n_rows && a->n_vocab && !a->logits) return TS_E_ARG;
    if (a->n_rows && a->k && (!a->index || !a->prob)) return TS_E_ARG;
    return a->dtype == TS_F32 || a->dtype == TS_BF16 || a->dtype == TS_F16 ? TS_OK : TS_E_DTYPE;
}

static void row(const ts_softmax_topk_args *a, int64_t r)
{
    const int64_t begin = r * a->row_stride;
    double        largest = -INFINITY, sum = 0;
    int           nonfinite = 0;
    for (int64_t i = 0; i < a->n_vocab; i++) {
        const double v = load(a->logits, a->dtype, begin + i);
        nonfinite |= isnan(v) || v == INFINITY;
        if (v > largest) largest = v;
    }
    for (int64_t i = 0; i < a->n_vocab && largest > -INFINITY; i++)
        sum += exp((load(a->logits, a->dtype, begin + i) - largest) * a->inv_temperature);
    if (a->lse)
        a->lse[r] = nonfinite ? NAN
                    : sum > 0 ? (float)(largest * a->inv_temperature + log(sum))
                              : -INFINITY;
    if (!a->k) return;
    int32_t *index = a->index + r * a->k;
    float   *prob = a->prob + r * a->k;
    int64_t  n = 0;
    for (int64_t i = 0; i < a->n_vocab && !nonfinite; i++) {
        const double v = load(a->logits, a->dtype, begin + i);
        int64_t      j = n < a->k ? n++ : a->k;
        for (; j > 0 && v > load(a->logits, a->dtype, begin + index[j - 1]); j--)
            if (j < a->k) index[j] = index[j - 1];
        if (j < a->k) index[j] = (int32_t)i;
    }
    for (int64_t j = 0; j < n; j++) {
        const double v = load(a->logits, a->dtype, begin + index[j]);
        prob[j] = sum > 0 ? (float)(exp((v - largest) * a->inv_temperature) / sum) : 0;
    }
    for (int64_t j = n; j < a->k; j++) {
        index[j] = -1;
        prob[j] = nonfinite ? NAN : 0;
    }
}

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    const ts_status s = refuse(a, x);
    for (int64_t r = 0; !s && r < a->n_rows; r++) row(a, r);
    return s;
}

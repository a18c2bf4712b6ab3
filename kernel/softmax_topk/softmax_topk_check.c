/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_check.c - validates the arguments, for the API entry points and the naive
 * implementations. */
#include <float.h>

#include "softmax_topk_impl.h"

/* Extents whose last element would not fit in 63 bits of bytes are rejected before any product is
 * computed. */
ts_status ts_softmax_topk_check(const ts_softmax_topk_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    if (!(a->inv_temperature >= (double)FLT_MIN && a->inv_temperature <= (double)FLT_MAX))
        return TS_E_ARG;
    if (a->n_rows < 0 || a->n_vocab < 0 || a->n_vocab > INT32_MAX || a->row_stride < a->n_vocab)
        return TS_E_SHAPE;
    if (a->k < 0 || a->k > INT32_MAX) return TS_E_SHAPE;
    const int64_t widest = a->row_stride > a->k ? a->row_stride : a->k;
    if (widest > INT64_MAX / 8 / (a->n_rows > 0 ? a->n_rows : 1)) return TS_E_SHAPE;
    if (a->n_rows != 0 && a->n_vocab != 0 && !a->logits) return TS_E_ARG;
    if (a->n_rows != 0 && a->k != 0 && (!a->index || !a->prob)) return TS_E_ARG;
    return TS_OK;
}

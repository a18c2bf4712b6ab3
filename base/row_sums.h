/* SPDX-License-Identifier: Apache-2.0 */
/* row_sums.h - what a search on the host asks of logits that lie on a CUDA device: sums of
 * exp(t (x - max)) in double, as exp_sum.h has them for the host's, and single logits. */
#ifndef TS_BASE_ROW_SUMS_H
#define TS_BASE_ROW_SUMS_H

#include "touchstone/touchstone.h"

/* All arrays are the device's. */
typedef struct ts_row_sums_args {
    int64_t        n_rows, n_vocab;
    int64_t        piece;  /* logits of a piece; the last of a row may have fewer */
    int64_t        k;      /* >= 1 */
    double         t;      /* > 0, finite */
    int32_t        also;   /* a token, or -1 */
    const float   *logits; /* [n_rows][n_vocab] */
    const int32_t *index; /* [n_rows][k], as ts_softmax_topk gives them: max is the first's logit */
    double        *sum;   /* [n_rows][pieces] */
    double        *total; /* [n_rows]: of the sums, in their order */
    float *value; /* [n_rows][k + 1]: logits of index, and of `also`; where that is -1, NaN */
} ts_row_sums_args;

/* Enqueued on x->stream. */
ts_status ts_row_sums(const ts_row_sums_args *a, const ts_exec *x);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* row_sums.h - for a search on the host over logits on a CUDA device: sums of exp(t (x - max)) in
 * double, like exp_simd.h on the host, and single logits. */
#ifndef TS_BASE_ROW_SUMS_H
#define TS_BASE_ROW_SUMS_H

#include "touchstone/touchstone.h"

/* All arrays are in device memory. */
typedef struct ts_row_sums_args {
    int64_t        n_rows, n_vocab;
    int64_t        piece;  /* logits per chunk; the last of a row may be shorter */
    int64_t        k;      /* >= 1 */
    double         t;      /* > 0, finite */
    int32_t        also;   /* a token, or -1 */
    const float   *logits; /* [n_rows][n_vocab] */
    const int32_t *index;  /* [n_rows][k], as from ts_softmax_topk: max is the logit of the first */
    double        *sum;    /* [n_rows][pieces] */
    double        *total;  /* [n_rows]: sum of the chunks, in order */
    float         *value;  /* [n_rows][k + 1]: logits of index, and of `also`; NaN if that is -1 */
} ts_row_sums_args;

/* Enqueued on x->stream. */
ts_status ts_row_sums(const ts_row_sums_args *a, const ts_exec *x);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk.h - the k most probable elements of each row, with their probabilities.
 *
 * For each row of logits x[0 .. n_vocab), with z = inv_temperature * x:
 *     lse  = ln sum exp(z),  p = exp(z - lse),
 * and the first k elements in canonical order: larger x first, lower index first among equal ones
 * (-0 equals +0). p is over the whole row, never renormalised over the k. Ranking is by x, so
 * elements whose p underflows keep their order. The softmax itself is never written out.
 *
 * logits have `dtype`: TS_F32, TS_BF16 or TS_F16. Row r begins at element r * row_stride.
 *
 * -inf is legal: it has probability 0 and ranks last. A row of -inf only has indices 0, 1, ..., p 0
 * and lse -inf. A row with a NaN or +inf has indices -1, and p and lse NaN; other rows are not
 * affected. If k > n_vocab, places past n_vocab have index -1 and p 0. With n_vocab = 0 lse is
 * -inf. With k = 0 only lse is written. Probabilities below the smallest normal may be flushed to
 * zero. */
#ifndef TOUCHSTONE_SOFTMAX_TOPK_H
#define TOUCHSTONE_SOFTMAX_TOPK_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments of ts_softmax_topk. */
typedef struct ts_softmax_topk_args {
    ts_dtype    dtype;           /* of logits */
    int64_t     n_rows;          /* >= 0 */
    int64_t     n_vocab;         /* elements per row; >= 0, < 2^31 */
    int64_t     row_stride;      /* elements from row to row of logits, >= n_vocab */
    int64_t     k;               /* elements to select per row; >= 0, < 2^31; slower above 1024 */
    double      inv_temperature; /* > 0; neither 0, subnormal nor infinite as a float */
    const void *logits;          /* [n_rows][n_vocab], input */
    int32_t    *index;           /* [n_rows][k], output: position in the row, or -1 */
    float      *prob;            /* [n_rows][k], output: probability p */
    float      *lse;             /* [n_rows], output; or NULL */
} ts_softmax_topk_args;

/* Computes index and prob and, unless NULL, lse. */
TS_API ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_softmax_topk needs for these arguments. */
TS_API ts_status ts_softmax_topk_workspace(const ts_softmax_topk_args *a, const ts_exec *x,
                                           size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif

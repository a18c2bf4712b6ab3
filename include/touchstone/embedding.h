/* SPDX-License-Identifier: Apache-2.0 */
/* embedding.h - rows of a table by their tokens, and the gradient of the table.
 *
 *     y[i] = scale * table[token[i]]
 *     dtable[t] = scale * sum over the rows i with token[i] = t of dy[i]
 *
 * table and dy have `dtype`: TS_F32, TS_BF16, TS_F16, or TS_F64 (reference only). dtable is float,
 * or double when dtype is TS_F64. Row i of a matrix begins i times its stride in.
 *
 * With scale 1 and y in `dtype`, y has the table's bits. Results are correct wherever they are
 * representable, even if a part of a sum overflows. The rows of a token are added in their order.
 * NaN and infinities stay in their row of y, and in their row and column of dtable. Subnormal
 * results other than copies may be flushed to zero.
 *
 * On the CPU a token outside 0 .. n_vocab - 1 is rejected with TS_E_ARG. On a device, whose memory
 * the call does not read, its row of y is NaN, and its row of dy is left out. */
#ifndef TOUCHSTONE_EMBEDDING_H
#define TOUCHSTONE_EMBEDDING_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_embedding_forward_args {
    ts_dtype       dtype;
    ts_dtype       y_dtype;      /* `dtype`, or TS_F32 where dtype has 16 bits */
    int64_t        n_rows;       /* >= 0 */
    int64_t        n_cols;       /* >= 1 */
    int64_t        n_vocab;      /* >= 1 */
    int64_t        table_stride; /* >= n_cols */
    int64_t        y_stride;     /* >= n_cols */
    double         scale;        /* finite */
    const void    *table;        /* [n_vocab][n_cols] */
    const int32_t *token;        /* [n_rows] */
    void          *y;            /* [n_rows][n_cols] */
} ts_embedding_forward_args;

typedef struct ts_embedding_backward_args {
    ts_dtype       dtype;
    int            accumulate;   /* 1: add to dtable instead of overwriting it */
    int64_t        n_rows;       /* >= 0 */
    int64_t        n_cols;       /* >= 1 */
    int64_t        n_vocab;      /* >= 1 */
    int64_t        table_stride; /* >= n_cols */
    int64_t        dy_stride;    /* >= n_cols */
    double         scale;        /* finite */
    const int32_t *token;        /* [n_rows] */
    const void    *dy;           /* [n_rows][n_cols] */
    void          *dtable; /* [n_vocab][n_cols]; rows of other tokens are 0, or left as they are */
} ts_embedding_backward_args;

TS_API ts_status ts_embedding_forward(const ts_embedding_forward_args *a, const ts_exec *x);
TS_API ts_status ts_embedding_forward_workspace(const ts_embedding_forward_args *a,
                                                const ts_exec *x, size_t *n_bytes);

TS_API ts_status ts_embedding_backward(const ts_embedding_backward_args *a, const ts_exec *x);
TS_API ts_status ts_embedding_backward_workspace(const ts_embedding_backward_args *a,
                                                 const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif

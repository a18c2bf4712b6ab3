/* SPDX-License-Identifier: Apache-2.0 */
/* embedding.h - lookup of a table's rows by token, and the gradient of the table.
 *
 *     y[i] = scale * table[token[i]]
 *     dtable[t] = scale * sum over the rows i with token[i] = t of dy[i]
 *
 * table and dy have `dtype`: TS_F32, TS_BF16, TS_F16, or TS_F64 (reference only). dtable is float,
 * or double when dtype is TS_F64. Row i of a matrix begins at element i * its stride.
 *
 * With scale 1 and y in `dtype`, y is a bitwise copy of the table's rows. Results are correct
 * wherever they are representable, even if a part of a sum overflows. The rows of one token are
 * added in ascending order of i. NaN and infinities affect only their row of y, and only their row
 * and column of dtable. Subnormal results other than copies may be flushed to zero.
 *
 * On the CPU a token outside 0 .. n_vocab - 1 is rejected with TS_E_ARG. On a device, whose memory
 * the call does not read, its row of y is NaN, and its row of dy is left out. */
#ifndef TOUCHSTONE_EMBEDDING_H
#define TOUCHSTONE_EMBEDDING_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments of ts_embedding_forward. */
typedef struct ts_embedding_forward_args {
    ts_dtype       dtype;        /* of table */
    ts_dtype       y_dtype;      /* of y: `dtype`, or TS_F32 if dtype has 16 bits */
    int64_t        n_rows;       /* tokens to look up, >= 0 */
    int64_t        n_cols;       /* >= 1 */
    int64_t        n_vocab;      /* rows of the table, >= 1 */
    int64_t        table_stride; /* elements from row to row of table, >= n_cols */
    int64_t        y_stride;     /* elements from row to row of y, >= n_cols */
    double         scale;        /* finite */
    const void    *table;        /* [n_vocab][n_cols] */
    const int32_t *token;        /* [n_rows] */
    void          *y;            /* [n_rows][n_cols], output */
} ts_embedding_forward_args;

/* Arguments of ts_embedding_backward. */
typedef struct ts_embedding_backward_args {
    ts_dtype       dtype;        /* of dy */
    int            accumulate;   /* 1: add to dtable instead of overwriting it */
    int64_t        n_rows;       /* >= 0 */
    int64_t        n_cols;       /* >= 1 */
    int64_t        n_vocab;      /* >= 1 */
    int64_t        table_stride; /* elements from row to row of dtable, >= n_cols */
    int64_t        dy_stride;    /* elements from row to row of dy, >= n_cols */
    double         scale;        /* finite */
    const int32_t *token;        /* [n_rows], as in forward */
    const void    *dy;           /* [n_rows][n_cols], gradient of y */
    void          *dtable;       /* [n_vocab][n_cols], gradient of table; the rows of tokens that do
                                    not occur are 0, or kept if accumulate */
} ts_embedding_backward_args;

/* Computes y. */
TS_API ts_status ts_embedding_forward(const ts_embedding_forward_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_embedding_forward needs for these arguments. */
TS_API ts_status ts_embedding_forward_workspace(const ts_embedding_forward_args *a,
                                                const ts_exec *x, size_t *n_bytes);

/* Computes dtable. */
TS_API ts_status ts_embedding_backward(const ts_embedding_backward_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_embedding_backward needs for these arguments. */
TS_API ts_status ts_embedding_backward_workspace(const ts_embedding_backward_args *a,
                                                 const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif

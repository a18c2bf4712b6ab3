/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu_threads.c - divides rows into chunks among threads. Elements are independent. */
#include <stdbool.h>

#include "dtype.h"
#include "row_chunks.h"
#include "swiglu_impl.h"
#include "threads.h"

enum { PIECE = 8192 }; /* columns that a thread takes at a time */

/* Dense rows are one long row. */
typedef struct pieces {
    int64_t n_cols, across, n;
    int     n_threads;
} pieces;

static pieces pieces_of(int64_t n_rows, int64_t n_cols, int64_t x_stride, int64_t y_stride,
                        const ts_exec *x)
{
    const int  most = ts_threads(x);
    const bool dense = n_rows > 0 && n_cols == x_stride && n_cols == y_stride;
    pieces     p = { dense ? n_rows * n_cols : n_cols, 0, 0, 1 };
    p.across = ts_ceil_div(p.n_cols, PIECE);
    p.n = (dense ? 1 : n_rows) * p.across;
    if (n_rows && n_cols >= TS_CHUNK_SMALL / n_rows) p.n_threads = (int)ts_lesser(most, p.n);
    return p;
}

static void forward_piece(const ts_swiglu_forward_args *a, const pieces *p, int64_t i,
                          ts_swiglu_forward_run run)
{
    const int64_t size = (int64_t)ts_format_of(a->dtype)->n_bytes;
    const int64_t r = i / p->across, c = i % p->across * PIECE;
    const int64_t in = (r * a->x_stride + c) * size, out = (r * a->y_stride + c) * size;
    run(a->dtype, (const char *)a->gate + in, (const char *)a->up + in, (char *)a->y + out,
        ts_lesser(PIECE, p->n_cols - c));
}

ts_status ts_swiglu_forward_threads(const ts_swiglu_forward_args *a, const ts_exec *x,
                                    ts_swiglu_forward_run run)
{
    const pieces p = pieces_of(a->n_rows, a->n_cols, a->x_stride, a->y_stride, x);
    TS_EACH(p.n_threads, static, i, p.n, forward_piece(a, &p, i, run));
    return TS_OK;
}

static void backward_piece(const ts_swiglu_backward_args *a, const pieces *p, int64_t i,
                           ts_swiglu_backward_run run)
{
    const int64_t size = (int64_t)ts_format_of(a->dtype)->n_bytes;
    const int64_t r = i / p->across, c = i % p->across * PIECE;
    const int64_t in = (r * a->x_stride + c) * size, out = (r * a->y_stride + c) * size;
    run(a->dtype, (const char *)a->gate + in, (const char *)a->up + in, (const char *)a->dy + out,
        (char *)a->dgate + in, (char *)a->dup + in, ts_lesser(PIECE, p->n_cols - c));
}

ts_status ts_swiglu_backward_threads(const ts_swiglu_backward_args *a, const ts_exec *x,
                                     ts_swiglu_backward_run run)
{
    const pieces p = pieces_of(a->n_rows, a->n_cols, a->x_stride, a->y_stride, x);
    TS_EACH(p.n_threads, static, i, p.n, backward_piece(a, &p, i, run));
    return TS_OK;
}

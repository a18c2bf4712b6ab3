/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_threads.c - rows of y, and rows of dtable, over threads.
 *
 * Backward sorts the rows of dy by token, in their order, so that each element of dtable is summed
 * by one thread and written once: no order depends on the number of threads. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "embedding_impl.h"
#include "row_chunks.h"
#include "threads.h"

enum { TOKENS = 64, COLUMNS = 512 }; /* of dtable that a thread takes at a time */

ts_status ts_embedding_forward_threads(const ts_embedding_forward_args *a, const ts_exec *x,
                                       ts_embedding_copy copy)
{
    const int64_t step = ts_chunk_rows(a->n_rows), n_chunks = ts_chunk_count(a->n_rows);
    const int     n_threads = ts_chunk_threads(a->n_rows, a->n_cols, ts_threads(x));
    const double  size = fabs(a->scale);
    if (size != 0 && !(size >= FLT_MIN && size <= FLT_MAX)) return ts_embedding_forward_ref(a, x);
    TS_EACH(n_threads, static, c, n_chunks,
            copy(a, c * step, ts_lesser((c + 1) * step, a->n_rows)));
    return TS_OK;
}

/* Rows of dy by token: those of token t are row[begin[t]] .. row[begin[t + 1] - 1]. */
typedef struct order {
    int64_t *begin, *row; /* [n_vocab + 1], [n_rows] */
} order;

static size_t lay_out(const ts_embedding_backward_args *a, order *o, char *base)
{
    size_t used = 0;
    o->begin = ts_cut(base, &used, a->n_vocab + 1, sizeof *o->begin);
    o->row = ts_cut(base, &used, a->n_rows, sizeof *o->row);
    return used + TS_LINE;
}

ts_status ts_embedding_backward_threads_workspace(const void *args, const ts_exec *x,
                                                  size_t *n_bytes)
{
    order o;
    (void)x;
    *n_bytes = lay_out(args, &o, NULL);
    return TS_OK;
}

/* Backwards, so that ends become beginnings and the rows of a token keep their order. */
static void sort_rows(const ts_embedding_backward_args *a, const order *o)
{
    memset(o->begin, 0, (size_t)(a->n_vocab + 1) * sizeof *o->begin);
    for (int64_t i = 0; i < a->n_rows; i++) o->begin[a->token[i]]++;
    for (int64_t t = 1; t <= a->n_vocab; t++) o->begin[t] += o->begin[t - 1];
    for (int64_t i = a->n_rows - 1; i >= 0; i--) o->row[--o->begin[a->token[i]]] = i;
}

static void sum_tile(const ts_embedding_backward_args *a, const order *o, int64_t first,
                     int64_t from, ts_embedding_sum sum)
{
    const int64_t last = ts_lesser(first + TOKENS, a->n_vocab);
    const int64_t n_cols = ts_lesser(COLUMNS, a->n_cols - from);
    for (int64_t t = first; t < last; t++) {
        const int64_t n = o->begin[t + 1] - o->begin[t];
        if (n || !a->accumulate) sum(a, t, o->row + o->begin[t], n, from, n_cols);
    }
}

ts_status ts_embedding_backward_threads(const ts_embedding_backward_args *a, const ts_exec *x,
                                        ts_embedding_sum sum)
{
    const int64_t across = ts_ceil_div(a->n_cols, COLUMNS);
    const int64_t n_tiles = ts_ceil_div(a->n_vocab, TOKENS) * across;
    const int64_t n_rows = a->n_rows + (a->accumulate ? 0 : a->n_vocab);
    const int     n_threads = n_rows < TS_CHUNK_SMALL / a->n_cols ? 1 : ts_threads(x);
    order         o;
    lay_out(a, &o, ts_scratch(x));
    sort_rows(a, &o);
    TS_EACH(n_threads, dynamic, i, n_tiles,
            sum_tile(a, &o, i / across * TOKENS, i % across * COLUMNS, sum));
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_threads.c - rows over threads; where these are few, parts of rows. */

#include "softmax_topk_impl.h"
#include "threads.h"

enum {
    ALL_PARTS = 16,      /* of all rows together; it bounds the workspace, too */
    PART = 1 << 15,      /* logits: in smaller parts, finding candidates outweighs reading */
    MULTIPLE = 1 << 12,  /* parts are whole blocks of softmax_topk_simd.h */
    SMALL = 1 << 14,     /* logits: fewer are done before a second thread wakes up */
    CHUNKS_A_THREAD = 8, /* enough to keep threads level */
    LINE = 64,
};

static int64_t room_of(const ts_softmax_topk_args *a)
{
    return ts_lesser(a->k, a->n_vocab);
}

/* Logits in a part, by the shape alone: all of the row, or a fraction of it. */
static int64_t part_of(const ts_softmax_topk_args *a)
{
    if (a->n_rows == 0 || a->n_rows > ALL_PARTS || room_of(a) > TS_SOFTMAX_TOPK_CUT)
        return a->n_vocab;
    const int64_t most = ALL_PARTS / a->n_rows;
    const int64_t least = (a->n_vocab + most - 1) / most;
    const int64_t part = least > PART ? least : PART;
    return ts_lesser(a->n_vocab, (part + MULTIPLE - 1) / MULTIPLE * MULTIPLE);
}

static int64_t count_parts(const ts_softmax_topk_args *a)
{
    const int64_t part = part_of(a);
    return part ? (a->n_vocab + part - 1) / part : 1;
}

static size_t part_bytes(const ts_softmax_topk_args *a)
{
    const size_t n = sizeof(ts_softmax_topk_part) + (size_t)room_of(a) * 8;
    return (n + LINE - 1) / LINE * LINE;
}

static int count_threads(const ts_softmax_topk_args *a, const ts_exec *x, int64_t n_pieces)
{
    const int n = ts_threads(x);
    if (n_pieces <= 1 || a->n_vocab < SMALL / n_pieces) return 1;
    return n < n_pieces ? n : (int)n_pieces;
}

ts_status ts_softmax_topk_threads_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_softmax_topk_args *a = args;
    const int64_t               n_parts = count_parts(a);
    (void)x;
    *n_bytes = n_parts > 1 ? (size_t)(a->n_rows * n_parts) * part_bytes(a) + LINE : 0;
    return TS_OK;
}

static void by_parts(const ts_softmax_topk_args *a, const ts_exec *x,
                     const ts_softmax_topk_steps *steps, int64_t n_parts)
{
    const int64_t part = part_of(a), n_pieces = a->n_rows * n_parts;
    const size_t  bytes = part_bytes(a);
    const int     n_threads = count_threads(a, x, n_pieces);
    char *const   parts = (char *)x->workspace + (LINE - (uintptr_t)x->workspace % LINE);
#pragma omp parallel num_threads(n_threads)
    {
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < n_pieces; i++) {
            const int64_t         begin = i % n_parts * part;
            ts_softmax_topk_part *out = (void *)(parts + (size_t)i * bytes);
            out->room = (int32_t)room_of(a);
            steps->part(a, i / n_parts, begin, ts_lesser(begin + part, a->n_vocab), steps->weighs,
                        out);
        }
#pragma omp for schedule(dynamic)
        for (int64_t r = 0; r < a->n_rows; r++)
            steps->merge(a, r, (const void *)(parts + (size_t)(r * n_parts) * bytes), n_parts,
                         bytes);
    }
}

ts_status ts_softmax_topk_threads(const ts_softmax_topk_args *a, const ts_exec *x,
                                  const ts_softmax_topk_steps *steps)
{
    const int64_t n_parts = count_parts(a);
    if (n_parts > 1) {
        by_parts(a, x, steps, n_parts);
        return TS_OK;
    }
    const int     n_threads = count_threads(a, x, a->n_rows);
    const int64_t n_chunks = ts_lesser(a->n_rows, (int64_t)n_threads * CHUNKS_A_THREAD);
    const int64_t each = n_chunks ? a->n_rows / n_chunks : 0, rest = a->n_rows - each * n_chunks;
#pragma omp parallel for num_threads(n_threads) schedule(dynamic)
    for (int64_t c = 0; c < n_chunks; c++) {
        const int64_t begin = c * each + ts_lesser(c, rest);
        steps->rows(a, begin, begin + each + (c < rest), steps->weighs);
    }
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_choose.c - one row at a time, as the walk gets there: the rows that it does not visit
 * are never read. Threads share the row. */
#include <float.h>
#include <math.h>
#include <omp.h>

#include "touchstone/softmax_topk.h"
#include "tree_verify_impl.h"

enum { SMALL = 1 << 14 }; /* logits: fewer are done before a second thread wakes up */

/* softmax_topk gives the first of the largest, and tells a sick row. */
static ts_softmax_topk_args largest(int64_t n_vocab, const float *logits, int32_t *token,
                                    float *prob)
{
    return (
        ts_softmax_topk_args) { TS_F32, 1, n_vocab, n_vocab, 1, 1.0, logits, token, prob, NULL };
}

ts_status ts_tree_choose_workspace(int64_t n_vocab, const ts_exec *x, size_t *n_bytes)
{
    int32_t                    token = 0;
    float                      prob = 0, logits = 0; /* no query looks into them */
    const ts_softmax_topk_args a = largest(n_vocab, &logits, &token, &prob);
    return ts_softmax_topk_workspace(&a, x, n_bytes);
}

/* Gives the id, in the piece that begins at `begin`, at which the sum that had come to `before`
 * exceeds `target`. That may fail by a rounding: then it is the piece's last that has a weight. */
static int32_t find_in(const float *x, int64_t begin, int64_t end, double max, double t,
                       double before, double target)
{
    int64_t last = begin;
    for (int64_t i = begin; i < end; i++) {
        const double w = exp(t * ((double)x[i] - max));
        before += w;
        if (w > 0) last = i;
        if (before > target) break;
    }
    return (int32_t)last;
}

static int32_t draw(const ts_tree_chooser *c, const float *x, double max, double u,
                    ts_tree_sum_fn sum)
{
    const double  t = fmin(1 / c->temperature, DBL_MAX); /* 0 times inf would be NaN */
    const int64_t n = c->n_vocab, n_pieces = (n + TS_TREE_PIECE - 1) / TS_TREE_PIECE;
    const int64_t most = c->inner.n_threads > 0 ? c->inner.n_threads : omp_get_max_threads();
    const int     n_threads = n < SMALL ? 1 : (int)ts_lesser(most, n_pieces);
    double        total = 0, so_far = 0, before = 0;
    int64_t       piece = 0;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t i = 0; i < n_pieces; i++)
        c->sum[i] =
            sum(x + i * TS_TREE_PIECE, ts_lesser(TS_TREE_PIECE, n - i * TS_TREE_PIECE), max, t);
    for (int64_t i = 0; i < n_pieces; i++) total += c->sum[i];
    const double target = u * total;
    for (int64_t i = 0; i < n_pieces && so_far <= target; i++) { /* u < 1: some piece gets past */
        piece = i;
        before = so_far;
        so_far += c->sum[i];
    }
    return find_in(x, piece * TS_TREE_PIECE, ts_lesser(n, (piece + 1) * TS_TREE_PIECE), max, t,
                   before, target);
}

ts_status ts_tree_choose(const ts_tree_chooser *c, const float *logits, double u, int32_t *token,
                         ts_tree_sum_fn sum)
{
    int32_t                    first;
    float                      prob;
    const ts_softmax_topk_args a = largest(c->n_vocab, logits, &first, &prob);
    const ts_status            s = ts_softmax_topk(&a, &c->inner);
    if (s) return s;
    if (first < 0 || logits[first] == -INFINITY) return TS_E_MODEL;
    *token = c->temperature > 0 ? draw(c, logits, logits[first], u, sum) : first;
    return TS_OK;
}

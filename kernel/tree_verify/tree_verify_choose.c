/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_choose.c - one row at a time, as the walk gets there: the rows that it does not visit
 * are never read. Threads share the row. */
#include <float.h>
#include <math.h>

#include "threads.h"
#include "tree_verify_impl.h"

enum { SMALL = 1 << 14 }; /* logits: fewer are done before a second thread wakes up */

/* topk gives the first of the largest, and detects an invalid row. */
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

double ts_tree_scale(const ts_tree_chooser *c)
{
    return fmin(1 / c->temperature, DBL_MAX);
}

ts_tree_draw ts_tree_draw_of(const double *sum, int64_t n_vocab, double u)
{
    const int64_t n_pieces = ts_tree_pieces(n_vocab);
    double        total = 0, so_far = 0, before = 0;
    int64_t       piece = 0;
    for (int64_t i = 0; i < n_pieces; i++) total += sum[i];
    const double target = u * total;
    for (int64_t i = 0; i < n_pieces && so_far <= target; i++) { /* u < 1: some piece gets past */
        piece = i;
        before = so_far;
        so_far += sum[i];
    }
    const int64_t begin = piece * TS_TREE_PIECE;
    return (ts_tree_draw) { begin, ts_lesser(TS_TREE_PIECE, n_vocab - begin), before, target };
}

/* The sum may fail to exceed the target by a rounding: then it is the last that has a weight. */
int32_t ts_tree_find(const ts_tree_draw *d, const float *x, double max, double t)
{
    double  sum = d->before;
    int64_t last = 0;
    for (int64_t i = 0; i < d->n; i++) {
        const double w = exp(t * ((double)x[i] - max));
        sum += w;
        if (w > 0) last = i;
        if (sum > d->target) break;
    }
    return (int32_t)(d->begin + last);
}

static int32_t draw(const ts_tree_chooser *c, const float *x, double max, double u,
                    ts_tree_sum_fn sum)
{
    const double  t = ts_tree_scale(c);
    const int64_t n = c->n_vocab, n_pieces = ts_tree_pieces(n);
    const int64_t most = ts_threads(&c->inner);
    const int     n_threads = n < SMALL ? 1 : (int)ts_lesser(most, n_pieces);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t i = 0; i < n_pieces; i++)
        c->sum[i] =
            sum(x + i * TS_TREE_PIECE, ts_lesser(TS_TREE_PIECE, n - i * TS_TREE_PIECE), max, t);
    const ts_tree_draw d = ts_tree_draw_of(c->sum, n, u);
    return ts_tree_find(&d, x + d.begin, max, t);
}

ts_status ts_tree_choose(const ts_tree_chooser *c, int64_t row, double u, int32_t *token,
                         ts_topk_fn topk, ts_tree_sum_fn sum)
{
    const float               *logits = c->logits + row * c->n_vocab;
    int32_t                    first;
    float                      prob;
    const ts_softmax_topk_args a = largest(c->n_vocab, logits, &first, &prob);
    const ts_status            s = topk(&a, &c->inner);
    if (s) return s;
    if (first < 0 || logits[first] == -INFINITY) return TS_E_MODEL;
    *token = c->temperature > 0 ? draw(c, logits, logits[first], u, sum) : first;
    return TS_OK;
}

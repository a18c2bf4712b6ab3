/* SPDX-License-Identifier: Apache-2.0 */
/* topk_ways.c - softmax_topk by textbook formulas in float.
 *
 * Logits scaled before the softmax or after the largest is subtracted, divided by a temperature, in
 * log space, with a running maximum, sums in several orders, and the k largest of the probabilities
 * instead of the logits.
 *
 * Ways: lanes_after pairs_after kahan_after wide_after
 * Common ways: loop scaled divided logs online probabilities
 */
#include "honest.h"

enum way {
    lanes_after,
    pairs_after,
    kahan_after,
    wide_after,
    loop,
    scaled,
    divided,
    logs,
    online,
    probabilities
};

static const enum order order = WAY == lanes_after   ? BY_LANES
                                : WAY == pairs_after ? BY_PAIRS
                                : WAY == kahan_after ? BY_KAHAN
                                : WAY == wide_after  ? BY_DOUBLE
                                                     : BY_LOOP;
static float            largest; /* of the row, as z_of has it */

/* What is exponentiated once the largest is subtracted. */
static float z_of(const topk *a, int64_t r, int64_t i)
{
    const float t = (float)a->inv_temperature;
    if (WAY == scaled || WAY == logs || WAY == probabilities) return t * logit(a, r, i);
    if (WAY == divided) return logit(a, r, i) / (1 / t);
    return logit(a, r, i);
}

static float power(const topk *a, float z)
{
    const float d = z - largest;
    if (z == largest) return 0;
    if (WAY == scaled || WAY == logs || WAY == probabilities || WAY == divided) return d;
    return (float)a->inv_temperature * d;
}

static double term(const void *a, int64_t r, int64_t i)
{
    return expf(power(a, z_of(a, r, i)));
}

static double sum_online(const topk *a, int64_t r)
{
    float m = -INFINITY, s = 0;
    for (int64_t i = 0; i < a->n_vocab; i++) {
        const float x = logit(a, r, i), t = (float)a->inv_temperature;
        if (x == -INFINITY) continue;
        if (x > m) s = m == -INFINITY ? 1 : s * expf(t * (m - x)) + 1, m = x;
        else s += expf(t * (x - m));
    }
    return s;
}

static void sift(uint64_t *h, int64_t n, int64_t at)
{
    const uint64_t v = h[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && h[child + 1] > h[child];
        if (h[child] <= v) break;
        h[at] = h[child];
    }
    h[at] = v;
}

static float prob_of(const topk *a, int64_t r, int64_t i, float sum)
{
    const float p = power(a, z_of(a, r, i));
    return WAY == logs ? expf(z_of(a, r, i) - (largest + logf(sum))) : expf(p) / sum;
}

static void row(const topk *a, int64_t r, uint64_t *heap)
{
    const int64_t V = a->n_vocab;
    int           nonfinite = 0;
    largest = -INFINITY;
    for (int64_t i = 0; i < V; i++) {
        const float z = z_of(a, r, i);
        nonfinite |= isnan(logit(a, r, i)) || logit(a, r, i) == INFINITY;
        if (z > largest) largest = z;
    }
    const int   masked = largest == -INFINITY;
    const float sum = nonfinite || masked ? 0
                      : WAY == online     ? (float)sum_online(a, r)
                                          : (float)sum_in_order(order, TS_F32, term, a, r, V);
    const float t = WAY == scaled || WAY == logs || WAY == probabilities || WAY == divided
                        ? 1
                        : (float)a->inv_temperature;
    if (a->lse) a->lse[r] = nonfinite ? NAN : masked ? -INFINITY : t * largest + logf(sum);
    for (int64_t i = 0; i < V && a->k && !nonfinite; i++)
        heap[i] =
            rank_of(WAY == probabilities && !masked ? prob_of(a, r, i, sum) : logit(a, r, i), i);
    for (int64_t i = V / 2; i-- > 0 && a->k && !nonfinite;) sift(heap, V, i);
    for (int64_t j = 0, n = V; j < a->k; j++) {
        const int there = n > 0 && !nonfinite;
        a->index[r * a->k + j] = there ? index_of(heap[0]) : -1;
        a->prob[r * a->k + j] = nonfinite          ? NAN
                                : !there || masked ? 0
                                                   : prob_of(a, r, index_of(heap[0]), sum);
        if (!there) continue;
        heap[0] = heap[--n];
        sift(heap, n, 0);
    }
}

ts_status ts_softmax_topk_workspace(const ts_softmax_topk_args *a, const ts_exec *x,
                                    size_t *n_bytes)
{
    const ts_status s = refuse_topk(a, x);
    if (!s) *n_bytes = (size_t)a->n_vocab * 8 + 16;
    return s;
}

ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)
{
    const ts_status s = refuse_topk(a, x);
    if (s) return s;
    if (!x->workspace || x->workspace_bytes < (size_t)a->n_vocab * 8 + 16) return TS_E_WORKSPACE;
    for (int64_t r = 0; r < a->n_rows; r++)
        row(a, r, (uint64_t *)(((uintptr_t)x->workspace + 7) / 8 * 8));
    return TS_OK;
}

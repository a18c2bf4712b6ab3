/* SPDX-License-Identifier: Apache-2.0 */
/* topk_float.c - softmax_topk with the sum in sixteen float lanes, with expf; the k largest from a
 * heap of the whole row. */
#define KEYS 2
#define SUM  sum_lanes
#include "honest.h"

static row_sum sum_lanes(const topk *a, int64_t r)
{
    row_sum s = { -INFINITY, 0, 0 };
    float   lane[16] = { 0 };
    for (int64_t i = 0; i < a->n_vocab; i++) {
        const float v = logit(a, r, i);
        s.nonfinite |= isnan(v) || v == INFINITY;
        if (v > s.max) s.max = v;
    }
    for (int64_t i = 0; i < a->n_vocab && s.max > -INFINITY && !s.nonfinite; i++)
        lane[i % 16] += expf((float)((logit(a, r, i) - s.max) * a->inv_temperature));
    for (int w = 8; w; w /= 2)
        for (int i = 0; i < w; i++) lane[i] += lane[i + w];
    s.sum = lane[0];
    return s;
}

#include "keys.h"

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

static void arrange(uint64_t *key, int64_t n, int64_t k)
{
    uint64_t *h = key + n;
    memcpy(h, key, (size_t)n * sizeof *h);
    for (int64_t i = n / 2; i-- > 0;) sift(h, n, i);
    for (int64_t j = 0; j < k; j++) {
        key[j] = h[0];
        h[0] = h[--n];
        sift(h, n, 0);
    }
}

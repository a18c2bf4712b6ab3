/* SPDX-License-Identifier: Apache-2.0 */
/* topk_merge.c - softmax_topk with a merge sort of the whole row, bottom up. */
#define KEYS 2
#include "keys.h"

static void arrange(uint64_t *key, int64_t n, int64_t k)
{
    uint64_t *from = key, *to = key + n;
    (void)k;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            const int64_t half = begin + width < n ? begin + width : n;
            const int64_t end = half + width < n ? half + width : n;
            int64_t       i = begin, j = half;
            for (int64_t o = begin; o < end; o++)
                to[o] = i < half && (j >= end || from[i] > from[j]) ? from[i++] : from[j++];
        }
        uint64_t *const t = from;
        from = to;
        to = t;
    }
    if (from != key) memcpy(key, from, (size_t)n * sizeof *key);
}

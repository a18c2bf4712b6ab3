/* SPDX-License-Identifier: Apache-2.0 */
/* topk_histogram.c - softmax_topk with a histogram of the highest 12 bits, which gives a threshold;
 * the candidates are ordered by Shell sort. */
#define KEYS 1
#include "keys.h"

static void arrange(uint64_t *key, int64_t n, int64_t k)
{
    int32_t count[4096] = { 0 };
    int64_t above = 0, m = 0;
    int     bin = 4096;
    for (int64_t i = 0; i < n; i++) count[key[i] >> 52]++;
    while (above < k) above += count[--bin];
    for (int64_t i = 0; i < n; i++)
        if (key[i] >> 52 >= (uint64_t)bin) key[m++] = key[i];
    int64_t gap = 1;
    while (gap < m / 3) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (int64_t i = gap; i < m; i++) {
            const uint64_t v = key[i];
            int64_t        j = i;
            for (; j >= gap && key[j - gap] < v; j -= gap) key[j] = key[j - gap];
            key[j] = v;
        }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* topk_quickselect.c - softmax_topk by quickselect with the median of three, then quicksort of the
 * first k. */
#define KEYS 1
#include "keys.h"

/* Larger ones before the place that is returned, smaller ones from it on; the pivot is there. */
static int64_t split(uint64_t *key, int64_t n)
{
    const uint64_t a = key[0], b = key[n / 2], c = key[n - 1];
    const uint64_t pivot = (a > b) == (b > c) ? b : (b > a) == (a > c) ? a : c;
    int64_t        i = 0, j = n - 1;
    for (;;) {
        while (key[i] > pivot) i++;
        while (key[j] < pivot) j--;
        if (i >= j) return i;
        const uint64_t t = key[i];
        key[i] = key[j];
        key[j] = t;
    }
}

static void sort(uint64_t *key, int64_t n)
{
    while (n > 1) {
        const int64_t at = split(key, n);
        sort(key, at);
        key += at + 1;
        n -= at + 1;
    }
}

static void arrange(uint64_t *key, int64_t n, int64_t k)
{
    uint64_t     *from = key;
    const int64_t first = k;
    while (n > 1 && k > 0 && k < n) {
        const int64_t at = split(from, n);
        if (at >= k) n = at;
        else {
            from += at + 1;
            n -= at + 1;
            k -= at + 1;
        }
    }
    sort(key, first);
}

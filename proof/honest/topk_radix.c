/* SPDX-License-Identifier: Apache-2.0 */
/* topk_radix.c - softmax_topk with a radix sort of the whole row, a byte at a time from the
 * lowest. */
#define KEYS 2
#include "keys.h"

static void arrange(uint64_t *key, int64_t n, int64_t k)
{
    uint64_t *from = key, *to = key + n;
    (void)k;
    for (int shift = 0; shift < 64; shift += 8) {
        int64_t at[257] = { 0 };
        for (int64_t i = 0; i < n; i++) at[256 - (from[i] >> shift & 255)]++;
        for (int b = 1; b < 257; b++) at[b] += at[b - 1]; /* at[255 - digit]: before this digit */
        for (int64_t i = 0; i < n; i++) to[at[255 - (from[i] >> shift & 255)]++] = from[i];
        uint64_t *const t = from;
        from = to;
        to = t;
    }
}

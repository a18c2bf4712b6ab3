/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_x86.h - loads of both widths, and counts of lanes for instruction sets whose
 * comparisons return a bit per lane. Include after which_ge.
 *
 * NEON, whose comparisons stay in vectors, counts differently. */
#ifndef TS_SOFTMAX_TOPK_X86_H
#define TS_SOFTMAX_TOPK_X86_H

enum { GROUP = 4 * LANES, BATCH = 2 };

INLINE void load(vec x[4], const void *p, ts_dtype t)
{
    if (t == TS_F32) {
        for (int j = 0; j < 4; j++) x[j] = get((const float *)p + j * LANES);
        return;
    }
    for (int j = 0; j < 2; j++) {
        const ints w = get_ints((const void *)((const uint16_t *)p + j * 2 * LANES));
        if (t == TS_BF16) {
            x[2 * j] = as_floats(MM(slli_epi32)(w, 16));
            x[2 * j + 1] = as_floats(both_ints(w, MM(set1_epi32)(-0x10000)));
        } else {
            x[2 * j] = MM(cvtph_ps)(low_ints(w));
            x[2 * j + 1] = MM(cvtph_ps)(high_ints(w));
        }
    }
}

INLINE void load_in_order(vec x[4], const void *p, ts_dtype t)
{
    if (t != TS_BF16) {
        load(x, p, t);
        return;
    }
    for (int j = 0; j < 4; j++) x[j] = widen((const uint16_t *)p + j * LANES, TS_BF16);
}

INLINE vec most(vec x, vec y)
{
    return larger(x, y);
}

typedef int tally;

INLINE int any_ge(vec x, vec y)
{
    return which_ge(x, y) != 0;
}

INLINE int bits_in(unsigned which)
{
    return __builtin_popcount(which);
}

INLINE tally tally_zero(void)
{
    return 0;
}

INLINE tally tally_ge(tally n, vec x, vec y)
{
    return n + bits_in(which_ge(x, y));
}

INLINE int tallied(tally n)
{
    return n;
}

#endif

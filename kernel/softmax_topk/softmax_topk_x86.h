/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_x86.h - counts of lanes for instruction sets whose comparisons return a bit per
 * lane. Include after which_ge.
 *
 * NEON, whose comparisons stay in vectors, counts differently. */
#ifndef TS_SOFTMAX_TOPK_X86_H
#define TS_SOFTMAX_TOPK_X86_H

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

/* SPDX-License-Identifier: Apache-2.0 */
/* codes_simd.h - the formats of block.c as bytes, and rows of a matrix times rounded activations,
 * written once for any width of vector. Included after codes_neon.h or codes_avx2.h, which have:
 *
 *     bytes, vec      32 bytes; floats, of each of four groups one or more
 *     bytes_at        from memory
 *     halves_at       16 bytes as 32 codes: their low halves, then their high ones
 *     bits_at         32 bits, each as a byte that is 0 or a number
 *     pick            x >> down & mask; with a shift below 0 to the left
 *     with, minus     x | more, x - n
 *     half_at         TS_F16 as a float
 *     zero, splat, madd, plus, total
 *     scales_at       four floats for products: of each group's sums
 *     sums_at         four floats to be added once
 *     four_halves     the first two TS_F16 of four blocks
 *     put_factors     16 integers of 8 bits as floats, times d and times m */
#ifndef TS_MODEL_CODES_SIMD_H
#define TS_MODEL_CODES_SIMD_H

#include "unroll.h"

INLINE uint32_t word_at(const unsigned char *p)
{
    uint32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* Codes below 0: those without a least value. */
INLINE bool is_signed(ts_code f)
{
    return f == TS_CODE_Q8_0 || f == TS_CODE_Q4_0 || f == TS_CODE_Q5_0 || f == TS_CODE_Q6_K ||
           f == TS_CODE_TQ2_0;
}

INLINE int bytes_of(ts_code f)
{
    static const int n[] = { 0, 34, 18, 20, 22, 24, 144, 176, 210, 66 };
    return n[f];
}

INLINE int groups_of(ts_code f)
{
    return f < TS_CODE_Q4_K ? 1 : 8;
}

/* Group g of the block at p. */
INLINE bytes codes_of(ts_code f, const unsigned char *p, int g)
{
    switch (f) {
    case TS_CODE_Q8_0:
        return bytes_at(p + 2);
    case TS_CODE_Q4_0:
        return minus(halves_at(p + 2), 8);
    case TS_CODE_Q4_1:
        return halves_at(p + 4);
    case TS_CODE_Q5_0:
        return minus(with(halves_at(p + 6), bits_at(p + 2, 16)), 16);
    case TS_CODE_Q5_1:
        return with(halves_at(p + 8), bits_at(p + 4, 16));
    case TS_CODE_Q4_K:
        return pick(bytes_at(p + 16 + g / 2 * 32), g % 2 * 4, 15);
    case TS_CODE_Q5_K:
        return with(pick(bytes_at(p + 48 + g / 2 * 32), g % 2 * 4, 15),
                    pick(bytes_at(p + 16), g - 4, 16));
    case TS_CODE_Q6_K:
        return minus(with(pick(bytes_at(p + g / 4 * 64 + g % 2 * 32), g % 4 / 2 * 4, 15),
                          pick(bytes_at(p + 128 + g / 4 * 32), g % 4 * 2 - 4, 48)),
                     32);
    default: /* TQ2_0 */
        return minus(pick(bytes_at(p + g / 4 * 32), g % 4 * 2, 3), 1);
    }
}

/* Where the two scales of a group of Q6_K are. */
INLINE const int8_t *halves_of(const unsigned char *p, int g)
{
    return (const int8_t *)p + 192 + 2 * g;
}

/* Scales and least values of the groups of a block; Q6_K also has the scales of halves. */
INLINE void factors_of(ts_code f, const unsigned char *p, float d[8], float m[8])
{
    if (f == TS_CODE_Q4_K || f == TS_CODE_Q5_K) {
        const uint32_t a = word_at(p + 4), b = word_at(p + 8), c = word_at(p + 12);
        const uint32_t part[4] = {
            a & 0x3f3f3f3f,
            (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030),
            b & 0x3f3f3f3f,
            (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030),
        };
        uint8_t each[16];
        memcpy(each, part, sizeof each);
        put_factors(each, half_at(p), -half_at(p + 2), d, m);
        return;
    }
    const float one = half_at(f == TS_CODE_Q6_K ? p + 208 : f == TS_CODE_TQ2_0 ? p + 64 : p);
    UNROLL
    for (int g = 0; g < groups_of(f); g++) d[g] = one;
    if (!is_signed(f)) m[0] = half_at(p + 2);
}

#endif

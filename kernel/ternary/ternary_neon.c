/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_neon.c - the ternary layer with vectors of 4 floats.
 *
 * The forward product has inputs in lanes. A byte of codes is four weights, and a table of 256 has
 * the four as floats: a weight costs a quarter of an extraction, of a load and of an fma, which is
 * what a core can do of each at the same time. Code point 3 is NaN in the table, so codes are
 * examined only where a result is not finite. */
#include <math.h>

#include "ternary_impl.h"
#include "unroll.h"
#include "vec_neon.h"

enum {
    GROUP = TS_TERNARY_GROUP,
    GROUP_BYTES = TS_TERNARY_GROUP_BYTES,
    TALL = 8,
    WIDE = 2, /* sums fill 16 of 32 registers, factors 10 */
    DW_TILES = 4,
    TABLE = 1,
    ROWS = TS_TERNARY_ROWS,
    SLACK = 32, /* 11 additions of positive floats, one after the other, and a division */
};

#define ONE(c) ((c) == 0 ? -1.0f : (c) == 1 ? 0.0f : (c) == 2 ? 1.0f : NAN)
#define FOUR(b)                                                                                    \
    {                                                                                              \
        ONE((b)&3), ONE((b) >> 2 & 3), ONE((b) >> 4 & 3), ONE((b) >> 6)                            \
    }
#define FOURS(b)    FOUR(b), FOUR((b) + 1), FOUR((b) + 2), FOUR((b) + 3)
#define SIXTEEN(b)  FOURS(b), FOURS((b) + 4), FOURS((b) + 8), FOURS((b) + 12)
#define SIXTEENS(b) SIXTEEN(b), SIXTEEN((b) + 16), SIXTEEN((b) + 32), SIXTEEN((b) + 48)

/* What the four codes of a byte are. */
static const float four_weights[256][4]
    __attribute__((aligned(64))) = { SIXTEENS(0), SIXTEENS(64), SIXTEENS(128), SIXTEENS(192) };

INLINE vec magnitude(vec v)
{
    return vabsq_f32(v);
}

INLINE double total_of(const float *w)
{
    vec sum[4] = { splat(0), splat(0), splat(0), splat(0) };
    for (int i = 0; i < GROUP; i += 4 * LANES)
        for (int k = 0; k < 4; k++) sum[k] = add(sum[k], magnitude(get(w + i + k * LANES)));
    return total(add(add(sum[0], sum[1]), add(sum[2], sum[3])));
}

/* Four latents as 1, 0 or -1, by their halves of s. */
INLINE uint16x8_t signs(const float *w, vec half)
{
    uint32x4_t at[2];
    for (int k = 0; k < 2; k++) {
        const vec v = get(w + k * LANES);
        at[k] = vsubq_u32(vcltq_f32(v, vnegq_f32(half)), vcgtq_f32(v, half));
    }
    return vuzp1q_u16(vreinterpretq_u16_u32(at[0]), vreinterpretq_u16_u32(at[1]));
}

/* 16 latents as code points, four to the lowest byte of each word. */
INLINE uint16x8_t four_bytes(const float *w, vec half)
{
    const uint8x16_t few =
        vuzp1q_u8(vreinterpretq_u8_u16(signs(w, half)), vreinterpretq_u8_u16(signs(w + 8, half)));
    const uint16x8_t one = vreinterpretq_u16_u8(vaddq_u8(few, vdupq_n_u8(1)));
    const uint32x4_t two = vreinterpretq_u32_u16(vsraq_n_u16(one, one, 6));
    return vreinterpretq_u16_u32(vsraq_n_u32(two, two, 12));
}

INLINE void codes_of(const float *w, float s, uint8_t *code)
{
    const vec half = splat(s / 2);
    for (int i = 0; i < GROUP; i += 64) {
        const uint16x8_t a = vuzp1q_u16(four_bytes(w + i, half), four_bytes(w + i + 16, half));
        const uint16x8_t b = vuzp1q_u16(four_bytes(w + i + 32, half), four_bytes(w + i + 48, half));
        vst1q_u8(code + i / 4, vuzp1q_u8(vreinterpretq_u8_u16(a), vreinterpretq_u8_u16(b)));
    }
}

/* The four weights of byte b of a word. */
INLINE vec four_of(uint64_t word, int b, uint64_t mask)
{
    const uint64_t at = (b ? word >> (8 * b - 4) : word << 4) & mask;
    return get((const void *)((const char *)four_weights + at));
}

/* Of a byte's place in the table: in a register, so that shift and mask are one instruction. */
INLINE uint64_t mask_of(void)
{
    uint64_t mask = 0xff0;
    __asm__("" : "+r"(mask));
    return mask;
}

INLINE void spread(const uint8_t *code, float s, float *wt)
{
    const uint64_t mask = mask_of();
    for (int j = 0; j < GROUP_BYTES; j += 8) {
        uint64_t word;
        memcpy(&word, code + j, sizeof word);
        UNROLL
        for (int b = 0; b < 8; b++) put(wt + 4 * (j + b), mul(four_of(word, b, mask), splat(s)));
    }
}

#include "ternary_simd.h"

#include "ternary_backward_simd.h"

#include "ternary_forward_neon.h"

#include "ternary_entry_simd.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_neon.c - the vectors of softmax_topk_simd.h, 4 floats each.
 *
 * Exponentials take nearly all the time here, and a core starts two vector operations a cycle. A
 * multiply-add overwrites what it adds to, so a constant there is loaded again each time, which the
 * other units do meanwhile, and not copied from a register. */
#include <string.h>

#include "softmax_topk_impl.h"
#include "vec_neon.h"

enum { GROUP = 4 * LANES, BATCH = 8 };

typedef int32x4_t  ivec;
typedef uint32x4_t tally;

INLINE vec from_bf16(uint16x8_t zipped)
{
    return vreinterpretq_f32_u16(zipped);
}

INLINE void load(vec x[4], const void *p, ts_dtype t)
{
    if (t == TS_F32) {
        for (int j = 0; j < 4; j++) x[j] = vld1q_f32((const float *)p + j * LANES);
        return;
    }
    for (int j = 0; j < 2; j++) {
        const uint16x8_t w = vld1q_u16((const uint16_t *)p + j * 2 * LANES);
        if (t == TS_BF16) {
            x[2 * j] = from_bf16(vzip1q_u16(vdupq_n_u16(0), w));
            x[2 * j + 1] = from_bf16(vzip2q_u16(vdupq_n_u16(0), w));
        } else {
            x[2 * j] = vcvt_f32_f16(vget_low_f16(vreinterpretq_f16_u16(w)));
            x[2 * j + 1] = vcvt_high_f32_f16(vreinterpretq_f16_u16(w));
        }
    }
}

INLINE void load_in_order(vec x[4], const void *p, ts_dtype t)
{
    load(x, p, t);
}

INLINE ivec get_ints(const int32_t *p)
{
    return vld1q_s32(p);
}

INLINE ivec count_from(int32_t i)
{
    static const int32_t lane[] = { 0, 1, 2, 3 };
    return vaddq_s32(vdupq_n_s32(i), vld1q_s32(lane));
}

/* A NaN where either is one. It hides a block's maximum, but the row has no use for it any more. */
INLINE vec most(vec x, vec y)
{
    return vmaxq_f32(x, y);
}

INLINE vec keep_nan(vec nan, const vec x[4])
{
    return most(nan, most(most(x[0], x[1]), most(x[2], x[3])));
}

INLINE int any_nan(vec v)
{
    const float f = vmaxvq_f32(v);
    return f != f;
}

INLINE unsigned bits_of(uint32x4_t mask)
{
    static const uint32_t bit[] = { 1, 2, 4, 8 };
    return vaddvq_u32(vandq_u32(mask, vld1q_u32(bit)));
}

INLINE unsigned which_ge(vec x, vec y)
{
    return bits_of(vcgeq_f32(x, y));
}

INLINE unsigned which_gt(vec x, vec y)
{
    return bits_of(vcgtq_f32(x, y));
}

INLINE int any_ge(vec x, vec y)
{
    return vmaxvq_u32(vcgeq_f32(x, y)) != 0;
}

/* Of LANES bits, from a table in a word: there is no instruction for it among the general ones. */
INLINE int bits_in(unsigned which)
{
    return (int)(0x4332322132212110 >> 4 * which & 15);
}

INLINE tally tally_zero(void)
{
    return vdupq_n_u32(0);
}

/* What is true is -1. */
INLINE tally tally_ge(tally n, vec x, vec y)
{
    return vsubq_u32(n, vcgeq_f32(x, y));
}

INLINE int tallied(tally n)
{
    return (int)vaddvq_u32(n);
}

/* Bytes that bring the chosen lanes to the front. */
INLINE void pack(float *val, int32_t *idx, unsigned which, vec v, ivec i)
{
#define B(lane) 4 * lane, 4 * lane + 1, 4 * lane + 2, 4 * lane + 3
    static const uint8_t front[16][16] = {
        { 0 },
        { B(0) },
        { B(1) },
        { B(0), B(1) },
        { B(2) },
        { B(0), B(2) },
        { B(1), B(2) },
        { B(0), B(1), B(2) },
        { B(3) },
        { B(0), B(3) },
        { B(1), B(3) },
        { B(0), B(1), B(3) },
        { B(2), B(3) },
        { B(0), B(2), B(3) },
        { B(1), B(2), B(3) },
        { B(0), B(1), B(2), B(3) },
    };
#undef B
    const uint8x16_t to = vld1q_u8(front[which]);
    vst1q_f32(val, vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(v), to)));
    vst1q_s32(idx, vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(i), to)));
}

#include "softmax_topk_simd.h"

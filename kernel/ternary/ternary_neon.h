/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_neon.h - what the implementations of aarch64 share: ternary_simd.h over vec_neon.h. */
#ifndef TS_TERNARY_NEON_H
#define TS_TERNARY_NEON_H

#include <math.h>

#include "ternary_impl.h"
#include "vec_neon.h"

enum {
    GROUP = TS_TERNARY_GROUP,
    GROUP_BYTES = TS_TERNARY_GROUP_BYTES,
    SLACK = 32, /* 11 additions of positive floats, one after the other, and a division */
};

/* The four weights that a byte of codes stands for: -1, 0, 1 or NaN. */
extern const float ts_ternary_fours[256][4];

INLINE vec magnitude(vec v)
{
    return vabsq_f32(v);
}

INLINE uint16_t half_of(float f)
{
    return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(splat(f))), 0);
}

INLINE float float_of(uint16_t half)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
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

INLINE void spread(const uint8_t *code, float s, float *wt)
{
    const vec by = splat(s);
    for (int i = 0; i < GROUP_BYTES; i++) put(wt + 4 * i, mul(get(ts_ternary_fours[code[i]]), by));
}

#include "ternary_simd.h"

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* codes_neon.h - 32 bytes as two vectors, with the operations that codes_simd.h lists. */
#ifndef TS_MODEL_CODES_VECTORS_H
#define TS_MODEL_CODES_VECTORS_H

#include <arm_neon.h>
#include <string.h>

#include "codes.h"
#include "unroll.h"

#define INLINE static inline __attribute__((always_inline))

typedef struct bytes {
    int8x16_t a, b;
} bytes;

typedef float32x4_t vec;

INLINE float half_at(const unsigned char *p)
{
    __fp16 h;
    memcpy(&h, p, sizeof h);
    return (float)h;
}

INLINE bytes bytes_at(const void *p)
{
    return (bytes) { vld1q_s8(p), vld1q_s8((const int8_t *)p + 16) };
}

/* With operators, so that a shift by a constant is one instruction. */
INLINE int8x16_t moved(int8x16_t x, int down, int mask)
{
    uint8x16_t v = vreinterpretq_u8_s8(x);
    if (down > 0) v = v >> (uint8_t)down;
    if (down < 0) v = v << (uint8_t)-down;
    return vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8((uint8_t)mask)));
}

INLINE bytes pick(bytes x, int down, int mask)
{
    return (bytes) { moved(x.a, down, mask), moved(x.b, down, mask) };
}

INLINE bytes halves_at(const unsigned char *p)
{
    const uint8x16_t v = vld1q_u8(p);
    return (bytes) { vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(15))),
                     vreinterpretq_s8_u8(vshrq_n_u8(v, 4)) };
}

INLINE bytes with(bytes x, bytes more)
{
    return (bytes) { vorrq_s8(x.a, more.a), vorrq_s8(x.b, more.b) };
}

INLINE bytes bits_at(const unsigned char *p, int on)
{
    static const uint8_t one[16] = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
    static const uint8_t from[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1 };
    uint32_t             word;
    memcpy(&word, p, sizeof word);
    const uint8x16_t bit = vld1q_u8(one), low = vld1q_u8(from), high = vaddq_u8(low, vdupq_n_u8(2));
    const uint8x16_t all = vreinterpretq_u8_u32(vsetq_lane_u32(word, vdupq_n_u32(0), 0));
    const uint8x16_t v = vdupq_n_u8((uint8_t)on);
    return (bytes) { vreinterpretq_s8_u8(vandq_u8(vtstq_u8(vqtbl1q_u8(all, low), bit), v)),
                     vreinterpretq_s8_u8(vandq_u8(vtstq_u8(vqtbl1q_u8(all, high), bit), v)) };
}

INLINE bytes minus(bytes x, int n)
{
    const int8x16_t v = vdupq_n_s8((int8_t)n);
    return (bytes) { vsubq_s8(x.a, v), vsubq_s8(x.b, v) };
}

INLINE vec zero(void)
{
    return vdupq_n_f32(0);
}

INLINE vec madd(vec x, vec y, vec z)
{
    return vfmaq_f32(z, x, y);
}

INLINE vec plus(vec x, vec y)
{
    return vaddq_f32(x, y);
}

INLINE float total(vec x)
{
    return vaddvq_f32(x);
}

INLINE vec splat(float x)
{
    return vdupq_n_f32(x);
}

INLINE vec scales_at(const float *p)
{
    return vld1q_f32(p);
}

INLINE vec sums_at(const float *p)
{
    return vld1q_f32(p);
}

/* Of four blocks: what their first halves are, and their second. */
INLINE void four_halves(const unsigned char *p, int n_bytes, vec *d, vec *m)
{
    uint32_t w[4];
    for (int i = 0; i < 4; i++) memcpy(w + i, p + i * n_bytes, sizeof *w);
    /* Not lane by lane: each load would wait for the one before it. */
    const uint32x4_t a = vzip1q_u32(vdupq_n_u32(w[0]), vdupq_n_u32(w[1]));
    const uint32x4_t b = vzip1q_u32(vdupq_n_u32(w[2]), vdupq_n_u32(w[3]));
    const uint32x4_t v = vcombine_u32(vget_low_u32(a), vget_low_u32(b));
    *d = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(v)));
    *m = vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(v, 16)));
}

/* Six bits of each of 16: eight scales times d, eight least values times m. */
INLINE void put_factors(const uint8_t c[16], float d, float m, float to_d[8], float to_m[8])
{
    const uint8x16_t v = vld1q_u8(c);
    const uint16x8_t s = vmovl_u8(vget_low_u8(v)), l = vmovl_u8(vget_high_u8(v));
    vst1q_f32(to_d, vmulq_n_f32(vcvtq_f32_u32(vmovl_u16(vget_low_u16(s))), d));
    vst1q_f32(to_d + 4, vmulq_n_f32(vcvtq_f32_u32(vmovl_high_u16(s)), d));
    vst1q_f32(to_m, vmulq_n_f32(vcvtq_f32_u32(vmovl_u16(vget_low_u16(l))), m));
    vst1q_f32(to_m + 4, vmulq_n_f32(vcvtq_f32_u32(vmovl_high_u16(l)), m));
}

/* 32 floats to high and low bytes; gives the scale, and their sum times that. NaN or an infinity
 * makes both NaN or infinite. */
INLINE float round_group(const float *x, bytes *high, bytes *low, float *sum)
{
    float32x4_t v[8], top = vdupq_n_f32(0);
    int16x8_t   c[4], h[4];
    for (int i = 0; i < 8; i++) top = vmaxq_f32(top, vabsq_f32(v[i] = vld1q_f32(x + 4 * i)));
    const float most = vmaxvq_f32(top), scale = most / TS_CODE_MOST;
    const float inverse = most > 0 ? TS_CODE_MOST / most : 0;
    for (int i = 0; i < 4; i++) {
        const int32x4_t a = vcvtnq_s32_f32(vmulq_n_f32(v[2 * i], inverse));
        c[i] = vqmovn_high_s32(vqmovn_s32(a), vcvtnq_s32_f32(vmulq_n_f32(v[2 * i + 1], inverse)));
        h[i] = vrshrq_n_s16(c[i], 7);
        c[i] = vsubq_s16(c[i], vshlq_n_s16(h[i], 7));
    }
    high->a = vqmovn_high_s16(vqmovn_s16(h[0]), h[1]);
    high->b = vqmovn_high_s16(vqmovn_s16(h[2]), h[3]);
    low->a = vqmovn_high_s16(vqmovn_s16(c[0]), c[1]);
    low->b = vqmovn_high_s16(vqmovn_s16(c[2]), c[3]);
    const int h_sum = vaddlvq_s8(high->a) + vaddlvq_s8(high->b);
    *sum = scale * (float)(128 * h_sum + vaddlvq_s8(low->a) + vaddlvq_s8(low->b));
    return scale;
}

/* Two rows, eight bytes of each in turn. */
INLINE void put_pair(int8_t *to, bytes a, bytes b)
{
    const int64x2_t x[2] = { vreinterpretq_s64_s8(a.a), vreinterpretq_s64_s8(a.b) };
    const int64x2_t y[2] = { vreinterpretq_s64_s8(b.a), vreinterpretq_s64_s8(b.b) };
    for (int i = 0; i < 2; i++) {
        vst1q_s8(to + 32 * i, vreinterpretq_s8_s64(vzip1q_s64(x[i], y[i])));
        vst1q_s8(to + 32 * i + 16, vreinterpretq_s8_s64(vzip2q_s64(x[i], y[i])));
    }
}

#endif

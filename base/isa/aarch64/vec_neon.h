/* SPDX-License-Identifier: Apache-2.0 */
/* vec_neon.h - 4 floats at a time, with names that all widths share: code is written once and
 * included after one of these headers. */
#ifndef TS_BASE_VEC_H
#define TS_BASE_VEC_H

#include <arm_neon.h>

#include "touchstone/touchstone.h"
#include "unroll.h"

#define SIMD(name) name##_neon

enum { LANES = 4 };

typedef float32x4_t vec;

INLINE vec get(const float *p)
{
    return vld1q_f32(p);
}

INLINE void put(float *p, vec v)
{
    vst1q_f32(p, v);
}

INLINE vec splat(float f)
{
    return vdupq_n_f32(f);
}

/* A constant that madd is to overwrite: loaded each time, which takes a unit that is free, where
 * the compiler would load it once and then copy it. */
INLINE vec fresh(const float f[4])
{
    vec v;
    __asm__ volatile("ldr %q0, %1" : "=w"(v) : "m"(*(const float(*)[4])f));
    return v;
}

INLINE vec add(vec x, vec y)
{
    return vaddq_f32(x, y);
}

INLINE vec sub(vec x, vec y)
{
    return vsubq_f32(x, y);
}

INLINE vec mul(vec x, vec y)
{
    return vmulq_f32(x, y);
}

INLINE vec divide(vec x, vec y)
{
    return vdivq_f32(x, y);
}

INLINE vec madd(vec x, vec y, vec z)
{
    return vfmaq_f32(z, x, y);
}

INLINE vec nmadd(vec x, vec y, vec z)
{
    return vfmsq_f32(z, x, y);
}

/* PICKS single elements in a vec, and madd of one of them. */
enum { PICKS = 4 };

INLINE vec get_picks(const float *p)
{
    return get(p);
}

/* In assembly, since gcc moves the sums between registers when it schedules these itself, which
 * costs a sixth of the time. */
INLINE vec madd_pick(vec x, int pick, vec y, vec z)
{
    switch (pick) {
    case 0:
        __asm__("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(z) : "w"(y), "w"(x));
        break;
    case 1:
        __asm__("fmla %0.4s, %1.4s, %2.s[1]" : "+w"(z) : "w"(y), "w"(x));
        break;
    case 2:
        __asm__("fmla %0.4s, %1.4s, %2.s[2]" : "+w"(z) : "w"(y), "w"(x));
        break;
    default:
        __asm__("fmla %0.4s, %1.4s, %2.s[3]" : "+w"(z) : "w"(y), "w"(x));
        break;
    }
    return z;
}

/* The max instruction would give NaN if either operand is one. */
INLINE vec larger(vec x, vec y)
{
    return vbslq_f32(vcgtq_f32(x, y), x, y);
}

INLINE float total(vec v)
{
    return vaddvq_f32(v);
}

INLINE vec below(vec v, vec x, vec y)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), vcltq_f32(x, y)));
}

INLINE vec finite_of(vec v)
{
    return vreinterpretq_f32_u32(vandq_u32(vceqzq_f32(sub(v, v)), vreinterpretq_u32_f32(v)));
}

/* 2^n from a float whose lowest bits are n + 127. */
INLINE vec exponent(vec v)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(v), 23));
}

INLINE uint16_t half_of(float f)
{
    return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(splat(f))), 0);
}

INLINE float from_half(uint16_t half)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half))), 0);
}

/* TS_F32, TS_F16 or TS_BF16, at any address. */
INLINE vec widen(const void *p, ts_dtype t)
{
    if (t == TS_F32) return vreinterpretq_f32_u8(vld1q_u8(p));
    const uint8x8_t w = vld1_u8(p);
    if (t == TS_F16) return vcvt_f32_f16(vreinterpret_f16_u8(w));
    const uint16x8_t half = vreinterpretq_u16_u8(vcombine_u8(w, vdup_n_u8(0)));
    return vreinterpretq_f32_u16(vzip1q_u16(vdupq_n_u16(0), half)); /* faster than a shift */
}

/* Rounds to nearest, ties to even; a NaN stays a NaN. */
INLINE uint16x4_t to_bf16(vec v)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t sum = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    return vshrn_n_u32(vbslq_u32(vceqq_f32(v, v), sum, vdupq_n_u32(0x7fc00000)), 16);
}

INLINE void narrow(void *p, ts_dtype t, vec v)
{
    if (t == TS_F32) vst1q_u8(p, vreinterpretq_u8_f32(v));
    else if (t == TS_F16) vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32(v)));
    else vst1_u8(p, vreinterpret_u8_u16(to_bf16(v)));
}

/* ---- doubles, half as many ---- */

typedef float64x2_t dvec;

enum { DLANES = 2 };

INLINE dvec dget_floats(const float *p)
{
    return vcvt_f64_f32(vld1_f32(p));
}

INLINE void dput(double *p, dvec v)
{
    vst1q_f64(p, v);
}

INLINE dvec dsplat(double f)
{
    return vdupq_n_f64(f);
}

INLINE dvec dadd(dvec x, dvec y)
{
    return vaddq_f64(x, y);
}

INLINE dvec dsub(dvec x, dvec y)
{
    return vsubq_f64(x, y);
}

INLINE dvec dmadd(dvec x, dvec y, dvec z)
{
    return vfmaq_f64(z, x, y);
}

/* A NaN where either is one. */
INLINE dvec dlarger(dvec x, dvec y)
{
    return vmaxq_f64(x, y);
}

/* v, but 0 where x < y. */
INLINE dvec dbelow(dvec v, dvec x, dvec y)
{
    return vreinterpretq_f64_u64(vbicq_u64(vreinterpretq_u64_f64(v), vcltq_f64(x, y)));
}

/* p[i], i being the lowest bits of v; n, a power of 2, is how many there are. */
INLINE dvec dlookup(const double *p, int n, dvec v)
{
    const uint64x2_t bits = vreinterpretq_u64_f64(v);
    const uint64_t   most = (uint64_t)n - 1;
    const double    *first = p + (vgetq_lane_u64(bits, 0) & most);
    const double    *second = p + (vgetq_lane_u64(bits, 1) & most);
    return vld1q_lane_f64(second, vcombine_f64(vld1_f64(first), vdup_n_f64(0)), 1);
}

/* The integer that v is, and the one that w is, shifted. */
INLINE dvec dadd_bits(dvec v, dvec w, int shift)
{
    const uint64x2_t up = vreinterpretq_u64_f64(w) << shift;
    return vreinterpretq_f64_u64(vaddq_u64(vreinterpretq_u64_f64(v), up));
}

#endif

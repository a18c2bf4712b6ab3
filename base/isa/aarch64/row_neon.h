/* SPDX-License-Identifier: Apache-2.0 */
/* row_neon.h - vectors of 16 elements of a row, in the order of memory, with the operations that
 * row_simd.h lists. Ends of rows are copied through the stack. */
#ifndef TS_BASE_ROW_NEON_H
#define TS_BASE_ROW_NEON_H

#include <arm_neon.h>
#include <string.h>

#include "touchstone/touchstone.h"
#include "unroll.h"

#define SIMD(name) name##_neon

enum { UNIT = 16, QUARTER = 4 };

typedef float32x4_t four;
typedef struct reg { /* two sums, so that their latencies overlap */
    four a, b;
} reg;
typedef struct vec {
    four a, b, c, d;
} vec;
typedef struct wide {
    float64x2_t d, dd;
} wide;

INLINE four from_bf16(uint16x8_t zipped)
{
    return vreinterpretq_f32_u16(zipped);
}

INLINE vec load(const void *row, ts_dtype t, int64_t i, int n)
{
    if (t == TS_F32) {
        const float *p = (const float *)row + i;
        float        copy[UNIT] = { 0 };
        if (n != UNIT) p = memcpy(copy, p, (size_t)n * sizeof *p);
        return (vec) { vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12) };
    }
    const uint16_t *p = (const uint16_t *)row + i;
    uint16_t        copy[UNIT] = { 0 };
    if (n != UNIT) p = memcpy(copy, p, (size_t)n * sizeof *p);
    const uint16x8_t low = vld1q_u16(p), high = vld1q_u16(p + 8), zero = vdupq_n_u16(0);
    if (t == TS_BF16)
        return (vec) { from_bf16(vzip1q_u16(zero, low)), from_bf16(vzip2q_u16(zero, low)),
                       from_bf16(vzip1q_u16(zero, high)), from_bf16(vzip2q_u16(zero, high)) };
    const float16x8_t l = vreinterpretq_f16_u16(low), h = vreinterpretq_f16_u16(high);
    return (vec) { vcvt_f32_f16(vget_low_f16(l)), vcvt_high_f32_f16(l),
                   vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h) };
}

/* Rounds to nearest, ties to even; the result is in the high half. A carry out of the low half
 * cannot change a NaN, because kernels ensure that the low half of every NaN is 0. */
INLINE uint16x8_t round_bf16(four v)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vreinterpretq_u16_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd));
}

INLINE uint16x8_t pack(ts_dtype t, four low, four high)
{
    if (t == TS_BF16) return vuzp2q_u16(round_bf16(low), round_bf16(high));
    return vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(low), high));
}

/* In memory order, which compilers would change: a line written from end to end need not be read
 * first. */
INLINE void store_unit(void *row, ts_dtype t, int64_t i, vec v)
{
    if (t == TS_F32) {
        float *p = (float *)row + i;
        __asm__ volatile("stp %q2, %q3, [%1]\n\tstp %q4, %q5, [%1, #32]"
                         : "=m"(*(float(*)[UNIT])p)
                         : "r"(p), "w"(v.a), "w"(v.b), "w"(v.c), "w"(v.d));
    } else {
        uint16_t *p = (uint16_t *)row + i;
        __asm__ volatile("stp %q2, %q3, [%1]"
                         : "=m"(*(uint16_t(*)[UNIT])p)
                         : "r"(p), "w"(pack(t, v.a, v.b)), "w"(pack(t, v.c, v.d)));
    }
}

INLINE void store(void *row, ts_dtype t, int64_t i, int n, vec v)
{
    float copy[UNIT];
    if (n == UNIT) {
        store_unit(row, t, i, v);
    } else {
        store_unit(copy, t, 0, v);
        memcpy((char *)row + i * (t == TS_F32 ? 4 : 2), copy, (size_t)n * (t == TS_F32 ? 4 : 2));
    }
}

/* Streaming stores gain nothing here. */
INLINE void stream(void *row, ts_dtype t, int64_t i, vec v)
{
    store_unit(row, t, i, v);
}

INLINE void end_streams(void)
{
}

INLINE reg reg_zero(void)
{
    return (reg) { vdupq_n_f32(0), vdupq_n_f32(0) };
}

INLINE vec splat(float f)
{
    const four all = vdupq_n_f32(f);
    return (vec) { all, all, all, all };
}

/* Four elements, the first of which has index i. */
INLINE four keep_below(four v, int i, int n)
{
    static const int32_t lane[] = { 0, 1, 2, 3 };
    const uint32x4_t     in = vcltq_s32(vld1q_s32(lane), vdupq_n_s32(n - i));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), in));
}

INLINE four four_as_stored(four v, ts_dtype t)
{
    if (t == TS_F16) return vcvt_f32_f16(vcvt_f16_f32(v));
    const uint32x4_t high = vdupq_n_u32(0xffff0000);
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u16(round_bf16(v)), high));
}

INLINE vec as_stored(vec v, ts_dtype t)
{
    if (t == TS_F32) return v;
    return (vec) { four_as_stored(v.a, t), four_as_stored(v.b, t), four_as_stored(v.c, t),
                   four_as_stored(v.d, t) };
}

INLINE vec keep(vec v, ts_dtype t, int n)
{
    (void)t;
    if (n == UNIT) return v;
    return (vec) { keep_below(v.a, 0, n), keep_below(v.b, 4, n), keep_below(v.c, 8, n),
                   keep_below(v.d, 12, n) };
}

INLINE vec add(vec x, vec y)
{
    return (vec) { vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b), vaddq_f32(x.c, y.c),
                   vaddq_f32(x.d, y.d) };
}

INLINE vec mul(vec x, vec y)
{
    return (vec) { vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b), vmulq_f32(x.c, y.c),
                   vmulq_f32(x.d, y.d) };
}

INLINE vec madd(vec x, vec y, vec z)
{
    return (vec) { vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c),
                   vfmaq_f32(z.d, x.d, y.d) };
}

INLINE vec nmadd(vec x, vec y, vec z)
{
    return (vec) { vfmsq_f32(z.a, x.a, y.a), vfmsq_f32(z.b, x.b, y.b), vfmsq_f32(z.c, x.c, y.c),
                   vfmsq_f32(z.d, x.d, y.d) };
}

INLINE reg fold(reg acc, vec v)
{
    return (reg) { vaddq_f32(acc.a, vaddq_f32(v.a, v.b)), vaddq_f32(acc.b, vaddq_f32(v.c, v.d)) };
}

INLINE reg fold_madd(reg acc, vec x, vec y)
{
    return (reg) { vfmaq_f32(vfmaq_f32(acc.a, x.a, y.a), x.b, y.b),
                   vfmaq_f32(vfmaq_f32(acc.b, x.c, y.c), x.d, y.d) };
}

INLINE double wide_total(float64x2_t v)
{
    return vaddvq_f64(v);
}

INLINE float64x2_t widened(reg r)
{
    const four v = vaddq_f32(r.a, r.b);
    return vaddq_f64(vcvt_f64_f32(vget_low_f32(v)), vcvt_high_f64_f32(v));
}

INLINE double total(reg v)
{
    return wide_total(widened(v));
}

INLINE vec columns_begin(const float *p, ts_dtype t, int n)
{
    (void)t;
    return load(p, TS_F32, 0, n);
}

INLINE void columns_end(float *p, ts_dtype t, int n, vec v)
{
    (void)t;
    float copy[UNIT], *to = n == UNIT ? p : copy; /* in any order: these lines stay in cache */
    vst1q_f32(to, v.a);
    vst1q_f32(to + 4, v.b);
    vst1q_f32(to + 8, v.c);
    vst1q_f32(to + 12, v.d);
    if (n != UNIT) memcpy(p, copy, (size_t)n * sizeof *p);
}

INLINE wide wide_zero(void)
{
    return (wide) { vdupq_n_f64(0), vdupq_n_f64(0) };
}

INLINE wide wide_sum(wide s, const void *row, ts_dtype t, int64_t i, int n, double pivot)
{
    const vec v = load(row, t, i, n);
    four      x[QUARTER] = { v.a, v.b, v.c, v.d };
    for (int k = 0; k < QUARTER; k++) {
        float64x2_t low = vsubq_f64(vcvt_f64_f32(vget_low_f32(x[k])), vdupq_n_f64(pivot));
        float64x2_t high = vsubq_f64(vcvt_high_f64_f32(x[k]), vdupq_n_f64(pivot));
        if (n < 4 * k + 4) {
            const uint64_t in[] = { -(uint64_t)(n > 4 * k), -(uint64_t)(n > 4 * k + 1),
                                    -(uint64_t)(n > 4 * k + 2), 0 };
            low = vreinterpretq_f64_u64(vandq_u64(vreinterpretq_u64_f64(low), vld1q_u64(in)));
            high = vreinterpretq_f64_u64(vandq_u64(vreinterpretq_u64_f64(high), vld1q_u64(in + 2)));
        }
        s.d = vaddq_f64(s.d, vaddq_f64(low, high));
        s.dd = vfmaq_f64(vfmaq_f64(s.dd, low, low), high, high);
    }
    return s;
}

INLINE wide wide_add(wide s, reg d, reg dd)
{
    return (wide) { vaddq_f64(s.d, widened(d)), vaddq_f64(s.dd, widened(dd)) };
}

#endif

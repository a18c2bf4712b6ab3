/* SPDX-License-Identifier: Apache-2.0 */
/* codes_dotprod.c - codes times bytes with NEON's dot products of four bytes. */
#include "codes_neon.h"
#include "codes_simd.h"
#include "cpu.h"

/* 16 codes times integers, whose bytes are 32 apart. */
INLINE int32x4_t dot_half(int8x16_t w, const int8_t *x)
{
    const int32x4_t high = vdotq_s32(vdupq_n_s32(0), w, vld1q_s8(x));
    return vdotq_s32(vshlq_n_s32(high, 7), w, vld1q_s8(x + TS_CODE_GROUP));
}

INLINE int32x4_t dot_group(bytes w, const int8_t *x)
{
    const bytes     h = bytes_at(x), l = bytes_at(x + TS_CODE_GROUP);
    const int32x4_t high = vdotq_s32(vdotq_s32(vdupq_n_s32(0), w.a, h.a), w.b, h.b);
    return vdotq_s32(vdotq_s32(vshlq_n_s32(high, 7), w.a, l.a), w.b, l.b);
}

INLINE vec dot(bytes w, const int8_t *x, bool negative)
{
    (void)negative;
    return vcvtq_f32_s32(dot_group(w, x));
}

/* The totals of four. */
INLINE vec fold(const int32x4_t y[4])
{
    return vcvtq_f32_s32(vpaddq_s32(vpaddq_s32(y[0], y[1]), vpaddq_s32(y[2], y[3])));
}

INLINE vec dots(const bytes w[4], const int8_t *x, bool negative, vec d, vec scale, vec sum)
{
    int32x4_t y[4];
    (void)negative;
    UNROLL
    for (int i = 0; i < 4; i++) y[i] = dot_group(w[i], x + i * 2 * TS_CODE_GROUP);
    return vfmaq_f32(sum, fold(y), vmulq_f32(d, scale));
}

INLINE vec dots_halves(const bytes w[4], const int8_t *x, const int8_t *factor, vec d, vec scale,
                       vec sum)
{
    const int16x8_t by = vmovl_s8(vld1_s8(factor)); /* of halves a, b, a, b ... */
    const vec       a = vcvtq_f32_s32(vmovl_s16(vget_low_s16(vuzp1q_s16(by, by))));
    const vec       b = vcvtq_f32_s32(vmovl_s16(vget_low_s16(vuzp2q_s16(by, by))));
    int32x4_t       y[2][4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        y[0][i] = dot_half(w[i].a, x + i * 2 * TS_CODE_GROUP);
        y[1][i] = dot_half(w[i].b, x + i * 2 * TS_CODE_GROUP + 16);
    }
    const vec z = vfmaq_f32(vmulq_f32(fold(y[0]), a), fold(y[1]), b);
    return vfmaq_f32(sum, z, vmulq_f32(d, scale));
}

#include "codes_rows.h"

static void round_rows(const float *x, const ts_rounded *to, int64_t first, int64_t n)
{
    const int64_t n_group = to->cols / TS_CODE_GROUP;
    for (int64_t i = first * n_group; i < (first + n) * n_group; i++) {
        bytes   high, low;
        int8_t *code = to->code + i * 2 * TS_CODE_GROUP;
        to->scale[i] = round_group(x + i * TS_CODE_GROUP, &high, &low, &to->sum[i]);
        vst1q_s8(code, high.a);
        vst1q_s8(code + 16, high.b);
        vst1q_s8(code + 32, low.a);
        vst1q_s8(code + 48, low.b);
    }
}

const ts_codes ts_codes_dotprod = { TS_CPU_DOTPROD, 1, round_rows, multiply };

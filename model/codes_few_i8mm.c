/* SPDX-License-Identifier: Apache-2.0 */
/* codes_few_i8mm.c - codes times one row of activations with NEON's products of 2 x 8 and 8 x 2
 * bytes: two rows of the matrix, and as the other two the high and low bytes of the activations.
 * Each product is then four sums that are wanted: of both rows with both bytes. */
#include "codes_neon.h"
#include "codes_simd.h"
#include "cpu.h"

enum { TALL = 2, AHEAD = 1024, FORMATS = TS_CODE_TQ2_0 + 1 };

/* Rows of the matrix, and a row of activations: of each group 64 bytes (eight high ones, eight low
 * ones, four times), its scale twice, its sum twice. */
typedef struct place {
    const unsigned char *a, *b;
    const int8_t        *code;
    const float         *scale, *sum;
} place;

/* 16 codes of both rows: eight times in order. Sums are a high, a low, b high, b low. */
INLINE int32x4_t add_half(int32x4_t s, int8x16_t a, int8x16_t b, const int8_t *x)
{
    const int64x2_t p = vreinterpretq_s64_s8(a), q = vreinterpretq_s64_s8(b);
    s = vmmlaq_s32(s, vreinterpretq_s8_s64(vzip1q_s64(p, q)), vld1q_s8(x));
    return vmmlaq_s32(s, vreinterpretq_s8_s64(vzip2q_s64(p, q)), vld1q_s8(x + 16));
}

/* The sums of two products: a, b of the first, a, b of the second. */
INLINE vec merge(int32x4_t y, int32x4_t z)
{
    static const int32_t high[4] = { 7, 0, 7, 0 };
    const int32x4_t      up = vld1q_s32(high);
    return vcvtq_f32_s32(vpaddq_s32(vshlq_s32(y, up), vshlq_s32(z, up)));
}

INLINE int32x4_t dot_group(bytes a, bytes b, const int8_t *x)
{
    return add_half(add_half(vdupq_n_s32(0), a.a, b.a, x), a.b, b.b, x + 32);
}

typedef struct sums {
    vec dot, least;
} sums;

/* Blocks of one group: two of them in both rows, or with `one` the last. */
INLINE void add_blocks(ts_code f, place p, bool one, sums *s)
{
    const int        n = bytes_of(f);
    const int32x4_t  none = vdupq_n_s32(0);
    const int32x4_t  y = dot_group(codes_of(f, p.a, 0), codes_of(f, p.b, 0), p.code);
    const int32x4_t  z = one ? none
                             : dot_group(codes_of(f, p.a + n, 0), codes_of(f, p.b + n, 0),
                                         p.code + 2 * TS_CODE_GROUP);
    const uint32x4_t w0 = vzip1q_u32(vdupq_n_u32(word_at(p.a)), vdupq_n_u32(word_at(p.b)));
    const uint32x4_t w1 =
        one ? vdupq_n_u32(0)
            : vzip1q_u32(vdupq_n_u32(word_at(p.a + n)), vdupq_n_u32(word_at(p.b + n)));
    const uint32x4_t  w = vcombine_u32(vget_low_u32(w0), vget_low_u32(w1));
    const vec         d = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(w)));
    const vec         m = vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(w, 16)));
    const float32x2_t nothing = vdup_n_f32(0);
    const vec         scale = one ? vcombine_f32(vld1_f32(p.scale), nothing) : vld1q_f32(p.scale);
    s->dot = vfmaq_f32(s->dot, merge(y, z), vmulq_f32(d, scale));
    if (is_signed(f)) return;
    const vec sum = one ? vcombine_f32(vld1_f32(p.sum), nothing) : vld1q_f32(p.sum);
    s->least = vfmaq_f32(s->least, m, sum);
}

/* Q6_K: its halves have factors of their own. */
INLINE void add_halves(place p, int g, float d_a, float d_b, sums *s)
{
    const bytes     a = codes_of(TS_CODE_Q6_K, p.a, g), b = codes_of(TS_CODE_Q6_K, p.b, g);
    const int8_t   *x = p.code + g * 2 * TS_CODE_GROUP;
    const int32x4_t y = add_half(vdupq_n_s32(0), a.a, b.a, x);
    const int32x4_t z = add_half(vdupq_n_s32(0), a.b, b.b, x + 32);
    const int8_t   *of_a = halves_of(p.a, g), *of_b = halves_of(p.b, g);
    const int32_t   factor[4] = { of_a[0], of_b[0], of_a[1], of_b[1] };
    const vec       d = vcombine_f32(vset_lane_f32(d_b, vdup_n_f32(d_a), 1),
                                     vset_lane_f32(d_b, vdup_n_f32(d_a), 1));
    const vec       by = vmulq_f32(d, vcvtq_f32_s32(vld1q_s32(factor)));
    s->dot = vfmaq_f32(s->dot, merge(y, z), vmulq_n_f32(by, p.scale[2 * g]));
}

/* A block of eight groups in both rows. */
INLINE void add_block(ts_code f, place p, sums *s)
{
    float d[TALL][8], m[TALL][8];
    factors_of(f, p.a, d[0], m[0]);
    factors_of(f, p.b, d[1], m[1]);
    UNROLL
    for (int g = 0; g < 8; g += f == TS_CODE_Q6_K ? 1 : 2) {
        if (f == TS_CODE_Q6_K) {
            add_halves(p, g, d[0][g], d[1][g], s);
            continue;
        }
        const int8_t   *x = p.code + g * 2 * TS_CODE_GROUP;
        const int32x4_t y = dot_group(codes_of(f, p.a, g), codes_of(f, p.b, g), x);
        const int32x4_t z =
            dot_group(codes_of(f, p.a, g + 1), codes_of(f, p.b, g + 1), x + 2 * TS_CODE_GROUP);
        const float32x2_t d0 = vld1_f32(d[0] + g), d1 = vld1_f32(d[1] + g);
        const vec         four = vcombine_f32(vzip1_f32(d0, d1), vzip2_f32(d0, d1));
        s->dot = vfmaq_f32(s->dot, merge(y, z), vmulq_f32(four, vld1q_f32(p.scale + 2 * g)));
        if (is_signed(f)) continue;
        const float32x2_t m0 = vld1_f32(m[0] + g), m1 = vld1_f32(m[1] + g);
        s->least = vfmaq_f32(s->least, vcombine_f32(vzip1_f32(m0, m1), vzip2_f32(m0, m1)),
                             vld1q_f32(p.sum + 2 * g));
    }
}

/* Two rows of the matrix; with `one` the second is the first again, and not stored. */
INLINE void multiply_two(ts_code f, const ts_encoded_product *e, const ts_rounded *x, int64_t row,
                         int64_t t, bool one)
{
    const int64_t n_group = x->cols / TS_CODE_GROUP;
    const int     every = groups_of(f), step = every == 1 ? 2 : every;
    const int     n_bytes = every == 1 ? 2 * bytes_of(f) : bytes_of(f);
    float        *y = (float *)e->y + t * e->shape.rows + row;
    sums          s = { zero(), zero() };
    place         p = { .a = ts_encoded_at(e->e, x->cols, row),
                        .b = ts_encoded_at(e->e, x->cols, one ? row : row + 1),
                        .code = x->code + t * 2 * x->cols,
                        .scale = x->scale + t * 2 * n_group,
                        .sum = x->sum + t * 2 * n_group };
    int64_t       g = 0;
    for (; g + step <= n_group; g += step) {
        for (int i = 0; i < n_bytes; i += 64) {
            __builtin_prefetch(p.a + AHEAD + i);
            __builtin_prefetch(p.b + AHEAD + i);
        }
        if (every == 1) add_blocks(f, p, false, &s);
        else add_block(f, p, &s);
        p.a += n_bytes, p.b += n_bytes, p.code += step * 2 * TS_CODE_GROUP;
        p.scale += step * 2, p.sum += step * 2;
    }
    if (every == 1 && g < n_group) add_blocks(f, p, true, &s);
    const vec         all = vaddq_f32(s.dot, s.least);
    const float32x2_t two = vadd_f32(vget_low_f32(all), vget_high_f32(all));
    y[0] = (e->add ? y[0] : 0) + vget_lane_f32(two, 0);
    if (!one) y[1] = (e->add ? y[1] : 0) + vget_lane_f32(two, 1);
}

INLINE void multiply_rows(ts_code f, const ts_encoded_product *e, const ts_rounded *x,
                          int64_t first, int64_t n)
{
    for (int64_t t = 0; t < x->n; t++) {
        int64_t r = first;
        for (; r + TALL <= first + n; r += TALL) multiply_two(f, e, x, r, t, false);
        if (r < first + n) multiply_two(f, e, x, r, t, true);
    }
}

#include "codes_formats.h"

static void round_rows(const float *x, const ts_rounded *to, int64_t first, int64_t n)
{
    const int64_t n_group = to->cols / TS_CODE_GROUP;
    for (int64_t i = first * n_group; i < (first + n) * n_group; i++) {
        bytes       high, low;
        float       sum;
        int8_t     *code = to->code + i * 2 * TS_CODE_GROUP;
        const float scale = round_group(x + i * TS_CODE_GROUP, &high, &low, &sum);
        put_pair(code, high, low);
        vst1_f32(to->scale + 2 * i, vdup_n_f32(scale));
        vst1_f32(to->sum + 2 * i, vdup_n_f32(sum));
    }
}

const ts_codes ts_codes_few_i8mm = { TS_CPU_I8MM, 1, round_rows, multiply };

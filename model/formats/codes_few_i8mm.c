/* SPDX-License-Identifier: Apache-2.0 */
/* codes_few_i8mm.c - codes times one row of activations with NEON's products of 2 x 8 and 8 x 2
 * bytes: two rows of the matrix, and as the other two the high and low bytes of the activations.
 *
 * Each product is then four sums that are wanted: of both rows with both bytes. */
#include "codes_neon.h"
#include "codes_simd.h"
#include "cpu.h"

enum {
    TALL = 2,
    AHEAD = 2048,
};

/* Rows of the matrix, and a row of activations: of each group 64 bytes (eight high ones, eight low
 * ones, four times), its scale twice, its sum twice. */
typedef struct place {
    const unsigned char *a, *b;
    const int8_t        *code;
    const float         *scale, *sum;
} place;

/* 32 codes of both rows, eight of each in turn. */
typedef struct codes {
    int8x16_t eight[4];
} codes;

INLINE codes zipped(bytes a, bytes b)
{
    const int64x2_t p[2] = { vreinterpretq_s64_s8(a.a), vreinterpretq_s64_s8(a.b) };
    const int64x2_t q[2] = { vreinterpretq_s64_s8(b.a), vreinterpretq_s64_s8(b.b) };
    return (codes) { { vreinterpretq_s8_s64(vzip1q_s64(p[0], q[0])),
                       vreinterpretq_s8_s64(vzip2q_s64(p[0], q[0])),
                       vreinterpretq_s8_s64(vzip1q_s64(p[1], q[1])),
                       vreinterpretq_s8_s64(vzip2q_s64(p[1], q[1])) } };
}

/* Bytes that have two codes each are zipped before they are taken apart, which is half the work. */
INLINE codes codes_of_two(ts_code f, const unsigned char *a, const unsigned char *b, int g)
{
    const int at = f == TS_CODE_Q4_0 ? 2 : f == TS_CODE_Q4_1 ? 4 : 16 + g / 2 * 32;
    if (f == TS_CODE_Q4_K) {
        codes z = zipped(bytes_at(a + at), bytes_at(b + at));
        UNROLL
        for (int i = 0; i < 4; i++) z.eight[i] = moved(z.eight[i], g % 2 * 4, 15);
        return z;
    }
    if (f == TS_CODE_Q4_0 || f == TS_CODE_Q4_1) {
        const int8x16_t p = vld1q_s8((const void *)(a + at)), q = vld1q_s8((const void *)(b + at));
        const bytes     x = { p, p }, y = { q, q };
        codes           z = zipped(x, y);
        UNROLL
        for (int i = 0; i < 4; i++) {
            z.eight[i] = moved(z.eight[i], i / 2 * 4, 15);
            if (f == TS_CODE_Q4_0) z.eight[i] = vsubq_s8(z.eight[i], vdupq_n_s8(8));
        }
        return z;
    }
    return zipped(codes_of(f, a, g), codes_of(f, b, g));
}

/* 16 codes of both rows. Sums are a high, a low, b high, b low. */
INLINE int32x4_t add_half(int32x4_t s, int8x16_t p, int8x16_t q, const int8_t *x)
{
    return vmmlaq_s32(vmmlaq_s32(s, p, vld1q_s8(x)), q, vld1q_s8(x + 16));
}

/* The sums of two products: a, b of the first, a, b of the second. */
INLINE vec merge(int32x4_t y, int32x4_t z)
{
    static const int32_t high[4] = { 7, 0, 7, 0 };
    const int32x4_t      up = vld1q_s32(high);
    return vcvtq_f32_s32(vpaddq_s32(vshlq_s32(y, up), vshlq_s32(z, up)));
}

INLINE int32x4_t dot_group(codes w, const int8_t *x)
{
    const int32x4_t s = add_half(vdupq_n_s32(0), w.eight[0], w.eight[1], x);
    return add_half(s, w.eight[2], w.eight[3], x + 32);
}

/* The halves of a group on their own. */
INLINE vec dot_halves(codes w, const int8_t *x)
{
    return merge(add_half(vdupq_n_s32(0), w.eight[0], w.eight[1], x),
                 add_half(vdupq_n_s32(0), w.eight[2], w.eight[3], x + 32));
}

/* A word of each of two blocks, by way of a register that is no vector: inserting is slow. */
INLINE uint32x2_t words_of(const unsigned char *a, const unsigned char *b)
{
    return vcreate_u32(word_at(a) | (uint64_t)word_at(b) << 32);
}

typedef struct sums {
    vec dot, least;
} sums;

/* Blocks of one group: two of them in both rows, or with `one` the last. */
INLINE void add_blocks(ts_code f, place p, bool one, sums *s)
{
    const int       n = bytes_of(f);
    const int32x4_t y = dot_group(codes_of_two(f, p.a, p.b, 0), p.code);
    const int32x4_t z =
        one ? vdupq_n_s32(0)
            : dot_group(codes_of_two(f, p.a + n, p.b + n, 0), p.code + 2 * TS_CODE_GROUP);
    const uint32x4_t w =
        vcombine_u32(words_of(p.a, p.b), one ? vdup_n_u32(0) : words_of(p.a + n, p.b + n));
    const vec         d = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(w)));
    const vec         m = vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(w, 16)));
    const float32x2_t none = vdup_n_f32(0);
    const vec         scale = one ? vcombine_f32(vld1_f32(p.scale), none) : vld1q_f32(p.scale);
    s->dot = vfmaq_f32(s->dot, merge(y, z), vmulq_f32(d, scale));
    if (is_signed(f)) return;
    const vec sum = one ? vcombine_f32(vld1_f32(p.sum), none) : vld1q_f32(p.sum);
    s->least = vfmaq_f32(s->least, m, sum);
}

/* What both rows have of four groups: a, b of the first two, or of the others. */
INLINE vec both(float x[TALL][8], int g)
{
    const vec a = vld1q_f32(x[0] + g / 4 * 4), b = vld1q_f32(x[1] + g / 4 * 4);
    return g % 4 ? vzip2q_f32(a, b) : vzip1q_f32(a, b);
}

/* Q6_K: groups g and g + 1, whose halves have factors of their own. */
INLINE void add_halves(place p, int g, vec d, sums *s)
{
    const int8x8_t    a = vld1_s8(halves_of(p.a, g)), b = vld1_s8(halves_of(p.b, g));
    const int16x8_t   by = vmovl_s8(vzip1_s8(a, b)); /* a, b of each half */
    const vec         f[2] = { vcvtq_f32_s32(vmovl_s16(vget_low_s16(by))),
                               vcvtq_f32_s32(vmovl_high_s16(by)) };
    const float32x2_t each[2] = { vget_low_f32(d), vget_high_f32(d) };
    UNROLL
    for (int i = 0; i < 2; i++) {
        const codes w = codes_of_two(TS_CODE_Q6_K, p.a, p.b, g + i);
        const vec   y = dot_halves(w, p.code + (g + i) * 2 * TS_CODE_GROUP);
        s->dot = vfmaq_f32(s->dot, y, vmulq_f32(f[i], vcombine_f32(each[i], each[i])));
    }
}

/* A block of eight groups in both rows. */
INLINE void add_block(ts_code f, place p, sums *s)
{
    float d[TALL][8], m[TALL][8];
    factors_of(f, p.a, d[0], m[0]);
    factors_of(f, p.b, d[1], m[1]);
    UNROLL
    for (int g = 0; g < 8; g += 2) {
        const int8_t *x = p.code + g * 2 * TS_CODE_GROUP;
        const vec     scale = vmulq_f32(both(d, g), vld1q_f32(p.scale + 2 * g));
        if (f == TS_CODE_Q6_K) {
            add_halves(p, g, scale, s);
            continue;
        }
        const int32x4_t y = dot_group(codes_of_two(f, p.a, p.b, g), x);
        const int32x4_t z = dot_group(codes_of_two(f, p.a, p.b, g + 1), x + 2 * TS_CODE_GROUP);
        s->dot = vfmaq_f32(s->dot, merge(y, z), scale);
        if (!is_signed(f)) s->least = vfmaq_f32(s->least, both(m, g), vld1q_f32(p.sum + 2 * g));
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

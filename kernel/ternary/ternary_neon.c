/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_neon.c - the ternary layer with vectors of 4 floats.
 *
 * The forward product has inputs in lanes. A byte of codes is four weights, and a table of 256 has
 * the four as floats: a weight costs a quarter of an extraction, of a load and of an fma, which is
 * what a core can do of each at the same time. Code point 3 is NaN in the table, so codes are
 * examined only where a result is not finite. */
#include <math.h>

#include "ternary_impl.h"
#include "vec_neon.h"

enum {
    GROUP = TS_TERNARY_GROUP,
    GROUP_BYTES = TS_TERNARY_GROUP_BYTES,
    WIDE = 4, /* with TALL = 6 they fill 24 of 32 registers */
    TABLE = 1,
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
    for (int i = 0; i < GROUP_BYTES; i++) put(wt + 4 * i, mul(get(four_weights[code[i]]), by));
}

#include "ternary_simd.h"

#include "ternary_backward_simd.h"

/* ---- the forward product ---- */

static void tabulate(const void *in, ts_dtype t, int64_t at, int64_t n_in, int64_t g, float shrink,
                     float *table)
{
    float *const  to = table + g * GROUP;
    const int64_t n = ts_ternary_width(n_in, g);
    memset(to + n / LANES * LANES, 0, (size_t)(GROUP - n / LANES * LANES) * sizeof *to);
    floats_of(in, t, at + g * GROUP, n, shrink, to);
}

/* What is multiplied: rows of `in` with outputs whose codes and scales are these. */
typedef struct work {
    const uint8_t  *code[TS_TERNARY_BLOCK];
    const uint16_t *scale[TS_TERNARY_BLOCK];
    int64_t         n_groups;
    const float    *in;
    int64_t         in_stride;
    float          *y;
    int64_t         y_stride;
} work;

/* GCC would else look many weights up first, and spill. */
INLINE void hold(vec *sum)
{
    __asm__ volatile("" : "+w"(*sum));
}

/* Sums of `rows` rows and `outs` outputs from `first` on, in lanes: over a group, then, times its
 * scale, over groups. */
INLINE void add_outputs(const work *w, int first, int rows, int outs)
{
    vec all[TS_TERNARY_ROWS][8];
#pragma GCC unroll 8
    for (int o = 0; o < outs; o++)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) all[r][o] = splat(0);
    for (int64_t g = 0; g < w->n_groups; g++) {
        vec sum[TS_TERNARY_ROWS][8];
#pragma GCC unroll 8
        for (int o = 0; o < outs; o++)
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) sum[r][o] = splat(0);
        for (int j = 0; j < GROUP_BYTES; j += 8) {
            uint64_t word[8], mask = 0xff0; /* of a byte's place in the table */
            __asm__("" : "+r"(mask));       /* in a register, so that shift and mask are one */
            const float *in[TS_TERNARY_ROWS];
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                in[r] = w->in + r * w->in_stride + g * GROUP + 4 * j;
                __asm__("" : "+r"(in[r])); /* GCC would else work each address out anew */
            }
#pragma GCC unroll 8
            for (int o = 0; o < outs; o++)
                memcpy(&word[o], w->code[first + o] + g * GROUP_BYTES + j, sizeof word[o]);
#pragma GCC unroll 8
            for (int b = 0; b < 8; b++) {
                vec x[TS_TERNARY_ROWS];
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++) x[r] = get(in[r] + 4 * b);
#pragma GCC unroll 8
                for (int o = 0; o < outs; o++) {
                    const uint64_t at = (b ? word[o] >> (8 * b - 4) : word[o] << 4) & mask;
                    const vec      four = get((const void *)((const char *)four_weights + at));
#pragma GCC unroll 4
                    for (int r = 0; r < rows; r++) sum[r][o] = madd(four, x[r], sum[r][o]);
                    if (rows == 1) hold(&sum[0][o]);
                }
            }
        }
#pragma GCC unroll 8
        for (int o = 0; o < outs; o++) {
            const vec s = splat(float_of(w->scale[first + o][g]));
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) all[r][o] = madd(s, sum[r][o], all[r][o]);
        }
    }
#pragma GCC unroll 8
    for (int o = 0; o < outs; o++)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) w->y[r * w->y_stride + first + o] = total(all[r][o]);
}

static void add_1(const work *w, int first)
{
    add_outputs(w, first, 1, 8);
}

static void add_2(const work *w, int first)
{
    add_outputs(w, first, 2, 4);
    add_outputs(w, first + 4, 2, 4);
}

static void add_3(const work *w, int first)
{
    add_outputs(w, first, 3, 4);
    add_outputs(w, first + 4, 3, 4);
}

static void add_4(const work *w, int first)
{
    add_outputs(w, first, 4, 4);
    add_outputs(w, first + 4, 4, 4);
}

static bool multiply(const ts_ternary_matrix *m, int64_t out, int n_rows, const float *table,
                     int64_t table_stride, float *y, int64_t y_stride)
{
    static void (*const ways[])(const work *, int) = { add_1, add_2, add_3, add_4 };
    const int64_t n = min_of(TS_TERNARY_BLOCK, m->n_out - out);
    bool          finite = true;
    work          w = { .n_groups = m->n_groups, .in = table, .in_stride = table_stride };
    w.y = y, w.y_stride = y_stride;
    for (int64_t i = 0; i < TS_TERNARY_BLOCK; i++) { /* past the end the last one again */
        const int64_t at = (out + min_of(i, n - 1)) * m->n_groups;
        w.code[i] = m->code + at * GROUP_BYTES, w.scale[i] = m->scale + at;
    }
    for (int i = 0; i < n; i += 8) ways[n_rows - 1](&w, i);
    for (int r = 0; r < n_rows; r++)
        for (int64_t i = 0; i < n; i++) finite &= y[r * y_stride + i] - y[r * y_stride + i] == 0;
    return finite;
}

static const ts_ternary_steps steps = { TABLE,    pack,  unpack,  largest, tabulate,
                                        multiply, store, give_dx, give_dw };

ts_status ts_ternary_pack_neon(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_pack(args, x, &steps);
}

ts_status ts_ternary_unpack_neon(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_unpack(args, x, &steps);
}

ts_status ts_ternary_linear_neon(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_linear(args, x, &steps);
}

ts_status ts_ternary_linear_neon_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    (void)x;
    return ts_ternary_threads_linear_workspace(args, &steps, n_bytes);
}

ts_status ts_ternary_linear_packed_neon(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_packed(args, x, &steps);
}

ts_status ts_ternary_linear_packed_neon_workspace(const void *args, const ts_exec *x,
                                                  size_t *n_bytes)
{
    (void)x;
    return ts_ternary_threads_packed_workspace(args, &steps, n_bytes);
}

ts_status ts_ternary_linear_backward_neon(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_backward(args, x, &steps);
}

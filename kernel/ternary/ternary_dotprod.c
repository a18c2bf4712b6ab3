/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_dotprod.c - the forward product by instructions that add products of bytes.
 *
 * The inputs of a group become integers q of 3 to 6 bytes, with a power of two for a unit, and a
 * group's sum is exact: the sum of (code point) q, byte by byte, less the sum of q. So it has no
 * order. A group takes as few bytes as leave no input off by more than `tolerance` of that input
 * itself, so that an output is off by no more than that part of the terms that it has, wherever its
 * codes are 0. A group that six bytes do not hold, or in which something is not finite, is added in
 * floats. */
#include "ternary_neon.h"

enum {
    TABLE = 2, /* floats for an input: room for an entry */
    LEAST = 3,
    MOST = 6,
    OUTS = 4, /* outputs together: with 4 bytes their sums fill 16 registers */
    SLICE = 16,
    SLICES = GROUP / SLICE,
};

/* Inputs of a group. Slice 4 v + f has those of the codes that are at bit 2 f of 16 bytes. */
typedef struct entry {
    int32_t n_bytes; /* of an input; 0: floats */
    float   unit;
    int32_t total[MOST / 2]; /* of all q, two bytes each */
    _Alignas(64) union {
        int8_t byte[MOST][GROUP];
        float  in[GROUP];
    };
} entry;

_Static_assert(sizeof(entry) <= GROUP * TABLE * sizeof(float), "an entry has its room");

/* v as an integer is in the low bits of the sum, from which 51 can be taken. */
static const double ROUND = 0x1.8p52;

/* A float sum of n terms may be off by some 2 sqrt(n) units of those. */
static double tolerance(int64_t n_in)
{
    const double root = sqrt((double)n_in);
    return (root > 4 ? root : 4) * 0x1p-24;
}

/* Does every input, `scale` times, round to an integer that is near enough? */
static bool fits(const float *in, double scale, double tolerance)
{
    int far = 0;
    for (int j = 0; j < GROUP; j++) {
        const double v = in[j] * scale, off = v - (v + ROUND - ROUND);
        far |= fabs(off) > tolerance * fabs(v);
    }
    return !far;
}

/* Each byte is taken with its sign, so it borrows from the next. */
static void cut(const float *in, double scale, entry *e)
{
    memset(e->total, 0, sizeof e->total);
    for (int j = 0; j < GROUP; j++) {
        const double sum = in[j] * scale + ROUND;
        const int    at = (j / 64 * 4 + j % 4) * SLICE + j % 64 / 4;
        uint64_t     bits;
        memcpy(&bits, &sum, sizeof bits);
        bits = (bits + 0x808080808080u) ^ 0x808080808080u;
        for (int p = 0; p < e->n_bytes; p++) {
            e->byte[p][at] = (int8_t)(uint8_t)(bits >> 8 * p);
            e->total[p / 2] += e->byte[p][at] * (p % 2 ? 256 : 1);
        }
    }
}

static void tabulate(const void *in, ts_dtype t, int64_t at, int64_t n_in, int64_t g, float shrink,
                     float *table)
{
    entry *const e = (entry *)(void *)(table + g * GROUP * TABLE);
    float        some[GROUP] = { 0 }, most = 0;
    int          exponent;
    bool         finite = true;
    floats_of(in, t, at + g * GROUP, ts_ternary_width(n_in, g), shrink, some);
    for (int j = 0; j < GROUP; j++) {
        most = fabsf(some[j]) > most ? fabsf(some[j]) : most;
        finite &= some[j] - some[j] == 0;
    }
    const float part = frexpf(most, &exponent);
    exponent += part > 0x7f / 128.0f; /* what bytes with signs come to at most */
    if (finite && exponent > -60)     /* so that a unit times a scale is no subnormal */
        for (e->n_bytes = LEAST; e->n_bytes <= MOST; e->n_bytes++) {
            const double scale = ldexp(1, 8 * e->n_bytes - 1 - exponent);
            if (!fits(some, scale, tolerance(n_in))) continue;
            e->unit = (float)(1 / scale);
            cut(some, scale, e);
            return;
        }
    e->n_bytes = 0;
    memcpy(e->in, some, sizeof some);
}

/* What is multiplied with: code points of a group of OUTS outputs, as bytes; and their scales. */
typedef struct block {
    int8_t         point[OUTS][GROUP];
    const uint8_t *code[OUTS];
    vec            scale;
} block;

/* True where none is 3. */
INLINE bool decode(block *b)
{
    const uint8x16_t low = vdupq_n_u8(3);
    uint64_t         both = 0;
    for (int o = 0; o < OUTS; o++)
        for (int v = 0; v < 2; v++) {
            const uint8x16_t four = vld1q_u8(b->code[o] + v * SLICE);
            int8_t *const    to = b->point[o] + v * 4 * SLICE;
            uint64_t         word[2];
            memcpy(word, b->code[o] + v * SLICE, sizeof word);
            both |= (word[0] & word[0] >> 1) | (word[1] & word[1] >> 1);
            vst1q_u8((uint8_t *)to, vandq_u8(four, low));
            vst1q_u8((uint8_t *)to + SLICE, vandq_u8(vshrq_n_u8(four, 2), low));
            vst1q_u8((uint8_t *)to + 2 * SLICE, vandq_u8(vshrq_n_u8(four, 4), low));
            vst1q_u8((uint8_t *)to + 3 * SLICE, vshrq_n_u8(four, 6));
        }
    return !(both & 0x5555555555555555u);
}

/* The group's sum for each of OUTS outputs. */
INLINE vec dot(const entry *e, const block *b, int n_bytes)
{
    int32x4_t sum[MOST][OUTS], each[MOST + 1];
#pragma GCC unroll 6
    for (int p = 0; p < n_bytes; p++)
#pragma GCC unroll 4
        for (int o = 0; o < OUTS; o++) sum[p][o] = vdupq_n_s32(0);
    for (int i = 0; i < SLICES; i++) {
        int8x16_t c[OUTS];
#pragma GCC unroll 4
        for (int o = 0; o < OUTS; o++) c[o] = vld1q_s8(b->point[o] + i * SLICE);
#pragma GCC unroll 6
        for (int p = 0; p < n_bytes; p++) {
            const int8x16_t q = vld1q_s8(e->byte[p] + i * SLICE);
#pragma GCC unroll 4
            for (int o = 0; o < OUTS; o++) sum[p][o] = vdotq_s32(sum[p][o], c[o], q);
        }
    }
    each[n_bytes] = vdupq_n_s32(0);
#pragma GCC unroll 6
    for (int p = 0; p < n_bytes; p++)
        each[p] = vpaddq_s32(vpaddq_s32(sum[p][0], sum[p][1]), vpaddq_s32(sum[p][2], sum[p][3]));
    vec y = splat(0);
#pragma GCC unroll 3
    for (int p = (n_bytes - 1) / 2; p >= 0; p--) { /* two bytes are a float exactly */
        const int32x4_t two = vaddq_s32(vshlq_n_s32(each[2 * p + 1], 8), each[2 * p]);
        const vec       part = vcvtq_f32_s32(vsubq_s32(two, vdupq_n_s32(e->total[p])));
        y = p == (n_bytes - 1) / 2 ? part : madd(y, splat(0x1p16f), part);
    }
    return mul(y, splat(e->unit));
}

static vec dot_3(const entry *e, const block *b)
{
    return dot(e, b, 3);
}

static vec dot_4(const entry *e, const block *b)
{
    return dot(e, b, 4);
}

static vec dot_5(const entry *e, const block *b)
{
    return dot(e, b, 5);
}

static vec dot_6(const entry *e, const block *b)
{
    return dot(e, b, 6);
}

static vec dot_floats(const entry *e, const block *b)
{
    float y[OUTS];
    for (int o = 0; o < OUTS; o++) {
        vec sum = splat(0);
        for (int i = 0; i < GROUP_BYTES; i++)
            sum = madd(get(ts_ternary_fours[b->code[o][i]]), get(e->in + 4 * i), sum);
        y[o] = total(sum);
    }
    return get(y);
}

/* OUTS outputs from `out` on, the last one again where there are fewer; true where no code point is
 * 3. */
static bool add_groups(const ts_ternary_matrix *m, int64_t out, int n_rows, const float *table,
                       int64_t table_stride, float *y, int64_t y_stride)
{
    static vec (*const ways[])(const entry *, const block *) = { dot_floats, NULL,  NULL, dot_3,
                                                                 dot_4,      dot_5, dot_6 };
    const uint16_t *scale[OUTS];
    block           b;
    bool            sound = true;
    vec             sum[TS_TERNARY_ROWS] = { splat(0), splat(0), splat(0), splat(0) };
    for (int o = 0; o < OUTS; o++) {
        const int64_t at = min_of(out + o, m->n_out - 1) * m->n_groups;
        b.code[o] = m->code + at * GROUP_BYTES, scale[o] = m->scale + at;
    }
    for (int64_t g = 0; g < m->n_groups; g++) {
        const uint16_t half[OUTS] = { scale[0][g], scale[1][g], scale[2][g], scale[3][g] };
        const vec      s = widen(half, TS_F16);
        sound &= decode(&b);
        for (int r = 0; r < n_rows; r++) {
            const entry *e = (const void *)(table + r * table_stride + g * GROUP * TABLE);
            sum[r] = madd(ways[e->n_bytes](e, &b), s, sum[r]);
        }
        for (int o = 0; o < OUTS; o++) {
            b.code[o] += GROUP_BYTES;
            __builtin_prefetch((const void *)((uintptr_t)b.code[o] +
                                              (uintptr_t)(OUTS * m->n_groups * GROUP_BYTES)),
                               0, 2);
        }
    }
    for (int r = 0; r < n_rows; r++) put(y + r * y_stride, sum[r]);
    return sound;
}

static bool multiply(const ts_ternary_matrix *m, int64_t out, int n_rows, const float *table,
                     int64_t table_stride, float *y, int64_t y_stride)
{
    const int64_t n = min_of(TS_TERNARY_BLOCK, m->n_out - out);
    bool          finite = true;
    for (int64_t i = 0; i < n; i += OUTS)
        finite &= add_groups(m, out + i, n_rows, table, table_stride, y + i, y_stride);
    for (int r = 0; r < n_rows; r++)
        for (int64_t i = 0; i < n; i++) finite &= y[r * y_stride + i] - y[r * y_stride + i] == 0;
    return finite;
}

static const ts_ternary_steps steps = { TABLE,    pack,  unpack, largest, tabulate,
                                        multiply, store, NULL,   NULL };

ts_status ts_ternary_linear_dotprod(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_linear(args, x, &steps);
}

ts_status ts_ternary_linear_dotprod_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    (void)x;
    return ts_ternary_threads_linear_workspace(args, &steps, n_bytes);
}

ts_status ts_ternary_linear_packed_dotprod(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_packed(args, x, &steps);
}

ts_status ts_ternary_linear_packed_dotprod_workspace(const void *args, const ts_exec *x,
                                                     size_t *n_bytes)
{
    (void)x;
    return ts_ternary_threads_packed_workspace(args, &steps, n_bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* block.c - the formats in which GGUF files keep weights: blocks of 32 or 256 codes with their
 * scales, or plain numbers. */
#include "model_impl.h"

#include <string.h>

/* Exact, subnormals too: as a float the bits are 2^112 times too small. */
static inline float widen_half(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
    uint32_t       bits = rest << 13;
    float          y;
    memcpy(&y, &bits, sizeof y);
    y *= 0x1p112f;
    memcpy(&bits, &y, sizeof bits);
    bits |= sign | (rest >= 0x7c00 ? 0x7f800000 : 0); /* infinities and NaN */
    memcpy(&y, &bits, sizeof y);
    return y;
}

static float half_at(const unsigned char *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return widen_half(v);
}

/* ---- plain numbers, n of them ---- */

static void decode_f32(const unsigned char *p, int64_t n, float *y)
{
    memcpy(y, p, (size_t)n * sizeof *y);
}

static void decode_f16(const unsigned char *p, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = half_at(p + 2 * i);
}

static void decode_bf16(const unsigned char *p, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t v;
        memcpy(&v, p + 2 * i, sizeof v);
        const uint32_t bits = (uint32_t)v << 16;
        memcpy(y + i, &bits, sizeof bits);
    }
}

/* Sixteen sums, which the compiler keeps in vectors. */
enum { SUMS = 16 };

static float total_of(const float s[SUMS])
{
    float half[SUMS / 2];
    for (int i = 0; i < SUMS / 2; i++) half[i] = s[i] + s[i + SUMS / 2];
    return (half[0] + half[4]) + (half[1] + half[5]) + ((half[2] + half[6]) + (half[3] + half[7]));
}

static float dot_f16(const unsigned char *p, const float *x, int64_t n)
{
    float   s[SUMS] = { 0 };
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int k = 0; k < SUMS; k++) s[k] += half_at(p + 2 * (i + k)) * x[i + k];
    for (; i < n; i++) s[0] += half_at(p + 2 * i) * x[i];
    return total_of(s);
}

static float dot_bf16(const unsigned char *p, const float *x, int64_t n)
{
    float   s[SUMS] = { 0 }, w[SUMS];
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS) {
        decode_bf16(p + 2 * i, SUMS, w);
        for (int k = 0; k < SUMS; k++) s[k] += w[k] * x[i + k];
    }
    decode_bf16(p + 2 * i, n - i, w);
    for (int k = 0; i < n; i++, k++) s[0] += w[k] * x[i];
    return total_of(s);
}

/* ---- 32 codes: a scale d, and where the format has one a least value m ---- */

/* Low halves of the bytes are the first sixteen, high halves the others. */
static void decode_q4_0(const unsigned char *p, float *y)
{
    const float          d = half_at(p);
    const unsigned char *q = p + 2;
    for (int j = 0; j < 16; j++) {
        y[j] = (float)((q[j] & 15) - 8) * d;
        y[j + 16] = (float)((q[j] >> 4) - 8) * d;
    }
}

static void decode_q4_1(const unsigned char *p, float *y)
{
    const float          d = half_at(p), m = half_at(p + 2);
    const unsigned char *q = p + 4;
    for (int j = 0; j < 16; j++) {
        y[j] = (float)(q[j] & 15) * d + m;
        y[j + 16] = (float)(q[j] >> 4) * d + m;
    }
}

/* The fifth bits of all 32 are in a word before the halves. */
static int fifth(uint32_t bits, int j)
{
    return (int)(bits >> j & 1) << 4;
}

static void decode_q5_0(const unsigned char *p, float *y)
{
    const float          d = half_at(p);
    const unsigned char *q = p + 6;
    uint32_t             bits;
    memcpy(&bits, p + 2, sizeof bits);
    for (int j = 0; j < 16; j++) {
        y[j] = (float)(((q[j] & 15) | fifth(bits, j)) - 16) * d;
        y[j + 16] = (float)(((q[j] >> 4) | fifth(bits, j + 16)) - 16) * d;
    }
}

static void decode_q5_1(const unsigned char *p, float *y)
{
    const float          d = half_at(p), m = half_at(p + 2);
    const unsigned char *q = p + 8;
    uint32_t             bits;
    memcpy(&bits, p + 4, sizeof bits);
    for (int j = 0; j < 16; j++) {
        y[j] = (float)((q[j] & 15) | fifth(bits, j)) * d + m;
        y[j + 16] = (float)((q[j] >> 4) | fifth(bits, j + 16)) * d + m;
    }
}

static void decode_q8_0(const unsigned char *p, float *y)
{
    const float d = half_at(p);
    for (int j = 0; j < 32; j++) y[j] = (float)(signed char)p[2 + j] * d;
}

/* ---- 256 codes in groups of 32 (or 16), whose scales are codes themselves ---- */

/* Scale and least value of group g, of six bits each: twelve bytes hold eight pairs. */
static void scale_and_least(const unsigned char *s, int g, int *scale, int *least)
{
    if (g < 4) {
        *scale = s[g] & 63;
        *least = s[g + 4] & 63;
    } else {
        *scale = (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
        *least = (s[g + 4] >> 4) | (s[g] >> 6) << 4;
    }
}

/* Q4_K, and with `high` Q5_K: bit g of high[l] is the fifth bit of code l of group g. */
static void decode_k(const unsigned char *p, const unsigned char *high, const unsigned char *q,
                     float *y)
{
    const float d = half_at(p), m = half_at(p + 2);
    for (int g = 0; g < 8; g++, y += 32) {
        int scale, least;
        scale_and_least(p + 4, g, &scale, &least);
        for (int l = 0; l < 32; l++) {
            int code = g % 2 ? q[g / 2 * 32 + l] >> 4 : q[g / 2 * 32 + l] & 15;
            if (high) code |= fifth(high[l], g);
            y[l] = d * (float)scale * (float)code - m * (float)least;
        }
    }
}

static void decode_q4_k(const unsigned char *p, float *y)
{
    decode_k(p, NULL, p + 16, y);
}

static void decode_q5_k(const unsigned char *p, float *y)
{
    decode_k(p, p + 16, p + 48, y);
}

/* Four low bits, two high bits, sixteen signed scales, then d. In each half of the block run r
 * takes bits 2r of the high bytes, and low or high halves of 32 low bytes. */
static void decode_q6_k(const unsigned char *p, float *y)
{
    const float d = half_at(p + 208);
    for (int half = 0; half < 2; half++)
        for (int r = 0; r < 4; r++) {
            const unsigned char *low = p + half * 64 + r % 2 * 32, *high = p + 128 + half * 32;
            const signed char   *scale = (const signed char *)p + 192 + half * 8 + r * 2;
            float               *to = y + half * 128 + r * 32;
            const int            shift = r < 2 ? 0 : 4;
            for (int l = 0; l < 32; l++)
                to[l] = (float)(((low[l] >> shift & 15) | (high[l] >> 2 * r & 3) << 4) - 32);
            for (int l = 0; l < 16; l++) to[l] *= d * (float)scale[0];
            for (int l = 16; l < 32; l++) to[l] *= d * (float)scale[1];
        }
}

/* ---- ternary: 256 digits -1, 0 and 1 with one scale ---- */

/* Digit n of a byte that holds five, as a fraction of 3^5: multiplied up, the digit is on top. */
static int digit(unsigned char byte, int n)
{
    static const unsigned char power[5] = { 1, 3, 9, 27, 81 };
    return ((unsigned char)(byte * power[n]) * 3 >> 8) - 1;
}

/* Digit n of the first 32 bytes come first, then digit n + 1; then the same of 16 bytes, and four
 * digits each of the last four. */
static void decode_tq1_0(const unsigned char *p, float *y)
{
    static const struct {
        int from, n, digits;
    } run[] = { { 0, 32, 5 }, { 32, 16, 5 }, { 48, 4, 4 } };
    const float d = half_at(p + 52);
    for (int r = 0; r < 3; r++)
        for (int n = 0; n < run[r].digits; n++)
            for (int i = 0; i < run[r].n; i++) *y++ = (float)digit(p[run[r].from + i], n) * d;
}

static void decode_tq2_0(const unsigned char *p, float *y)
{
    const float d = half_at(p + 64);
    for (int half = 0; half < 2; half++)
        for (int r = 0; r < 4; r++, y += 32)
            for (int i = 0; i < 32; i++) y[i] = (float)((p[half * 32 + i] >> 2 * r & 3) - 1) * d;
}

/* ---- the list ---- */

const char ts_block_names[] =
    "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, TQ1_0 and TQ2_0";

static const struct {
    uint32_t number; /* in the file */
    ts_block block;
} blocks[] = {
    { 0, { "F32", 1, 4, TS_CODE_NONE, NULL, decode_f32, NULL } },
    { 1, { "F16", 1, 2, TS_CODE_NONE, NULL, decode_f16, dot_f16 } },
    { 2, { "Q4_0", 32, 18, TS_CODE_Q4_0, decode_q4_0, NULL, NULL } },
    { 3, { "Q4_1", 32, 20, TS_CODE_Q4_1, decode_q4_1, NULL, NULL } },
    { 6, { "Q5_0", 32, 22, TS_CODE_Q5_0, decode_q5_0, NULL, NULL } },
    { 7, { "Q5_1", 32, 24, TS_CODE_Q5_1, decode_q5_1, NULL, NULL } },
    { 8, { "Q8_0", 32, 34, TS_CODE_Q8_0, decode_q8_0, NULL, NULL } },
    { 12, { "Q4_K", 256, 144, TS_CODE_Q4_K, decode_q4_k, NULL, NULL } },
    { 13, { "Q5_K", 256, 176, TS_CODE_Q5_K, decode_q5_k, NULL, NULL } },
    { 14, { "Q6_K", 256, 210, TS_CODE_Q6_K, decode_q6_k, NULL, NULL } },
    { 30, { "BF16", 1, 2, TS_CODE_NONE, NULL, decode_bf16, dot_bf16 } },
    { 34, { "TQ1_0", 256, 54, TS_CODE_NONE, decode_tq1_0, NULL, NULL } },
    { 35, { "TQ2_0", 256, 66, TS_CODE_TQ2_0, decode_tq2_0, NULL, NULL } },
};

const ts_block *ts_block_of(uint32_t number)
{
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (blocks[i].number == number) return &blocks[i].block;
    return NULL;
}

void ts_block_row(const ts_block *b, const unsigned char *row, int64_t n, float *y)
{
    if (b->plain) {
        b->plain(row, n, y);
        return;
    }
    for (int64_t i = 0; i < n; i += b->n, row += b->n_bytes) b->decode(row, y + i);
}

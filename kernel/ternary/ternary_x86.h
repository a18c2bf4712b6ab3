/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_x86.h - what the widths of x86-64 share, over their vec_*.h.
 *
 * Include after these, which a width defines:
 *
 *     magnitude     of floats
 *     code_points   16 latents as code points: 1, and where a weight is more than half of s, 0 or 2
 *                   by its sign
 *     spread_word   LANES weights of the 16 in a word, from the i-th on */
#ifndef TS_TERNARY_X86_H
#define TS_TERNARY_X86_H

/* A sum of doubles in another order differs by far less than a float's spacing. */
enum { SLACK = 1 };

/* GCC would else look everything up first, into memory, and then add it. */
INLINE void hold(vec *sum)
{
    __asm__ volatile("" : "+v"(*sum));
}

/* 16 code points to 4 bytes. */
INLINE void squeeze(__m128i codes, uint8_t *out)
{
    const __m128i pairs = _mm_maddubs_epi16(codes, _mm_set1_epi16(0x0401));
    const __m128i fours = _mm_madd_epi16(pairs, _mm_set1_epi32(0x00100001));
    const __m128i first =
        _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const int word = _mm_cvtsi128_si32(_mm_shuffle_epi8(fours, first));
    memcpy(out, &word, sizeof word);
}

INLINE double total_of(const float *w)
{
    dvec low = dsplat(0), high = dsplat(0);
    for (int i = 0; i < GROUP; i += LANES) {
        const vec v = magnitude(get(w + i));
        low = dadd(low, low_doubles(v));
        high = dadd(high, high_doubles(v));
    }
    return sum_doubles(dadd(low, high));
}

INLINE void codes_of(const float *w, float s, uint8_t *code)
{
    for (int i = 0; i < GROUP; i += 16) squeeze(code_points(w + i, s), code + i / 4);
}

INLINE void spread(const uint8_t *code, float s, float *wt)
{
    for (int i = 0; i < GROUP; i += 16) {
        int word;
        memcpy(&word, code + i / 4, sizeof word);
        for (int j = 0; j < 16; j += LANES) put(wt + i + j, spread_word(word, j, s));
    }
}

#endif

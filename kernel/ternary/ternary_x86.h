/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_x86.h - what the widths of x86-64 share, over their vec_*.h. */
#ifndef TS_TERNARY_X86_H
#define TS_TERNARY_X86_H

/* A sum of doubles in another order differs by far less than a float's spacing. */
enum { SLACK = 1 };

/* GCC would else look everything up first, into memory, and then add it. */
INLINE void hold(vec *sum)
{
    __asm__ volatile("" : "+v"(*sum));
}

INLINE uint16_t half_of(float f)
{
    return _cvtss_sh(f, 0);
}

INLINE float float_of(uint16_t half)
{
    return _cvtsh_ss(half);
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

#endif

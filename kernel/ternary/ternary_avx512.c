/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_avx512.c - the vectors of ternary_*simd.h, 16 floats each. A vec holds all that a pair of
 * inputs can come to: a lane looks its own sum of two up by four bits of its word. */
#include <math.h>

#include "ternary_avx512.h"
#include "ternary_impl.h"

enum {
    GROUP = TS_TERNARY_GROUP,
    GROUP_BYTES = TS_TERNARY_GROUP_BYTES,
    VECS = 4, /* their sums, one after the other, hide how long an addition takes */
    VECS_MORE = 4,
    TALL = 6,
    WIDE = 4, /* sums fill 24 of 32 registers */
    DW_TILES = 1,
    PER = 2,
    TABLE = 8,
};

typedef ints chosen;

INLINE vec magnitude(vec v)
{
    return _mm512_abs_ps(v);
}

/* 1, and where a weight is more than half of s, 0 or 2 by its sign. */
INLINE __m128i code_points(const float *p, float s)
{
    const __m512    w = get(p), twice = magnitude(add(w, w));
    const __mmask16 big = _mm512_cmp_ps_mask(twice, splat(s), _CMP_GT_OQ);
    const __mmask16 up = _mm512_mask_cmp_ps_mask(big, w, splat(0), _CMP_GT_OQ);
    const __m512i   low = _mm512_maskz_set1_epi32((__mmask16)~big, 1);
    return _mm512_cvtepi32_epi8(_mm512_mask_set1_epi32(low, up, 2));
}

INLINE vec spread_word(int word, int i, float s)
{
    const __m512i each =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i codes = _mm512_srlv_epi32(_mm512_set1_epi32(word), each);
    (void)i;
    return _mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_setr_ps(-s, 0, s, NAN)), codes);
}

#include "ternary_x86.h"

INLINE void tables(const float *in, float *table)
{
    const vec first = _mm512_broadcast_f32x4(_mm_setr_ps(-1, 0, 1, NAN));
    const vec second = _mm512_setr_ps(-1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, NAN, NAN, NAN, NAN);
    for (int i = 0; i < GROUP; i += 2)
        put(table + i * TABLE, madd(second, splat(in[i + 1]), mul(first, splat(in[i]))));
}

INLINE chosen choose(ints word, int i)
{
    return _mm512_srli_epi32(word, 2 * i);
}

INLINE vec entry(const float *table)
{
    return get(table);
}

INLINE vec add_chosen(vec sum, chosen c, vec entry)
{
    return add(sum, _mm512_permutexvar_ps(c, entry));
}

#include "ternary_simd.h"

#include "ternary_lookup_simd.h"

#include "ternary_backward_simd.h"

#include "ternary_entry_simd.h"

const ts_ternary_steps *const ts_ternary_steps_avx512 = &steps;

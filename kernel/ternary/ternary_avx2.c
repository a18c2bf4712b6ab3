/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_avx2.c - the vectors of ternary_*simd.h, 8 floats each.
 *
 * No register holds what a pair of inputs can come to, so codes become -1, 0 and 1, which all rows
 * share, and inputs stay as they are. */
#include <math.h>

#include "ternary_impl.h"
#include "vec_avx2.h"

enum {
    GROUP = TS_TERNARY_GROUP,
    GROUP_BYTES = TS_TERNARY_GROUP_BYTES,
    VECS = 4, /* their sums, one after the other, hide how long an addition takes */
    VECS_MORE = 2,
    TALL = 6,
    WIDE = 2, /* sums fill 12 of 16 registers */
    DW_TILES = 1,
    PER = 1,
    TABLE = 1,
};

typedef vec chosen;

INLINE vec magnitude(vec v)
{
    return _mm256_andnot_ps(splat(-0.0f), v);
}

/* 1, and where a weight is more than half of s, 0 or 2 by its sign. */
INLINE __m256i eight_codes(const float *p, float s)
{
    const vec     w = get(p);
    const __m256i big =
        _mm256_castps_si256(_mm256_cmp_ps(magnitude(add(w, w)), splat(s), _CMP_GT_OQ));
    const __m256i sign =
        _mm256_or_si256(_mm256_srai_epi32(_mm256_castps_si256(w), 31), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_set1_epi32(1), _mm256_and_si256(big, sign));
}

INLINE __m128i code_points(const float *p, float s)
{
    const __m256i a = eight_codes(p, s), b = eight_codes(p + 8, s);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

INLINE vec spread_word(int word, int i, float s)
{
    const __m256i each = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    const __m256i codes =
        _mm256_srlv_epi32(_mm256_set1_epi32((int)((unsigned)word >> 2 * i)), each);
    return _mm256_permutevar_ps(_mm256_setr_ps(-s, 0, s, NAN, -s, 0, s, NAN), codes);
}

/* Rows 0 and 4 of those from p on, side by side. */
INLINE ints some_rows(const uint8_t *p, int64_t stride)
{
    const __m128i first = _mm_loadu_si128((const void *)p);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(first),
                                   _mm_loadu_si128((const void *)(p + 4 * stride)), 1);
}

#include "ternary_elements_simd.h"

#include "ternary_columns_x86.h"

#include "ternary_x86.h"

INLINE vec halves(ints words, int upper)
{
    const ints h =
        upper ? _mm256_srli_epi32(words, 16) : _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
    const ints narrow = _mm256_permute4x64_epi64(_mm256_packus_epi32(h, h), 0xd8);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(narrow));
}

INLINE void tables(const float *in, float *table)
{
    memcpy(table, in, GROUP * sizeof *in);
}

INLINE chosen choose(ints word, int i)
{
    const vec codes = _mm256_setr_ps(-1, 0, 1, NAN, -1, 0, 1, NAN);
    return _mm256_permutevar_ps(codes, _mm256_srli_epi32(word, 2 * i));
}

INLINE vec entry(const float *table)
{
    return splat(*table);
}

INLINE vec add_chosen(vec sum, chosen c, vec entry)
{
    return madd(c, entry, sum);
}

#include "ternary_simd.h"

#include "ternary_lookup_simd.h"

#include "ternary_backward_simd.h"

#include "ternary_entry_simd.h"

/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_avx512.h - codes and scales of 16 outputs at a time: what implementations with AVX-512
 * share. */
#ifndef TS_TERNARY_AVX512_H
#define TS_TERNARY_AVX512_H

#include <string.h>

#include "ternary_impl.h"
#include "vec_avx512.h"

#include "ternary_elements_simd.h"

extern const ts_ternary_steps *const ts_ternary_steps_avx512;

INLINE __m128i load_16(const uint8_t *p)
{
    return _mm_loadu_si128((const void *)p);
}

/* Rows 0, 4, 8 and 12 of those from p on, side by side. */
INLINE ints some_rows(const uint8_t *p, int64_t stride)
{
    ints v = _mm512_castsi128_si512(load_16(p));
    v = _mm512_inserti32x4(v, load_16(p + 4 * stride), 1);
    v = _mm512_inserti32x4(v, load_16(p + 8 * stride), 2);
    return _mm512_inserti32x4(v, load_16(p + 12 * stride), 3);
}

#include "ternary_columns_x86.h"

/* f16s in the lower halves of words, or in the upper ones. */
INLINE vec halves(ints words, int upper)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(upper ? _mm512_srli_epi32(words, 16) : words));
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* codes_dots_x86.h - what codes_rows.h needs, with `add_dot(sum, u, x)` of unsigned and signed
 * bytes from the file that includes this. */
#ifndef TS_MODEL_CODES_DOTS_X86_H
#define TS_MODEL_CODES_DOTS_X86_H

/* Codes below 0 give their sign to x. */
INLINE __m256i dot_group(bytes w, const int8_t *x, bool negative)
{
    const bytes   high = bytes_at(x), low = bytes_at(x + TS_CODE_GROUP);
    const bytes   u = negative ? _mm256_abs_epi8(w) : w;
    const __m256i y =
        add_dot(_mm256_setzero_si256(), u, negative ? _mm256_sign_epi8(high, w) : high);
    return add_dot(_mm256_slli_epi32(y, 7), u, negative ? _mm256_sign_epi8(low, w) : low);
}

INLINE vec dot(bytes w, const int8_t *x, bool negative)
{
    return _mm256_cvtepi32_ps(dot_group(w, x, negative));
}

INLINE vec dots(const bytes w[4], const int8_t *x, bool negative, vec d, vec scale, vec sum)
{
    __m256i y[4];
    UNROLL
    for (int i = 0; i < 4; i++) y[i] = dot_group(w[i], x + i * 2 * TS_CODE_GROUP, negative);
    return madd(fold(y), _mm256_mul_ps(d, scale), sum);
}

INLINE vec dots_halves(const bytes w[4], const int8_t *x, const int8_t *factor, vec d, vec scale,
                       vec sum)
{
    const __m128i sort = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m128i by = _mm_loadl_epi64((const __m128i *)(const void *)factor);
    const vec     each = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_shuffle_epi8(by, sort)));
    return dots(w, x, true, _mm256_mul_ps(d, each), scale, sum);
}

#endif

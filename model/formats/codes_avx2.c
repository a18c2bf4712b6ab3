/* SPDX-License-Identifier: Apache-2.0 */
/* codes_avx2.c - codes times bytes with AVX2: pairs of products as words, then pairs of those. The
 * largest pair, 2 * 128 * 127, is a word. */
#include "codes_avx2.h"
#include "codes_simd.h"
#include "cpu.h"

INLINE __m256i add_dot(__m256i sum, bytes u, bytes x)
{
    const __m256i pairs = _mm256_maddubs_epi16(u, x);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#include "codes_dots_x86.h"
#include "codes_rows.h"

const ts_codes ts_codes_avx2 = { TS_CPU_AVX2, 1, round_rows, multiply };

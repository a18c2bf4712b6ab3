/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_avx512.c - the vectors of kv_cache_simd.h, 16 floats each. */
#include "kv_cache_impl.h"
#include "vec_avx512.h"

enum { ROWS = 4 };

INLINE float largest(vec v)
{
    return _mm512_reduce_max_ps(v);
}

INLINE void put_totals(float *to, const vec v[4])
{
    const vec    ab = add(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
    const vec    cd = add(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    const vec    s = add(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)));
}

/* As many codes as a vector has lanes, of 8 and of 4 bits. */
INLINE __m128i get_u8(const void *p)
{
    return _mm_loadu_si128(p);
}

INLINE __m128i get_u4(const void *p)
{
    return _mm_loadl_epi64(p);
}

#include "kv_cache_x86.h"

#include "kv_cache_simd.h"

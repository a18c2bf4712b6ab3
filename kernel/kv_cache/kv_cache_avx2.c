/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_avx2.c - the vectors of kv_cache_simd.h, 8 floats each. */
#include "kv_cache_impl.h"
#include "vec_avx2.h"

enum { ROWS = 2 };

INLINE float largest(vec v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

INLINE void put_totals(float *to, const vec v[4])
{
    const vec ab = add(_mm256_unpacklo_ps(v[0], v[1]), _mm256_unpackhi_ps(v[0], v[1]));
    const vec cd = add(_mm256_unpacklo_ps(v[2], v[3]), _mm256_unpackhi_ps(v[2], v[3]));
    const vec s = add(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}

/* As many codes as a vector has lanes, of 8 and of 4 bits. */
INLINE __m128i get_u8(const void *p)
{
    return _mm_loadl_epi64(p);
}

INLINE __m128i get_u4(const void *p)
{
    return _mm_loadu_si32(p);
}

#include "kv_cache_x86.h"

#include "kv_cache_simd.h"

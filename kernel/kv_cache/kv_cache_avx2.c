/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_avx2.c - the vectors of kv_cache_simd.h, 8 floats each. */
#include <immintrin.h>

#include "kv_cache_impl.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 8, ROWS = 2 };

typedef __m256 vec;

INLINE vec get(const float *p)
{
    return _mm256_loadu_ps(p);
}

INLINE void put(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}

INLINE vec splat(float f)
{
    return _mm256_set1_ps(f);
}

INLINE vec add(vec x, vec y)
{
    return _mm256_add_ps(x, y);
}

INLINE vec sub(vec x, vec y)
{
    return _mm256_sub_ps(x, y);
}

INLINE vec mul(vec x, vec y)
{
    return _mm256_mul_ps(x, y);
}

INLINE vec divide(vec x, vec y)
{
    return _mm256_div_ps(x, y);
}

INLINE vec madd(vec x, vec y, vec z)
{
    return _mm256_fmadd_ps(x, y, z);
}

INLINE vec nmadd(vec x, vec y, vec z)
{
    return _mm256_fnmadd_ps(x, y, z);
}

INLINE vec larger(vec x, vec y)
{
    return _mm256_max_ps(x, y);
}

INLINE vec below(vec a, vec x, vec y)
{
    return _mm256_andnot_ps(_mm256_cmp_ps(x, y, _CMP_LT_OQ), a);
}

INLINE vec exponent(vec v)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(v), 23));
}

INLINE float largest(vec v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

INLINE float total(vec v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

INLINE __m128 sum4(const vec v[4])
{
    const vec ab = add(_mm256_unpacklo_ps(v[0], v[1]), _mm256_unpackhi_ps(v[0], v[1]));
    const vec cd = add(_mm256_unpacklo_ps(v[2], v[3]), _mm256_unpackhi_ps(v[2], v[3]));
    const vec s = add(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    return _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}

INLINE float half(uint16_t h)
{
    return _cvtsh_ss(h);
}

INLINE uint16_t to_half(float f)
{
    return _cvtss_sh(f, 0);
}

INLINE vec from_codes(__m128i bytes)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}

INLINE vec widen(const char *p, ts_dtype t)
{
    const void *const from = p;
    if (t == TS_F32) return _mm256_loadu_ps(from);
    if (t == TS_F16) return _mm256_cvtph_ps(_mm_loadu_si128(from));
    if (t == TS_BF16) {
        const __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128(from));
        return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
    }
    if (t == TS_U8) return from_codes(_mm_loadl_epi64(from));
    const __m128i w = _mm_loadu_si32(from), low = _mm_set1_epi8(0x0f);
    return from_codes(
        _mm_unpacklo_epi8(_mm_and_si128(w, low), _mm_and_si128(_mm_srli_epi16(w, 4), low)));
}

/* To nearest, ties to even; a NaN stays one. */
INLINE __m128i to_bf16(vec v)
{
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const vec     nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    const vec     all =
        _mm256_blendv_ps(_mm256_castsi256_ps(sum), nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(all), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}

INLINE void narrow(void *p, ts_dtype t, vec v)
{
    if (t == TS_F32) _mm256_storeu_ps(p, v);
    else if (t == TS_F16) _mm_storeu_si128(p, _mm256_cvtps_ph(v, 0));
    else _mm_storeu_si128(p, to_bf16(v));
}

#include "kv_cache_simd.h"

ts_status ts_kv_cache_avx2(const void *ask, const ts_exec *x)
{
    (void)x;
    *((const ts_kv_ask *)ask)->ops = &ops;
    return TS_OK;
}

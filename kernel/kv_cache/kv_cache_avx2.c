/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_avx2.c - the vectors of kv_cache_simd.h, 8 floats each. */
#include "kv_cache_impl.h"
#include "vec_avx2.h"

enum { ROWS = 2, SPREAD = 0, CODES = LANES, AS_CODES = 1 };
#define TURNS _Pragma("GCC unroll 8")
#define WEIGH INLINE

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

INLINE void put_totals(float *to, const vec v[4])
{
    const vec ab = add(_mm256_unpacklo_ps(v[0], v[1]), _mm256_unpackhi_ps(v[0], v[1]));
    const vec cd = add(_mm256_unpacklo_ps(v[2], v[3]), _mm256_unpackhi_ps(v[2], v[3]));
    const vec s = add(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
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

/* A vector of a row, of codes too. */
INLINE vec unpack(const char *p, ts_dtype t)
{
    const void *const from = p;
    if (t != TS_U8 && t != TS_U4) return widen(from, t);
    if (t == TS_U8) return from_codes(_mm_loadl_epi64(from));
    const __m128i w = _mm_loadu_si32(from), low = _mm_set1_epi8(0x0f);
    return from_codes(
        _mm_unpacklo_epi8(_mm_and_si128(w, low), _mm_and_si128(_mm_srli_epi16(w, 4), low)));
}

INLINE void unpack_codes(const char *p, ts_dtype t, vec v[CODES / LANES])
{
    v[0] = unpack(p, t);
}

#include "kv_cache_simd.h"

ts_status ts_kv_cache_avx2(const void *ask, const ts_exec *x)
{
    (void)x;
    *((const ts_kv_ask *)ask)->ops = &ops;
    return TS_OK;
}

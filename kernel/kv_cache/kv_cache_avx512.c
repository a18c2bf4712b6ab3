/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_avx512.c - the vectors of kv_cache_simd.h, 16 floats each. */
#include "kv_cache_impl.h"
#include "vec_avx512.h"

enum { ROWS = 4, SPREAD = 0, CODES = LANES, AS_CODES = 1 };
#define TURNS _Pragma("GCC unroll 8")
#define WEIGH INLINE

INLINE vec below(vec a, vec x, vec y)
{
    return _mm512_mask_mov_ps(a, _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), _mm512_setzero_ps());
}

INLINE vec exponent(vec v)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(v), 23));
}

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
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}

/* A vector of a row, of codes too. */
INLINE vec unpack(const char *p, ts_dtype t)
{
    const void *const from = p;
    if (t != TS_U8 && t != TS_U4) return widen(from, t);
    if (t == TS_U8) return from_codes(_mm_loadu_si128(from));
    const __m128i w = _mm_loadl_epi64(from), low = _mm_set1_epi8(0x0f);
    return from_codes(
        _mm_unpacklo_epi8(_mm_and_si128(w, low), _mm_and_si128(_mm_srli_epi16(w, 4), low)));
}

INLINE void unpack_codes(const char *p, ts_dtype t, vec v[CODES / LANES])
{
    v[0] = unpack(p, t);
}

#include "kv_cache_simd.h"

ts_status ts_kv_cache_avx512(const void *ask, const ts_exec *x)
{
    (void)x;
    *((const ts_kv_ask *)ask)->ops = &ops;
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_avx512.c - the vectors of kv_cache_simd.h, 16 floats each. */
#include <immintrin.h>

#include "kv_cache_impl.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, ROWS = 4 };

typedef __m512 vec;

INLINE vec get(const float *p)
{
    return _mm512_loadu_ps(p);
}

INLINE void put(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

INLINE vec splat(float f)
{
    return _mm512_set1_ps(f);
}

INLINE vec add(vec x, vec y)
{
    return _mm512_add_ps(x, y);
}

INLINE vec sub(vec x, vec y)
{
    return _mm512_sub_ps(x, y);
}

INLINE vec mul(vec x, vec y)
{
    return _mm512_mul_ps(x, y);
}

INLINE vec divide(vec x, vec y)
{
    return _mm512_div_ps(x, y);
}

INLINE vec madd(vec x, vec y, vec z)
{
    return _mm512_fmadd_ps(x, y, z);
}

INLINE vec nmadd(vec x, vec y, vec z)
{
    return _mm512_fnmadd_ps(x, y, z);
}

INLINE vec larger(vec x, vec y)
{
    return _mm512_max_ps(x, y);
}

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

INLINE float total(vec v)
{
    return _mm512_reduce_add_ps(v);
}

INLINE __m128 sum4(const vec v[4])
{
    const vec    ab = add(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
    const vec    cd = add(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    const vec    s = add(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
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

INLINE vec widen(const char *p, ts_dtype t)
{
    const void *const from = p;
    if (t == TS_F32) return _mm512_loadu_ps(from);
    if (t == TS_F16) return _mm512_cvtph_ps(_mm256_loadu_si256(from));
    if (t == TS_BF16) {
        const __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from));
        return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
    }
    if (t == TS_U8) return from_codes(_mm_loadu_si128(from));
    const __m128i w = _mm_loadl_epi64(from), low = _mm_set1_epi8(0x0f);
    return from_codes(
        _mm_unpacklo_epi8(_mm_and_si128(w, low), _mm_and_si128(_mm_srli_epi16(w, 4), low)));
}

/* To nearest, ties to even; a NaN stays one. */
INLINE __m256i to_bf16(vec v)
{
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i nan = _mm512_set1_epi32(0x7fc00000);
    const __m512i all = _mm512_mask_mov_epi32(sum, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(all, 16));
}

INLINE void narrow(void *p, ts_dtype t, vec v)
{
    if (t == TS_F32) _mm512_storeu_ps(p, v);
    else if (t == TS_F16) _mm256_storeu_si256(p, _mm512_cvtps_ph(v, 0));
    else _mm256_storeu_si256(p, to_bf16(v));
}

#include "kv_cache_simd.h"

ts_status ts_kv_cache_avx512(const void *ask, const ts_exec *x)
{
    (void)x;
    *((const ts_kv_ask *)ask)->ops = &ops;
    return TS_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* attention_avx512.c - the vectors of attention_simd.h, 16 floats each. */
#include <immintrin.h>

#include "attention_impl.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, VECS = 4 }; /* with ROWS = 6 they fill 24 of 32 registers */

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

INLINE float total(vec v)
{
    return _mm512_reduce_add_ps(v);
}

INLINE vec finite_of(vec v)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(sub(v, v), _mm512_setzero_ps(), _CMP_EQ_OQ), v);
}

INLINE vec within(vec v, vec i, vec begin, vec end)
{
    const __mmask16 from = _mm512_cmp_ps_mask(i, begin, _CMP_GE_OQ);
    return _mm512_mask_mov_ps(splat(-__builtin_inff()),
                              _mm512_mask_cmp_ps_mask(from, i, end, _CMP_LT_OQ), v);
}

INLINE vec times_power(vec v, vec n)
{
    return _mm512_scalef_ps(v, n);
}

INLINE vec widen(const void *p, ts_dtype t)
{
    if (t == TS_F32) return _mm512_loadu_ps(p);
    if (t == TS_F16) return _mm512_cvtph_ps(_mm256_loadu_si256(p));
    const __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
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

#include "attention_simd.h"

#include "attention_backward_simd.h"

static const ts_attention_steps steps = { forward, backward, finish };

ts_status ts_flash_attention_avx512(const void *args, const ts_exec *x)
{
    return ts_attention_threads(args, x, &steps);
}

ts_status ts_flash_attention_backward_avx512(const void *args, const ts_exec *x)
{
    return ts_attention_threads_backward(args, x, &steps);
}

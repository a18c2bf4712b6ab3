/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_x86.h - what the widths of x86-64 share, over their vec_*.h, get_u8 and get_u4. */
#ifndef TS_KV_CACHE_X86_H
#define TS_KV_CACHE_X86_H

enum { SPREAD = 0, CODES = LANES, AS_CODES = 1 };
#define TURNS _Pragma("GCC unroll 8")
#define WEIGH INLINE

INLINE vec from_codes(__m128i bytes)
{
    return MM(cvtepi32_ps)(MM(cvtepu8_epi32)(bytes));
}

/* A vector of a row, of codes too. */
INLINE vec unpack(const char *p, ts_dtype t)
{
    if (t != TS_U8 && t != TS_U4) return widen(p, t);
    if (t == TS_U8) return from_codes(get_u8(p));
    const __m128i w = get_u4(p), low = _mm_set1_epi8(0x0f);
    return from_codes(
        _mm_unpacklo_epi8(_mm_and_si128(w, low), _mm_and_si128(_mm_srli_epi16(w, 4), low)));
}

INLINE void unpack_codes(const char *p, ts_dtype t, vec v[CODES / LANES])
{
    v[0] = unpack(p, t);
}

#endif

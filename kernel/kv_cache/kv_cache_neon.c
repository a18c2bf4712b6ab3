/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_neon.c - the vectors of kv_cache_simd.h, 4 floats each. */
#include <string.h>

#include "kv_cache_impl.h"
#include "vec_neon.h"

enum { ROWS = 4, SPREAD = 1, CODES = 16, AS_CODES = 0 };
#define TURNS _Pragma("GCC unroll 1")
#define WEIGH static __attribute__((noinline)) /* else its constants take registers of sums */

INLINE float largest(vec v)
{
    return vmaxnmvq_f32(v);
}

INLINE void put_totals(float *to, const vec v[4])
{
    put(to, vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3])));
}

/* Codes as the lowest bytes of 2^23. */
INLINE vec from_codes(uint8x16_t bytes, uint8x16_t from)
{
    const uint32x4_t w = vreinterpretq_u32_u8(vqtbl1q_u8(bytes, from));
    return sub(vreinterpretq_f32_u32(vorrq_u32(w, vdupq_n_u32(0x4b000000))), splat(0x1p23f));
}

/* Where the lowest byte of each lane comes from, of four times four; the other bytes are 0. */
static const uint8_t lowest[4][16] = {
    { 0, 99, 99, 99, 1, 99, 99, 99, 2, 99, 99, 99, 3, 99, 99, 99 },
    { 4, 99, 99, 99, 5, 99, 99, 99, 6, 99, 99, 99, 7, 99, 99, 99 },
    { 8, 99, 99, 99, 9, 99, 99, 99, 10, 99, 99, 99, 11, 99, 99, 99 },
    { 12, 99, 99, 99, 13, 99, 99, 99, 14, 99, 99, 99, 15, 99, 99, 99 },
};

/* Sixteen codes, in the order of memory. */
INLINE void unpack_codes(const char *p, ts_dtype t, vec v[CODES / LANES])
{
    uint8x16_t bytes;
    if (t == TS_U8) {
        bytes = vld1q_u8((const void *)p);
    } else {
        const uint8x8_t two = vld1_u8((const void *)p);
        bytes = vcombine_u8(vzip1_u8(vand_u8(two, vdup_n_u8(15)), vshr_n_u8(two, 4)),
                            vzip2_u8(vand_u8(two, vdup_n_u8(15)), vshr_n_u8(two, 4)));
    }
    for (int i = 0; i < CODES / LANES; i++) v[i] = from_codes(bytes, vld1q_u8(lowest[i]));
}

/* A vector of a row, of codes too. */
INLINE vec unpack(const char *p, ts_dtype t)
{
    uint32_t w = 0;
    if (t != TS_U8 && t != TS_U4) return widen(p, t);
    memcpy(&w, p, t == TS_U8 ? 4 : 2);
    const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(w)), low = vdup_n_u8(0x0f);
    const uint8x8_t each = t == TS_U8 ? bytes : vzip1_u8(vand_u8(bytes, low), vshr_n_u8(bytes, 4));
    return from_codes(vcombine_u8(each, each), vld1q_u8(lowest[0]));
}

#include "kv_cache_simd.h"

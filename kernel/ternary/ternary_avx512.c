/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_avx512.c - the vectors of ternary_*simd.h, 16 floats each. A vec holds all that a pair of
 * inputs can come to: a lane looks its own sum of two up by four bits of its word. */
#include <math.h>

#include "ternary_impl.h"
#include "vec_avx512.h"

#include "ternary_x86.h"

enum {
    GROUP = TS_TERNARY_GROUP,
    GROUP_BYTES = TS_TERNARY_GROUP_BYTES,
    VECS = 4, /* their sums, one after the other, hide how long an addition takes */
    VECS_MORE = 4,
    TALL = 6,
    WIDE = 4, /* sums fill 24 of 32 registers */
    DW_TILES = 1,
    PER = 2,
    TABLE = 8,
};

typedef __m512i ints, chosen;
typedef struct doubles {
    __m512d a, b;
} doubles;

INLINE vec magnitude(vec v)
{
    return _mm512_abs_ps(v);
}

INLINE doubles no_doubles(void)
{
    return (doubles) { _mm512_setzero_pd(), _mm512_setzero_pd() };
}

INLINE doubles add_doubles(doubles sum, const float *p)
{
    const vec v = magnitude(get(p));
    sum.a = _mm512_add_pd(sum.a, _mm512_cvtps_pd(_mm512_castps512_ps256(v)));
    sum.b = _mm512_add_pd(sum.b, _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)));
    return sum;
}

INLINE double total_doubles(doubles sum)
{
    return _mm512_reduce_add_pd(_mm512_add_pd(sum.a, sum.b));
}

INLINE double total_of(const float *w)
{
    doubles sum = no_doubles();
    for (int i = 0; i < GROUP; i += 16) sum = add_doubles(sum, w + i);
    return total_doubles(sum);
}

/* 1, and where a weight is more than half of s, 0 or 2 by its sign. */
INLINE __m128i code_points(const float *p, float s)
{
    const __m512    w = get(p), twice = magnitude(add(w, w));
    const __mmask16 big = _mm512_cmp_ps_mask(twice, splat(s), _CMP_GT_OQ);
    const __mmask16 up = _mm512_mask_cmp_ps_mask(big, w, splat(0), _CMP_GT_OQ);
    const __m512i   low = _mm512_maskz_set1_epi32((__mmask16)~big, 1);
    return _mm512_cvtepi32_epi8(_mm512_mask_set1_epi32(low, up, 2));
}

INLINE void codes_of(const float *w, float s, uint8_t *code)
{
    for (int i = 0; i < GROUP; i += 16) squeeze(code_points(w + i, s), code + i / 4);
}

INLINE vec spread_word(int word, int i, float s)
{
    const __m512i each =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i codes = _mm512_srlv_epi32(_mm512_set1_epi32(word), each);
    (void)i;
    return _mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_setr_ps(-s, 0, s, NAN)), codes);
}

INLINE void spread(const uint8_t *code, float s, float *wt)
{
    for (int i = 0; i < GROUP; i += 16) {
        int word;
        memcpy(&word, code + i / 4, sizeof word);
        for (int j = 0; j < 16; j += LANES) put(wt + i + j, spread_word(word, j, s));
    }
}

INLINE __m128i load_16(const uint8_t *p)
{
    return _mm_loadu_si128((const void *)p);
}

/* Rows 0, 4, 8 and 12 of those from p on, side by side. */
INLINE ints four_rows(const uint8_t *p, int64_t stride)
{
    ints v = _mm512_castsi128_si512(load_16(p));
    v = _mm512_mask_broadcast_i32x4(v, 0x00f0, load_16(p + 4 * stride));
    v = _mm512_mask_broadcast_i32x4(v, 0x0f00, load_16(p + 8 * stride));
    return _mm512_mask_broadcast_i32x4(v, 0xf000, load_16(p + 12 * stride));
}

INLINE void columns(const uint8_t *p, int64_t stride, ints out[4])
{
    const ints a = four_rows(p, stride), b = four_rows(p + stride, stride);
    const ints c = four_rows(p + 2 * stride, stride), d = four_rows(p + 3 * stride, stride);
    const ints ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
    const ints ef = _mm512_unpackhi_epi32(a, b), gh = _mm512_unpackhi_epi32(c, d);
    out[0] = _mm512_unpacklo_epi64(ab, cd), out[1] = _mm512_unpackhi_epi64(ab, cd);
    out[2] = _mm512_unpacklo_epi64(ef, gh), out[3] = _mm512_unpackhi_epi64(ef, gh);
}

INLINE vec halves(ints words, int upper)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(upper ? _mm512_srli_epi32(words, 16) : words));
}

INLINE void tables(const float *in, float *table)
{
    const vec first = _mm512_broadcast_f32x4(_mm_setr_ps(-1, 0, 1, NAN));
    const vec second = _mm512_setr_ps(-1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, NAN, NAN, NAN, NAN);
    for (int i = 0; i < GROUP; i += 2)
        put(table + i * TABLE, madd(second, splat(in[i + 1]), mul(first, splat(in[i]))));
}

INLINE chosen choose(ints word, int i)
{
    return _mm512_srli_epi32(word, 2 * i);
}

INLINE vec entry(const float *table)
{
    return get(table);
}

INLINE vec add_chosen(vec sum, chosen c, vec entry)
{
    return add(sum, _mm512_permutexvar_ps(c, entry));
}

#include "ternary_simd.h"

#include "ternary_lookup_simd.h"

#include "ternary_backward_simd.h"

static const ts_ternary_steps steps = { TABLE,   ROWS,     DW_TILES, false, pack,    unpack,
                                        largest, tabulate, multiply, store, give_dx, give_dw };

ts_status ts_ternary_pack_avx512(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_pack(args, x, &steps);
}

ts_status ts_ternary_unpack_avx512(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_unpack(args, x, &steps);
}

ts_status ts_ternary_linear_avx512(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_linear(args, x, &steps);
}

ts_status ts_ternary_linear_avx512_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    (void)x;
    return ts_ternary_threads_linear_workspace(args, &steps, n_bytes);
}

ts_status ts_ternary_linear_packed_avx512(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_packed(args, x, &steps);
}

ts_status ts_ternary_linear_packed_avx512_workspace(const void *args, const ts_exec *x,
                                                    size_t *n_bytes)
{
    (void)x;
    return ts_ternary_threads_packed_workspace(args, &steps, n_bytes);
}

ts_status ts_ternary_linear_backward_avx512(const void *args, const ts_exec *x)
{
    return ts_ternary_threads_backward(args, x, &steps);
}

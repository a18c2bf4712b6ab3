/* SPDX-License-Identifier: Apache-2.0 */
/* attention_amx.h - matmuls of BF16 tiles, and the layout of their operands. Private to the files
 * that include it.
 *
 * A tile is 16 rows of 64 bytes. A matmul c += a b takes 16 rows of a with 32 terms each, and b in
 * 16 rows of pairs: terms 2 i and 2 i + 1 of all 16 columns side by side. Packed operands consist
 * of whole tiles, one after the other, with zeros where there is no row or no element.
 *
 * AMX reads subnormals as zeros and writes none. Tensors whose products could be subnormal or
 * overflow are called odd: other implementations handle them. Weights have a factor of 2^BOOST, so
 * that those that matter, and their products, are far from subnormal. */
#ifndef TS_ATTENTION_AMX_H
#define TS_ATTENTION_AMX_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "attention_impl.h"
#include "threads.h"
#include "tiles_amx.h"
#include "vec_avx512.h"

enum {
    STRIP = 32,      /* rows and columns of two tiles: what is done at a time */
    TILE = 512,      /* elements of a tile */
    LINE = 64,       /* bytes: to which rows of tiles are aligned */
    BOOST = 40,      /* the exponent of the factor of weights */
    SMALL = 1 << 20, /* products: fewer are done before a second thread wakes up */
};

static const double LOG2_E = 1.4426950408889634, LN_2 = 0.6931471805599453;

/* Strips of a row, and of n rows. */
INLINE int64_t strips(int64_t n)
{
    return ts_ceil_div(n, STRIP);
}

/* exp2(x + BOOST) for x <= 0 and few above it, to 2e-7 of itself; 0 for -inf. */
INLINE vec boosted(vec x)
{
    const vec r = _mm512_reduce_ps(x, 8); /* x less the nearest integer; 0 for -inf */
    vec       e = splat(0x1.5c08e6p30f);
    e = madd(e, r, splat(0x1.3d0c52p33f));
    e = madd(e, r, splat(0x1.c6b6e4p35f));
    e = madd(e, r, splat(0x1.ebf918p37f));
    e = madd(e, r, splat(0x1.62e428p39f));
    e = madd(e, r, splat(0x1p40f));
    return _mm512_scalef_ps(e, sub(x, r));
}

/* Two vecs of floats, side by side. */
INLINE __m512i halves(vec low, vec high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Lanes [begin, end) of 16, of which any may lie outside. */
INLINE __mmask16 lanes(int64_t begin, int64_t end)
{
    const int64_t b = ts_greater(0, ts_lesser(16, begin)), e = ts_greater(0, ts_lesser(16, end));
    return (__mmask16)(((1u << e) - 1) & ~((1u << b) - 1));
}

/* ---- tiles ---- */

/* An operand of two tiles' rows or columns: their n-th tiles are n * step elements on. Rows of a
 * are `stride` elements apart; those of b are packed. */
typedef struct pair {
    const uint16_t *first, *second;
    int64_t         stride, step;
} pair;

/* Rows of 32 terms each, without packing. */
INLINE pair rows_at(const uint16_t *at, int64_t stride)
{
    return (pair) { at, at + 16 * stride, stride, STRIP };
}

/* Packed tiles, `apart` elements from the first to the second. */
INLINE pair tiles_at(const uint16_t *at, int64_t apart, int64_t step)
{
    return (pair) { at, at + apart, 32, step };
}

/* c = a b, or c += a b: 32 rows, ldc floats apart, of 32 columns; n tiles of terms. Out of line,
 * where all of its pointers find registers. */
__attribute__((noinline)) static void product(float *c, int64_t ldc, bool add_to, const pair *x,
                                              const pair *y, int64_t n)
{
    const int64_t   row = ldc * (int64_t)sizeof *c, stride = x->stride * 2;
    const int64_t   a_step = x->step, b_step = y->step;
    const uint16_t *a = x->first, *a_below = x->second, *b = y->first, *b_beside = y->second;
    float *const    below = c + 16 * ldc;
    settle();
    if (add_to) {
        _tile_loadd(0, c, row);
        _tile_loadd(1, c + 16, row);
        _tile_loadd(2, below, row);
        _tile_loadd(3, below + 16, row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (; n > 0; n--) {
        _tile_loadd(4, a, stride);
        _tile_loadd(6, b, 64);
        _tile_loadd(7, b_beside, 64);
        _tile_loadd(5, a_below, stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        a += a_step, a_below += a_step, b += b_step, b_beside += b_step;
    }
    _tile_stored(0, c, row);
    _tile_stored(1, c + 16, row);
    _tile_stored(2, below, row);
    _tile_stored(3, below + 16, row);
    settle();
}

/* ---- rows of a head ---- */

typedef struct head {
    const uint16_t *at;
    int64_t         stride, n, dim; /* elements, rows, elements of a row */
    const float    *lse;            /* rows with -inf here are zeros; or NULL */
} head;

INLINE head head_of(const ts_attention_dims *d, const void *tensor, int64_t n_head, int64_t n,
                    int64_t b, int64_t h)
{
    return (head) { (const uint16_t *)tensor + ts_attention_row(d, n_head, n, b, h, 0),
                    ts_attention_stride(d, n_head), n, d->head_dim, NULL };
}

/* Elements [c, c + 32) of row j. */
INLINE __m512i part(const head *h, int64_t j, int64_t c)
{
    const int64_t n = ts_lesser(STRIP, h->dim - c);
    if (j >= h->n || n <= 0 || (h->lse && h->lse[j] == -INFINITY)) return _mm512_setzero_si512();
    return _mm512_maskz_loadu_epi16(~0u >> (STRIP - n), h->at + j * h->stride + c);
}

/* Which elements are neither 0, nor of a magnitude in 2^-60 .. 2^20, nor infinite or NaN. */
INLINE __mmask32 odd_ones(__m512i x)
{
    enum { LEAST = (127 - 60) << 7, MOST = (127 + 20) << 7, INF = 255 << 7 };
    const __m512i size = _mm512_and_si512(x, _mm512_set1_epi16(0x7fff));
    const __m512i over = _mm512_sub_epi16(size, _mm512_set1_epi16((short)MOST));
    const __m512i under = _mm512_sub_epi16(size, _mm512_set1_epi16(1));
    return _mm512_cmplt_epu16_mask(over, _mm512_set1_epi16((short)(INF - MOST))) |
           _mm512_cmplt_epu16_mask(under, _mm512_set1_epi16(LEAST - 1));
}

INLINE bool odd_scale(double scale)
{
    return scale != 0 && !(fabs(scale) >= 0x1p-60 && fabs(scale) <= 0x1p60);
}

/* Elements of two vecs, taken in turn, from element `from` of both. */
INLINE __m512i in_turn(__m512i x, __m512i y, int from)
{
    const __m512i i = _mm512_set_epi32(0x2f000f, 0x2e000e, 0x2d000d, 0x2c000c, 0x2b000b, 0x2a000a,
                                       0x290009, 0x280008, 0x270007, 0x260006, 0x250005, 0x240004,
                                       0x230003, 0x220002, 0x210001, 0x200000);
    return _mm512_permutex2var_epi16(x, _mm512_add_epi16(i, _mm512_set1_epi16((short)from)), y);
}

/* Every second element of two vecs, from the first or the second. */
INLINE __m512i every_other(__m512i x, __m512i y, int from)
{
    const __m512i i = _mm512_set_epi32(0x3e003c, 0x3a0038, 0x360034, 0x320030, 0x2e002c, 0x2a0028,
                                       0x260024, 0x220020, 0x1e001c, 0x1a0018, 0x160014, 0x120010,
                                       0xe000c, 0xa0008, 0x60004, 0x20000);
    return _mm512_permutex2var_epi16(x, _mm512_add_epi16(i, _mm512_set1_epi16((short)from)), y);
}

/* ---- packing a strip of rows, from row j on: strips(dim) * 2 tiles each; what was odd ---- */

/* As b of products over elements: for each 16 rows, tiles along the elements. */
INLINE __mmask32 pack_across(uint16_t *to, const head *h, int64_t j)
{
    __mmask32 odd = 0;
    for (int64_t half = 0; half < 2; half++)
        for (int64_t c = 0; c < h->dim; c += STRIP, to += TILE) {
            __m512i x[16];
            for (int i = 0; i < 16; i++) {
                x[i] = part(h, j + half * 16 + i, c);
                odd |= odd_ones(x[i]);
            }
            turn(x);
            for (int i = 0; i < 16; i++) _mm512_store_si512(to + i * 32, x[i]);
        }
    return odd;
}

/* As b of products over rows: a tile for each 16 elements. With `finite`, what is not is 0. */
INLINE __mmask32 pack_along(uint16_t *to, const head *h, int64_t j, bool finite)
{
    const __m512i inf = _mm512_set1_epi16(255 << 7);
    __mmask32     odd = 0;
    for (int64_t c = 0; c < h->dim; c += STRIP, to += 2 * TILE)
        for (int64_t i = 0; i < 16; i++) {
            __m512i x = part(h, j + 2 * i, c), y = part(h, j + 2 * i + 1, c);
            odd |= odd_ones(x) | odd_ones(y);
            if (finite) { /* all bits of the exponent set: it is not */
                x = _mm512_maskz_mov_epi16(_mm512_cmpneq_epi16_mask(_mm512_and_si512(x, inf), inf),
                                           x);
                y = _mm512_maskz_mov_epi16(_mm512_cmpneq_epi16_mask(_mm512_and_si512(y, inf), inf),
                                           y);
            }
            _mm512_store_si512(to + i * 32, in_turn(x, y, 0));
            _mm512_store_si512(to + TILE + i * 32, in_turn(x, y, 16));
        }
    return odd;
}

/* As a of products over rows: a tile for each 16 elements, whose rows they are. */
INLINE __mmask32 pack_turned(uint16_t *to, const head *h, int64_t j)
{
    __mmask32 odd = 0;
    for (int64_t c = 0; c < h->dim; c += STRIP, to += 2 * TILE) {
        __m512i x[16], y[16];
        for (int i = 0; i < 16; i++) {
            x[i] = part(h, j + i, c), y[i] = part(h, j + 16 + i, c);
            odd |= odd_ones(x[i]) | odd_ones(y[i]);
        }
        turn(x);
        turn(y);
        for (int i = 0; i < 16; i++) {
            _mm512_store_si512(to + 2 * i * 32, every_other(x[i], y[i], 0));
            _mm512_store_si512(to + (2 * i + 1) * 32, every_other(x[i], y[i], 1));
        }
    }
    return odd;
}

/* Unpacked, in rows of strips(dim) strips. */
INLINE __mmask32 copy_rows(uint16_t *to, const head *h, int64_t j)
{
    __mmask32 odd = 0;
    for (int64_t i = 0; i < STRIP; i++)
        for (int64_t c = 0; c < h->dim; c += STRIP, to += STRIP) {
            const __m512i x = part(h, j + i, c);
            odd |= odd_ones(x);
            _mm512_store_si512(to, x);
        }
    return odd;
}

/* n floats times `by`, as BF16. */
INLINE void store_bf16(uint16_t *to, const float *from, int64_t n, vec by)
{
    for (int64_t c = 0; c < n; c += LANES)
        _mm256_mask_storeu_epi16(to + c, lanes(0, n - c), to_bf16(mul(get(from + c), by)));
}

/* ---- threads and memory ---- */

/* As many as there is work for, and as scratch fits in `room` floats; 0 where not even one does. */
INLINE int64_t threads_for(const ts_attention_dims *d, const ts_exec *x, int64_t n_pieces,
                           int64_t room, int64_t scratch)
{
    const int64_t n = ts_threads(x);
    const double  work = (double)d->n_batch * (double)d->n_q_head * (double)d->n_q *
                        (double)d->head_dim * (double)d->n_k;
    return ts_lesser(work < SMALL ? 1 : ts_lesser(n, n_pieces), room / scratch);
}

INLINE float *aligned(const ts_exec *x)
{
    return (float *)(void *)((char *)x->workspace + (LINE - (uintptr_t)x->workspace % LINE));
}

#endif

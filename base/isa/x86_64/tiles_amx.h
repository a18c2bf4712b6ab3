/* SPDX-License-Identifier: Apache-2.0 */
/* tiles_amx.h - the tile registers of AMX: eight, of up to 16 rows of 64 bytes.
 *
 * A matmul c += a b takes a row of c and one of a for each other; b has the terms of 16 columns
 * side by side, 4 bytes of each in a row. */
#ifndef TS_BASE_TILES_AMX_H
#define TS_BASE_TILES_AMX_H

#include <immintrin.h>
#include <stdint.h>

#include "unroll.h"

/* gcc's loads do not say that they read memory. */
INLINE void settle(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Of the calling thread: tiles 0 to 5, for sums and left factors, have n_rows rows, tiles 6 and 7,
 * for right factors, 16. */
INLINE void take_tiles(int n_rows)
{
    struct {
        uint8_t  palette, start, none[14];
        uint16_t n_bytes[16];
        uint8_t  n_rows[16];
    } shape = { .palette = 1 };
    for (int i = 0; i < 8; i++) shape.n_bytes[i] = 64, shape.n_rows[i] = (uint8_t)n_rows;
    shape.n_rows[6] = shape.n_rows[7] = 16;
    settle();
    _tile_loadconfig(&shape);
}

INLINE void leave_tiles(void)
{
    _tile_release();
}

/* 16 rows of 16 words become columns. */
INLINE void turn(__m512i x[16])
{
    __m512i t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        x[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        x[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        x[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        x[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

#endif
